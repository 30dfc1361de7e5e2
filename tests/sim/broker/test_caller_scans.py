"""One scan of a caller at a time."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from broker_node.admin.caller_scans import CALLER_CHARS_MAX, CallerScans
from qmq.node_admin import NodeRefused
from qmq_node.admin.server import BadRequest
from tests.sim.broker.admin import asked, sequences
from tests.support.drivers.in_process import message


class Scans:
    """Scans that run until the test ends them."""

    def __init__(self) -> None:
        self.scans = CallerScans()
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def start(self, name: str, caller: str = "ada") -> "asyncio.Task[None]":
        self._ends[name] = asyncio.Event()
        task = asyncio.create_task(self._run(name, caller))
        await settled()
        return task

    async def _run(self, name: str, caller: str) -> None:
        async with self.scans.slot(caller):
            self.running.append(name)
            await self._ends[name].wait()
            self.running.remove(name)

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settled()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_next_scan_of_a_caller_waits_and_a_newer_one_replaces_it() -> None:
    scans = Scans()
    first, second = await scans.start("first"), await scans.start("second")
    assert scans.running == ["first"]
    third = await scans.start("third")
    with pytest.raises(BadRequest, match="replaced this one") as refused:
        await second
    assert (refused.value.status, refused.value.code) == (409, "scan.replaced")
    await scans.end("first")
    assert scans.running == ["third"]
    await scans.end("third")
    await asyncio.gather(first, third)
    assert scans.scans._running == {}


async def test_callers_do_not_wait_for_each_other_nor_those_without_a_name() -> None:
    scans = Scans()
    tasks = [await scans.start(name, caller) for name, caller in (("a", "ada"), ("b", "bob"), ("c", ""), ("d", ""))]
    assert scans.running == ["a", "b", "c", "d"]
    for name in "abcd":
        await scans.end(name)
    await asyncio.gather(*tasks)


async def test_a_scan_that_fails_or_is_cancelled_lets_the_next_one_begin() -> None:
    scans = Scans()
    first, second = await scans.start("first"), await scans.start("second")
    first.cancel()
    await settled()
    assert scans.running == ["first", "second"], "`first` was cancelled while it ran; `second` runs"
    third = await scans.start("third")
    third.cancel()
    await settled()
    await scans.end("second")
    await second
    assert scans.scans._running == {}
    async with AsyncExitStack() as stack:
        with pytest.raises(ValueError, match="of the scan"):
            async with scans.scans.slot("ada"):
                raise ValueError("of the scan")
        await stack.enter_async_context(scans.scans.slot("ada"))


async def test_a_scan_that_is_cancelled_when_its_turn_comes_passes_it_on() -> None:
    scans = Scans()
    first, second = await scans.start("first"), await scans.start("second")
    scans._ends["first"].set()
    await first
    # Its turn has come, and it has not run since.
    second.cancel()
    await settled()
    assert second.cancelled()
    assert scans.scans._running == {}


async def test_a_search_names_its_caller(tmp_path: Path) -> None:
    async with asked(tmp_path) as (_, client, admin):
        await client.send(message(0))
        one, other = await asyncio.gather(
            admin.search("orders", filters=["number=0"], caller="ada"),
            admin.search("orders", filters=["number=0"], caller="ada"),
        )
        assert sequences(one) == sequences(other) == [0]
        with pytest.raises(NodeRefused, match=f"at most {CALLER_CHARS_MAX}"):
            await admin.search("orders", caller="x" * (CALLER_CHARS_MAX + 1))
