"""Registered databases: register, test, change, delete; what is refused, and what is never shown."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console import checks
from console.accounts.roles import Role
from console.outbox import access
from console.outbox.access import checked_addresses, connect_checked
from console.outbox.models import PASSWORDS, OutboxDatabase
from console.outbox.services import databases as service
from console.outbox.usability import check_usability
from metaserver import queries
from metaserver.errors import ChangeRefused, Stale
from metaserver.services.teams import create_team
from qmq.errors import DatabaseFailed
from qmq.idempotent.tables import ddl_statements as marker_ddl
from qmq.outbox.databases import Address, Connection, Kind
from qmq.outbox.dialects import ddl_statements
from tests.support.console.business import Business, in_folder, on_server, user
from tests.support.console.people import TESTER, browser, person
from tests.support.servers.services import Server

PATH = "/api/v1/outbox/databases/"
pytestmark = pytest.mark.django_db


@pytest.fixture(params=["postgresql", "mariadb"])
def served(request: pytest.FixtureRequest) -> Iterator[Business]:
    """A database of a server, with an empty outbox."""
    with on_server(request.getfixturevalue(f"{request.param}_server"), f"business_{os.getpid()}") as found:
        found.make_tables()
        yield found


def registered(client: APIClient, business: Business, **others: Any) -> str:
    answer = client.post(PATH, business.values(**others))
    assert answer.status_code == 201, answer.content
    return str(answer.json()["target"])


def refused(client: APIClient, values: dict[str, Any], status: int = 400) -> dict[str, Any]:
    """The problem of a registration, which is the same in a dry run."""
    count = OutboxDatabase.objects.count()
    answers = [client.post(f"{PATH}{query}", values) for query in ("?dry_run=true", "")]
    assert [answer.status_code for answer in answers] == [status] * 2, answers[0].content
    assert answers[0].json()["code"] == answers[1].json()["code"]
    assert OutboxDatabase.objects.count() == count
    found: dict[str, Any] = answers[1].json()
    return found


@pytest.mark.database
def test_lists_are_filtered_and_ordered(admin: APIClient) -> None:
    create_team("shop", actor=TESTER)
    for name, pending, owner, kind in (
        ("b", 5, "shop", "mysql"),
        ("A", None, "", "sqlite"),
        ("c", 70, "shop", "mysql"),
    ):
        OutboxDatabase.objects.create(name=name, pending=pending, owner=owner, kind=kind, database="x")
    OutboxDatabase.objects.filter(name="c").update(error_code="x", error_since="2026-01-01T00:00:00Z", is_enabled=False)

    def names(query: str) -> list[str]:
        return [row["name"] for row in admin.get(f"{PATH}{query}").json()["results"]]

    assert names("?ordering=pending") == ["b", "c", "A"], "null is the greatest value"
    assert names("?ordering=-pending&limit=2") == ["A", "c"]
    assert names("?owner=shop&ordering=-name") == ["c", "b"]
    assert names("?search=a") == ["A"]
    assert names("?kind=sqlite") == ["A"]
    assert names("?has_error=true") == names("?is_enabled=false") == ["c"]
    first = admin.get(f"{PATH}?limit=2&ordering=pending").json()
    assert names(f"?limit=2&ordering=pending&cursor={first['next']}") == ["A"]


def newest_entry() -> Any:
    return queries.audit_entries().order_by("-id")[0]


def test_a_database_is_registered_and_its_numbers_are_unknown_until_they_are_measured(
    admin: APIClient, business: Business
) -> None:
    assert admin.post(f"{PATH}?dry_run=true", business.values()).json()["is_change"]
    assert not OutboxDatabase.objects.exists()
    where = f"{PATH}{registered(admin, business)}/"
    found = admin.get(where).json()
    assert found["unknown"] == "not_measured"
    assert [found[name] for name in ("pending", "failed", "oldest_seconds", "leader", "measured_at")] == [None] * 5
    assert found["table"] == "qmq_msg_queue"
    assert found["port"] == business.address.port
    assert admin.get(PATH).json()["results"] == [found]
    assert admin.post(f"{where}test/", {}).json() == {
        "target": found["id"], "is_usable": True, "code": "", "detail": "the database can be relayed", "missing_rights": [],
    }  # fmt: skip
    assert newest_entry().action == "outbox_database.test"


def test_a_database_is_changed_and_deleted(admin: APIClient, business: Business) -> None:
    create_team("shop", actor=TESTER)
    where = f"{PATH}{registered(admin, business)}/"
    change = {"name": "new name", "owner": "shop", "rows_per_second_max": 100, "age_hours_max": 24, "is_enabled": False}
    answer = admin.patch(where, change, headers={"If-Match": '"v1"'})
    assert answer.json()["after"]["rows_per_second_max"] == 100
    assert {name: admin.get(where).json()[name] for name in change} == change
    assert admin.patch(where, {"owner": None}, headers={"If-Match": '"v1"'}).status_code == 412
    assert admin.get(where).json()["unknown"] == "disabled"
    assert admin.patch(where, {"owner": "nobody"}).json()["fields"] == {"owner": "team 'nobody' not found"}
    assert admin.delete(where).status_code == 200
    assert admin.get(where).status_code == 404
    assert newest_entry().before["name"] == "new name"


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"kind": "oracle"}, "kind", "must be one of"),
        ({"host": ""}, "host", "is required"),
        ({"host": "a b"}, "host", "must be a host name"),
        ({"host": "/var/run/postgresql"}, "host", "must be a host name"),
        ({"port": 0}, "port", "must not be 0"),
        ({"port": 65_536}, "port", "from 0 to 65535"),
        ({"database": "host=10.0.0.1"}, "database", "must not contain '='"),
        ({"table": "drop table"}, "table", "letters, digits"),
        ({"table": 'a"b'}, "table", "letters, digits"),
        ({"tls": "maybe"}, "tls", "must be one of"),
        ({"rows_per_second_max": 0}, "rows_per_second_max", "from 1"),
        ({"marker_table": "a b"}, "marker_table", "letters, digits"),
        ({"marker_days": 0}, "marker_days", "a whole number of days from 1 to 3650"),
        ({"marker_days": 3_651}, "marker_days", "a whole number of days from 1 to 3650"),
        ({"marker_days": None}, "marker_days", "may not be null"),
        ({"name": " x"}, "name", ""),
        ({"owner": "nobody"}, "owner", "not found"),
        ({"user": "a\nb"}, "user", "one line"),
    ],
)
def test_values_that_can_not_be_are_named(admin: APIClient, change: dict[str, Any], field: str, text: str) -> None:
    values = {"name": "shop", "kind": "postgresql", "host": "127.0.0.1", "database": "shop", "user": "u", **change}
    if change == {"name": " x"}:
        values["name"] = "\t"  # spaces at the ends of a request's texts are removed
    found = refused(admin, values)
    assert text in found["fields"][field]


def test_sqlite_has_no_host_user_or_tls(admin: APIClient, tmp_path: Path) -> None:
    values = in_folder(tmp_path).values(host="127.0.0.1", user="u", password="p", tls="verify")
    assert set(refused(admin, values)["fields"]) == {"host", "user", "password", "tls"}


def test_two_databases_have_two_names(admin: APIClient, tmp_path: Path) -> None:
    business = in_folder(tmp_path)
    business.make_tables()
    registered(admin, business)
    assert refused(admin, business.values(), 409)["code"] == "outbox_database.exists"


def test_there_are_so_many_databases_at_most(admin: APIClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "DATABASES_MAX", 1)
    business = in_folder(tmp_path)
    business.make_tables()
    registered(admin, business)
    assert refused(admin, business.values(name="more"))["code"] == "outbox_database.too_many"


# --- what can't be relayed is not saved enabled ---------------------------------------------------------------------------


def test_a_missing_table_is_an_error_that_says_how_to_make_it(admin: APIClient, empty: Business) -> None:
    found = refused(admin, empty.values())
    assert found["code"] == "database.table_missing"
    assert f"qmq outbox ddl {empty.kind} --table qmq_msg_queue" in found["detail"]
    assert set(found["fields"]) == {"table"}
    empty.execute(ddl_statements(empty.kind)[0])
    assert "qmq_outbox_lease" in refused(admin, empty.values())["detail"]


def test_a_table_with_other_columns_is_an_error(admin: APIClient, business: Business) -> None:
    business.execute("ALTER TABLE qmq_msg_queue DROP COLUMN last_error")
    found = refused(admin, business.values())
    assert found["code"] == "database.table_differs"
    assert "last_error" in found["detail"]


def test_rights_that_a_user_lacks_are_listed(admin: APIClient, served: Business) -> None:
    with user(served, "SELECT", password="secret") as values:
        found = refused(admin, values)
        assert found["code"] == "database.access_denied"
        rows, lease = quoted(served, "qmq_msg_queue"), quoted(served, "qmq_outbox_lease")
        assert found["detail"] == (
            f"user '{values['user']}' lacks rights: UPDATE, DELETE on {rows}; INSERT, UPDATE on {lease}. Correct it, or save the"
            " database disabled (is_enabled: false)."
        )
        answer = admin.post(PATH, values | {"is_enabled": False})
        assert answer.status_code == 201
        assert [note["code"] for note in answer.json()["notes"]] == ["database_disabled"]
        where = f"{PATH}{answer.json()['target']}/"
        missing = admin.post(f"{where}test/", {}).json()["missing_rights"]
        assert {"table": quoted(served, "qmq_msg_queue"), "right": "DELETE"} in missing
        assert len(missing) == 4
        refusal = admin.patch(where, {"is_enabled": True}).json()
        assert {name: refusal[name] for name in ("code", "detail", "fields")} == {
            name: found[name] for name in ("code", "detail", "fields")
        }
        # The statements of the refusal are what is missing.
        assert set(found["fields"]) == {"user"}
        grants = found["fields"]["user"].rpartition(";")[0].split("; ")
        assert len(grants) == 2
        served.execute(*grants)
        assert admin.patch(where, {"is_enabled": True}).status_code == 200


def test_the_rights_that_are_listed_are_enough(admin: APIClient, served: Business) -> None:
    served.insert("{}")
    with user(served, "SELECT", "INSERT", "UPDATE", "DELETE", password="secret") as values:
        assert admin.post(PATH, values).status_code == 201
    assert served.rows("SELECT count(*) FROM qmq_msg_queue") == [(1,)], "a test changes nothing"
    assert served.rows("SELECT count(*) FROM qmq_outbox_lease") == [(0,)]


class _DeniesAll(Connection):
    """A connection of a user without any right."""

    def __init__(self) -> None: ...

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        raise DatabaseFailed("denied", code="database.access_denied")

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("kind", "user_name", "database", "table", "statement"),
    [
        ("postgresql", 'a"; DROP TABLE x; --', "d", "sales.q", '"sales"."q" TO "a""; DROP TABLE x; --";'),
        ("mysql", "o'neil\\", "my`shop", "q", "`my``shop`.`q` TO 'o''neil\\\\'@'%';"),
        ("mysql", "relay", "shop", "sales.q", "`sales`.`q` TO 'relay'@'%';"),
    ],
)
def test_a_name_in_a_grant_cant_end_its_quotation(
    kind: str, user_name: str, database: str, table: str, statement: str
) -> None:
    row = OutboxDatabase(kind=kind, user=user_name, database=database, table=table)
    found = check_usability(row, lambda _: _DeniesAll())
    assert found.advice.startswith(f"GRANT SELECT, UPDATE, DELETE ON {statement} GRANT SELECT, INSERT, UPDATE ON ")


# --- the table of markers -------------------------------------------------------------------------------------------------


def test_a_table_of_markers_is_checked_with_its_rights(admin: APIClient, served: Business) -> None:
    with user(served, "SELECT", "INSERT", "UPDATE", "DELETE", password="secret") as values:
        where = f"{PATH}{admin.post(PATH, values).json()['target']}/"
        served.execute(*marker_ddl(served.kind))
        change = {"marker_table": "qmq_processed", "marker_days": 30}
        found = admin.patch(where, change).json()
        table = quoted(served, "qmq_processed")
        assert f"lacks rights: SELECT, DELETE on {table}. " in found["detail"]
        assert "GRANT SELECT, DELETE ON " in found["fields"]["user"]
        assert admin.get(where).json()["marker_table"] == ""
        served.execute(found["fields"]["user"].rpartition(";")[0])
        answer = admin.patch(where, change).json()
        assert {name: answer["after"][name] for name in change} == change
        assert {name: newest_entry().after[name] for name in change} == change
        assert {name: newest_entry().before[name] for name in change} == {"marker_table": "", "marker_days": 7}
        assert {name: admin.get(where).json()[name] for name in change} == change


def test_a_missing_table_of_markers_is_an_error_that_says_how_to_make_it(admin: APIClient, business: Business) -> None:
    found = refused(admin, business.values(marker_table="markers"))
    assert (found["code"], set(found["fields"])) == ("database.table_missing", {"marker_table"})
    assert f"qmq idempotent ddl {business.kind} --table markers" in found["detail"]


def test_a_table_of_markers_with_other_columns_is_an_error(admin: APIClient, business: Business) -> None:
    business.execute("CREATE TABLE others (k varchar(9))")
    found = refused(admin, business.values(marker_table="others"))
    assert (found["code"], set(found["fields"])) == ("database.table_differs", {"marker_table"})
    assert "update_at" in found["detail"]


def test_a_change_of_the_markers_begins_anew_and_keeps_the_numbers(admin: APIClient, business: Business) -> None:
    business.execute(*marker_ddl(business.kind))
    where = f"{PATH}{registered(admin, business, marker_table='qmq_processed')}/"
    now = timezone.now()
    OutboxDatabase.objects.update(measured_at=now, pending=5, oldest_ms=1, failed=0)

    def failed() -> None:
        OutboxDatabase.objects.update(
            marker_cleanup_at=now, marker_error="at db1", marker_error_code="database.timeout"
        )

    def shown() -> tuple[object, ...]:
        found = admin.get(where).json()
        return tuple(found[name] for name in ("marker_cleanup_at", "marker_error_code", "marker_error", "pending"))

    failed()
    assert shown()[1:] == ("database.timeout", "at db1", 5)
    assert browser(person("vera", Role.VIEWER)).get(where).json()["marker_error"] is None
    for change in ({"name": "other"}, {"marker_days": 9}, {"marker_table": ""}):
        failed()
        assert admin.patch(where, change).status_code == 200
        assert shown()[3] == 5
        assert (shown()[0] is None) == ("name" not in change)
    assert shown() == (None, None, None, 5)


def quoted(business: Business, table: str) -> str:
    return f"`{table}`" if business.kind is Kind.MYSQL else f'"{table}"'


def test_a_wrong_password_and_an_unknown_user_are_errors(
    admin: APIClient, mariadb_server: Server, postgresql_server: Server
) -> None:
    with on_server(mariadb_server, f"business_{os.getpid()}") as business:
        business.make_tables()
        with user(business, "ALL", password="right") as values:
            found = refused(admin, values | {"password": "wrong"})
            assert found["code"] == "database.access_denied"
            assert "wrong" not in found["detail"]
            assert set(found["fields"]) == {"user"}
            assert admin.post(PATH, values).status_code == 201
    with on_server(postgresql_server, f"business_{os.getpid()}") as business:
        assert refused(admin, business.values(user="nobody", name="other"))["code"] == "database.access_denied"


def test_a_server_that_accepts_and_never_answers_is_given_up(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "STATEMENT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for kind in ("postgresql", "mysql"):
            values = {
                "name": "shop", "kind": kind, "host": "127.0.0.1", "port": silent.getsockname()[1], "database": "d", "user": "u",
            }  # fmt: skip
            answer = admin.post(f"{PATH}?dry_run=true", values)
            assert (answer.status_code, answer.json()["code"]) == (400, "database.timeout"), answer.content


def test_a_port_without_a_server_is_an_error(admin: APIClient, served: Business) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    found = refused(admin, served.values(port=port))
    assert (found["code"], set(found["fields"])) == ("database.unreachable", {"host"})


def test_a_database_that_was_changed_while_it_was_tested_is_not_saved(tmp_path: Path) -> None:
    business = in_folder(tmp_path)
    business.make_tables()
    values = {"name": "shop", "database": business.address.database}
    key = service.create_database("sqlite", values, actor=TESTER).target

    def slow(address: Address) -> Any:
        service.update_database(key, {"name": "other"}, actor=TESTER)
        return connect_checked(address)

    with pytest.raises(Stale):
        service.update_database(key, {"table": "main.qmq_msg_queue"}, connector=slow, actor=TESTER)
    assert OutboxDatabase.objects.get().table == "qmq_msg_queue"


# --- addresses ------------------------------------------------------------------------------------------------------------


def resolver(*answers: Sequence[str]) -> Callable[[str, int], Sequence[str]]:
    """Answers one after the other."""
    rest = iter(answers)
    return lambda host, port: next(rest)


@pytest.mark.parametrize(
    ("networks", "host", "text"),
    [
        ([], "127.0.0.1", "QMQ_OUTBOX_NETWORKS is empty"),
        (["10.0.0.0/8"], "127.0.0.1", "127.0.0.1, which is in no network of QMQ_OUTBOX_NETWORKS"),
        (["127.0.0.0/8"], "::1", "::1"),
    ],
)
def test_only_addresses_in_the_networks_of_the_setting_are_connected_to(
    admin: APIClient, settings: Any, monkeypatch: pytest.MonkeyPatch, networks: list[str], host: str, text: str
) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_: pytest.fail("no connection"))
    settings.OUTBOX_NETWORKS = networks
    values = {"name": "shop", "kind": "mysql", "host": host, "database": "shop", "user": "u"}
    found = refused(admin, values)
    assert found["code"] == "database.address_forbidden"
    assert text in found["detail"]
    assert found["fields"] == {"host": "must be in the networks of QMQ_OUTBOX_NETWORKS"}


@pytest.mark.parametrize(
    "answer",
    [["10.1.2.3"], ["127.0.0.1", "169.254.169.254"], ["::ffff:10.1.2.3"], ["fe80::1%lo"], ["64:ff9b::a01:203"]],
)
def test_a_name_that_resolves_into_another_network_is_refused(answer: list[str]) -> None:
    with pytest.raises(ChangeRefused, match="in no network of QMQ_OUTBOX_NETWORKS") as caught:
        service.create_database(
            "mysql", {"name": "shop", "host": "db.example", "database": "shop"},
            connector=partial(connect_checked, resolver=resolver(answer)), actor=TESTER,
        )  # fmt: skip
    assert caught.value.code == "database.address_forbidden"
    assert not OutboxDatabase.objects.exists()


def test_mapped_addresses_count_as_the_address_in_them() -> None:
    for answer in (["127.1.2.3"], ["::ffff:127.0.0.1"]):
        assert checked_addresses("db.example", 1, resolver(answer)) == answer


def test_the_connection_goes_to_the_address_that_was_checked(served: Business) -> None:
    """The name means another address right after the check: it is not looked up a second time."""
    found = resolver(["127.0.0.1"], ["10.1.2.3"])
    address = Address(served.kind, served.address.database, "db.example", served.address.port, served.address.user)
    connection = connect_checked(address, resolver=found)
    assert connection.rows("SELECT 1") == [(1,)]
    connection.close()
    with pytest.raises(DatabaseFailed, match=r"10\.1\.2\.3"):
        connect_checked(address, resolver=found)


def test_an_address_is_not_looked_up() -> None:
    assert checked_addresses("127.0.0.9", 1, lambda host, port: pytest.fail("no look-up")) == ["127.0.0.9"]
    with pytest.raises(DatabaseFailed, match="in no network"):
        checked_addresses("::1", 1)


def test_a_name_without_an_address_is_an_error() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(DatabaseFailed, match="not known") as caught:
        checked_addresses("db.example", 5432, unknown)
    assert caught.value.code == "database.unreachable"


def test_the_next_address_is_tried_when_nothing_listens_at_the_first(served: Business) -> None:
    address = Address(served.kind, served.address.database, "db.example", served.address.port, served.address.user)
    connect_checked(address, resolver=resolver(["127.0.0.77", "127.0.0.1"])).close()


def test_sqlite_files_are_in_the_folder_of_the_setting(admin: APIClient, settings: Any, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
        in_folder(folder).make_tables()
    (inside / "link.sqlite3").symlink_to(outside / "shop.sqlite3")
    settings.OUTBOX_SQLITE_FOLDER = str(inside)
    values = {"name": "shop", "kind": "sqlite"}
    for path in ("../outside/shop.sqlite3", str(outside / "shop.sqlite3"), "link.sqlite3", "."):
        found = refused(admin, {**values, "database": path})
        assert found["code"] == "database.address_forbidden", path
        assert set(found["fields"]) == {"database"}
    assert refused(admin, {**values, "database": "missing.sqlite3"})["code"] == "database.unreachable"
    assert not (inside / "missing.sqlite3").exists()
    for number, path in enumerate(("shop.sqlite3", str(inside / "shop.sqlite3"))):
        assert admin.post(PATH, {**values, "name": f"shop {number}", "database": path}).status_code == 201
    settings.OUTBOX_SQLITE_FOLDER = ""
    assert "QMQ_OUTBOX_SQLITE_FOLDER is not set" in refused(admin, {**values, "database": "shop.sqlite3"})["detail"]


def test_the_setting_is_checked(settings: Any) -> None:
    settings.OUTBOX_NETWORKS = ["10.0.0.0/8", "everything"]
    (found,) = checks.outbox_networks(None)
    assert (found.id, "everything" in found.msg) == ("outbox.E001", True)


# --- what is never shown --------------------------------------------------------------------------------------------------


def test_the_password_goes_in_and_never_out(admin: APIClient, served: Business) -> None:
    with user(served, "SELECT", "INSERT", "UPDATE", "DELETE", password="p-1") as values:
        answer = admin.post(PATH, values | {"password": "p-1"})
        assert answer.status_code == 201, answer.content
        where = f"{PATH}{answer.json()['target']}/"
        row = OutboxDatabase.objects.get()
        assert "p-1" not in row.sealed
        assert PASSWORDS.unseal(row.sealed) == {"password": "p-1"}
        before = answer.json()["after"]["password"]
        assert len(before) == 8
        assert admin.get(where).json()["has_password"] is True
        after = admin.patch(where, {"password": "p-2", "is_enabled": False}).json()["after"]["password"]
        assert after not in (before, None)
        for text in (admin.get(where).content, admin.get(PATH).content, admin.get("/api/v1/audit/").content):
            assert b"p-1" not in text
            assert b"p-2" not in text
        assert admin.patch(where, {"password": None}).json()["after"]["password"] is None
        assert admin.get(where).json()["has_password"] is False


def test_another_server_does_not_get_the_password(admin: APIClient) -> None:
    values = {"name": "shop", "kind": "mysql", "host": "127.0.0.1", "database": "d", "user": "u", "password": "secret"}
    answer = admin.post(PATH, values | {"is_enabled": False, "tls": "verify"})
    where = f"{PATH}{answer.json()['target']}/"
    for change in ({"host": "127.0.0.2"}, {"port": 1}, {"tls": "off"}):
        (text,) = admin.patch(where, change).json()["fields"].values()
        assert text == f"must be entered again, because {next(iter(change))} changed"
        assert admin.patch(where, change | {"password": "secret"}).status_code == 200


def test_where_a_database_is_only_administrators_see(admin: APIClient, served: Business) -> None:
    where = f"{PATH}{registered(admin, served)}/"
    OutboxDatabase.objects.update(error="postgresql://u@10.0.0.1/x: gone", error_code="database.unreachable")
    private = ("host", "port", "database", "user", "error")
    seen = admin.get(where).json()
    assert None not in [seen[name] for name in private]
    for role in (Role.VIEWER, Role.OPERATOR):
        client = browser(person(f"a {role}".replace(" ", "-"), role))
        seen = client.get(where).json()
        assert [seen[name] for name in private] == [None] * 5
        assert (seen["error_code"], seen["unknown"]) == ("database.unreachable", "failed")
        assert seen["may_resend"] is seen["may_discard"] is (role is Role.OPERATOR)
        for answer in (client.post(PATH, served.values()), client.patch(where, {}), client.delete(where)):
            assert answer.status_code == 403
        assert client.post(f"{where}test/", {}).status_code == 403


def test_what_was_measured_of_another_address_is_forgotten(admin: APIClient, tmp_path: Path) -> None:
    shops = [in_folder(tmp_path, name) for name in ("one.sqlite3", "two.sqlite3")]
    for shop in shops:
        shop.make_tables()
    where = f"{PATH}{registered(admin, shops[0])}/"
    measured = {"pending": 5, "failed": 1, "oldest_ms": 9, "leader": "console", "measured_at": "2026-01-01T00:00:00Z"}
    OutboxDatabase.objects.update(**measured)
    assert admin.get(where).json()["unknown"] == "outdated"
    assert admin.patch(where, {"name": "still"}).status_code == 200
    assert OutboxDatabase.objects.get().pending == 5
    assert admin.patch(where, {"database": "two.sqlite3"}).status_code == 200
    assert admin.get(where).json()["unknown"] == "not_measured"
