"""The ages of log segments: every record counts, messages and actions alike, also after a restart."""

from broker_node.storage.actions import StartReason
from broker_node.storage.store import MessageStore
from qmq_node.log.retention import keep_from
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import drop_before
from tests.support.drivers.store_driver import GROUP, StoreDriver

SEGMENT = 4096
HOUR_MS = 3_600_000


def cut(store: MessageStore, now_ms: int) -> int:
    return keep_from(store.segment_ages(), before_ms=now_ms - HOUR_MS, keep_bytes=0, floor=1 << 60)


def ages(store: MessageStore) -> dict[int, int | None]:
    return {age.base: age.newest_at_ms for age in store.segment_ages()}


def drained(disk: MemoryDisk) -> StoreDriver:
    """A log of a few messages in its first segment, then three segments of actions alone, a minute apart."""
    driver = StoreDriver(disk, 1, segment_bytes=SEGMENT)
    driver.send("orders", 3)
    driver.commit()
    subject = driver.store.subject("orders")
    while driver.store.log.written_end < 4 * SEGMENT:
        driver.clock.advance(60)
        for _ in range(10):
            driver.store.start_group(subject, GROUP, "", 0, False, StartReason.RESET)
        driver.commit()
    return driver


def test_segments_of_actions_alone_have_an_age_and_retention_passes_them() -> None:
    driver = drained(MemoryDisk())
    assert None not in ages(driver.store).values()
    driver.clock.advance(2 * 3600)
    driver.send("orders", 1)
    driver.commit()
    assert cut(driver.store, driver.clock.wall_ms()) == 4 * SEGMENT
    assert cut(driver.store, driver.clock.wall_ms() - 2 * HOUR_MS) == 0


def test_ages_are_the_same_after_a_replay_and_after_a_checkpoint() -> None:
    driver = drained(MemoryDisk())
    before = ages(driver.store)
    replayed = driver.check(driver.disk.after_kill())
    assert ages(replayed) == before
    driver.checkpoint()
    restored = driver.check(driver.disk.after_kill())
    assert ages(restored) == before


def test_ages_of_segments_that_are_gone_are_not_restored() -> None:
    driver = drained(MemoryDisk())
    driver.checkpoint()
    driver.checkpoint()
    drop_before(driver.store.log, 2 * SEGMENT)
    store, _, _ = driver._open(driver.disk.after_kill())
    assert min(store.segment_newest_ms) == 2 * SEGMENT


def test_a_checkpoint_without_the_ages_of_action_segments_holds_up_nothing() -> None:
    # Version 0.1.0 noted the ages of messages only.
    driver = drained(MemoryDisk())
    for base in (SEGMENT, 2 * SEGMENT, 3 * SEGMENT):
        del driver.store.segment_newest_ms[base]
    driver.checkpoint()
    driver.restart()
    driver.clock.advance(2 * 3600)
    driver.send("orders", 1)
    driver.commit()
    # The age of the first message after them counts.
    assert cut(driver.store, driver.clock.wall_ms() + 2 * HOUR_MS) == 4 * SEGMENT
