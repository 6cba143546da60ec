"""Runs the program under test, whose path is the first argument of every test here."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
DEMO = ROOT / "models" / "demo" / "soli-demo-16x2-q8_0.gguf"
MIXTRAL = GOLDEN / "mixtral" / "model.gguf"  # tiny, F32, SentencePiece

DONE, ERROR, USAGE, INTERRUPTED = 0, 1, 2, 130
TIMEOUT_S = 300


def program():
    return sys.argv[1]


def environment(**changes):
    """The environment of a child. What a developer has set must not change what is tested."""
    env = {key: value for key, value in os.environ.items() if key not in ("SOLI_ISA", "XDG_STATE_HOME")}
    env.update(changes)
    return env


class Outcome:
    def __init__(self, completed):
        self.status = completed.returncode
        self.out = completed.stdout
        self.err = completed.stderr

    @property
    def text(self):
        return self.out.decode("utf-8")

    @property
    def message(self):
        return self.err.decode("utf-8", errors="replace")

    @property
    def json(self):
        return json.loads(self.out)


def soli(*arguments, stdin=b"", stdout=subprocess.PIPE, env=None):
    """One run to its end, with standard input from memory, so not a terminal."""
    command = [program()] + [str(argument) for argument in arguments]
    return Outcome(
        subprocess.run(
            command, input=stdin, stdout=stdout, stderr=subprocess.PIPE, env=env or environment(), timeout=TIMEOUT_S
        )
    )


def interrupt_when_handled(child, delay_s=0, number=signal.SIGINT):
    """Sends Ctrl-C, or another signal, so long after the program handles it: once it has loaded or begun to write."""
    status = pathlib.Path(f"/proc/{child.pid}/status")
    while child.poll() is None:
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
        if int(caught.split()[1], 16) >> (number - 1) & 1:
            break
        time.sleep(0.005)
    time.sleep(delay_s)
    child.send_signal(number)
    return child.communicate(timeout=TIMEOUT_S)


class CliTest(unittest.TestCase):
    """Assertions that show the whole outcome when they fail."""

    def check(self, outcome, status, *parts):
        """The exit status, and parts of the message on stderr."""
        shown = f"status {outcome.status}\nout: {outcome.out!r:.2000}\nerr: {outcome.message:.2000}"
        self.assertEqual(outcome.status, status, shown)
        for part in parts:
            self.assertIn(str(part), outcome.message, shown)
        return outcome

    def run_ok(self, *arguments, **options):
        return self.check(soli(*arguments, **options), DONE)

    def folder(self):
        """A folder that is removed when the test ends."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)


def main():
    unittest.main(argv=[sys.argv[0]] + sys.argv[2:], verbosity=2)
