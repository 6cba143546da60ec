"""A running `soli serve`, and clients that say exactly what a test wants to be said."""

import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

from program import DEMO, environment, program

PATIENCE_S = 60
END_TOKEN = "2"  # of the demo model
MODEL_ID = "soli-demo-16x2-q8_0"
SYSTEM_HOST = "Host: localhost\r\n"


class Server:
    """Started on a free port. What it writes to standard error is read as it comes."""

    def __init__(self, *arguments, model=DEMO, env=None, wait=True):
        command = [program(), "serve"] + ([str(model)] if model else [])
        command += ["--port", "0"] + [str(argument) for argument in arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env or environment()
        )
        self.lines = []
        self.changed = threading.Condition()
        self.ended = False
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        if wait:
            listening = self.wait_for_line("listening on http://")
            self.host, port = re.search(r"http://(.*):(\d+)", listening).groups()
            self.host = self.host.strip("[]")
            self.port = int(port)
            self.wait_for_line(" is ready after ")

    def _read(self):
        for line in self.process.stderr:
            with self.changed:
                self.lines.append(line.decode("utf-8", errors="replace").rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def wait_for_line(self, part):
        def found():
            return next((line for line in self.lines if part in line), None)

        with self.changed:
            self.changed.wait_for(lambda: found() or self.ended, PATIENCE_S)
            assert found(), f"no line with {part!r} in:\n" + "\n".join(self.lines)
            return found()

    def log(self):
        """The lines of the access log so far, as objects."""
        with self.changed:
            return [json.loads(line) for line in self.lines if line.startswith("{")]

    def wait_for_log(self, condition):
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            entry = next((entry for entry in self.log() if condition(entry)), None)
            if entry:
                return entry
            time.sleep(0.01)
        raise AssertionError(f"not in the log: {self.log()}")

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        status = self.process.wait(timeout=PATIENCE_S)
        self.reader.join(PATIENCE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def stop(self):
        """Ends it if it runs, and gives its exit status."""
        if self.process.poll() is None:
            self.signal()
        return self.wait()

    def connect(self, receive_bytes=None):
        client = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET)
        if receive_bytes:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.settimeout(PATIENCE_S)
        client.connect((self.host, self.port))
        return client

    def say(self, data):
        """The whole answer to some bytes, up to the end of the connection."""
        with self.connect() as client:
            try:
                client.sendall(data.encode("latin-1") if isinstance(data, str) else data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has answered already
            return read_all(client)

    def request(self, method, path, body=None, headers=None):
        """Status, fields and body; a body that is no text is sent as JSON."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            fields = {"Content-Type": "application/json"} if body is not None else {}
            fields.update(headers or {})
            data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
            connection.request(method, path, data, fields)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def complete(self, body, headers=None):
        status, _, answer = self.request("POST", "/v1/completions", body, headers)
        assert status == 200, answer
        return json.loads(answer)

    def metrics(self):
        """Values by name with labels."""
        status, _, text = self.request("GET", "/metrics")
        assert status == 200
        lines = [line for line in text.decode().splitlines() if line and not line.startswith("#")]
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}

    def metric(self, name):
        return sum(value for key, value in self.metrics().items() if key.split("{")[0] == name)

    def wait_for_metric(self, name, value):
        deadline = time.monotonic() + PATIENCE_S
        while self.metric(name) != value:
            assert time.monotonic() < deadline, f"{name} is {self.metric(name)}, and not {value}"
            time.sleep(0.005)

    def resident_bytes(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024


def read_all(client):
    data = b""
    try:
        while more := client.recv(65536):
            data += more
    except ConnectionResetError:
        pass
    return data


def status_of(answer):
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0


def post(path, body, headers=""):
    """A request as it goes over the line."""
    data = body if isinstance(body, str) else json.dumps(body)
    return (
        f"POST {path} HTTP/1.1\r\n{SYSTEM_HOST}Content-Type: application/json\r\n{headers}"
        f"Content-Length: {len(data.encode())}\r\n\r\n{data}"
    )


def endless(**changes):
    """A request that goes on until its limit."""
    body = {"prompt": "The captain", "temperature": 0, "max_tokens": 3000, "logit_bias": {END_TOKEN: -100}}
    body.update(changes)
    return body


def events_of(stream):
    """The payloads of server-sent events; comments are passed over."""
    for block in stream.split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            assert len(lines) == 1 and lines[0].startswith("data: "), block
            yield lines[0][len("data: ") :]


def unchunked(data):
    """The body of a chunked answer, and whether it was whole."""
    body = b""
    while True:
        size, found, rest = data.partition(b"\r\n")
        if not found:
            return body, False
        n = int(size, 16)
        if n == 0:
            return body, True
        if len(rest) < n + 2:
            return body + rest[:n], False
        body += rest[:n]
        data = rest[n + 2 :]


def config_file(folder, text, name="soli.toml"):
    path = pathlib.Path(folder) / name
    path.write_text(text)
    return path


def temporary_folder(test):
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return pathlib.Path(folder.name)
