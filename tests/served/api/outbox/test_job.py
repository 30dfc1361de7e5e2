"""The job that relays registered databases, on real ones: what it sends, what it measures, and what a broken database does."""

import os
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from console.jobs import jobs, outbox
from console.jobs.job import Context
from console.models import BackgroundJob
from console.outbox import markers, passes
from console.outbox.models import PASSWORDS, OutboxDatabase
from console.outbox.numbers import Numbers, Unknown
from metaserver.models import Subject
from metaserver.services.changes import Actor
from qmq.errors import DatabaseFailed
from qmq.idempotent.tables import BATCH_ROWS
from qmq.idempotent.tables import ddl_statements as marker_ddl
from qmq.outbox.databases import Kind
from qmq.outbox.relay import Pass
from qmq.outbox.rows import Status
from tests.support.console.business import Business, content, in_folder, on_server, user
from tests.support.servers.services import Server
from tests.support.servers.threaded_system import ThreadedSystem

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def stopping(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What a worker's signal sets."""
    event = threading.Event()
    monkeypatch.setattr(outbox, "_stopping", event)
    return event


@pytest.fixture
def work(stopping: threading.Event, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], str]:
    """Runs the job, in runs of any length, until a condition holds, which is looked at after each tick; the last result."""
    wait = passes.Passes.wait
    monkeypatch.setattr(passes, "EVERY_SECONDS", 0.2)
    monkeypatch.setattr(passes, "COUNT_SECONDS", 0.5)
    monkeypatch.setattr(outbox, "TICK_SECONDS", 0.1)

    def run_until(condition: Callable[[], object]) -> str:
        def waited(self: passes.Passes, seconds: float) -> None:
            wait(self, min(seconds, 0.05))
            if condition():
                stopping.set()

        monkeypatch.setattr(passes.Passes, "wait", waited)
        stopping.clear()
        while not stopping.is_set():
            found = outbox.relay(Context(Actor("tests"), time.monotonic() + 600.0))
        return found.text

    return run_until


def registered(business: Business, name: str = "shop", **others: object) -> OutboxDatabase:
    values = business.values(name=name, **others)
    return OutboxDatabase.objects.create(**values)


def numbers(row: OutboxDatabase) -> Numbers:
    row.refresh_from_db()
    return Numbers.of(row, timezone.now())


def test_rows_are_sent_and_the_numbers_are_measured(
    cluster: ThreadedSystem, business: Business, work: Callable[[Callable[[], object]], str]
) -> None:
    business.insert(*(content(message_id=f"m{number}") for number in range(5)))
    business.insert("{}", status=Status.INVALID)
    row = registered(business)
    assert work(lambda: numbers(row).pending == 0) == "1 database, 5 messages sent"
    found = numbers(row)
    assert (found.unknown, found.failed, found.oldest_seconds) == (None, 1, 0.0)
    assert (found.leader or "").startswith("console ")
    assert found.rows_per_second is not None
    assert business.statuses() == [(Status.INVALID, 0)]
    assert [delivery.message_id for delivery in cluster.consume("orders", "billing", 5)] == [f"m{n}" for n in range(5)]
    assert business.rows("SELECT until_ms FROM qmq_outbox_lease") == [(0,)], "the lease is given back"


def test_without_brokers_rows_are_counted_and_left_as_they_are(
    transactional_db: None, settings: Any, tmp_path: Path, work: Callable[[Callable[[], object]], str]
) -> None:
    settings.META_URL = "http://127.0.0.1:1/meta/address"
    shop = in_folder(tmp_path)
    shop.make_tables()
    shop.insert(content())
    row = registered(shop)
    work(lambda: numbers(row).pending == 1)
    assert numbers(row).oldest_seconds > 3_500  # type: ignore[operator]
    assert shop.statuses() == [(Status.PENDING, 0)]


def test_a_row_that_is_no_message_waits_for_an_operator(
    cluster: ThreadedSystem, business: Business, work: Callable[[Callable[[], object]], str]
) -> None:
    business.insert("no JSON", content(subject="${orders}"), content(message_id="good"))
    row = registered(business)
    assert work(lambda: numbers(row).failed == 2) == "1 database, 1 message sent, 2 for an operator"
    assert business.statuses() == [(Status.INVALID, 1)] * 2


@pytest.mark.parametrize("server", ["postgresql_server", "mariadb_server"])
def test_a_database_that_stands_still_delays_no_other_and_its_numbers_are_unknown(
    cluster: ThreadedSystem,
    request: pytest.FixtureRequest,
    server: str,
    tmp_path: Path,
    work: Callable[[Callable[[], object]], str],
) -> None:
    paused: Server = request.getfixturevalue(server)
    other = in_folder(tmp_path)
    other.make_tables()
    with on_server(paused, f"paused_{os.getpid()}") as business:
        business.make_tables()
        business.insert(content(message_id="late"))
        stuck, fine = registered(business, "stuck"), registered(other, "fine")
        sent = 0

        def others_go_on() -> bool:
            nonlocal sent
            if not other.statuses():
                sent += 1
                other.insert(content(subject="others", message_id=f"m{sent}"))
            return sent > 2 and numbers(stuck).unknown is Unknown.FAILED

        with paused.paused():
            work(others_go_on)
        stuck.refresh_from_db()
        assert stuck.error_code == "database.timeout"
        assert stuck.error_since is not None
        assert (numbers(stuck).pending, numbers(stuck).leader) == (None, None)
        assert numbers(fine).unknown is None
        work(lambda: numbers(stuck).unknown is None)
        assert (numbers(stuck).pending, stuck.error, stuck.error_since) == (0, "", None)
        assert business.statuses() == []


def test_a_database_without_tables_fails_and_the_job_does_not(
    cluster: ThreadedSystem, empty: Business, work: Callable[[Callable[[], object]], str]
) -> None:
    row = registered(empty)
    assert work(lambda: numbers(row).unknown is Unknown.FAILED) == "1 database, 0 messages sent, 1 database failing"
    assert row.error_code == "database.table_missing"
    since = row.error_since
    tried = passes_of(row)
    work(lambda: passes_of(row) > tried)
    row.refresh_from_db()
    assert row.error_since == since, "since when is not when it failed last"


TRIED: list[int] = []
"""The databases of all passes of this test."""


def passes_of(row: OutboxDatabase) -> int:
    return TRIED.count(row.pk)


@pytest.fixture(autouse=True)
def _tried(monkeypatch: pytest.MonkeyPatch) -> None:
    note = outbox.note_pass

    def noted(passed: passes.Passed, now: datetime) -> None:
        TRIED.append(passed.row.pk)
        note(passed, now)

    TRIED.clear()
    monkeypatch.setattr(outbox, "note_pass", noted)


def insert_markers(business: Business, days: float, count: int) -> None:
    """Markers of this age."""
    when = {
        Kind.SQLITE: f"datetime('now', '-{days} days')",
        Kind.POSTGRESQL: f"now() - interval '{days} days'",
        Kind.MYSQL: f"now() - interval {days * 24} hour",
    }[business.kind]
    key = {Kind.SQLITE: "CAST('{}' AS BLOB)", Kind.POSTGRESQL: "'{}'::bytea", Kind.MYSQL: "'{}'"}[business.kind]
    values = ", ".join(f"({key.format(f'{days} {number}')}, {when})" for number in range(count))
    business.execute(f"INSERT INTO qmq_processed (k, update_at) VALUES {values}")


def markers_of(business: Business) -> int:
    return int(business.rows("SELECT count(*) FROM qmq_processed")[0][0])


def test_old_markers_are_deleted_once_in_an_hour_also_by_later_runs(
    cluster: ThreadedSystem, business: Business, work: Callable[[Callable[[], object]], str]
) -> None:
    business.execute(*marker_ddl(business.kind))
    insert_markers(business, 8, BATCH_ROWS + 5)
    insert_markers(business, 6, 3)
    business.insert(content())
    row = registered(business, marker_table="qmq_processed")

    def cleaned() -> bool:
        row.refresh_from_db()
        return row.marker_cleanup_at is not None

    assert work(cleaned) == f"1 database, 1 message sent, {BATCH_ROWS + 5} markers deleted"
    assert (markers_of(business), row.marker_error, row.marker_error_code) == (3, "", "")
    before = row.marker_cleanup_at
    insert_markers(business, 9, 1)
    tried = passes_of(row)
    work(lambda: passes_of(row) > tried)
    row.refresh_from_db()
    assert (markers_of(business), row.marker_cleanup_at) == (4, before)
    OutboxDatabase.objects.update(marker_cleanup_at=timezone.now() - timedelta(hours=1))
    work(lambda: markers_of(business) == 3)


def test_a_cleanup_that_takes_too_long_is_continued_by_the_next_pass(
    cluster: ThreadedSystem,
    tmp_path: Path,
    work: Callable[[Callable[[], object]], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(markers, "CLEANUP_SECONDS", 0.0)
    shop = in_folder(tmp_path)
    shop.make_tables()
    shop.execute(*marker_ddl(shop.kind))
    insert_markers(shop, 8, 2 * BATCH_ROWS + 1)
    row = registered(shop, marker_table="qmq_processed")
    work(lambda: passes_of(row) > 0)
    row.refresh_from_db()
    assert (markers_of(shop), row.marker_cleanup_at) == (BATCH_ROWS + 1, None), "a batch, and the time was over"
    work(lambda: not markers_of(shop))


@pytest.mark.parametrize("failure", ["table_missing", "table_differs"])
def test_a_cleanup_that_fails_is_shown_and_rows_are_relayed(
    cluster: ThreadedSystem, business: Business, work: Callable[[Callable[[], object]], str], failure: str
) -> None:
    if failure == "table_differs":
        business.execute("CREATE TABLE qmq_processed (k varchar(9))")
    row = registered(business, marker_table="qmq_processed")

    def failed() -> bool:
        row.refresh_from_db()
        return bool(row.marker_error)

    work(failed)
    assert row.marker_error_code == f"database.{failure}"
    assert row.marker_error.startswith("markers in qmq_processed: ")
    assert row.marker_cleanup_at is not None
    business.insert(content())
    assert work(lambda: not business.statuses()) == "1 database, 1 message sent"
    assert (numbers(row).unknown, row.error) == (None, "")
    business.execute("DROP TABLE IF EXISTS qmq_processed", *marker_ddl(business.kind))
    OutboxDatabase.objects.update(marker_cleanup_at=timezone.now() - timedelta(minutes=5))
    work(lambda: not failed())


@pytest.mark.parametrize("server", ["postgresql_server", "mariadb_server"])
def test_a_user_that_may_not_delete_markers_can_relay(
    cluster: ThreadedSystem,
    request: pytest.FixtureRequest,
    server: str,
    work: Callable[[Callable[[], object]], str],
) -> None:
    with on_server(request.getfixturevalue(server), f"denied_{os.getpid()}") as business:
        business.make_tables()
        business.execute(*marker_ddl(business.kind))
        with user(business, "SELECT", "INSERT", "UPDATE", "DELETE") as values:
            business.insert(content())
            row = registered(business, user=values["user"], marker_table="qmq_processed")

            def failed() -> bool:
                row.refresh_from_db()
                return bool(row.marker_error)

            work(failed)
            assert (row.marker_error_code, row.error) == ("database.access_denied", "")
            assert business.statuses() == []


@pytest.mark.database
@pytest.mark.parametrize(
    ("days", "subject_hours", "kept_days"),
    [(1, None, 3), (1, 24.0 * 10, 10), (5, 24.0 * 2, 5)],
    ids=["not below the brokers' default", "not below a subject's", "the database's own"],
)
def test_markers_are_kept_as_long_as_messages(
    cluster: ThreadedSystem,
    tmp_path: Path,
    work: Callable[[Callable[[], object]], str],
    days: int,
    subject_hours: float | None,
    kept_days: int,
) -> None:
    Subject.objects.create(name="orders.kept", retention_hours=subject_hours)
    shop = in_folder(tmp_path)
    shop.make_tables()
    shop.execute(*marker_ddl(shop.kind))
    for age in (kept_days - 0.1, kept_days + 0.1):
        insert_markers(shop, age, 1)
    row = registered(shop, marker_table="qmq_processed", marker_days=days)

    def cleaned() -> bool:
        row.refresh_from_db()
        return row.marker_cleanup_at is not None

    assert work(cleaned) == "1 database, 0 messages sent, 1 marker deleted"
    assert markers_of(shop) == 1


def test_a_disabled_database_is_left_alone_within_a_tick(
    cluster: ThreadedSystem, tmp_path: Path, work: Callable[[Callable[[], object]], str]
) -> None:
    shops = [in_folder(tmp_path, f"{name}.sqlite3") for name in ("one", "two")]
    for shop in shops:
        shop.make_tables()
    one, two = (registered(shop, f"shop {number}") for number, shop in enumerate(shops))
    work(lambda: numbers(one).unknown is None and numbers(two).unknown is None)
    steps = 0

    def step() -> bool:
        nonlocal steps
        steps += 1
        if steps == 1:
            OutboxDatabase.objects.filter(pk=one.pk).update(is_enabled=False)
            for shop in shops:
                shop.insert(content(subject="orders"))
        return not shops[1].statuses()

    # Passes of the two begin together; the disabled one's was stopped before it could read a row, or by the next tick.
    work(step)
    tried = passes_of(one)
    work(lambda: passes_of(two) > 3)
    assert passes_of(one) == tried
    assert numbers(one).unknown is Unknown.DISABLED


def test_a_name_that_is_not_allowed_any_more_is_not_connected_to(
    cluster: ThreadedSystem,
    settings: Any,
    business: Business,
    work: Callable[[Callable[[], object]], str],
) -> None:
    settings.OUTBOX_NETWORKS = ["10.0.0.0/8"]
    settings.OUTBOX_SQLITE_FOLDER = ""
    row = registered(business)
    work(lambda: numbers(row).unknown is Unknown.FAILED)
    assert row.error_code == "database.address_forbidden"


def test_a_password_that_cant_be_read_is_a_failure_of_its_database(
    cluster: ThreadedSystem, mariadb_server: Server, settings: Any, work: Callable[[Callable[[], object]], str]
) -> None:
    with on_server(mariadb_server, f"sealed_{os.getpid()}") as business:
        row = registered(business, sealed=PASSWORDS.seal({"password": "secret"}))
        settings.SECRET_KEY = "another key than the one that it was sealed with"
        work(lambda: numbers(row).unknown is Unknown.FAILED)
        assert row.error_code == "outbox_database.password_unreadable"
        assert "QMQ_SECRET_KEY_FALLBACKS" in row.error


def test_without_databases_there_is_nothing_to_do_and_the_job_ends() -> None:
    assert jobs.run("outbox").text == "no databases"
    assert BackgroundJob.objects.get(name="outbox").result_parts == [{"code": "outbox.none", "values": {}}]


def test_an_outage_of_the_control_planes_database_ends_no_relay(
    cluster: ThreadedSystem,
    tmp_path: Path,
    work: Callable[[Callable[[], object]], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = in_folder(tmp_path)
    shop.make_tables()
    row = registered(shop)
    work(lambda: numbers(row).unknown is None)

    def fails(*_: object, **__: object) -> None:
        raise OperationalError("gone")

    is_away = False

    def away() -> bool:
        nonlocal is_away
        if not is_away and passes_of(row) > 1:
            is_away = True
            shop.insert(content())
            monkeypatch.setattr(OutboxDatabase.objects, "filter", fails)
        return is_away and not shop.statuses()

    work(away)
    monkeypatch.undo()
    assert cluster.consume("orders", "billing", 1)


def test_a_late_result_is_not_stored_with_a_database_that_was_changed(tmp_path: Path) -> None:
    row = registered(in_folder(tmp_path))
    before = OutboxDatabase.objects.get(pk=row.pk)
    OutboxDatabase.objects.filter(pk=row.pk).update(version=2)
    outbox.note_pass(passes.Passed(before, Pass(), failure=DatabaseFailed("x")), timezone.now())
    row.refresh_from_db()
    assert row.error == ""
    assert row.kind == Kind.SQLITE
