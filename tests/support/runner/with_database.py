"""Run a command once on each database: `python -m tests.support.runner.with_database postgresql mariadb -- pytest -m database`.

Starts a server of its own, gives the command QMQ_DATABASE_URL, stops the server, and says how long each took. Without names:
the servers QMQ_TEST_DATABASES names, which have to be there; when it is not set, those that are installed. SQLite is no
server: the run without this wrapper is on it. The exit code is that of the first command that failed, or 1 when a server is
missing that has to be there. With --may-be-empty a pytest that found no test counts as passed. With --may-be-missing a server that
is not installed is skipped although it was named.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from console.child_processes import tied_to_parent
from tests.support.servers.services import (
    DATABASES,
    SERVERS,
    ServerMissing,
    named_databases,
    running,
)

NO_TESTS = 5
"""pytest's exit code when it found no test."""
MISSING = 1
INTERRUPTED = 130
INTERRUPT_SECONDS = 60.0
"""How long a command may clean up after Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one database's run went."""

    text: str
    code: int


class Interrupted(Exception):
    """We were asked to end (SIGTERM)."""


def chosen_databases(names: list[str]) -> tuple[list[str], bool]:
    """(the servers to run on, whether all have to be there)."""
    if names:
        return names, True
    named = named_databases()
    return [name for name in (named or DATABASES) if name != "sqlite"], bool(named)


def run_on(name: str, command: list[str], *, is_required: bool, may_be_empty: bool) -> Outcome:
    """Run the command on one database."""
    began = time.monotonic()
    try:
        with running(SERVERS[name]) as server:
            _say(f"{name}: {server.version}, up in {time.monotonic() - began:.1f} s: {' '.join(command)}")
            code = _run(command, {**os.environ, "QMQ_DATABASE_URL": server.url})
    except ServerMissing as error:
        if is_required:
            return Outcome(f"{name}: FAILED, it has to be tested: {error}", MISSING)
        return Outcome(f"{name}: skipped: {error}", 0)
    if code == NO_TESTS and may_be_empty:
        code = 0
    seconds = time.monotonic() - began
    return Outcome(f"{name}: {'passed' if code == 0 else f'FAILED with code {code}'} in {seconds:.1f} s", code)


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Its exit code; Ctrl-C reaches it from the terminal, and it is given time to clean up before its server goes."""
    process = subprocess.Popen(command, env=environment, preexec_fn=tied_to_parent())
    try:
        return process.wait()
    except Interrupted:
        process.terminate()
        raise
    finally:
        try:
            process.wait(INTERRUPT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _say(text: str) -> None:
    print(f"== {text}", flush=True)


def _on_terminate(*_: object) -> None:
    raise Interrupted


def main(argv: list[str]) -> int:
    """Run; the exit code."""
    at = argv.index("--") if "--" in argv else len(argv)
    command = argv[at + 1 :]
    parser = argparse.ArgumentParser(prog="with_database", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(DATABASES[1:])}")
    parser.add_argument("--may-be-empty", action="store_true", help="a pytest that found no test has passed")
    parser.add_argument("--may-be-missing", action="store_true", help="a named server may be missing")
    arguments = parser.parse_args(argv[:at])
    if not command:
        parser.error("the command is missing: NAME -- COMMAND")
    unknown = [name for name in arguments.names if name not in DATABASES[1:]]
    if unknown:
        parser.error(f"{', '.join(unknown)}: {' and '.join(DATABASES[1:])} are known")
    try:
        names, is_required = chosen_databases(arguments.names)
    except ValueError as error:
        parser.error(str(error))
    is_required = is_required and not arguments.may_be_missing
    before = signal.signal(signal.SIGTERM, _on_terminate)
    outcomes = []
    try:
        for name in names:
            outcomes.append(run_on(name, command, is_required=is_required, may_be_empty=arguments.may_be_empty))
    except (KeyboardInterrupt, Interrupted):
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    for outcome in outcomes:
        _say(outcome.text)
    return next((outcome.code for outcome in outcomes if outcome.code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
