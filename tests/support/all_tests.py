"""Run all tests, as `make test` does: what computes beside what waits.

Most tests wait for processes more than they compute, so two rows of them take little longer than the longer one: everything
but the control plane's systems on SQLite in the first; the front end's own tests, those systems, then the tests of databases on
each server in the second, whose output is shown when it ends. With arguments (for pytest) the first row runs all of them.
Whole stories in a browser, and the demo, have a run of their own: `make e2e`.
"""

import os
import signal
import subprocess
import sys
import tempfile

PYTEST = [sys.executable, "-m", "pytest"]
FRONTEND = [sys.executable, "-m", "tools.frontend", "run", "test"]
INTERRUPTED = 2
"""pytest's exit code after Ctrl-C."""
SYSTEMS = "tests/integration/control"
STORIES = ("tests/e2e", "tests/integration/demo")
SECOND_ROW = "--second-row"


def first_row(arguments: list[str]) -> int:
    """Both rows; the exit code of the first that failed."""
    split = [] if arguments else [f"--ignore={folder}" for folder in (SYSTEMS, *STORIES)]
    with tempfile.TemporaryFile() as output:
        beside = subprocess.Popen(
            [sys.executable, "-m", "tests.support.all_tests", SECOND_ROW, *arguments],
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            code = subprocess.run([*PYTEST, *split, *arguments], check=False).returncode
            if code == INTERRUPTED:
                return code
            print("waiting for the tests beside: front end, systems, databases", flush=True)
            code_beside = beside.wait()
        except KeyboardInterrupt:
            return INTERRUPTED
        finally:
            if beside.poll() is None:
                # As Ctrl-C: pytest and whoever it started clean up.
                os.killpg(beside.pid, signal.SIGINT)
                beside.wait()
            output.seek(0)
            sys.stdout.flush()
            os.write(1, output.read())
    return code or code_beside


def second_row(arguments: list[str]) -> int:
    """The front end's tests and the control plane's systems, unless arguments choose among pytest's and the first row has
    the systems, then databases; a failure of one hides not the others."""
    without_cache = [*PYTEST, "-p", "no:cacheprovider"]
    interrupts: list[int] = []
    # It reaches those we run as well, who clean up; we wait for them, and begin nothing else.
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    code = 0
    for command in [] if arguments else [FRONTEND, [*without_cache, SYSTEMS]]:
        code = subprocess.run(command, check=False).returncode or code
        if interrupts:
            return INTERRUPTED
    may_be_empty = ["--may-be-empty"] if arguments else []
    wrapper = [sys.executable, "-m", "tests.support.with_database", *may_be_empty, "--"]
    databases = subprocess.run([*wrapper, *without_cache, *arguments, "-m", "database"], check=False).returncode
    return code or databases


if __name__ == "__main__":
    is_second = sys.argv[1:2] == [SECOND_ROW]
    sys.exit(second_row(sys.argv[2:]) if is_second else first_row(sys.argv[1:]))
