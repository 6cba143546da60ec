"""The interactive session, through a pseudo-terminal."""

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time

from gguf_patch import with_chat_template
from program import DEMO, CliTest, environment, main, program

WAIT_S = 60
CTRL_C, CTRL_D = b"\x03", b"\x04"


class Session:
    """The program on a terminal of its own."""

    def __init__(self, folder, *arguments, model=DEMO):
        self.master, slave = pty.openpty()
        command = [program(), "run", str(model), "-t", "1"] + [str(argument) for argument in arguments]
        env = environment(TERM="xterm", XDG_STATE_HOME=str(folder))
        self.child = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True, preexec_fn=take_terminal
        )
        os.close(slave)
        self.seen = b""

    def wait_for(self, pattern):
        """All output up to and with a match of the pattern, which is taken off."""
        end = time.monotonic() + WAIT_S
        while not (match := re.search(pattern, self.seen)):
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {pattern} in {self.seen!r}")
            try:
                data = os.read(self.master, 65536)
            except OSError as error:  # the other side is closed
                raise AssertionError(f"no {pattern} in {self.seen!r}") from error
            self.seen += data
        taken, self.seen = self.seen[: match.end()], self.seen[match.end() :]
        return taken

    def wait_until_ready(self):
        """Until the program edits a line: the prompt stands there, and the terminal hands on every key by itself."""
        seen = self.wait_for(rb"> ")
        end = time.monotonic() + WAIT_S
        while termios.tcgetattr(self.master)[3] & termios.ICANON:
            if time.monotonic() > end:
                raise AssertionError("the line is not edited")
            time.sleep(0.001)
        return seen

    def send(self, data):
        os.write(self.master, data)

    def end(self):
        """Waits for the end of the program; its output must be read for that."""
        try:
            while os.read(self.master, 65536):
                pass
        except OSError:
            pass
        return self.child.wait(WAIT_S)

    def close(self):
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self.master)


def take_terminal():
    """Makes standard input the controlling terminal, so that Ctrl-C becomes a signal as on a real one."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class SessionTest(CliTest):
    def session(self, *arguments, model=DEMO, kind=b"plain text"):
        session = Session(self.folder(), *arguments, model=model)
        self.addCleanup(session.close)
        self.assertIn(kind + b", ", session.wait_for(rb"Ctrl-D ends\."))
        session.wait_until_ready()
        return session


class InteractiveTest(SessionTest):
    def test_answers_then_ctrl_d_ends(self):
        session = self.session("-n", "4", "--temp", "0")
        session.send(b"The sea\n")
        session.wait_for(rb"The sea\r?\n.+\r\n")
        session.wait_until_ready()
        session.send(b"and more\n")
        session.wait_for(rb"and more\r?\n.+\r\n")
        session.wait_until_ready()
        session.send(CTRL_D)
        self.assertEqual(session.end(), 0)

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        session = self.session("--ignore-eos", "-c", "100000")
        session.send(b"The sea\n")
        session.wait_for(rb"(?s)The sea\r?\n.{20}")  # it is writing
        session.send(CTRL_C)
        self.assertNotIn(b"soli:", session.wait_until_ready())
        session.send(b"/help\n")
        session.wait_for(rb"/reset")
        session.wait_until_ready()
        session.send(b"/quit\n")
        self.assertEqual(session.end(), 0)

    def test_ctrl_c_discards_the_line(self):
        session = self.session("-n", "4", "--temp", "0")
        session.send(b"never sent")
        session.wait_for(rb"never sent")
        session.send(CTRL_C)
        session.wait_until_ready()
        session.send(b"/help\n")
        session.wait_for(rb"/routing")
        session.wait_until_ready()
        session.send(CTRL_D)
        self.assertEqual(session.end(), 0)

    def test_errors_leave_the_session_up(self):
        session = self.session("-n", "2", "-c", "16")
        session.send(b"word " * 40 + b"\n")
        session.wait_for(rb"the context has room for 16")
        session.wait_until_ready()
        session.send(b"/routing\n")
        session.wait_for(rb"there is no answer yet")
        session.wait_until_ready()
        session.send(b"/nonsense\n")
        session.wait_for(rb"unknown command /nonsense")
        session.wait_until_ready()
        session.send(b"a\n")
        session.wait_for(rb"\r\n")
        session.wait_until_ready()
        session.send(b"/routing\n")
        session.wait_for(rb"experts")
        session.send(b"/quit\n")
        self.assertEqual(session.end(), 0)

    def test_history_is_kept(self):
        folder = self.folder()
        for first in (True, False):
            session = Session(folder, "-n", "1")
            self.addCleanup(session.close)
            session.wait_for(rb"Ctrl-D ends\.")
            session.wait_until_ready()
            if first:
                session.send(b"remember this\n")
                session.wait_for(rb"remember this\r?\n")
                session.wait_until_ready()
            else:
                for line in (rb"/quit", rb"remember this"):
                    session.send(b"\x1b[A")  # arrow up
                    session.wait_for(line)
                session.send(CTRL_C)
                session.wait_until_ready()
            session.send(b"/quit\n")
            self.assertEqual(session.end(), 0)
        self.assertTrue((folder / "soli" / "history").is_file())


class ChatTest(SessionTest):
    """With a model that carries a chat template."""

    # Tells how many messages it was given once there are too many, so that the history can be seen.
    TEMPLATE = (
        "{% if messages | length > 4 %}{{ raise_exception(messages | length ~ ' messages of ' ~ messages[0].role) }}"
        "{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    )

    def model(self):
        path = self.folder() / "chat.gguf"
        path.write_bytes(with_chat_template(DEMO.read_bytes(), self.TEMPLATE))
        return path

    def say(self, session, text, pattern=rb"\r\n"):
        session.send(text + b"\n")
        session.wait_for(re.escape(text) + rb"\r?\n")
        seen = session.wait_for(pattern)
        session.wait_until_ready()
        return seen

    def test_messages_and_answers_are_kept_until_reset(self):
        session = self.session("-n", "2", model=self.model(), kind=b"chat")
        self.say(session, b"one")
        self.say(session, b"two")
        self.say(session, b"three", rb"5 messages of user")
        self.say(session, b"four", rb"5 messages of user")  # the one that failed was not kept
        self.say(session, b"/reset", rb"a new chat begins")
        self.say(session, b"five")
        session.send(CTRL_D)
        self.assertEqual(session.end(), 0)

    def test_the_system_message_outlives_a_reset(self):
        session = self.session("-n", "2", "--system", "S", model=self.model(), kind=b"chat")
        for _ in range(2):
            self.say(session, b"one")
            self.say(session, b"two")
            self.say(session, b"three", rb"6 messages of system")
            self.say(session, b"/reset", rb"a new chat begins")
        self.say(session, b"/help", rb"is a message, in the chat template")
        session.send(CTRL_D)
        self.assertEqual(session.end(), 0)

    def test_plain_text_on_demand(self):
        session = self.session("-n", "2", "--no-template", model=self.model())
        self.say(session, b"/help", rb"No chat template is")
        session.send(CTRL_D)
        self.assertEqual(session.end(), 0)

    def test_a_template_from_a_file(self):
        path = self.folder() / "chat.jinja"
        path.write_text("{{ raise_exception('from the file') }}", encoding="utf-8")
        session = self.session("--template", path, kind=b"chat")
        self.say(session, b"one", rb"from the file")
        session.send(CTRL_D)
        self.assertEqual(session.end(), 0)


if __name__ == "__main__":
    main()
