"""How `make test` runs its commands."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.all_tests import INTERRUPTED, NODES, PROCESSES, SPARK, STORIES, SYSTEMS, Command, commands
from tests.support.processes import PROJECT
from tests.support.waiting import eventually


def start(*chosen: Command, at_once: int = 2) -> "subprocess.Popen[str]":
    # A job in a shell's background ignores SIGINT, and so would this.
    script = (
        "import signal, sys; from tests.support.all_tests import run; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"sys.exit(run({list(chosen)!r}, {at_once}))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def python(code: str) -> Command:
    return [sys.executable, "-c", code]


def test_one_that_fails_hides_nothing_and_counts() -> None:
    done = start(python("print('one')"), python("print('two'); exit(3)"), python("print('three')"))
    said, _ = done.communicate(timeout=60)
    assert done.returncode == 3
    lines = said.splitlines()
    assert {"one", "two", "three"} <= set(lines)
    assert sum(line.startswith("== passed in ") for line in lines) == 2
    assert sum(line.startswith("== FAILED in ") for line in lines) == 1


def test_no_more_run_at_a_time_than_may(tmp_path: Path) -> None:
    folder = str(tmp_path)
    alone = f"import os, time; os.mkdir({folder!r} + '/runs'); time.sleep(0.2); os.rmdir({folder!r} + '/runs')"
    done = start(*[python(alone)] * 3, at_once=1)
    assert done.communicate(timeout=60)[0].count("== passed in ") == 3
    assert done.returncode == 0


def test_ctrl_c_reaches_what_runs_and_what_it_said_is_shown(tmp_path: Path) -> None:
    def waits(name: str) -> Command:
        return python(
            "import pathlib, time\n"
            f"try:\n    pathlib.Path({str(tmp_path / name)!r}).touch()\n    time.sleep(60)\n"
            f"except KeyboardInterrupt:\n    print('{name} cleans up')"
        )

    running = start(waits("shown"), waits("beside"), python("print('never')"))
    eventually(lambda: len(list(tmp_path.iterdir())) == 2, 30, "both run")
    os.kill(running.pid, signal.SIGINT)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == INTERRUPTED
    assert "shown cleans up" in said
    assert "beside cleans up" in said
    assert "never" not in said


def test_every_test_is_in_one_of_the_commands() -> None:
    everything = [word for command in commands() for word in command]
    for folder in (*NODES, *PROCESSES, *STORIES, *SPARK, *SYSTEMS):
        assert (PROJECT / folder).is_dir(), folder
        assert folder in everything
        assert f"--ignore={folder}" in everything
