"""No test imports a test: what several tests use is a helper in a module of its own. Only suites of breakages run other tests."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.servers.processes import PROJECT

SUITES_OF_BREAKAGES = "breakages"


def imported_tests(path: Path) -> Iterator[str]:
    """The modules of tests that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            parts = name.split(".")
            is_module = (PROJECT / Path(*parts)).with_suffix(".py").exists()
            if parts[0] == "tests" and any(part.startswith("test_") for part in (parts if is_module else parts[:-1])):
                yield name


def test_no_test_imports_a_test() -> None:
    found = {
        str(path.relative_to(PROJECT)): sorted(set(imported_tests(path)))
        for path in (PROJECT / "tests").rglob("*.py")
        if SUITES_OF_BREAKAGES not in path.name
    }
    assert not {path: names for path, names in found.items() if names}


def test_an_imported_test_is_found(tmp_path: Path) -> None:
    path = tmp_path / "test_one.py"
    path.write_text(
        "from tests.unit.tools.test_prose import FOUND\nfrom tests.unit.tools import test_locks\nimport tests.support\n"
    )
    assert list(imported_tests(path)) == ["tests.unit.tools.test_prose.FOUND", "tests.unit.tools.test_locks"]
