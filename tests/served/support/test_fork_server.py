"""Processes of tests that are forks of a server: what differs from executed ones, and how they end."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import fork_server
from tests.support.servers.fork_server import ForkedProcess
from tests.support.servers.processes import Process
from tests.support.waiting import eventually

PRINTS_SURROUNDINGS = """
import json, os, resource, signal, sys, threading
print(json.dumps({
    "arguments": sys.argv,
    "name": __name__,
    "path": sys.path,
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "flags": repr(sys.flags),
    "signals": {n.name: repr(signal.getsignal(n)) for n in signal.valid_signals() if isinstance(n, signal.Signals)},
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "open": sorted(os.listdir("/proc/self/fd"))[:-1],
    "niceness": os.nice(0),
    "umask": os.umask(0o077),
    "group": os.getpgrp(),
    "threads": threading.active_count(),
    "is_buffered": not sys.stdout.write_through,
    "is_main": threading.current_thread() is threading.main_thread(),
}))
"""


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server of no modules start the scripts of these tests."""
    monkeypatch.setattr(fork_server, "_modules_of", lambda _: ("json",))


def run(folder: Path, code: str, **environment: str) -> Process:
    """Start a script."""
    script = folder / "script.py"
    script.write_text(code)
    process = Process("script", [sys.executable, str(script), "an argument"], folder, environment=environment)
    process.start()
    return process


def is_forked(process: Process) -> bool:
    return isinstance(process._process, ForkedProcess)


def test_a_fork_finds_what_an_executed_program_finds(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = []
    for kind in ("executed", "forked"):
        if kind == "forked":
            request.getfixturevalue("forked")
        process = run(tmp_path, PRINTS_SURROUNDINGS, QMQ_SOMETHING="a value")
        assert process.wait() == 0, process.log()
        assert is_forked(process) == (kind == "forked")
        found.append(json.loads(process.log().splitlines()[-1]))
    assert found[0]["environment"]["QMQ_SOMETHING"] == "a value"
    assert found[1] == found[0]


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("code", "expected"),
    [("", 0), ("raise SystemExit(3)", 3), ("raise ValueError", 1), ("import os; os.kill(os.getpid(), 9)", -9)],
    ids=["end", "exit", "error", "signal"],
)
def test_the_exit_code_is_that_of_the_program(tmp_path: Path, code: str, expected: int) -> None:
    process = run(tmp_path, code)
    assert is_forked(process)
    assert process.wait() == expected
    assert process.stop() == expected
    assert not process.is_running


@pytest.mark.usefixtures("forked")
def test_what_runs_at_the_end_of_the_interpreter_runs(tmp_path: Path) -> None:
    process = run(tmp_path, "import atexit\natexit.register(print, 'at the end')\nraise ValueError('a reason')")
    assert process.wait() == 1
    assert "ValueError: a reason" in process.log()
    assert process.log().endswith("at the end\n")


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_signals_reach_the_program(tmp_path: Path, number: signal.Signals) -> None:
    process = run(tmp_path, "import os, time\nprint(os.getpid())\ntime.sleep(600)")
    eventually(lambda: process.log() == f"{process.pid}\n", what="the program runs under the id that the test has")
    assert process.is_running
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0)
    process.signal(number)
    assert process.wait() == -number


def test_a_program_of_another_interpreter_setting_is_executed(tmp_path: Path) -> None:
    for variable, is_fork in (("QMQ_SOMETHING", True), ("PYTHONDEVMODE", False)):
        process = Process(
            variable, [sys.executable, "-m", "broker_node", "--help"], tmp_path, environment={variable: "1"}
        )
        process.start()
        assert process.wait() == 0
        assert "usage: broker_node" in process.log()
        assert is_forked(process) == is_fork
