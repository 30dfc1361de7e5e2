"""What a process leaves behind that ends, or is forked, without closing its clients."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from qmq_testing import Server
from tests.support.servers.processes import PROJECT


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def run(code: str, *arguments: str, is_ok: bool = True) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; the limit of the test is its only limit."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, cwd=PROJECT
    )
    assert (done.returncode == 0) is is_ok, done.stderr
    return done


SEND_SOON = """
import sys
from qmq.sync import Producer
producer = Producer(sys.argv[1])
producer.start()
for number in range(int(sys.argv[2])):
    producer.send_soon("orders", {"number": number})
"""


@pytest.mark.parametrize("count", ["1", "2000"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_script_that_ends_sends_what_is_queued(server: Server, count: str, host: str) -> None:
    """Also if no connection is open yet, and the name of the metaserver has to be looked up."""
    done = run(SEND_SOON, server.url.replace("127.0.0.1", host), count)
    assert done.stderr == ""
    assert sorted(int(message.properties["number"]) for message in server.messages("orders")) == [*range(int(count))]


CHILD = """
import multiprocessing, sys
from qmq.sync import Producer

def work():
    producer = Producer(sys.argv[1])
    producer.start()
    producer.send_soon("orders", {"number": 1})

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
sys.exit(child.exitcode)
"""


def test_a_child_of_multiprocessing_that_ends_sends_what_is_queued(server: Server) -> None:
    run(CHILD, server.url)
    assert server.count("orders") == 1


NOT_REACHED = """
from qmq.sync import Producer
from qmq import Timeouts
producer = Producer("127.0.0.1:1", timeouts=Timeouts(delivery=0.5))
producer.start()
for number in range(7):
    producer.send_soon("orders", {"number": number}).add_done_callback(lambda done: done.exception())
"""


def test_what_can_not_be_sent_when_the_process_ends_is_reported_with_its_number() -> None:
    assert "closed before 7 messages were stored" in run(NOT_REACHED).stderr


ASYNC_SEND = """
import asyncio, gc, sys
from qmq import Producer

async def main():
    producer = Producer(sys.argv[1])
    await producer.start()
    for number in range(12):
        producer.send_soon("orders", {"number": number}, callback=lambda outcome: None)
    kept.append(producer)

kept = []
if sys.argv[2] == "run":
    asyncio.run(main())
else:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    if sys.argv[2] == "collected":
        kept.clear()
        del loop
        gc.collect()
"""


@pytest.mark.parametrize("how", ["run", "kept", "collected"])
def test_a_loop_that_ends_before_its_producer_is_closed_leaves_a_warning_with_the_number(
    server: Server, how: str
) -> None:
    done = run(ASYNC_SEND, server.url, how)
    assert done.stderr.count("12 messages that are not stored: it was not closed before") == 1, done.stderr


ASYNC_CONSUMER = """
import asyncio, sys
from qmq import Consumer

async def main():
    consumer = Consumer(sys.argv[1], "orders", "billing", start="earliest")
    await consumer.start()
    await consumer.pull(1, timeout=60)

asyncio.run(main())
"""


def test_a_loop_that_ends_before_its_consumer_is_closed_leaves_a_warning_with_the_number(server: Server) -> None:
    run(SEND_SOON, server.url, "3")
    done = run(ASYNC_CONSUMER, server.url)
    assert done.stderr.count("holds 3 messages that are not acknowledged") == 1, done.stderr


SYNC_CONSUMER = """
import sys
from qmq.sync import Consumer
consumer = Consumer(sys.argv[1], "orders", "billing", start="earliest", consumer_id=sys.argv[2])
consumer.start()
(delivery,) = consumer.pull(1, timeout=60)
print(delivery.properties["number"])
delivery.ack()
"""


def test_a_consumer_that_is_not_closed_acknowledges_and_returns_its_messages_when_the_process_ends(
    server: Server,
) -> None:
    """Others get the messages after the brokers' retry delay, not after the lease, and none that was acknowledged."""
    run(SEND_SOON, server.url, "3")
    assert [run(SYNC_CONSUMER, server.url, f"c{number}").stdout.strip() for number in range(3)] == ["0", "1", "2"]


BLOCKED = """
import asyncio, sys, threading
from qmq import Consumer

started = threading.Event()

def handle(delivery):
    started.set()
    threading.Event().wait()

async def main():
    async with Consumer(sys.argv[1], "orders", "billing", start="earliest") as consumer:
        running = asyncio.create_task(consumer.run(handle))
        while not started.is_set():
            await asyncio.sleep(0.01)
        await consumer.close(timeout=0.5)
        await running
    print("closed")

asyncio.run(main())
"""
BLOCKED_SYNC = """
import sys, threading
from qmq.sync import App

app = App(sys.argv[1])

@app.consumer("orders", group="billing", start="earliest")
def handle(delivery):
    app.stop(0.5)
    threading.Event().wait()

app.run()
print("closed")
"""


@pytest.mark.parametrize("program", [BLOCKED, BLOCKED_SYNC], ids=["asyncio", "sync"])
def test_a_function_that_never_returns_does_not_keep_the_process_alive_after_close(
    server: Server, program: str
) -> None:
    run(SEND_SOON, server.url, "1")
    assert run(program, server.url).stdout == "closed\n"


FORKED = """
import os, sys
from datetime import timedelta
from qmq.errors import ClientForked
from qmq.sync import Consumer, DelayedMessages, Producer

url = sys.argv[1]
unused = [Producer(url), Consumer(url, "orders", "others", start="earliest"), DelayedMessages(url)]
producer, consumer, delayed = Producer(url), Consumer(url, "orders", "billing", start="earliest"), DelayedMessages(url)
with producer, consumer:
    for number in range(3):
        receipt = producer.send("orders", {"number": number})
    later = producer.send("orders", {"number": 3}, delay=timedelta(days=1))
    delayed.calendar()
    (delivery,) = consumer.pull(1, timeout=60)
    iterator = iter(consumer)
    next(iterator).ack()
    batches = consumer.batches()
    child = os.fork()
    if child == 0:
        uses = {
            "send": lambda: producer.send("orders", {}),
            "send_soon": lambda: producer.send_soon("orders", {}),
            "send_many": lambda: producer.send_many("orders", [{}]),
            "flush": producer.flush,
            "start": producer.start,
            "cancel": later.cancel,
            "calendar": delayed.calendar,
            "find": lambda: delayed.find("x"),
            "pull": lambda: consumer.pull(5, timeout=0),
            "next": lambda: next(iterator),
            "iter": lambda: next(iter(consumer)),
            "batches": lambda: next(batches),
            "run": lambda: consumer.run(lambda delivery: None),
            "pause": consumer.pause,
            "resume": consumer.resume,
            "start a consumer": consumer.start,
            "retry": delivery.retry,
            "ack": delivery.ack,
        }
        wrong = 0
        for name, use in uses.items():
            try:
                use()
            except ClientForked as error:
                assert "in the child process" in str(error)
            except BaseException as error:
                wrong += 1
                print(name, "raised", repr(error), file=sys.stderr)
            else:
                wrong += 1
                print(name, "raised nothing", file=sys.stderr)
        producer.close()
        consumer.close()
        with unused[0], unused[1]:
            unused[0].send("orders", {"number": 4})
            assert unused[1].pull(1, timeout=60)
            assert sum(unused[2].calendar().hours.values()) == 1
        with Producer(url) as own:
            own.send("orders", {"number": 5})
        os._exit(wrong)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    delivery.ack()
    assert len(consumer.pull(1, timeout=60)) == 1
    producer.send("orders", {"number": 6})
    assert later.cancel().outcome.name == "DONE"
"""


def test_clients_of_a_parent_say_in_a_forked_child_what_to_do_and_the_parents_work_on(server: Server) -> None:
    run(FORKED, server.url)
    assert sorted(int(message.properties["number"]) for message in server.messages("orders")) == [0, 1, 2, 4, 5, 6]


FORKED_LOOP = """
import asyncio, os, sys
from qmq import Consumer, Producer
from qmq.errors import ClientForked

async def main():
    async with Producer(sys.argv[1]) as producer, Consumer(sys.argv[1], "orders", "billing", start="earliest") as consumer:
        await producer.send("orders", {"number": 0})
        child = os.fork()
        if child == 0:
            # asyncio refuses to await in the child: each call is driven by hand.
            for call in (producer.send("orders", {}), producer.flush(), consumer.pull(), anext(aiter(consumer))):
                try:
                    call.send(None) if asyncio.iscoroutine(call) else call.__await__().send(None)
                except ClientForked:
                    continue
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        await producer.send("orders", {"number": 1})
        assert await consumer.pull(1, timeout=60)

asyncio.run(main())
"""


def test_asyncio_clients_say_in_a_forked_child_what_to_do(server: Server) -> None:
    run(FORKED_LOOP, server.url)
    assert server.count("orders") == 2
