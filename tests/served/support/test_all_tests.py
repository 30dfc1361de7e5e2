"""How `make test` runs its rows, which tests it reruns, and what it reports."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest

from tests.support.promises import PromiseBroken, is_broken_promise, judging
from tests.support.runner import pythons, results
from tests.support.runner.all_tests import INTERRUPTED, PYTEST, RERUNS_MAX, Row, python_rows, quick_rows, rows
from tests.support.runner.flaky import FLAKY_MAX, Quarantined
from tests.support.runner.machine import Ticks, cpu_ticks, percentile
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually

FLAKY = """
from pathlib import Path
def test_flaky():
    before = Path(__file__).with_suffix(".ran")
    if not before.exists():
        before.touch()
        print("printed by the first run")
        raise TimeoutError("too slow")
    print("printed by the rerun")
"""
PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert 1 == 2\n"


def start(
    folder: Path,
    *chosen: Row,
    at_once: int = 2,
    changed: Sequence[str] = (),
    quarantine: Sequence[Quarantined] = (),
    history: Path | None = None,
) -> "subprocess.Popen[str]":
    # A job in a shell's background ignores SIGINT, and so would this.
    past = f"History(Path({str(history)!r}))" if history else "None"
    script = (
        "import datetime, signal, sys; from pathlib import Path; from tests.support.runner.all_tests import Policy, Row, run; "
        "from tests.support.runner.flaky import History, Quarantined; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"policy = Policy(frozenset({list(changed)!r}), {tuple(quarantine)!r}, {past}); "
        f"sys.exit(run({list(chosen)!r}, Path({str(folder / 'results')!r}), {at_once}, policy))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=PROJECT,
        # Nothing of what is installed is needed, and each start of pytest would import it.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def python(name: str, code: str) -> Row:
    return Row(name, (sys.executable, "-c", code), is_pytest=False)


class Suite:
    """Rows of real pytest files, by name; run as `make test` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chosen: list[Row] = []
        self.changed: list[str] = []
        self.quarantine: list[Quarantined] = []
        self.history: Path | None = None
        self.code = -1
        self.output = ""

    def add(self, path: str, text: str) -> "Suite":
        """Add a row of one file."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self.chosen.append(Row(f"row{len(self.chosen)}", PYTEST, (str(file),)))
        return self

    def run(self) -> "Suite":
        """Run the rows one after the other."""
        done = start(
            self.folder, *self.chosen, at_once=1, changed=self.changed, quarantine=self.quarantine, history=self.history
        )
        self.output, _ = done.communicate(timeout=120)
        self.code = done.returncode
        return self

    def row(self, name: str) -> list[str]:
        """The cells of a row in the table at the end."""
        (line,) = (line for line in self.output.splitlines() if line.startswith(f"== {name} "))
        return line.split()[2:]


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(tmp_path)


def test_a_row_that_fails_hides_nothing_and_counts(tmp_path: Path) -> None:
    done = start(
        tmp_path,
        python("a", "print('one')"),
        python("b", "print('two'); exit(3)"),
        python("c", "print('three')"),
    )
    output, _ = done.communicate(timeout=60)
    assert done.returncode == 3
    lines = output.splitlines()
    assert {"one", "two", "three"} <= set(lines)
    assert sum(line.startswith("== passed in ") for line in lines) == 2
    assert sum(line.startswith("== FAILED in ") for line in lines) == 1


def test_no_more_rows_run_at_a_time_than_may(tmp_path: Path) -> None:
    folder = str(tmp_path / "runs")
    alone = f"import os, time; os.mkdir({folder!r}); time.sleep(0.2); os.rmdir({folder!r})"
    done = start(tmp_path, *(python(name, alone) for name in "abc"), at_once=1)
    assert done.communicate(timeout=60)[0].count("== passed in ") == 3
    assert done.returncode == 0


def test_ctrl_c_reaches_what_runs_and_its_output_is_shown(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    begun.mkdir()

    def waits(name: str) -> Row:
        return python(
            name,
            "import pathlib, time\n"
            f"try:\n    pathlib.Path({str(begun / name)!r}).touch()\n    time.sleep(60)\n"
            f"except KeyboardInterrupt:\n    print('{name} cleans up')",
        )

    running = start(tmp_path, waits("shown"), waits("beside"), python("last", "print('never')"))
    eventually(lambda: len(list(begun.iterdir())) == 2, what="both run")
    os.kill(running.pid, signal.SIGINT)
    output, _ = running.communicate(timeout=60)
    assert running.returncode == INTERRUPTED
    assert "shown cleans up" in output
    assert "beside cleans up" in output
    assert "never" not in output


def test_the_table_has_the_totals_of_each_row_and_the_machine(suite: Suite) -> None:
    suite.add("test_a.py", PASSES + "import pytest\n@pytest.mark.skip\ndef test_skipped(): pass\n")
    suite.chosen.append(python("lint", "print('fine')"))
    suite.run()
    assert suite.code == 0, suite.output
    assert suite.row("row0")[:4] == ["2", "1", "0", "1"]
    assert suite.row("row0")[6] == "0"
    assert suite.row("lint")[:4] == ["1", "1", "0", "0"]
    assert "== machine: " in suite.output
    assert "CPU steal " in suite.output
    assert "sync of 4 KiB: p50 " in suite.output
    assert "== the slowest 3 of 3 tests" in suite.output
    assert "== seeds: simulation none; " in suite.output


def test_a_failed_command_without_results_of_its_own_gets_a_junit_file(suite: Suite) -> None:
    suite.chosen += [
        python("first", "pass"),
        python("lint", "print('\x1b[31m<style> of 积压'); exit(1)"),
        python("writes", "import os; open(os.environ['QMQ_JUNIT'], 'w').write('<testsuite><testcase name=\"a\"/></testsuite>')"),
    ]  # fmt: skip
    suite.run()
    assert suite.code == 1
    found = results.read(suite.folder / "results/lint.xml")
    assert found is not None
    assert (found.tests, found.failed) == (1, 1)
    assert "?[31m<style> of 积压" in found.failures[0].text
    written = results.read(suite.folder / "results/writes.xml")
    assert written is not None
    assert [case.name for case in written.cases] == ["a"]


def test_seeds_that_decided_tests_are_in_the_report(suite: Suite) -> None:
    record = "    request.node.user_properties.append(('seed', seed))\n"
    for_each = "import pytest\n@pytest.mark.parametrize('seed', [3, 1, 2, 17])\n"
    suite.add("test_a.py", f"{for_each}def test_it(request, seed):\n{record}").run()
    assert "== seeds: simulation 1-3, 17; " in suite.output


def test_tests_on_several_workers_are_judged_as_on_one(suite: Suite) -> None:
    suite.add("test_a.py", FLAKY).add("test_b.py", PASSES)
    files = tuple(str(suite.folder / name) for name in ("test_a.py", "test_b.py"))
    suite.chosen = [Row("tests", (*PYTEST, "-p", "xdist"), files, workers=("-n", "2"))]
    suite.run()
    assert suite.code == 0, suite.output
    assert suite.row("tests")[:4] == ["2", "1", "1", "0"]
    assert f"== FLAKY {suite.folder}/test_a.py::test_flaky (tests)" in suite.output
    assert "printed by the first run" in suite.output


def test_a_worker_that_crashes_fails_the_run(suite: Suite) -> None:
    suite.add("test_a.py", PASSES + "import os\ndef test_crashes(): os._exit(1)\n")
    suite.chosen = [Row("tests", (*PYTEST, "-p", "xdist"), suite.chosen[0].selection, workers=("-n", "2"))]
    suite.run()
    assert suite.code == 1
    assert "not rerun, an error outside of the tests" in suite.output
    assert "FLAKY" not in suite.output


def test_a_test_that_fails_once_is_reported_with_both_logs_and_fails_nothing(suite: Suite) -> None:
    suite.add("test_a.py", FLAKY).add("test_b.py", PASSES).run()
    assert suite.code == 0, suite.output
    after = suite.output[suite.output.index("== passed in") :]
    flaky = after[after.index("== FLAKY ") :]
    assert flaky.startswith(f"== FLAKY {suite.folder}/test_a.py::test_flaky (row0)")
    assert "TimeoutError: too slow" in flaky
    assert "printed by the first run" in flaky
    assert "1 passed" in flaky


def test_a_test_that_fails_twice_fails_the_run(suite: Suite) -> None:
    suite.add("test_a.py", PASSES + FAILS).run()
    assert suite.code == 1
    assert f"== FAILED AGAIN {suite.folder}/test_a.py::test_fails (row0)" in suite.output
    assert "FLAKY" not in suite.output


def test_a_rerun_that_is_skipped_has_not_passed(suite: Suite) -> None:
    suite.add("test_a.py", "import pytest\n" + FLAKY.replace('print("printed by the rerun")', "pytest.skip()")).run()
    assert suite.code == 1
    assert "FLAKY" not in suite.output


@pytest.mark.parametrize(
    "how",
    [
        "raise PromiseBroken('m1 is lost')",
        "raise AssertionError('while cleaning up') from PromiseBroken('m1 is lost')",
        "raise ExceptionGroup('tasks', [ValueError(), PromiseBroken('m1 is lost')])",
    ],
)
def test_a_broken_promise_is_never_rerun(suite: Suite, how: str) -> None:
    broken = FLAKY.replace('raise TimeoutError("too slow")', how)
    suite.add("test_a.py", "from tests.support.promises import PromiseBroken\n" + broken).run()
    assert suite.code == 1
    assert f"not rerun, a broken promise: {suite.folder}/test_a.py::test_flaky" in suite.output
    assert "printed by the rerun" not in suite.output
    assert "FLAKY" not in suite.output


@pytest.mark.parametrize(
    ("folder", "why"),
    [("tests/unit/qmq", "a unit test"), ("tests/sim/broker", "a simulated test")],
)
def test_a_unit_or_simulated_test_is_never_rerun(suite: Suite, folder: str, why: str) -> None:
    suite.add(f"{folder}/test_a.py", FLAKY).run()
    assert suite.code == 1
    assert f"not rerun, {why}" in suite.output
    assert "FLAKY" not in suite.output


def test_a_test_of_a_file_that_the_change_touches_is_never_rerun(suite: Suite) -> None:
    suite.changed = [os.path.relpath(suite.folder / "test_a.py", PROJECT)]
    suite.add("test_a.py", FLAKY).add("test_b.py", FLAKY).run()
    assert suite.code == 1
    assert f"not rerun, a file of this change: {suite.folder}/test_a.py" in suite.output
    assert suite.output.count("== FLAKY ") == 2  # test_b.py's, before each log


def quarantine(path: Path) -> Quarantined:
    return Quarantined(os.path.relpath(path, PROJECT), date(2026, 11, 23), "ada", "#1", "routes")


def test_a_test_in_quarantine_is_reported_and_fails_nothing(suite: Suite) -> None:
    suite.quarantine = [quarantine(suite.folder / "test_a.py::test_fails")]
    suite.add("test_a.py", "import pytest\n@pytest.mark.parametrize('n', [1, 2])\ndef test_fails(n): assert n == 0\n")
    suite.run()
    assert suite.code == 0, suite.output
    assert suite.output.count(f"== QUARANTINED, failed {suite.folder}/test_a.py::test_fails[") == 2
    assert suite.row("row0")[:4] == ["2", "0", "2", "0"]


def test_a_broken_promise_fails_the_run_although_the_test_is_in_quarantine(suite: Suite) -> None:
    suite.quarantine = [quarantine(suite.folder / "test_a.py::test_it")]
    suite.add(
        "test_a.py", "from tests.support.promises import PromiseBroken\ndef test_it(): raise PromiseBroken('lost')\n"
    )
    assert suite.run().code == 1
    assert "not rerun, a broken promise" in suite.output


def test_a_test_that_is_flaky_in_two_runs_fails_the_second(suite: Suite) -> None:
    suite.history = suite.folder / "kept/history.json"
    suite.add("test_a.py", FLAKY)
    assert suite.run().code == 0
    (suite.folder / "test_a.ran").unlink()
    assert suite.run().code == 1
    assert "== flaky twice in 50 runs: FAILED " in suite.output
    (suite.folder / "test_a.ran").unlink()
    suite.history = None
    assert suite.run().code == 0


def test_more_flaky_tests_than_may_be_fail_the_run(suite: Suite) -> None:
    for number in range(FLAKY_MAX + 1):
        suite.add(f"test_{number}.py", FLAKY)
    suite.run()
    assert suite.code == 1
    assert suite.output.count("== FLAKY ") == FLAKY_MAX + 1 + suite.output.count("the rerun:")
    assert f"== {FLAKY_MAX + 1} flaky tests: FAILED" in suite.output


def test_as_many_flaky_tests_as_may_be_pass(suite: Suite) -> None:
    for number in range(FLAKY_MAX):
        suite.add(f"test_{number}.py", FLAKY)
    assert suite.run().code == 0


def test_nothing_is_rerun_when_many_tests_failed(suite: Suite) -> None:
    for_each = f"import pytest\n@pytest.mark.parametrize('n', range({RERUNS_MAX + 1}))\n"
    suite.add("test_a.py", f"{for_each}def test_fails(n): assert n < 0\n").run()
    assert suite.code == 1
    assert f"== {RERUNS_MAX + 1} tests failed; none is rerun" in suite.output


def test_a_pytest_that_ends_without_its_results_fails_the_run(suite: Suite) -> None:
    suite.add("test_a.py", PASSES + "import os\ndef test_crashes(): os._exit(1)\n").run()
    assert suite.code == 1
    assert "== row0: failed with exit code 1, not by tests alone" in suite.output
    assert suite.row("row0")[:4] == ["-"] * 4


def test_a_file_that_cannot_be_imported_fails_the_run(suite: Suite) -> None:
    suite.add("test_a.py", "import nothing_like_it\n").run()
    assert suite.code == 2
    assert "not by tests alone" in suite.output


def test_an_error_of_a_fixture_is_rerun_too_and_names_with_odd_characters_are_found(suite: Suite) -> None:
    suite.add(
        "test_a.py",
        "import pytest\nfrom pathlib import Path\n"
        "@pytest.fixture\ndef broken():\n"
        "    before = Path(__file__).with_suffix('.ran')\n"
        "    if not before.exists():\n        before.touch()\n        raise OSError('in the set-up')\n"
        "class TestIt:\n"
        "    @pytest.mark.parametrize('text', ['a::b [c] \\x01 积压', 'd'])\n"
        "    def test_flaky(self, broken, text): pass\n",
    ).run()
    assert suite.code == 0, suite.output
    assert suite.output.count("== FLAKY ") == 2
    assert "in the set-up" in suite.output


def test_a_failure_whose_teardown_fails_too_is_one_test(suite: Suite) -> None:
    suite.add(
        "test_a.py",
        "import pytest\n@pytest.fixture\ndef torn():\n    yield\n    raise OSError('in the teardown')\n"
        "def test_fails(torn): raise OSError('in the test')\n",
    ).run()
    assert suite.code == 1
    assert suite.row("row0")[:4] == ["1", "0", "1", "0"]
    again = suite.output[suite.output.index("== FAILED AGAIN") :]
    assert again.index("in the test") < again.index("in the teardown")


def test_a_broken_promise_is_found_in_causes_and_groups_and_nowhere_else() -> None:
    broken = PromiseBroken("lost")
    cleaning_up = OSError("cleaning up")
    cleaning_up.__context__ = broken
    assert is_broken_promise(cleaning_up)
    assert is_broken_promise(BaseExceptionGroup("all", [OSError(), ExceptionGroup("some", [broken])]))
    assert not is_broken_promise(AssertionError("slow"))
    assert not is_broken_promise(None)


def test_assertions_that_judge_become_broken_promises_and_nothing_else_does() -> None:
    @judging()
    def check(error: Exception | None) -> str:
        if error is not None:
            raise error
        return "kept"

    assert check(None) == "kept"
    with pytest.raises(PromiseBroken, match="m1 is lost") as broken:
        check(AssertionError("m1 is lost"))
    with pytest.raises(PromiseBroken) as again:
        check(broken.value)
    assert again.value is broken.value
    with pytest.raises(OSError, match="away"):
        check(OSError("away"))


def test_the_figures_of_the_machine() -> None:
    assert cpu_ticks("cpu  1 2 3 4 5 6 7 8 100 100\ncpu0 1 1\n") == Ticks(stolen=8, idle=9, total=36)
    assert Ticks(8, 9, 36).since(Ticks(1, 2, 3)) == Ticks(7, 7, 33)
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([float(value) for value in range(1, 101)], 0.99) == 99.0
    assert percentile([7.0], 0.99) == 7.0


# --- what the rows run -----------------------------------------------------------------------------------------------


def test_one_row_runs_every_test() -> None:
    (row,) = (row for row in rows() if row.name == "tests")
    assert row.selection == ()
    assert row.command(Path("a.xml"))[: len(PYTEST) + 2] == [*PYTEST, "-n", "3"]
    assert "-n" not in row.rerun("test_a.py::test_b", Path("a.xml"))


def test_every_other_python_that_is_installed_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.runner.pythons.installed", lambda: ["3.12", "3.13"])
    found = {row.name: row.selection for row in rows() if row.name.startswith("python")}
    assert found == {"python3.12": pythons.SYSTEMS, "python3.13": pythons.SELECTION}
    assert {row.name: row.selection for row in python_rows()} == dict.fromkeys(found, pythons.SELECTION)


def test_quick_checks_only_files_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.runner.all_tests.changed_files", lambda _: {"qmq/clock.py", "docs/testing.md"})
    found = {row.name: row for row in quick_rows()}
    assert found["ruff"].program[-2:] == ("check", "qmq/clock.py")
    assert found["unit"].selection == ("tests/unit",)
    assert {"mypy", "format"} <= set(found)
    assert "types of pages" not in found
    monkeypatch.setattr("tests.support.runner.all_tests.changed_files", lambda _: {"frontend/src/app.tsx"})
    assert "types of pages" in {row.name for row in quick_rows()}


def test_the_databases_are_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMQ_TEST_DATABASES", "sqlite,mariadb")
    (row,) = (row for row in rows() if "tests.support.runner.with_database" in row.program)
    assert row.name == "mariadb"
    assert "--may-be-missing" not in row.program
    monkeypatch.delenv("QMQ_TEST_DATABASES")
    found = [row for row in rows(["-k", "x"]) if "tests.support.runner.with_database" in row.program]
    assert [row.name for row in found] == ["postgresql", "mariadb"]
    assert all({"--may-be-missing", "--may-be-empty"} <= set(row.program) for row in found)


def test_a_rerun_is_on_the_same_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMQ_TEST_DATABASES", "sqlite,mariadb")
    (row,) = (row for row in rows() if row.name == "mariadb")
    assert row.rerun("test_a.py::test_b", Path("again.xml")) == [
        *row.program, "test_a.py::test_b", *results.arguments(Path("again.xml")),
    ]  # fmt: skip
