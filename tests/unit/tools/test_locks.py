"""What is pinned names no place to fetch it from: that is for whoever installs to say."""

import json
import re

import pytest

from tests.support.servers.processes import PROJECT

PLACE = re.compile(r"https?://|file:|git\+|find-links|index-url", re.IGNORECASE)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-nodejs.lock"])
def test_python_packages_are_pinned_by_hash_and_from_nowhere(name: str) -> None:
    lines = (PROJECT / name).read_text().splitlines()
    assert [line for line in lines if PLACE.search(line)] == []
    pins = [line for line in lines if re.match(r"[A-Za-z0-9]", line)]
    assert pins
    for i, line in enumerate(lines):
        if line in pins:
            assert "==" in line, line
            assert lines[i + 1].lstrip().startswith("--hash=sha256:"), line


def test_node_packages_are_pinned_by_hash_and_from_nowhere() -> None:
    packages = json.loads((PROJECT / "frontend/package-lock.json").read_text())["packages"]
    assert len(packages) > 100
    for name, package in packages.items():
        assert "resolved" not in package, name
        assert not name or package["integrity"].startswith("sha512-"), name


def test_versions_of_node_packages_are_exact() -> None:
    package = json.loads((PROJECT / "frontend/package.json").read_text())
    pinned = {**package["dependencies"], **package["devDependencies"], **package["overrides"]}
    exact = re.compile(r"\d+\.\d+\.\d+[\w.-]*")
    assert {name: version for name, version in pinned.items() if not exact.fullmatch(version)} == {}


def test_npm_is_told_to_leave_places_out() -> None:
    lines = (PROJECT / "frontend/.npmrc").read_text().splitlines()
    assert "omit-lockfile-registry-resolved=true" in lines
    assert [line for line in lines if "registry=" in line and not line.startswith("omit-")] == []
