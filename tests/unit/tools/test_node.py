"""Which Node.js builds the front end: the system's, the wheel's, or a sentence that says how to get one."""

import json
from pathlib import Path

import pytest

from tests.support.servers.processes import PROJECT
from tools import node
from tools.node import SUITABLE, NodeMissing, find_node, is_suitable


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("v20.18.3", False), ("v20.19.0", True), ("v20.20.2", True), ("v21.7.3", False), ("v22.11.0", False),
        ("v22.12.0", True), ("24.19.0", True), ("v24.0.0-nightly", True), ("v18.20.8", False), ("", False), ("twenty", False),
    ],
)  # fmt: skip
def test_versions(version: str, expected: bool) -> None:
    assert is_suitable(version) is expected


def test_the_range_is_the_packages_own() -> None:
    assert json.loads((PROJECT / "frontend/package.json").read_text())["engines"]["node"] == SUITABLE


def put(folder: Path, version: str, with_npm: bool = True) -> Path:
    """A folder with a node that says this version."""
    folder.mkdir(parents=True)
    for name in ("node", "npm") if with_npm else ("node",):
        (folder / name).write_text(f"#!/bin/sh\necho {version}\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "WHEEL_MODULE", "a_module_that_is_not_there")


def put_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    put(folder / "wheel_of_node/bin", version)
    (folder / "wheel_of_node/__init__.py").touch()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(node, "WHEEL_MODULE", "wheel_of_node")


def test_the_systems_is_taken_when_it_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = put(tmp_path / "bin", "v22.13.1")
    put_wheel(tmp_path, monkeypatch, "v24.19.0")
    monkeypatch.setenv("PATH", str(system))
    found = find_node()
    assert (found.version, found.node, found.npm) == ("v22.13.1", system / "node", (str(system / "npm"),))
    assert found.environment()["PATH"].split(":")[0] == str(system)


@pytest.mark.parametrize(("version", "with_npm"), [("v18.19.0", True), ("v22.13.1", False)])
def test_else_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, with_npm: bool) -> None:
    system = put(tmp_path / "bin", version, with_npm)
    put_wheel(tmp_path, monkeypatch, "v24.19.0")
    monkeypatch.setenv("PATH", str(system))
    found = find_node()
    folder = tmp_path / "wheel_of_node"
    assert (found.version, found.node) == ("v24.19.0", folder / "bin/node")
    assert found.npm == (str(folder / "bin/node"), str(folder / "lib/node_modules/npm/bin/npm-cli.js"))


def test_a_wheel_that_is_too_old_will_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_wheel(tmp_path, monkeypatch, "v18.20.8")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeMissing):
        find_node()


@pytest.mark.usefixtures("no_wheel")
def test_neither_is_an_error_that_names_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeMissing, match=r"no node with npm.*install one with npm, or run `make nodejs`"):
        find_node()
    monkeypatch.setenv("PATH", str(put(tmp_path / "bin", "v18.19.0")))
    with pytest.raises(NodeMissing, match=r"20\.19.*the system has v18\.19\.0"):
        find_node()


@pytest.mark.usefixtures("no_wheel")
def test_a_node_that_does_not_run_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = put(tmp_path / "bin", "v22.13.1")
    (folder / "node").write_text("#!/bin/sh\nexit 3\n")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(NodeMissing):
        find_node()
