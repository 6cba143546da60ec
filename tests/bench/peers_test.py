"""bench/peers/run.py, with engines that print prepared figures."""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "bench" / "peers"
sys.path.insert(0, str(PEERS))

import table  # noqa: E402

TIMEOUT_S = 120


def rate(value):
    return {"median": value, "min": value, "max": value}


def result_of(prefill, decode, load, **more):
    """What an engine prints for a prompt of 512 tokens and 8 sequences."""
    return {
        "threads": 2,
        "load_s": load,
        "prefill": [{"tokens": 512, "tokens_per_s": rate(prefill), "operations_per_token": 1e6}],
        "decode": [
            {
                "sequences": 8,
                "tokens_per_s": rate(decode),
                "steps_per_s": rate(decode / 8),
                "touched_bytes_per_step": 1e9,
            }
        ],
        **more,
    }


def soli_result(prefill, decode, load, f32=0, void=None):
    step = {"phase": "step", "f32_operations": f32, "bf16_operations": 0, "int8_operations": 1}
    return result_of(
        prefill,
        decode,
        load,
        soli="0.1.0",
        isa="avx512",
        activations="q8",
        ceilings={
            "read_bytes_per_s": 1e10,
            "f32_operations_per_s": 1e9,
            "bf16_operations_per_s": 2e9,
            "int8_operations_per_s": 4e9,
        },
        probe=[{"work": "prefill", "tokens": 512, "per_step": [step]}],
        void=void,
    )


def peer_result(prefill, decode, load):
    return result_of(
        prefill, decode, load, engine="llama.cpp v1", backend="libggml-cpu-any.so", flash_attention="auto"
    )


def run_of(engine, turn, result, foreign=0.0):
    return {"round": turn, "model": "m", "engine": engine, "foreign_cores": foreign, "result": result}


class TableTest(unittest.TestCase):
    def rows(self, runs):
        lines = table.table_of(runs).splitlines()[2:]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]

    def test_medians_ranges_ratios_and_shares(self):
        runs = []
        for turn, (ours, theirs) in enumerate([(2000, 1000), (1600, 1000), (2400, 800)]):
            runs.append(run_of("soli", turn, soli_result(ours, ours / 20, 2)))
            runs.append(run_of("llama.cpp, repacked", turn, peer_result(theirs, 30, 10)))
            runs.append(run_of("llama.cpp, not repacked", turn, peer_result(theirs / 2, 40, 1)))
        prefill, decode, load = self.rows(runs)
        self.assertEqual(prefill[:4], ["m", "prefill 512, tokens/s", "2000 [1600..2400]", "1000 [800..1000]"])
        # 2,000 tokens/s of 1e6 operations are half of 4e9.
        self.assertEqual(prefill[4:], ["llama.cpp, repacked", "2.00 [1.60..3.00]", "50 %"])
        # The other mode is the better one here. 100 tokens/s are 12.5 steps/s of 1e9 bytes.
        self.assertEqual(decode[3:], ["40.0 [40.0..40.0]", "llama.cpp, not repacked", "2.50 [2.00..3.00]", "125 %"])
        # Fewer seconds are better.
        self.assertEqual(load[1:6], ["load, s", "2.00 [2.00..2.00]", "1.00 [1.00..1.00]", "llama.cpp, not repacked",
                                     "0.50 [0.50..0.50]"])  # fmt: skip

    def test_the_peak_is_that_of_the_arithmetic_that_does_most(self):
        rows = self.rows([run_of("soli", 0, soli_result(500, 8, 1, f32=2))])
        self.assertEqual(rows[0][2:], ["500 [500..500]", "–", "–", "–", "50 %"])

    def test_notes_tell_what_spoils_the_figures(self):
        idle = run_of("soli", 0, soli_result(1, 1, 1))
        self.assertIn("idle: in all 1 runs", table.notes_of([idle])[0])
        busy = run_of("soli", 1, soli_result(1, 1, 1, void="something else ran; and more"), foreign=0.7)
        broken = {"round": 0, "model": "m", "engine": "llama.cpp, repacked", "failure": "signal 9"}
        notes = table.notes_of([idle, busy, broken])
        self.assertIn("NOT IDLE: in 1 of 2 runs", notes[0])
        self.assertIn("0.70", notes[0])
        self.assertIn("1 of its 2 runs, such as: something else ran", notes[1])
        self.assertIn("llama.cpp, repacked failed: signal 9", notes[2])


class RunTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def script(self, name, text):
        """An executable that first writes down how it was called."""
        path = self.folder / name
        path.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self.folder}/calls"\n{text}\n', encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def engine(self, name, result, more=""):
        (self.folder / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
        return self.script(name, f'{more}\ncat "{self.folder}/{name}.json"')

    def run_script(self, *arguments):
        command = [sys.executable, "-B", PEERS / "run.py", "--busy", "--patience", "0"]
        command += ["--json", self.folder / "raw.json", "--folder", self.folder / "made"]
        command += ["--soli", self.folder / "soli", "--driver", self.folder / "driver"]
        return subprocess.run(
            [str(part) for part in [*command, *arguments]],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )

    def calls(self):
        return (self.folder / "calls").read_text(encoding="utf-8").splitlines()

    def test_engines_take_turns_and_the_raw_output_gives_the_table_again(self):
        self.engine("soli", soli_result(300, 80, 1))
        self.engine("driver", peer_result(100, 40, 10))
        (self.folder / "m.gguf").touch()
        done = self.run_script(self.folder / "m.gguf", "--rounds", "2", "-t", "2", "--prompts", "512")
        self.assertEqual(done.returncode, 0, done.stderr)
        kinds = [(call.split()[0], call.split()[-1]) for call in self.calls()]
        self.assertEqual(kinds, [("soli", "--json"), ("driver", "on"), ("driver", "off")] * 2)
        self.assertIn("--threads 2 --generate 64 --sequences 1,8,32 --prompt 512 --repetitions 1", self.calls()[0])
        self.assertIn("| m.gguf | prefill 512, tokens/s | 300 [300..300] |", done.stdout)
        self.assertIn("3.00 [3.00..3.00]", done.stdout)
        self.assertIn("libggml-cpu-any.so", done.stdout)
        again = self.run_script("--show", self.folder / "raw.json")
        self.assertEqual(again.stdout, done.stdout)

    def test_synthetic_files_are_there_while_they_are_measured(self):
        made = self.folder / "made" / "tiny-q8_0.gguf"
        self.engine("soli", soli_result(300, 80, 1), more=f'if [ "$1" = synth ]; then touch "{made}"; exit; fi')
        self.engine("driver", peer_result(100, 40, 10), more=f'[ -f "{made}" ] || exit 3')
        done = self.run_script("tiny:Q8_0", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"soli synth --preset tiny --type Q8_0 -o {made}", self.calls()[0])
        self.assertNotIn("failed", done.stdout)
        self.assertFalse(made.exists())
        self.run_script("tiny:Q8_0", "--rounds", "1", "--keep")
        self.assertTrue(made.exists())

    def test_an_engine_that_fails_is_told_and_the_others_go_on(self):
        self.engine("soli", soli_result(300, 80, 1, void="the clock changed"), more='trap "exit 1" EXIT')
        self.script("driver", 'case "$*" in *"repack on"*) kill -9 $$ ;; *) echo "no room" >&2; exit 1 ;; esac')
        (self.folder / "m.gguf").touch()
        done = self.run_script(self.folder / "m.gguf", "--rounds", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("VOID, says soli of 1 of its 1 runs, such as: the clock changed", done.stdout)
        self.assertIn("llama.cpp, repacked failed: was ended by signal 9", done.stdout)
        self.assertIn("llama.cpp, not repacked failed: ended with status 1: no room", done.stdout)

    def test_what_is_missing_is_named(self):
        self.assertIn("build the target soli", self.run_script("m.gguf").stderr)
        self.engine("soli", {})
        self.assertIn("bench/peers/build.sh", self.run_script("m.gguf").stderr)
        self.engine("driver", {})
        missing = self.run_script("missing.gguf")
        self.assertEqual(missing.returncode, 1)
        self.assertIn("missing.gguf", missing.stderr)
        self.assertIn("none of soli", self.run_script("m.gguf", "--engines", "other").stderr)


if __name__ == "__main__":
    unittest.main()
