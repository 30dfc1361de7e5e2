"""Delays of a client whose machine has another time than the delay node's."""

from datetime import timedelta

from qmq import sync
from qmq.protocol.delayed import Outcome
from qmq_testing import Server

SECOND = timedelta(seconds=1)


def test_a_client_that_is_a_day_behind_its_delay_node_sends_for_the_time_after_a_delay() -> None:
    with Server() as server:
        server.time.advance(timedelta(days=1))
        with sync.Producer(server.url) as producer:
            before = server.time.now()
            soon = producer.send("orders", {"n": 1}, delay=SECOND)
            later = producer.send("orders", {"n": 2}, delay=timedelta(days=2))
            assert before + SECOND <= soon.due_at + timedelta(milliseconds=1)
            (message,) = server.wait_for("orders", timeout=60)
            assert message.properties["n"] == "1"
            assert server.time.now() >= soon.due_at
            change = later.reschedule(delay=timedelta(hours=1))
            assert change.outcome is Outcome.DONE
            assert change.due_ms >= (before + timedelta(hours=1)).timestamp() * 1000 - 1
