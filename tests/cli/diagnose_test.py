"""`soli diagnose`: paths of tokens, planted change points, what flags do, the page, and what is refused."""

import html.parser
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import unittest

from program import (
    DEMO, DONE, ERROR, GOLDEN, INTERRUPTED, MIXTRAL, ROOT, USAGE, CliTest, environment, interrupt_when_handled, main,
    program, soli,
)  # fmt: skip

TEXT = "Once upon a time there was a little fox who lived by the sea."
QWEN2MOE = GOLDEN / "qwen2moe" / "model.gguf"  # shared experts
HOSTILE = "</script><img src=x onerror=alert(1)> & \x1b[31m \u202e \"'\n<b>"


class DiagnoseTest(CliTest):
    def diagnose(self, model, *arguments, **options):
        return self.run_ok("diagnose", model, *arguments, "--json", **options).json


class PathTest(DiagnoseTest):
    def test_experts_and_weights_are_those_of_the_routing_json(self):
        path = self.folder() / "routing.json"
        run = self.run_ok("run", DEMO, "-p", TEXT, "-n", "7", "--temp", "0", "--routing-json", path, "--json").json
        routes = json.loads(path.read_text())["tokens"]
        result = self.diagnose(DEMO, "-p", TEXT, "-n", "6")
        self.assertEqual((result["layers"], result["experts"], result["experts_per_token"]), (4, 16, 2))
        self.assertEqual((result["generated_tokens"], result["cut"]), (6, False))
        tokens = result["tokens"]
        self.assertEqual(len(tokens), result["prompt_tokens"] + 6)
        self.assertEqual([t["token"] for t in tokens if t["kind"] == "generated"], run["tokens"][:6])
        self.assertEqual("".join(t["text"] for t in tokens if t["kind"] == "prompt"), "<s> " + TEXT)
        for token, route in zip(tokens, routes, strict=True):
            self.assertEqual((token["position"], token["token"]), (route["position"], route["token"]))
            for layer, choice in zip(token["layers"], route["layers"], strict=True):
                self.assertEqual([c["expert"] for c in layer["calls"]], choice["ids"])
                self.assertEqual([c["weight"] for c in layer["calls"]], choice["weights"])

    def test_figures_are_in_range_and_used_experts_are_those_of_the_calls(self):
        result = self.diagnose(DEMO, "-p", TEXT)
        calls = {}
        for token in result["tokens"]:
            for layer in token["layers"]:
                for call in layer["calls"]:
                    self.assertEqual(call["kind"], "routed")
                    self.assertTrue(0 < call["residual_ratio"] < 100 and 0 < call["active_share"] <= 1)
                    said = [each["probability"] for each in call["says"]]
                    self.assertEqual(said, sorted(said, reverse=True))
                    self.assertTrue(0 < sum(said) <= 1 + 1e-6)
                    calls.setdefault((layer["layer"], call["expert"]), []).append(call["active_share"])
        used = {(ffn["layer"], ffn["expert"]): ffn for ffn in result["feed_forwards"]}
        self.assertEqual(sorted(used), sorted(calls))
        for place, ffn in used.items():
            self.assertEqual(ffn["calls"], len(calls[place]))
            self.assertAlmostEqual(ffn["active_share"], sum(calls[place]) / len(calls[place]), places=6)
            most = max(calls[place])
            self.assertTrue(0 <= ffn["dead_units"] <= ffn["units"] * (1 - most) + 1e-3)

    def test_shared_experts_and_dense_layers_are_told_apart(self):
        kinds = lambda result: {call["kind"] for t in result["tokens"] for l in t["layers"] for call in l["calls"]}
        self.assertEqual(kinds(self.diagnose(QWEN2MOE, "-p", "abc")), {"routed", "shared"})
        mixed = self.diagnose(GOLDEN / "deepseek2-v3" / "model.gguf", "-p", "abc")
        self.assertEqual(kinds(mixed), {"routed", "shared", "dense"})
        self.assertNotEqual(mixed["moe_layers"], list(range(mixed["layers"])))
        dense = self.diagnose(GOLDEN / "qwen3-dense" / "model.gguf", "-p", "abc")
        self.assertEqual((kinds(dense), dense["change_points"], dense["experts"]), ({"dense"}, [], 0))
        text = self.run_ok("diagnose", GOLDEN / "qwen3-dense" / "model.gguf", "-p", "abc").text
        self.assertIn("dense", text)
        self.assertNotIn("change points of", text)

    def test_experts_on_disk_give_the_same(self):
        arguments = ["-p", TEXT, "-n", "5", "-c", "128"]
        whole = soli("diagnose", DEMO, *arguments, "--json")
        message = soli("diagnose", DEMO, *arguments, "--memory", "1MiB").message
        least = int(re.search(r"at least (\d+)B", message).group(1))
        part = self.run_ok("diagnose", DEMO, *arguments, "--memory", f"{least + (2 << 20)}B", "--json")
        self.assertIn("slots for", part.message)
        self.assertEqual(part.json, whole.json)
        fewer = soli("diagnose", DEMO, *arguments, "--top", "0", "--memory", "1MiB").message
        self.assertLess(int(re.search(r"at least (\d+)B", fewer).group(1)), least)  # room for the lens is planned

    def test_policies(self):
        for steer, counts in (("k=1", {1}), ("k=4", {4}), ("mask=[0,1,2,3,4,5,6,7]", {2})):
            result = self.diagnose(DEMO, "-p", TEXT, "--steer", steer)
            calls = [layer["calls"] for token in result["tokens"] for layer in token["layers"]]
            self.assertEqual({len(each) for each in calls}, counts)
            if steer.startswith("mask"):
                self.assertGreaterEqual(min(call["expert"] for each in calls for call in each), 8)


class ChangePointTest(DiagnoseTest):
    SHAPE = ["--preset", "tiny", "--layers", "3", "--experts", "16", "--experts-per-token", "4", "--type", "F16"]
    PARTS = (60, 45, 70)

    def planted(self, spec, seed):
        """A model, and a text whose parts are of domains 0, 1 and 2."""
        model, truth = self.folder() / "planted.gguf", self.folder() / "truth.json"
        self.run_ok("synth", *self.SHAPE, "--routing", spec, "--truth", truth, "--seed", seed, "-o", model)
        domains = json.loads(truth.read_text())["domains"]
        draw = random.Random(seed)
        return model, "".join(draw.choice(d["letters"]) for d, n in zip(domains, self.PARTS) for _ in range(n))

    def changes(self, model, text, *arguments):
        """Where they stand in the text, in letters, and the whole result."""
        result = self.diagnose(model, "-p", text, "--top", "0", *arguments)
        texts = [token["text"] for token in result["tokens"]]
        start = 0 if "".join(texts) == text else len(texts[0])  # BOS
        self.assertEqual("".join(texts)[start:], text)
        return [len("".join(texts[: c["position"]])) - start for c in result["change_points"]], result

    def test_planted_domains_are_found_where_they_begin(self):
        for seed in range(6):
            model, text = self.planted("planted", seed)
            places, result = self.changes(model, text)
            self.assertEqual(places, [60, 105], f"seed {seed}")
            segments = [token["segment"] for token in result["tokens"]]
            self.assertEqual(sorted(set(segments)), [0, 1, 2])
            self.assertTrue(all(c["p"] <= 0.01 for c in result["change_points"]))
            shown = self.run_ok("diagnose", model, "-p", text, "--top", "0").text
            self.assertIn(f"{text[:60]}|{text[60:105]}|{text[105:]}", shown)

    def test_nothing_is_found_in_null_models(self):
        n_found = 0
        for seed in range(20):
            places, _ = self.changes(*self.planted("planted:random", seed))
            n_found += len(places) > 0
        self.assertLessEqual(n_found, 1)

    def test_the_seed_changes_the_permutations_only(self):
        model, text = self.planted("planted", 1)
        first, again, other = (self.changes(model, text, "--seed", seed) for seed in (0, 0, 1))
        self.assertEqual(first, again)
        self.assertEqual(first[0], other[0])
        permuted = lambda outcome: [c["permuted_bits"] for c in outcome[1]["change_points"]]
        self.assertNotEqual(permuted(first), permuted(other))


class FlagTest(DiagnoseTest):
    def test_texts_from_a_file_and_from_standard_input(self):
        path = self.folder() / "text.txt"
        path.write_text(TEXT)
        wanted = self.diagnose(DEMO, "-p", TEXT)
        self.assertEqual(self.diagnose(DEMO, "-f", path), wanted)
        self.assertEqual(self.diagnose(DEMO, stdin=TEXT.encode()), wanted)

    def test_long_texts_are_cut_and_that_is_said(self):
        text = (ROOT / "tests" / "data" / "math.txt").read_text()[:4000]
        outcome = self.run_ok("diagnose", DEMO, "-p", text, "--max-tokens", "40", "-n", "3", "--top", "0", "--json")
        self.assertEqual((outcome.json["prompt_tokens"], outcome.json["cut"]), (40, True))
        self.assertGreater(outcome.json["text_tokens"], 40)
        for part in (f"has {outcome.json['text_tokens']} tokens, and is cut to 40", "0 tokens are generated"):
            self.assertIn(part, outcome.message)
        self.assertIn("was cut", self.run_ok("diagnose", DEMO, "-p", text, "--max-tokens", "9", "--top", "0").text)
        whole = self.diagnose(DEMO, "-p", text, "--top", "0", "--max-tokens", "4096")
        self.assertEqual(whole["prompt_tokens"], 256)  # the context
        paths = lambda result: [(token["token"], token["layers"]) for token in result["tokens"][:40]]
        self.assertEqual(paths(whole), paths(outcome.json))

    def test_generation_stops_at_max_tokens(self):
        result = self.diagnose(DEMO, "-p", "The", "-n", "50", "--max-tokens", "10", "--top", "0")
        self.assertEqual(len(result["tokens"]), 10)

    def test_top_and_threshold(self):
        share = lambda result: sum(ffn["active_share"] for ffn in result["feed_forwards"])
        dead = lambda result: sum(ffn["dead_units"] for ffn in result["feed_forwards"])
        result = self.diagnose(DEMO, "-p", TEXT)
        call = lambda result: result["tokens"][3]["layers"][2]["calls"][0]
        self.assertEqual((len(call(result)["says"]), result["active_above"]), (5, 0.1))
        two = self.diagnose(DEMO, "-p", TEXT, "--top", "2", "--active-above", "0.8")
        self.assertEqual(call(two)["says"], call(result)["says"][:2])
        self.assertLess(share(two), share(result))
        self.assertGreater(dead(two), dead(result))
        self.assertEqual(call(self.diagnose(DEMO, "-p", TEXT, "--top", "0"))["says"], [])

    def test_layer_and_token_choose_what_is_listed(self):
        last = self.run_ok("diagnose", DEMO, "-p", TEXT).text
        self.assertIn("\nlayer 3\n", last)
        first = self.run_ok("diagnose", DEMO, "-p", TEXT, "--layer", "0").text
        self.assertIn("\nlayer 0\n", first)
        call = self.diagnose(DEMO, "-p", TEXT)["tokens"][1]["layers"][0]["calls"][0]
        line = rf"(?m)^ +1 \" O\" .* #{call['expert']} +{call['weight']:.3f} +{call['residual_ratio']:.3f} "
        self.assertRegex(first, line)
        one = self.run_ok("diagnose", DEMO, "-p", TEXT, "--token", "1").text
        self.assertIn('token 1, " O", in all layers', one)
        self.assertNotIn("\nlayer 3\n", one)
        for layer in range(4):
            self.assertRegex(one, rf"(?m)^ +{layer} .* #\d+ ")

    def test_special_tokens(self):
        plain = self.diagnose(MIXTRAL, "-p", "a</s>b", "--top", "0")
        parsed = self.diagnose(MIXTRAL, "-p", "a</s>b", "--top", "0", "--parse-special")
        self.assertGreater(plain["prompt_tokens"], parsed["prompt_tokens"])
        self.assertIn("</s>", [token["text"] for token in parsed["tokens"]])

    def test_a_trace_is_written_beside(self):
        trace = self.folder() / "trace.sqlite"
        outcome = self.run_ok("diagnose", DEMO, "-p", TEXT, "-n", "2", "--trace", trace, "--json")
        self.assertEqual(outcome.json, self.diagnose(DEMO, "-p", TEXT, "-n", "2"))
        self.assertIn(f"{len(outcome.json['tokens'])} tokens written", outcome.message)

    def test_interrupted_it_shows_what_was_done(self):
        command = ["diagnose", DEMO, "-p", TEXT, "-n", "230", "--top", "100", "-t", "1", "--json"]
        child = subprocess.Popen([program(), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=environment())  # fmt: skip
        out, err = interrupt_when_handled(child)
        if child.returncode in (DONE, -signal.SIGINT):
            self.skipTest("the text was done before")
        self.assertEqual(child.returncode, INTERRUPTED, err)
        self.assertIn(b"interrupted", err)
        if out:
            self.assertLess(len(json.loads(out)["tokens"]), 247)


class ColourTest(DiagnoseTest):
    def on_terminal(self, *arguments, **changes):
        terminal, slave = pty.openpty()
        env = environment(**changes)
        if "NO_COLOR" not in changes:
            env.pop("NO_COLOR", None)
        child = subprocess.Popen([program(), "diagnose", str(DEMO), *arguments], stdin=subprocess.DEVNULL, stdout=slave,
                                 stderr=subprocess.DEVNULL, env=env)  # fmt: skip
        os.close(slave)
        out = b""
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not piece:
                break
            out += piece
        os.close(terminal)
        self.assertEqual(child.wait(), DONE)
        return out.decode().replace("\r\n", "\n")

    def test_a_terminal_is_coloured_by_experts(self):
        out = self.on_terminal("-p", TEXT, "--layer", "1")
        self.assertIn("by the expert of layer 1 with the largest weight", out)
        leading = [t["layers"][1]["calls"][0]["expert"] for t in self.diagnose(DEMO, "-p", TEXT)["tokens"]]
        colour = re.search(r"\x1b\[(38;5;\d+;48;5;\d+)m O\x1b\[0m", out).group(1)
        self.assertRegex(out, rf"\x1b\[{colour}m #{leading[1]} \x1b\[0m {leading.count(leading[1])} tokens")

    def test_or_by_parts(self):
        out = self.on_terminal("-p", TEXT, "--colour-by", "segments")
        self.assertIn("by the parts between change points", out)
        colours = set(re.findall(r"\x1b\[(38;5;\d+;48;5;\d+)m", out))
        self.assertEqual(len(colours), 1 + len(self.diagnose(DEMO, "-p", TEXT)["change_points"]))

    def test_no_color_and_other_outputs_have_none(self):
        self.assertNotIn("\x1b", self.on_terminal("-p", TEXT, NO_COLOR="1"))
        self.assertIn("\x1b", self.on_terminal("-p", TEXT, NO_COLOR=""))
        self.assertNotIn(b"\x1b", self.run_ok("diagnose", DEMO, "-p", TEXT).out)

    def test_the_text_steers_no_terminal(self):
        out = self.on_terminal("-p", "a\x1b[2Jb\x07c\u009bd\ne", "--top", "0")
        for escape in re.findall(r"\x1b.{0,3}", out):
            self.assertRegex(escape, r"^\x1b\[(0m|1m|38)")
        self.assertNotIn("\x07", out)
        self.assertNotIn("\u009b", out)


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.open, self.texts = [], [], None, {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        self.open = (tag, dict(attributes).get("id"))

    def handle_data(self, text):
        self.texts[self.open] = self.texts.get(self.open, "") + text


class PageTest(DiagnoseTest):
    def page(self, *arguments):
        path = self.folder() / "page.html"
        outcome = self.run_ok("diagnose", *arguments, "--html", path, "--json")
        return path.read_text(), outcome.json

    def test_it_has_every_path_and_needs_nothing_else(self):
        text, result = self.page(DEMO, "-p", TEXT, "-n", "3", "--layer", "2")
        page = Page(text)
        data = json.loads(page.texts["script", "data"])
        self.assertEqual([t[0] for t in data["tokens"]], [t["text"] for t in result["tokens"]])
        self.assertEqual([t[1] for t in data["tokens"]], [int(t["kind"] == "generated") for t in result["tokens"]])
        self.assertEqual((data["layer"], data["moe"]), (2, [0, 1, 2, 3]))
        for path, token in zip(data["paths"], result["tokens"], strict=True):
            for shown, layer in zip(path, token["layers"], strict=True):
                for call, wanted in zip(shown[2], layer["calls"], strict=True):
                    self.assertEqual(call[:2], [0, wanted["expert"]])
                    self.assertAlmostEqual(call[3], wanted["residual_ratio"], delta=0.01 * wanted["residual_ratio"])
                    said = [(each["text"], each["token"]) for each in wanted["says"]]
                    self.assertEqual([(data["names"][str(s[0])], s[0]) for s in call[5]], said)
        self.assertFalse({name for name, _ in page.attributes} & {"src", "href", "onclick", "onload", "action"})
        self.assertNotRegex(text, r"https?://|url\(|@import|innerHTML|document\.write")
        self.assertIn("default-src 'none'", text)
        self.assertIn("prefers-color-scheme: dark", text)

    def test_texts_cannot_leave_their_place(self):
        text, result = self.page(DEMO, "-p", HOSTILE, "--top", "2")
        page = Page(text)
        data = json.loads(page.texts["script", "data"])
        self.assertEqual([t[0] for t in data["tokens"]], [t["text"] for t in result["tokens"]])
        self.assertNotIn("img", page.tags)
        self.assertEqual(page.tags.count("script"), 2)
        self.assertNotIn("<", page.texts["script", "data"])

    @unittest.skipUnless(shutil.which("node"), "needs node")
    def test_its_script_runs(self):
        text, result = self.page(DEMO, "-p", TEXT, "-n", "2")
        path = self.folder() / "page.html"
        path.write_text(text)
        driver = ROOT / "tests" / "cli" / "page_driver.mjs"
        outcome = subprocess.run(["node", driver, path], capture_output=True, timeout=60)
        self.assertEqual(outcome.returncode, 0, outcome.stderr.decode())
        shown = json.loads(outcome.stdout)
        self.assertEqual(shown["tokens"], [t["text"].replace("\n", "\u23ce\n") or "\u00b7" for t in result["tokens"]])
        layers = result["tokens"][1]["layers"]
        self.assertEqual(len(shown["path"]), sum(len(layer["calls"]) for layer in layers))
        self.assertEqual([row[3] for row in shown["path"]], [f"#{c['expert']}" for l in layers for c in l["calls"]])
        self.assertEqual(len(shown["layers"]), 4)
        self.assertEqual(len(set(shown["colours"])), min(8, len(set(shown["labels"]))))


class ErrorTest(DiagnoseTest):
    def test_wrong_command_lines(self):
        diagnose = ["diagnose", DEMO, "-p", "x"]
        for arguments, part in (
            (["--max-tokens", "0"], "--max-tokens"),
            (["--max-tokens", "4097"], "--max-tokens"),
            (["-n", "-1"], "--predict"),
            (["--top", "101"], "--top"),
            (["--active-above", "-1"], "--active-above"),
            (["--seed", "x"], "--seed"),
            (["--colour-by", "mood"], "experts,segments"),
            (["--html", ""], "--html"),
            (["-f", "y"], "excludes"),
        ):
            self.check(soli(*diagnose, *arguments), USAGE, part)

    def test_what_cannot_be_done(self):
        folder = self.folder()
        diagnose = ["diagnose", DEMO, "-p", "x"]
        self.check(soli(*diagnose, "--layer", "4"), ERROR, "--layer 4", "layers 0 to 3")
        self.check(soli(*diagnose, "--token", "9"), ERROR, "--token 9", "positions 0 to 1")
        self.check(soli(*diagnose, "--html", DEMO), ERROR, "it is the model")
        self.check(soli(*diagnose, "--html", folder / "no" / "page.html"), ERROR, "no")
        self.check(soli("diagnose", DEMO, "-f", folder / "no.txt"), ERROR, "no.txt")
        self.check(soli("diagnose", DEMO, "-f", folder), ERROR, folder)
        self.check(soli(*diagnose, "--html", "/dev/full"), ERROR, "No space left")
        with open("/dev/full", "w") as full:
            self.check(soli(*diagnose, stdout=full), ERROR, "No space left")

    def test_an_empty_text_is_bos(self):
        self.assertEqual([t["text"] for t in self.diagnose(DEMO, "-p", "")["tokens"]], ["<s>"])


if __name__ == "__main__":
    main()
