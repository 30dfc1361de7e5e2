"""The outbox in a small Django project: tables by migration, real databases and brokers, the watchdog, the end of a process."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.outbox.dialects import TABLE
from qmq.sync import Consumer
from tests.served.integrations.programs import Program, run, running
from tests.support.outbox import content
from tests.support.servers.services import Server, own_database
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import System
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:9"
"""No metaserver listens there."""
MANAGE = """
import sys
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""
SETTINGS = """
import json, os
SECRET_KEY = "a key for tests only"
USE_TZ = True
INSTALLED_APPS = ["qmq.integrations.django.outbox"]
DATABASES = json.loads(os.environ["DATABASES"])
if any(each["ENGINE"].endswith("mysql") for each in DATABASES.values()):
    import pymysql
    pymysql.version_info = (2, 2, 7, "final", 0)
    pymysql.install_as_MySQLdb()
QMQ_URL = os.environ.get("QMQ_META", "")
globals().update(json.loads(os.environ.get("MORE_SETTINGS", "{}")))
"""
ROUTER = """
class Router:
    def allow_migrate(self, db, app_label, model_name=None, **hints):
        assert model_name in (None, "outboxmessage", "migration"), model_name
        return db == "default"
"""


def django_database(address: Address) -> dict[str, Any]:
    """The settings of a database."""
    found: dict[str, Any] = {
        "ENGINE": f"django.db.backends.{'sqlite3' if address.kind is Kind.SQLITE else address.kind}",
        "NAME": address.database, "HOST": address.host, "PORT": address.port or "", "USER": address.user,
    }  # fmt: skip
    if address.kind is Kind.MYSQL:
        found["OPTIONS"] = {"ssl_disabled": True}
    return found


class Project:
    """A Django project in a folder of its own."""

    def __init__(self, folder: Path, database_url: str, meta: str) -> None:
        self.folder = folder / "project"
        self.folder.mkdir()
        for name, text in (("manage.py", MANAGE), ("settings.py", SETTINGS), ("routers.py", ROUTER)):
            (self.folder / name).write_text(text)
        self.address = Address.parse(database_url.partition("?")[0])
        self.databases = {"default": django_database(self.address)}
        self.environment = {"QMQ_META": meta, "DJANGO_SETTINGS_MODULE": "settings"}

    def _all(self, more: dict[str, Any]) -> dict[str, str]:
        return {
            **self.environment,
            "DATABASES": json.dumps(self.databases),
            "MORE_SETTINGS": json.dumps(more),
        }

    def manage(self, *arguments: str, is_failing: bool = False, **more: Any) -> str:
        """The output of a command, which ends with code 0, or 1. `more`: settings."""
        code, output = run(
            self.folder, f"manage-{arguments[0]}", "manage.py", *arguments, cwd=self.folder, **self._all(more)
        )
        assert code == int(is_failing), output
        return output

    def watchdog(self, *arguments: str) -> Any:
        return running(
            self.folder, "watchdog", "manage.py", "outbox_watchdog", *arguments, cwd=self.folder, **self._all({})
        )

    def script(self, text: str, **more: Any) -> str:
        """The output of a program that ends with code 0."""
        path = self.folder / "script.py"
        path.write_text(f"import django\ndjango.setup()\nfrom django.db import transaction\n{text}")
        code, output = run(self.folder, "script", "script.py", cwd=self.folder, **self._all(more))
        assert code == 0, output
        return output

    def connect(self) -> Connection:
        return connect(self.address)


@pytest.fixture
def project(tmp_path: Path, database_url: str) -> Project:
    return Project(tmp_path, database_url, NOWHERE)


@pytest.fixture
def served(project: Project, new_system: NewSystems) -> System:
    """Nodes, which the project uses."""
    system = new_system(groups=1)
    system.start()
    project.environment["QMQ_META"] = system.meta_url
    return system


@pytest.fixture
def connection(project: Project) -> Iterator[Connection]:
    project.manage("migrate")
    found = project.connect()
    yield found
    found.close()


def bodies(system: System, subject: str, count: int) -> list[str]:
    """Of the messages of a subject, in their order."""
    found: list[str] = []
    with Consumer(system.meta_url, subject, "tests", start="earliest") as consumer:
        for delivery in consumer:
            with delivery:
                found.append(delivery.decode(str))
            if len(found) == count:
                break
    return found


def rows(connection: Connection) -> int:
    [(count,)] = connection.rows(f"SELECT count(*) FROM {TABLE}")
    return int(count)


SEND = """
from qmq.integrations.django import outbox
with transaction.atomic():
    outbox.send("django.orders", "1")
    outbox.send_many("django.orders", ["2", "3"])
    transaction.on_commit(lambda: None)
    outbox.send("django.orders", "4")
"""


@pytest.mark.database
def test_a_program_that_ends_after_the_commit_sends_and_deletes_before(
    project: Project, served: System, connection: Connection
) -> None:
    project.script(SEND)
    assert bodies(served, "django.orders", 4) == ["1", "2", "3", "4"]
    assert rows(connection) == 0


def test_a_program_that_reaches_no_broker_ends_and_leaves_its_rows(project: Project, connection: Connection) -> None:
    output = project.script(SEND)
    assert rows(connection) == 4
    assert "Traceback" not in output


@pytest.mark.database
def test_the_watchdog_sends_what_programs_have_left(
    project: Project, new_system: NewSystems, connection: Connection
) -> None:
    project.script(SEND)
    system = new_system(groups=1)
    system.start()
    project.environment["QMQ_META"] = system.meta_url
    assert "sent" not in project.manage("outbox_watchdog", "--once")  # they are too young
    assert "default: 4 messages sent, 0 to be tried again" in project.manage(
        "outbox_watchdog", "--once", "--grace", "0"
    )
    assert bodies(system, "django.orders", 4) == ["1", "2", "3", "4"]
    assert rows(connection) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_watchdog_serves_until_a_signal(
    project: Project, served: System, connection: Connection, number: signal.Signals
) -> None:
    def add() -> None:
        statement = f"INSERT INTO {TABLE} (content, create_time, update_time) VALUES (?, ?, ?)"
        old = "2026-01-01 00:00:00"
        connection.change(statement, [content("django.left", "id"), old, old])

    add()
    program: Program
    with project.watchdog("--database", "default") as program:
        program.wait_for("relaying qmq_msg_queue of default")
        eventually(lambda: rows(connection) == 0, what="the row is sent")
        assert program.stop(number) == 0, program.output
        assert "stopping: rows that are being sent are finished" in program.output
        assert "Traceback" not in program.output
    # The lease is given back: another relay need not wait.
    [(until_ms,)] = connection.rows("SELECT until_ms FROM qmq_outbox_lease")
    assert until_ms == 0


def test_the_watchdog_names_what_is_wrong(project: Project) -> None:
    wrong = project.manage("outbox_watchdog", "--database", "defualt", is_failing=True)
    assert "--database defualt: no database has this alias: did you mean 'default'?" in wrong
    assert "no such table" in project.manage("outbox_watchdog", "--once", is_failing=True) or (
        project.address.kind is not Kind.SQLITE
    )
    project.environment["QMQ_META"] = ""
    assert "QMQ_URL is ''" in project.manage("outbox_watchdog", "--once", is_failing=True)


@pytest.mark.database
def test_the_migration_makes_and_drops_the_tables(project: Project) -> None:
    assert "No changes detected" in project.manage("makemigrations", "--check", "qmq_outbox")
    project.manage("migrate")
    connection = project.connect()
    try:
        assert rows(connection) == 0
        connection.rows("SELECT name, holder, generation, until_ms FROM qmq_outbox_lease")
        project.script(SEND)
        refused = project.manage("migrate", "qmq_outbox", "zero", is_failing=True)
        assert "4 messages in table 'qmq_msg_queue' of database 'default' are not sent" in refused
        assert rows(connection) == 4
        listed = project.script(
            "from qmq.integrations.django.outbox.models import OutboxMessage\n"
            "print(*OutboxMessage.objects.order_by('pk'), sep=', ')"
        )
        assert "1 (pending), 2 (pending), 3 (pending), 4 (pending)" in listed
        connection.change(f"DELETE FROM {TABLE}")
        project.manage("migrate", "qmq_outbox", "zero")
        project.manage("migrate", "qmq_outbox", "zero")
        project.manage("migrate")
        assert rows(connection) == 0
    finally:
        connection.close()


@pytest.mark.database
@pytest.mark.parametrize("has_schema", [False, True])
def test_the_name_of_the_table_is_a_setting(project: Project, served: System, has_schema: bool) -> None:
    schemas = {Kind.SQLITE: "main", Kind.POSTGRESQL: "public", Kind.MYSQL: project.address.database}
    name = f"{schemas[project.address.kind]}.other_queue" if has_schema else "other_queue"
    project.manage("migrate", QMQ_OUTBOX_TABLE=name)
    assert "No changes detected" in project.manage("makemigrations", "--check", "qmq_outbox", QMQ_OUTBOX_TABLE=name)
    count = "from qmq.integrations.django.outbox.models import OutboxMessage\nprint('rows', OutboxMessage.objects.count())\n"
    output = project.script(f"{SEND}assert outbox.flush(30)\n{count}", QMQ_OUTBOX_TABLE=name)
    assert "rows 0" in output
    assert bodies(served, "django.orders", 4) == ["1", "2", "3", "4"]
    connection = project.connect()
    assert connection.rows("SELECT count(*) FROM other_queue") == [(0,)]
    connection.close()
    project.manage("migrate", "qmq_outbox", "zero", QMQ_OUTBOX_TABLE=name)


def test_several_databases_have_transactions_of_their_own(
    project: Project, served: System, connection: Connection, tmp_path: Path
) -> None:
    project.databases["other"] = django_database(Address(Kind.SQLITE, str(tmp_path / "other.sqlite3")))
    project.manage("migrate", "--database", "other")
    output = project.script("""
from qmq.integrations.django import outbox
from django.db.transaction import TransactionManagementError
with transaction.atomic(using="other"):
    outbox.send("django.orders", "the one open block")
with transaction.atomic(using="other"), transaction.atomic():
    try:
        outbox.send("django.orders", "which?")
    except TransactionManagementError as error:
        print(error)
    outbox.send("django.default", "named", using="default")
outbox.send("django.default", "the default database")
print(outbox.flush(30), outbox.flush(1, using="other"))
try:
    outbox.send("django.orders", "?", using="unknown")
except Exception as error:
    print(type(error).__name__, error)
""")
    assert "transactions of several databases are open: default, other. Name the one of this message with" in output
    assert "True True" in output
    assert "ConnectionDoesNotExist The connection 'unknown' doesn't exist" in output
    assert bodies(served, "django.orders", 1) == ["the one open block"]
    assert sorted(bodies(served, "django.default", 2)) == ["named", "the default database"]


def test_routers_choose_the_databases_of_the_tables(project: Project, tmp_path: Path) -> None:
    project.databases["other"] = django_database(Address(Kind.SQLITE, str(tmp_path / "other.sqlite3")))
    more = {"DATABASE_ROUTERS": ["routers.Router"]}
    project.manage("migrate", **more)
    project.manage("migrate", "--database", "other", **more)
    other = connect(Address(Kind.SQLITE, str(tmp_path / "other.sqlite3")))
    assert not other.rows("SELECT name FROM sqlite_master WHERE name = ?", [TABLE])
    other.close()
    output = project.manage("outbox_watchdog", "--once", **more)
    assert "other" not in output


def test_a_check_names_wrong_settings(project: Project) -> None:
    def failing(**more: Any) -> str:
        return project.manage("check", is_failing=True, **more)

    assert "no issues" in project.manage("check")
    assert "W001) QMQ_URL is ''" in project.manage("check", QMQ_URL="")
    assert "QMQ_OUTBOX_TABEL: the setting is unknown: did you mean 'QMQ_OUTBOX_TABLE'?" in failing(QMQ_OUTBOX_TABEL="a")
    assert "QMQ_OUTBOX_TABLE: table 'a b': must be a name" in failing(QMQ_OUTBOX_TABLE="a b")
    assert "QMQ_OUTBOX_TABLE: table 5: must be a text" in failing(QMQ_OUTBOX_TABLE=5)
    assert "QMQ_PRODUCER_OPTIONS: 'lingr' is unknown: did you mean 'linger'?" in failing(
        QMQ_PRODUCER_OPTIONS={"lingr": 1}
    )
    assert "QMQ_PRODUCER_OPTIONS is []" in failing(QMQ_PRODUCER_OPTIONS=[])
    project.databases["default"]["AUTOCOMMIT"] = False
    assert "AUTOCOMMIT is False" in failing()
    project.databases["default"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    assert "NAME is ':memory:'" in failing()
    project.databases["default"] = {"ENGINE": "django.db.backends.dummy", "NAME": "x"}
    assert "supports sqlite, postgresql, mysql and not 'unknown'" in failing()


TESTS = """
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase
from qmq.integrations.django import outbox
from qmq.integrations.django.outbox.models import OutboxMessage

class Rolled(TestCase):
    def test_written(self):
        with transaction.atomic():
            outbox.send("django.orders", "never sent")
        assert OutboxMessage.objects.count() == 1

    def test_sent(self):
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            with transaction.atomic():
                outbox.send("django.orders", "1")
                outbox.send("django.orders", "2")
        assert len(callbacks) == 1
        assert outbox.flush(30)
        assert OutboxMessage.objects.count() == 2

class Committed(TransactionTestCase):
    def test_left(self):
        OutboxMessage.objects.create(content="x", create_time="2026-01-01T00:00Z", update_time="2026-01-01T00:00Z")

    def test_sent(self):
        assert OutboxMessage.objects.count() == 0
        with transaction.atomic():
            outbox.send("django.orders", "3")
        assert outbox.flush(30)
        assert OutboxMessage.objects.count() == 0
"""


@pytest.mark.database
def test_tests_of_a_project_send_and_leave_the_real_database_alone(
    project: Project, served: System, connection: Connection
) -> None:
    (project.folder / "tests.py").write_text(TESTS)
    output = project.manage("test", "--noinput", "tests")
    assert "Ran 4 tests" in output
    assert "OK" in output
    assert sorted(bodies(served, "django.orders", 3)) == ["1", "2", "3"]
    assert rows(connection) == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["postgresql_server", "mariadb_server"])
def test_a_database_that_hangs_delays_neither_another_one_nor_the_end(
    project: Project, served: System, connection: Connection, request: pytest.FixtureRequest, name: str
) -> None:
    server: Server = request.getfixturevalue(name)
    with own_database(server.url, "qmq_outbox_hangs") as url:
        project.databases["hangs"] = django_database(Address.parse(url.partition("?")[0]))
        project.manage("migrate", "--database", "hangs")
        with project.watchdog("--grace", "0") as program:
            program.wait_for("relaying qmq_msg_queue of default, hangs")
            with server.paused():
                program.wait_for("hangs: ")
                project.script(SEND, QMQ_URL=NOWHERE)
                eventually(lambda: rows(connection) == 0, what="the rows of the other database are sent")
                assert program.stop() == 0, program.output
            assert "Traceback" not in program.output
