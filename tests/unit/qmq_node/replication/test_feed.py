"""Since when a slave lacks a commit, as far as the commits in memory say."""

from math import inf
from types import SimpleNamespace
from typing import Any, cast

from qmq_node.log.commit import SealedCommit
from qmq_node.log.record import Position
from qmq_node.replication.master.commit_batch import CommitBatch
from qmq_node.replication.master.feed import Feed
from tests.support.manual_clock import ManualClock


def batch(offset: int, end: int, *, is_seal: bool = False) -> CommitBatch:
    return CommitBatch(0, 0, offset, (Position(end, 0),), 0 if is_seal else end, (bytes(end - offset),))


def test_a_seal_behind_what_a_slave_has_is_no_lag() -> None:
    feed = Feed(cast(Any, None), ManualClock(), cast(Any, None), lambda: None)
    feed._commits[100], feed.end = (batch(100, 164, is_seal=True), 5.0), 164
    assert (feed.begun_at(100), feed.begun_at(164)) == (inf, inf)
    assert feed.begun_at(50) is None, "it is not kept"
    feed._commits[164], feed.end = (batch(164, 300), 7.0), 300
    assert (feed.begun_at(100), feed.begun_at(164), feed.begun_at(300)) == (7.0, 7.0, inf)


def test_commits_are_dropped_so_that_their_bytes_and_index_entries_stay_below_the_limit() -> None:
    log = SimpleNamespace(
        writer=SimpleNamespace(before_write=print), stored=SimpleNamespace(segment_at=lambda offset: None)
    )
    supervisor = SimpleNamespace(call=lambda name, job: None)
    feed = Feed(cast(Any, log), ManualClock(), cast(Any, supervisor), lambda: None, 1_000)
    feed.end = 0
    for number in range(10):
        commit = SealedCommit(0, number * 164, 100, 1, (bytes(100),), (bytes(32), bytes(64)))
        feed._add(commit, bytes(64))
        assert feed.kept_bytes == 260 * min(number + 1, 3)
    kept = [end for end in range(0, 1_641, 164) if feed.after(end) is not None]
    assert kept == [7 * 164, 8 * 164, 9 * 164]
    newest = feed.after(9 * 164)
    assert newest is not None
    assert newest.index_entries == (bytes(32), bytes(64))
    feed.release(9 * 164)
    assert feed.kept_bytes == 260
