"""Every option of the server is set once, and makes the difference that its help promises."""

import json
import time

from program import DONE, ERROR, USAGE, CliTest, main, soli
from server import DEMO, SYSTEM_HOST, Server, config_file, endless, post, read_all, status_of

KEY, OTHER_KEY = "key-of-alice-123456", "key-of-bob-1234567"


class FlagTest(CliTest):
    def start(self, *arguments, **options):
        server = Server(*arguments, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def test_limits_of_heads_and_bodies(self):
        server = self.start(
            *("--max-header-bytes", "1024", "--max-header-fields", "5"),
            *("--max-body-bytes", "2048", "--max-bodies-bytes", "4096"),
        )
        get = "GET /health HTTP/1.1\r\n" + SYSTEM_HOST + "Connection: close\r\n"
        for data, status in [
            (get + "\r\n", 200),
            (get + "X: " + "a" * 800 + "\r\n\r\n", 200),
            (get + "X: " + "a" * 1024 + "\r\n\r\n", 431),
            (get + "X: a\r\n" * 3 + "\r\n", 200),
            (get + "X: a\r\n" * 4 + "\r\n", 431),
            (post("/tokenize", json.dumps({"content": "a" * 1900}), "Connection: close\r\n"), 200),
            (post("/tokenize", json.dumps({"content": "a" * 2100}), "Connection: close\r\n"), 413),
        ]:
            self.assertEqual(status_of(server.say(data)), status, data[:100])
        server.wait_for_metric("soli_http_bodies_bytes", 0)  # an answer may come before its request is gone
        held = []
        for _ in range(2):  # two bodies that are nearly there
            client = server.connect()
            client.sendall(post("/tokenize", json.dumps({"content": "a" * 1990})).encode()[:-1])
            held.append(client)
        server.wait_for_metric("soli_http_bodies_bytes", 2 * 2004)
        answer = server.say(post("/tokenize", json.dumps({"content": "a" * 1000})))
        self.assertEqual(status_of(answer), 503, answer)
        for client in held:
            client.close()

    def test_limits_of_time(self):
        server = self.start(
            *("--header-timeout", "0.2", "--body-timeout", "0.2", "--idle-timeout", "0.2", "--request-timeout", "0.3"),
            *("--ctx", "8192"),
        )
        self.assertEqual(status_of(server.say("GET / HTTP/1.1\r\nHost: loc")), 408)
        self.assertEqual(status_of(server.say(post("/tokenize", "{}")[:-1])), 408)
        self.assertEqual(server.say(""), b"")
        status, _, body = server.request("POST", "/v1/completions", endless(prompt=["a"] * 16, max_tokens=8000))
        self.assertEqual(status, 504, body)
        server.wait_for_metric("soli_num_requests_running", 0)

    def test_the_model(self):
        server = self.start("--model-id", "another/name", "--no-template", "--http-threads", "2", "--workers", "1")
        models = json.loads(server.request("GET", "/v1/models")[2])
        self.assertEqual([model["id"] for model in models["data"]], ["another/name"])
        self.assertEqual(server.request("GET", "/v1/models/another/name")[0], 200)
        chat = {"messages": [{"role": "user", "content": "a"}]}
        self.assertEqual(server.request("POST", "/v1/chat/completions", chat)[0], 400)
        missing = self.folder() / "template"
        self.check(soli("serve", DEMO, "--template", missing), ERROR, missing)
        missing.write_text("{% if %}")
        self.check(soli("serve", DEMO, "--template", missing), ERROR, missing, "--no-template")

    def test_the_prefix_cache(self):
        body = {"prompt": "The captain looked at the sea. " * 20, "max_tokens": 2, "temperature": 0}
        texts = []
        for arguments, is_cached in (([], True), (["--no-prefix-cache"], False)):
            server = self.start("--ctx", "1024", *arguments)
            answers = [server.complete(body) for _ in range(2)]
            texts += [answer["choices"][0]["text"] for answer in answers]
            cached = answers[1]["usage"]["prompt_tokens_details"]["cached_tokens"]
            self.assertEqual(cached > 0, is_cached)
            self.assertEqual(server.metric("soli_prefix_cache_hits_total"), cached)
        self.assertEqual(len(set(texts)), 1)

    def test_the_room_for_keys_and_values(self):
        self.check(soli("serve", DEMO, "--ctx", "256", "--kv-tokens", "255", "--check"), ERROR, "--kv-tokens 255")
        server = self.start("--ctx", "1024", "--kv-tokens", "1024")
        long = endless(max_tokens=600)
        expected = server.complete(long)["choices"][0]["text"]
        clients = [server.connect() for _ in range(3)]
        for client in clients:
            client.sendall(post("/v1/completions", long, "Connection: close\r\n").encode())
        for client in clients:
            answer = read_all(client)
            client.close()
            self.assertEqual(json.loads(answer.partition(b"\r\n\r\n")[2])["choices"][0]["text"], expected)
        self.assertLessEqual(server.metric("soli_kv_pages"), 1024 / 64)
        self.assertLessEqual(server.metric("soli_kv_cache_usage_ratio"), 1)

    def test_the_queue_of_a_key(self):
        keys = self.folder() / "keys"
        keys.write_text(f"{KEY} alice\n{OTHER_KEY} bob\n")
        server = self.start(
            *("--parallel", "1", "--max-queued", "4", "--max-queued-per-key", "1", "--ctx", "8192"),
            *("--api-key-file", keys, "--max-slowdown", "0", "--no-access-log"),
        )
        headers = f"Authorization: Bearer {KEY}\r\n"
        clients = []
        for n in (1, 2):
            client = server.connect(receive_bytes=4096)
            client.sendall(post("/v1/completions", endless(stream=True, max_tokens=8000), headers).encode())
            clients.append(client)
            self.wait_for(server, n)
        body = {"prompt": "a", "max_tokens": 1}
        status, fields, _ = server.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {KEY}"})
        self.assertEqual((status, fields["Retry-After"]), (429, "1"))
        other = server.connect()
        other.sendall(post("/v1/completions", body, f"Authorization: Bearer {OTHER_KEY}\r\n").encode())
        self.wait_for(server, 3)
        for client in clients:
            client.close()
        self.assertEqual(status_of(other.recv(4096)), 200)
        other.close()
        server.stop()
        self.assertEqual([line for line in server.lines if line.startswith("{")], [])

    def wait_for(self, server, n):
        """So many requests run or wait."""
        deadline = time.monotonic() + 60
        names = ("soli_num_requests_running{", "soli_num_requests_waiting{")
        while True:
            text = server.request("GET", "/metrics", headers={"Authorization": f"Bearer {KEY}"})[2].decode()
            counts = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(names)]
            if sum(counts) == n:
                return
            self.assertLess(time.monotonic(), deadline, counts)
            time.sleep(0.01)

    def test_the_metrics_of_experts(self):
        """The demo model calls 2 of 16 experts in each of its layers."""
        n_calls = {}
        for mode, arguments in (
            ("experts", ()),
            ("layers", ("--expert-metrics", "layers")),
            ("none", ("--config", config_file(self.folder(), 'expert-metrics = "none"\n'))),
        ):
            server = self.start(*arguments)
            server.complete({"prompt": "The captain looked at the sea.", "max_tokens": 4, "temperature": 0})
            metrics = server.metrics()
            n_rows = server.metric("soli_engine_rows_total")
            calls, busy = (
                {key.partition("{")[2]: value for key, value in metrics.items() if key.startswith(name)}
                for name in ("soli_expert_calls_total{", "soli_expert_busy_seconds_total{")
            )
            self.assertEqual(calls.keys(), busy.keys())
            for labels, value in calls.items():
                self.assertIn('expert="', labels)
                self.assertEqual('layer="' in labels, mode == "layers")
                self.assertEqual(busy[labels] > 0, value > 0, labels)
            n_calls[mode] = (len(calls), sum(calls.values()), n_rows)
        (n_experts, n_over_layers, n_rows), (n_pairs, n_by_layer, _) = n_calls["experts"], n_calls["layers"]
        self.assertEqual(n_experts, 16)
        self.assertEqual(n_pairs % 16, 0)
        self.assertGreater(n_pairs, 16)
        self.assertEqual(n_over_layers, 2 * n_rows * (n_pairs // 16))
        self.assertEqual(n_by_layer, n_over_layers)
        self.assertEqual(n_calls["none"], (0, 0, n_rows))

    def test_the_metrics_of_experts_are_bounded(self):
        wrong = soli("serve", DEMO, "--expert-metrics", "some", "--check")
        self.check(wrong, USAGE, "--expert-metrics: 'some' is not one of none,experts,layers")
        config = config_file(self.folder(), 'expert-metrics = "all"\n')
        self.check(soli("serve", DEMO, "--config", config, "--check"), ERROR, f"{config}:1:", "'all' is not one of")
        model = self.folder() / "many.gguf"
        sizes = ("--preset", "tiny", "--experts", "5001", "--layers", "4", "--expert-width", "32", "--hidden", "32")
        self.run_ok("synth", *sizes, "-o", model)
        self.run_ok("serve", model, "--check")
        outcome = soli("serve", model, "--check", "--expert-metrics", "layers")
        message = "5001 experts in each of 4 layers are 20004 series of each metric; 20000 are allowed"
        self.check(outcome, ERROR, f"--expert-metrics: {message}")

    def test_slow_requests_can_go_unmentioned(self):
        server = self.start("--slow-request", "0")
        server.complete({"prompt": "a", "max_tokens": 3})
        self.assertEqual(server.stop(), DONE)
        self.assertEqual([line for line in server.lines if "slow request" in line], [])

    def test_the_pace(self):
        self.check(soli("serve", DEMO, "--max-slowdown", "0.5", "--check"), ERROR, "--max-slowdown 0.5")
        server = self.start("--max-slowdown", "1.5", "--ctx", "4096")
        running = server.connect()
        body = endless(stream=True, max_tokens=1000)
        running.sendall(post("/v1/completions", body, "Connection: close\r\n").encode())
        server.complete({"prompt": [7] * 2000, "max_tokens": 1})
        self.assertIn(b"[DONE]", read_all(running))
        running.close()


if __name__ == "__main__":
    main()
