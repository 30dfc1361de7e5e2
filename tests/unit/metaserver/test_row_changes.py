"""What is known of a requested change of a row, also when the database fails during it."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.memory.row_wishes import CandidateLog, RowChange
from metaserver.replication import row_changes
from metaserver.replication.row_changes import RowAnswer, RowChanges
from qmq.errors import QmqError
from qmq.protocol.group_rows import RowResult
from qmq_node.replication.rules.row import ChangeRejected, GroupRow, Promotion

ROW = GroupRow("g1", ("a", "b"), "a", ("a", "b"), 1, 7, "p1")
PROMOTION = Promotion(1, 7, "b", "boot", 2, "p2")
PROMOTED = PROMOTION.applied_to(ROW)


class Store:
    """One row, whose database fails as told."""

    def __init__(self) -> None:
        self.row = ROW
        self.fails_before = self.fails_after = self.fails_to_read = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.blocked: threading.Event | None = None
        self.closed_by: str | None = None
        """The name of the thread that closed the connection."""

    def close(self) -> None:
        self.closed_by = threading.current_thread().name

    def record_known(self, name: str, place: tuple[int, int]) -> None:
        self.row = replace(self.read(name), known_place=place)

    def read(self, name: str) -> GroupRow:
        if self.fails_to_read:
            raise ConnectionError("the database is away")
        if name != "g1":
            raise QmqError(f"Broker group {name!r} not found.")
        return self.row

    def change(
        self,
        name: str,
        change: RowChange,
        newest_place: tuple[int, int] | None,
        *,
        action: str,
        reason: str,
        log: CandidateLog | None = None,
    ) -> GroupRow:
        if self.blocked is not None:
            self.blocked.wait(30)
        row = self.read(name)
        if newest_place is not None:
            row.check_not_restored(newest_place)
        changed = change(row)
        if self.fails_before:
            self.meanwhile()
            raise ConnectionError("the connection ended")
        self.row = changed
        if self.fails_after:
            self.meanwhile()
            raise ConnectionError("the connection ended before the reply")
        return changed


def made(store: Store, change: RowChange = PROMOTION.applied_to, name: str = "g1") -> tuple[RowAnswer, list[GroupRow]]:
    """The answer, and the rows that the metaserver learned."""

    async def make() -> tuple[RowAnswer, list[GroupRow]]:
        learned: list[GroupRow] = []
        changes = RowChanges(store, learned.append)
        answer = await changes.make(name, change, (1, 7), action="promote", reason="test")
        await changes.close()
        assert changes.counters.unavailable == (answer.result is RowResult.UNAVAILABLE)
        assert changes.counters.changes == (answer.result is RowResult.DONE)
        return answer, learned

    return asyncio.run(make())


def test_a_change_that_is_stored_is_done() -> None:
    assert made(Store()) == (RowAnswer(RowResult.DONE, PROMOTED), [PROMOTED])


def test_a_stale_change_brings_the_newer_row() -> None:
    store = Store()
    store.row = newer = replace(ROW, version=8, in_sync=("a",))
    answer, learned = made(store)
    assert (answer.result, answer.row, learned) == (RowResult.STALE, newer, [newer])
    assert "the row has epoch 1, version 8" in answer.reason


def test_a_change_against_the_rules_is_refused() -> None:
    answer, learned = made(Store(), replace(PROMOTION, candidate="c").applied_to)
    assert (answer.result, answer.row, learned) == (RowResult.REFUSED, ROW, [ROW])
    assert "node 'c' is not in sync" in answer.reason


def test_a_group_that_does_not_exist_is_refused() -> None:
    assert made(Store(), name="g9") == (RowAnswer(RowResult.REFUSED, None, "Broker group 'g9' not found."), [])


def test_a_change_whose_answer_was_lost_is_found_done() -> None:
    store = Store()
    store.fails_after = True
    assert made(store) == (RowAnswer(RowResult.DONE, PROMOTED), [PROMOTED])


def test_a_change_that_is_not_seen_in_the_database_may_still_be_made() -> None:
    store = Store()
    store.fails_before = True
    answer, learned = made(store)
    assert (answer.result, answer.row, learned) == (RowResult.UNAVAILABLE, ROW, [ROW])
    assert answer.reason == "the database failed: the connection ended"


@pytest.mark.parametrize("other", [replace(PROMOTED, promotion_id="other"), replace(ROW, version=9, in_sync=("a",))])
def test_a_change_that_another_one_overtook_during_a_failure_is_stale(other: GroupRow) -> None:
    store = Store()
    store.fails_before = True
    store.meanwhile = lambda: setattr(store, "row", other)
    answer, learned = made(store)
    assert (answer.result, answer.row, learned) == (RowResult.STALE, other, [other])


def test_a_change_is_unknown_while_the_database_is_away() -> None:
    store = Store()
    store.fails_after = True
    store.meanwhile = lambda: setattr(store, "fails_to_read", True)
    answer, learned = made(store)
    assert (answer.result, answer.row, learned) == (RowResult.UNAVAILABLE, None, [])
    assert store.row == PROMOTED


def test_a_database_that_hangs_is_not_waited_for_and_its_late_answer_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_changes, "ANSWER_SECONDS", 0.01)

    async def make() -> None:
        store, learned = Store(), asyncio.Queue[GroupRow]()
        store.blocked = threading.Event()
        changes = RowChanges(store, learned.put_nowait)
        answer = await changes.make("g1", PROMOTION.applied_to, (1, 7), action="promote", reason="test")
        assert (answer.result, answer.row) == (RowResult.UNAVAILABLE, None)
        assert answer.reason == "the database has not responded for 0.01 s"
        assert learned.empty()
        store.blocked.set()
        assert await learned.get() == PROMOTED
        await changes.close()

    asyncio.run(make())


def test_changes_that_wait_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_changes, "WAITING_MAX", 2)

    def rejected(row: GroupRow) -> GroupRow:
        raise ChangeRejected("never")

    async def make() -> None:
        store = Store()
        store.blocked = threading.Event()
        changes = RowChanges(store, lambda row: None)
        waiting = [
            asyncio.create_task(changes.make("g1", rejected, (1, 7), action="promote", reason="test")) for _ in range(2)
        ]
        await asyncio.sleep(0)
        answer = await changes.make("g1", rejected, (1, 7), action="promote", reason="test")
        assert (answer.result, answer.reason) == (RowResult.UNAVAILABLE, "2 changes wait for the database")
        store.blocked.set()
        assert [answer.result for answer in await asyncio.gather(*waiting)] == [RowResult.REFUSED] * 2
        await changes.close()

    asyncio.run(make())


async def test_the_connection_is_closed_by_its_thread_and_changes_that_wait_are_not_made() -> None:
    store, learned = Store(), list[GroupRow]()
    store.blocked = threading.Event()
    changes = RowChanges(store, learned.append)
    making = [
        asyncio.create_task(changes.make("g1", PROMOTION.applied_to, (1, 7), action="promote", reason="test"))
        for _ in range(2)
    ]
    await asyncio.sleep(0)
    closing = asyncio.create_task(changes.close())
    await asyncio.sleep(0)
    store.blocked.set()
    first, second = await asyncio.gather(*making)
    await closing
    assert (first.result, second.result) == (RowResult.DONE, RowResult.UNAVAILABLE)
    assert second.reason == "this metaserver stops"
    assert store.closed_by is not None
    assert store.closed_by.startswith("rows")


def test_a_row_that_is_not_stored_yet_is_no_line_of_the_log_and_one_that_can_not_be_read_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store()

    async def read(name: str) -> list[GroupRow]:
        learned: list[GroupRow] = []
        changes = RowChanges(store, learned.append)
        await changes.read(name)
        await changes.close()
        return learned

    with caplog.at_level(logging.INFO):
        assert asyncio.run(read("g2")) == []
        assert caplog.messages == []
        store.fails_to_read = True
        assert asyncio.run(read("g1")) == []
    assert caplog.messages == ["the row of g1 can't be read: the database is away"]
