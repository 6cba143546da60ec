"""bench/load/load.py against a real server: what it counts is what the server has counted."""

import json
import subprocess
import sys
import unittest

from program import ROOT, CliTest, main
from server import Server

LOAD = ROOT / "bench" / "load"
sys.path.insert(0, str(LOAD))

import client  # noqa: E402
from percentile import percentile, spread  # noqa: E402
from workload import Mixture, prompts_of  # noqa: E402


def load(*arguments):
    command = [sys.executable, "-B", str(LOAD / "load.py")] + [str(argument) for argument in arguments]
    return subprocess.run(command, capture_output=True, timeout=300, check=False)


class PartsTest(unittest.TestCase):
    def test_percentiles_are_of_the_nearest_rank(self):
        values = list(range(100, 0, -1))
        self.assertEqual([percentile(values, p) for p in (1, 50, 95, 99, 100)], [1, 50, 95, 99, 100])
        self.assertEqual([percentile([3, 1, 2], p) for p in (1, 33, 34, 67, 99)], [1, 1, 2, 3, 3])
        self.assertIsNone(percentile([], 50))
        self.assertEqual(spread([]), {"n": 0})

    def test_mixtures(self):
        import random

        source = random.Random(1)
        drawn = [Mixture("8:3,100-200").draw(source) for _ in range(1000)]
        self.assertEqual({name for name, _ in drawn}, {"8", "100-200"})
        self.assertTrue(all(n == 8 if name == "8" else 100 <= n <= 200 for name, n in drawn))
        self.assertTrue(650 < sum(1 for name, _ in drawn if name == "8") < 850)
        for text in ("", "a", "0", "5-4", "5:0", "5:-1", "1,,2", "-3"):
            with self.assertRaises(ValueError, msg=text):
                Mixture(text)

    def test_prompts_share_a_beginning_and_no_more(self):
        import random

        prompt = prompts_of(list(range(1000)), 10, random.Random(1))
        first, second = prompt(50), prompt(50)
        self.assertEqual((len(first), first[:10]), (50, second[:10]))
        self.assertNotEqual(first[10:], second[10:])
        self.assertEqual(prompt(5), first[:5])

    def test_events_and_addresses(self):
        self.assertEqual(client.payload_of("data: a"), "a")
        self.assertIsNone(client.payload_of(": waiting"))
        self.assertRaises(client.ProtocolError, client.payload_of, "data: a\ndata: b")
        self.assertEqual(client.address_of("http://[::1]:99/v1/"), (("::1", 99), ""))
        self.assertEqual(client.address_of("localhost"), (("localhost", 80), ""))
        self.assertRaises(ValueError, client.address_of, "https://a.example")


class LoadTest(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--ctx", "2048")
        cls.url = f"http://{cls.server.host}:{cls.server.port}"

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def report(self, *arguments, status=0):
        run = load("--url", self.url, "--json", *arguments)
        self.assertEqual(run.returncode, status, run.stderr)
        return json.loads(run.stdout)

    def test_sums_are_those_of_the_server(self):
        before = self.server.metrics()
        options = ["--requests", 24, "--concurrency", 6, "--plain-share", 0.3]
        report = self.report(*options, "--prompt-tokens", "10:2,200", "--max-tokens", "5-9", "--shared-prefix", 4)
        after = self.server.metrics()

        def rise(name):
            return client.total(after, name) - client.total(before, name)

        everything = report["all"]
        self.assertEqual(everything["outcomes"], {"answered": 24})
        self.assertEqual(everything["prompt_tokens"], rise("soli_prompt_tokens_total"))
        self.assertEqual(everything["generated_tokens"], rise("soli_generation_tokens_total"))
        self.assertEqual(sum(figures["requests"] for figures in report["classes"].values()), 24)
        short, long = report["classes"]["10"], report["classes"]["200"]
        self.assertEqual(short["prompt_tokens"], 10 * short["requests"])
        self.assertEqual(long["prompt_tokens"], 200 * long["requests"])
        n_streams = everything["time_to_first_token_s"]["n"]
        self.assertLess(n_streams, 24)
        self.assertTrue(any(f"{24 - n_streams} plain answers" in note for note in report["not_measured"]))
        self.assertEqual(everything["end_to_end_s"]["n"], 24)

    def test_the_same_seed_sends_the_same(self):
        options = ["--rate", 200, "--burst", 4, "--requests", 12, "--prompt-tokens", "5-50", "--max-tokens", "1-9"]
        reports = [self.report(*options, "--seed", seed)["all"] for seed in (3, 3, 4)]
        sent = [(report["prompt_tokens"], report["generated_tokens"]) for report in reports]
        self.assertEqual(sent[0], sent[1])
        self.assertNotEqual(sent[0], sent[2])

    def test_what_is_refused_is_told(self):
        report = self.report("--requests", 3, "--prompt-tokens", 3000, status=1)
        self.assertEqual((report["all"]["answered"], report["all"]["outcomes"]), (0, {"HTTP 400": 3}))

    def test_the_command_line(self):
        for arguments in (["--rate", "-1"], ["--burst", "2"], ["--prompt-tokens", "x"], ["--url", "ftp://a"]):
            self.assertEqual(load(*arguments).returncode, 2, arguments)
        run = load("--url", "http://127.0.0.1:1", "--requests", 1)
        self.assertEqual((run.returncode, run.stdout), (1, b""))
        self.assertIn(b"http://127.0.0.1:1", run.stderr)
        run = load("--url", self.url, "--requests", 2, "--prompt-tokens", 8, "--max-tokens", 3)
        self.assertEqual(run.returncode, 0, run.stderr)
        for part in (b"2 x answered", b"generated tokens/s", b"nearest rank"):
            self.assertIn(part, run.stdout)


if __name__ == "__main__":
    main()
