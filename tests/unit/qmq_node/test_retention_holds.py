"""What retention leaves for slaves that are behind."""

from qmq_node.replication.master.retention_holds import (
    HOLD_SECONDS,
    REBUILD_BYTES_PER_SECOND,
    REBUILD_SECONDS_MAX,
    RetentionHolds,
)


def test_what_a_slave_needs_is_held_while_it_gets_further() -> None:
    holds = RetentionHolds()
    assert holds.offsets(0.0) == []
    holds.hold("a", 100, 0.0)
    holds.hold("b", 900, 0.0)
    assert sorted(holds.offsets(HOLD_SECONDS - 1)) == [100, 900]
    holds.hold("a", 200, HOLD_SECONDS - 1)
    # The same offset again is no progress, nor is a lower one: a slave that begins again and again holds nothing for ever.
    holds.hold("b", 900, HOLD_SECONDS - 1)
    assert holds.offsets(HOLD_SECONDS) == [200]
    holds.hold("b", 10, HOLD_SECONDS)
    assert holds.offsets(HOLD_SECONDS) == [200]
    holds.hold("b", 11, HOLD_SECONDS)
    assert holds.offsets(HOLD_SECONDS) == [200, 11]
    holds.keep_only(["m", "b"])
    assert holds.offsets(HOLD_SECONDS) == [11]


def test_a_slave_that_copied_has_time_to_build_its_indexes() -> None:
    assert (HOLD_SECONDS, REBUILD_BYTES_PER_SECOND, REBUILD_SECONDS_MAX) == (600.0, 16 << 20, 3_600.0)
    holds, seconds = RetentionHolds(), 100.0
    holds.hold("a", 5, 0.0, to_rebuild=round(seconds * REBUILD_BYTES_PER_SECOND))
    holds.hold("b", 7, 0.0, to_rebuild=1 << 60)
    assert holds.offsets(HOLD_SECONDS + seconds - 1) == [5, 7]
    assert holds.offsets(HOLD_SECONDS + seconds) == [7]
    # A confirmation of the same end prolongs nothing.
    holds.hold("b", 7, HOLD_SECONDS, to_rebuild=1 << 60)
    assert holds.offsets(HOLD_SECONDS + REBUILD_SECONDS_MAX - 1) == [7]
    assert holds.offsets(HOLD_SECONDS + REBUILD_SECONDS_MAX) == []
    # It follows: what it has copied is open.
    holds.hold("b", 8, 0.0)
    assert holds.offsets(HOLD_SECONDS) == [5]
