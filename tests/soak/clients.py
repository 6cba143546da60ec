"""Clients as a server meets them: patient ones, slow ones, leaving ones, hostile ones, and crowds."""

import asyncio
import random
import time

import client
import hostile
from work import EMBEDDING, KEYS

PATIENCE_S = 180  # no answer takes as long, or the server hangs
RETRY_S = 0.1


class Crowd:
    """Runs clients against a server and enters what they got in a ledger. `fault(text)` is told what was wrong."""

    def __init__(self, address, works, seed, ledger, fault):
        self.address = address
        self.works = works
        self.random = random.Random(seed)
        self.ledger = ledger
        self.fault = fault
        self.done = {}
        self.kept = []  # connections that wait for their next request
        self.flooding = asyncio.Lock()  # two floods at once would be more connections than the server allows

    async def run(self, n_clients, seconds, may_leave):
        end = time.monotonic() + seconds

        async def live():
            while time.monotonic() < end:
                await self.act(may_leave)

        try:
            await asyncio.gather(*(live() for _ in range(n_clients)))
        finally:
            for connection in self.kept:
                connection.close()
            self.kept.clear()

    async def act(self, may_leave):
        kinds = {self.plain: 25, self.stream: 30, self.slow_stream: 5, self.burst: 3, self.malformed: 20}
        if may_leave:
            kinds.update({self.leave_stream: 20, self.leave_plain: 15, self.leave_within_a_request: 5, self.flood: 1})
        action = self.random.choices(list(kinds), list(kinds.values()))[0]
        name = action.__name__
        self.done[name] = self.done.get(name, 0) + 1
        try:
            await asyncio.wait_for(action(), PATIENCE_S)
        except asyncio.TimeoutError:
            self.fault(f"{name}: no end within {PATIENCE_S} s")
        except (OSError, client.ProtocolError, ValueError, KeyError) as error:
            self.fault(f"{name}: {type(error).__name__}: {error}")

    def pick(self, *, must_stream=False):
        while True:
            work = self.random.choice(self.works)
            if work.can_stream or not must_stream:
                return work

    async def connection(self):
        """A kept one, or a new one."""
        while self.kept and self.random.random() < 0.7:
            connection = self.kept.pop()
            if connection.is_open:
                return connection
        return await client.Connection.open(self.address)

    def keep(self, connection):
        if connection.is_open and len(self.kept) < 16:
            self.kept.append(connection)
        else:
            connection.close()

    async def complete(self, work, body, connection, pace=None):
        """A request to its end, which begins again while the queue is full."""
        key = self.random.choice(work.keys)
        n_events = [0]

        def on_event(answer):
            n_events[0] = len(answer.events)

        while True:
            try:
                await connection.send("POST", work.path, body, key)
                answer = await connection.read_answer(on_event, pace)
            except asyncio.CancelledError:
                self.fault(f"{body} had no end; {n_events[0]} events had come")
                self.ledger.broken_off(work, 0)
                connection.close()
                raise
            self.ledger.saw(answer.status)
            if answer.status != 429:
                break
            if "retry-after" not in answer.fields:
                self.fault("429 without Retry-After")
            await asyncio.sleep(RETRY_S * self.random.uniform(1, 5))
        if answer.status != 200:
            connection.close()
            self.fault(f"{body} was answered with {answer.status}: {answer.body[:500]!r}")
            return
        fault = work.fault_of(answer)
        if fault:
            self.fault(fault)
        usage = answer.chunks()[-1]["usage"] if answer.is_stream else answer.json()["usage"]
        self.ledger.answered(work, usage)
        self.keep(connection)

    async def plain(self):
        work = self.pick()
        await self.complete(work, work.body, await self.connection())

    async def stream(self):
        work = self.pick(must_stream=True)
        await self.complete(work, work.stream_body(), await self.connection())

    async def slow_stream(self):
        """Reads little at a time, with small buffers, so that the server has to wait for it."""
        work = self.pick(must_stream=True)
        connection = await client.Connection.open(self.address, receive_bytes=4096)
        await self.complete(work, work.stream_body(), connection, client.Pace(2048, 0.02))

    async def burst(self):
        """Some that begin alike, at one moment."""
        first = self.pick(must_stream=True)
        works = [work for work in self.works if work.can_stream and str(work.body)[:40] == str(first.body)[:40]]
        works = (works * 8)[:8]
        connections = [await client.Connection.open(self.address) for _ in works]
        await asyncio.gather(
            *(self.complete(work, work.stream_body(), c) for work, c in zip(works, connections))
        )

    async def flood(self):
        """More at one moment than may wait; most of them leave again."""
        async with self.flooding:
            await self.send_flood(self.pick(must_stream=True))

    async def send_flood(self, work):
        connections = await asyncio.gather(*(client.Connection.open(self.address) for _ in range(100)))
        for connection in connections:
            await connection.send("POST", work.path, work.body, self.random.choice(work.keys))
        await asyncio.gather(*(self.read_or_leave(work, connection) for connection in connections))

    async def read_or_leave(self, work, connection):
        if self.random.random() < 0.8:
            await self.go(work, connection, self.random.uniform(0, 0.3))
            return
        answer = await connection.read_answer()
        connection.close()
        self.ledger.saw(answer.status)
        if answer.status == 429:
            return
        if answer.status != 200:
            self.fault(f"{work.body} was answered with {answer.status}: {answer.body[:500]!r}")
        else:
            if fault := work.fault_of(answer):
                self.fault(fault)
            self.ledger.answered(work, answer.json()["usage"])

    async def malformed(self):
        if self.random.random() < 0.5:
            path, body, status = self.random.choice(hostile.BODIES)
            await self.refused(path, body, status)
            return
        data, status = self.random.choice(hostile.HEADS)
        connection = await client.Connection.open(self.address)
        try:
            try:
                await connection.send_bytes(data)
            except ConnectionError:
                pass  # it has answered already
            answer = await connection.read_answer()
        except ConnectionResetError:
            return  # the answer was lost, since more was sent than was read
        finally:
            connection.close()
        if answer.status != status:
            self.fault(f"{data[:100]!r} was answered with {answer.status} and not {status}")

    async def refused(self, path, body, status):
        connection = await client.Connection.open(self.address)
        try:
            try:
                await connection.send("POST", path, body, self.random.choice(KEYS))
            except ConnectionError:
                pass
            answer = await connection.read_answer()
        except ConnectionResetError:
            return
        finally:
            connection.close()
        if answer.status != status or "error" not in answer.json():
            what = f"{answer.status} and not {status}: {answer.body[:300]!r}"
            self.fault(f"{path} {body[:100]!r} was answered with {what}")

    async def leave_stream(self):
        """Reads some of a stream and goes, with or without a word."""
        work = self.pick(must_stream=True)
        connection = await client.Connection.open(self.address)
        n_events = self.random.randrange(0, 30)
        key = self.random.choice(work.keys)
        await connection.send("POST", work.path, work.stream_body(), key)
        if n_events == 0:
            await self.go(work, connection, 0)
            return
        answer = await connection.read_answer(on_event=lambda answer: len(answer.events) < n_events)
        connection.close() if self.random.random() < 0.5 else connection.reset()
        if answer.status == 429:
            self.ledger.saw(429)
            return
        if answer.status != 200:
            self.fault(f"{work.body} was answered with {answer.status}: {answer.body[:500]!r}")
            return
        if fault := work.fault_of_part(answer):
            self.fault(fault)
        n_texts = sum(1 for chunk in answer.chunks() for choice in chunk["choices"] if has_new_text(choice))
        if "echo" in work.body:
            n_texts = 0  # its events are those of the prompt too
        self.ledger.broken_off(work, n_texts)

    async def leave_plain(self):
        work = self.pick()
        connection = await client.Connection.open(self.address)
        await connection.send("POST", work.path, work.body, self.random.choice(work.keys))
        await self.go(work, connection, self.random.expovariate(1 / 0.1))

    async def go(self, work, connection, seconds):
        await asyncio.sleep(seconds)
        connection.close() if self.random.random() < 0.5 else connection.reset()
        self.ledger.broken_off(work, 0)

    async def leave_within_a_request(self):
        """The body never comes."""
        connection = await client.Connection.open(self.address)
        await connection.send_bytes(
            f"POST {EMBEDDING} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEYS[0]}\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{".encode()
        )
        await asyncio.sleep(self.random.uniform(0, 0.2))
        connection.close()

    def long_streams(self, n):
        """Tasks of streams, and a future that is set when each has had its first event."""
        loop = asyncio.get_running_loop()
        begun = loop.create_future()
        works = sorted((work for work in self.works if work.can_stream), key=lambda work: -work.generated_tokens)[:n]
        waiting = set(range(len(works)))

        def has_begun(i):
            waiting.discard(i)
            if not waiting and not begun.done():
                begun.set_result(None)

        async def read(i, work):
            connection = await client.Connection.open(self.address, receive_bytes=4096)
            try:
                await connection.send("POST", work.path, work.stream_body(), KEYS[0])
                answer = await connection.read_answer(on_event=lambda _: has_begun(i), pace=client.Pace(2048, 0.01))
                if answer.status != 200:
                    self.fault(f"{work.body} was answered with {answer.status} before the end of the server")
                elif fault := work.fault_of(answer):
                    self.fault(f"at the end of the server: {fault}")
            except (OSError, client.ProtocolError) as error:
                self.fault(f"at the end of the server: {type(error).__name__}: {error}")
            finally:
                has_begun(i)
                connection.close()

        return [asyncio.create_task(read(i, work)) for i, work in enumerate(works)], begun


def has_new_text(choice):
    return bool(choice["text"] if "text" in choice else choice["delta"].get("content"))
