"""Traces of the router: what --trace writes, and what soli trace makes of it."""

import array
import base64
import collections
import csv
import json
import math
import struct
import subprocess
import zipfile

from program import (
    DEMO, ERROR, GOLDEN, INTERRUPTED, ROOT, USAGE, environment, interrupt_when_handled, main, program, soli,
)
from server import Server
from traces import GREEDY, Trace, TraceTest

TEXT = ["--text", ROOT / "tests" / "data" / "code_python.txt", "--window", "64", "--max-tokens", "640"]
IDS = ",".join(str(i % 300) for i in range(90))
DENSE = GOLDEN / "llama-dense" / "model.gguf"
MASK = (1 << 64) - 1


def entropy_bits(shares):
    return -sum(s * math.log2(s) for s in shares if s > 0)


def split_mix(x):
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & MASK
    return x ^ x >> 31


class WritingTest(TraceTest):
    def test_nothing_that_is_computed_changes(self):
        logits = []
        for trace in ([], ["--trace", self.folder() / "t", "--trace-logits"]):
            out = self.folder() / "logits"
            self.run_ok("logits", DEMO, "--token-ids", IDS, "--out", out, *trace)
            logits.append(out.read_bytes())
        self.assertEqual(*logits)
        plain = self.run_ok("run", DEMO, *GREEDY).text
        self.trace("run", DEMO, *GREEDY)
        self.assertEqual(self.outcome.text, plain)

    def test_every_choice_is_the_one_that_the_routing_report_has(self):
        for steer in ([], ["--steer", "cumulative_probability=0.6", "--steer", "k=3"]):
            choices = self.folder() / "choices.json"
            trace = Trace(self.trace("run", DEMO, *GREEDY, "--routing-json", choices, *steer))
            routing = json.loads(choices.read_text())
            self.assertEqual(trace.layers, routing["moe_layers"])
            self.assertEqual(trace.n_experts, routing["n_experts"])
            self.assertEqual([(r[0], r[1]) for r in trace.requests], [(1, routing["n_prompt"])])
            self.assertEqual(len(trace.rows), len(routing["tokens"]))
            for token in routing["tokens"]:
                id_, cached, ids, weights, logits = trace.rows[1, token["position"]]
                self.assertEqual((id_, cached, logits), (token["token"], 0, None))
                for layer, expected in enumerate(token["layers"]):
                    n = len(expected["ids"])
                    self.assertEqual(ids[layer], expected["ids"] + [-1] * (trace.k - n))
                    # A float's shortest decimal, read as double, is next to it.
                    rounded = array.array("f", expected["weights"] + [0] * (trace.k - n)).tolist()
                    self.assertEqual(weights[layer], rounded)
            self.assertEqual(trace.meta["ended"], "1")
            self.assertEqual(trace.meta["n_dropped"], "0")
            self.assertEqual(json.loads(trace.meta["policy"]), json.loads(trace.requests[0][2]))
            self.assertEqual(json.loads(trace.meta["policy"]) == {}, not steer)
        self.assertEqual(trace.k, 3, "room for what the policy asks for")
        self.assertIn("tokens written to", self.outcome.message)

    def test_logits_are_those_that_the_choice_was_made_by(self):
        trace = Trace(self.trace("run", DEMO, *GREEDY, "--trace-logits"))
        self.assertEqual(trace.meta["logits"], "1")
        for token, cached, ids, weights, logits in trace.rows.values():
            for experts, of_layer in zip(ids, logits):
                best = sorted(range(trace.n_experts), key=lambda e: (-of_layer[e], e))
                self.assertEqual(experts, best[: trace.k])

    def test_eval_bench_and_logits_write_one_too(self):
        trace = Trace(self.trace("eval", DEMO, *TEXT, "--parallel", "3"))
        self.assertGreater(len(trace.requests), 8, "a request for each window")
        arguments = ["--prompt", "20", "--sequences", "2", "--generate", "4", "--repetitions", "2", "-c", "64"]
        trace = Trace(self.trace("bench", DEMO, *arguments))
        self.assertEqual(sum(1 for r in trace.requests if r[1] == 20), 3, "once to warm up")
        trace = Trace(self.trace("bench", DEMO, "--watching", "--pairs", "2"))
        self.assertGreater(len(trace.rows), 4 * 32)
        trace = Trace(self.trace("bench", DEMO, "--memory-sweep", "--generate", "6", "-c", "128"))
        self.assertGreater(len(trace.rows), 0)
        trace = Trace(self.trace("logits", DEMO, "--token-ids", IDS, "--greedy", "4", "-b", "7"))
        self.assertEqual(sorted(trace.rows), [(1, p) for p in range(93)])
        self.assertEqual([trace.rows[1, p][0] for p in range(90)], [int(i) for i in IDS.split(",")])

    def test_a_share_of_requests_or_of_tokens(self):
        whole = Trace(self.trace("eval", DEMO, *TEXT))
        sampled = Trace(self.trace("eval", DEMO, *TEXT, "--trace-sample", "0.4"))
        of_tokens = Trace(
            self.trace("eval", DEMO, *TEXT, "--trace-sample", "0.25", "--trace-sample-of", "tokens")
        )

        def takes(share, of_token, request, position):
            mixed = split_mix(split_mix(request) ^ position) if of_token else split_mix(request)
            return mixed / 2**64 < share

        for trace, share, of_token in ((sampled, 0.4, False), (of_tokens, 0.25, True)):
            expected = {key: row for key, row in whole.rows.items() if takes(share, of_token, *key)}
            self.assertEqual(trace.rows, expected)
            self.assertTrue(0 < len(expected) < len(whole.rows))
            self.assertEqual(int(trace.meta["n_sampled_out"]), len(whole.rows) - len(expected))
            self.assertEqual(float(trace.meta["sample"]), share)
        self.assertLess(len(sampled.requests), len(whole.requests))
        self.assertEqual(of_tokens.meta["sample_of"], "tokens")

    def test_what_finds_no_room_is_counted_and_told(self):
        trace = Trace(self.trace("logits", DEMO, "--token-ids", IDS, "--greedy", "1", "--trace-buffer", "4096B"))
        lost = int(trace.meta["n_dropped"])
        self.assertGreater(lost, 0)
        self.assertEqual(len(trace.rows) + lost, 90)
        message = f"the trace lost {lost} tokens, for which --trace-buffer 4.00 KiB had no room"
        self.assertIn(message, self.outcome.message)

    def test_what_is_there_is_kept(self):
        path = self.trace("run", DEMO, *GREEDY)
        before = path.read_bytes()
        self.check(soli("run", DEMO, *GREEDY, "--trace", path), ERROR, path, "--trace-overwrite")
        self.assertEqual(path.read_bytes(), before)
        self.run_ok("run", DEMO, "-p", "x", "-n", "1", "--trace", path, "--trace-overwrite")
        self.assertNotEqual(path.read_bytes(), before)
        other = self.folder() / "notes.txt"
        other.write_text("mine")
        for flags in ([], ["--trace-overwrite"]):
            self.check(soli("run", DEMO, *GREEDY, "--trace", other, *flags), ERROR, other)
        self.assertEqual(other.read_text(), "mine")
        self.check(soli("run", DEMO, *GREEDY, "--trace", DEMO, "--trace-overwrite"), ERROR, "it is the model")
        folder = self.folder()
        self.check(soli("run", DEMO, *GREEDY, "--trace", folder), ERROR, folder)
        self.check(soli("run", DEMO, *GREEDY, "--trace", folder / "none" / "t"), ERROR, folder / "none")

    def test_what_cannot_be_is_refused(self):
        run = ["run", DEMO, *GREEDY]
        for flag in ("--trace-overwrite", "--trace-logits"):
            self.check(soli(*run, flag), USAGE, "--trace")
        self.check(soli(*run, "--trace-sample", "0.5"), USAGE, "--trace")
        for share in ("0", "1.5", "nan"):
            self.check(soli(*run, "--trace", "x", "--trace-sample", share), USAGE, "--trace-sample")
        self.check(soli(*run, "--trace", "x", "--trace-sample-of", "layers"), USAGE, "requests,tokens")
        self.check(soli(*run, "--trace", "x", "--trace-buffer", "64"), USAGE, "--trace-buffer")
        self.check(soli(*run, "--trace", ""), USAGE, "--trace")
        self.check(soli("run", DENSE, "-p", "x", "--trace", self.folder() / "t"), ERROR, "--trace", "dense model")
        self.check(soli("bench", DEMO, "--memory-sweep", "--replay", "x", "--trace", "y"), USAGE, "--replay")

    def test_memory_for_the_buffer_is_part_of_the_limit(self):
        path = self.folder() / "t"
        outcome = soli("run", DEMO, *GREEDY, "--trace", path, "--trace-buffer", "3GiB", "--memory", "1GiB")
        self.check(outcome, ERROR, "--memory")
        self.assertFalse(path.exists())

    def test_ctrl_c_writes_what_was_recorded(self):
        path = self.folder() / "t"
        command = [program(), "run", DEMO, "-p", "The sea", "--ignore-eos", "-n", "100000", "-c", "200000", "--json"]
        child = subprocess.Popen(
            [str(c) for c in command] + ["--trace", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment(),
        )
        out, err = interrupt_when_handled(child, 0.3)
        self.assertEqual(child.returncode, INTERRUPTED, err)
        trace = Trace(path)
        self.assertEqual(trace.meta["ended"], "1")
        answer = json.loads(out)
        n_generated = len(trace.rows) - trace.requests[0][1]
        self.assertIn(n_generated - len(answer["tokens"]), (-1, 0), "the last one is not computed")


class ServeTest(TraceTest):
    def test_requests_of_a_server_and_its_prefix_cache(self):
        path = self.folder() / "t"
        prompt = [7 + i % 200 for i in range(150)]
        server = Server("--trace", path, "--max-experts-per-token", "4")
        self.addCleanup(server.stop)
        for _ in range(2):
            server.complete({"prompt": prompt, "max_tokens": 5, "temperature": 0})
        server.complete({"prompt": prompt[:20], "max_tokens": 2, "policy": {"experts_per_token": 3}})
        server.signal()
        server.wait_for_line("tokens written to")
        server.process.wait(60)
        trace = Trace(path)
        self.assertEqual(trace.meta["ended"], "1")
        self.assertEqual(trace.k, 4)
        self.assertEqual([r[:2] for r in trace.requests], [(1, 150), (2, 150), (3, 20)])
        self.assertEqual(json.loads(trace.requests[2][2]), {"experts_per_token": 3})
        cached = [key for key, row in trace.rows.items() if row[1]]
        self.assertGreaterEqual(len(cached), 64)
        self.assertEqual({request for request, _ in cached}, {2})
        for position in range(150):
            first, second = trace.rows[1, position], trace.rows[2, position]
            self.assertEqual((first[0], first[2:]), (second[0], second[2:]))
        for (request, _), row in trace.rows.items():
            for experts in row[2]:
                self.assertEqual(sum(e >= 0 for e in experts), 3 if request == 3 else 2)


class ReadingTest(TraceTest):
    def setUp(self):
        self.path = self.trace("eval", DEMO, *TEXT, "--trace-logits", "--steer", "cumulative_probability=0.8")
        self.expected = Trace(self.path)

    def test_stats_are_what_a_recount_gives(self):
        stats = self.run_ok("trace", "stats", self.path, "--json").json
        trace = self.expected
        self.assertEqual(stats["n_requests"], len(trace.requests))
        self.assertEqual(stats["n_tokens"], len(trace.rows))
        self.assertEqual((stats["n_dropped"], stats["n_cached"], stats["n_without_expert"]), (0, 0, 0))
        self.assertEqual(stats["n_calls"], len(list(trace.calls())))
        self.assertEqual(stats["moe_layers"], trace.layers)
        for index, layer in enumerate(stats["layers"]):
            self.recount(index, layer)
        text = self.run_ok("trace", "stats", self.path).text
        self.assertIn(f"tokens     {len(trace.rows)}", text)
        self.assertIn("policy     {\"cumulative_probability\":0.8}", text)

    def recount(self, index, layer):
        trace = self.expected
        calls = [0] * trace.n_experts
        effective, router, overlaps, changes, before = [], [], [], [], None
        for (request, position), (_, _, ids, weights, logits) in trace.rows.items():
            experts = [e for e in ids[index] if e >= 0]
            for expert in experts:
                calls[expert] += 1
            mine = weights[index][: len(experts)]
            effective.append(math.exp(-sum(w / sum(mine) * math.log(w / sum(mine)) for w in mine)))
            exps = [math.exp(g - max(logits[index])) for g in logits[index]]
            router.append(entropy_bits([e / sum(exps) for e in exps]))
            now = (set(experts), experts[mine.index(max(mine))])
            if before and before[0] == (request, position - 1):
                overlaps.append(len(now[0] & before[1][0]) / len(now[0] | before[1][0]))
                changes.append(now[1] != before[1][1])
            before = ((request, position), now)
        n, E = sum(calls), trace.n_experts
        shares = [c / n for c in calls]
        self.assertEqual((layer["layer"], layer["calls"], layer["n_calls"]), (trace.layers[index], calls, n))
        self.assertEqual(calls[layer["hottest_expert"]], max(calls))
        self.assertEqual(calls[layer["coldest_expert"]], min(calls))
        for name, value in {
            "hottest_share": max(shares), "coldest_share": min(shares),
            "routing_entropy_bits": entropy_bits(shares),
            "routing_entropy_normalised": entropy_bits(shares) / math.log2(E),
            "share_variation": math.sqrt(sum((s - 1 / E) ** 2 for s in shares) / E) * E,
            "share_max_over_mean": max(shares) * E,
            "never_called": calls.count(0) / E,
            "effective_experts": sum(effective) / len(effective),
            "router_entropy_bits": sum(router) / len(router),
            "stability": sum(overlaps) / len(overlaps),
            "top1_change_rate": sum(changes) / len(changes),
        }.items():
            self.assertAlmostEqual(layer[name], value, places=9, msg=name)

    def export(self, kind, *arguments):
        out = self.folder() / "out"
        self.run_ok("trace", "export", self.path, "--format", kind, "-o", out, *arguments)
        return out

    def test_csv_has_a_line_for_each_call(self):
        with open(self.export("csv"), newline="") as file:
            lines = list(csv.reader(file))
        self.assertEqual(",".join(lines[0]), "request,position,token,cached,layer,rank,expert,weight")
        got = [tuple(int(x) for x in line[:7]) + (array.array("f", [float(line[7])])[0],) for line in lines[1:]]
        self.assertEqual(got, list(self.expected.calls()))

    def npz(self, path):
        """The arrays of a .npz: type, shape, bytes; read without NumPy, and with it where it is."""
        arrays = {}
        with zipfile.ZipFile(path) as archive:
            self.assertIsNone(archive.testzip())
            for name in archive.namelist():
                data = archive.read(name)
                self.assertEqual(data[:8], b"\x93NUMPY\x01\x00")
                (size,) = struct.unpack("<H", data[8:10])
                self.assertEqual((10 + size) % 64, 0)
                header = eval(data[10 : 10 + size], {})
                arrays[name.removesuffix(".npy")] = (header["descr"], header["shape"], data[10 + size :])
        try:
            import numpy
        except ImportError:
            return arrays
        loaded = numpy.load(path)
        for name, (kind, shape, data) in arrays.items():
            self.assertEqual((loaded[name].dtype.str, loaded[name].shape, loaded[name].tobytes()), (kind, shape, data))
        return arrays

    def test_npz_has_the_same_numbers(self):
        trace, arrays = self.expected, self.npz(self.export("npz"))
        n, layers = len(trace.rows), len(trace.layers)

        def check(name, kind, shape, code, values):
            self.assertEqual(arrays.pop(name), (kind, shape, array.array(code, values).tobytes()), name)

        check("moe_layers", "<i4", (layers,), "i", trace.layers)
        check("request", "<i8", (n,), "q", [request for request, _ in trace.rows])
        check("position", "<i8", (n,), "q", [position for _, position in trace.rows])
        check("token", "<i4", (n,), "i", [row[0] for row in trace.rows.values()])
        check("cached", "|b1", (n,), "b", [0] * n)
        flat = [[x for row in trace.rows.values() for part in row[c] for x in part] for c in (2, 3, 4)]
        check("ids", "<i2", (n, layers, trace.k), "h", flat[0])
        check("weights", "<f4", (n, layers, trace.k), "f", flat[1])
        check("logits", "<f4", (n, layers, trace.n_experts), "f", flat[2])
        self.assertEqual(arrays, {})

    def test_megatron_has_a_line_for_each_step_and_layer(self):
        trace = self.expected
        lines = [json.loads(line) for line in self.export("megatron").read_text().splitlines()]
        self.assertEqual(len(lines), len(trace.requests) * len(trace.layers))
        got = {}
        for number, line in enumerate(lines):
            self.assertEqual((line["stage"], line["block"], line["rank"]), ("pre_dispatch", "decoder", 0))
            step, layer = divmod(number, len(trace.layers))
            self.assertEqual((line["step"], line["layer"]), (step, trace.layers[layer]))
            self.assertEqual((line["num_tokens"], line["topk"]), (len(line["top_indices"]), trace.k))
            for position, ids in zip(line["positions"], line["top_indices"]):
                got.setdefault((line["request"], position), []).append(ids)
        self.assertEqual(got, {key: row[2] for key, row in trace.rows.items()})

    def test_sglang_has_base64_of_int32(self):
        trace = self.expected
        of_request = collections.defaultdict(list)
        for request, position in trace.rows:
            of_request[request].append(position)
        for line in self.export("sglang").read_text().splitlines():
            line = json.loads(line)
            positions = of_request.pop(line["request"])
            rows = [trace.rows[line["request"], position] for position in positions]
            self.assertEqual(line["positions"], positions)
            self.assertEqual(line["token_ids"], [row[0] for row in rows])
            self.assertEqual(line["shape"], [len(rows), len(trace.layers), trace.k])
            self.assertEqual(line["moe_layers"], trace.layers)
            ids = array.array("i", base64.b64decode(line["routed_experts"], validate=True)).tolist()
            self.assertEqual(ids, [e for row in rows for experts in row[2] for e in experts])
        self.assertEqual(of_request, {})

    def test_a_part_is_shown_or_exported(self):
        path = self.path
        shown = self.run_ok("trace", "show", path, "--request", "2", "--positions", "3:5").text
        _, _, ids, weights, _ = self.expected.rows[2, 3]
        self.assertIn("request 2", shown)
        lines = [line for line in shown.splitlines() if line.split()[:1] in (["3"], ["4"])]
        self.assertEqual(len(lines), 2 * len(self.expected.layers))
        expected = [x for e, w in zip(ids[0], weights[0]) if e >= 0 for x in (str(e), f"{w:.4f}")]
        self.assertEqual(lines[0].split()[3:], expected)
        for positions, expected in (("3:5", range(3, 5)), (":5", range(5)), ("3", [3]), ("60:", range(60, 1000))):
            out = self.export("csv", "--request", "2", "--positions", positions)
            with open(out, newline="") as file:
                got = {(int(line["request"]), int(line["position"])) for line in csv.DictReader(file)}
            self.assertEqual(got, {key for key in self.expected.rows if key[0] == 2 and key[1] in expected}, positions)
        self.check(soli("trace", "show", path, "--request", "999"), ERROR, "request 999")
        for wrong in ("5:3", "a", "", "-1:2", "3:3"):
            self.check(soli("trace", "show", path, f"--positions={wrong}"), USAGE, "--positions")

    def test_command_lines_that_are_wrong(self):
        self.check(soli("trace"), USAGE, "soli trace")
        self.check(soli("trace", "stats"), USAGE, "soli trace stats", "file")
        self.check(soli("trace", "export", self.path, "-o", "x"), USAGE, "--format")
        self.check(soli("trace", "export", self.path, "--format", "csv"), USAGE, "--out")
        self.check(soli("trace", "export", self.path, "--format", "xml", "-o", "x"), USAGE, "csv,npz,megatron,sglang")
        self.check(soli("trace", "export", self.path, "--format", "csv", "-o", self.path), ERROR, "it is the trace")
        folder = self.folder()
        self.check(soli("trace", "export", self.path, "--format", "csv", "-o", folder / "a" / "b"), ERROR, folder)


if __name__ == "__main__":
    main()
