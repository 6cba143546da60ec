"""`soli render`: chat templates byte for byte as Jinja2 renders them, set up as Hugging Face transformers does.

Where Jinja2 is not installed (Debian: python3-jinja2), only the tests that do not need it run. The environment
variable SOLI_CHAT_TEMPLATES names a folder of further templates (*.jinja) to compare.
"""

import datetime
import json
import os
import pathlib

from program import ERROR, MIXTRAL, ROOT, USAGE, CliTest, main, soli

try:
    import jinja2
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox
except ImportError:
    jinja2 = None

DATA = ROOT / "tests" / "data" / "chat_templates"
# The least that is a tokenizer.
TOKENIZER = {"model": {"type": "BPE", "vocab": {"H": 0, "i": 1}, "merges": []}}
DATE = datetime.datetime(2024, 7, 26)
CHATML = DATA / "chatml.jinja"
# What Jinja2 refuses and soli renders: soli has lists where Jinja2 has generators.
GENERATORS = "generator"


def environment():
    """Jinja2 as transformers uses it for chat templates."""

    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

        def _render(self, caller):
            return caller()

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = DATE.strftime
    return made


def expected(source, conversation):
    """The text, or the exception."""
    inputs = {"messages": conversation["messages"], "add_generation_prompt": True, "tools": None, "documents": None}
    inputs.update({key: conversation[key] for key in inputs if key in conversation})
    try:
        return environment().from_string(source).render(**inputs, **conversation["variables"])
    except Exception as error:  # pylint: disable=broad-except  (whatever Python raises is a refusal)
        return error


def conversations():
    return json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))


class RenderCase(CliTest):
    def written(self, **files):
        """Arguments that name one file for each value."""
        folder = self.folder()
        arguments = []
        for name, value in files.items():
            path = folder / f"{name}.json"
            path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
            arguments += [f"--{name}", path]
        return arguments

    def render(self, template, conversation):
        keys = ("messages", "tools", "documents")
        arguments = self.written(**{key: conversation[key] for key in keys if key in conversation})
        if not conversation.get("add_generation_prompt", True):
            arguments.append("--no-generation-prompt")
        for name, value in conversation["variables"].items():
            arguments += ["--var", f"{name}={json.dumps(value)}"]
        return soli("render", "--template", template, "--date", DATE.strftime("%Y-%m-%d"), *arguments)


class OracleTest(RenderCase):
    def setUp(self):
        if jinja2 is None:
            self.skipTest("Jinja2 is not installed (apt-get install python3-jinja2)")

    def compare(self, folder):
        """Every template of a folder with every conversation; returns how many texts were equal."""
        n_equal = 0
        for template in sorted(folder.glob("*.jinja")):
            source = template.read_text(encoding="utf-8")
            for conversation in conversations():
                with self.subTest(template=template.name, conversation=conversation["name"]):
                    want = expected(source, conversation)
                    got = self.render(template, conversation)
                    if isinstance(want, Exception) and GENERATORS in str(want):
                        continue
                    if isinstance(want, Exception):
                        self.check(got, ERROR, "chat template: ")
                        if isinstance(want, jinja2.exceptions.TemplateError) and "raise" in source:
                            self.same_message(want, got)
                        continue
                    self.check(got, 0)
                    self.assertEqual(got.text, want)
                    n_equal += 1
        return n_equal

    def same_message(self, want, got):
        """The template's own message is in the error."""
        if type(want) is jinja2.exceptions.TemplateError:
            self.assertIn(str(want)[:60], got.message)

    def test_templates(self):
        self.assertGreater(self.compare(DATA), 150)

    def test_further_templates(self):
        folder = os.environ.get("SOLI_CHAT_TEMPLATES")
        if not folder:
            self.skipTest("SOLI_CHAT_TEMPLATES names no folder of templates")
        self.assertGreater(self.compare(pathlib.Path(folder)), 0)

    def test_snippets_are_what_jinja_makes_of_them(self):
        """tests/format/jinja_snippets_test.cc holds soli against them."""
        for source, text in json.loads((DATA / "snippets.json").read_text(encoding="utf-8")):
            with self.subTest(source=source):
                want = expected(source, {"messages": [], "variables": {}})
                self.assertEqual(None if isinstance(want, Exception) else want, text)


class CommandTest(RenderCase):
    MESSAGES = [{"role": "user", "content": "Hi"}]
    TEXT = "<|im_start|>user\nHi<|im_end|>\n"
    ANSWER = "<|im_start|>assistant\n"

    def template(self, source):
        path = self.folder() / "chat.jinja"
        path.write_text(source, encoding="utf-8")
        return ["render", "--template", path]

    def test_messages_from_file_and_pipe(self):
        piped = self.run_ok("render", "--template", CHATML, stdin=json.dumps(self.MESSAGES).encode())
        self.assertEqual(piped.text, self.TEXT + self.ANSWER)
        read = self.run_ok("render", "--template", CHATML, *self.written(messages=self.MESSAGES))
        self.assertEqual(read.text, piped.text)

    def test_no_generation_prompt(self):
        arguments = ["render", "--template", CHATML, *self.written(messages=self.MESSAGES)]
        self.assertEqual(self.run_ok(*arguments, "--no-generation-prompt").text, self.TEXT)

    def test_tools_documents_and_date(self):
        template = self.template("{{ tools }}{{ documents }}{{ strftime_now('%d.%m.%Y') }}")
        nothing = self.written(messages=[])
        everything = self.written(messages=[], tools=[1], documents=[{"a": 2}])
        self.assertTrue(self.run_ok(*template, *nothing).text.startswith("NoneNone"))
        outcome = self.run_ok(*template, *everything, "--date", "2024-07-26")
        self.assertEqual(outcome.text, "[1][{'a': 2}]26.07.2024")
        self.check(soli(*template, *nothing, "--date", "26.07.2024"), ERROR, "26.07.2024", "YYYY-MM-DD")

    def test_variables_are_json_or_text(self):
        template = self.template("{{ [a, b, c] }}")
        variables = ["--var", "a=false", "--var", "b=plain text", "--var", 'c={"x": [1]}']
        outcome = self.run_ok(*template, *self.written(messages=[]), *variables)
        self.assertEqual(outcome.text, "[False, 'plain text', {'x': [1]}]")
        self.check(soli(*template, *self.written(messages=[]), "--var", "a"), ERROR, "NAME=VALUE")
        self.check(soli(*template, *self.written(messages=[]), "--var", "messages=1"), ERROR, "'messages'")

    def test_the_templates_own_message(self):
        outcome = soli(*self.template("\n{{ raise_exception('Use a user.') }}"), *self.written(messages=[]))
        self.check(outcome, ERROR, "line 2: Use a user.")
        self.assertEqual(outcome.out, b"")

    def test_what_is_wrong_is_named(self):
        path = self.folder() / "wrong.json"
        path.write_text("[{]")
        self.check(soli("render", "--template", CHATML, "--messages", path), ERROR, path, "no JSON")
        path.write_text("[" * 100 + "]" * 100)
        self.check(soli("render", "--template", CHATML, "--messages", path), ERROR, path, "64 levels")
        self.check(soli("render", "--template", self.folder() / "none"), ERROR, "cannot open")
        self.check(soli(*self.template("{% if %}")), ERROR, "chat.jinja", "line 1", "expression is wanted")
        self.check(soli("render"), USAGE, "MODEL or --template")

    def test_a_file_without_a_template(self):
        outcome = soli("render", MIXTRAL, *self.written(messages=self.MESSAGES))
        self.check(outcome, ERROR, MIXTRAL, "no chat template", "--template FILE gives one")

    def test_a_folder_of_hugging_face(self):
        folder = self.folder()
        (folder / "chat_template.jinja").write_text("{{ bos_token }}{{ messages[0].content }}", encoding="utf-8")
        (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER), encoding="utf-8")
        self.assertEqual(self.run_ok("render", folder, *self.written(messages=self.MESSAGES)).text, "Hi")

    def test_tokens_of_the_model(self):
        arguments = self.template("{{ bos_token }}|{{ eos_token }}")[1:]
        self.assertEqual(self.run_ok("render", MIXTRAL, *arguments, *self.written(messages=[])).text, "<s>|</s>")


if __name__ == "__main__":
    main()
