"""The blocking client: calls from threads, and a loop of its own in a thread."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import qmq
from qmq import sync
from qmq.protocol.delayed import Outcome
from tests.conftest import NewSystems
from tests.support.in_process import small_system
from tests.support.system import System
from tests.support.waiting import eventually_async


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
    assert set(sync.__all__) >= set(qmq.__all__) - {"Batch"}
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
