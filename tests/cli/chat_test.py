"""`soli run --chat`: the prompt is what the template makes of the message, with exactly one BOS."""

import json

from gguf_patch import with_chat_template
from program import DEMO, ERROR, USAGE, CliTest, main, soli

BODY = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
MESSAGE = "Why is the sea salty?"
GREEDY = ["-n", "12", "--temp", "0", "--act", "f32", "--kv", "f32"]
BOS = 1


class ChatTest(CliTest):
    def model(self, template):
        path = self.folder() / "chat.gguf"
        path.write_bytes(with_chat_template(DEMO.read_bytes(), template))
        return path

    def file(self, template):
        path = self.folder() / "chat.jinja"
        path.write_text(template, encoding="utf-8")
        return path

    def chat(self, *arguments, message=MESSAGE):
        return self.run_ok("run", *arguments, "-p", message, *GREEDY, "--json").json

    def ids_of(self, model, *messages):
        """The tokens of the prompt, by way of render and tokenize."""
        folder = self.folder()
        path = folder / "messages.json"
        path.write_text(json.dumps([{"role": role, "content": content} for role, content in messages]))
        (folder / "prompt").write_text(self.run_ok("render", model, "--messages", path).text, encoding="utf-8")
        arguments = ["-f", folder / "prompt", "--no-special", "--parse-special", "--json"]
        return self.run_ok("tokenize", model, *arguments).json["ids"]

    def continued(self, model, ids):
        arguments = ["--token-ids", ",".join(map(str, ids)), "--act", "f32", "--kv", "f32", "--greedy", "12"]
        return list(map(int, self.run_ok("logits", model, *arguments).text.split()))

    def test_the_answer_continues_the_rendered_prompt(self):
        model = self.model("{{ bos_token }}" + BODY)
        ids = self.ids_of(model, ("user", MESSAGE))
        self.assertEqual(ids.count(BOS), 1)
        result = self.chat(model, "--chat")
        self.assertEqual(result["prompt_tokens"], len(ids))
        self.assertEqual(result["tokens"], self.continued(model, ids))
        self.assertEqual(result["settings"]["chat_template"], "model")

    def test_one_bos_whether_or_not_the_template_writes_it(self):
        """The demo model wants a BOS."""
        without, with_bos = self.model(BODY), self.model("{{ bos_token }}" + BODY)
        ids = self.ids_of(without, ("user", MESSAGE))
        self.assertNotIn(BOS, ids)
        self.assertEqual([BOS] + ids, self.ids_of(with_bos, ("user", MESSAGE)))
        results = [self.chat(model, "--chat") for model in (without, with_bos)]
        self.assertEqual(results[0]["prompt_tokens"], len(ids) + 1)
        self.assertEqual(results[0]["tokens"], results[1]["tokens"])

    def test_the_system_message(self):
        model = self.model(BODY)
        ids = [BOS] + self.ids_of(model, ("system", "Be brief."), ("user", MESSAGE))
        result = self.chat(model, "--system", "Be brief.")  # a chat without being asked for one
        self.assertEqual(result["prompt_tokens"], len(ids))
        self.assertEqual(result["tokens"], self.continued(model, ids))

    def test_special_tokens_of_the_template_are_tokens(self):
        model = self.model("{{ messages[0].content }}</s>x")
        ids = self.ids_of(model, ("user", "a"))
        self.assertEqual(ids.count(2), 1)
        self.assertEqual(self.chat(model, "--chat", message="a")["prompt_tokens"], 1 + len(ids))

    def test_a_template_from_a_file_is_used_instead(self):
        model = self.model("{{ raise_exception('not this one') }}")
        path = self.file(BODY)
        result = self.chat(model, "--template", path)
        self.assertEqual(result["settings"]["chat_template"], str(path))
        self.assertEqual(result["tokens"], self.chat(self.model(BODY), "--chat")["tokens"])

    def test_variables_of_the_template(self):
        model = self.model("{% if enable_thinking is false %}no {% endif %}" + BODY)
        thinking = self.chat(model, "--chat")
        quick = self.chat(model, "--var", "enable_thinking=false")
        self.assertGreater(quick["prompt_tokens"], thinking["prompt_tokens"])
        self.check(soli("run", model, "-p", "x", "--var", "x"), ERROR, "--var 'x'", "NAME=VALUE")

    def test_plain_text_is_the_default_for_prompts(self):
        plain = self.chat(DEMO)
        for arguments in ([], ["--no-template"]):
            result = self.chat(self.model(BODY), *arguments)
            self.assertEqual(result["tokens"], plain["tokens"])
            self.assertIsNone(result["settings"]["chat_template"])
        self.assertNotEqual(self.chat(self.model(BODY), "--chat")["tokens"], plain["tokens"])

    def test_the_answer_ends_where_the_model_ends(self):
        arguments = ["--chat", "-p", "A", "-n", "200", "--temp", "1.2", "--json"]
        for seed in map(str, range(40)):
            result = self.run_ok("run", self.model("{{ messages[0].content }}"), *arguments, "--seed", seed).json
            if result["finish_reason"] == "end_token":
                break
        self.assertEqual(result["finish_reason"], "end_token")
        self.assertNotIn("</s>", result["text"])

    def test_what_is_wrong_is_said(self):
        say = ["-p", MESSAGE, "--chat"]
        outcome = soli("run", DEMO, *say)
        self.check(outcome, ERROR, DEMO, "no chat template", "--template FILE gives one", "--no-template")
        own = soli("run", self.model("\n{{ raise_exception('Only in French.') }}"), *say)
        self.check(own, ERROR, "line 2: Only in French.")
        self.check(soli("run", self.model("{% if %}"), *say), ERROR, "line 1", "an expression", "--no-template")
        self.check(soli("run", self.model("{{ 1 | nope }}"), *say), ERROR, "no filter 'nope'", "there are")
        self.check(soli("run", self.model("{% while true %}"), *say), ERROR, "no tag 'while'")
        loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
        self.check(soli("run", self.model(loop), *say), ERROR, "steps allowed")
        self.check(soli("run", DEMO, *say, "--template", self.folder() / "none"), ERROR, "cannot open")
        self.check(soli("run", self.model(BODY), "-p", "word " * 300, "--chat"), ERROR, "room for 256")

    def test_what_does_not_go_together(self):
        for arguments in (["--chat"], ["--system", "S"], ["--template", "x"], ["--var", "a=1"]):
            self.check(soli("run", DEMO, "-p", "x", "--no-template", *arguments), USAGE, "excludes")
        self.check(soli("run", DEMO, "-p", "x", "--template", ""), USAGE, "--template: '' is not a path")

    def test_inspect_tells_of_the_template(self):
        for model, text in ((DEMO, "none"), (self.model(BODY), "default, "), (self.model("{% if %}"), "not usable")):
            self.assertRegex(self.run_ok("inspect", model).text, f"chat template .*{text}")
            self.assertIn(text, self.run_ok("inspect", model, "--json").json["chat_template"])


if __name__ == "__main__":
    main()
