"""The dashboard of a running server: its options, a routing that is known, keys, and memory."""

import json
import random
import time

from program import DEMO, ERROR, USAGE, CliTest, main, soli
from server import Server, config_file

API = "/api/v1/dashboard/"
ALICE, BOB = "key-of-alice-123456", "key-of-bob-1234567"
PATIENCE_S = 60


class DashboardTest(CliTest):
    def start(self, *arguments, **options):
        server = Server(*arguments, **options)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def ask(self, server, path, key=None):
        status, _, body = server.request("GET", API + path, headers={"Authorization": f"Bearer {key}"} if key else {})
        self.assertEqual(status, 200, body)
        return json.loads(body)

    def ask_until(self, server, path, condition):
        """The server counts once a second."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self.ask(server, path)
            if condition(answer):
                return answer
            self.assertLess(time.monotonic(), deadline, answer)
            time.sleep(0.05)

    def test_heat_is_the_routing_that_answers_show(self):
        server = self.start()
        answer = server.complete({"prompt": "The river", "max_tokens": 8, "temperature": 0, "routing": "tokens"})
        tokens = answer["choices"][0]["routing"]["tokens"]
        n_calls = sum(len(layer) for token in tokens for layer in token["experts"])
        heat = self.ask_until(server, "heat?tier=1m", lambda heat: heat["n_calls"] == n_calls)
        for index, layer in enumerate(heat["layers"]):
            counts = [0] * 16
            for token in tokens:
                for expert in token["experts"][index]:
                    counts[expert] += 1
            self.assertEqual(layer["calls"], counts)
        experts = self.ask(server, "experts")["layers"]
        self.assertEqual([layer["calls"] for layer in experts], [layer["calls"] for layer in heat["layers"]])
        for layer in experts:
            for calls, seconds in zip(layer["calls"], layer["busy_seconds"]):
                self.assertEqual(calls > 0, seconds > 0)
        self.assertEqual(sum(self.ask(server, "series?tier=1m")["expert_calls"]), n_calls)

    def test_the_hot_expert_is_told_of(self):
        """Every token of a planted model calls one expert of each layer, and none calls the dead."""
        model, truth = self.folder() / "planted.gguf", self.folder() / "truth.json"
        shape = ("--preset", "tiny", "--experts", "16", "--experts-per-token", "4")
        self.run_ok("synth", *shape, "--routing", "planted", "--truth", truth, "-o", model)
        known = json.loads(truth.read_text())
        letters = "".join(domain["letters"] for domain in known["domains"])
        hot = {(layer["layer"], expert) for layer in known["layers"] for expert in layer["hot"]}
        self.assertTrue(hot)
        server = self.start("--dashboard-half-life", "3600", model=model)
        text = "".join(random.Random(0).choice(letters) for _ in range(200))
        server.complete({"prompt": text, "max_tokens": 1})
        alarms = self.ask_until(server, "alarms", lambda alarms: alarms["n_open"])
        told = {(alarm["layer"], alarm["expert"]): alarm["share"] for alarm in alarms["open"]}
        dead = {(layer["layer"], expert) for layer in known["layers"] for expert in layer["dead"]}
        self.assertEqual((hot - told.keys(), dead & told.keys()), (set(), set()))
        self.assertEqual((alarms["raise_factor"], alarms["clear_factor"]), (2.5, 1.5))
        for pair in hot:
            self.assertAlmostEqual(told[pair], 0.25, delta=0.01)
        self.assertIn(" % of the calls of late, where 6.2 % would be fair", server.wait_for_line("soli: hot expert: "))
        self.assertEqual(server.metric("soli_hot_expert_alarms"), len(told))
        self.assertGreaterEqual(server.metric("soli_hot_expert_alarms_raised_total"), len(told))
        quiet = self.start("--hot-expert", "0", model=model)
        quiet.complete({"prompt": text, "max_tokens": 1})
        self.ask_until(quiet, "heat", lambda heat: heat["n_calls"])
        alarms = self.ask(quiet, "alarms")
        self.assertEqual((alarms["open"], alarms["raise_factor"]), ([], None))
        self.assertIsNone(self.ask(quiet, "state")["alarms"])
        self.assertFalse([name for name in quiet.metrics() if "hot_expert" in name])

    def test_requests_belong_to_their_keys(self):
        keys = self.folder() / "keys"
        keys.write_text(f"{ALICE} alice\n{BOB} bob\n")
        server = self.start("--api-key-file", keys, "--dashboard-requests", "2")
        self.assertEqual(server.request("GET", "/dashboard")[0], 200)
        self.assertEqual(server.request("GET", API + "heat")[0], 401)
        headers = {"Authorization": f"Bearer {ALICE}"}
        for _ in range(3):
            server.complete({"prompt": "a", "max_tokens": 2, "routing": True}, headers)
        requests = self.ask(server, "requests", ALICE)["requests"]
        self.assertEqual(len(requests), 2)
        path = "requests/" + requests[0]["id"]
        self.assertEqual(len(self.ask(server, path, ALICE)["tokens"]), requests[0]["n_tokens"])
        self.assertEqual(self.ask(server, "requests", BOB)["requests"], [])
        status, _, body = server.request("GET", API + path, headers={"Authorization": f"Bearer {BOB}"})
        self.assertEqual((status, json.loads(body)["error"]["code"]), (404, "request_not_found"))

    def test_whose_tokens_are_remembered(self):
        body = {"prompt": "The captain", "max_tokens": 4, "temperature": 0}
        answers = []
        for routing, has_tokens in (("asked", False), ("all", True)):
            config = config_file(self.folder(), f'dashboard-routing = "{routing}"\n')
            server = self.start("--config", config)
            answers.append(server.complete(body)["choices"])
            self.assertEqual(self.ask(server, "state")["requests"]["routing"], routing)
            self.assertEqual(self.ask(server, "requests")["requests"][0]["has_tokens"], has_tokens)
        self.assertEqual(answers[0], answers[1])
        server = self.start("--dashboard-requests", "0", "--dashboard-routing", "all")
        self.assertEqual(server.complete(body)["choices"], answers[0])
        self.assertEqual(self.ask(server, "requests")["requests"], [])

    def test_memory_and_half_life(self):
        windows = []
        for arguments in (("--dashboard-memory", "64KiB"), ("--dashboard-half-life", "7.5")):
            server = self.start(*arguments)
            state = self.ask(server, "state")
            windows.append(sum(tier["max_windows"] for tier in state["tiers"]))
            self.assertEqual(state["half_life_seconds"], 7.5 if "7.5" in arguments else 60)
        self.assertEqual(windows[1], 120 + 180 + 240 + 144)
        self.assertLess(windows[0], windows[1])
        outcome = soli("serve", DEMO, "--dashboard-memory", "10KiB", "--check")
        self.check(outcome, ERROR, "--dashboard-memory 10240: 16 experts in each of ", "--no-dashboard")
        self.run_ok("serve", DEMO, "--dashboard-memory", "10KiB", "--no-dashboard", "--check")

    def test_options_that_are_refused(self):
        self.check(soli("serve", DEMO, "--hot-expert", "1", "--check"), ERROR, "--hot-expert 1: more than 1, or 0")
        self.check(soli("serve", DEMO, "--dashboard-routing", "some"), USAGE, "'some' is not one of asked,all")
        self.check(soli("serve", DEMO, "--dashboard-requests", "257"), USAGE, "--dashboard-requests")
        self.check(soli("serve", DEMO, "--dashboard-half-life", "0"), USAGE, "--dashboard-half-life")

    def test_none(self):
        server = self.start("--no-dashboard", "--expert-metrics", "none")
        for path in ("/dashboard", "/dashboard/", API + "state", API + "requests/x"):
            self.assertEqual(server.request("GET", path)[0], 404, path)
        server.complete({"prompt": "a", "max_tokens": 2})
        self.assertFalse([name for name in server.metrics() if "expert_calls" in name or "hot_expert" in name])

    def test_the_page_asks_no_other_host(self):
        server = self.start()
        status, fields, page = server.request("GET", "/dashboard")
        self.assertEqual((status, fields["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'; script-src 'sha256-", fields["Content-Security-Policy"])
        for outside in (b'src="http', b'href="http', b"@import", b'src="//', b'href="//'):
            self.assertNotIn(outside, page)
        self.assertEqual(server.request("GET", "/dashboard/", headers={"If-None-Match": fields["ETag"]})[0], 304)


if __name__ == "__main__":
    main()
