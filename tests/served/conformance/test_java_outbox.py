"""Transactional messages of the official Java client sent by our relay, and ours sent by QMQ's watchdog.

The driver runs the client's own classes in Spring's transactions. The watchdog is not in Maven Central, so the driver makes its
calls: the same statements, the same Gson, a producer without a store.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from qmq import DelayedMessages
from qmq.client.bodies import encode_body
from qmq.client.delivery import Delivery
from qmq.client.message import standard_properties
from qmq.client.middleware import OutgoingMessage
from qmq.clock import SYSTEM_CLOCK
from qmq.errors import QmqError
from qmq.outbox.databases import Address, Kind, connect
from qmq.outbox.dialects import TABLE, ddl
from qmq.outbox.relay import Pass, Relay
from qmq.outbox.rows import Status, content_of
from qmq.protocol.messages import KEY_SCHEDULE, Message
from qmq.sync import Producer
from tests.served.conformance.bodies import (
    BORN,
    FROM_JAVA,
    LARGE,
    SENT,
    TEXT,
    TYPED,
    Paid,
    Reads,
    ms,
    read_all,
    receive,
)
from tests.served.conformance.driver import NEWEST, JavaClient, group_begun, listen
from tests.support.outbox import ScriptedProducer, Table, unavailable
from tests.support.servers.services import Server, own_database
from tests.support.servers.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("java_tools")

JAVA_TABLE = "qmq_produce.qmq_msg_queue"
"""The default table of Java programs, and the only one that QMQ's watchdog reads."""
DAY = timedelta(days=1)
REFUSED_BYTES = 40_000
"""A property that a broker refuses for good."""


@pytest.fixture(scope="module")
def client(java_tools: None, served: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaClient]:
    """The Java process of all tests here."""
    found = JavaClient(NEWEST, served.meta_url, "java@@outbox", tmp_path_factory.mktemp("java") / "log")
    yield found
    found.stop()


class Outbox:
    """A database in which Java and Python have their tables."""

    _business = itertools.count(1)

    def __init__(self, client: JavaClient, name: str, url: str, table: str) -> None:
        address = Address.parse(url.partition("?")[0])
        self.client, self.name = client, name
        if not table:
            self._make_as_qmq(address)
        self.table = Table(address, table or JAVA_TABLE)
        if not table:
            [added] = [line for line in ddl(Kind.MYSQL, JAVA_TABLE).splitlines() if "ALTER TABLE" in line]
            self.table.connection.change(added.removeprefix("-- "))
        self.table.connection.change("CREATE TABLE business (id int PRIMARY KEY)")
        scheme = "mariadb" if address.kind is Kind.MYSQL else "postgresql"
        jdbc = f"jdbc:{scheme}://{address.host}:{address.port}/{address.database}?user={address.user}"
        client.do("openOutbox", outbox=name, url=jdbc, table=table)

    @staticmethod
    def _make_as_qmq(address: Address) -> None:
        """Make the table as it is where QMQ's Java programs are in use, without our column."""
        connection = connect(address)
        connection.change(
            f"CREATE TABLE {JAVA_TABLE} (id bigint(20) NOT NULL AUTO_INCREMENT PRIMARY KEY, content longtext NOT NULL,"
            " status smallint(6) NOT NULL DEFAULT 0, error int unsigned NOT NULL DEFAULT 0, create_time datetime NOT NULL,"
            " update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP)"
            " ENGINE = InnoDB DEFAULT CHARSET = utf8mb4"
        )
        connection.close()

    def clear(self) -> None:
        self.table.connection.change(f"DELETE FROM {self.table.table}")

    def close(self) -> None:
        self.table.connection.close()

    def run(self, end: str, *messages: dict[str, Any], **facts: Any) -> dict[str, Any]:
        """Run a transaction of Java that sends these messages; what the driver reports of it."""
        number, count = next(self._business), len(self.client.of("ended"))
        self.client.do("transaction", outbox=self.name, id=number, end=end, messages=messages, **facts)
        ended = self.client.wait("ended", count + 1)[count]
        is_there = bool(self.table.connection.rows("SELECT 1 FROM business WHERE id = ?", [number]))
        return {"committed": is_there, **ended}

    def wait_for(self, event: str, ids: list[str]) -> None:
        """Wait for an event of each of these messages."""
        eventually(lambda: set(ids) <= {each["id"] for each in self.client.of(event)}, what=f"{event}: {ids}")

    def watch(self) -> list[dict[str, Any]]:
        """One round of the watchdog; what it read."""
        count = len(self.client.of("watched"))
        self.client.do("watch", outbox=self.name)
        rows: list[dict[str, Any]] = self.client.wait("watched", count + 1)[count]["rows"]
        return rows

    def relay(self, producer: Any, **options: Any) -> Pass:
        """One pass of our relay over all rows, also young ones."""
        options = {"grace_seconds": 0.0, **options}
        relay = Relay(partial(connect, self.table.address), producer, table=self.table.table, **options)
        try:
            return relay.run_pass()
        finally:
            relay.close()


@pytest.fixture(scope="module")
def outboxes(client: JavaClient, mariadb_server: Server, postgresql_server: Server) -> Iterator[dict[str, Outbox]]:
    """By name: a table of a name of its own, one of QMQ with our column added, and one in PostgreSQL."""
    with ExitStack() as stack:
        stack.enter_context(own_database(mariadb_server.url, "qmq_produce"))
        found = {}
        for name, server, table in (
            ("mariadb", mariadb_server, "outbox_of_java"), ("default", mariadb_server, ""),
            ("postgresql", postgresql_server, TABLE),
        ):  # fmt: skip
            url = stack.enter_context(own_database(server.url, f"qmq_java_{name}"))
            found[name] = Outbox(client, name, url, table)
            stack.callback(found[name].close)
        yield found


@pytest.fixture(params=["mariadb", "default", "postgresql"])
def outbox(outboxes: dict[str, Outbox], request: pytest.FixtureRequest) -> Iterator[Outbox]:
    """Each of the three; a test has to leave no rows behind."""
    found = outboxes[request.param]
    yield found
    left = found.table.rows()
    found.clear()
    assert not left


@pytest.fixture
def default_outbox(outboxes: dict[str, Outbox]) -> Iterator[Outbox]:
    """The table that QMQ's watchdog reads."""
    yield outboxes["default"]
    outboxes["default"].clear()


@pytest.fixture
def subject(request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).translate(str.maketrans("[]", "--"))
    return name[:80].rstrip("-")


@pytest.fixture(scope="module")
def producer(served: System) -> Iterator[Producer]:
    """What relays send with."""
    with Producer(served.meta_url, app="relay") as found:
        yield found


@pytest.fixture
async def delayed(served: System) -> AsyncIterator[DelayedMessages]:
    async with DelayedMessages(served.meta_url) as found:
        yield found


def shape(message: Message) -> tuple[dict[str, str], tuple[str, ...]]:
    """What has to be the same: all properties, those of the protocol included, and the tags."""
    return message.properties, message.tags


# --- Java writes ----------------------------------------------------------------------------------------------------

FINITE = {**TYPED, "limit": ["double", "1.7976931348623157E308"]}
"""JSON has no infinity."""
SPLIT = "x" * 8_191 + "😀"
"""Java splits a large string after 8,192 UTF-16 units: between the two halves of this character."""
WRITTEN: dict[str, dict[str, Any]] = {
    "every setter": {"typed": FINITE, "tags": ["eu", "字"]},
    "no properties": {},
    "extremes": {
        "typed": {
            "int": ["int", "-2147483648"],
            "long": ["long", str(-(2**63))],
            "beyond double": ["long", str(2**53 + 1)],
            "float": ["float", "3.4028235E38"],
            "double": ["double", "4.9E-324"],
            "whole": ["double", "1.0E7"],
            "negative zero": ["double", "-0.0"],
            "before 1970": ["date", "-1"],
            "empty": ["string", ""],
            "字 😀": ["string", "key"],
        }
    },
    "controls": {"properties": {"all": "".join(map(chr, range(32))) + "\x7f\x80\u2028\u2029\ufeff\ufffe"}},
    "markup": {"properties": {"html": "<a href='x'>&=\"\\/"}},
    "half a character": {"properties": {"high": "a\ud83d", "low": "\ude00b"}},
    "large string": {"typed": {"data": ["largeString", LARGE], "split": ["largeString", SPLIT * 3]}},
    "attempts": {"maxRetry": 7, "tags": [str(number) for number in range(10)]},
    **{name: {"typed": typed} for name, (typed, *_) in FROM_JAVA.items()},
}  # fmt: skip
"""Messages that Java writes, as commands of the driver."""


async def test_rows_of_java_are_sent_as_java_sends_them(
    outbox: Outbox, served: System, producer: Producer, subject: str
) -> None:
    messages = [{"subject": subject, **facts} for facts in WRITTEN.values()]
    ended = await asyncio.to_thread(outbox.run, "crash", *messages, direct=True)
    assert (ended["committed"], ended["raised"]) == (True, "ProgramEnded")
    assert len(outbox.table.rows()) == len(messages)
    sent = await asyncio.to_thread(outbox.relay, producer)
    assert sent == Pass(sent=len(messages))
    found: dict[str, list[Delivery]] = {message_id: [] for message_id in ended["ids"]}
    for delivery in await receive(served, subject, 2 * len(messages)):
        found[delivery.message_id].append(delivery)
    for name, copies in zip(WRITTEN, found.values(), strict=True):
        direct, relayed = [shape(each.message) for each in copies]
        assert relayed == direct, name
        assert len({each.created_at for each in copies}) == 1
    setters = found[ended["ids"][0]][0]
    assert setters.decode(Paid).note == LARGE
    assert (setters.tags, setters.properties["text"], setters.properties["born"]) == (("eu", "字"), TEXT, str(ms(BORN)))


async def test_a_java_listener_gets_what_java_has_written(
    client: JavaClient, default_outbox: Outbox, served: System, producer: Producer, subject: str
) -> None:
    await asyncio.to_thread(listen, client, subject, retain=True)
    await asyncio.to_thread(group_begun, served, subject, "g")
    ended = await asyncio.to_thread(
        default_outbox.run, "crash", {"subject": subject, "typed": FINITE, "tags": ["eu", "字"]}
    )
    assert await asyncio.to_thread(default_outbox.relay, producer) == Pass(sent=1)
    (event,) = await asyncio.to_thread(client.wait, "message", 1, f"{subject}/g")
    assert ([event["id"]], event["tags"]) == (ended["ids"], ["eu", "字"])
    expected: Reads = {
        ("getIntProperty", "count"): -17, ("getLongProperty", "total"): 2**62, ("getFloatProperty", "rate"): 0.1,
        ("getDoubleProperty", "ratio"): 1e-10, ("getBooleanProperty", "paid"): True,
        ("getBooleanProperty", "open"): False, ("getDateProperty", "born"): ms(BORN), ("getStringProperty", "text"): TEXT,
        ("getLargeString", "note"): LARGE,
    }  # fmt: skip
    assert await asyncio.to_thread(read_all, client, f"{subject}/g", event["id"], expected) == expected


async def test_delayed_rows_of_java_are_sent_as_java_sends_them(
    outbox: Outbox, served: System, producer: Producer, delayed: DelayedMessages, subject: str
) -> None:
    message = {"subject": subject, "typed": FINITE, "tags": ["eu"], "delayMs": DAY // timedelta(milliseconds=1)}
    began = datetime.now(UTC)
    ended = await asyncio.to_thread(outbox.run, "crash", message, direct=True)
    (message_id,) = ended["ids"]
    assert await asyncio.to_thread(outbox.relay, producer) == Pass(sent=1)
    await asyncio.to_thread(outbox.wait_for, "sent", ended["ids"])
    direct, relayed = (await delayed.find(message_id, subject=subject)).messages
    assert shape(direct.item.message) == shape(relayed.item.message)
    assert direct.due_at == relayed.due_at
    assert began + DAY - timedelta(milliseconds=1) <= relayed.due_at <= datetime.now(UTC) + DAY
    assert (await delayed.deliver(message_id, subject=subject)).outcome == "done"
    deliveries = await receive(served, subject, 2)
    assert {delivery.properties["text"] for delivery in deliveries} == {TEXT}


@pytest.mark.parametrize("zone", ["Asia/Shanghai", "America/Los_Angeles"])
def test_rows_of_java_are_as_old_as_they_are_in_each_time_zone(outbox: Outbox, zone: str) -> None:
    # Java writes `create_time` in the time zone of its process, into a column that has none in MariaDB.
    ended = outbox.run("crash", {"subject": "zones"}, zone=zone)
    assert ended["committed"]
    [[age_ms]] = outbox.table.connection.rows(outbox.table.statements.oldest)
    assert 0 <= int(age_ms) < 3_600_000
    away = ScriptedProducer(lambda subject, ids: unavailable())
    assert outbox.relay(away, age_hours_max=2.0).ended == 0
    assert outbox.relay(ScriptedProducer()).sent == 1


def test_java_can_not_write_what_is_no_number(default_outbox: Outbox, subject: str) -> None:
    # Its Gson refuses them; so no row of Java has NaN, which JSON does not know.
    for text in ("NaN", "Infinity", "-Infinity"):
        for type_ in ("double", "float"):
            message = {"subject": subject, "typed": {"value": [type_, text]}}
            ended = default_outbox.run("commit", message)
            assert (ended["committed"], ended["raised"]) == (False, "IllegalArgumentException")
    assert not default_outbox.table.rows()


# --- Java's transactions --------------------------------------------------------------------------------------------


async def test_a_transaction_of_java_sends_and_deletes_its_rows_after_the_commit(
    outbox: Outbox, served: System, subject: str
) -> None:
    messages = [{"subject": subject, "properties": {"data": text}} for text in ("a", "b")]
    undone = await asyncio.to_thread(outbox.run, "rollback", *messages)
    done = await asyncio.to_thread(outbox.run, "commit", *messages)
    assert [(each["committed"], each["raised"]) for each in (undone, done)] == [(False, None), (True, None)]
    assert {each.message_id for each in await receive(served, subject, 2)} == set(done["ids"])
    await asyncio.to_thread(eventually, lambda: not outbox.table.rows(), what="Java deletes its rows")


def test_what_a_broker_refuses_stays_in_the_table_with_the_status_that_java_gives_it(
    default_outbox: Outbox, producer: Producer, subject: str
) -> None:
    default_outbox.run("commit", {"subject": subject, "properties": {"data": "x" * REFUSED_BYTES}})
    refused = [(Status.REFUSED, 1, None)]
    eventually(lambda: list(default_outbox.table.rows().values()) == refused, what="Java marks its row")
    assert default_outbox.relay(producer) == Pass()
    assert default_outbox.watch() == []
    assert list(default_outbox.table.rows().values()) == refused


async def test_a_message_that_java_could_not_send_is_sent_by_the_relay(
    outboxes: dict[str, Outbox], served: System, producer: Producer, subject: str
) -> None:
    outbox = outboxes["mariadb"]
    # A Java client that has no route yet would wait for one instead of failing.
    known = await asyncio.to_thread(outbox.run, "commit", {"subject": subject})
    await asyncio.to_thread(outbox.wait_for, "sent", known["ids"])
    nodes = [served.brokers[name] for name in ("g1", "g2")]
    for node in nodes:
        node.kill()
    try:
        ended = await asyncio.to_thread(outbox.run, "commit", {"subject": subject, "properties": {"data": TEXT}})
        assert (ended["committed"], ended["raised"]) == (True, None)
        await asyncio.to_thread(outbox.wait_for, "failed", ended["ids"])
        assert list(outbox.table.rows().values()) == [(Status.PENDING, 0, None)]
    finally:
        for node in nodes:
            node.start()

    def is_sent() -> bool:
        return outbox.relay(producer).sent == 1

    await asyncio.to_thread(eventually, is_sent, what="the relay sends it")
    assert not outbox.table.rows()
    bodies = {delivery.message_id: delivery.body for delivery in await receive(served, subject, 2)}
    assert bodies == {known["ids"][0]: None, ended["ids"][0]: TEXT}


# --- Java reads -----------------------------------------------------------------------------------------------------


def outgoing(message_id: str, subject: str, body: Any, due_ms: int | None = None) -> OutgoingMessage:
    """A message as our programs write it into the table."""
    properties = standard_properties("python", SYSTEM_CLOCK.wall_ms()) | encode_body(body)
    if due_ms is not None:
        properties[KEY_SCHEDULE] = str(due_ms)
    return OutgoingMessage(subject, message_id, properties, ("eu", "字"), due_ms)


async def test_javas_watchdog_reads_and_sends_our_rows(
    client: JavaClient, default_outbox: Outbox, served: System, subject: str
) -> None:
    messages = {
        name: outgoing(f"{subject}-{number}", subject, body) for number, (name, (body, _)) in enumerate(SENT.items())
    }
    row_ids = default_outbox.table.add(*map(content_of, messages.values()))
    read = await asyncio.to_thread(default_outbox.watch)
    assert [row["row"] for row in read] == row_ids
    for row, (name, message) in zip(read, messages.items(), strict=True):
        assert (row["id"], row["subject"], row["tags"], row["dueMs"]) == (
            message.message_id,
            subject,
            ["eu", "字"],
            None,
        )
        assert row["createdMs"] == int(message.properties["qmq_createTime"])
        assert row["isDurable"] is True
        assert row["attributes"] == message.properties, name
        expected = SENT[name][1]
        assert await asyncio.to_thread(read_all, client, "default", message.message_id, expected) == expected, name
    assert not default_outbox.table.rows()
    received = {each.message_id: each for each in await receive(served, subject, len(messages))}
    for row_id, message in zip(row_ids, messages.values(), strict=True):
        delivery = received[message.message_id]
        # The watchdog adds its row to each message.
        assert shape(delivery.message) == ({**message.properties, "qmq_sequence": str(row_id)}, message.tags)


async def test_javas_watchdog_changes_numbers_of_java_which_our_relay_does_not(
    default_outbox: Outbox, served: System, subject: str
) -> None:
    # docs/how-to/migrate-from-qmq.md says so; hence the texts in our rows.
    typed = {"count": ["int", "-17"], "total": ["long", "17"], "rate": ["float", "0.5"], "paid": ["boolean", "true"]}
    await asyncio.to_thread(default_outbox.run, "crash", {"subject": subject, "typed": typed})
    [row_id] = default_outbox.table.rows()
    default_outbox.table.set(row_id, age_seconds=120)
    (read,) = await asyncio.to_thread(default_outbox.watch)
    assert {key: read["attributes"][key] for key in typed} == {"count": -17.0, "total": "17", "rate": 0.5, "paid": True}
    (delivery,) = await receive(served, subject, 1)
    found = {key: delivery.properties[key] for key in typed}
    assert found == {"count": "-17.0", "total": "17", "rate": "0.5", "paid": "true"}


async def test_javas_watchdog_sends_our_delayed_rows_to_a_delay_node(
    default_outbox: Outbox, served: System, delayed: DelayedMessages, subject: str
) -> None:
    due_ms = SYSTEM_CLOCK.wall_ms() + DAY // timedelta(milliseconds=1)
    message = outgoing(f"{subject}-m", subject, TEXT, due_ms)
    [row_id] = default_outbox.table.add(content_of(message))
    (read,) = await asyncio.to_thread(default_outbox.watch)
    assert (read["dueMs"], read["attributes"]) == (due_ms, message.properties)
    (stored,) = (await delayed.find(message.message_id, subject=subject)).messages
    assert stored.item.due_ms == due_ms
    assert shape(stored.item.message) == ({**message.properties, "qmq_sequence": str(row_id)}, message.tags)
    assert (await delayed.deliver(message.message_id, subject=subject)).outcome == "done"
    (delivery,) = await receive(served, subject, 1)
    assert (delivery.body, delivery.tags) == (TEXT, ("eu", "字"))


async def test_javas_watchdog_leaves_what_is_not_its_to_send(
    default_outbox: Outbox, served: System, subject: str
) -> None:
    table = default_outbox.table
    contents = {
        name: content_of(outgoing(f"{subject}-{name}", subject, name)) for name in ("backed off", "young", "due")
    }
    [backed_off] = table.add(contents["backed off"])
    table.connection.change(f"UPDATE {table.table} SET error = 9, update_time = update_time WHERE id = ?", [backed_off])
    table.add(content_of(outgoing(f"{subject}-sent", subject, "sent")))
    failing = ScriptedProducer(lambda _, ids: {each: unavailable() for each in ids if "backed" in each})
    assert default_outbox.relay(failing, grace_seconds=60.0) == Pass(sent=1, failed=1)
    assert table.connection.rows(f"SELECT id FROM {table.table} WHERE update_time > current_timestamp") == [
        (backed_off,)
    ]
    [young] = table.add(contents["young"], age_seconds=50)
    operators = [
        *table.add(contents["due"], status=Status.REFUSED),
        *table.add(contents["due"], status=Status.INVALID),
        *table.add(contents["due"], status=Status.FAILED),
    ]
    [due] = table.add(contents["due"])
    [not_json] = table.add("{'")
    [placeholder] = table.add(contents["due"].replace(subject, "${subject}", 2))
    read = await asyncio.to_thread(default_outbox.watch)
    assert [row["row"] for row in read] == [due, not_json, placeholder]
    left = {row_id: (status, errors) for row_id, (status, errors, _) in table.rows().items()}
    assert left == {
        backed_off: (Status.PENDING, 10), young: (Status.PENDING, 0),
        not_json: (Status.INVALID, 1), placeholder: (Status.INVALID, 1),
        **dict(zip(operators, [(Status.REFUSED, 0), (Status.INVALID, 0), (Status.FAILED, 0)], strict=True)),
    }  # fmt: skip
    (delivery,) = await receive(served, subject, 1)
    assert delivery.body == "due"


@pytest.mark.parametrize("fails", [False, True])
async def test_watchdog_and_relay_may_send_the_same_rows(
    default_outbox: Outbox, served: System, subject: str, fails: bool
) -> None:
    messages = [outgoing(f"{subject}-{number}", subject, str(number)) for number in range(20)]
    default_outbox.table.add(*map(content_of, messages))

    def answer(_: str, ids: list[str]) -> dict[str, QmqError] | None:
        assert len(default_outbox.watch()) == len(ids) == len(messages)
        return {each: unavailable() for each in ids[1:]} if fails else None

    relaying = ScriptedProducer(answer)
    passed = await asyncio.to_thread(default_outbox.relay, relaying)
    assert passed == (Pass(sent=1, failed=len(messages) - 1) if fails else Pass(sent=len(messages)))
    assert not default_outbox.table.rows()
    assert {each.body for each in await receive(served, subject, len(messages))} == set(map(str, range(len(messages))))
