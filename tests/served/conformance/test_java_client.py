"""The official Java client, unmodified, against our nodes; both ways with our own client. Traps are those of
docs/reference/wire.md, section 12; docs/conformance.md has the table."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from qmq import Consumer, Producer
from tests.served.conformance.driver import Make, group_begun, listen
from tests.support.promises import judging
from tests.support.servers.system import System
from tests.support.waiting import eventually, figure

pytestmark = pytest.mark.usefixtures("java_tools")

LARGE_SEND_MS = 120_000


def numbers(events: list[dict[str, str]]) -> Counter[str]:
    return Counter(event["number"] for event in events)


def test_send_batches_listen_and_ack(served: System, java: Make, version: str) -> None:
    # T1 first registration is answered; T4, T5 long polls are held; T10, T11 times; T14 sequences; T15 one socket.
    client, subject, before = java(served), f"batch-{version}", pull_requests(served)
    listen(client, subject)
    group_begun(served, subject, "g")
    client.do("send", subject=subject, count=300, properties={"data": "hello"})
    client.wait("sent", 300)
    got = client.wait("message", 300)
    with judging():
        assert numbers(got) == Counter(str(i) for i in range(300))
    assert {event["times"] for event in got} == {1}
    assert {event["data"] for event in got} == {"hello"}
    assert not client.of("failed")

    def all_acked() -> bool:
        groups = [
            g
            for name in served.brokers
            for s in served.admin(name, f"/stats?subject={subject}")["subjects"]
            for g in s["groups"]
        ]
        return sum(g["lag"] for g in groups) == 0 and len(groups) == 2

    eventually(all_acked, what="every message is acked")
    pulls = pull_requests(served) - before
    assert pulls < 1000, f"{pulls} pulls: long polls are not held (trap T4)"


def pull_requests(system: System) -> float:
    return sum(
        float(line.rsplit(" ", 1)[1])
        for name in system.brokers
        for line in metrics_of(system, name)
        if line.startswith("qmq_broker_pull_requests_total")
    )


def metrics_of(system: System, name: str) -> list[str]:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{system.ports[name][1]}/metrics") as answer:
        return answer.read().decode().splitlines()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("tag_type", "tags", "expected"), [("OR", ["a", "b"], {"0", "1", "2"}), ("AND", ["a", "b"], {"2"})]
)
def test_tags(served: System, java: Make, version: str, tag_type: str, tags: list[str], expected: set[str]) -> None:
    # T22: the filter's bytes differ between versions 8 and 9.
    client, subject = java(served), f"tags-{tag_type}-{version}"
    listen(client, subject, tags=tags, tagType=tag_type)
    group_begun(served, subject, "g")
    for number, sent in enumerate((["a"], ["b", "c"], ["a", "b", "c"], ["c"], [])):
        client.do("send", subject=subject, tags=sent, properties={"number": str(number)})
    client.wait("sent", 5)
    client.wait("message", len(expected))
    client.do("send", subject=subject, tags=tags, properties={"number": "last"})
    eventually(lambda: "last" in numbers(client.of("message")))
    assert set(numbers(client.of("message"))) == expected | {"last"}


def test_pull_consumer(served: System, java: Make, version: str) -> None:
    client, subject = java(served), f"pull-{version}"
    client.do("pull", subject=subject, group="g", size=10, timeoutMs=1500)
    client.wait("pulled", 1)
    group_begun(served, subject, "g", 1)
    client.do("send", subject=subject, count=20)
    client.wait("sent", 20)
    rounds = 1
    while len(client.of("pulledMessage")) < 20 and rounds < 12:
        client.do("pull", subject=subject, group="g", size=10, timeoutMs=1000)
        rounds += 1
        client.wait("pulled", rounds)
    # Which broker group is asked first is the client's choice; the group begins on each with its first pull (T26).
    assert numbers(client.of("pulledMessage"))
    with judging():
        assert max(numbers(client.of("pulledMessage")).values()) == 1


def test_a_failing_listener_gets_the_message_again_with_its_count(served: System, java: Make, version: str) -> None:
    # T8: retries keep their message id and are stored all the same. T25: they wait for the retry delay.
    client, subject = java(served), f"retry-{version}"
    listen(client, subject, fail=2)
    group_begun(served, subject, "g")
    client.do("send", subject=subject, count=3)
    client.wait("sent", 3)
    got = client.wait("message", 9)
    attempts = sorted((event["number"], event["times"]) for event in got)
    assert attempts == [(str(n), t) for n in range(3) for t in (1, 2, 3)]
    ids = {(event["number"], event["id"]) for event in got}
    assert len(ids) == 3


def test_a_message_that_fails_too_often_becomes_a_dead_letter(served: System, java: Make, version: str) -> None:
    client, subject = java(served), f"dead-{version}"
    listen(client, subject, fail=100)
    group_begun(served, subject, "g")
    client.do("send", subject=subject, maxRetry=2, properties={"data": "poison"})
    client.wait("message", 2)
    dead = f"%25DEAD_RETRY%25{subject}%25g"

    def letters() -> list[dict[str, object]]:
        found = []
        for name in served.brokers:
            try:
                found += served.admin(name, f"/subjects/{dead}/messages")["messages"]
            except OSError:
                continue
        return found

    (letter,) = eventually(letters, what="a dead letter")
    assert letter["properties"]["data"] == "poison"  # type: ignore[index]
    assert letter["properties"]["qmq_times"] == "3"  # type: ignore[index]


def test_delayed_messages_come_when_they_are_due(served: System, java: Make, version: str) -> None:
    # T9 the client decides twice whether a message is delayed: under 500 ms it goes to the broker at once, just above it it
    # may reach the delay node without the delay bit. T23: delivered with the very bytes it came with.
    client, subject = java(served), f"delay-{version}"
    listen(client, subject)
    group_begun(served, subject, "g")
    began = time.time_ns() // 1_000_000
    delays = {"0": 2_500, "1": 1_200, "2": 505, "3": 100}
    for number, delay in delays.items():
        client.do("send", subject=subject, delayMs=delay, tags=["a", "b"], properties={"number": number})
    client.wait("sent", 4)
    got = {str(event["number"]): event for event in client.wait("message", 4)}
    assert len(got) == len(client.of("message")) == 4, "each once"
    # Whether 505 ms are still a delay when the client looks for the second time is chance. Release 1.1.3 pulls from its broker
    # groups in turn and may come a second or two late by itself.
    for number in ("0", "1"):
        assert got[number]["atMs"] >= began + delays[number], "never early"
        figure("a delayed message reaches the Java client", (got[number]["atMs"] - began - delays[number]) / 1000, 8)
    assert all(event["tags"] == ["a", "b"] for event in got.values())
    assert served.admin("d1", f"/calendar?subject={subject}")["hours"] == []


def test_a_handler_that_asks_for_a_later_retry_gets_it_from_the_delay_node(
    served: System, java: Make, version: str
) -> None:
    # The client re-sends the message as a delayed one of the real subject, meant for its own group only.
    client, subject = java(served), f"later-{version}"
    listen(client, subject, "g", retryInMs=1_500)
    listen(client, subject, "other")
    for group in ("g", "other"):
        group_begun(served, subject, group)
    client.do("send", subject=subject, properties={"data": "come back"})
    first, again = client.wait("message", 2, name=f"{subject}/g")
    assert (first["times"], again["times"]) == (1, 2)
    assert again["atMs"] >= first["atMs"] + 1_400
    assert again["data"] == "come back"
    # Release 1.1.3 asks one broker group after the other and may hear of the first message later than its neighbour of the retry:
    # what says that the retry was not for this group is a message sent after it.
    client.do("send", subject=subject, properties={"data": "after"})
    client.wait("message", 3, name=f"{subject}/g")
    others = client.wait("message", 2, name=f"{subject}/other")
    assert sorted(str(event["data"]) for event in others) == ["after", "come back"]


async def test_delayed_both_ways_between_java_and_python(served: System, java: Make, version: str) -> None:
    client, subject = java(served), f"delay-both-{version}"
    listen(client, subject)
    await asyncio.to_thread(group_begun, served, subject, "g")
    async with Producer(served.meta_url, app="test") as producer:
        due = datetime.now(UTC) + timedelta(seconds=1)
        receipt = await producer.send(subject, {"number": "python"}, due=due)
        gone = await producer.send(subject, {"number": "never"}, delay=timedelta(seconds=1))
        assert (await gone.cancel()).outcome == "done"
        got = await asyncio.to_thread(client.wait, "message", 1)
        assert got[0]["id"] == receipt.message_id
        assert got[0]["atMs"] >= receipt.due_ms
    async with Consumer(served.meta_url, subject, "python", start="latest") as consumer:
        await consumer.pull(1, timeout=1.0)
        client.do("send", subject=subject, delayMs=800, properties={"number": "java"})
        (delivery,) = await consumer.pull(1, timeout=10.0)
        assert delivery.properties["number"] == "java"
        await delivery.ack()
    with judging():
        assert "never" not in numbers(client.of("message"))


def test_broadcast_reaches_every_client(served: System, java: Make, version: str) -> None:
    # T16: broadcast byte and numbering.
    subject = f"broadcast-{version}"
    clients = [java(served, f"java@@b{i}") for i in range(2)]
    for i, client in enumerate(clients):
        client.do("listen", subject=subject, broadcast=True, name="b")
        client.wait("listening", 1)
        group_begun(served, subject, f"java@@b{i}-{version}")
    clients[0].do("send", subject=subject, count=40)
    clients[0].wait("sent", 40)
    for client in clients:
        got = client.wait("message", 40)
        with judging():
            assert numbers(got) == Counter(str(i) for i in range(40))


def test_consume_most_once_acks_before_the_listener(served: System, java: Make, version: str) -> None:
    client, subject = java(served), f"once-{version}"
    listen(client, subject, once=True, fail=100)
    group_begun(served, subject, "g")
    client.do("send", subject=subject, count=5)
    client.wait("sent", 5)
    client.wait("message", 5)

    def all_acked() -> bool:
        return all(
            g["in_flight"] == 0 and g["backlog"] == 0
            for name in served.brokers
            for s in served.admin(name, f"/stats?subject={subject}")["subjects"]
            for g in s["groups"]
        )

    eventually(all_acked)
    assert {event["times"] for event in client.of("message")} == {1}


def test_large_strings_pass_unharmed(served: System, java: Make, version: str) -> None:
    client, subject = java(served), f"large-{version}"
    listen(client, subject)
    group_begun(served, subject, "g")
    large = "字母x" * 10_000
    client.do("send", subject=subject, large=large)
    (event,) = client.wait("message", 1)
    assert event["large"] == large


def test_large_messages_sent_at_once_are_all_stored_and_received(served: System, java: Make, version: str) -> None:
    # The client puts up to 30 messages into a SEND, whatever their size: frames of 75 MB here. How fast a disk takes them is no
    # matter of this test, and after ten tries of 5 s each the client would give up.
    client, subject = java(served, heap_mib=1024, send_timeout_ms=LARGE_SEND_MS), f"sixty-{version}"
    listen(client, subject)
    group_begun(served, subject, "g")
    before = bad_frames(served)
    client.do("send", subject=subject, count=60, largeChars=2_500_000)
    client.wait("sent", 60)
    eventually(lambda: len(numbers(client.of("message"))) == 60, what="every message comes")
    assert {event["largeChars"] for event in client.of("message")} == {2_500_000}
    assert not client.of("failed")
    assert bad_frames(served) == before, "a frame was refused"


def bad_frames(system: System) -> list[str]:
    return [line for name in system.brokers for line in metrics_of(system, name) if "bad_frames" in line]


def test_two_clients_with_one_id_share_the_messages(served: System, java: Make, version: str) -> None:
    # QMQ's default id is one of the jar's path: two processes on a host may have the same.
    first, second, subject = java(served), java(served), f"one-id-{version}"
    listen(first, subject)
    listen(second, subject)
    group_begun(served, subject, "g")
    first.do("send", subject=subject, count=100)
    first.wait("sent", 100)
    eventually(lambda: len(numbers([*first.of("message"), *second.of("message")])) == 100, what="every message came")
    client_events = [*first.of("message"), *second.of("message")]
    assert numbers(client_events) == Counter(str(i) for i in range(100)), "none came to both"


def test_two_consumers_share_a_subject(served: System, java: Make, version: str) -> None:
    subject, batch = f"share-{version}", 500
    sender = java(served, "java@@s")
    first, second = java(served, "java@@c1"), java(served, "java@@c2")
    listen(first, subject, slowMs=5)
    group_begun(served, subject, "g")
    listen(second, subject, slowMs=5)
    batches = 0
    # How soon the second one takes part is the client's affair.
    while len(second.of("message")) <= 100:
        assert batches < 40, "the second consumer does not take its share"
        batches += 1
        sender.do("send", subject=subject, count=batch)
        sender.wait("sent", batches * batch)
    eventually(lambda: len(first.of("message")) + len(second.of("message")) >= batches * batch)
    with judging():
        assert numbers(first.of("message") + second.of("message")) == Counter({str(i): batches for i in range(batch)})
    assert len(first.of("message")) > 100, "the first consumer takes its share"


async def test_java_sends_and_python_receives(served: System, java: Make, version: str) -> None:
    client, subject = await asyncio.to_thread(java, served), f"j2p-{version}"
    client.do("send", subject=subject, count=50, tags=["eu"], properties={"data": "from java"})
    await asyncio.to_thread(client.wait, "sent", 50)
    got = []
    async with Consumer(served.meta_url, subject, "g", start="earliest", consumer_id="py@@1") as consumer:
        async for delivery in consumer:
            async with delivery:
                got.append(delivery)
            if len(got) == 50:
                break
    with judging():
        assert Counter(d.properties["number"] for d in got) == Counter(str(i) for i in range(50))
    assert {(d.body, d.tags, d.attempt) for d in got} == {("from java", ("eu",), 1)}


async def test_python_sends_and_java_receives(served: System, java: Make, version: str) -> None:
    # T11: our producer sets the create time; T12, T13: it refuses what Java could not read.
    client, subject = await asyncio.to_thread(java, served), f"p2j-{version}"
    await asyncio.to_thread(listen, client, subject)
    await asyncio.to_thread(group_begun, served, subject, "g")
    async with Producer(served.meta_url, app="python") as producer:
        await asyncio.gather(
            *(producer.send(subject, {"number": i, "data": "from python"}, tags=["x"]) for i in range(50))
        )
    got = await asyncio.to_thread(client.wait, "message", 50)
    with judging():
        assert numbers(got) == Counter(str(i) for i in range(50))
    assert {event["data"] for event in got} == {"from python"}
    assert {json.dumps(event["tags"]) for event in got} == {'["x"]'}


async def test_python_retries_and_java_sees_the_next_attempt(served: System, java: Make, version: str) -> None:
    subject = f"handover-{version}"
    async with Consumer(served.meta_url, subject, "g", start="earliest", consumer_id="py@@2") as consumer:
        async with Producer(served.meta_url) as producer:
            await producer.send(subject, {"number": "7"})
        (delivery,) = await consumer.pull(1, timeout=10)
        await delivery.retry()
    client = await asyncio.to_thread(java, served)
    await asyncio.to_thread(listen, client, subject)
    (event,) = await asyncio.to_thread(client.wait, "message", 1)
    assert (event["number"], event["times"]) == ("7", 2)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_restarted_under_the_client_loses_nothing(system: System, java: Make, how: str) -> None:
    # T2: neither 52 nor result 4 is ever answered, so nothing sticks; T27: repetitions are allowed.
    client, subject = java(system), "restart"
    listen(client, subject)
    group_begun(system, subject, "g")
    client.do("send", subject=subject, count=200)
    client.wait("sent", 50)
    for name in ("g1", "g2"):
        broker = system.brokers[name]
        if how == "kill":
            broker.kill()
        else:
            broker.stop()
        broker.start()
        client.do("send", subject=subject, count=200)
    eventually(lambda: len(client.of("sent")) + len(client.of("failed")) >= 600, what="every send is settled")
    sent = {event["id"] for event in client.of("sent")}
    assert len(sent) >= 550
    eventually(lambda: sent <= {event["id"] for event in client.of("message")}, what="every message comes")


def test_an_illegal_subject_does_not_affect_other_subjects(served: System, java: Make, version: str) -> None:
    # T3: an answer without groups would block one of three sender threads; a broker refuses the message instead.
    client = java(served)
    client.do("send", subject="il legal")
    client.do("send", subject=f"legal-{version}", count=3)
    client.wait("sent", 3)
    client.wait("failed", 1)


def test_a_producer_that_starts_while_every_broker_refuses_sends_is_not_blocked(
    new_system: Callable[..., System], java: Make
) -> None:
    # T3: without an answer to its registration, the sends would neither fail nor succeed.
    system = new_system(groups=1, broker_flags=("--read-only",))
    system.start()
    eventually(lambda: "read_only" in system.group_states(), what="the metaserver has the group as read only")
    client = java(system)
    client.do("send", subject="orders", count=3)
    client.wait("failed", 3)
    assert client.of("sent") == []
    system.brokers["g1"].stop()
    system.broker_flags = ()
    system.add_broker("g1").start()
    eventually(lambda: "read_write" in system.group_states(), what="the metaserver has the group as read-write")
    client.do("send", subject="orders", count=3)
    client.wait("sent", 3)
