"""What is wrong with a command line is said, with exit status 2; help and version are no errors."""

from program import DEMO, DONE, ERROR, MIXTRAL, USAGE, CliTest, environment, main, soli

COMMANDS = [
    "run", "serve", "inspect", "tokenize", "render", "logits", "eval", "profile", "dissect", "diagnose",
    "bench", "synth", "trace", "replay", "completion",
]  # fmt: skip


class HelpTest(CliTest):
    def test_help_of_the_program_names_commands_and_exit_statuses(self):
        text = self.run_ok("--help").text
        for word in COMMANDS + ["Exit status", "130", "SOLI_ISA"]:
            self.assertIn(word, text)

    def test_help_of_every_command_has_examples(self):
        for command in COMMANDS:
            self.assertIn("Examples:", self.run_ok(command, "--help").text, command)

    def test_version(self):
        self.assertRegex(self.run_ok("--version").text, r"^soli \d+\.\d+\.\d+\n$")


class UsageTest(CliTest):
    def refused(self, *arguments):
        """Status 2, nothing on stdout; returns the message."""
        outcome = soli(*arguments)
        self.check(outcome, USAGE, "--help")
        self.assertEqual(outcome.out, b"")
        return outcome.message

    def test_no_command(self):
        self.assertIn("subcommand", self.refused())

    def test_unknown_command(self):
        self.assertIn("unknown command 'frobnicate'", self.refused("frobnicate"))

    def test_unknown_flag(self):
        self.assertIn("--frobnicate", self.refused("run", DEMO, "--frobnicate"))

    def test_missing_model(self):
        self.assertIn("model", self.refused("run", "-p", "x"))

    def test_missing_value(self):
        self.assertIn("--predict", self.refused("run", DEMO, "-p", "x", "-n"))

    def test_twice_the_same_flag(self):
        self.assertIn("--predict", self.refused("run", DEMO, "-p", "x", "-n", "1", "-n", "2"))

    def test_an_empty_path_is_not_an_absent_one(self):
        for command, option in [
            (["run", DEMO], "--file"),
            (["run", DEMO, "-p", "x"], "--routing-json"),
            (["run", DEMO, "-p", "x"], "--trace"),
            (["logits", DEMO, "--token-ids", "1"], "--out"),
            (["eval", DEMO], "--text"),
            (["profile", DEMO], "--data"),
            (["diagnose", DEMO, "-p", "x"], "--html"),
            (["tokenize", DEMO], "--file"),
            (["render", DEMO], "--template"),
            (["render", DEMO], "--messages"),
            (["render", DEMO], "--tools"),
            (["render", DEMO], "--documents"),
            (["synth", "--preset", "tiny"], "--out"),
        ]:
            self.assertIn(f"{option}: '' is not a path", self.refused(*command, option, ""))
        self.assertIn("model: '' is not a path", self.refused("run", "", "-p", "x"))

    def test_prompt_and_file_exclude_each_other(self):
        self.assertIn("excludes", self.refused("run", DEMO, "-p", "x", "-f", "y"))

    def test_numbers_of_run(self):
        wrong = {
            "-n": ["-2", "x", "1.5", "1e3", "0x10", "", "12 ", "99999999999999999999"],
            "-t": ["-1", "1025", "x", "nan"],
            "-c": ["-1", "x", "2000000000000"],
            "-b": ["0", "-1", "65537"],
            "--temp": ["-0.1", "nan", "inf", "x", "1,5"],
            "--top-k": ["-1", "x"],
            "--top-p": ["0", "1.1", "nan", "-1"],
            "--min-p": ["-0.1", "1.1", "nan"],
            "--repeat-penalty": ["0", "-1", "nan", "inf"],
            "--repeat-last-n": ["-1", "x"],
            "--seed": ["-2", "x", "1.0"],
            "--experts-per-token": ["-1", "x"],
        }
        for flag, values in wrong.items():
            for value in values:
                with self.subTest(flag=flag, value=value):
                    message = self.refused("run", DEMO, "-p", "x", flag, value)
                    self.assertIn(f"'{value}' is not a", message)

    def test_memory(self):
        for value in ["12", "-1GiB", "nan", "nanGiB", "0B", "GiB", "12 GiB", "1e40GiB", ""]:
            with self.subTest(value=value):
                message = self.refused("run", DEMO, "-p", "x", "--memory", value)
                self.assertIn(f"'{value}' is not an amount of memory", message)

    def test_choices(self):
        for flag in ["--act", "--kv"]:
            self.assertIn("'f64' is not one of f32,", self.refused("run", DEMO, "-p", "x", flag, "f64"))
        self.assertIn("'loud' is not one of", self.refused("--log-level", "loud", "inspect", DEMO))
        self.assertIn("tcsh", self.refused("completion", "tcsh"))

    def test_token_ids(self):
        for value in ["", "x", "1,,2", "1,-2", "1 2", "99999999999", "1,"]:
            with self.subTest(value=value):
                message = self.refused("logits", MIXTRAL, "--token-ids", value, "--greedy", "1")
                self.assertIn("is not a token id", message)

    def test_logits_without_a_result(self):
        self.assertIn("--out FILE or --greedy N", self.refused("logits", MIXTRAL, "--token-ids", "1"))

    def test_eval_without_a_text(self):
        self.assertIn("--text", self.refused("eval", MIXTRAL))


class ValueTest(CliTest):
    def test_unknown_instruction_set(self):
        for command in [("inspect", MIXTRAL), ("run", MIXTRAL, "-p", "x")]:
            outcome = soli(*command, env=environment(SOLI_ISA="mmx"))
            self.check(outcome, ERROR, "SOLI_ISA", "mmx", "scalar")

    def test_messages_pass_no_control_characters_to_the_terminal(self):
        for arguments, status in [(["inspect", "no\x1b[31mfile\x07"], ERROR), (["inspect", DEMO, "\x1b[2J"], USAGE)]:
            outcome = self.check(soli(*arguments), status, "\\x1B")
            self.assertNotIn(b"\x1b", outcome.err)

    def test_prompts_that_look_like_flags_or_lists_are_prompts(self):
        for prompt in ["--help", "-n", "[a,b]", "a,b", "=x", "@x"]:
            with self.subTest(prompt=prompt):
                ids = self.run_ok("tokenize", DEMO, "--json", "--no-special", "-p", prompt).json["ids"]
                again = soli("tokenize", DEMO, "--detokenize", ",".join(map(str, ids)))
                self.check(again, DONE)
                self.assertEqual(again.text.strip(), prompt)


if __name__ == "__main__":
    main()
