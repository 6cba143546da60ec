"""Many clients, clients that leave, clients that do not read."""

import json
import resource
import socket
import time

from program import CliTest, main
from server import Server, endless, events_of, post, read_all, status_of, unchunked


def text_of(payloads):
    return "".join(json.loads(payload)["choices"][0]["text"] for payload in payloads)


class LeavingTest(CliTest):
    @classmethod
    def setUpClass(cls):
        # Two at once, so that a third one waits.
        cls.server = Server("--ctx", "8192", "--parallel", "2", "--max-queued", "2")

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def begin(self, body):
        client = self.server.connect()
        client.sendall(post("/v1/completions", body).encode())
        return client

    def wait_for(self, running, waiting):
        self.server.wait_for_metric("soli_num_requests_running", running)
        self.server.wait_for_metric("soli_num_requests_waiting", waiting)

    def test_who_leaves_frees_the_row(self):
        for stream in (False, True):
            for reset in (False, True):
                client = self.begin(endless(stream=stream, max_tokens=8000))
                self.wait_for(1, 0)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                client.close()
                self.wait_for(0, 0)
        deadline = time.monotonic() + 30
        while sum(1 for entry in self.server.log() if entry.get("client_left")) < 4:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_leaving_in_the_queue_and_while_a_long_prompt_is_read(self):
        long_prompt = endless(prompt=[7] * 8000, max_tokens=10)
        alone = self.server.complete(endless(max_tokens=200))["choices"][0]["text"]
        running = [self.begin(endless(stream=True, max_tokens=8000)) for _ in range(2)]
        self.wait_for(2, 0)
        waiting = [self.begin(body) for body in (endless(), long_prompt)]
        self.wait_for(2, 2)
        # The queue is full.
        status, headers, body = self.server.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1})
        self.assertEqual((status, headers["Retry-After"]), (429, "1"), body)
        waiting[0].close()
        self.wait_for(2, 1)
        running[0].close()
        self.server.wait_for_metric("soli_num_requests_waiting", 0)
        waiting[1].close()
        self.wait_for(1, 0)
        # The neighbour's text is what it would have been.
        self.assertEqual(self.server.complete(endless(max_tokens=200))["choices"][0]["text"], alone)
        running[1].close()
        self.wait_for(0, 0)


class SlowReaderTest(CliTest):
    def test_a_slow_reader_holds_up_nobody_and_gets_everything(self):
        server = Server("--ctx", "8192", "--write-timeout", "120")
        try:
            body = endless(stream=True, max_tokens=3000)
            expected = server.complete(endless(max_tokens=3000))["choices"][0]["text"]
            slow = [server.connect(receive_bytes=4096) for _ in range(4)]
            for client in slow:
                client.sendall(post("/v1/completions", body, "Connection: close\r\n").encode())
            server.wait_for_metric("soli_num_requests_running", 4)
            quick = server.complete({"prompt": "The sea", "max_tokens": 20, "temperature": 0})
            self.assertLessEqual(quick["usage"]["completion_tokens"], 20)
            # Their rows are paused: nothing is made that nobody takes.
            self.wait_until_it_stands_still(server)
            self.assertEqual(server.metric("soli_num_requests_running"), 4)
            for client in slow:
                stream, is_whole = unchunked(read_all(client).partition(b"\r\n\r\n")[2])
                client.close()
                self.assertTrue(is_whole)
                *payloads, done = events_of(stream.decode())
                self.assertEqual((done, text_of(payloads)), ("[DONE]", expected))
        finally:
            server.stop()

    def wait_until_it_stands_still(self, server):
        n_before = -1
        while (n := server.metric("soli_generation_tokens_total")) != n_before:
            n_before = n
            time.sleep(0.3)

    def test_one_that_reads_nothing_is_cut_off(self):
        server = Server("--ctx", "8192", "--write-timeout", "0.5")
        try:
            client = server.connect(receive_bytes=4096)
            client.sendall(post("/v1/completions", endless(stream=True, max_tokens=8000)).encode())
            entry = server.wait_for_log(lambda entry: entry["path"] == "/v1/completions")
            self.assertEqual((entry["client_left"], entry["outcome"]), (True, "abort"))
            server.wait_for_metric("soli_num_requests_running", 0)
            client.close()
        finally:
            server.stop()


class CrowdTest(CliTest):
    N_IDLE = 1000
    MAX_BYTES = 30 << 20

    def test_idle_connections_cost_little(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = self.N_IDLE + 100
        if hard < needed:
            self.skipTest(f"{hard} open files are allowed; {needed} are needed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
        server = Server()
        try:
            server.complete({"prompt": "The sea", "max_tokens": 5})
            before = server.resident_bytes()
            clients = [server.connect() for _ in range(self.N_IDLE)]
            for client in clients:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            for client in clients:
                answer = b""
                while not answer.endswith(b"}"):
                    answer += client.recv(4096)
                self.assertEqual(status_of(answer), 200)
            self.assertEqual(server.metric("soli_http_connections"), self.N_IDLE + 1)
            cost = server.resident_bytes() - before
            self.assertLess(cost, self.MAX_BYTES)
            print(f"{self.N_IDLE} idle connections cost {cost / self.N_IDLE / 1024:.1f} KiB each")
            for client in clients:
                client.close()
            server.wait_for_metric("soli_http_connections", 1)
        finally:
            server.stop()

    def test_connections_beyond_the_limit(self):
        server = Server("--max-connections", "4", "--no-access-log")
        try:
            held = []
            for _ in range(4):
                client = server.connect()
                client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                client.recv(4096)
                held.append(client)
            answer = server.say("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertEqual(status_of(answer), 503, answer)
            self.assertIn(b"Retry-After: 1\r\n", answer)
            for client in held:
                client.close()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
