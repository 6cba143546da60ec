"""The server as those who run it see it: configuration, keys, logs, figures, its start and its end."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from program import DEMO, DONE, ERROR, MIXTRAL, USAGE, CliTest, environment, main, soli
from server import MODEL_ID, Server, config_file, endless, events_of, post, read_all, status_of, unchunked

KEY, OTHER_KEY = "key-of-alice-123456", "key-of-bob-1234567"


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class LifeTest(CliTest):
    def start(self, *arguments, **options):
        server = Server(*arguments, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server


class KeyTest(LifeTest):
    def test_requests_need_a_key(self):
        keys = self.folder() / "keys.txt"
        keys.write_text(f"# who may ask\n{KEY} alice\n\n{OTHER_KEY}\n")
        server = self.start("--api-key-file", keys)
        for path in ("/health", "/ready"):
            self.assertEqual(server.request("GET", path)[0], 200)
        for headers in ({}, bearer("wrong"), bearer(KEY[:-1]), bearer(KEY + "x"), {"Authorization": f"Basic {KEY}"}):
            for method, path in (("GET", "/metrics"), ("GET", "/v1/models"), ("POST", "/v1/completions")):
                status, fields, body = server.request(method, path, None if method == "GET" else "{}", headers)
                self.assertEqual((status, fields["WWW-Authenticate"]), (401, "Bearer"))
                self.assertEqual(json.loads(body)["error"]["code"], "invalid_api_key")
        server.complete({"prompt": "a", "max_tokens": 1}, bearer(KEY))
        server.complete({"prompt": "b", "max_tokens": 1}, {"Authorization": f"bearer   {OTHER_KEY} "})
        for name in ("alice", "key-2"):
            server.wait_for_log(lambda entry, name=name: entry.get("key") == name)
        server.stop()
        self.assertNotIn(KEY, "\n".join(server.lines))
        self.assertNotIn(OTHER_KEY, "\n".join(server.lines))

    def test_a_key_has_its_own_limit_of_experts(self):
        config = config_file(
            self.folder(),
            f'max-experts-per-token = 4\n[[api-key]]\nkey = "{KEY}"\nname = "alice"\nmax-experts-per-token = 3\n'
            f'[[api-key]]\nkey = "{OTHER_KEY}"\npriority = 5\n',
        )
        server = self.start("--config", config)
        for key, k, expected in ((KEY, 3, 200), (KEY, 4, 400), (OTHER_KEY, 4, 200), (OTHER_KEY, 5, 400)):
            body = {"prompt": "a", "max_tokens": 1, "experts_per_token": k}
            self.assertEqual(server.request("POST", "/v1/completions", body, bearer(key))[0], expected, (key, k))


class ConfigTest(LifeTest):
    def check_config(self, text, *arguments):
        return soli("serve", "--config", config_file(self.folder(), text), "--check", *arguments)

    def test_a_good_one(self):
        text = f'model = "{DEMO}"\nport = 9\nparallel = 3\nctx = 128\nmemory = "2GiB"\npin = false\n'
        text += 'allowed-host = ["a.b", "c"]\n'
        outcome = self.check(self.check_config(text), DONE)
        self.assertIn(f"{MODEL_ID}: 0 API keys, http://127.0.0.1:9, contexts of 128 tokens", outcome.text)
        # The command line goes before.
        outcome = self.check(self.check_config(text, "--port", "10", "-c", "64"), DONE)
        self.assertIn("http://127.0.0.1:10, contexts of 64 tokens", outcome.text)

    def test_what_is_wrong_is_named_with_its_line(self):
        for text, line, *parts in [
            ("prot = 1\n", 1, "'prot' is not known", "soli serve --help"),
            ("port = 1\n\nfrobnicate = true\n", 3, "'frobnicate' is not known"),
            ("port = 70000\n", 1, "--port", "70000", "0 to 65535"),
            ('port = "x"\n', 1, "--port", "'x'"),
            ("port = [1, 2]\n", 1, "'port' takes one value"),
            ("port = []\n", 1, "the list is empty"),
            ("port = 1\nport = 2\n", 2, "port"),
            ("ctx = 64\nctx-size = 64\n", 2, "'ctx-size' says again what 'ctx' has said"),
            ('pin = "yes"\n', 1, "true and false are allowed"),
            ("check = true\n", 1, "'check' is not known"),
            ('memory = "12"\n', 1, "memory", "'12'"),
            ('kv = "f8"\n', 1, "--kv", "f32,f16"),
            ("host = { a = 1 }\n", 1, "'host'"),
            ("port = \n", 1),
            ("model-id = 5\n", 1, "'model-id' is 5; a text is allowed"),
            ('model-id = ""\n', 1, "--model-id: '' is no name"),
            ('host = ""\n', 1, "--host: '' is no address or name"),
            ("host = true\n", 1, "'host' is true; a text is allowed"),
            ('allowed-host = ["a", 1]\n', 1, "'allowed-host' is a list of other things too; texts are allowed"),
            ("api-key = 1\n", 1, "[[api-key]]"),
            ('[[api-key]]\nkey = "12345678"\nnam = "x"\n', 3, "'nam' is not known"),
            ('[[api-key]]\nname = "x"\n', 1, "there is no 'key'"),
            ('[[api-key]]\nkey = "12345678"\npriority = "high"\n', 3, "'priority' is a whole number"),
        ]:
            outcome = self.check(self.check_config(text, DEMO), ERROR, f"soli.toml:{line}: ", *parts)
            self.assertEqual(outcome.out, b"")

    def test_what_no_line_can_be_blamed_for(self):
        key = '[[api-key]]\nkey = "12345678"\n'
        for text, *parts in [
            ('[[api-key]]\nkey = "1234567"\n', "API key 1 has 7 bytes"),
            (key + key, "API key 2", "was given before"),
            ("max-body-bytes = 2048\nmax-bodies-bytes = 1024\n", "--max-bodies-bytes 1024 is less than"),
            ('cors-origin = "chat.example"\n', "--cors-origin 'chat.example' is no origin"),
            ("max-experts-per-token = 17\n", "--max-experts-per-token 17", "16 experts"),
            (key + "max-experts-per-token = 99\n", "API key 1 ('key-1'): max-experts-per-token 99:", "16 experts"),
            ('access-log = "/no/such/log"\n', "--access-log /no/such/log: No such file or directory"),
            ('host = "no-such-host.invalid"\n', "--host no-such-host.invalid: "),
        ]:
            config = config_file(self.folder(), text)
            self.check(soli("serve", DEMO, "--config", config, "--check"), ERROR, *parts)
            self.check(soli("serve", DEMO, "--config", config, "--port", "0"), ERROR, *parts)
        config = config_file(self.folder(), "model = 5\n")
        self.check(soli("serve", "--config", config, "--check"), ERROR, "'model' is 5; a text is allowed")
        self.check(soli("serve", "--check"), ERROR, "no model")
        self.check(soli("serve", "/no/such.gguf", "--check"), ERROR, "/no/such.gguf")
        self.check(soli("serve", DEMO, "--config", "/no/such.toml"), ERROR, "/no/such.toml")
        self.check(soli("serve", DEMO, "--api-key-file", "/no/such.txt"), ERROR, "/no/such.txt")
        keys = self.folder() / "keys.txt"
        keys.write_text("12345678 a b\n")
        self.check(soli("serve", DEMO, "--api-key-file", keys, "--check"), ERROR, "keys.txt:1: ")

    def test_the_command_line(self):
        for arguments in (["--port", "65536"], ["--parallel", "0"], ["--drain-timeout", "-1"], ["--slow-request", "x"]):
            self.check(soli("serve", DEMO, *arguments), USAGE, arguments[0])
        for host in ("", "*", "999.1.1.1", "[::1]", "127.0.0.1:8080"):
            for check in ([], ["--check"]):
                outcome = soli("serve", DEMO, "--host", host, *check)
                self.check(outcome, USAGE, f"--host: '{host}' is no address or name")
        for name, shown in (("", ""), ("a\nb", "a\\nb"), ("a" * 257, "a" * 80 + "...")):
            outcome = soli("serve", DEMO, "--model-id", name, "--check")
            self.check(outcome, USAGE, f"--model-id: '{shown}' is no name: 1 to 256 bytes")

    def test_a_check_makes_no_access_log(self):
        log = self.folder() / "access.log"
        self.run_ok("serve", DEMO, "--access-log", log, "--check")
        self.assertFalse(log.exists())

    def test_an_address_that_is_taken(self):
        server = self.start()
        self.check(soli("serve", DEMO, "--port", server.port), ERROR, f"cannot listen on 127.0.0.1:{server.port}")

    def test_too_little_memory_ends_the_start(self):
        self.check(soli("serve", DEMO, "--port", "0", "--memory", "1MiB"), ERROR, "--memory")


class AddressTest(LifeTest):
    def test_ipv6_and_names(self):
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            self.skipTest(f"no IPv6 here: {error}")
        server = self.start("--host", "::1")
        self.assertEqual(server.request("GET", "/health")[0], 200)
        server = self.start("--host", "localhost")
        self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_allowed_names_and_origins(self):
        server = self.start("--allowed-host", "api.example", "--cors-origin", "https://chat.example")
        for name, expected in (("api.example", 200), ("API.example:443", 200), ("other.example", 421)):
            self.assertEqual(server.request("GET", "/health", headers={"Host": name})[0], expected)
        for origin, allowed in (("https://chat.example", "https://chat.example"), ("https://evil.example", None)):
            status, headers, _ = server.request("OPTIONS", "/v1/completions", headers={"Origin": origin})
            self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (204, allowed))
            for body, expected in (({"prompt": "a", "max_tokens": 1}, 200), ("{}", 400)):
                status, headers, _ = server.request("POST", "/v1/completions", body, {"Origin": origin})
                self.assertEqual((status, headers["Access-Control-Allow-Origin"]), (expected, allowed))


class LogTest(LifeTest):
    def test_what_a_line_says_and_what_not(self):
        server = self.start("--slow-request", "0.001")
        server.complete({"prompt": "very secret words", "max_tokens": 5, "temperature": 0})
        entry = server.wait_for_log(lambda entry: entry["path"] == "/v1/completions")
        self.assertRegex(entry["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((entry["method"], entry["status"], entry["outcome"]), ("POST", 200, "length"))
        self.assertEqual(entry["completion_tokens"], 5)
        for field in ("ms", "write_ms", "queue_ms", "prefill_ms", "decode_ms", "bytes_in", "bytes_out"):
            self.assertGreaterEqual(entry[field], 0)
        slow = server.wait_for_line(f"slow request {entry['id']}")
        for word in ("waiting", "prefill", "decode", "writing"):
            self.assertIn(word, slow)
        server.stop()
        self.assertNotIn("secret", "\n".join(server.lines))

    def test_a_file_that_is_moved_away(self):
        folder = self.folder()
        log, moved = folder / "access.log", folder / "access.log.1"
        server = self.start("--access-log", log)
        server.request("GET", "/health")
        self.wait_for(lambda: log.read_text().count("\n") == 1)
        log.rename(moved)
        server.signal(signal.SIGHUP)
        self.wait_for(log.exists)
        server.request("GET", "/ready")
        self.wait_for(lambda: log.read_text().count("\n") == 1)
        self.assertEqual(json.loads(log.read_text())["path"], "/ready")
        self.assertEqual(json.loads(moved.read_text())["path"], "/health")
        self.assertEqual(server.stop(), DONE)

    def wait_for(self, condition):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)


class EndTest(LifeTest):
    def begin_stream(self, server, **changes):
        """A client that has read the beginning of a stream, which so goes on as long as the test wants."""
        client = server.connect(receive_bytes=4096)
        body = endless(stream=True, **changes)
        client.sendall(post("/v1/completions", body, "Connection: close\r\n").encode())
        data = b""
        while b"data: " not in data:
            data += client.recv(4096)
        return client, data

    def test_running_requests_finish(self):
        server = self.start("--ctx", "4096")
        client, data = self.begin_stream(server)
        idle = server.connect()
        server.signal()
        server.wait_for_line("soli: ending: 1 requests")
        self.assertEqual(idle.recv(1), b"")
        status, headers, body = server.request("POST", "/v1/completions", {"prompt": "a"})
        self.assertEqual((status, headers["Retry-After"]), (503, "1"))
        self.assertEqual(json.loads(body)["error"]["code"], "shutting_down")
        self.assertEqual(server.request("GET", "/ready")[0], 503)
        self.assertEqual(json.loads(server.request("GET", "/health")[2]), {"status": "draining"})
        data += read_all(client)
        stream, is_whole = unchunked(data.partition(b"\r\n\r\n")[2])
        self.assertTrue(is_whole)
        payloads = list(events_of(stream.decode()))
        self.assertEqual(payloads[-1], "[DONE]")
        self.assertEqual(server.wait(), DONE)
        for one in (client, idle):
            one.close()

    def test_the_time_for_that_is_limited(self):
        server = self.start("--ctx", "8192", "--drain-timeout", "0.05")
        client, data = self.begin_stream(server, max_tokens=8000)
        server.signal(signal.SIGINT)
        self.check_goodbye(data + read_all(client))
        client.close()
        self.assertEqual(server.wait(), ERROR)
        server.wait_for_line("1 requests were cut off")
        self.check_log_of_cut(server)

    def check_goodbye(self, data):
        """A stream that was cut off is whole as a message of HTTP, and its last event says what happened."""
        stream, is_whole = unchunked(data.partition(b"\r\n\r\n")[2])
        self.assertTrue(is_whole, stream[-500:])
        error = json.loads(list(events_of(stream.decode()))[-1])["error"]
        self.assertEqual((error["code"], error["type"]), ("shutting_down", "server_error"))

    def check_log_of_cut(self, server):
        entry = next(entry for entry in server.log() if entry["path"] == "/v1/completions")
        self.assertTrue(entry["cut_off"], entry)
        self.assertNotIn("client_left", entry)

    def test_streams_of_many_choices_hear_of_the_end(self):
        server = self.start("--parallel", "1", "--drain-timeout", "0.05", "--kv-tokens", "4096", "--ctx", "4096")
        body = endless(prompt=["a", "b", "c", "d"], n=16, stream=True)
        streamed, whole = server.connect(), server.connect()
        streamed.sendall(post("/v1/completions", body).encode())
        data = streamed.recv(4096)
        whole.sendall(post("/v1/completions", endless()).encode())
        deadline = time.monotonic() + 60
        while sum(server.metric(f"soli_num_requests_{what}") for what in ("running", "waiting")) < 65:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        server.signal()
        self.check_goodbye(data + read_all(streamed))
        answer = read_all(whole)
        self.assertEqual(status_of(answer), 503, answer)
        self.assertEqual(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["code"], "shutting_down")
        self.assertEqual(server.wait(), ERROR)
        self.check_log_of_cut(server)
        for client in (streamed, whole):
            client.close()

    def test_a_second_signal_ends_at_once(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.start("--ctx", "8192")
            client, data = self.begin_stream(server, max_tokens=8000)
            server.signal(number)
            server.wait_for_line("soli: ending")
            server.signal(number)
            self.check_goodbye(data + read_all(client))
            self.assertEqual(server.wait(), 128 + number)
            client.close()
            self.check_log_of_cut(server)

    def test_an_idle_one_ends_at_once(self):
        self.assertEqual(self.start(model=MIXTRAL).stop(), DONE)

    def test_the_service_manager_hears_of_it(self):
        path = self.folder() / "notify"
        for name in (str(path), f"\0soli-test-{os.getpid()}"):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(name)
                manager.settimeout(30)
                server = self.start(model=MIXTRAL, env=environment(NOTIFY_SOCKET=name.replace("\0", "@")))
                self.assertIn(b"READY=1", manager.recv(4096))
                server.stop()
                self.assertIn(b"STOPPING=1", manager.recv(4096))


class MetricsTest(LifeTest):
    def test_counters_are_the_sum_of_the_answers_and_stand_still_when_idle(self):
        server = self.start()
        n_prompt = n_generated = 0
        for prompt, n in (("The sea", 1), ("The captain looked", 2), (["The sea", "A"], 1)):
            usage = server.complete({"prompt": prompt, "n": n, "max_tokens": 6, "seed": 1})["usage"]
            n_prompt += usage["prompt_tokens"]
            n_generated += usage["completion_tokens"]
        server.request("POST", "/v1/completions", "{}")
        self.assertEqual(server.metric("soli_prompt_tokens_total"), n_prompt)
        self.assertEqual(server.metric("soli_generation_tokens_total"), n_generated)
        self.assertEqual(server.metric("soli_requests_total"), 5)
        self.assertEqual(server.metric("soli_time_to_first_token_seconds_count"), 5)
        self.assertEqual(server.metric("soli_e2e_request_latency_seconds_count"), 3)
        before = server.metrics()
        time.sleep(0.2)
        after = server.metrics()
        changed = {name for name in after if after[name] != before.get(name)}
        for name in changed:
            self.assertRegex(name, r"^soli_http_|^process_", "changed while idle")

    def test_promtool(self):
        promtool = shutil.which("promtool")
        if promtool is None:
            self.skipTest("promtool is not installed (Debian: prometheus)")
        for arguments in ((), ("--expert-metrics", "layers")):
            server = self.start(*arguments)
            server.complete({"prompt": "a", "max_tokens": 2})
            _, headers, text = server.request("GET", "/metrics")
            self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
            checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, b""))

    def test_prometheus_scrapes_it(self):
        prometheus = shutil.which("prometheus")
        if prometheus is None:
            self.skipTest("prometheus is not installed")
        server = self.start()
        folder = self.folder()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = folder / "prometheus.yml"
        config.write_text(
            "global: {scrape_interval: 500ms}\nscrape_configs:\n- job_name: soli\n  static_configs:\n"
            f"  - targets: ['127.0.0.1:{server.port}']\n"
        )
        child = subprocess.Popen(
            [prometheus, f"--config.file={config}", f"--storage.tsdb.path={folder}/data"]
            + [f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            url = f"http://127.0.0.1:{port}/api/v1/query?query=soli_num_requests_running"
            deadline = time.monotonic() + 60
            while True:
                self.assertLess(time.monotonic(), deadline)
                try:
                    with urllib.request.urlopen(url, timeout=10) as answer:
                        result = json.load(answer)["data"]["result"]
                except OSError:
                    result = []
                if result:
                    break
                time.sleep(0.1)
            self.assertEqual(result[0]["metric"]["model_name"], MODEL_ID)
            self.assertEqual(result[0]["value"][1], "0")
        finally:
            child.terminate()
            child.wait(60)


if __name__ == "__main__":
    main()
