"""The chain of middleware: order, failures, cost when there is none; the state of middleware while a handler runs."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

import qmq_testing
from qmq.client.delivery import Delivery
from qmq.client.middleware import HOOKS, Middleware, MiddlewareChain, OutgoingMessage, ProcessState
from qmq.errors import LocalProtocolError, SendFailed
from qmq.receipt import Receipt
from qmq.supervisor import Supervisor
from tests.support.manual_clock import ManualClock

RECEIPT = Receipt("m1", "orders", "broker1", 1)


def delivery(message_id: str = "m1") -> Delivery:
    return qmq_testing.delivery(subject="orders", group="billing", message_id=message_id)


def outgoing(**properties: str) -> OutgoingMessage:
    return OutgoingMessage("orders", "m1", properties)


class Ended(Exception):
    """Of tests."""


class Recorder(Middleware):
    """Records the calls of all hooks in one list, and raises in the chosen ones."""

    def __init__(self, name: str, calls: list[tuple[Any, ...]], failing: set[str] | None = None) -> None:
        self.name, self.calls, self.failing = name, calls, failing if failing is not None else set()

    def _called(self, hook: str, *arguments: Any) -> None:
        self.calls.append((self.name, hook, *arguments))
        if hook in self.failing:
            raise ValueError(f"{self.name} {hook}")


def _recording(hook: str) -> Callable[..., None]:
    return lambda self, *arguments: self._called(hook, *arguments)


for _hook in HOOKS:
    setattr(Recorder, _hook, _recording(_hook))


class Chain:
    """A chain with its supervisor and the log of failures."""

    def __init__(self, *middleware: Middleware, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock()
        self.supervisor = Supervisor(
            self.clock, logger=logging.getLogger("tests.middleware"), on_failure=lambda name, error: None
        )
        self.chain = MiddlewareChain(middleware, self.supervisor)

    def jobs(self) -> dict[str, tuple[int, bool]]:
        return {job.name: (job.failures, job.is_failing) for job in self.supervisor.status()}


EVENTS: dict[str, tuple[Any, ...]] = {
    "before_send": (outgoing(a="1"),),
    "after_send": (outgoing(a="1"), RECEIPT),
    "after_receive": (delivery(),),
    "before_process": (delivery(),),
    "after_process": (delivery(), None),
    "before_ack": (delivery(),),
    "after_ack": (delivery(),),
    "before_retry": (delivery(), "Declined"),
    "after_retry": (delivery(), "Declined", True),
}


def test_these_are_the_hooks() -> None:
    assert set(HOOKS) == set(EVENTS)


@pytest.mark.parametrize("hook", HOOKS)
def test_before_runs_in_order_and_after_in_reverse_with_the_same_arguments(hook: str) -> None:
    calls: list[tuple[Any, ...]] = []
    made = Chain(Recorder("a", calls), Recorder("b", calls))
    getattr(made.chain, hook)(*EVENTS[hook])
    names = ["a", "b"] if hook.startswith("before") else ["b", "a"]
    assert calls == [(name, hook, *EVENTS[hook]) for name in names]
    assert made.jobs() == {}


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_raises_is_counted_and_stops_nothing(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    calls: list[tuple[Any, ...]] = []
    failing = {hook}
    made = Chain(Recorder("b", calls), Recorder("a", calls, failing))
    for _ in range(3):
        getattr(made.chain, hook)(*EVENTS[hook])
    assert len(calls) == 6
    name = f"middleware Recorder#2.{hook}"
    assert made.jobs() == {name: (3, True)}
    assert len(caplog.records) == 1
    assert f"job {name} failed: ValueError: a {hook}" in caplog.text
    failing.clear()
    getattr(made.chain, hook)(*EVENTS[hook])
    assert made.jobs() == {name: (3, False)}
    runs = {job.name: job.runs for job in made.supervisor.status()}[name]
    for _ in range(5):
        getattr(made.chain, hook)(*EVENTS[hook])
    assert {job.name: job.runs for job in made.supervisor.status()}[name] == runs


@pytest.mark.parametrize("error", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_is_not_caught(error: type[BaseException]) -> None:
    class Ending(Middleware):
        def after_ack(self, delivery: Delivery) -> None:
            raise error

    with pytest.raises(error):
        Chain(Ending()).chain.after_ack(delivery())


def test_before_send_changes_properties_and_a_hook_that_raises_changes_none() -> None:
    class Adding(Middleware):
        def before_send(self, message: OutgoingMessage) -> None:
            message.properties["region"] = "eu"
            message.state[self] = 7

    class Failing(Middleware):
        def before_send(self, message: OutgoingMessage) -> None:
            message.properties["broken"] = "1"
            del message.properties["a"]
            raise Ended

    message = outgoing(a="1")
    Chain(Failing(), Adding(), Failing()).chain.before_send(message)
    assert message.properties == {"a": "1", "region": "eu"}
    assert list(message.state.values()) == [7]


def test_a_chain_without_middleware_is_false_and_calls_nothing() -> None:
    made = Chain()
    assert not made.chain
    for hook in HOOKS:
        getattr(made.chain, hook)(*EVENTS[hook])
    assert Chain(Middleware()).chain
    assert made.jobs() == {}


def test_hooks_that_are_not_overridden_are_not_called() -> None:
    class One(Middleware):
        def after_ack(self, delivery: Delivery) -> None: ...

    chain = Chain(One()).chain
    assert not chain._before_send
    assert [hook for hook in HOOKS[1:] if getattr(chain, hook).args[0]] == ["after_ack"]


def test_what_is_no_middleware_and_coroutine_functions_are_rejected() -> None:
    class Waiting(Middleware):
        async def before_send(self, message: OutgoingMessage) -> None:  # type: ignore[override]
            ...

    with pytest.raises(LocalProtocolError, match=r"Waiting\.before_send is a coroutine function"):
        Chain(Waiting())
    with pytest.raises(LocalProtocolError, match="is not an instance of a subclass"):
        Chain(Waiting)  # type: ignore[arg-type]


def test_the_defaults_of_an_outgoing_message_are_not_shared() -> None:
    first, second = outgoing(), outgoing()
    first.state["a"] = 1
    assert second.state == {}
    assert (first.tags, first.due_ms) == ((), None)
    with pytest.raises(AttributeError):
        first.other = 1  # type: ignore[attr-defined]


def test_the_state_of_nested_deliveries() -> None:
    state: ProcessState[str] = ProcessState("state")
    outer, inner = delivery("outer"), delivery("inner")
    assert state.current is None
    state.begin(outer, "o")
    state.begin(inner, "i")
    assert state.current == (inner, "i")
    assert state.end(inner) == "i"
    assert state.current == (outer, "o")
    state.begin(inner, "i")
    assert state.end(outer) == "o"
    assert state.end(outer) is None
    assert state.current == (inner, "i")
    assert state.end(inner) == "i"
    assert state.current is None


async def test_concurrent_handlers_have_states_of_their_own_and_their_tasks_inherit_them() -> None:
    state: ProcessState[int] = ProcessState("state")
    go = asyncio.Event()

    async def child() -> int | None:
        return None if state.current is None else state.current[1]

    async def handler(number: int) -> list[int | None]:
        mine = delivery(str(number))
        state.begin(mine, number)
        await go.wait()
        return [await asyncio.create_task(child()), state.end(mine), await asyncio.create_task(child())]

    tasks = [asyncio.create_task(handler(number)) for number in range(3)]
    await asyncio.sleep(0)
    go.set()
    assert await asyncio.gather(*tasks) == [[number, number, None] for number in range(3)]
    assert state.current is None


def test_an_outcome_is_a_receipt_or_an_error() -> None:
    calls: list[tuple[Any, ...]] = []
    error = SendFailed("no")
    Chain(Recorder("a", calls)).chain.after_send(outgoing(), error)
    assert calls[0][-1] is error
