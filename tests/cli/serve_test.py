"""The server as clients see it: what it answers, in which order, and what it refuses."""

import json
import shutil
import subprocess

from gguf_patch import with_first_float
from program import DONE, MIXTRAL, CliTest, main, soli
from server import MODEL_ID, SYSTEM_HOST, Server, events_of, post, read_all, status_of, unchunked

TEMPLATE = (
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant] "
    "{% endif %}"
)


class ServeTest(CliTest):
    @classmethod
    def setUpClass(cls):
        import server

        holder = CliTest()
        cls.files = server.temporary_folder(holder)
        cls.holder = holder
        template = cls.files / "chat.jinja"
        template.write_text(TEMPLATE)
        cls.server = Server("--ctx", "4096", "--template", template)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.holder.doCleanups()

    def check_alive(self):
        self.assertEqual(self.server.request("GET", "/health")[0], 200)


class HostileTest(ServeTest):
    def refused(self, data, *statuses):
        answer = self.server.say(data)
        self.assertIn(status_of(answer), statuses, (data[:200], answer[:500]))
        body = answer.partition(b"\r\n\r\n")[2]
        self.assertEqual(set(json.loads(body)["error"]), {"message", "type", "param", "code"}, answer)

    def test_heads_that_break_the_rules(self):
        get = "GET /health HTTP/1.1\r\n" + SYSTEM_HOST
        for data, status in [
            ("GET /health HTTP/1.1\r\n\r\n", 400),
            ("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
            (get + "Host: localhost\r\n\r\n", 400),
            (get + "X: " + "a" * 100_000 + "\r\n\r\n", 431),
            (get + "X: a\r\n" * 10_000 + "\r\n", 431),
            ("GET /" + "a" * 100_000 + " HTTP/1.1\r\n" + SYSTEM_HOST + "\r\n", 414),
            (get + "X: a\r b\r\n\r\n", 400),
            (get + "X\x00: a\r\n\r\n", 400),
            (get + ": a\r\n\r\n", 400),
            ("GET /health HTTP/3.0\r\n" + SYSTEM_HOST + "\r\n", 505),
            ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            (get + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
            (get + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400),
            (get + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 501),
            (get + "Transfer-Encoding: chunked\r\n\r\nnonsense\r\n", 400),
        ]:
            self.refused(data, status)
        self.check_alive()

    def test_paths_and_methods(self):
        for path in ["/", "/nothing", "//health", "/./health", "/v1/../health", "/v1/models/../../etc/passwd?x=1"]:
            status = self.server.request("GET", path)[0]
            self.assertEqual(status, 404, path)
        for path in ["/%68ealth", "/health/", "/health%00", "/v1/chat/completions/..%2f..%2fhealth"]:
            self.assertEqual(self.server.request("GET", path)[0], 404, path)
        for method, path, allowed in [
            ("DELETE", "/health", "GET, HEAD, OPTIONS"),
            ("POST", "/metrics", "GET, HEAD, OPTIONS"),
            ("GET", "/v1/chat/completions", "POST, OPTIONS"),
            ("PUT", "/tokenize", "POST, OPTIONS"),
        ]:
            status, headers, _ = self.server.request(method, path)
            self.assertEqual((status, headers["Allow"]), (405, allowed), path)
        self.assertEqual(self.server.request("GET", "/health?verbose=1")[0], 200)

    def test_bodies(self):
        for body, status in [
            ("", 400),
            ("{}", 400),
            ("[]", 400),
            ("{", 400),
            ('{"prompt":"a","max_tokens":-2}', 400),
            ('{"prompt":[' + "[" * 10_000 + "]" * 10_000 + "]}", 400),
            ('{"prompt":"a","temperature":1e309}', 400),
            ('{"prompt":[-1]}', 400),
            ('{"prompt":"a","n":1000000}', 400),
            ('{"prompt":"a","frobnicate":1}', 400),
            ('{"prompt":"' + "a" * (9 << 20) + '"}', 413),
        ]:
            self.refused(post("/v1/completions", body, "Connection: close\r\n"), status)
        self.check_alive()

    def test_a_body_that_is_announced_as_too_large(self):
        head = "POST /v1/completions HTTP/1.1\r\n" + SYSTEM_HOST + "Content-Type: application/json\r\n"
        answer = self.server.say(head + "Content-Length: 8388609\r\n\r\n")
        self.assertEqual(status_of(answer), 413)
        self.assertEqual(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"], "body_too_large")

    def test_content_types(self):
        for content_type in ["text/plain", "application/x-www-form-urlencoded", ""]:
            status, _, answer = self.server.request("POST", "/tokenize", "{}", {"Content-Type": content_type})
            self.assertEqual(status, 415, answer)
        headers = {"Content-Type": "application/json; charset=utf-8"}
        self.assertEqual(self.server.request("POST", "/tokenize", '{"content":"a"}', headers)[0], 200)

    def test_a_refused_request_does_not_become_the_next_one(self):
        inner = "GET /v1/models HTTP/1.1\r\n" + SYSTEM_HOST + "\r\n"
        answer = self.server.say(post("/nothing", inner) + inner)
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
        self.assertEqual(status_of(answer), 404)

    def test_prompts_longer_than_the_context(self):
        for stream in (False, True):
            body = {"prompt": [7] * 5000, "stream": stream}
            status, headers, answer = self.server.request("POST", "/v1/completions", body)
            self.assertEqual(status, 400)
            self.assertEqual(headers["Content-Type"], "application/json")
            for count in ("5000", "4096"):
                self.assertIn(count, json.loads(answer)["error"]["message"])


class FailureTest(CliTest):
    def test_clients_are_told_of_no_path(self):
        tensors = soli("inspect", MIXTRAL, "--json", "--tensors").json["tensors"]
        norm = next(tensor for tensor in tensors if tensor["name"] == "output_norm.weight")
        path = self.folder() / "broken.gguf"
        path.write_bytes(with_first_float(MIXTRAL.read_bytes(), norm["offset"], float("nan")))
        for arguments in ([], ["--no-access-log"]):
            server = Server(*arguments, model=path)
            self.addCleanup(lambda server=server: server.process.poll() is None and server.stop())
            body = {"prompt": [5, 6], "max_tokens": 2}
            status, _, whole = server.request("POST", "/v1/completions", body)
            self.assertEqual(status, 500)
            stream = server.request("POST", "/v1/completions", {**body, "stream": True})[2]
            vector = server.request("POST", "/v1/embeddings", {"input": [5, 6]})[2]
            for error in (whole, list(events_of(stream.decode()))[-1], vector):
                message = json.loads(error)["error"]["message"]
                self.assertRegex(message, r"^the model's values at position \d are not finite$")
            for number in (1, 2, 3):
                server.wait_for_line(f"{path}: the model's values at position ")
                server.wait_for_line(f" are not finite (request {number} of the engine)")
            self.assertEqual(server.metric("soli_prompt_tokens_total"), 0)
            self.assertEqual(server.stop(), DONE)


class QueueTest(CliTest):
    def test_an_idle_server_takes_what_it_has_room_for(self):
        for arguments, most in (
            (["--parallel", "4", "--max-queued", "2"], 6),
            (["--parallel", "3", "--max-queued", "9", "--max-queued-per-key", "4"], 7),
        ):
            server = Server(*arguments)
            self.addCleanup(lambda server=server: server.process.poll() is None and server.stop())
            for n in range(1, most + 1):
                for body in ({"prompt": "a", "n": n}, {"prompt": ["a"] * n}):
                    answer = server.complete({**body, "max_tokens": 1})
                    self.assertEqual(len(answer["choices"]), n)
            for body in ({"prompt": "a", "n": most + 1}, {"prompt": ["a"] * (most + 1)}):
                status, _, answer = server.request("POST", "/v1/completions", {**body, "max_tokens": 1})
                self.assertEqual(status, 400, answer)
                message = json.loads(answer)["error"]["message"]
                self.assertIn(f"{most + 1} texts at once are more than there is ever room for", message)
            self.assertEqual(server.metric("soli_requests_refused_total"), 0)
            server.stop()


class ProtocolTest(ServeTest):
    def test_health_ready_models_props(self):
        status, _, body = self.server.request("GET", "/health")
        self.assertEqual((status, json.loads(body)), (200, {"status": "ok"}))
        self.assertEqual(self.server.request("GET", "/ready")[0], 200)
        models = json.loads(self.server.request("GET", "/v1/models")[2])
        self.assertEqual([model["id"] for model in models["data"]], [MODEL_ID])
        self.assertEqual(json.loads(self.server.request("GET", f"/v1/models/{MODEL_ID}")[2])["id"], MODEL_ID)
        self.assertEqual(self.server.request("GET", "/v1/models/other")[0], 404)
        self.assertEqual(self.server.request("GET", "/v1/models/%ZZ")[0], 404)
        status, _, body = self.server.request("GET", "/props")
        self.assertEqual(status, 200)
        self.assertTrue(json.loads(body)["exact"])

    def test_head_and_options(self):
        status, headers, body = self.server.request("HEAD", "/health")
        self.assertEqual((status, body), (200, b""))
        self.assertEqual(headers["Content-Length"], str(len('{"status":"ok"}')))
        status, headers, _ = self.server.request("OPTIONS", "/v1/completions", headers={"Origin": "http://a.example"})
        self.assertEqual((status, headers["Allow"]), (204, "POST, OPTIONS"))
        self.assertNotIn("Access-Control-Allow-Origin", headers)

    def test_many_requests_on_one_connection(self):
        with self.server.connect() as client:
            bodies = [{"prompt": "The sea", "temperature": 0, "max_tokens": n} for n in (1, 2, 3)]
            client.sendall("".join(post("/v1/completions", body) for body in bodies[:-1]).encode())
            client.sendall(post("/v1/completions", bodies[-1], "Connection: close\r\n").encode())
            answers = read_all(client).split(b"HTTP/1.1 ")[1:]
        usages = [json.loads(answer.partition(b"\r\n\r\n")[2])["usage"]["completion_tokens"] for answer in answers]
        self.assertEqual(usages, [1, 2, 3])

    def test_a_chunked_body_and_an_expected_one(self):
        body = '{"content":"The sea"}'
        head = "POST /tokenize HTTP/1.1\r\n" + SYSTEM_HOST + "Content-Type: application/json\r\nConnection: close\r\n"
        plain = self.server.say(head + f"Content-Length: {len(body)}\r\n\r\n{body}").partition(b"\r\n\r\n")[2]
        chunks = "".join(f"1\r\n{c}\r\n" for c in body)
        chunked = self.server.say(head + "Transfer-Encoding: chunked\r\n\r\n" + chunks + "0\r\n\r\n")
        self.assertEqual(chunked.partition(b"\r\n\r\n")[2], plain)
        with self.server.connect() as client:
            client.sendall((head + f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n").encode())
            self.assertEqual(client.recv(25), b"HTTP/1.1 100 Continue\r\n\r\n")
            client.sendall(body.encode())
            self.assertEqual(read_all(client).partition(b"\r\n\r\n")[2], plain)

    def test_the_order_of_events(self):
        body = {
            "messages": [{"role": "user", "content": "The captain looked"}],
            "temperature": 0,
            "max_tokens": 8,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        status, headers, stream = self.server.request("POST", "/v1/chat/completions", body)
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/event-stream"))
        *payloads, done = events_of(stream.decode())
        self.assertEqual(done, "[DONE]")
        *chunks, usage = [json.loads(payload) for payload in payloads]
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        self.assertEqual(deltas[0]["role"], "assistant")
        text = "".join(delta.get("content") or "" for delta in deltas)
        reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
        self.assertEqual(reasons[:-1], [None] * (len(reasons) - 1))
        self.assertIn(reasons[-1], ("stop", "length"))
        self.assertEqual(usage["choices"], [])
        whole = json.loads(
            self.server.request(
                "POST",
                "/v1/chat/completions",
                {key: value for key, value in body.items() if not key.startswith("stream")},
            )[2]
        )
        self.assertEqual(whole["choices"][0]["message"]["content"], text)
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            self.assertEqual(usage["usage"][key], whole["usage"][key])

    def test_http10_gets_a_stream_without_chunks(self):
        body = json.dumps({"prompt": "The sea", "max_tokens": 3, "temperature": 0, "stream": True})
        head = f"POST /v1/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        answer = self.server.say(f"{head}\r\n\r\n{body}")
        self.assertNotIn(b"Transfer-Encoding", answer)
        self.assertTrue(answer.endswith(b"data: [DONE]\n\n"), answer)

    def test_several_choices_add_up(self):
        answer = self.server.complete({"prompt": ["The sea", "The land"], "n": 3, "max_tokens": 4, "seed": 7})
        self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(6)))
        self.assertLessEqual(answer["usage"]["completion_tokens"], 24)

    def test_the_same_answer_alone_and_among_others(self):
        body = {"prompt": "The captain looked at the sea", "temperature": 0, "max_tokens": 40}
        alone = self.server.complete(body)["choices"][0]["text"]
        stream = {**body, "stream": True}
        clients = [self.server.connect() for _ in range(12)]
        for client in clients:
            client.sendall(post("/v1/completions", stream, "Connection: close\r\n").encode())
        for client in clients:
            data, is_whole = unchunked(read_all(client).partition(b"\r\n\r\n")[2])
            client.close()
            self.assertTrue(is_whole)
            *payloads, _ = events_of(data.decode())
            self.assertEqual("".join(json.loads(p)["choices"][0]["text"] for p in payloads), alone)

    def test_curl(self):
        curl = shutil.which("curl")
        if curl is None:
            self.skipTest("curl is not installed")
        url = f"http://{self.server.host}:{self.server.port}/v1/completions"
        body = json.dumps({"prompt": "The sea", "max_tokens": 4, "stream": True})
        shown = subprocess.run(
            [curl, "-sSN", url, "-H", "Content-Type: application/json", "-d", body], capture_output=True, check=True
        ).stdout.decode()
        self.assertEqual(list(events_of(shown))[-1], "[DONE]")
        # More than curl sends without asking first.
        large = json.dumps({"content": "a " * 1_000_000})
        url = f"http://{self.server.host}:{self.server.port}/tokenize"
        shown = subprocess.run(
            [curl, "-sS", url, "-H", "Content-Type: application/json", "-d", "@-"],
            input=large.encode(),
            capture_output=True,
            check=True,
        ).stdout
        self.assertGreater(len(json.loads(shown)["tokens"]), 100_000)


if __name__ == "__main__":
    main()
