"""The servers that tests run against: their life, and that nothing of them is left."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.runner import with_database
from tests.support.servers import services
from tests.support.servers.processes import PROJECT
from tests.support.servers.services import (
    DATABASES_VARIABLE,
    MariadbServer,
    PostgresqlServer,
    RedisServer,
    Server,
    ServerMissing,
    own_database,
)
from tests.support.servers.shared import server_for_tests
from tests.support.waiting import eventually

STARTS_AND_PAUSES = """
import sys, time
from tests.support.servers.services import SERVERS
server = SERVERS[sys.argv[1]]()
server.start()
if sys.argv[2] == "paused":
    server.pause()
print(server.folder, flush=True)
sys.stdin.read()
"""


class Connection:
    """One open connection, kept over several questions."""

    def __init__(self, server: Server) -> None:
        self._kind = server.name
        if self._kind == "redis":
            import redis

            self._redis = redis.Redis.from_url(server.url, socket_timeout=20)
        elif self._kind == "postgresql":
            import psycopg

            self._sql = psycopg.connect(server.url, autocommit=True)
        else:
            import pymysql

            self._sql = pymysql.connect(
                host="127.0.0.1", port=server.port, user="root", database="qmq", autocommit=True, read_timeout=5
            )

    def put(self, value: str) -> None:
        if self._kind == "redis":
            self._redis.set("value", value)
        else:
            with self._sql.cursor() as cursor:
                cursor.execute("CREATE TABLE IF NOT EXISTS kept (value VARCHAR(20))")
                cursor.execute("DELETE FROM kept")
                cursor.execute("INSERT INTO kept VALUES (%s)", (value,))

    def get(self) -> str | None:
        if self._kind == "redis":
            found = self._redis.get("value")
            return None if found is None else found.decode()
        with self._sql.cursor() as cursor:
            cursor.execute("SELECT value FROM kept")
            row = cursor.fetchone()
        return None if row is None else str(row[0])

    def close(self) -> None:
        (self._redis if self._kind == "redis" else self._sql).close()


SQL = ["postgresql_server", "mariadb_server"]


@pytest.fixture(params=["redis_server", *SQL])
def server(request: pytest.FixtureRequest) -> Server:
    """Each server in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Server)
    return found


@pytest.fixture(params=SQL)
def sql_server(request: pytest.FixtureRequest) -> Server:
    """Each SQL server in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Server)
    return found


@contextlib.contextmanager
def connected(server: Server) -> Iterator[Connection]:
    found = Connection(server)
    try:
        yield found
    finally:
        found.close()


def test_a_server_runs_as_who_it_should_and_keeps_what_is_put(server: Server) -> None:
    with connected(server) as connection:
        connection.put("one")
        assert connection.get() == "one"
    assert any(digit.isdigit() for digit in server.version)
    owner = Path(f"/proc/{server.pid}").stat().st_uid
    if os.geteuid() == 0 and server.user:
        assert owner != 0
    else:
        assert owner == os.geteuid()


def test_a_paused_server_answers_nobody_and_goes_on_where_it_was(server: Server) -> None:
    with connected(server) as connection:
        connection.put("before")
        with server.paused():
            assert server.is_running
            assert not server.answers()
            assert set(map(services._state, services._members(server.folder))) == {"T"}
        assert server.answers()
        assert connection.get() == "before", "the connection of before the pause still serves"


def test_a_stopped_server_refuses_and_starts_again_on_its_port(server: Server) -> None:
    url = server.url
    with connected(server) as connection:
        connection.put("kept")
    with server.stopped():
        assert not server.is_running
        assert not server.answers()
        assert services._members(server.folder) == []
    assert server.url == url
    with connected(server) as connection:
        assert connection.get() == (None if server.name == "redis" else "kept")


def test_what_was_committed_outlives_kill_9(sql_server: Server) -> None:
    with connected(sql_server) as connection:
        for number in range(20):
            connection.put(str(number))
    sql_server.kill()
    try:
        assert services._members(sql_server.folder) == []
    finally:
        sql_server.start()
    with connected(sql_server) as connection:
        assert connection.get() == "19"


def test_a_block_that_fails_leaves_the_server_running(server: Server) -> None:
    with pytest.raises(ZeroDivisionError), server.paused():
        raise ZeroDivisionError
    assert server.answers()
    with pytest.raises(ZeroDivisionError), server.stopped():
        raise ZeroDivisionError
    assert server.answers()


def test_a_paused_server_can_be_stopped(server: Server) -> None:
    server.pause()
    try:
        assert server.stop() == 0
    finally:
        server.start()


@pytest.mark.parametrize("state", ["running", "paused"])
def test_nothing_is_left_when_the_owner_is_killed(server: Server, state: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_PAUSES, server.name, state],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=PROJECT,
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        folder = Path(owner.stdout.readline().decode().strip())
        assert folder.is_dir()
        assert services._members(folder)
        owner.kill()
    eventually(lambda: not services._members(folder) and not folder.exists(), what=f"{folder} is gone")


def test_an_empty_database_of_its_own_is_made_and_dropped_again(sql_server: Server) -> None:
    with own_database(sql_server.url, "qmq_own") as own:
        assert urlsplit(own).path == "/qmq_own"
        services._execute(own, "CREATE TABLE there (id INTEGER)")
        assert services._execute(own, "SELECT count(*) FROM there") == "0"
    with pytest.raises(services._sql_errors(own)):
        services._execute(own, "SELECT 1")


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without any server."""

    def nothing(*_: str) -> str:
        raise ServerMissing("it is not installed")

    monkeypatch.setattr(services, "_program", nothing)
    monkeypatch.setattr(services, "_postgresql_program", nothing)
    monkeypatch.setattr(services, "_redis_command", nothing)


@pytest.mark.parametrize("kind", [RedisServer, PostgresqlServer, MariadbServer])
def test_a_test_without_its_server_is_skipped_or_fails_when_it_has_to_run(
    kind: type[Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="is not installed"):
        next(server_for_tests(kind, is_required=False))
    with pytest.raises(pytest.fail.Exception, match=r"is not installed \(this run requires it"):
        next(server_for_tests(kind, is_required=True))
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"is not installed \(CI is set"):
        next(server_for_tests(kind, is_required=False))


def test_a_missing_database_fails_the_run_only_when_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(monkeypatch)
    monkeypatch.delenv(DATABASES_VARIABLE, raising=False)
    assert with_database.main(["--", "false"]) == 0
    assert capsys.readouterr().out.count("skipped: ") == 2
    monkeypatch.setenv(DATABASES_VARIABLE, "sqlite,postgresql")
    assert with_database.main(["--", "false"]) == with_database.MISSING
    out = capsys.readouterr().out
    assert "== postgresql: FAILED, it has to be tested" in out
    assert "mariadb" not in out
    assert with_database.main(["postgresql", "--may-be-missing", "--", "false"]) == 0
    assert "== postgresql: skipped: " in capsys.readouterr().out
    monkeypatch.setenv(DATABASES_VARIABLE, "sqlite")
    assert with_database.main(["--", "false"]) == 0
    monkeypatch.setenv(DATABASES_VARIABLE, "oracle")
    with pytest.raises(SystemExit):
        with_database.main(["--", "true"])
    assert "oracle" in capsys.readouterr().err


def exits(code: int) -> list[str]:
    return ["--", sys.executable, "-c", f"import os; assert 'QMQ_DATABASE_URL' in os.environ; raise SystemExit({code})"]


def test_the_commands_exit_code_counts(
    postgresql_server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert with_database.main(["postgresql", *exits(3)]) == 3
    # The rest on a server that is there already: what is looked at is the code.
    monkeypatch.setattr(with_database, "running", lambda _: contextlib.nullcontext(postgresql_server))
    assert with_database.main(["postgresql", *exits(0)]) == 0
    assert with_database.main(["postgresql", *exits(with_database.NO_TESTS)]) == with_database.NO_TESTS
    assert with_database.main(["postgresql", "--may-be-empty", *exits(with_database.NO_TESTS)]) == 0
    assert with_database.main(["postgresql", "mariadb", *exits(4)]) == 4
    said = [line.split()[2] for line in capsys.readouterr().out.splitlines() if "up in" not in line]
    assert said == ["FAILED", "passed", "FAILED", "passed", "FAILED", "FAILED"]
