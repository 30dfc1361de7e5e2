"""What retention leaves for slaves that are behind."""

from qmq.daemon.replication.retention_holds import HOLD_SECONDS, RetentionHolds


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
