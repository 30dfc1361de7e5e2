"""`manage.py import_datasources`: rows of QMQ's datasource_config become registered databases, or say why not."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from console.outbox.datasources import Datasource, NotImportable
from console.outbox.models import PASSWORDS, OutboxDatabase
from metaserver.models import AuditEntry
from metaserver.services.teams import create_team
from qmq.outbox.databases import Kind
from qmq.outbox.dialects import ddl_statements
from tests.support.console.business import Business, on_server
from tests.support.console.people import TESTER
from tests.support.servers.services import Server

pytestmark = pytest.mark.django_db

DDL = """CREATE TABLE datasource_config (
  id int unsigned not null auto_increment, url varchar(128) not null default '', user_name varchar(100) NOT NULL default '',
  password varchar(100) NOT NULL DEFAULT '', status TINYINT NOT NULL DEFAULT 0, room VARCHAR(20) NOT NULL DEFAULT '',
  PRIMARY KEY (id), unique key uniq_idx_name(url))"""
"""As QMQ creates it."""


def row(url: str, status: int = 0) -> Datasource:
    return Datasource(1, url, "u", "p", status, "")


@pytest.mark.parametrize(
    ("url", "name", "database", "tls"),
    [
        ("jdbc:mysql://db.example:3307", "db.example:3307", "qmq_produce", "off"),
        ("jdbc:mysql://db.example/shop?useUnicode=true", "db.example:3306/shop", "shop", "off"),
        ("mmm://10.1.2.3:3306", "10.1.2.3:3306", "qmq_produce", "off"),
        ("jdbc:mysql://db:3306/shop?useSSL=true", "db:3306/shop", "shop", "encrypt"),
        ("jdbc:mysql://db:3306/shop?sslMode=VERIFY_IDENTITY", "db:3306/shop", "shop", "verify"),
        ("jdbc:postgresql://[fd00::1]/shop?sslmode=require", "[fd00::1]:5432/shop", "shop", "encrypt"),
        ("jdbc:mariadb://db/shop", "db:3306/shop", "shop", "off"),
    ],
)  # fmt: skip
def test_urls_of_drivers_are_taken_apart(url: str, name: str, database: str, tls: str) -> None:
    found = row(url).values()
    assert (found["name"], found["database"], found["tls"]) == (name, database, tls)
    assert (found["user"], found["password"], found["table"]) == ("u", "p", "qmq_produce.qmq_msg_queue")
    assert found["is_enabled"] is True
    assert row(url, status=-1).values()["is_enabled"] is False


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("jdbc:oracle:thin:@db:1521/x", "must begin with"),
        ("", "must begin with"),
        ("jdbc:mysql://a:1,b:2/shop", "several hosts"),
        ("jdbc:mysql://a,b/shop", "several hosts"),
        ("jdbc:mysql:///shop", "no host"),
        ("jdbc:mysql://db:99999/shop", "out of range"),
    ],
)
def test_urls_that_can_not_be_imported_say_why(url: str, text: str) -> None:
    with pytest.raises(NotImportable, match=text):
        row(url).values()


def test_a_database_has_a_name() -> None:
    with pytest.raises(NotImportable, match="names no database"):
        row("mmm://db:3306").values("qmq_msg_queue")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("jdbc:mysql://db/x?user=u&password=geheim&a=b", "jdbc:mysql://db/x?user=u&password=***&a=b"),
        ("jdbc:mysql://u:geheim@db/x", "jdbc:mysql://u:***@db/x"),
    ],
)
def test_a_password_in_a_url_is_not_printed(url: str, shown: str) -> None:
    assert row(url).shown_url == shown


@pytest.fixture
def source(mariadb_server: Server, settings: Any) -> Iterator[Business]:
    settings.OUTBOX_NETWORKS = ["127.0.0.1/32"]
    with on_server(mariadb_server, f"qmq_{os.getpid()}") as found:
        found.execute(DDL)
        yield found


def imported(source: Business, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines that the command prints."""
    at = source.address
    try:
        call_command("import_datasources", f"mysql://{at.user}@{at.host}:{at.port}/{at.database}", *arguments)
    except CommandError:
        return [*capsys.readouterr().out.splitlines(), "failed"]
    return capsys.readouterr().out.splitlines()


def test_rows_become_databases_and_others_are_named(
    source: Business, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_team("shop", actor=TESTER)
    at = source.address
    source.execute(*ddl_statements(Kind.MYSQL))
    rows = {
        f"jdbc:mysql://{at.host}:{at.port}/{at.database}": 0,
        f"jdbc:mysql://{at.host}:{at.port}/missing": 0,
        f"mmm://{at.host}:{at.port}": -1,
        "jdbc:mysql://10.9.8.7:3306/x": 0,
        "jdbc:sqlserver://db": 0,
    }
    for url, status in rows.items():
        source.execute(
            f"INSERT INTO datasource_config (url, user_name, password, status, room) VALUES ('{url}', '{at.user}', '', {status},"
            f" 'r{status}')"
        )
    arguments = ("--table", "qmq_msg_queue", "--owner", "shop")
    foreseen = imported(source, capsys, *arguments, "--dry-run")
    assert not OutboxDatabase.objects.exists()
    assert foreseen[0].endswith(f"would be imported as {at.host}:{at.port}/{at.database}")
    found = imported(source, capsys, *arguments)
    assert found[0].endswith(f"imported as {at.host}:{at.port}/{at.database}")
    assert "row 2, " in found[1]
    assert "not imported: " in found[1]
    assert "the URL names no database" in found[2]
    assert "10.9.8.7, which is in no network of QMQ_OUTBOX_NETWORKS" in found[3]
    assert "must begin with" in found[4]
    assert found[5:] == ["1 database imported, 0 already registered, 4 not imported", "failed"]
    database = OutboxDatabase.objects.get()
    assert (database.owner, database.table, database.user) == ("shop", "qmq_msg_queue", at.user)
    assert AuditEntry.objects.filter(action="outbox_database.create").count() == 1
    again = imported(source, capsys, *arguments)
    assert again[0].endswith("is already registered")
    assert imported(source, capsys, "--room", "r-1") == [
        f"row 3, mmm://{at.host}:{at.port}: imported as {at.host}:{at.port}, disabled",
        "1 database imported, 0 already registered, 0 not imported",
    ]


def test_untested_databases_are_imported_disabled(source: Business, capsys: pytest.CaptureFixture[str]) -> None:
    source.execute(
        "INSERT INTO datasource_config (url, user_name, password) VALUES ('mmm://10.9.8.7:3306', 'u', 'geheim')"
    )
    found = imported(source, capsys, "--disabled")
    assert found[0] == "row 1, mmm://10.9.8.7:3306: imported as 10.9.8.7:3306, disabled"
    database = OutboxDatabase.objects.get()
    assert (database.is_enabled, database.database) == (False, "qmq_produce")
    assert PASSWORDS.unseal(database.sealed) == {"password": "geheim"}


def test_a_metaservers_database_that_can_not_be_read_is_an_error(source: Business) -> None:
    at = source.address
    source.execute("DROP TABLE datasource_config")
    with pytest.raises(CommandError, match="datasource_config"):
        call_command("import_datasources", f"mysql://{at.user}@{at.host}:{at.port}/{at.database}")
