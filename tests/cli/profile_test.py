"""`soli profile`: figures recounted from routing JSON, planted truth, drift, resuming; texts as JSON lines."""

import csv
import io
import json
import math
import random
import struct
import subprocess

from program import (
    DEMO, ERROR, GOLDEN, INTERRUPTED, ROOT, USAGE, CliTest, environment, interrupt_when_handled, main, program, soli,
)  # fmt: skip

TEXTS = ROOT / "tests" / "data"
WINDOW = 200


def mean(values):
    return math.fsum(values) / len(values)


def float32(decimal):
    return struct.unpack("f", struct.pack("f", decimal))[0]


def shares_of(calls):
    return [n / sum(calls) for n in calls]


def recount_layer(routes, n_experts):
    """Figures of one domain in one layer, from the routes of consecutive tokens, by the definitions."""
    calls = [sum(e in route["ids"] for route in routes) for e in range(n_experts)]
    shares = shares_of(calls)
    pairs = list(zip(routes, routes[1:]))
    first = lambda route: route["ids"][route["weights"].index(max(route["weights"]))]
    effective = []
    for route in routes:
        weights = [float32(w) for w in route["weights"]]
        normalised = [w / sum(weights) for w in weights]
        effective.append(math.exp(-sum(w * math.log(w) for w in normalised if w > 0)))
    spread = math.sqrt(mean([(s - 1 / n_experts) ** 2 for s in shares]))
    figures = {
        "tokens": len(routes),
        "calls_total": sum(calls),
        "mean_k": sum(calls) / len(routes),
        "effective_experts": mean(effective),
        "gate_entropy_bits": mean([route["gate_entropy"] for route in routes]),
        "routing_entropy_bits": -sum(s * math.log2(s) for s in shares if s > 0),
        "share_variation": spread * n_experts,
        "never_called": calls.count(0) / n_experts,
        "stability": mean([len(set(a["ids"]) & set(b["ids"])) / len(set(a["ids"]) | set(b["ids"])) for a, b in pairs]),
        "top1_change_rate": mean([float(first(a) != first(b)) for a, b in pairs]),
    }
    return calls, figures


def recount_batches(routes, calls):
    batches = []
    for size in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        parts = [routes[begin : begin + size] for begin in range(0, len(routes) - size + 1, size)]
        if not parts:
            break
        distinct = mean([len({e for route in part for e in route["ids"]}) for part in parts])
        expected = sum(1 - (1 - n / len(routes)) ** size for n in calls)
        batches.append((size, len(parts), distinct, expected, expected / distinct))
    return batches


def mutual_information(tables):
    """I(expert; domain) in bits of [domain][expert] calls."""
    total = sum(map(sum, tables))
    bits = 0
    for row in tables:
        for e, n in enumerate(row):
            if n:
                bits += n / total * math.log2(n * total / (sum(row) * sum(r[e] for r in tables)))
    return bits


class ProfileTest(CliTest):
    def texts(self, **texts):
        """A folder with a file for each domain; a key "a_jsonl" is a.jsonl."""
        folder = self.folder()
        for name, text in texts.items():
            (folder / (name[:-6] + ".jsonl" if name.endswith("_jsonl") else name + ".txt")).write_text(text)
        return folder

    def profile(self, model, data, *arguments):
        return self.run_ok("profile", model, "--data", data, *arguments, "--json").json


class RecountTest(ProfileTest):
    """One window per domain, and the same text as a prompt of `soli run --routing-json`."""

    def routes(self, text):
        path = self.folder() / "routing.json"
        prompt = self.folder() / "prompt"
        prompt.write_text(text)
        self.run_ok("run", DEMO, "-f", prompt, "--no-template", "-n", "1", "--temp", "0", "--routing-json", path)
        file = json.loads(path.read_text())
        tokens = [token for token in file["tokens"] if token["kind"] == "prompt" and token["position"] > 0]
        return [[token["layers"][l] for token in tokens] for l in range(len(file["moe_layers"]))]

    def test_recounted(self):
        texts = {name: (TEXTS / f"{name}.txt").read_text()[:250] for name in ("code_python", "math", "prose_en")}
        result = self.profile(DEMO, self.texts(**texts), "--window", "256")
        self.assertEqual([domain["name"] for domain in result["domains"]], sorted(texts))
        tables = {}
        for domain in result["domains"]:
            self.assertEqual(domain["windows"], 1)
            for layer, routes in zip(domain["layers"], self.routes(texts[domain["name"]])):
                calls, figures = recount_layer(routes, result["experts"])
                tables.setdefault(layer["layer"], []).append(calls)
                self.assertEqual(layer["calls"], calls)
                for name, value in figures.items():
                    self.assertAlmostEqual(layer[name], value, places=6, msg=f"{layer['layer']} {name}")
                self.check_experts(layer, calls)
                self.check_batches(layer, routes, calls)
                self.check_pairs(layer, routes, calls)
        for layer in result["all"]["layers"]:
            table = tables[layer["layer"]]
            self.assertEqual(layer["calls"], [sum(column) for column in zip(*table)])
            self.assertAlmostEqual(layer["information_bits"], mutual_information(table), places=9)
        total = result["all"]["total"]
        information = mean([mutual_information(table) for table in tables.values()])
        self.assertAlmostEqual(total["information_bits"], information, places=9)
        self.assertLess(total["information_test"]["p"], 0.01)
        self.assertEqual(total["hottest"]["share"], max(l["hottest"]["share"] for l in result["all"]["layers"]))

    def check_experts(self, layer, calls):
        self.assertEqual(layer["hottest"], {"layer": layer["layer"], "expert": calls.index(max(calls)),
                                            "share": max(calls) / sum(calls)})  # fmt: skip
        self.assertEqual(layer["coldest"]["expert"], calls.index(min(calls)))
        self.assertEqual(layer["never_experts"], [e for e, n in enumerate(calls) if n == 0])

    def check_batches(self, layer, routes, calls):
        wanted = recount_batches(routes, calls)
        self.assertEqual(len(layer["batches"]), len(wanted))
        for batch, numbers in zip(layer["batches"], wanted):
            for value, number in zip(batch.values(), numbers):
                self.assertAlmostEqual(value, number, places=9)

    def check_pairs(self, layer, routes, calls):
        for pair in layer["coactivation"]:
            a, b = pair["experts"]
            together = sum(a in route["ids"] and b in route["ids"] for route in routes)
            self.assertEqual(pair["tokens"], together)
            self.assertAlmostEqual(pair["lift"], together * len(routes) / (calls[a] * calls[b]), places=9)


class PlantedTest(ProfileTest):
    SHAPE = ["--preset", "tiny", "--layers", "3", "--experts", "16", "--experts-per-token", "4", "--type", "F16"]

    def planted(self, spec, *arguments):
        model, truth = self.folder() / "planted.gguf", self.folder() / "truth.json"
        self.run_ok("synth", *self.SHAPE, "--routing", spec, "--truth", truth, *arguments, "-o", model)
        return model, json.loads(truth.read_text())

    def letters(self, truth, n, seed):
        """A text of `n` letters for each domain of the truth."""
        draw = random.Random(seed)
        return {d["name"]: "".join(draw.choice(d["letters"]) for _ in range(n)) for d in truth["domains"]}

    def test_what_was_planted_is_found_and_nothing_else(self):
        for spec, seed in (("planted", "1"), ("planted:domains=2,per-domain=2,hot=1,dead=3", "2")):
            model, truth = self.planted(spec, "--seed", seed)
            result = self.profile(model, self.texts(**self.letters(truth, 1500, 7)))
            self.assertEqual(result["all"]["total"]["verdict"], "biased")
            self.assertLess(result["all"]["total"]["information_test"]["p"], 0.01)
            for layer, planted in zip(result["all"]["layers"], truth["layers"]):
                self.assertEqual(layer["layer"], planted["layer"])
                self.assertEqual([layer["hottest"]["expert"]], planted["hot"])
                self.assertEqual(layer["hottest"]["share"], 0.25)
                self.assertEqual(layer["never_experts"], planted["dead"])
                found = {(s["domain"], s["expert"]) for s in layer["specialists"]}
                wanted = {(f"domain{d}", e) for d, experts in enumerate(planted["domains"]) for e in experts}
                self.assertEqual(found, wanted)

    def test_the_truth_is_in_the_file_too(self):
        model, truth = self.planted("planted")
        key = b"soli.planted_routing"
        data = model.read_bytes()
        at = data.index(key) + len(key) + 4
        (length,) = struct.unpack_from("<Q", data, at)
        self.assertEqual(json.loads(data[at + 8 : at + 8 + length]), truth)

    def test_null_models_are_not_biased_and_tell_nothing_of_domains(self):
        n_informative = 0
        for seed in range(4):
            model, truth = self.planted("planted:random", "--seed", str(seed))
            self.assertTrue(truth["random"])
            total = self.profile(model, self.texts(**self.letters(truth, 1200, seed)))["all"]["total"]
            self.assertNotEqual(total["verdict"], "biased")
            n_informative += total["information_test"]["p"] <= 0.01
        self.assertEqual(n_informative, 0)

    def test_drift_is_that_of_the_text(self):
        model, truth = self.planted("planted")
        saved = self.folder() / "saved.json"
        texts = self.letters(truth, 600, 1)
        self.profile(model, self.texts(**texts), "--save", saved)
        again = self.profile(model, self.texts(**self.letters(truth, 600, 2)), "--against", saved)
        names = sorted(texts)
        swapped = dict(zip(names, [texts[name] for name in names[1:] + names[:1]]))
        moved = self.profile(model, self.texts(**swapped), "--against", saved)
        for before, after in zip(again["domains"], moved["domains"]):
            self.assertLess(before["total"]["drift_bits"], 0.02)
            self.assertGreater(after["total"]["drift_bits"], 0.1)
        self.assertIsNone(self.profile(model, self.texts(**texts))["all"]["total"]["drift_bits"])

    def test_wrong_specs(self):
        out = self.folder() / "x.gguf"
        for spec, parts in {
            "plantd": ["'plantd'", "planted:SPEC"],
            "planted:hot": ["'hot'", "dead=N"],
            "planted:domains=9": ["'domains=9'", "1 to 8"],
            "planted:hot=x": ["'hot=x'"],
            "planted:hot=3": ["3 hot experts", "4 per token"],
            "planted:dead=12": ["at most 13"],
        }.items():
            outcome = soli("synth", *self.SHAPE, "--routing", spec, "-o", out)
            self.check(outcome, USAGE, *parts)
        for arguments, part in (
            (["--family", "deepseek2"], "sigmoids"),
            (["--preset", "tiny", "--experts", "0"], "no experts"),
            (["--preset", "tiny", "--hidden", "72", "--head-dim", "16", "--experts-per-token", "4"], "multiple of 16"),
        ):
            self.check(soli("synth", *arguments, "--routing", "planted:hot=0,dead=0,domains=1", "-o", out), USAGE, part)
        self.check(soli("synth", *self.SHAPE, "--truth", out, "-o", out), USAGE, "--routing")
        self.check(soli("synth", *self.SHAPE, "--routing", "planted", "--skew", "1", "-o", out), USAGE, "excludes")


class CommandTest(ProfileTest):
    def setUp(self):
        self.data = self.texts(a=(TEXTS / "math.txt").read_text()[:6000], b=(TEXTS / "prose_en.txt").read_text()[:6000])
        self.quick = ["--window", "64", "--tokens", "320"]

    def test_text_output_and_layers(self):
        short = self.run_ok("profile", DEMO, "--data", self.data, *self.quick).text
        self.assertIn("4 layers with 16 experts, 2 per token; windows of 64 positions", short)
        for name in ("a", "b", "all"):
            self.assertRegex(short, rf"(?m)^{name} +(320|640) +2\.00 ")
            self.assertRegex(short, rf"(?m)^{name} +(balanced|biased|random)")
        self.assertNotIn("drift", short)
        long = self.run_ok("profile", DEMO, "--data", self.data, *self.quick, "--layers").text
        self.assertEqual(len(long.splitlines()) - len(short.splitlines()), 3 * (2 + 2 * 5))

    def test_parallel_windows_and_small_steps_give_the_same_profile(self):
        alone = self.profile(DEMO, self.data, *self.quick, "--parallel", "1")
        together = self.profile(DEMO, self.data, *self.quick, "--parallel", "5", "-b", "100", "-t", "2")
        self.assertEqual(together, alone)

    def test_tokens_window_and_seed(self):
        result = self.profile(DEMO, self.data, *self.quick)
        self.assertEqual((result["window"], result["complete"]), (64, True))
        self.assertEqual([d["total"]["tokens"] for d in result["domains"]], [320, 320])
        self.assertEqual([d["windows"] for d in result["domains"]], [6, 6])  # of 63 beside BOS
        other = self.profile(DEMO, self.data, *self.quick, "--seed", "1")
        figures = lambda r: r["all"]["total"]["information_test"]["permuted"]
        self.assertNotEqual(figures(other), figures(result))
        self.assertEqual(other["all"]["total"]["information_bits"], result["all"]["total"]["information_bits"])

    def test_three_minutes_read_beyond_the_usual_tokens(self):
        data = self.texts(a=(TEXTS / "math.txt").read_text()[:20000])
        counts = [self.profile(DEMO, data, *arguments)["all"]["total"]["tokens"]
                  for arguments in ([], ["--three-minute"], ["--three-minute", "--tokens", "100"])]  # fmt: skip
        self.assertEqual(counts[0], 4096)
        self.assertGreater(counts[1], 4096)
        self.assertEqual(counts[2], 100)

    def test_steering_is_seen(self):
        result = self.profile(DEMO, self.data, *self.quick, "--steer", "k=1")
        self.assertEqual(result["all"]["total"]["mean_k"], 1)
        self.assertEqual(result["policy"], {"experts_per_token": 1})

    def test_csv_has_the_figures_of_the_json(self):
        path = self.folder() / "profile.csv"
        result = self.profile(DEMO, self.data, *self.quick, "--out-csv", path)
        rows = list(csv.DictReader(io.StringIO(path.read_text())))
        self.assertEqual(len(rows), 3 * 5)
        targets = {target["name"]: target for target in result["domains"] + [result["all"]]}
        for row in rows:
            target = targets[row["domain"]]
            figures = target["total"] if row["layer"] == "" else target["layers"][int(row["layer"])]
            for name in ("mean_k", "share_variation", "stability", "margin", "information_bits", "never_called"):
                self.assertAlmostEqual(float(row[name]), figures[name], places=12)
            self.assertEqual(row["verdict"], figures["verdict"])

    def test_resumed_it_is_the_same(self):
        saved = self.folder() / "saved.json"
        whole = self.profile(DEMO, self.data, *self.quick)
        first = self.profile(DEMO, self.data, *self.quick, "--save", saved, "--resume")
        self.assertEqual(first, whole)
        # As it were after some windows: what a shorter text of the same beginning has.
        self.profile(DEMO, self.data, "--window", "64", "--tokens", "189", "--save", saved)
        part, full = json.loads(saved.read_text()), self.folder() / "full.json"
        self.profile(DEMO, self.data, *self.quick, "--save", full)
        part["max_tokens"] = 320
        for domain, complete in zip(part["domains"], json.loads(full.read_text())["domains"]):
            self.assertEqual(domain["windows"], 3)
            domain["text_hash"] = complete["text_hash"]
        saved.write_text(json.dumps(part))
        resumed = self.profile(DEMO, self.data, *self.quick, "--save", saved, "--resume")
        self.assertEqual(resumed, whole)
        refused = soli("profile", DEMO, "--data", self.data, "--window", "32", "--save", saved, "--resume")
        self.check(refused, ERROR, "--resume", saved, "window: 64 is not allowed; 32")

    def test_interrupted_it_shows_what_was_read_and_goes_on_from_there(self):
        saved, arguments = self.folder() / "saved.json", ["--window", "64", "--parallel", "1", "-t", "1", "--json"]
        command = ["profile", DEMO, "--data", TEXTS, "--tokens", "8000", *arguments, "--save", saved, "--resume"]
        child = subprocess.Popen([program(), *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=environment())  # fmt: skip
        out, err = interrupt_when_handled(child, 0.1)
        self.assertEqual(child.returncode, INTERRUPTED, err)
        if out:  # at least one window was done
            self.assertFalse(json.loads(out)["complete"])
            self.assertIn(b"interrupted", err)
        resumed = self.run_ok(*command).json
        saved.unlink()
        self.assertEqual(resumed, self.run_ok(*command).json)

    def test_errors(self):
        profile = ["profile", DEMO, "--data", self.data]
        self.check(soli("profile", DEMO), USAGE, "--data")
        self.check(soli(*profile, "--resume"), USAGE, "--save")
        self.check(soli(*profile, "--window", "1"), ERROR, "--window 1", "from 2")
        self.check(soli(*profile, "--tokens", "x"), USAGE, "--tokens")
        self.check(soli(*profile, "--parallel", "0"), USAGE, "--parallel")
        self.check(soli(*profile, "--against", self.data / "a.txt"), ERROR, "a.txt")
        self.check(soli(*profile, "--save", self.data / "no" / "x"), ERROR, "no")
        self.check(soli(*profile, "--out-csv", DEMO), ERROR, "soli-demo")
        dense = GOLDEN / "qwen3-dense" / "model.gguf"
        self.check(soli("profile", dense, "--data", self.data), ERROR, "dense")
        mixtral, saved = GOLDEN / "mixtral" / "model.gguf", self.folder() / "saved.json"
        self.run_ok("profile", mixtral, "--data", self.data, "--tokens", "50", "--save", saved)
        self.check(soli(*profile, "--against", saved), ERROR, "--against", "experts", "layers")


class JsonLinesTest(ProfileTest):
    def test_each_line_is_a_text(self):
        lines = ["one line of text", "and \"another\" one"]
        objects = [json.dumps({"prompt": lines[0]}), "", json.dumps({"id": 1, "text": lines[1]})]
        data = self.texts(a_jsonl="\n".join(objects))
        result = self.profile(DEMO, data)
        n = [len(self.run_ok("tokenize", DEMO, "--json", "--no-special", "-p", line).json["ids"]) for line in lines]
        self.assertEqual(result["domains"][0]["name"], "a")
        self.assertEqual((result["domains"][0]["windows"], result["all"]["total"]["tokens"]), (2, sum(n)))
        limited = self.profile(DEMO, data, "--tokens", n[0] + 2)
        self.assertEqual(limited["all"]["total"]["tokens"], n[0] + 2)
        evaluated = self.run_ok("eval", DEMO, "--data", data, "--json").json
        self.assertEqual((evaluated["tokens"], evaluated["windows"]), (sum(n), 2))

    def test_wrong_lines_and_names(self):
        for line, part in {"{": "a.jsonl:2", "[]": "\"prompt\"", '{"text": 1}': "\"text\""}.items():
            data = self.texts(a_jsonl='{"text": "x y z"}\n' + line)
            self.check(soli("profile", DEMO, "--data", data), ERROR, "a.jsonl:2", part)
        self.check(soli("eval", DEMO, "--data", self.texts(a="x y", a_jsonl='{"text": "x y"}')), ERROR, "one domain")
        parted = self.texts(**{"a": "x y", "a.k": "x y", "a_jsonl": '{"text": "x y"}'})
        self.check(soli("eval", DEMO, "--data", parted), ERROR, "one domain")
        self.check(soli("profile", DEMO, "--data", self.texts(a_jsonl="\n")), ERROR, "a.jsonl", "0 tokens")
        self.check(soli("profile", DEMO, "--data", self.folder()), ERROR, "NAME.jsonl")


if __name__ == "__main__":
    main()
