"""A whole system as real processes: its parts are chosen, started, broken and stopped one by one or together."""

import contextlib
import functools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from console.http.protocol import UVICORN_OPTIONS
from tests.support.servers import ports
from tests.support.servers.processes import PROJECT, Command, Process, get_json
from tests.support.servers.services import RedisServer
from tests.support.waiting import ASK_SECONDS, eventually

COMMAND_SECONDS = 120.0
"""For one command of `manage.py` or `qmq`."""
WHOLE: dict[str, Any] = {"delays": 1, "console": True, "workers": 1, "beats": 1}
"""The parts of a system as `make up` starts it, without Spark."""
BROKER_FLAGS = ("--retry-delay-seconds", "0.3")
FIRST_ADMIN = "admin"
"""Created with the tables. The token has every scope; those of other people have `read`."""

_MAKE_TABLES_AND_PEOPLE = """
import json, sys
import django
django.setup()
from django.core.management import call_command
call_command("migrate", verbosity=0)
from datetime import timedelta
from allauth.mfa.totp.internal.auth import TOTP
from django.conf import settings
from django.test import Client
from console.accounts import services, tokens
from console.accounts.models import User
from console.accounts.roles import Role, Scope
from metaserver.services.teams import create_team
from tests.support.console.people import TESTER, person

def credentials(user, scopes):
    client = Client()
    client.force_login(user)
    _, token, _ = tokens.create_token(user, "tests", scopes, timedelta(days=1), actor=TESTER)
    return {"session": client.cookies[settings.SESSION_COOKIE_NAME].value, "token": token}

services.ensure_first_admin()
admin = User.objects.get(username="admin")
found = {admin.username: credentials(admin, [scope.value for scope in Scope])}
people = json.loads(sys.argv[1])
for team in sorted({team for one in people for team in one["teams"]}):
    create_team(team, "", actor=TESTER)
for one in people:
    user = person(one["name"], Role(one["role"]), one["teams"], language=one["language"])
    if one["totp_secret"]:
        TOTP.activate(user, one["totp_secret"])
    found[user.username] = credentials(user, ["read"])
print(json.dumps(found))
"""
_MAKE_METASERVER_TABLES = """
import sys
from metaserver.__main__ import set_up_django
from metaserver.stored.database import migrate
from metaserver.options import MetaOptions
set_up_django(MetaOptions(data_dir=sys.argv[1]))
migrate()
"""
_CALL_SERVICE = """
import importlib, json, sys
from metaserver.__main__ import set_up_django
from metaserver.options import MetaOptions
set_up_django(MetaOptions(data_dir=sys.argv[1]))
from metaserver.services.changes import Actor
module, _, name = sys.argv[2].rpartition(".")
service = getattr(importlib.import_module(f"metaserver.services.{module}"), name)
change = service(*json.loads(sys.argv[3]), **json.loads(sys.argv[4]), actor=Actor("a test"), reason="a test")
print(json.dumps(change.after))
"""


@dataclass(frozen=True, slots=True)
class Person:
    """A user who signs in with `tests.support.console.password.PASSWORD`."""

    name: str
    role: str
    teams: tuple[str, ...] = ()
    language: str = ""
    totp_secret: str = ""
    """base32; "": no second factor."""


class Answer:
    """An answer of the API."""

    def __init__(self, status: int, headers: dict[str, str], raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class System:
    """A metaserver with the parts that are asked for. Nothing runs before `start`; `close` ends everything.

    A part keeps its port over its restarts.

    Args:
        folder: of the data and the logs of all processes.
        groups: broker groups, g1 and so on.
        delays: delay groups, d1 and so on.
        metas: metaservers over one database.
        copies, delay_copies: members of each broker and delay group: g1 is node g1-a, the others are in
            `other_members`. console: the web process, with a Redis of the system's own unless `redis_url` is given.
            collectors, workers, beats: processes of these kinds, for a system with a console. people: who may sign in,
            beside FIRST_ADMIN; each has `credentials`: a session and a token. broker_flags: of every broker.
            delay_flags: of every delay node. broker_module, delay_module: the program of every broker and delay node.
            settings: environment variables of the console's processes. database_url: of metaserver and console; "" for
            a SQLite file in the folder.
    """

    def __init__(
        self,
        folder: Path,
        *,
        groups: int = 2,
        delays: int = 0,
        metas: int = 1,
        copies: int = 1,
        delay_copies: int = 1,
        console: bool = False,
        collectors: int = 1,
        workers: int = 0,
        beats: int = 0,
        people: Sequence[Person] = (),
        broker_flags: Sequence[str] = BROKER_FLAGS,
        delay_flags: Sequence[str] = (),
        broker_module: str = "broker_node",
        delay_module: str = "delay_node",
        settings: dict[str, str] | None = None,
        redis_url: str = "",
        database_url: str = "",
    ) -> None:
        self.folder = folder
        self.copies = copies
        self.delay_copies = delay_copies
        self.people = tuple(people)
        self.credentials: dict[str, dict[str, str]] = {}
        self.broker_flags = tuple(broker_flags)
        self.delay_flags = tuple(delay_flags)
        self._broker_module = broker_module
        self._delay_module = delay_module
        self.ports: dict[str, tuple[int, int]] = {}
        """Of each node: for clients, and of its admin pages."""
        self._reserved: list[int] = []
        self._commands: list[Command] = []
        self._database_url = database_url
        database = {"QMQ_META_DATABASE_URL": database_url, "QMQ_DATABASE_URL": database_url} if database_url else {}
        self.http_port, self.tcp_port, self.port = (self._port() for _ in range(3))
        self.meta = self._metaserver("meta", self.http_port, self.tcp_port, database)
        """The first one."""
        self.metas = {self.http_port: self.meta}
        """All metaservers by HTTP port, in the order of the list that nodes and clients have."""
        for number in range(2, metas + 1):
            http_port = self._port()
            shared = database or {"QMQ_META_DATABASE_URL": f"sqlite:///{folder}/meta/meta.sqlite3"}
            self.metas[http_port] = self._metaserver(f"meta{number}", http_port, self._port(), shared)
        self.brokers: dict[str, Process] = {}
        self.other_members: dict[str, Process] = {}
        """Further members of broker and delay groups, by node ID."""
        self.delays: dict[str, Process] = {}
        for number in range(1, groups + 1):
            self.add_broker(f"g{number}")
        for number in range(1, delays + 1):
            self.add_delay(f"d{number}")
        self.has_console = console
        self._redis = RedisServer() if console and not redis_url else None
        self.environment = {
            "QMQ_DATA_DIR": str(folder),
            "QMQ_META": self.meta_url,
            "QMQ_REDIS_URL": self._redis.url if self._redis is not None else redis_url,
            "QMQ_SECRET_KEY": "a key for tests only",
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "QMQ_ANALYTICS_EVERY_SECONDS": "0",  # tests of analytics start their own JVM
            "PYTHONPATH": str(PROJECT),
            **database,
            **(settings or {}),
        }
        self.console = self._console_process(
            "console",
            [
                "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port", str(self.port),
                "--log-level", "warning", *UVICORN_OPTIONS,
            ],
            f"{self.url}/healthz",
        )  # fmt: skip
        self.collectors: list[Process] = []
        for _ in range(collectors if console else 0):
            self.add_collector()
        self.workers = [
            self._console_process(
                f"worker{number}",
                [
                    "celery", "-A", "console.celery", "--quiet", "worker", "--concurrency", "2", "--loglevel", "info",
                    "--without-mingle", "--without-gossip", "-n", f"worker{number}@test",
                ],
            )
            for number in range(workers)
        ]  # fmt: skip
        self.beats = [
            self._console_process(
                f"beat{number}",
                ["celery", "-A", "console.celery", "--quiet", "beat", "--loglevel", "warning", "--pidfile", ""],
            )
            for number in range(beats)
        ]

    # --- parts --------------------------------------------------------------------------------------------------------

    def _metaserver(self, name: str, http_port: int, tcp_port: int, database: dict[str, str]) -> Process:
        return Process(
            name,
            [
                *self.runner_of(name), sys.executable, "-m", "metaserver", "--data-dir", str(self.folder / name),
                "--host", self.host_of(name), "--http-port", str(http_port), "--tcp-port", str(tcp_port),
                "--new-groups", "allow",
            ],
            self.folder,
            f"http://{self.host_of(name)}:{http_port}/readyz",
            # Not as an option: older versions, with which this one is compared, do not know it.
            {"QMQ_META_COPIES": str(max(self.copies, self.delay_copies)), **database},
        )  # fmt: skip

    def host_of(self, name: str) -> str:
        """Return the address of a metaserver or node."""
        return "127.0.0.1"

    def runner_of(self, name: str) -> list[str]:
        """Return the command that runs the program of a metaserver or node, for example in a network namespace."""
        return []

    def _port(self) -> int:
        port = ports.free_port()
        self._reserved.append(port)
        return port

    def add_broker(self, group: str, *flags: str) -> Process:
        """Add a broker group; it is not started."""
        size = () if "--segment-bytes" in self.broker_flags else ("--segment-bytes", str(64 << 20))
        flags = (*size, *self.broker_flags, *flags)
        self.brokers[group] = self._group(self._broker_module, group, flags, self.copies)
        return self.brokers[group]

    def add_delay(self, group: str, *flags: str) -> Process:
        """Add a delay group; it is not started."""
        self.delays[group] = self._group(self._delay_module, group, (*self.delay_flags, *flags), self.delay_copies)
        return self.delays[group]

    def _group(self, module: str, group: str, flags: Sequence[str], copies: int) -> Process:
        """Add the members of a group, and return the first one."""
        # A member of a larger group may be a slave, which serves no clients.
        page = "readyz" if copies == 1 else "healthz"
        for letter in "bc"[: copies - 1]:
            node = f"{group}-{letter}"
            self.other_members[node] = self._node(module, group, (*flags, "--node-id", node), page, node)
        return self._node(module, group, flags, page)

    def add_collector(self) -> Process:
        """Add a collector; it is not started."""
        name = f"collector{len(self.collectors) or ''}"
        self.collectors.append(self._console_process(name, [str(PROJECT / "manage.py"), "collect"]))
        return self.collectors[-1]

    def _node(self, module: str, group: str, flags: Sequence[str], page: str, name: str = "") -> Process:
        name = name or group
        port, admin = self._port(), self._port()
        self.ports[name] = (port, admin)
        return Process(
            name,
            [
                *self.runner_of(name), sys.executable, "-m", module, "--broker-group", group,
                "--data-dir", str(self.folder / name), "--host", self.host_of(name), "--port", str(port),
                "--admin-host", self.host_of(name), "--admin-port", str(admin), "--meta", self.meta_url, *flags,
            ],
            self.folder,
            f"http://{self.host_of(name)}:{admin}/{page}",
        )  # fmt: skip

    def members(self, group: str) -> dict[str, Process]:
        """The members of a broker or delay group, by node ID."""
        others = {name: process for name, process in self.other_members.items() if name.startswith(f"{group}-")}
        return {f"{group}-a": (self.brokers | self.delays)[group], **others}

    def port_of(self, node: str) -> int:
        """Return the port for clients of a member of a broker or delay group."""
        return self.ports[node.removesuffix("-a")][0]

    def _console_process(self, name: str, command: Sequence[str], ready_url: str = "") -> Process:
        program = [sys.executable] if command[0].endswith(".py") else [sys.executable, "-m"]
        return Process(name, [*program, *command], self.folder, ready_url, self.environment)

    @property
    def collector(self) -> Process:
        """The first one."""
        return self.collectors[0]

    @property
    def redis(self) -> RedisServer:
        """The system's own."""
        assert self._redis is not None, "this system has no Redis of its own"
        return self._redis

    @property
    def nodes(self) -> list[Process]:
        """Brokers and delay nodes."""
        return [*self.brokers.values(), *self.other_members.values(), *self.delays.values()]

    @property
    def control_processes(self) -> list[Process]:
        """Those of the console, in the order of starting."""
        return [self.console, *self.collectors, *self.workers, *self.beats] if self.has_console else []

    @property
    def processes(self) -> list[Process]:
        """All, in the order of starting."""
        return [*self.metas.values(), *self.nodes, *self.control_processes]

    # --- start and end ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Start the Redis and create the console's tables and people, unless that was done before."""
        if not self.has_console or self.credentials:
            return
        if self._redis is not None:
            self._redis.start()
        if self._database_url or self.database.exists():
            self.credentials = self._make_people()
        else:
            template, self.credentials = _template(self.people)
            shutil.copytree(template, self.folder, dirs_exist_ok=True)

    def _make_people(self) -> dict[str, dict[str, str]]:
        self.database.parent.mkdir(parents=True, exist_ok=True)
        people = json.dumps([asdict(one) for one in self.people])
        output = self.python("-c", _MAKE_TABLES_AND_PEOPLE, people)
        made: dict[str, dict[str, str]] = json.loads(output.splitlines()[-1])
        return made

    def start(self) -> None:
        """Start every part that does not run, and return when all serve."""
        self.prepare()
        self._start(self.processes)

    def start_nodes(self) -> None:
        """As `start`, without the console and its processes."""
        self._start([*self.metas.values(), *self.nodes])

    def start_control(self) -> None:
        """As `start`, without the metaserver and the nodes."""
        self.prepare()
        self._start(self.control_processes)

    def prepare_tables(self) -> None:
        """Create the metaserver's SQLite file with its tables, unless there is one or the system has a database server."""
        if not self._database_url and not self.database.exists():
            shutil.copytree(_metaserver_tables(), self.folder / "meta", dirs_exist_ok=True)

    def _start(self, processes: list[Process]) -> None:
        self.prepare_tables()
        started = [process for process in processes if not process.is_running]
        for process in started:
            process.start(wait=False)
        for process in started:
            process.wait_ready()
        if any(process in self.beats for process in started) and self.workers:
            eventually(lambda: self.job("heartbeats")["succeeded_at"], what="the jobs run", every_s=ASK_SECONDS)

    def stop(self) -> None:
        """Stop all processes; the Redis continues."""
        for command in self._commands:
            command.kill()
        for process in reversed(self.processes):
            process.stop()

    def close(self) -> None:
        """Stop all processes and the Redis; nothing can be started after that."""
        self.stop()
        if self._redis is not None:
            self._redis.close()
        ports.release(*self._reserved)
        self._reserved.clear()

    def __enter__(self) -> "System":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what runs beside it ------------------------------------------------------------------------------------------

    def python(self, *arguments: str) -> str:
        """Run Python in the console's environment and return its output."""
        done = subprocess.run(
            [sys.executable, *arguments], env={**os.environ, **self.environment}, cwd=PROJECT, capture_output=True,
            text=True, check=False, timeout=COMMAND_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def qmq(
        self, *arguments: str, timeout: float = COMMAND_SECONDS, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the `qmq` command against this system."""
        done = subprocess.run(
            [sys.executable, "-m", "qmq.cli", *arguments, "--meta", self.meta_url],
            cwd=PROJECT, capture_output=True, timeout=timeout, input=stdin, check=False,
        )  # fmt: skip
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def qmq_soon(self, *arguments: str) -> Command:
        """Start the `qmq` command and return at once."""
        command = Command(
            [sys.executable, "-m", "qmq.cli", *arguments, "--meta", self.meta_url],
            self.folder / f"qmq-{len(self._commands)}.out",
        )
        self._commands.append(command)
        return command

    def accept_log_loss(self, group: str) -> None:
        """Accept the data loss of a broker group whose folder was emptied, so that its node serves again."""
        self.call_service("broker_groups.accept_log_loss", f"{group}-a", log_end=0)

    def call_service(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Call a function of `metaserver.services`, "MODULE.FUNCTION", over the system's database, as an operator who
        gives a reason; what it changed is as it returns. Raises CalledProcessError."""
        values = (json.dumps(arguments), json.dumps(named))
        command = [sys.executable, "-c", _CALL_SERVICE, str(self.folder / "meta"), name, *values]
        done = subprocess.run(command, cwd=PROJECT, check=True, timeout=COMMAND_SECONDS, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    # --- nodes and metaserver -----------------------------------------------------------------------------------------

    @property
    def meta_url(self) -> str:
        """The addresses of all metaservers, for nodes and clients."""
        return ",".join(f"http://{self.host_of(meta.name)}:{port}/meta/address" for port, meta in self.metas.items())

    def admin(self, group: str, path: str) -> Any:
        """Return a page of a node's admin server."""
        return get_json(f"http://{self.host_of(group)}:{self.ports[group][1]}{path}")

    def group_states(self, http_port: int = 0) -> list[str]:
        """Return the states of all broker groups, as the metaserver with this port has them; 0: the first one."""
        cluster = get_json(f"http://127.0.0.1:{http_port or self.http_port}/meta/cluster")
        return [group["state"] for group in cluster["broker_groups"]]

    # --- console ------------------------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Of the console's start page, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """Of FIRST_ADMIN."""
        return self.credentials[FIRST_ADMIN]["token"]

    @property
    def database(self) -> Path:
        """The SQLite file of metaserver and console."""
        return self.folder / "meta" / "meta.sqlite3"

    def execute(self, statement: str, *values: Any) -> None:
        """Change the SQLite file with a statement; no process is notified."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as connection, connection:
            connection.execute(statement, values)

    def query(self, statement: str, *values: Any) -> list[Any]:
        """Return rows of the SQLite file."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as connection:
            return connection.execute(statement, values).fetchall()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Answer:
        """Send one request to /api/v1; by default with the token of FIRST_ADMIN."""
        request = urllib.request.Request(
            f"{self.url}/api/v1{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self.token if token is None else token}",
                "Content-Type": "application/json",
                **(headers or {}),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def get(self, path: str, **options: Any) -> Any:
        """Return a page of the API; any status but 200 fails the test."""
        answer = self.ask("GET", path, **options)
        assert answer.status == 200, (path, answer.status, answer.raw[:2000])
        return answer.body

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        """Make a change by the API; any status but 200 and 201 fails the test."""
        answer = self.ask("POST", path, body if body is not None else {}, **options)
        assert answer.status in (200, 201), (path, answer.status, answer.raw[:2000])
        return answer.body

    def group(self, name: str) -> Any:
        """Return a broker group, as the API has it."""
        return self.get(f"/broker-groups/{quote(name, safe='')}/")

    def job(self, name: str) -> Any:
        """Return a background job, as the API has it."""
        return self.get(f"/jobs/{name}/")


@functools.cache
def _template(people: tuple[Person, ...]) -> tuple[Path, dict[str, dict[str, str]]]:
    """Return a folder with the tables and these people, made once in a process, and their credentials."""
    folder = tempfile.TemporaryDirectory(prefix="qmq-template-")
    _template_folders.append(folder)
    with System(Path(folder.name), groups=0, people=people, redis_url="redis://127.0.0.1:1/0") as system:
        return system.folder, system._make_people()


@functools.cache
def _metaserver_tables() -> Path:
    """Return a data folder of a metaserver with the tables alone, made once in a process: migrations take most of its start."""
    folder = tempfile.TemporaryDirectory(prefix="qmq-tables-")
    _template_folders.append(folder)
    command = [sys.executable, "-c", _MAKE_METASERVER_TABLES, folder.name]
    subprocess.run(command, cwd=PROJECT, check=True, timeout=COMMAND_SECONDS)
    return Path(folder.name)


_template_folders: list[tempfile.TemporaryDirectory[str]] = []
"""Removed when the process ends."""
