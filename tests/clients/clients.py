"""Runs the clients that people use, openai and @ai-sdk/openai-compatible of npm, against the real server.

    tests/clients/clients.py build/release/src/soli

Installs what package-lock.json names into build/clients, once. Exits with 77 where that cannot be done: node or npm is
missing, the registry cannot be reached, or SOLI_OFFLINE is set.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from server import Server  # noqa: E402  (the path is set above)

OUT = HERE.parents[1] / "build" / "clients"
SKIPPED = 77
KEY = "key-for-the-clients"
TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}[assistant] "


def skip(why):
    print(f"clients.py: skipped: {why}")
    sys.exit(SKIPPED)


def install():
    """The folder with node_modules, as the lock file has them."""
    lock = (HERE / "package-lock.json").read_bytes()
    stamp = OUT / "INSTALLED"
    if not stamp.is_file() or stamp.read_bytes() != lock:
        if os.environ.get("SOLI_OFFLINE"):
            skip("SOLI_OFFLINE is set")
        for tool in ("node", "npm"):
            if shutil.which(tool) is None:
                skip(f"{tool} is not installed")
        shutil.rmtree(OUT, ignore_errors=True)
        OUT.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, OUT)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
        done = subprocess.run(command, cwd=OUT, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            skip(f"npm ci failed: is the registry reachable?\n{done.stderr}")
        stamp.write_bytes(lock)
    for script in HERE.glob("*.mjs"):
        shutil.copy(script, OUT)
    return OUT


def main():
    folder = install()
    failed = []
    with tempfile.TemporaryDirectory() as name:
        template, keys = pathlib.Path(name) / "chat.jinja", pathlib.Path(name) / "keys"
        template.write_text(TEMPLATE)
        keys.write_text(f"{KEY} clients\n")
        server = Server("--ctx", "4096", "--template", template, "--api-key-file", keys, "--model-id", "demo")
        try:
            for script in ("openai.mjs", "ai_sdk.mjs"):
                command = ["node", script, f"http://{server.host}:{server.port}/v1", KEY]
                done = subprocess.run(command, cwd=folder, timeout=120, check=False)
                print(f"{script}: {'ok' if done.returncode == 0 else 'FAILED'}")
                if done.returncode != 0:
                    failed.append(script)
        finally:
            server.stop()
    if failed:
        print("\n".join(server.lines))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
