"""Derived files that are made again from what retention left of the log: nothing that the last checkpoint knew is lost."""

import pytest

from tests.sim.crashes.rebuilds import SEGMENT_BYTES, Broker, known
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver


def without_derived_files(disk: MemoryDisk) -> MemoryDisk:
    """The disk of a broker that lost its indexes."""
    left = disk.after_kill()
    for name in [name for name in left.names if name.startswith((f"{ROOT}/consume/", f"{ROOT}/progress/"))]:
        left.remove(name)
    for name in [name for name in left.names if "/checkpoint/tails" in name]:
        left.remove(name)
    return left


@pytest.mark.parametrize("seed", range(20))
def test_a_rebuild_loses_nothing_that_the_checkpoint_knew(seed: int) -> None:
    broker = Broker(seed)
    while broker.store.log.begin == 0:
        broker.run(40)
        broker.retain()
    broker.run(seed * 5)
    broker.commit()
    left = without_derived_files(broker.disk)
    whole, _, _ = broker._open(broker.disk.after_kill())
    assert not broker.recovery.rebuilt
    rebuilt, _, _ = broker._open(left)
    assert broker.recovery.rebuilt
    idle = rebuilt.subjects["idle"]
    assert (idle.begin, idle.visible_end, list(idle.groups)) == (5, 5, [GROUP])
    assert rebuilt.subjects["left"].groups == {}
    (state, histories), (expected, expected_histories) = known(rebuilt), known(whole)
    assert state == expected
    for key, entries in expected_histories.items():
        assert entries.endswith(histories[key]), key
    assert any(histories.values())
    # All that is in the log is in them.
    for name in [name for name in left.names if "/checkpoint/" in name]:
        left.remove(name)
    alone = known(broker._open(left)[0])[1]
    for name in ("orders", "mail"):
        assert len(histories[name, GROUP]) >= len(alone[name, GROUP])


def test_a_subject_that_returned_begins_where_its_second_life_began() -> None:
    broker = StoreDriver(MemoryDisk(), 1, segment_bytes=SEGMENT_BYTES)
    lives = (("other", 20), ("again", 7))
    for name, count in lives:
        broker.send(name, count)
        broker.commit()
    for name, count in lives:
        subject = broker.store.subjects[name]
        # By the retention of the subject.
        subject.consume_log.hide_before(count)
        broker.store.drop_subject(subject)
        broker.commit()
    for _ in range(2):
        broker.checkpoint()
    broker.send("again", 5)
    broker.send("orders", 3)
    broker.commit()
    broker.pull("again", "c1", 2)
    broker.commit()
    broker.checkpoint()
    rebuilt, _, _ = broker._open(without_derived_files(broker.disk))
    assert broker.recovery.rebuilt
    again = rebuilt.subjects["again"]
    assert (again.begin, again.visible_end, again.origin, again.withheld) == (20, 25, 20, [])
    assert list(again.groups) == [GROUP]
