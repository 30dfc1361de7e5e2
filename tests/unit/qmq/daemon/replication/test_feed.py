"""Since when a slave lacks a commit, as far as the commits in memory say."""

from math import inf
from typing import Any, cast

from qmq.daemon.replication.commit_batch import CommitBatch
from qmq.daemon.replication.feed import Feed
from qmq.log.record import Position
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
