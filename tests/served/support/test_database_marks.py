"""Which tests run on each database server: rules of tests/conftest.py."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import pytest_ignore_collect
from tests.support.servers.processes import PROJECT

USES_A_DATABASE = "import pytest\n@pytest.mark.django_db\ndef test_rows(): pass\n"
MARKED = "import pytest\n@pytest.mark.database\n@pytest.mark.django_db\ndef test_order(): pass\n"
MARKED_WITHOUT = "import pytest\n@pytest.mark.database\ndef test_nothing(): pass\n"


def collected(folder: Path, *selection: str) -> "subprocess.CompletedProcess[str]":
    """pytest with the rules of this project's tests, on the files of a folder."""
    command = (sys.executable, "-m", "pytest", "-c", "pyproject.toml", "-p", "tests.conftest", "-p", "no:cacheprovider")
    return subprocess.run(
        (*command, "--collect-only", "-q", str(folder), *selection),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_tests_that_use_a_database_are_found_and_few_of_them_are_marked(tmp_path: Path) -> None:
    (tmp_path / "test_rows.py").write_text(USES_A_DATABASE)
    (tmp_path / "test_marked.py").write_text(MARKED)
    (tmp_path / "test_plain.py").write_text("def test_plain(): pass\n")
    (tmp_path / "test_broken.py").write_text("raise SystemError('imported')\n")
    on_each = collected(tmp_path, "-m", "database")
    assert on_each.returncode == 0, on_each.stdout
    assert "test_order" in on_each.stdout
    assert "test_rows" not in on_each.stdout
    (tmp_path / "test_broken.py").unlink()
    whole = collected(tmp_path, "-m", "uses_database")
    assert ("test_order" in whole.stdout, "test_rows" in whole.stdout) == (True, True), whole.stdout
    assert "test_plain" not in whole.stdout


def test_a_mark_on_a_test_without_a_database_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED_WITHOUT)
    done = collected(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "has the mark `database` and uses no database" in done.stderr + done.stdout


@pytest.mark.parametrize("selection", ["", "uses_database", "database or slow", "not database"])
def test_other_selections_import_every_file(selection: str, pytestconfig: pytest.Config, tmp_path: Path) -> None:
    file = tmp_path / "test_plain.py"
    file.write_text("")
    before = pytestconfig.option.markexpr
    pytestconfig.option.markexpr = selection
    try:
        assert pytest_ignore_collect(file, pytestconfig) is None
        pytestconfig.option.markexpr = "database"
        assert pytest_ignore_collect(file, pytestconfig) is True
        assert pytest_ignore_collect(tmp_path, pytestconfig) is None, "a folder"
    finally:
        pytestconfig.option.markexpr = before
