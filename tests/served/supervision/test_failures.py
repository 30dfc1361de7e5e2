"""Failures in running processes, with their real periods: nothing ends silently, nothing is answered that is not applied."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker_node.serving import BrokerServing
from broker_node.storage.actions import StartReason
from qmq.errors import ConnectionLost
from qmq.protocol.commands import PullRequest
from tests.support.drivers.in_process import connected, message, running_broker, small_system
from tests.support.waiting import eventually_async


def fail_once(patch: pytest.MonkeyPatch, owner: object, name: str) -> Callable[[], int]:
    """Make the next call of a method raise; how often it was called from now on."""
    real, calls = getattr(owner, name), 0

    def call(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError("odd")
        return real(*arguments)

    patch.setattr(owner, name, call)
    return lambda: calls


@pytest.mark.parametrize("kind", ["broker", "delay", "metaserver"])
async def test_one_exception_does_not_end_periodic_work(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_system(tmp_path) as system:
        owner, method = {
            "broker": (system.brokers["g1"].data.changes, "take_unsampled"),
            "delay": (system.delay.serving.metrics.last_minute, "tick"),
            "metaserver": (system.meta.directory, "expire"),
        }[kind]
        calls = fail_once(monkeypatch, owner, method)
        await eventually_async(lambda: calls() >= 3, what="the job runs again")


async def test_a_failed_application_of_a_commit_ends_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert await client.send(message(1)) == {}
        fail_once(monkeypatch, type(broker.store), "index")
        with pytest.raises(ConnectionLost):
            await client.send(message(2))
        with pytest.raises(Exception, match="could not be applied: OSError: odd"):
            await broker.serve(asyncio.Event())


async def test_a_held_pull_whose_read_fails_does_not_hold_up_other_clients_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as reader, connected(broker) as sender:
        pull = asyncio.ensure_future(reader.pull(timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)

        def unreadable(_: PullRequest, __: object, **___: bool) -> None:
            raise OSError(5, "Input/output error")

        with monkeypatch.context() as patch:
            patch.setattr(broker.delivery, "pull", unreadable)
            assert await sender.send(message(1)) == {}
            assert await pull == (-1, [])
        assert broker.handlers.counters.bad_requests == {"unreadable": 1}
        broker.failure.check()


async def test_a_checkpoint_may_be_due_before_the_node_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def store_something(serving: BrokerServing) -> None:
        store = serving._data.store
        store.start_group(store.subject("orders"), "g", "", 0, False, StartReason.RESET)
        await serving._storage.committer.drain()

    monkeypatch.setattr(BrokerServing, "prepare", store_something)
    async with running_broker(tmp_path, checkpoint_bytes=1) as broker:
        await eventually_async(lambda: broker.checkpoints.saved == 1)
        broker.failure.check()
