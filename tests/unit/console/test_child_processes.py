"""Children end with their parent, and those that ignore SIGTERM are killed with what they started."""

import os
import signal
import subprocess
import sys
import textwrap
from typing import Any

from console.child_processes import stop, tied_to_parent
from tests.support.waiting import eventually

IGNORES = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)


def is_gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def started(**options: Any) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", IGNORES], stdout=subprocess.PIPE, start_new_session=True, **options
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
    return process


def test_one_that_ignores_the_signal_is_killed() -> None:
    for grace_seconds in (0.0, 0.01):
        process = started()
        stop(process, grace_seconds)
        assert process.returncode == -signal.SIGKILL
        stop(process, grace_seconds)  # nothing is there any more


def test_a_child_ends_with_its_parent_however_that_ends() -> None:
    parent = textwrap.dedent("""
        import os, signal, subprocess, sys, time
        from console.child_processes import tied_to_parent
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], preexec_fn=tied_to_parent())
        print(child.pid, flush=True)
        time.sleep(600)
    """)
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.kill()
    eventually(lambda: is_gone(pid), what="the child ended")


def test_what_is_to_happen_in_the_child_happens_there() -> None:
    process = started(preexec_fn=tied_to_parent(also=lambda: os.nice(3)))
    try:
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 3
    finally:
        stop(process, 0)
