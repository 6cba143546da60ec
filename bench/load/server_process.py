"""A `soli serve` of one's own, on a free port."""

import ctypes
import pathlib
import re
import signal
import subprocess
import threading
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)

START_S = 600  # a large model on a slow disk


class ServerProcess:
    def __init__(self, soli, arguments):
        self.command = [str(soli), "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # nobody is left behind
        )
        self.lines = []  # of standard error
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            listening = self._wait_for("listening on http://")
            host, port = re.search(r"http://(.*):(\d+)", listening).groups()
            self.address = (host.strip("[]"), int(port))
            self._wait_for(" is ready after ")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.decode("utf-8", errors="replace").rstrip("\n"))
                self._changed.notify_all()

    def _wait_for(self, part):
        deadline = time.monotonic() + START_S
        with self._changed:
            while True:
                found = next((line for line in self.lines if part in line), None)
                if found:
                    return found
                if self.process.poll() is not None or time.monotonic() > deadline:
                    said = "\n".join(self.lines[-20:])
                    raise RuntimeError(f"the server did not start: {' '.join(self.command)}\n{said}")
                self._changed.wait(0.1)

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024

    def open_files(self):
        return sum(1 for _ in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir())

    def end(self, timeout_s):
        """SIGTERM; the exit status, or None where it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None
        finally:
            self._reader.join(10)
            self.process.stderr.close()
