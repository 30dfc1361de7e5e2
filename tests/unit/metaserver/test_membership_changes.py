"""What is known of a requested change of a membership, also when the database fails during it."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.memory.membership_wishes import MembershipChange, MembershipWish
from metaserver.replication import membership_changes
from metaserver.replication.membership_changes import MembershipAnswer, MembershipChanges
from qmq.errors import QmqError
from qmq.protocol.group_memberships import MembershipResult
from qmq.protocol.reasons import Reason
from qmq_node.replication.rules.membership import ChangeRejected, Membership, Promotion

MEMBERSHIP = Membership("g1", ("a", "b"), "a", ("a", "b"), 1, 7, "p1")
PROMOTION = Promotion(1, 7, "b", "boot", 2, "p2")
PROMOTED = PROMOTION.applied_to(MEMBERSHIP)


class Store:
    """One membership, whose database fails as told."""

    def __init__(self) -> None:
        self.membership = MEMBERSHIP
        self.fails_before = self.fails_after = self.fails_to_read = False
        self.meanwhile: Callable[[], None] = lambda: None
        self.blocked: threading.Event | None = None
        self.closed_by: str | None = None
        """The name of the thread that closed the connection."""

    def close(self) -> None:
        self.closed_by = threading.current_thread().name

    def record_known(self, name: str, place: tuple[int, int]) -> None:
        self.membership = replace(self.read(name), known_place=place)

    def read(self, name: str) -> Membership:
        if self.fails_to_read:
            raise ConnectionError("the database is away")
        if name != "g1":
            raise QmqError(f"Broker group {name!r} not found.")
        return self.membership

    def change(self, name: str, wish: MembershipWish, newest_place: tuple[int, int]) -> Membership:
        if self.blocked is not None:
            self.blocked.wait(30)
        membership = self.read(name)
        changed = wish.applied_to(membership, newest_place, lambda node_id: None)
        if self.fails_before:
            self.meanwhile()
            raise ConnectionError("the connection ended")
        self.membership = changed
        if self.fails_after:
            self.meanwhile()
            raise ConnectionError("the connection ended before the reply")
        return changed


def wish(change: MembershipChange) -> MembershipWish:
    return MembershipWish(change, "promote", Reason("test"))


def made(
    store: Store, change: MembershipChange = PROMOTION.applied_to, name: str = "g1"
) -> tuple[MembershipAnswer, list[Membership]]:
    """The answer, and the memberships that the metaserver learned."""

    async def make() -> tuple[MembershipAnswer, list[Membership]]:
        learned: list[Membership] = []
        changes = MembershipChanges(store, learned.append)
        answer = await changes.make(name, wish(change), (1, 7))
        await changes.close()
        assert changes.counters.unavailable == (answer.result is MembershipResult.UNAVAILABLE)
        assert changes.counters.changes == (answer.result is MembershipResult.DONE)
        return answer, learned

    return asyncio.run(make())


def test_a_change_that_is_stored_is_done() -> None:
    assert made(Store()) == (MembershipAnswer(MembershipResult.DONE, PROMOTED), [PROMOTED])


def test_a_stale_change_brings_the_newer_membership() -> None:
    store = Store()
    store.membership = newer = replace(MEMBERSHIP, version=8, in_sync=("a",))
    answer, learned = made(store)
    assert (answer.result, answer.membership, learned) == (MembershipResult.STALE, newer, [newer])
    assert "the membership has epoch 1, version 8" in answer.reason


def test_a_change_against_the_rules_is_refused() -> None:
    answer, learned = made(Store(), replace(PROMOTION, candidate="c").applied_to)
    assert (answer.result, answer.membership, learned) == (MembershipResult.REFUSED, MEMBERSHIP, [MEMBERSHIP])
    assert "node 'c' is not in sync" in answer.reason


def test_a_group_that_does_not_exist_is_refused() -> None:
    assert made(Store(), name="g9") == (
        MembershipAnswer(MembershipResult.REFUSED, None, "Broker group 'g9' not found."),
        [],
    )


def test_a_change_whose_answer_was_lost_is_found_done() -> None:
    store = Store()
    store.fails_after = True
    assert made(store) == (MembershipAnswer(MembershipResult.DONE, PROMOTED), [PROMOTED])


def test_a_change_that_is_not_seen_in_the_database_may_still_be_made() -> None:
    store = Store()
    store.fails_before = True
    answer, learned = made(store)
    assert (answer.result, answer.membership, learned) == (MembershipResult.UNAVAILABLE, MEMBERSHIP, [MEMBERSHIP])
    assert answer.reason == "the database failed: the connection ended"


@pytest.mark.parametrize(
    "other", [replace(PROMOTED, promotion_id="other"), replace(MEMBERSHIP, version=9, in_sync=("a",))]
)
def test_a_change_that_another_one_overtook_during_a_failure_is_stale(other: Membership) -> None:
    store = Store()
    store.fails_before = True
    store.meanwhile = lambda: setattr(store, "membership", other)
    answer, learned = made(store)
    assert (answer.result, answer.membership, learned) == (MembershipResult.STALE, other, [other])


def test_a_change_is_unknown_while_the_database_is_away() -> None:
    store = Store()
    store.fails_after = True
    store.meanwhile = lambda: setattr(store, "fails_to_read", True)
    answer, learned = made(store)
    assert (answer.result, answer.membership, learned) == (MembershipResult.UNAVAILABLE, None, [])
    assert store.membership == PROMOTED


def test_a_database_that_hangs_is_not_waited_for_and_its_late_answer_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership_changes, "ANSWER_SECONDS", 0.01)

    async def make() -> None:
        store, learned = Store(), asyncio.Queue[Membership]()
        store.blocked = threading.Event()
        changes = MembershipChanges(store, learned.put_nowait)
        answer = await changes.make("g1", wish(PROMOTION.applied_to), (1, 7))
        assert (answer.result, answer.membership) == (MembershipResult.UNAVAILABLE, None)
        assert answer.reason == "the database has not responded for 0.01 s"
        assert learned.empty()
        store.blocked.set()
        assert await learned.get() == PROMOTED
        await changes.close()

    asyncio.run(make())


def test_changes_that_wait_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership_changes, "WAITING_MAX", 2)

    def rejected(membership: Membership) -> Membership:
        raise ChangeRejected("never")

    async def make() -> None:
        store = Store()
        store.blocked = threading.Event()
        changes = MembershipChanges(store, lambda membership: None)
        waiting = [asyncio.create_task(changes.make("g1", wish(rejected), (1, 7))) for _ in range(2)]
        await asyncio.sleep(0)
        answer = await changes.make("g1", wish(rejected), (1, 7))
        assert (answer.result, answer.reason) == (MembershipResult.UNAVAILABLE, "2 changes wait for the database")
        store.blocked.set()
        assert [answer.result for answer in await asyncio.gather(*waiting)] == [MembershipResult.REFUSED] * 2
        await changes.close()

    asyncio.run(make())


async def test_the_connection_is_closed_by_its_thread_and_changes_that_wait_are_not_made() -> None:
    store, learned = Store(), list[Membership]()
    store.blocked = threading.Event()
    changes = MembershipChanges(store, learned.append)
    making = [asyncio.create_task(changes.make("g1", wish(PROMOTION.applied_to), (1, 7))) for _ in range(2)]
    await asyncio.sleep(0)
    closing = asyncio.create_task(changes.close())
    await asyncio.sleep(0)
    store.blocked.set()
    first, second = await asyncio.gather(*making)
    await closing
    assert (first.result, second.result) == (MembershipResult.DONE, MembershipResult.UNAVAILABLE)
    assert second.reason == "this metaserver stops"
    assert store.closed_by is not None
    assert store.closed_by.startswith("memberships")


def test_a_membership_that_is_not_stored_yet_is_no_line_of_the_log_and_one_that_can_not_be_read_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Store()

    async def read(name: str) -> list[Membership]:
        learned: list[Membership] = []
        changes = MembershipChanges(store, learned.append)
        await changes.read(name)
        await changes.close()
        return learned

    with caplog.at_level(logging.INFO):
        assert asyncio.run(read("g2")) == []
        assert caplog.messages == []
        store.fails_to_read = True
        assert asyncio.run(read("g1")) == []
    assert caplog.messages == ["the membership of g1 can't be read: the database is away"]
