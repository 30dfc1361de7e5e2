"""The relay on a real database: what it sends, deletes and leaves, and how relays take turns."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from qmq.cli import main
from qmq.clock import SYSTEM_CLOCK
from qmq.errors import DatabaseFailed
from qmq.outbox import relay as relay_module
from qmq.outbox.databases import Address, Connection, Kind, connect
from qmq.outbox.dialects import BACKOFF_SECONDS_MAX, CLOCK_STEP_SECONDS, INLINE_BYTES_MAX, LEASE_TABLE, TABLE
from qmq.outbox.lease import LEASE_SECONDS, RENEW_SECONDS
from qmq.outbox.relay import Pass, Relay, backoff_seconds
from qmq.outbox.relaying import Relaying
from qmq.outbox.rows import LAST_ERROR_CHARS_MAX, Status
from qmq.outbox.sends import REST_SECONDS
from qmq.sync import Consumer, Producer
from tests.support.manual_clock import ManualClock
from tests.support.outbox import ScriptedProducer, Table, content, ids_of, refused, unavailable
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.database


@pytest.fixture
def table(database_url: str) -> Iterator[Table]:
    found = Table(Address.parse(database_url.partition("?")[0]))
    yield found
    found.connection.close()


class Relays:
    """Relays of one table, closed after the test."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.clock = ManualClock()
        self.made: list[Relay] = []

    def __call__(
        self, producer: Any = None, connect_with: Callable[[], Connection] | None = None, **options: Any
    ) -> Relay:
        connect_to = connect_with or partial(connect, self.table.address)
        options = {"clock": self.clock, **options}
        self.made.append(Relay(connect_to, producer or ScriptedProducer(), **options))
        return self.made[-1]


@pytest.fixture
def relays(table: Table) -> Iterator[Relays]:
    found = Relays(table)
    yield found
    for each in found.made:
        each.close()


def contents(count: int, subject: str = "s") -> list[str]:
    return [content(subject, f"m{number}") for number in range(count)]


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_rows_that_are_due_are_sent_in_their_order_and_deleted(table: Table, relays: Relays) -> None:
    table.add(*contents(3))
    [young] = table.add(content("s", "young"), age_seconds=30)
    producer = ScriptedProducer()
    assert relays(producer).run_pass() == Pass(sent=3)
    assert ids_of(producer.requests) == [["m0", "m1", "m2"]]
    assert list(table.rows()) == [young]


def test_rows_that_a_java_relay_failed_to_send_are_sent(table: Table, relays: Relays) -> None:
    table.add(content("s", "failed"), status=Status.FAILED)
    waiting = table.add(content("s", "refused"), status=Status.REFUSED) + table.add("{}", status=Status.INVALID)
    producer = ScriptedProducer()
    relays(producer).run_pass()
    assert producer.stored == ["failed"]
    assert list(table.rows()) == waiting


def test_messages_arrive_with_tags_properties_and_body(table: Table, relays: Relays, served: System) -> None:
    attrs = {
        "data": "caf\u00e9 \U0001f600", "number": 7, "long": "9007199254740993", "fraction": 1.5, "yes": True,
        "qmq_createTime": "1790000000000", "qmq_appCode": "java",
    }  # fmt: skip
    java = {
        "messageId": "j1",
        "subject": "outbox.java",
        "tags": ["a", "b"],
        "storeAtFailed": False,
        "durable": True,
        "attrs": attrs,
    }
    table.add(json.dumps(java))
    with (
        Consumer(served.meta_url, "outbox.java", group="g", start="earliest") as consumer,
        Producer(served.meta_url, app="tests") as producer,
    ):
        assert relays(producer).run_pass().sent == 1
        delivery = next(iter(consumer))
        assert delivery.message_id == "j1"
        assert set(delivery.tags) == {"a", "b"}
        assert delivery.properties["data"] == "caf\u00e9 \U0001f600"
        shown = {key: delivery.properties[key] for key in ("number", "long", "fraction", "yes")}
        assert shown == {"number": "7", "long": "9007199254740993", "fraction": "1.5", "yes": "true"}
        delivery.ack()
    assert not table.rows()


def test_a_delayed_message_goes_to_a_delay_node_and_one_too_far_ahead_to_an_operator(
    table: Table, relays: Relays, served: System
) -> None:
    soon = SYSTEM_CLOCK.wall_ms() + 86_400_000
    far = soon + 100 * 365 * 86_400_000
    table.add(content("outbox.later", "soon", qmq_scheduleReceiveTime=str(soon)))
    [too_far] = table.add(content("outbox.later", "far", qmq_scheduleReceiveTime=str(far)))
    with Producer(served.meta_url, app="tests") as producer:
        assert relays(producer).run_pass() == Pass(sent=1, ended=1)
    status, errors, problem = table.rows()[too_far]
    assert (status, errors) == (Status.REFUSED, 1)
    assert "delay.too_far" in (problem or "")


def test_what_is_no_message_is_left_to_an_operator_with_the_reason(
    table: Table, relays: Relays, caplog: pytest.LogCaptureFixture
) -> None:
    bad = {
        "not json": "is not JSON",
        "[1]": "not an object",
        '{"messageId": "m"}': "no subject",
        '{"subject": "s"}': "no messageId",
        content("${subject}", "m"): "placeholder",
        content("a subject", "m"): "subject",
        content("s", "m" * 101): "message id",
        content("s", "m", qmq_scheduleReceiveTime=str(1 << 60)): "qmq_scheduleReceiveTime",
        content("s", "m", large="x" * 40_000): "large",
        '{"subject": "s", "messageId": "m", "attrs": {"a": {}}}': "'a'",
        "9" * 5_000: "not an object",
        "[" * 100_000: "is not JSON",
    }
    ids = dict(zip(table.add(*bad), bad.values(), strict=True))
    table.add(content("s", "good"))
    producer = ScriptedProducer()
    with caplog.at_level(logging.ERROR):
        assert relays(producer).run_pass() == Pass(sent=1, ended=len(bad))
    assert producer.stored == ["good"]
    for row_id, (status, errors, problem) in table.rows().items():
        assert (status, errors) == (Status.INVALID, 1), problem
        assert ids[row_id].lower() in (problem or "").lower()
        assert len(problem or "") <= LAST_ERROR_CHARS_MAX


def test_large_contents_are_read_apart_in_parts_that_fit_memory(
    table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MEMORY_BYTES", 100_000)
    monkeypatch.setattr(relay_module, "CONTENT_BYTES_MAX", 200_000)
    sizes = [10, INLINE_BYTES_MAX + 1, 60_000, 60_000, 150_000, 10, 300_000, 10]
    texts = [content("s", f"m{number}", **parts(size)) for number, size in enumerate(sizes)]
    ids = table.add(*texts)
    read: list[int] = []

    class Watched(Connection):
        def rows(self, sql: str, values: Any = ()) -> list[tuple[Any, ...]]:
            found = super().rows(sql, values)
            if "content" in sql:
                read.append(sum(len(cell) for row in found for cell in row if isinstance(cell, str)))
            return found

    producer = ScriptedProducer()
    relay = relays(producer, lambda: Watched(connect(table.address).raw))
    assert relay.run_pass() == Pass(sent=7, ended=1)
    assert [message_id for ids_ in ids_of(producer.requests) for message_id in ids_] == [
        "m0",
        "m1",
        "m2",
        "m3",
        "m4",
        "m5",
        "m7",
    ]
    assert max(read) < 200_000
    assert "300" in (table.rows()[ids[6]][2] or "")


def parts(size: int) -> dict[str, str]:
    return {f"data#part{number}": "x" * min(30_000, size - 30_000 * number) for number in range(-(-size // 30_000))}


def test_more_rows_than_are_read_at_once(table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "ROWS_AT_ONCE", 10)
    table.add(*contents(25))
    producer = ScriptedProducer()
    assert relays(producer).run_pass() == Pass(sent=25)
    assert [len(ids) for ids in ids_of(producer.requests)] == [10, 10, 5]


# --- what is not sent -----------------------------------------------------------------------------------------------


def test_an_outage_changes_no_row_and_does_not_hold_up_other_subjects(table: Table, relays: Relays) -> None:
    table.add(*contents(3, "down"), content("up", "u0"))
    before = table.rows()
    producer = ScriptedProducer(lambda subject, ids: unavailable() if subject == "down" else None)
    relay = relays(producer)
    done = relay.run_pass()
    assert (done.sent, done.left, done.failed) == (1, 3, 0)
    assert done.problems == {"down": "no broker answers"}
    for _ in range(3):
        relays.clock.advance(REST_SECONDS)
        relay.run_pass()
    assert table.rows() == {row_id: row for row_id, row in before.items() if row_id in table.rows()}
    assert len(table.rows()) == 3
    producer.answer = lambda subject, ids: None
    for _ in range(3):
        relays.clock.advance(REST_SECONDS)
        relay.run_pass()
    assert not table.rows()


def test_a_pass_over_many_rows_of_unavailable_subjects_ends_and_the_next_goes_on_behind_them(
    table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(relay_module, "LEFT_ROWS_MAX", 30)
    table.add(*contents(40, "down"), content("up", "u0"))
    producer = ScriptedProducer(lambda subject, ids: unavailable() if subject == "down" else None)
    relay = relays(producer)
    assert relay.run_pass().left == 30
    assert "u0" not in producer.stored
    relay.run_pass()
    assert "u0" in producer.stored
    producer.answer = lambda subject, ids: None
    for _ in range(6):
        relays.clock.advance(REST_SECONDS)
        relay.run_pass()
    assert not table.rows()


def test_a_row_with_an_error_of_its_own_backs_off_and_is_tried_indefinitely(table: Table, relays: Relays) -> None:
    first, second = table.add(*contents(2))
    producer = ScriptedProducer(lambda subject, ids: {"m1": unavailable()} if "m1" in ids else None)
    relay = relays(producer)
    assert relay.run_pass() == Pass(sent=1, failed=1)
    assert first not in table.rows()
    assert table.rows()[second] == (Status.PENDING, 1, "no broker answers")
    assert relay.run_pass() == Pass(), "it was tried again at once"
    assert [backoff_seconds(errors) for errors in (0, 1, 2, 9, 10, 10_000)] == [1, 2, 4, 512, 600, 600]
    producer.answer = lambda subject, ids: None
    # As old as after the back-off.
    table.set(second, age_seconds=61)
    assert relay.run_pass() == Pass(sent=1)


def test_a_row_rests_for_its_back_off(table: Table, relays: Relays) -> None:
    [row_id] = table.add(content("s", "m"))
    now = {
        Kind.SQLITE: "julianday(update_time) * 86400 - julianday('now') * 86400",
        Kind.POSTGRESQL: "extract(epoch from update_time - clock_timestamp())",
        Kind.MYSQL: "timestampdiff(second, now(), update_time)",
    }[table.address.kind]
    for errors in (1, 3, 9):
        table.connection.change(f"UPDATE {TABLE} SET error = ? WHERE id = ?", [errors, row_id])
        table.set(row_id, age_seconds=120)
        table.add(content("s", "other"))
        relays(ScriptedProducer(lambda subject, ids: {"m": unavailable()}), grace_seconds=60).run_pass()
        relays.made.pop().close()
        [[seconds]] = table.connection.rows(f"SELECT {now} FROM {TABLE} WHERE id = ?", [row_id])
        assert float(seconds) + 60 == pytest.approx(2**errors, abs=30)


def test_a_refused_row_is_left_to_an_operator(table: Table, relays: Relays) -> None:
    ids = table.add(*contents(2))
    relay = relays(ScriptedProducer(lambda subject, found: {"m0": refused()}))
    assert relay.run_pass() == Pass(sent=1, ended=1)
    assert table.rows() == {ids[0]: (Status.REFUSED, 1, "refused")}


def test_old_rows_are_given_up_only_if_that_is_configured_and_they_can_not_be_sent(
    table: Table, relays: Relays
) -> None:
    table.add(*contents(2, "down"), content("up", "u0"))
    producer = ScriptedProducer(lambda subject, ids: unavailable() if subject == "down" else None)
    done = relays(producer, age_hours_max=-1.0).run_pass()
    assert (done.sent, done.ended) == (1, 2)
    assert {status for status, _, _ in table.rows().values()} == {Status.INVALID}
    assert all("too old after" in (problem or "") for _, _, problem in table.rows().values())


# --- clocks ---------------------------------------------------------------------------------------------------------


def test_rows_from_before_the_databases_clock_stepped_back_are_sent(table: Table, relays: Relays) -> None:
    table.add(content("s", "stepped"), age_seconds=-3_600)
    [resting] = table.add(content("s", "resting"), age_seconds=-(BACKOFF_SECONDS_MAX - CLOCK_STEP_SECONDS))
    producer = ScriptedProducer()
    relays(producer).run_pass()
    assert producer.stored == ["stepped"]
    assert list(table.rows()) == [resting]


# --- lease ----------------------------------------------------------------------------------------------------------


def test_one_relay_at_a_time_serves_a_table_also_with_the_same_label(table: Table, relays: Relays) -> None:
    first, second = relays(label="host"), relays(label="host")
    assert first.run_pass().is_leader
    table.add(content("s", "m"))
    assert not second.run_pass().is_leader
    assert len(table.rows()) == 1
    first.close()
    assert second.run_pass() == Pass(sent=1)


def lease(table: Table, change: str) -> None:
    assert table.connection.change(f"UPDATE {LEASE_TABLE} SET {change}") == 1


@pytest.mark.parametrize(
    "change", ["until_ms = until_ms - 20000", "until_ms = until_ms + 3600000", "until_ms = until_ms - 3600000"]
)
def test_a_lease_that_has_expired_or_ends_later_than_any_can_is_free(table: Table, relays: Relays, change: str) -> None:
    """The last two: the clock of the database has stepped an hour."""
    first, second = relays(), relays()
    first.run_pass()
    assert not second.run_pass().is_leader
    lease(table, change)
    assert second.run_pass().is_leader
    assert not first.run_pass().is_leader


def test_an_expired_lease_that_nobody_took_is_renewed(table: Table, relays: Relays) -> None:
    first = relays()
    first.run_pass()
    lease(table, "until_ms = 1")
    relays.clock.advance(RENEW_SECONDS)
    assert first.run_pass().is_leader
    assert not relays().run_pass().is_leader


@pytest.mark.parametrize("change", ["holder = 'somebody'", "generation = generation + 1", "generation = 0"])
def test_a_holder_notices_a_lease_that_was_edited_by_hand(table: Table, relays: Relays, change: str) -> None:
    first = relays()
    first.run_pass()
    lease(table, change)
    table.add(content("s", "m"))
    assert not first.run_pass().is_leader
    assert len(table.rows()) == 1


def test_a_lease_row_that_was_deleted_is_made_again(table: Table, relays: Relays) -> None:
    first = relays()
    first.run_pass()
    table.connection.change(f"DELETE FROM {LEASE_TABLE}")
    assert first.run_pass().is_leader


TAKEN = "holder = 'another', generation = generation + 1"


def test_a_relay_that_was_paused_while_it_sent_deletes_nothing_once_another_holds_the_lease(
    table: Table, relays: Relays
) -> None:
    """The row could be another one with the same ID, in a table that was truncated meanwhile."""
    [row_id] = table.add(content("s", "m"))
    done = relays(producer := ScriptedProducer(lambda subject, ids: lease(table, TAKEN))).run_pass()
    assert producer.stored == ["m"]
    assert done.sent == 0
    assert list(table.rows()) == [row_id]


def test_a_relay_that_lost_its_lease_sends_no_more(
    table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "MEMORY_BYTES", 1)  # each row is a part of its own
    table.add(*contents(3))
    done = relays(producer := ScriptedProducer(lambda subject, ids: lease(table, TAKEN))).run_pass()
    assert producer.stored == ["m0"]
    assert not done.is_leader


def test_leases_last_and_are_renewed_while_a_pass_runs(
    table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "ROWS_AT_ONCE", 1)
    table.add(*contents(3))

    def take_long(subject: str, ids: list[str]) -> None:
        relays.clock.advance(RENEW_SECONDS)
        lease(table, f"until_ms = until_ms - {int(LEASE_SECONDS * 500)}")  # half of it has passed

    assert relays(ScriptedProducer(take_long)).run_pass() == Pass(sent=3)


# --- failures and the end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["error", "last_error"])
def test_a_missing_table_and_one_with_other_columns_are_named(table: Table, relays: Relays, column: str) -> None:
    """A table that QMQ has made lacks `last_error`, which matters only when a row fails."""
    with pytest.raises(DatabaseFailed, match=r"qmq outbox ddl .* --table no_such_table") as missing:
        relays(table="no_such_table").run_pass()
    assert missing.value.code == "database.table_missing"
    table.connection.change(f"ALTER TABLE {TABLE} RENAME COLUMN {column} TO another")
    with pytest.raises(DatabaseFailed, match=column) as differs:
        relays().run_pass()
    assert differs.value.code == "database.table_differs"


def test_after_a_failure_the_next_pass_opens_a_new_connection(table: Table, relays: Relays) -> None:
    opened: list[Connection] = []

    def open_one() -> Connection:
        opened.append(connect(table.address))
        return opened[-1]

    relay = relays(connect_with=open_one)
    relay.run_pass()
    table.add(content("s", "m"))
    opened[0].raw.close()
    with pytest.raises(DatabaseFailed):
        relay.run_pass()
    assert relay.run_pass() == Pass(sent=1)
    assert len(opened) == 2


def test_a_relay_that_is_stopped_finishes_its_rows(
    table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_module, "ROWS_AT_ONCE", 2)
    table.add(*contents(6))
    relay = relays(producer := ScriptedProducer(lambda subject, ids: relay.stop()))
    assert relay.run_pass() == Pass(sent=2)
    assert producer.stored == ["m0", "m1"]
    assert len(table.rows()) == 4


def test_a_pass_ends_when_its_time_is_over(table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "ROWS_AT_ONCE", 2)
    table.add(*contents(6))
    relay = relays(ScriptedProducer(lambda subject, ids: relays.clock.advance(10)))
    assert relay.run_pass(seconds=15) == Pass(sent=4)
    assert relay.run_pass(seconds=15) == Pass(sent=2)


def test_a_rate_limits_the_rows_of_a_second(table: Table, relays: Relays) -> None:
    table.add(*contents(5))
    relay = relays(producer := ScriptedProducer(), rows_per_second=2.0)
    waits: list[float] = []
    monkeypatched = relay._stopping
    relay._stopping = type(
        "Waits", (), {"is_set": monkeypatched.is_set, "set": monkeypatched.set, "wait": waits.append}
    )()  # type: ignore[assignment]
    assert relay.run_pass() == Pass(sent=5)
    assert [len(ids) for ids in ids_of(producer.requests)] == [2, 2, 1]
    assert waits == [pytest.approx(1.0), pytest.approx(1.0)]


def test_a_database_that_fails_delays_no_other(table: Table, relays: Relays) -> None:
    blocked, release = threading.Event(), threading.Event()

    def hang() -> Connection:
        blocked.set()
        release.wait()
        raise DatabaseFailed("no answer", code="database.unreachable")

    table.add(content("s", "m"))
    seen: dict[str, list[Any]] = {"hangs": [], "works": []}
    relaying = Relaying(
        {"hangs": relays(connect_with=hang), "works": relays()},
        lambda name, done: seen[name].append(done),
    )
    thread = threading.Thread(target=relaying.run)
    thread.start()
    try:
        blocked.wait()
        eventually(lambda: seen["works"], what="the other database is served")
        assert seen["works"][0] == Pass(sent=1)
        assert not seen["hangs"]
    finally:
        relaying.stop()
        release.set()
        thread.join()
    assert isinstance(seen["hangs"][0], DatabaseFailed)


def test_stopping_ends_passes_after_their_rows(table: Table, relays: Relays, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "ROWS_AT_ONCE", 2)
    table.add(*contents(6))
    relaying = Relaying(
        {"one": relays(producer := ScriptedProducer(lambda subject, ids: relaying.stop()))}, lambda *_: None
    )
    relaying.run()
    assert producer.stored == ["m0", "m1"]


def test_what_a_relay_raises_unexpectedly_ends_all(table: Table, relays: Relays) -> None:
    def breaks() -> Connection:
        raise ValueError("a bug")

    relaying = Relaying({"breaks": relays(connect_with=breaks), "works": relays()}, lambda name, done: None)
    with pytest.raises(ValueError, match="a bug"):
        relaying.run()


@pytest.fixture
def qmq(
    table: Table, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Run `qmq outbox` in this process: exit code, output, errors."""
    monkeypatch.setenv("QMQ_DATABASE_PASSWORD", table.address.password)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["outbox", *arguments])
        return code, *capsys.readouterr()

    return run


def test_commands(table: Table, served: System, qmq: Callable[..., tuple[int, str, str]]) -> None:
    database = ["--database", str(table.address)]
    table.add(content("outbox.command", "m0"))
    table.add("{}", status=Status.INVALID)
    code, out, _ = qmq("ddl", str(table.address.kind))
    assert code == 0
    for statement in [each for each in out.split(";") if each.strip()]:
        table.connection.change(statement)  # what exists is not made again
    code, out, _ = qmq("status", *database, "--json")
    found = json.loads(out)
    assert found.pop("oldest_seconds") >= 0
    assert found == {"pending": 1, "failed": 1, "relay": None}
    code, out, err = qmq("relay", *database, "--once", "--meta", served.meta_url)
    assert (code, out.split(",")[0], err) == (0, "1 message sent", "")
    code, out, _ = qmq("status", *database)
    assert out.splitlines() == ["pending  0", "failed   1, for an operator", "relay    none"]


def test_commands_name_what_is_wrong(table: Table, qmq: Callable[..., tuple[int, str, str]]) -> None:
    database = ["--database", str(table.address)]
    assert qmq("status", "--database", "oracle://host/x")[::2] == (
        2, "qmq: database 'oracle://host/x': must begin with postgresql://, mysql:// or sqlite:///\n",
    )  # fmt: skip
    code, _, err = qmq("status", *database, "--table", "a b")
    assert (code, "table 'a b': must be a name" in err) == (2, True)
    code, _, err = qmq("status", *database, "--table", "other")
    assert (code, "other" in err) == (1, True)


def test_the_relay_command_ends_at_sigterm_and_gives_its_lease_back(table: Table, served: System) -> None:
    table.add(content("outbox.command", "m0"))
    command = [
        sys.executable,
        "-m",
        "qmq.cli",
        "outbox",
        "relay",
        "--database",
        str(table.address),
        "--meta",
        served.meta_url,
    ]
    environment = {**os.environ, "QMQ_DATABASE_PASSWORD": table.address.password}
    with subprocess.Popen(
        command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as relay:
        try:
            eventually(lambda: not table.rows(), what="the row is sent")
            relay.send_signal(signal.SIGTERM)
            out, _ = relay.communicate()
        finally:
            relay.kill()
    assert (relay.returncode, out) == (
        0,
        b"1 message sent, 0 to be tried again, 0 for an operator, 0 of unavailable subjects\n",
    )
    assert table.connection.rows(f"SELECT until_ms FROM {LEASE_TABLE}") == [(0,)]
