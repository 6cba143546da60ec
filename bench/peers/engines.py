"""The engines that are compared, each a command that prints the JSON of `soli bench --json`."""

import json
import subprocess

SOLI = "soli"
REPACKED = "llama.cpp, repacked"
PLAIN = "llama.cpp, not repacked"
NAMES = {"soli": SOLI, "repacked": REPACKED, "plain": PLAIN}


class Failure(Exception):
    """An engine did not measure, and why."""


def common_arguments(options):
    """What both programs call by the same name."""
    return [
        *("--threads", str(options.threads)),
        *("--generate", str(options.generate)),
        *("--sequences", ",".join(map(str, options.sequences))),
        *("--prompt", ",".join(map(str, options.prompts))),
        *("--repetitions", str(options.repetitions)),
    ]


def command_of(engine, model, options):
    if engine == SOLI:
        # The probe measures the ceilings in the same run.
        return [options.soli, "bench", model, *common_arguments(options), "--probe", "--json"]
    repack = "on" if engine == REPACKED else "off"
    return [options.driver, model, *common_arguments(options), "--repack", repack]


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def measure(engine, model, options):
    """The JSON of one process. Raises Failure."""
    command = [str(part) for part in command_of(engine, model, options)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, check=False)
    except subprocess.TimeoutExpired as expired:
        raise Failure(f"took more than {options.timeout} s (its threads spin: is the machine idle?)") from expired
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from error
    if done.returncode < 0:
        raise Failure(f"was ended by signal {-done.returncode} (9: too little memory?)")
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        result = None
    # A void run of soli ends with status 1, but its figures are there, with the reason.
    if result is None or (done.returncode != 0 and not result.get("void")):
        raise Failure(f"ended with status {done.returncode}: {last_line(done.stderr or done.stdout)}")
    return result
