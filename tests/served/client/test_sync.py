"""The blocking client: calls from threads, and a loop of its own in a thread."""

import asyncio
import functools
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import qmq
from qmq import sync
from qmq.errors import ClientClosed, IllegalName, LocalProtocolError
from qmq.protocol.delayed import Outcome
from qmq.sync import producer as sync_producer
from qmq.sync.loop import shared_loop
from tests.support.drivers.in_process import small_system
from tests.support.servers.shared import NewSystems
from tests.support.servers.system import System
from tests.support.waiting import eventually, eventually_async


def test_the_blocking_face_has_the_same_names(system: System) -> None:
    with sync.Producer(system.meta_url, app="test") as producer:
        assert producer.send("orders", {"number": 1}).subject == "orders"
        assert producer.send_soon("orders", {"number": 2}).result(10).broker_group in ("g1", "g2")
        producer.flush()
    with sync.Consumer(system.meta_url, "orders", "g", start="earliest") as consumer:
        found: list[str] = []
        for delivery in consumer:
            with delivery:
                found.append(delivery.properties["number"])
            if len(found) == 2:
                break
        with sync.Producer(system.meta_url, app="test") as producer:
            producer.send("orders", {"number": 3})
        (failed,) = consumer.pull(1, timeout=20)
        failed.retry(cause="TooBusy")
        (again,) = consumer.pull(1, timeout=20)
        assert (again.attempt, again.retry_cause) == (2, "TooBusy")
        again.ack()
    assert sorted(found) == ["1", "2"]
    assert sum(thread.name == "qmq-sync" for thread in threading.enumerate()) == 1


def test_every_name_of_the_client_is_there_without_await() -> None:
    assert set(sync.__all__) == set(qmq.__all__)
    assert all(hasattr(sync, name) for name in sync.__all__)


def test_an_app_runs_functions_in_threads(system: System) -> None:
    app = sync.App(system.meta_url, app="test")
    handled: list[tuple[str, str]] = []

    @app.consumer("threads", group="g", concurrency=2, start="earliest")
    def handle(delivery: sync.Delivery) -> None:
        if delivery.attempt == 1 and delivery.properties["number"] == "1":
            raise ValueError("again")
        handled.append((delivery.properties["number"], threading.current_thread().name[:11]))
        if len(handled) == 2:
            app.stop()

    with sync.Producer(system.meta_url, app="test") as producer:
        producer.send("threads", {"number": 1})
        producer.send("threads", {"number": 2})
    app.run()
    assert sorted(handled) == [("1", "qmq-handler"), ("2", "qmq-handler")]


def test_delayed_messages_without_await(new_system: NewSystems) -> None:
    system = new_system(delays=1)
    system.start()
    with sync.Producer(system.meta_url, app="test") as producer, sync.DelayedMessages(system.meta_url) as messages:
        receipt = producer.send("later", {"n": 1}, delay=timedelta(hours=1))
        assert [found.message_id for found in messages.list("later")] == [receipt.message_id]
        assert messages.find(receipt.message_id).messages[0].state == "pending"
        assert sum(messages.calendar("later").hours.values()) == 1
        assert messages.reschedule(receipt.message_id, delay=timedelta(hours=2)).outcome is Outcome.DONE
        assert messages.cancel_matching("later", dry_run=True).matched == 1
        assert messages.cancel(receipt.message_id, subject="later").outcome is Outcome.DONE
        assert messages.deliver(receipt.message_id).outcome is Outcome.TOO_LATE


def test_the_blocking_client(tmp_path: Path) -> None:
    done = asyncio.Event()
    urls: list[str] = []

    async def serve() -> None:
        async with small_system(tmp_path) as system:
            urls.append(system.meta_url)
            await done.wait()

    async def main() -> None:
        serving = asyncio.create_task(serve())
        await eventually_async(lambda: urls)
        await asyncio.to_thread(work)
        done.set()
        await serving

    def work() -> None:
        with sync.Producer(urls[0], app="test") as producer:
            receipt = producer.send("orders", {"n": 1}, delay=timedelta(hours=1))
            assert isinstance(receipt, sync.DelayedReceipt)
            assert receipt.reschedule(delay=timedelta(hours=2)).outcome is Outcome.DONE
            assert receipt.cancel().outcome is Outcome.DONE
            assert receipt.due_at > datetime.now(UTC)
            soon = producer.send("orders", {"n": 2}, due=datetime.now(UTC) + timedelta(hours=1))
            assert soon.deliver().outcome is Outcome.DONE
            assert not isinstance(producer.send("orders", {"n": 3}), sync.DelayedReceipt)
        with sync.Consumer(urls[0], "orders", "g", start="earliest") as consumer:
            got: set[str] = set()
            while len(got) < 2:
                for delivery in consumer.pull(2, timeout=5.0):
                    with delivery:
                        got.add(delivery.properties["n"])
        assert got == {"2", "3"}

    asyncio.run(main())


# --- sending many ---------------------------------------------------------------------------------------------------


class Recorded(sync.Middleware):
    """Notes messages that are sent, and how many had no outcome at a time."""

    def __init__(self) -> None:
        self.sent: list[sync.OutgoingMessage] = []
        self.open = self.most_open = 0

    def before_send(self, message: sync.OutgoingMessage) -> None:
        self.sent.append(message)
        self.open += 1
        self.most_open = max(self.most_open, self.open)

    def after_send(self, message: sync.OutgoingMessage, outcome: sync.Receipt | sync.SendFailed) -> None:
        self.open -= 1


def numbers(deliveries: list[sync.Delivery]) -> Counter[str]:
    return Counter(delivery.properties["number"] for delivery in deliveries)


def receive(served: System, subject: str, count: int, group: str = "g") -> list[sync.Delivery]:
    found: list[sync.Delivery] = []
    with sync.Consumer(served.meta_url, subject, group, start="earliest") as consumer:
        for batch in consumer.batches():
            found += batch
            batch.ack()
            if len(found) >= count:
                break
    return found


def test_send_many_takes_bodies_in_the_callers_thread_and_keeps_their_order(served: System) -> None:
    recorded, threads = Recorded(), set()
    limits = sync.Limits(batch_messages=10)
    with sync.Producer(served.meta_url, limits=limits, middleware=[recorded]) as producer:

        def bodies() -> Iterator[dict[str, int]]:
            for number in range(95):
                threads.add(threading.current_thread())
                if number == 50:
                    # A generator that waits for the loop would block it for ever if it ran there.
                    producer.send("sync-many-other", "meanwhile")
                yield {"number": number}

        receipts = producer.send_many("sync-many", bodies(), tags=["eu"])
    assert threads == {threading.current_thread()}
    sent = [message for message in recorded.sent if message.subject == "sync-many"]
    assert [receipt.message_id for receipt in receipts] == [message.message_id for message in sent]
    assert [message.properties["number"] for message in sent] == [str(number) for number in range(95)]
    found = receive(served, "sync-many", 95)
    assert numbers(found) == Counter(map(str, range(95)))
    assert {delivery.tags for delivery in found} == {("eu",)}


def test_send_many_has_an_outcome_for_each_body_in_their_order(served: System) -> None:
    bodies: list[Any] = ["ok", "ok", object(), "ok", "ok", {"data": "x" * 40_000}, "ok"]
    with sync.Producer(served.meta_url, limits=sync.Limits(batch_messages=2)) as producer:
        with pytest.raises(sync.SendManyFailed) as raised:
            producer.send_many("sync-outcomes", bodies)
        kinds = [type(outcome) for outcome in raised.value.outcomes]
        assert kinds == [LocalProtocolError if body != "ok" else sync.Receipt for body in bodies]
        assert producer.send_many("sync-outcomes", []) == []


def test_send_many_takes_no_body_if_nothing_can_be_sent(served: System) -> None:
    producer = sync.Producer(served.meta_url)
    bodies = iter(["a"])
    with pytest.raises(ClientClosed):
        producer.send_many("orders", bodies)
    with producer, pytest.raises(IllegalName):
        producer.send_many("il legal", bodies)
    assert next(bodies) == "a"


def test_send_many_ends_when_the_producer_is_closed(served: System) -> None:
    taken = []
    with sync.Producer(served.meta_url, limits=sync.Limits(batch_messages=1, queue_messages=1)) as producer:

        def bodies() -> Iterator[str]:
            for number in range(1000):
                taken.append(number)
                if number == 5:
                    producer.close()
                yield "x"

        with pytest.raises(sync.SendManyFailed) as raised:
            producer.send_many("sync-closed", bodies())
    outcomes = raised.value.outcomes
    first_failure = next(place for place, outcome in enumerate(outcomes) if not isinstance(outcome, sync.Receipt))
    assert first_failure >= 3
    assert {type(outcome) for outcome in outcomes[first_failure:]} == {ClientClosed}
    assert len(taken) < 20


def test_bodies_that_raise_end_send_many_and_the_chunks_before_are_sent(served: System) -> None:
    def bodies() -> Iterator[dict[str, int]]:
        yield from ({"number": number} for number in range(4))
        raise RuntimeError("no more")

    with sync.Producer(served.meta_url, limits=sync.Limits(batch_messages=2)) as producer:
        with pytest.raises(RuntimeError, match="no more"):
            producer.send_many("sync-raises", bodies())
        producer.flush()
    # The bodies of a chunk that is not full yet are not sent: two at most, the chunk is handed over with the next body.
    assert numbers(receive(served, "sync-raises", 2)) == Counter(["0", "1"])


def test_chunks_have_limits_of_messages_and_of_bytes(served: System) -> None:
    producer = sync.Producer(served.meta_url, limits=sync.Limits(batch_messages=3, batch_bytes=100))

    def sizes(*bodies: Any) -> list[tuple[int, int]]:
        return [(len(chunk), size) for chunk, size in producer._chunks(bodies)]

    assert sizes(*["x"] * 7) == [(3, 3), (3, 3), (1, 1)]
    assert sizes("x" * 60, b"x" * 40, "x", "x" * 500, memoryview(b"x" * 60), {"a": "x" * 50, "b": 1}) == [
        (2, 100), (1, 1), (1, 500), (1, 60), (1, 50),
    ]  # fmt: skip
    assert sync.Producer(served.meta_url)._limits == sync.Limits()


def test_send_many_and_send_soon_hold_no_more_than_the_limit(served: System) -> None:
    recorded = Recorded()
    limits = sync.Limits(queue_messages=4, batch_messages=2)
    with sync.Producer(served.meta_url, limits=limits, middleware=[recorded]) as producer:
        futures = [producer.send_soon("sync-room", {"number": number}) for number in range(40)]
        assert len({future.result(60).message_id for future in futures}) == 40
        assert recorded.most_open <= 4
        assert len(producer.send_many("sync-room", ({"number": number} for number in range(40, 80)))) == 40
    assert recorded.most_open <= 4
    assert numbers(receive(served, "sync-room", 80)) == Counter(map(str, range(80)))


def test_threads_wait_for_room_by_bytes_too() -> None:
    room, order = sync_producer.Room(sync.Limits(queue_bytes=100)), []
    room.take(1, 1000)  # alone

    def take() -> None:
        room.take(1, 60)
        order.append("taken")

    thread = threading.Thread(target=take)
    thread.start()
    eventually(lambda: bool(room._changed._waiters), what="the thread waits")  # type: ignore[attr-defined]
    order.append("given back")
    room.give_back(1, 1000)
    thread.join()
    assert order == ["given back", "taken"]


@dataclass
class Large:
    text: str
    number: int = 0


def test_models_that_do_not_fit_the_queue_are_sent_when_they_do(served: System) -> None:
    # Their size is not known when they are handed over.
    limits = sync.Limits(queue_bytes=3_000, batch_bytes=1_500)
    with sync.Producer(served.meta_url, limits=limits) as producer:
        futures = [producer.send_soon("sync-models", Large("x" * 1_000, number)) for number in range(50)]
        assert len({future.result(60).message_id for future in futures}) == 50
    assert sorted(found.decode(Large).number for found in receive(served, "sync-models", 50)) == list(range(50))


def test_the_loop_takes_over_messages_in_turns(served: System, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sync_producer.HANDED_OVER_AT_ONCE == 500
    monkeypatch.setattr(sync_producer, "HANDED_OVER_AT_ONCE", 2)
    go = threading.Event()
    with sync.Producer(served.meta_url) as producer:
        shared_loop().call_soon_threadsafe(go.wait)
        futures = [producer.send_soon("sync-turns", "x") for _ in range(7)]
        go.set()
        assert all(future.result(60) for future in futures)


def test_errors_of_send_soon_come_from_its_future(served: System) -> None:
    with sync.Producer(served.meta_url) as producer:
        assert isinstance(producer.send_soon("orders", object()).exception(60), LocalProtocolError)  # type: ignore[arg-type]
        assert isinstance(producer.send_soon("il legal", "x").exception(60), IllegalName)
    assert isinstance(producer.send_soon("orders", "x").exception(60), ClientClosed)


def test_a_message_can_be_cancelled_until_the_loop_takes_it_over(served: System) -> None:
    go = threading.Event()
    with sync.Producer(served.meta_url, limits=sync.Limits(queue_messages=2)) as producer:
        shared_loop().call_soon_threadsafe(go.wait)
        cancelled = producer.send_soon("sync-cancel", {"number": 1})
        sent = producer.send_soon("sync-cancel", {"number": 2})
        assert cancelled.cancel()
        go.set()
        sent.result(60)
        assert not sent.cancel()
        producer.send_many("sync-cancel", [{"number": 3}, {"number": 4}])
    assert numbers(receive(served, "sync-cancel", 3)) == Counter("234")


def test_nothing_waits_on_the_thread_of_the_loop(served: System) -> None:
    raised: list[BaseException] = []
    done = threading.Event()
    with sync.Producer(served.meta_url, limits=sync.Limits(queue_messages=1)) as producer:

        def call_back(_: object) -> None:
            for work in (
                lambda: producer.send("sync-callback", "x"),
                lambda: producer.send_many("sync-callback", ["x"]),
                lambda: producer.send_soon("sync-callback", "x"),
                lambda: producer.send_soon("sync-callback", "x"),
            ):
                try:
                    work()
                except Exception as error:  # noqa: BLE001 - compared below
                    raised.append(error)
            done.set()

        producer.send_soon("sync-callback", "x").add_done_callback(call_back)
        assert done.wait(60)
    assert [type(error) for error in raised] == [LocalProtocolError, LocalProtocolError, sync.QueueFull]


def test_bodies_are_compressed_as_the_producer_is_told(served: System) -> None:
    with sync.Producer(served.meta_url, compress_above=100) as producer:
        producer.send_many("sync-compressed", [Large("x" * 1_000), Large("y")])
    found = receive(served, "sync-compressed", 2)
    by_text = {delivery.decode(Large).text[0]: delivery for delivery in found}
    assert by_text["x"].message.properties["qmq_contentEncoding"] == "zstd+base64"
    assert "qmq_contentEncoding" not in by_text["y"].message.properties
    assert by_text["y"].content == b'{"text":"y","number":0}'


# --- receiving ------------------------------------------------------------------------------------------------------


def test_batches_are_acknowledged_and_retried_in_part(served: System) -> None:
    with sync.Producer(served.meta_url) as producer:
        producer.send_many("sync-batches", ({"number": number} for number in range(10)))
    found: list[sync.Delivery] = []
    retried: set[str] = set()
    with sync.Consumer(served.meta_url, "sync-batches", "g", start="earliest") as consumer:
        for batch in consumer.batches(max_messages=4, max_seconds=0.01):
            assert 1 <= len(batch) <= 4
            assert (batch[0], batch[:1]) == (next(iter(batch)), [batch[0]])
            first = [delivery for delivery in batch if delivery.attempt == 1 and delivery.properties["number"] in "13"]
            batch.retry(first, cause="Odd")
            retried |= {delivery.message_id for delivery in first}
            batch.ack()
            assert all(delivery.is_settled for delivery in batch)
            found += batch
            if len(found) == 12:
                break
        assert consumer.close(timeout=30) == []
    assert numbers(found) == Counter([*map(str, range(10)), "1", "3"])
    again = [delivery for delivery in found if delivery.attempt == 2]
    assert {delivery.message_id for delivery in again} == retried
    assert {delivery.retry_cause for delivery in again} == {"Odd"}


def test_closing_ends_iteration_and_names_what_is_not_settled(served: System) -> None:
    subject = "sync-closing"
    with sync.Producer(served.meta_url) as producer:
        sent = {receipt.message_id for receipt in producer.send_many(subject, ["x"] * 3)}
    consumer = sync.Consumer(served.meta_url, subject, "g", start="earliest")
    consumer.start()
    iterator = iter(consumer)
    deliveries = [next(iterator) for _ in range(3)]
    deliveries[0].ack()
    ended: list[object] = []
    thread = threading.Thread(target=lambda: ended.extend((next(iterator, "ended"), [*consumer.batches()])))
    thread.start()
    assert set(consumer.close(timeout=30)) == sent - {deliveries[0].message_id}
    thread.join()
    assert ended == ["ended", []]
    assert [*consumer] == []
    with pytest.raises(LocalProtocolError, match="max_messages=0"):
        consumer.batches(max_messages=0)


CONTEXT: ContextVar[str] = ContextVar("CONTEXT", default="")


class Observed(sync.Middleware):
    """Sets a variable around the handler, and notes the hooks with their threads."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, bool]] = []

    def note(self, hook: str, text: str) -> None:
        self.events.append((hook, text, threading.current_thread() is threading.main_thread()))

    def before_process(self, delivery: qmq.Delivery) -> None:
        CONTEXT.set("inside")
        self.note("before_process", delivery.body or "")

    def after_process(self, delivery: qmq.Delivery, error: BaseException | None) -> None:
        self.note("after_process", f"{CONTEXT.get()} {error!r}")

    def after_ack(self, delivery: qmq.Delivery) -> None:
        self.note("after_ack", "")

    def after_retry(self, delivery: qmq.Delivery, cause: str, is_dead_letter: bool) -> None:
        self.note("after_retry", cause)


def test_hooks_around_a_block_run_in_its_thread_and_context(served: System) -> None:
    observed = Observed()
    with sync.Producer(served.meta_url) as producer:
        producer.send("sync-hooks", "x")
    options: dict[str, Any] = {"start": "earliest", "middleware": [observed]}
    with sync.Consumer(served.meta_url, "sync-hooks", "g", **options) as consumer:
        (delivery,) = consumer.pull(1, timeout=30)
        with pytest.raises(ValueError, match="wrong"), delivery:
            assert CONTEXT.get() == "inside"
            raise ValueError("wrong")
        (delivery,) = consumer.pull(1, timeout=30)
        with delivery:
            pass
    assert observed.events == [
        ("before_process", "x", True),
        ("after_process", "inside ValueError('wrong')", True),
        ("after_retry", "ValueError", False),
        ("before_process", "x", True),
        ("after_process", "inside None", True),
        ("after_ack", "", False),
    ]


def test_handlers_of_run_get_decoded_bodies_in_threads(served: System) -> None:
    subject, observed = "sync-run", Observed()
    handled: list[tuple[int, int, str, str]] = []
    done = threading.Event()
    with sync.Producer(served.meta_url) as producer:
        producer.send_many(subject, [Large("x", number) for number in range(20)])
    options: dict[str, Any] = {"start": "earliest", "middleware": [observed]}
    with sync.Consumer(served.meta_url, subject, "g", **options) as consumer:

        def handle(body: Large, delivery: sync.Delivery) -> None:
            if body.number == 7 and delivery.attempt == 1:
                raise ValueError("again")
            delivery.ack()
            handled.append((body.number, delivery.attempt, threading.current_thread().name[:11], CONTEXT.get()))
            if len(handled) == 20:
                done.set()

        thread = threading.Thread(target=consumer.run, args=(handle,), kwargs={"concurrency": 4})
        thread.start()
        assert done.wait(60)
        assert consumer.close() == []
        thread.join()
    assert sorted(handled) == [(number, 1 + (number == 7), "qmq-handler", "inside") for number in range(20)]


def test_adapt_wraps_the_functions_and_sets_their_concurrency(served: System) -> None:
    app, events = sync.App(served.meta_url), []

    @app.consumer("sync-adapt", group="g", concurrency=8, start="earliest")
    def handle(body: Large) -> None:
        events.append(str(body.number))
        app.stop()

    def wrap(handler: sync.Handler) -> sync.Handler:
        @functools.wraps(handler)
        def wrapped(*arguments: object) -> None:
            events.append("before")
            handler(*arguments)

        return wrapped

    app.adapt(wrap=wrap)
    app.adapt(concurrency=1)
    assert app._inner.handlers_max == 1
    with sync.Producer(served.meta_url) as producer:
        producer.send("sync-adapt", Large("x", 5))
    app.run()
    assert events == ["before", "5"]


async def a_coroutine(delivery: object) -> None: ...


def test_coroutine_functions_are_no_handlers_without_await(served: System) -> None:
    consumer = sync.Consumer(served.meta_url, "orders", "g")
    for declare in (consumer.run, sync.App(served.meta_url).consumer("orders", group="g")):
        with pytest.raises(LocalProtocolError, match="plain functions: use `def`"):
            declare(a_coroutine)


def test_an_app_passes_bodies_and_middleware(served: System) -> None:
    observed = Observed()
    app, handled = sync.App(served.meta_url, middleware=[observed]), []

    @app.consumer("sync-app", group="g", start="earliest")
    def handle(body: Large) -> None:
        handled.append(body.number)
        app.stop(timeout=30)

    with sync.Producer(served.meta_url) as producer:
        producer.send("sync-app", Large("x", 5))
    app.run()
    assert handled == [5]
    assert [hook for hook, *_ in observed.events] == ["before_process", "after_process", "after_ack"]


def interrupt() -> None:
    """What Ctrl-C does."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.mark.parametrize("kind", ["app", "consumer"])
def test_ctrl_c_ends_run_after_the_handlers(served: System, kind: str) -> None:
    subject, handled = f"sync-interrupt-{kind}", []

    def handle(delivery: sync.Delivery) -> None:
        interrupt()
        handled.append(delivery.body)

    with sync.Producer(served.meta_url) as producer:
        producer.send(subject, "x")
    if kind == "app":
        app = sync.App(served.meta_url)
        app.consumer(subject, group="g", start="earliest")(handle)
        with pytest.raises(KeyboardInterrupt):
            app.run()
    else:
        with sync.Consumer(served.meta_url, subject, "g", start="earliest") as consumer:
            with pytest.raises(KeyboardInterrupt):
                consumer.run(handle)
            with pytest.raises(ClientClosed):
                consumer.pull()
    assert handled == ["x"]
    groups = [group for name in served.brokers for group in groups_of(served, name, subject)]
    assert sum(group["lag"] for group in groups) == 0


def groups_of(served: System, broker: str, subject: str) -> list[dict[str, Any]]:
    return [
        group for found in served.admin(broker, f"/stats?subject={subject}")["subjects"] for group in found["groups"]
    ]


def test_a_pull_that_is_interrupted_takes_no_message(served: System) -> None:
    with sync.Consumer(served.meta_url, "sync-pull", "g", start="earliest") as consumer:

        def interrupt_when_it_waits() -> None:
            eventually(lambda: bool(consumer._inner._ready.waiters), what="the pull waits")
            interrupt()

        thread = threading.Thread(target=interrupt_when_it_waits)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
            consumer.pull(1, timeout=600)
        thread.join()
        with sync.Producer(served.meta_url) as producer:
            producer.send("sync-pull", "x")
        (delivery,) = consumer.pull(1, timeout=60)
        delivery.ack()
