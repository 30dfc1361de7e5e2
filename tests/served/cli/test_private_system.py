"""A whole system as `make up` starts it, over the folder of an earlier version: what other users of the machine can reach."""

import os
import signal
import socket
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis

from console.redis_server import redis_url
from tests.support.up import Up
from tests.support.waiting import ASK_SECONDS, eventually

OTHERS = stat.S_IRWXG | stat.S_IRWXO


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    found = Up(folder)
    before = os.umask(0o022)
    try:
        (found.data_dir / "meta").mkdir(parents=True)
        with closing(sqlite3.connect(found.data_dir / "meta/meta.sqlite3")) as connection:
            connection.execute("PRAGMA user_version = 0")
        (found.data_dir / "lake/index").mkdir(parents=True)
        (found.data_dir / "lake/index/old.parquet").write_bytes(b"")
        (found.data_dir / "meta/meta.sqlite3").chmod(0o644)
        assert stat.S_IMODE(found.data_dir.stat().st_mode) == 0o755
        for name in ("QMQ_REDIS_URL", "QMQ_SECRET_KEY"):
            found.environment.pop(name, None)
        found.start()
    finally:
        os.umask(before)
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def token(up: Up) -> str:
    return up.token("read", "admin")


def password(up: Up) -> str:
    return (up.data_dir / "redis_password").read_text().strip()


def works(up: Up, token: str) -> bool:
    """Whether all parts that meet in Redis do their work: beat and workers, collector, API."""
    loops = {row["name"]: row["succeeded_at"] for row in up.get("/tasks/", token)["results"]}
    return bool(loops["heartbeats"]) and bool(loops["moves"]) and up.get("/lag/", token)["reason"] is None


def test_no_file_or_folder_is_open_to_other_users(up: Up, token: str) -> None:
    places = [up.data_dir, *up.data_dir.rglob("*")]
    names = {path.name for path in places}
    assert {
        "meta.sqlite3",
        "secret_key",
        "redis_password",
        "redis.conf",
        "up.lock",
        "node.json",
        "old.parquet",
    } <= names
    assert names & {"meta.sqlite3-wal", "meta.sqlite3-shm"}, "files of the running database"
    eventually(lambda: (up.data_dir / "meta/routes.json").exists(), what="the route file is written")
    found = {str(path): oct(mode) for path in up.data_dir.rglob("*") if (mode := status(path)) & OTHERS}
    assert found == {}
    assert stat.S_IMODE(up.data_dir.stat().st_mode) == 0o700


def status(path: Path) -> int:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return 0  # temporary files come and go
    return 0 if stat.S_ISLNK(info.st_mode) else stat.S_IMODE(info.st_mode)


def test_redis_serves_all_parts_of_the_system_and_nobody_else(up: Up, token: str) -> None:
    eventually(lambda: works(up, token), what="loops run and live numbers are there", every_s=ASK_SECONDS)
    with closing(socket.create_connection(("127.0.0.1", up.base + 9), timeout=10)) as stranger:
        for command in ("KEYS *", "PUBLISH qmq:live:beat {}", "CONFIG GET *", "FLUSHALL", "CLIENT LIST"):
            stranger.sendall(f"{command}\r\n".encode())
            assert stranger.recv(1_000).startswith(b"-NOAUTH "), command
    with redis.Redis.from_url(redis_url(up.base + 9, password(up))) as owner:
        clients: Any = owner.client_list()
        assert len(clients) >= 5, "collector, workers, beat and this test"
        assert owner.exists("qmq:live:snapshot")


def test_a_redis_that_ends_is_started_again_with_its_password(up: Up, token: str) -> None:
    with redis.Redis.from_url(redis_url(up.base + 9, password(up))) as owner:
        pid = owner.info("server")["process_id"]
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: "redis ended with code -9, starting it again" in up.text(), what="Redis is started again")
        eventually(lambda: answers(owner), what="Redis answers")
        assert owner.info("server")["process_id"] != pid
        assert owner.config_get("requirepass")["requirepass"] == password(up)
        eventually(lambda: owner.exists("qmq:live:snapshot"), what="live numbers are there again")


def answers(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_secrets_are_in_no_output_and_on_no_command_line(up: Up, token: str) -> None:
    # After the test above: what clients log about a Redis that is away is part of the output.
    first = (up.data_dir / "initial_passwords").read_text().split()[1]
    key = (up.data_dir / "secret_key").read_text().strip()
    secrets = {"password of Redis": password(up), "first password": first, "secret key": key}
    assert len(set(secrets.values())) == 3
    assert up.process is not None
    commands = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                commands.append((entry / "cmdline").read_bytes())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended
    assert any(str(up.data_dir).encode() in command for command in commands)
    for what, secret in secrets.items():
        assert secret not in up.text(), what
        assert not any(secret.encode() in command for command in commands), what
    assert f"password   in {up.data_dir}/initial_passwords" in up.text()


def test_a_restarted_system_keeps_its_secrets(up: Up) -> None:
    kept = {name: (up.data_dir / name).read_text() for name in ("redis_password", "secret_key")}
    assert up.stop() == 0
    up.start()
    assert {name: (up.data_dir / name).read_text() for name in kept} == kept
    token = up.token("read")
    eventually(lambda: works(up, token), what="loops run and live numbers are there", every_s=ASK_SECONDS)
