"""An HTTP/1.1 client for load and soak: one request at a time on a connection, with the time of every event.

Times are those of time.monotonic(), in seconds, taken when the bytes were read from the socket. Events that come in one
read have one time. Nothing is retried, but for a kept connection that the server has closed meanwhile.
"""

import asyncio
import contextlib
import json
import socket
import struct
import time
import urllib.parse

READ_BYTES = 64 << 10
HEAD_BYTES_MAX = 64 << 10


class ProtocolError(Exception):
    """The server said what HTTP or its event streams do not allow, or ended too early."""


class Answer:
    """The status, header fields (lower case) and body of an answer; for a stream, its events with their times."""

    def __init__(self, status, fields):
        self.status = status
        self.fields = fields
        self.body = b""
        self.events = []  # (seconds, payload) of a text/event-stream
        self.is_whole = False
        self.head_s = None  # when the head had been read
        self.end_s = None

    @property
    def is_stream(self):
        return self.fields.get("content-type", "").startswith("text/event-stream")

    def json(self):
        return json.loads(self.body)

    def chunks(self):
        """The objects of a stream, without its [DONE]."""
        return [json.loads(payload) for _, payload in self.events if payload != "[DONE]"]


class Pace:
    """How a client reads: at most so many bytes at a time, with a pause after each."""

    def __init__(self, n_bytes=READ_BYTES, pause_s=0.0):
        self.n_bytes = n_bytes
        self.pause_s = pause_s


class Connection:
    """A connection to the server; for one task."""

    def __init__(self, reader, writer, host):
        self._reader = reader
        self._writer = writer
        self._host = host
        self._buffer = bytearray()
        self._pace = Pace()
        self.is_open = True
        self.read_s = 0.0

    @classmethod
    async def open(cls, address, receive_bytes=None):
        """`receive_bytes`: what the kernel may hold for a client that does not read; None: its default."""
        host, port = address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        client = socket.socket(family, socket.SOCK_STREAM)
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if receive_bytes:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            await asyncio.get_running_loop().sock_connect(client, (host, port))
            # What asyncio reads ahead is bounded too, or a slow reader would not be one.
            limit = receive_bytes // 2 if receive_bytes else READ_BYTES
            reader, writer = await asyncio.open_connection(sock=client, limit=limit)
        except BaseException:
            client.close()
            raise
        return cls(reader, writer, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    def close(self):
        self.is_open = False
        self._writer.close()

    def reset(self):
        """Leaves without a word: the server gets a RST."""
        self.is_open = False
        client = self._writer.get_extra_info("socket")
        if client is not None:
            with contextlib.suppress(OSError):
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def send(self, method, path, body=None, key=None, fields=None):
        """`body`: an object that becomes JSON, or bytes."""
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        head = [f"{method} {path} HTTP/1.1", f"Host: {self._host}"]
        if body is not None:
            head += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
        if key:
            head.append(f"Authorization: Bearer {key}")
        head += [f"{name}: {value}" for name, value in (fields or {}).items()]
        await self.send_bytes("\r\n".join(head).encode() + b"\r\n\r\n" + data)

    async def send_bytes(self, data):
        self._writer.write(data)
        await self._writer.drain()

    async def read_answer(self, on_event=None, pace=None):
        """The whole answer. `on_event(answer)` is called after each event; what it says is False ends the reading,
        and the connection is of no use any more."""
        self._pace = pace or Pace()
        answer = await self._read_head()
        while answer.status == 100:
            answer = await self._read_head()
        if answer.is_stream:
            await self._read_events(answer, on_event)
        else:
            answer.body = b"".join([piece async for piece in self._pieces(answer)])
        answer.end_s = self.read_s
        if not answer.is_whole or answer.fields.get("connection", "").lower() == "close":
            self.close()
        return answer

    async def _fill(self):
        if self._pace.pause_s:
            await asyncio.sleep(self._pace.pause_s)
        data = await self._reader.read(self._pace.n_bytes)
        self.read_s = time.monotonic()
        self._buffer += data
        return bool(data)

    async def _read_head(self):
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if len(self._buffer) > HEAD_BYTES_MAX:
                raise ProtocolError(f"a head of more than {HEAD_BYTES_MAX} bytes")
            if not await self._fill():
                raise ProtocolError("the connection ended before an answer")
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        version, _, rest = lines[0].partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
            raise ProtocolError(f"not the first line of an answer: {lines[0][:100]!r}")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        answer = Answer(int(rest[:3]), fields)
        answer.head_s = self.read_s
        return answer

    async def _pieces(self, answer):
        """The body as it comes. Sets is_whole at its end."""
        if answer.fields.get("transfer-encoding", "").lower() == "chunked":
            while (size := await self._chunk_size()) > 0:
                yield await self._exactly(size)
                if await self._exactly(2) != b"\r\n":
                    raise ProtocolError("a chunk without its end")
            if await self._exactly(2) != b"\r\n":
                raise ProtocolError("fields after the last chunk")
            answer.is_whole = True
        elif "content-length" in answer.fields:
            yield await self._exactly(int(answer.fields["content-length"]))
            answer.is_whole = True
        elif answer.status in (204, 304):
            answer.is_whole = True
        else:
            while self._buffer or await self._fill():
                piece = bytes(self._buffer)
                self._buffer.clear()
                yield piece
            self.is_open = False
            answer.is_whole = True

    async def _chunk_size(self):
        while (end := self._buffer.find(b"\r\n")) < 0:
            if not await self._fill():
                raise ProtocolError("the answer ended within its body")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        try:
            return int(line, 16)
        except ValueError:
            raise ProtocolError(f"not the size of a chunk: {line[:40]!r}") from None

    async def _exactly(self, n):
        while len(self._buffer) < n:
            if not await self._fill():
                raise ProtocolError("the answer ended within its body")
        data = bytes(self._buffer[:n])
        del self._buffer[:n]
        return data

    async def _read_events(self, answer, on_event):
        text = b""
        async for piece in self._pieces(answer):
            text += piece
            while b"\n\n" in text:
                block, _, text = text.partition(b"\n\n")
                payload = payload_of(block.decode("utf-8"))
                if payload is None:
                    continue
                answer.events.append((self.read_s, payload))
                if on_event is not None and on_event(answer) is False:
                    return
        if text:
            raise ProtocolError(f"the stream ended within an event: {text[:100]!r}")


def payload_of(block):
    """The payload of an event; None: a comment."""
    lines = [line for line in block.split("\n") if line and not line.startswith(":")]
    if not lines:
        return None
    if len(lines) != 1 or not lines[0].startswith("data: "):
        raise ProtocolError(f"not an event with one line of data: {block[:100]!r}")
    return lines[0][len("data: ") :]


def address_of(url):
    """Host, port and path before the API's, of such as http://127.0.0.1:8080."""
    parts = urllib.parse.urlsplit(url if "//" in url else "http://" + url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is no http:// address (TLS is not spoken here)")
    path = parts.path.rstrip("/")
    return (parts.hostname, parts.port or 80), path[: -len("/v1")] if path.endswith("/v1") else path


async def resolve(address):
    """The address with a number instead of a name."""
    host, port = address
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return found[0][4][0], port


async def ask(address, method, path, body=None, key=None, timeout_s=60):
    """One request on a connection of its own."""

    async def talk():
        connection = await Connection.open(address)
        try:
            await connection.send(method, path, body, key)
            return await connection.read_answer()
        finally:
            connection.close()

    return await asyncio.wait_for(talk(), timeout_s)


async def metrics(address, key=None):
    """Values of /metrics by name with labels."""
    answer = await ask(address, "GET", "/metrics", key=key)
    if answer.status != 200:
        raise ProtocolError(f"/metrics answered {answer.status}")
    lines = [line for line in answer.body.decode().splitlines() if line and not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def total(values, name, label=""):
    """The sum over the series of a name, of those with a label such as 'result="hit"'."""
    return sum(value for key, value in values.items() if key.split("{")[0] == name and label in key)
