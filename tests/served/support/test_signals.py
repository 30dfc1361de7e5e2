"""Signals of the process that runs tests: programs that tests start inherit which ones are ignored."""

import signal
import subprocess
import sys

from tests.support.servers.processes import PROJECT


def test_ctrl_c_is_not_ignored() -> None:
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN


def test_ctrl_c_ends_programs_of_tests_that_run_in_the_background_of_a_shell() -> None:
    test = f"{__file__}::{test_ctrl_c_is_not_ignored.__name__}"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test],
        cwd=PROJECT, capture_output=True, text=True, check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
