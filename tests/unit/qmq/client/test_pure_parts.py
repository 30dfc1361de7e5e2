"""The client's pure parts: ack window, choice of broker group, public names."""

import subprocess
import sys

import pytest

import qmq
from qmq.client.app import App
from qmq.client.prefetch import MESSAGES_FIRST, SLOW_SECONDS, PullSize
from qmq.errors import LocalProtocolError
from qmq.net.routing import ADDRESSES_MAX, Breaker, RoundRobin, former_masters
from qmq.net.timing import Backoff
from qmq.protocol.commands import BrokerGroupRoute


def routes(*names: str) -> list[BrokerGroupRoute]:
    """Routes of broker groups, each with a master at `NAME:1`."""
    return [BrokerGroupRoute(name, f"{name}:1", 0, 1) for name in names]


def test_groups_are_taken_in_turn_and_a_failing_one_rests_for_a_growing_while() -> None:
    breaker = Breaker(Backoff(first=1.0, factor=2.0, longest=3.0))
    turn = RoundRobin(breaker)
    first = [turn.choose(routes("a", "b"), 0.0) for _ in range(4)]
    assert [r.name for r in first if r] in (["a", "b", "a", "b"], ["b", "a", "b", "a"])
    breaker.failed("a:1", 0.0)
    assert {r.name for r in (turn.choose(routes("a", "b"), 0.5) for _ in range(3)) if r} == {"b"}
    breaker.failed("a:1", 1.0)
    assert breaker.closes_at("a:1") == 3.0
    breaker.failed("b:1", 1.0)
    assert turn.choose(routes("a", "b"), 1.5) is None
    breaker.succeeded("a:1")
    assert turn.choose(routes("a"), 1.5, avoid="a") is not None


def test_a_group_with_another_master_can_be_chosen_at_once() -> None:
    breaker = Breaker(Backoff(first=1.0))
    turn = RoundRobin(breaker)
    breaker.failed("a:1", 0.0)
    assert turn.choose(routes("a"), 0.5) is None
    moved = BrokerGroupRoute("a", "a:2", 0, 1)
    assert turn.choose([moved], 0.5) is moved
    breaker.forget("a:1")
    assert turn.choose(routes("a"), 0.5) is not None


def test_a_breaker_forgets_the_oldest_of_too_many_failing_masters() -> None:
    breaker = Breaker(Backoff(first=1.0))
    for number in range(ADDRESSES_MAX):
        breaker.failed(f"h:{number}", 0.0)
    breaker.failed("h:0", 0.0)
    breaker.failed("new:1", 0.0)
    assert [name for name in ("h:0", "h:1", "h:2", "new:1") if not breaker.is_open(name, 0.5)] == ["h:1"]


def test_former_masters_are_those_of_groups_with_another_one() -> None:
    known = {"a": "a:1", "b": "b:2", "c": "c:1", "d": "d:1"}
    offline = BrokerGroupRoute("d", "", 0, 1)
    assert former_masters(known, [*routes("a", "b", "new"), offline]) == ["b:2"]


def test_unknown_options_fail_when_declared() -> None:
    app = App("localhost:8080")
    with pytest.raises(LocalProtocolError, match="retries"):
        app.consumer("s", group="g", retries=3)


def test_the_public_names_are_these() -> None:
    assert qmq.__all__ == [
        "App", "Backoff", "Batch", "BodyUndecodable", "Consumer", "DelayedMessages", "DelayedReceipt", "Delivery", "Json",
        "Limits", "Middleware", "OutgoingMessage", "Producer", "QmqError", "QueueFull", "Receipt", "SendFailed", "SendManyFailed",
        "Timeouts",
    ]  # fmt: skip
    assert all(getattr(qmq, name) for name in qmq.__all__)
    with pytest.raises(AttributeError):
        qmq.Nothing  # noqa: B018


def test_the_client_needs_the_standard_library_only_and_a_broker_no_django() -> None:
    code = (
        "import sys, {modules}\n"
        "third = {{m.split('.')[0] for m in sys.modules}} & {{'django', 'aiohttp', 'numpy', 'celery', 'prometheus_client'}}\n"
        "print(sorted(third))"
    )
    for modules, allowed in (
        ("qmq.cli, qmq.client.app, qmq.sync", "[]"),
        ("broker_node.broker", "['aiohttp', 'prometheus_client']"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", code.format(modules=modules)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == allowed


# --- how many messages a pull asks for -------------------------------------------------------------------------------


def test_a_pull_asks_for_as_many_messages_as_fit_the_target_and_grows_by_doubling() -> None:
    size = PullSize(100, 1000)
    assert size.messages == 100
    size.received(100, 9_000, was_awaited=False)
    assert size.messages == 11
    size.received(11, 11 * 2_000, was_awaited=True)
    assert size.messages == 1, "one message larger than the target is still asked for"
    for expected in (2, 4, 8, 16, 32, 64, 100, 100):
        size.received(1, 10, was_awaited=False)
        assert size.messages == expected


def test_a_pull_asks_for_more_messages_while_the_application_waits_and_for_fewer_when_it_is_slow() -> None:
    size = PullSize(700, 1 << 30)
    size.received(99, 99, was_awaited=True)
    assert size.messages == MESSAGES_FIRST, "there were no more"
    size.received(100, 100, was_awaited=False)
    assert size.messages == MESSAGES_FIRST, "there was no need for more"
    for expected in (200, 400, 700, 700):
        size.received(size.messages, 100, was_awaited=True)
        assert size.messages == expected
    size.waited(SLOW_SECONDS)
    assert size.messages == 700
    for expected in (350, 175, 100, 100):
        size.waited(SLOW_SECONDS + 0.1)
        assert size.messages == expected
    for _ in range(3):
        size.received(size.messages, 100, was_awaited=True)
    size.found_nothing()
    assert size.messages == MESSAGES_FIRST
    small = PullSize(30, 1 << 30)
    small.waited(100.0)
    assert small.messages == 30


def test_a_pull_that_failed_is_repeated_for_half_of_what_it_asked_for() -> None:
    size = PullSize(100, 1000)
    size.failed(30)
    assert size.messages == 15, "there was room for 30 only"
    size.failed(15)
    size.failed(7)
    size.failed(3)
    size.failed(1)
    assert size.messages == 1
