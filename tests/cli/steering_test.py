"""Routing policies from outside: the file, the flags, what they change, what they refuse, and what they cost."""

import json
import os

from program import DEMO, ERROR, GOLDEN, ROOT, USAGE, CliTest, main, soli
from server import Server, config_file

GREEDY = ["-p", "The sea", "-n", "24", "--temp", "0", "--ignore-eos"]
TEXT = ["--text", ROOT / "tests" / "data" / "code_python.txt", "--window", "64", "--max-tokens", "300"]
CONTROLS = [
    "k=1", "cumulative_probability=0.5", "temperature=2", "mask=[0,1,2]", "force=[3]", "bias={3=4}", "noise=2",
    "smoothing=0.7", "context_gate=8", "input_clamp=0.5", "capacity_factor=0.4", "relative_threshold=0.9",
    "layers=[{layers=1,k_min=1,mask=[0,1,2,3,4,5,6]}]",
]


class FlagsTest(CliTest):
    def logits(self, *arguments):
        out = self.folder() / "logits"
        ids = ",".join(str(i % 300) for i in range(90))
        self.run_ok("logits", DEMO, "--token-ids", ids, "--out", out, *arguments)
        return out.read_bytes()

    def test_each_control_moves_the_logits_and_chunks_do_not(self):
        exact = self.logits()
        self.assertEqual(self.logits("--steer", "temperature=1", "--steer", "mask=[]"), exact)
        self.assertEqual(self.logits("--steer", "k=2"), exact, "the model's own number")
        for control in CONTROLS:
            with self.subTest(control=control):
                steered = self.logits("--steer", control)
                self.assertNotEqual(steered, exact)
                self.assertEqual(self.logits("--steer", control, "-b", "7", "-t", "1"), steered)

    def test_a_file_is_the_same_as_its_keys_and_flags_go_before_it(self):
        path = self.folder() / "p.toml"
        path.write_text('temperature = 2\n[[layers]]\nlayers = "1-2"\nexperts_per_token = 1\n')
        of_file = self.logits("--policy", path)
        layers = 'layers=[{layers="1-2",experts_per_token=1}]'
        self.assertEqual(self.logits("--steer", "temperature=2", "--steer", layers), of_file)
        self.assertEqual(
            self.logits("--policy", path, "--steer", "temperature=1", "--steer", "layers=[]"), self.logits()
        )

    def test_the_policy_is_shown(self):
        outcome = self.run_ok("run", DEMO, *GREEDY, "--json", "--steer", "temperature=0.5", "--steer", "mask=[3]")
        self.assertIn("lossy: temperature = 0.5, mask = [3]", outcome.message)
        settings = outcome.json["settings"]
        self.assertEqual(settings["policy"], {"temperature": 0.5, "mask": [3]})
        self.assertTrue(settings["lossy"])
        exact = self.run_ok("run", DEMO, *GREEDY, "--json")
        self.assertEqual(exact.json["settings"]["policy"], {})
        self.assertNotIn("lossy", exact.message)
        for nothing in ("k=2", "layers=[{layers=1}]"):
            same = self.run_ok("run", DEMO, *GREEDY, "--json", "--steer", nothing)
            self.assertEqual((same.json["settings"]["policy"], same.json["settings"]["lossy"]), ({}, False))
            self.assertNotIn("lossy", same.message)
        elsewhere = soli("run", DEMO, *GREEDY, "--steer", "layers=[{layers=99}]")
        self.check(elsewhere, ERROR, "layers 99-99", "0 to ")

    def test_a_masked_expert_is_never_called(self):
        path = self.folder() / "choices.json"
        self.run_ok("run", DEMO, *GREEDY, "--routing-json", path, "--steer", "mask=[0,5]", "--steer", "force=[7]")
        for token in json.loads(path.read_text())["tokens"]:
            for layer in token["layers"]:
                ids = layer["ids"] if isinstance(layer, dict) else [choice[0] for choice in layer]
                self.assertIn(7, ids)
                self.assertFalse({0, 5} & set(ids))

    def test_tokens_whose_experts_are_all_dropped_count(self):
        steer = ["--steer", "capacity_factor=0.5", "--steer", 'overflow="drop"']
        path = self.folder() / "choices.json"
        prompt = self.folder() / "prompt.txt"
        prompt.write_text("the sea is wide and the sea is deep. " * 20)
        options = ["--temp", "0", "--routing", "--routing-json", path, "--json"]
        self.run_ok("run", DEMO, "-f", prompt, "-n", "1", *options, *steer)
        routing = json.loads(path.read_text())
        tokens, report = routing["tokens"], routing["report"]
        self.assertEqual([token["position"] for token in tokens], list(range(len(tokens))))
        self.assertEqual({len(token["layers"]) for token in tokens}, {4})
        self.assertTrue(any(not layer["ids"] for token in tokens for layer in token["layers"]))
        self.assertEqual((report["n_incomplete_tokens"], report["all"]["n_tokens"]), (0, len(tokens)))
        of_text = self.run_ok("eval", DEMO, "--text", prompt, "--window", str(len(tokens)), *steer, "--json").json
        self.assertAlmostEqual(
            report["all"]["active_parameters"]["mean"] / of_text["active_parameters"], 1, delta=1e-3
        )

    def test_bench_runs_with_a_policy(self):
        arguments = ["--prompt", "8", "--sequences", "1", "--generate", "2", "--repetitions", "1"]
        outcome = self.run_ok("bench", DEMO, *arguments, "--steer", "smoothing=0.5", "--json")
        self.assertEqual(outcome.json["policy"], {"smoothing": 0.5})

    def test_what_cannot_be_is_an_error_that_names_it(self):
        path = self.folder() / "p.toml"
        path.write_text("noise = 1\ntemperature = 0\n")
        run = ["run", DEMO, "-p", "x"]
        self.check(soli(*run, "--policy", path), ERROR, f"{path}:2: temperature", "from 0.000001 to 1000")
        self.check(soli(*run, "--steer", "temperature=1e-38"), ERROR, "temperature: 1e-38", "from 0.000001 to 1000")
        path.write_text("a." * 60000 + "b = 1\n")
        deep = f"{path}:1: a key or list is nested more than 32 deep"
        self.check(soli(*run, "--policy", path), ERROR, deep)
        self.check(soli("serve", DEMO, "--config", path), ERROR, deep)
        self.check(soli(*run, "--policy", self.folder() / "none"), ERROR, "cannot open")
        self.check(soli(*run, "--steer", "k=17"), ERROR, "experts_per_token: 17", "1 to 16")
        self.check(soli(*run, "--steer", "mask=[\"0-15\"]"), ERROR, "all 16 experts are masked")
        self.check(soli(*run, "--steer", "force=[0,1,2]"), ERROR, "3 experts are forced", "2")
        self.check(soli(*run, "--steer", "mask=[1]", "--steer", "force=[1]"), ERROR, "expert 1 is masked")
        self.check(soli(*run, "--steer", "temperature"), ERROR, "--steer temperature", "KEY=VALUE")
        self.check(soli(*run, "--steer", "heat=1"), ERROR, "--steer heat=1", "no control")
        self.check(soli(*run, "--steer", "smoothing=nan"), ERROR, "smoothing", "below 1")
        self.check(soli(*run, "--steer"), USAGE, "--steer")
        dense = GOLDEN / "llama-dense" / "model.gguf"
        self.check(soli("run", dense, "-p", "x", "--steer", "temperature=2"), ERROR, "dense")


class PriceTest(CliTest):
    def test_a_policy_is_held_against_the_exact_model(self):
        exact = self.run_ok("eval", DEMO, *TEXT, "--json").json
        price = self.run_ok("eval", DEMO, *TEXT, "--steer", "k=1", "--against", "exact", "--json").json
        self.assertEqual(price["exact"]["nats_per_token"], exact["nats_per_token"])
        self.assertEqual(price["policy"], {"experts_per_token": 1})
        self.assertEqual((price["experts_per_token"], exact["experts_per_token"]), (1, 2))
        self.assertLess(price["active_parameters"], exact["active_parameters"])
        self.assertLess(price["active_bytes"], exact["active_bytes"])
        self.assertGreater(price["divergence"]["mean_kl"], 0)
        self.assertLess(price["divergence"]["top_agreement"], 1)
        alone = self.run_ok("eval", DEMO, *TEXT, "--steer", "k=1", "--json").json
        self.assertEqual(alone["nats_per_token"], price["nats_per_token"])

    def test_nothing_to_hold_against(self):
        outcome = soli("eval", DEMO, *TEXT, "--against", "exact")
        self.check(outcome, ERROR, "exact already", "--steer")

    def test_domains_are_told_apart_and_together(self):
        folder = self.folder()
        (folder / "b.txt").write_text("the sea is wide and the sea is deep. " * 20)
        (folder / "a.txt").write_text("def f(x):\n    return x + 1\n" * 20)
        (folder / "README.md").write_text("no text of a domain")
        data = ["--data", folder, "--window", "64", "--steer", "mask=[0]"]
        result = self.run_ok("eval", DEMO, *data, "--against", "exact", "--json").json
        self.assertEqual([domain["name"] for domain in result["domains"]], ["a", "b"])
        self.assertEqual(sum(domain["tokens"] for domain in result["domains"]), result["tokens"])
        mean = sum(d["divergence"]["mean_kl"] * d["divergence"]["positions"] for d in result["domains"])
        self.assertAlmostEqual(mean / result["divergence"]["positions"], result["divergence"]["mean_kl"])
        single = self.run_ok("eval", DEMO, "--text", folder / "b.txt", *data[2:], "--json").json
        self.assertEqual(result["domains"][1]["nats_per_token"], single["nats_per_token"])
        text = self.run_ok("eval", DEMO, *data).text
        self.assertRegex(text, r"\na +\d+")
        (folder / "loop.txt").symlink_to("loop.txt")
        (folder / "zero.jsonl").symlink_to("/dev/zero")
        os.mkfifo(folder / "pipe.txt")
        (folder / "link.txt").symlink_to("a.txt")
        outcome = self.run_ok("eval", DEMO, *data, "--json")
        for name in ("loop.txt", "pipe.txt", "zero.jsonl"):
            self.assertIn(f"{folder / name} is left out", outcome.message)
        self.assertNotIn("link.txt", outcome.message)
        self.assertEqual([domain["name"] for domain in outcome.json["domains"]], ["a", "b", "link"])
        self.check(soli("eval", DEMO, "--data", self.folder()), ERROR, "NAME.txt")
        self.check(soli("eval", DEMO), USAGE, "--data")

    def test_a_sweep_finds_who_is_on_the_front(self):
        svg = self.folder() / "price.svg"
        outcome = self.run_ok("eval", DEMO, *TEXT, "--sweep", "k=1..3", "--svg", svg, "--json")
        points = outcome.json["points"]
        self.assertEqual([point["value"] for point in points], ["1", "2", "3"])
        self.assertEqual([point["experts_per_token"] for point in points], [1, 2, 3])
        self.assertEqual(points[1]["divergence"]["mean_kl"], 0, "the model's own number is exact")
        self.assertEqual(points[1]["divergence"]["top_agreement"], 1)
        self.assertEqual([point["on_front"] for point in points], [True, True, False])
        self.assertIn("<svg", svg.read_text())
        text = self.run_ok("eval", DEMO, *TEXT, "--sweep", "mask=[0];[0,1]", "--steer", "temperature=2").text
        self.assertIn("[0,1]", text)
        for sweep, part in (("k", "KEY="), ("k=3..1", "A first"), ("k=1..99", "64"), ("k=17", "17"), ("q=1", "q=1")):
            self.check(soli("eval", DEMO, *TEXT, "--sweep", sweep), ERROR, "--sweep", part)
        both = soli("eval", DEMO, *TEXT, "--sweep", "k=1", "--against", "exact")
        self.check(both, USAGE, "--against")


class ServerTest(CliTest):
    """Of keys and servers; what requests may say, the tests of the translation have."""

    KEYS = {"wide": "wide-key-of-all", "narrow": "narrow-key-of-some"}
    BODY = {"prompt": "The sea", "max_tokens": 8, "temperature": 0, "logprobs": 0, "ignore_eos": True}

    def ask(self, server, key, **changes):
        headers = {"Authorization": f"Bearer {self.KEYS[key]}"}
        status, _, body = server.request("POST", "/v1/completions", {**self.BODY, **changes}, headers)
        return status, json.loads(body)

    def test_the_server_and_the_key_say_what_may_be_set(self):
        config = config_file(
            self.folder(),
            'allow-policy = "mask,smoothing,capacity_factor"\nsteer = ["temperature=0.5"]\n'
            f'[[api-key]]\nkey = "{self.KEYS["wide"]}"\n'
            f'[[api-key]]\nkey = "{self.KEYS["narrow"]}"\nallow-policy = "mask,noise"\n',
        )
        server = Server("--config", config, "--ctx", "256")
        self.addCleanup(server.stop)
        status, own = self.ask(server, "wide")
        self.assertEqual((status, own["policy"]), (200, {"temperature": 0.5}))
        steered = {"smoothing": 0.5, "capacity_factor": 0.5}
        status, smooth = self.ask(server, "wide", policy=steered)
        self.assertEqual((status, smooth["policy"]), (200, {"temperature": 0.5, **steered}))
        self.assertNotEqual(smooth["choices"][0]["logprobs"], own["choices"][0]["logprobs"])
        self.assertEqual(self.ask(server, "wide", policy=steered)[1]["choices"], smooth["choices"])
        self.assertEqual(self.ask(server, "narrow", policy={"mask": [0]})[0], 200)
        for policy in ({"smoothing": 0.5}, {"noise": 1}):
            status, refused = self.ask(server, "narrow", policy=policy)
            self.assertEqual((status, refused["error"]["param"]), (400, "policy"))
        headers = {"Authorization": f"Bearer {self.KEYS['wide']}"}
        props = json.loads(server.request("GET", "/props", headers=headers)[2])
        self.assertEqual(props["policy"], {"temperature": 0.5})
        self.assertEqual(props["allow_policy"], ["capacity_factor", "mask", "smoothing"])
        self.assertFalse(props["exact"])
        metrics = server.request("GET", "/metrics", headers=headers)[2].decode()
        self.assertRegex(metrics, r'soli_expert_overflow_total\{[^}]*result="moved"\} [1-9]', "overflow")

    def test_what_cannot_be_allowed(self):
        self.check(soli("serve", DEMO, "--check", "--allow-policy", "heat"), USAGE, "--allow-policy", "'heat'")
        self.check(soli("serve", DEMO, "--check", "--steer", "mask=[99]"), ERROR, "no expert 99")


if __name__ == "__main__":
    main()
