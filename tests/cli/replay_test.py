"""soli replay: the choices of a trace forced on a model give its logits, and fed to an expert memory its hits."""

import array
import collections
import csv
import math

from program import DEMO, DONE, ERROR, GOLDEN, MIXTRAL, ROOT, USAGE, main, soli
from traces import GREEDY, Trace, TraceTest, change

IDS = ",".join(str((7 * i + 3) % 300) for i in range(90))
TEXT = ["--text", ROOT / "tests" / "data" / "code_python.txt", "--window", "64", "--max-tokens", "320"]
POLICIES = ["lru", "lfu", "least-stale", "shares", "auto"]
TINY = {"mixtral": 2, "olmoe": 3, "deepseek2-v3": 5, "gpt-oss": 7}  # with some rows of a step each


class ReplayTest(TraceTest):
    def changed(self, path, *statements):
        """A copy of a trace, in which these statements were run."""
        copy = self.folder() / "changed.sqlite"
        copy.write_bytes(path.read_bytes())
        change(copy, *statements)
        return copy


class LogitsTest(ReplayTest):
    def same_logits(self, model, ids, record, replay, steer=()):
        """The bytes of the logits of a run, and of its replay."""
        folder = self.folder()
        recorded, replayed = folder / "recorded.f32", folder / "replayed.f32"
        path = self.trace("logits", model, "--token-ids", ids, "--out", recorded, *record, *steer)
        outcome = self.run_ok("replay", path, model, "--out", replayed, "--json", *replay)
        self.assertEqual(recorded.read_bytes(), replayed.read_bytes())
        return outcome.json

    def test_the_same_model_gives_the_same_bits(self):
        for record, replay in (([], []), (["-b", "7"], ["-b", "16"]), ([], ["--weights", "router", "-b", "5"]),
                               (["--act", "f32"], ["--act", "f32", "--against", "none"])):
            with self.subTest(record=record, replay=replay):
                figures = self.same_logits(DEMO, IDS, record, replay)
                self.assertEqual((figures["requests"], figures["tokens"]), (1, 90))
                self.assert_own_choices(figures["forced"])
                if "none" in replay:
                    self.assertIsNone(figures["own"])
                    self.assertIsNone(figures["divergence"])
                else:
                    self.assertEqual(figures["divergence"]["identical_positions"], 90)
                    self.assertEqual(figures["divergence"]["largest_kl"], 0)
                    self.assertEqual(figures["own"]["perplexity"], figures["forced"]["perplexity"])

    def assert_own_choices(self, run):
        agreement = run["agreement"]
        self.assertGreater(agreement["calls"], 0)
        self.assertEqual(agreement["calls"], agreement["same_calls"])
        self.assertEqual(agreement["choices"], agreement["same_choices"])
        for key in ("calls", "choices", "same_calls"):
            self.assertEqual(sum(layer[key] for layer in agreement["layers"]), agreement[key])

    def test_tiny_models_of_several_families(self):
        for name, rows in TINY.items():
            with self.subTest(model=name):
                model = GOLDEN / name / "model.gguf"
                ids = ",".join(str((5 * i + 1) % 60) for i in range(21))
                for weights in ("recorded", "router"):
                    self.same_logits(model, ids, [], ["-b", str(rows), "--weights", weights])

    def test_steered_choices_are_forced_whatever_made_them(self):
        for steer in ("temperature=3", "k=3", "mask=[3,7]", "cumulative_probability=0.6"):
            with self.subTest(steer=steer):
                figures = self.same_logits(DEMO, IDS, [], [], ["--steer", steer])
                self.assertLess(figures["divergence"]["identical_positions"], 90)
                self.assertGreater(figures["divergence"]["mean_kl"], 0)
                agreement = figures["forced"]["agreement"]
                if steer == "mask=[3,7]":
                    self.assertLess(agreement["same_calls"], agreement["calls"])
                elif steer == "k=3":
                    self.assertEqual(agreement["same_choices"], 0)
                    self.assertLess(agreement["same_calls"] / agreement["calls"], 0.7)

    def test_weights_of_the_router_are_others_where_the_recorded_ones_were_steered(self):
        path = self.trace("logits", DEMO, "--token-ids", IDS, "--greedy", "1", "--steer", "temperature=3")
        by = {w: self.run_ok("replay", path, DEMO, "--weights", w, "--json").json for w in ("recorded", "router")}
        self.assertEqual([figures["weights"] for figures in by.values()], list(by))
        self.assertNotEqual(by["recorded"]["divergence"]["mean_kl"], by["router"]["divergence"]["mean_kl"])

    def test_prefill_decode_and_batches(self):
        path = self.trace("run", DEMO, *GREEDY)
        outcome = self.run_ok("replay", path, DEMO, "--json").json
        self.assertEqual(outcome["divergence"]["identical_positions"], len(Trace(path).rows))
        path = self.trace("eval", DEMO, *TEXT, "--parallel", "3")
        trace = Trace(path)
        for flags in (["--parallel", "1"], ["--parallel", "5", "-b", "20"]):
            figures = self.run_ok("replay", path, DEMO, "--json", *flags).json
            self.assertEqual(figures["requests"], len(trace.requests))
            self.assertEqual(figures["divergence"]["identical_positions"], len(trace.rows))
            self.assertEqual(figures["tokens"], len(trace.rows))
        measured = self.run_ok("eval", DEMO, *TEXT, "--json").json
        self.assertAlmostEqual(figures["forced"]["perplexity"], measured["perplexity"], places=6)
        one = self.run_ok("replay", path, DEMO, "--json", "--request", "2").json
        self.assertEqual((one["requests"], one["tokens"]), (1, sum(r == 2 for r, _ in trace.rows)))
        text = self.run_ok("replay", path, DEMO).text
        self.assertIn(f"the same to the bit at {len(trace.rows)}\n", text)
        self.assertIn("100.00    100.00", text)

    def test_a_packed_model_is_the_same(self):
        packed = self.folder() / "packed.gguf"
        self.run_ok("pack", DEMO, packed)
        path = self.trace("logits", DEMO, "--token-ids", IDS, "--greedy", "1")
        self.assertIs(self.run_ok("replay", path, packed, "--json").json["same_model"], True)

    def test_what_is_replayed_can_be_traced(self):
        path = self.trace("logits", DEMO, "--token-ids", IDS, "--greedy", "1", "--steer", "temperature=3")
        again = self.folder() / "again.sqlite"
        self.run_ok("replay", path, DEMO, "--against", "none", "--trace", again)
        self.assertEqual(Trace(path).rows, Trace(again).rows)

    def test_another_model_with_as_many_experts(self):
        small, other = GOLDEN / "mixtral-small-f16" / "model.gguf", GOLDEN / "mixtral-small-q4_0" / "model.gguf"
        path = self.trace("logits", small, "--token-ids", "1,5,9,13,17,21,25,29", "--greedy", "1")
        figures = self.run_ok("replay", path, other, "--json").json
        self.assertGreater(figures["divergence"]["positions"], 0)
        self.assertNotEqual(figures["own"]["perplexity"], None)
        agreement = figures["own"]["agreement"]
        self.assertLessEqual(agreement["same_calls"], agreement["calls"])
        self.assertIs(figures["same_model"], False)
        same = self.run_ok("replay", path, small, "--json")
        self.assertIs(same.json["same_model"], True)
        self.assertNotIn("the trace is of", same.message)
        older = self.changed(path, "DELETE FROM meta WHERE key = 'model_id'")
        self.assertIsNone(self.run_ok("replay", older, small, "--json").json["same_model"])
        another = self.changed(path, "UPDATE meta SET value = 'f' WHERE key = 'model_id'")
        self.assertIn("the trace is of another", self.run_ok("replay", another, small).message)
        wrong = self.changed(path, "UPDATE meta SET value = 'somebody else' WHERE key = 'model'")
        outcome = self.run_ok("replay", wrong, small)
        self.assertIn("the trace is of somebody else (llama), and this model is", outcome.message)

    def test_a_single_token_has_no_perplexity(self):
        path = self.trace("logits", DEMO, "--token-ids", "5", "--greedy", "1")
        figures = self.run_ok("replay", path, DEMO, "--json").json
        self.assertIsNone(figures["forced"]["perplexity"])
        self.assertEqual(figures["divergence"]["identical_positions"], 1)
        self.assertIn("no token has one before it", self.run_ok("replay", path, DEMO).text)


class RefusalTest(ReplayTest):
    def setUp(self):
        self.path = self.trace("run", DEMO, *GREEDY)

    def refused(self, path, *parts, model=DEMO, flags=()):
        self.check(soli("replay", path, model, *flags), ERROR, *parts)

    def test_traces_of_other_models(self):
        self.refused(self.path, self.path, "is of a model that has experts in", "this one has them in", model=MIXTRAL)
        moved = self.changed(self.path, "UPDATE meta SET value = '17' WHERE key = 'n_experts'")
        self.refused(moved, moved, "17 experts per layer; this one has 16")
        self.refused(self.path, "dense model", model=GOLDEN / "llama-dense" / "model.gguf")
        row = "UPDATE tokens SET token = 1000000 WHERE position = 3"
        self.refused(self.changed(self.path, row), "position 3: token 1000000 is not in the model's vocabulary")
        self.refused(DEMO, DEMO, "no SQLite database")
        self.refused(self.path, "/nowhere", model="/nowhere")

    def test_choices_that_cannot_be(self):
        trace = Trace(self.path)
        n = len(trace.layers) * trace.k
        blob = lambda code, values: array.array(code, values).tobytes()
        for column, value, part in (
            ("ids", blob("h", [trace.n_experts] + [-1] * (n - 1)), f"expert {trace.n_experts} cannot be here"),
            ("ids", blob("h", [4, 4] + [-1] * (n - 2)), "expert 4 cannot be here"),
            ("ids", b"abc", "ids have 3 bytes"),
            ("weights", blob("f", [math.nan] * n), "not all finite"),
            ("weights", blob("f", [-0.5] * n), "is -0.5; 0 or more is allowed"),
        ):
            with self.subTest(column=column, part=part):
                path = self.changed(self.path, (f"UPDATE tokens SET {column} = ? WHERE position = 2", (value,)))
                self.refused(path, path, "request 1, position 2", part)

    def test_missing_tokens(self):
        hole = self.changed(self.path, "DELETE FROM tokens WHERE position = 4")
        self.refused(hole, "request 1: position 4 is not in the trace", "--skip-incomplete")
        self.refused(hole, "none of its 1 requests is whole", flags=["--skip-incomplete"])
        self.refused(self.path, "has no token of request 7", flags=["--request", "7"])
        self.refused(self.changed(self.path, "DELETE FROM tokens"), "has no token")
        path = self.trace("eval", DEMO, *TEXT, "--trace-sample", "0.5", "--trace-sample-of", "tokens")
        self.refused(path, "is not in the trace", "a share of 0.5 of the tokens was recorded")
        dropped = self.changed(hole, "UPDATE meta SET value = '9' WHERE key = 'n_dropped'")
        self.refused(dropped, "9 tokens found no room in the buffer", "--trace-buffer")
        whole = self.trace("eval", DEMO, *TEXT)
        hole = self.changed(whole, "DELETE FROM tokens WHERE request = 2 AND position = 9")
        figures = self.run_ok("replay", hole, DEMO, "--skip-incomplete", "--json").json
        self.assertEqual(figures["requests_left_out"], 1)
        self.assertEqual(figures["requests"], len(Trace(whole).requests) - 1)
        self.assertIn("left out    1 requests", self.run_ok("replay", hole, DEMO, "--skip-incomplete").text)
        # Whole requests that were sampled are no holes.
        sampled = self.trace("eval", DEMO, *TEXT, "--trace-sample", "0.5")
        self.run_ok("replay", sampled, DEMO, "--against", "none")

    def test_what_a_replay_does_not_take(self):
        path = self.path
        self.refused(path, "--policy, --steer", flags=["--steer", "temperature=2"])
        self.refused(path, "--prefer-cached, --twin", flags=["--prefer-cached", "2"])
        self.refused(path, "request 1 has", "the context has room for 8", flags=["-c", "8"])
        several = self.trace("eval", DEMO, *TEXT)
        self.refused(several, "--out", "--request says", flags=["--out", self.folder() / "o"])
        self.refused(path, "would be written over", flags=["--out", path])
        overwrite = ["--against", "none", "--trace", path, "--trace-overwrite"]
        self.refused(path, "would be written over", flags=overwrite)
        self.run_ok("trace", "stats", path)
        self.check(soli("replay", path), USAGE, "MODEL, or --cache")
        self.check(soli("replay"), USAGE, "file")
        self.check(soli("replay", path, DEMO, "--weights", "own"), USAGE, "recorded,router")
        self.check(soli("replay", path, DEMO, "--against", "x"), USAGE, "own,none")
        self.check(soli("replay", path, DEMO, "--trace", "x"), USAGE, "--against none")
        for flag in (["--slots", "4"], ["--prompt-rows", "4"], ["--csv", "x"]):
            self.check(soli("replay", path, DEMO, *flag), USAGE, "--cache")

    def test_too_little_memory(self):
        self.refused(self.path, "--memory", flags=["--memory", "2MiB"])


class CacheTest(ReplayTest):
    def figures(self, path, *flags):
        return self.run_ok("replay", path, "--cache", "--json", *flags).json

    def test_hits_are_those_of_the_turns_that_a_run_records(self):
        folder = self.folder()
        prompt = ["-p", "Once upon a time there was a sea", "-n", "40", "--temp", "0", "--ignore-eos", "-b", "8"]
        for memory in range(2, 100):  # the least that has room
            outcome = soli("run", DEMO, *prompt, "--memory", f"{memory * 4}MiB", "--access-trace", folder / "turns",
                           "--trace", folder / "t.sqlite", "--trace-overwrite", "--prefetch", "off")
            if outcome.status == DONE:
                break
        self.check(outcome, DONE)
        sweep = ["bench", DEMO, "--memory-sweep", "--json", "--replay"]
        expected = self.run_ok(*sweep, folder / "turns").json
        self.assertEqual(self.run_ok(*sweep, folder / "t.sqlite", "-b", "8").json, expected)
        self.assertNotEqual(self.run_ok(*sweep, folder / "t.sqlite", "-b", "1").json, expected)
        slots = [bound["slots"] for bound in expected["in_hindsight"]]
        figures = self.figures(folder / "t.sqlite", "--prompt-rows", "8", "--slots", ",".join(map(str, slots)))
        for point, bound in zip(figures["points"], expected["in_hindsight"]):
            self.assertEqual(point["belady_hit_rate"], bound["belady_hit_rate"])
            self.assertEqual(point["static_hit_rate"], bound["static_hit_rate"])
            rates = {p["policy"]: p["hit_rate"] for p in expected["points"] if p["slots"] == point["slots"]}
            self.assertEqual(point["hit_rates"], rates)

    def test_hits_are_what_a_recount_gives(self):
        path = self.trace("run", DEMO, *GREEDY)
        trace = Trace(path)
        n_experts = len(trace.layers) * trace.n_experts
        figures = self.figures(path, "--cache-policy", "lru", "--slots", "12,25%,100%")
        self.assertEqual([point["slots"] for point in figures["points"]], [12, n_experts // 4, n_experts])
        calls = collections.Counter((call[4], call[6]) for call in trace.calls())
        asked = sum(calls.values())
        for point in figures["points"]:
            self.assertEqual(list(point["hit_rates"]), ["lru"])
            self.assertEqual(point["requests"], asked)
            best = sum(n for _, n in calls.most_common(point["slots"]))
            self.assertAlmostEqual(point["static_hit_rate"], best / asked)
            self.assertGreaterEqual(point["belady_hit_rate"], point["hit_rates"]["lru"])
        self.assertGreater(point["hit_rates"]["lru"], figures["points"][0]["hit_rates"]["lru"])
        # With room for all, each expert is missed once.
        for rate in (point["hit_rates"]["lru"], point["belady_hit_rate"]):
            self.assertAlmostEqual(rate, 1 - len(calls) / asked)

    def test_table_and_csv(self):
        path = self.trace("run", DEMO, *GREEDY)
        out = self.folder() / "hits.csv"
        outcome = self.run_ok("replay", path, "--cache", "--csv", out)
        header = next(line.split() for line in outcome.text.splitlines() if "slots" in line)
        self.assertEqual(header[4 : 4 + len(POLICIES)], POLICIES)
        figures = self.figures(path)
        with open(out, newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual(len(lines), 4 * (len(POLICIES) + 2))
        for point in figures["points"]:
            of_point = {line["policy"]: line for line in lines if int(line["slots"]) == point["slots"]}
            self.assertEqual(float(of_point["belady"]["hit_rate"]), point["belady_hit_rate"])
            self.assertEqual(float(of_point["fixed-set"]["hit_rate"]), point["static_hit_rate"])
            for policy in POLICIES:
                self.assertEqual(float(of_point[policy]["hit_rate"]), point["hit_rates"][policy])
                share = int(of_point[policy]["hits"]) / int(of_point[policy]["requests"])
                self.assertAlmostEqual(share, point["hit_rates"][policy])
        self.assertEqual([point["slot_share"] for point in figures["points"]], [0.125, 0.25, 0.5, 0.75])

    def test_rows_that_share_a_step_and_requests(self):
        path = self.trace("eval", DEMO, *TEXT)
        trace = Trace(path)
        layers = len(trace.layers)
        single = self.figures(path)
        self.assertEqual(single["turns"], layers * len(trace.rows))
        whole = self.figures(path, "--prompt-rows", "64")
        self.assertEqual(whole["turns"], layers * len(trace.requests))
        self.assertLess(whole["points"][0]["requests"], single["points"][0]["requests"])
        one = self.figures(path, "--request", "1", "--prompt-rows", "64")
        self.assertEqual(one["turns"], layers)
        cached = self.changed(path, "UPDATE tokens SET cached = 1 WHERE position < 10")
        self.assertEqual(self.figures(cached)["turns"], layers * sum(p >= 10 for _, p in trace.rows))
        all_cached = self.changed(path, "UPDATE tokens SET cached = 1")
        self.check(soli("replay", all_cached, "--cache"), ERROR, "has no token that was computed")
        self.check(soli("replay", path, "--cache", "--request", "99"), ERROR, "no token of request 99")
        # What was sampled is fed as it is: holes ask for nothing.
        sampled = self.trace("eval", DEMO, *TEXT, "--trace-sample", "0.3", "--trace-sample-of", "tokens")
        self.assertEqual(self.figures(sampled)["turns"], layers * len(Trace(sampled).rows))

    def test_what_cannot_be_is_refused(self):
        path = self.trace("run", DEMO, *GREEDY)
        trace = Trace(path)
        n_experts = len(trace.layers) * trace.n_experts
        many = soli("replay", path, "--cache", "--slots", f"8,{n_experts + 1}")
        self.check(many, ERROR, f"--slots {n_experts + 1}", f"1 to {n_experts} slots are allowed")
        for wrong in ("", "0", "0%", "101%", "-3", "1.5", "x", "4,", "nan", "inf", ",".join(["1"] * 65)):
            self.check(soli("replay", path, "--cache", f"--slots={wrong}"), USAGE, "--slots")
        for wrong in ("0", "70000"):
            self.check(soli("replay", path, "--cache", "--prompt-rows", wrong), USAGE, "--prompt-rows")
        for flag in (["-t", "2"], ["--weights", "router"], ["--steer", "k=1"], ["--memory", "1GiB"], ["-b", "4"],
                     ["--skip-incomplete"], ["--out", "x"], ["--trace", "x"]):
            self.check(soli("replay", path, "--cache", *flag), USAGE, "--cache computes no model")
        self.check(soli("replay", path, DEMO, "--cache"), USAGE, "--cache computes no model")
        self.check(soli("replay", path, "--cache", "--csv", path), ERROR, "it is the trace")
        self.check(soli("replay", path, "--cache", "--csv", self.folder() / "a" / "b"), ERROR, "cannot")
        self.check(soli("replay", "/nowhere", "--cache"), ERROR, "/nowhere")
        self.check(soli("replay", DEMO, "--cache"), ERROR, DEMO)


if __name__ == "__main__":
    main()
