"""The rules of the quarantine, what the history of flaky tests keeps, and which files a change touches."""

import json
import subprocess
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.support.runner import flaky
from tests.support.runner.changes import changed_files
from tests.support.runner.flaky import HISTORY_RUNS, QUARANTINE, QUARANTINE_MAX, History, PolicyBroken, quarantined
from tests.support.servers.processes import PROJECT

TODAY = date(2026, 11, 23)
TEST = "tests/served/test_routes.py::test_routes"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a test of each level."""
    for folder in ("served", "unit", "sim"):
        path = tmp_path / "tests" / folder / "test_routes.py"
        path.parent.mkdir(parents=True)
        path.write_text("async def test_routes(): pass\nclass TestAll:\n    def test_one(self): pass\n")
    return tmp_path


def entry(test: str = TEST, day: date = TODAY, **fields: str) -> str:
    values = {"owner": "ada", "issue": "#7", "uncovered": "routes after a restart", **fields}
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    return "\n".join(["[[quarantined]]", f'test = "{test}"', f"date = {day}", *lines, ""])


def read(project: Path, text: str) -> list[str]:
    path = project / "quarantine.toml"
    path.write_text(text)
    return [found.test for found in quarantined(path, project, TODAY)]


def test_the_quarantine_of_this_project_keeps_its_rules() -> None:
    assert len(quarantined(QUARANTINE, PROJECT, date.today())) <= QUARANTINE_MAX


def test_an_entry_names_a_test_with_or_without_parameters_and_class(project: Path) -> None:
    names = [TEST, f"{TEST}[a-b]", "tests/served/test_routes.py::TestAll::test_one"]
    assert read(project, "".join(map(entry, names))) == names
    (whole, one, _) = quarantined(project / "quarantine.toml", project, TODAY)
    assert whole.covers(f"{TEST}[c]")
    assert one.covers(f"{TEST}[a-b]")
    assert not one.covers(f"{TEST}[c]")
    assert not whole.covers(f"{TEST}_again")


def test_entries_of_two_weeks_are_the_oldest(project: Path) -> None:
    assert read(project, entry(day=TODAY - timedelta(days=14))) == [TEST]
    with pytest.raises(PolicyBroken, match="it is 15 days old, 14 are at most"):
        read(project, entry(day=TODAY - timedelta(days=15)))
    with pytest.raises(PolicyBroken, match="is in the future"):
        read(project, entry(day=TODAY + timedelta(days=1)))


def test_there_are_five_entries_at_most(project: Path) -> None:
    five = "".join(entry(f"{TEST}[{number}]") for number in range(QUARANTINE_MAX))
    assert len(read(project, five)) == QUARANTINE_MAX
    with pytest.raises(PolicyBroken, match="6 entries, 5 are at most"):
        read(project, five + entry())


@pytest.mark.parametrize(("folder", "why"), [("unit", "a unit test"), ("sim", "a simulated test")])
def test_pure_and_simulated_tests_are_never_in_quarantine(project: Path, folder: str, why: str) -> None:
    with pytest.raises(PolicyBroken, match=f"{why} must pass in every run"):
        read(project, entry(f"tests/{folder}/test_routes.py::test_routes"))


@pytest.mark.parametrize("test", ["tests/served/test_gone.py::test_routes", f"{TEST}_of_old"])
def test_an_entry_of_a_test_that_is_gone_is_refused(project: Path, test: str) -> None:
    with pytest.raises(PolicyBroken, match="there is no such test"):
        read(project, entry(test))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (entry(owner=""), "the fields are test, date, owner, issue, uncovered"),
        (entry().replace("issue", "link"), "the fields are"),
        ('[[quarantined]]\nowner = "ada"', "an entry without `test`: the fields are"),
        (entry().replace("2026-11-23", '"2026-11-23"'), "without quotes"),
        (entry().replace("2026-11-23", "2026-11-23T00:00:00"), "without quotes"),
        ("[[quarantined", "quarantine.toml: "),
    ],
)
def test_an_incomplete_entry_is_refused(project: Path, text: str, why: str) -> None:
    with pytest.raises(PolicyBroken, match=why):
        read(project, text)


def test_a_test_is_flaky_twice_within_fifty_runs_and_no_more_after_them(tmp_path: Path) -> None:
    def run(*found: str) -> list[str]:
        return History(tmp_path / "kept/history.json").add(list(found))

    assert run("a", "b") == []
    for _ in range(HISTORY_RUNS - 2):
        assert run() == []
    assert run("a") == ["a"]
    assert run("b") == []
    assert len(json.loads((tmp_path / "kept/history.json").read_text())["runs"]) == HISTORY_RUNS


@pytest.mark.parametrize("text", ["", "[]", '{"runs": 1}', '{"tests": []}'])
def test_a_damaged_history_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "history.json"
    path.write_text(text)
    with pytest.raises(PolicyBroken, match=r"history.json is no history of flaky tests .*: delete it"):
        History(path)


def test_the_environment_says_where_the_history_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(flaky.HISTORY_VARIABLE, raising=False)
    assert flaky.history_path() == Path("build/flaky-history.json")
    monkeypatch.setenv(flaky.HISTORY_VARIABLE, str(tmp_path / "kept.json"))
    assert flaky.history_path() == tmp_path / "kept.json"


class Repository:
    """A git repository with one commit on `main`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first.py", "gone.py")

    def git(self, *words: str) -> None:
        identity = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
        subprocess.run(["git", *identity, *words], cwd=self.folder, check=True)

    def write(self, *names: str) -> None:
        for name in names:
            with (self.folder / name).open("a") as file:
                file.write("more\n")

    def commit(self, *names: str) -> None:
        self.write(*names)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=more")


def test_a_branch_touches_what_differs_from_main(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    assert changed_files(tmp_path) == set()
    repository.git("switch", "--quiet", "--create", "work")
    repository.commit("one.py")
    (tmp_path / "gone.py").unlink()
    repository.commit("two.py")
    repository.write("first.py", "new.py")
    assert changed_files(tmp_path) == {"one.py", "two.py", "first.py", "new.py"}


def test_a_commit_on_main_touches_its_own_files(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.commit("one.py")
    repository.commit("two.py")
    assert changed_files(tmp_path) == {"two.py"}


def test_without_git_no_file_is_known_to_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert changed_files(tmp_path) == set()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert changed_files(tmp_path) == set()
