"""Settlements step by step: slices within their budget, and nothing lost or doubled whenever the process ends."""

import contextlib
from collections import Counter

import pytest

from broker_node.delivery import settlement as settlement_module
from broker_node.delivery.retry_writer import Budget, move_orphans
from broker_node.delivery.settlement import BeingSettled, Settlement
from broker_node.storage.actions import Pull, SequenceRun, StartReason
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.progress import Consumer
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import LimitReached, StoreLimits
from qmq.protocol.commands import AckRequest, PullRequest
from qmq.protocol.messages import decode_raw
from qmq.protocol.names import retry_subject
from tests.support.disks.disk_work import complete, read_and_repair
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver

RETRY = retry_subject("orders", GROUP)


def holding(count: int, disk: MemoryDisk | None = None, limit: int = 1000) -> StoreDriver:
    """A consumer that pulled so many messages and acked none."""
    driver = StoreDriver(disk or MemoryDisk(), 1, segment_bytes=1 << 20)
    driver.store.start_group(driver.store.subject("orders"), GROUP, "", 0, False, StartReason.RESET)
    while driver.store.subjects["orders"].next_sequence < count:
        driver.send("orders", min(20, count - driver.store.subjects["orders"].next_sequence))
        driver.commit()
    last = -1
    while (answer := pull(driver, last, limit)) is not None:
        last = answer
    driver.commit()
    return driver


def pull(driver: StoreDriver, last: int, limit: int = 1000) -> int | None:
    answer = driver.delivery.pull(PullRequest("orders", GROUP, "c", limit, -1, last, 0, False))
    return answer.pull_begin + len(answer.raws) - 1 if answer.raws else None


def consumer_of(store: MessageStore) -> Consumer:
    return store.subjects["orders"].groups[GROUP].progress.consumers["c"]


def settlement(driver: StoreDriver) -> Settlement:
    subject = driver.store.subjects["orders"]
    found = driver.delivery.settlements.settle(subject, subject.groups[GROUP], consumer_of(driver.store))
    assert found is not None
    return found


def retried(store: MessageStore) -> list[str]:
    """The ids in the retry subject."""
    subject = store.subjects.get(RETRY)
    if subject is None:
        return []
    raws = read_and_repair(store, subject, subject.begin, subject.visible_end)
    return [decode_raw(raw)[0].message_id for raw in raws if raw is not None]


def in_flight(store: MessageStore) -> list[str]:
    """The ids that the consumer holds."""
    subject, found = store.subjects["orders"], []
    for run in consumer_of(store).log.runs():
        raws = read_and_repair(store, subject, run.begin, run.begin + run.count)
        found += [decode_raw(raw)[0].message_id for raw in raws if raw is not None]
    return found


def test_a_slice_keeps_to_its_budget_and_settles_exactly_what_it_wrote() -> None:
    driver = holding(100)
    job, store = settlement(driver), driver.store
    log, steps = consumer_of(store).log, 0
    while not job.step(Budget(messages=7)):
        steps += 1
        assert log.acked == 7 * steps
        assert store.subjects[RETRY].next_sequence == 7 * steps
    driver.commit()
    assert (log.in_flight, job.settled) == (0, 100)
    assert retried(store) == [f"m{n}" for n in range(100)]
    assert store.subjects["orders"].groups[GROUP].retried_total == 100


def test_a_slice_keeps_to_its_bytes_though_one_message_is_always_moved() -> None:
    driver = holding(10)
    job, store = settlement(driver), driver.store
    appended = 0
    for number in range(1, 11):
        assert job.step(Budget(bytes=1)) is (number == 10)
        now = store.subjects[RETRY].next_sequence
        assert now - appended == 1
        appended = now


def test_many_small_runs_are_settled_and_what_retention_took_costs_no_budget() -> None:
    driver = holding(40)
    store = driver.store
    subject = store.subjects["orders"]
    group = subject.groups[GROUP]
    runs = tuple(SequenceRun(begin, 1) for begin in range(1, 40, 2))
    store.act(subject, group, Pull("orders", GROUP, "d", 0, False, 0, 40, 40, runs))
    job = driver.delivery.settlements.settle(subject, group, group.progress.consumers["d"])
    assert job is not None
    subject.consume_log.hide_before(20)
    assert not job.step(Budget(messages=4))
    # 1, 3 ... 19 are gone; 21, 23, 25 and 27 were written.
    assert group.progress.consumers["d"].log.acked == 14
    while not job.step(Budget(messages=4)):
        pass
    driver.commit()
    assert retried(store) == [f"m{n}" for n in range(21, 40, 2)]
    assert job.settled == 20


def test_a_cold_slice_changes_nothing_and_goes_on_when_it_is_in_memory() -> None:
    driver = holding(60)
    job, store = settlement(driver), driver.store
    driver.disk.chill(f"{ROOT}/log/")
    before = store.log.gather.appended_end
    with pytest.raises(DiskWork) as raised:
        job.step(Budget())
    assert (store.log.gather.appended_end, consumer_of(store).log.acked) == (before, 0)
    complete(raised.value)
    # Not even a file system that never says what is in memory makes it read again.
    driver.disk.chill(f"{ROOT}/log/")
    job.plan = raised.value
    assert job.step(Budget())
    driver.commit()
    assert retried(store) == [f"m{n}" for n in range(60)]


def run_until_crash(crash_after: int | None) -> tuple[StoreDriver, int]:
    """Settle 60 messages in slices of 9, a commit each, and end at a disk operation counted from the beginning of it."""
    driver = holding(60)
    begin = driver.disk.steps
    driver.disk.crash_at = None if crash_after is None else begin + crash_after
    with contextlib.suppress(SimulatedCrash):
        job = settlement(driver)
        while not job.step(Budget(messages=9)):
            driver.commit()
            if driver.rng.random() < 0.3:
                driver.checkpoint()
        driver.commit()
    return driver, driver.disk.steps - begin


@pytest.mark.slow
def test_a_crash_at_any_disk_operation_loses_nothing_and_repeats_one_slice_at_most() -> None:
    everything = {f"m{n}" for n in range(60)}
    _, total = run_until_crash(None)
    assert total > 10
    for crash_after in range(total):
        driver, _ = run_until_crash(crash_after)
        for disk in driver.disk.crash_states(3, crash_after):
            store, _, _ = driver._open(disk)
            assert not store.log.stored.damaged
            moved, held = Counter(retried(store)), set(in_flight(store))
            assert set(moved) | held == everything, crash_after
            assert max(moved.values(), default=1) == 1
            assert len(set(moved) & held) <= 9, crash_after


def test_pulls_and_acks_of_a_consumer_wait_for_its_settlement_and_others_do_not() -> None:
    driver = holding(30)
    delivery = driver.delivery
    with pytest.raises(BeingSettled) as jumped:
        delivery.acks.ack(AckRequest("orders", GROUP, "c", 20, 24, False))
    job = jumped.value.settlement
    assert list(job.ranges) == [(0, 20)]
    for wait in (
        lambda: delivery.acks.ack(AckRequest("orders", GROUP, "c", 25, 29, False)),
        lambda: delivery.pull(PullRequest("orders", GROUP, "c", 10, -1, -1, 0, False)),
        lambda: delivery.settlements.leave(job.subject, job.group, job.consumer),
    ):
        with pytest.raises(BeingSettled) as waiting:
            wait()
        assert waiting.value.settlement is job
    assert delivery.settlements.settle(job.subject, job.group, job.consumer) is None
    delivery.pull(PullRequest("orders", GROUP, "other", 10, -1, -1, 0, False))
    delivery.acks.ack(AckRequest("orders", GROUP, "c", -1, -1, False))
    while not job.step(Budget(messages=6)):
        pass
    delivery.settlements.ended(job)
    delivery.acks.ack(AckRequest("orders", GROUP, "c", 20, 24, False))
    delivery.acks.ack(AckRequest("orders", GROUP, "c", 25, 29, False))
    driver.commit()
    assert (delivery.counters.acked, delivery.counters.settled) == (10, 20)
    assert retried(driver.store) == [f"m{n}" for n in range(20)]


def test_a_settlement_ends_when_its_group_is_forgotten_or_its_consumer_is_gone() -> None:
    driver = holding(30)
    job = settlement(driver)
    assert not job.step(Budget(messages=6))
    driver.store.forget_group(job.subject, job.group)
    assert job.step(Budget(messages=6))
    assert driver.store.subjects[RETRY].next_sequence == 6


def test_so_many_requests_wait_for_a_settlement_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settlement_module, "WAITING_MAX", 2)
    job = settlement(holding(5))
    done: list[object] = []
    job.then(done.append)
    job.then(done.append)
    with pytest.raises(LimitReached, match="2 requests"):
        job.then(done.append)
    job.ended(None)
    assert done == [None, None]


def test_a_settlement_without_room_for_its_retry_subject_is_refused_before_it_begins() -> None:
    driver = holding(5)
    driver.store.limits = StoreLimits(subjects_max=0)
    with pytest.raises(LimitReached, match="subjects_max"):
        settlement(driver)
    assert driver.delivery.settlements.running == {}
    assert consumer_of(driver.store).log.in_flight == 5


def test_a_consumer_with_as_many_messages_in_flight_as_it_may_have_gets_no_new_ones() -> None:
    driver = holding(0)
    driver.store.limits = StoreLimits(consumer_in_flight_max=6)
    driver.send("orders", 20)
    driver.commit()

    def pulled(last: int) -> tuple[int, bool]:
        answer = driver.delivery.pull(PullRequest("orders", GROUP, "c", 4, -1, last, 0, False))
        return len(answer.raws), answer.is_full

    assert pulled(-1) == (4, False)
    assert pulled(3) == (2, False)
    assert pulled(5) == (0, True)
    # What it holds it gets again.
    assert pulled(-1) == (4, False)
    driver.delivery.acks.ack(AckRequest("orders", GROUP, "c", 0, 2, False))
    assert pulled(5) == (3, False)
    other = driver.delivery.pull(PullRequest("orders", GROUP, "other", 4, -1, -1, 0, False))
    assert len(other.raws) == 4


def test_orphans_are_moved_in_slices_and_a_checkpoint_keeps_the_rest() -> None:
    driver = holding(0)
    driver.send("orders", 20)
    driver.commit()
    subject = driver.store.subjects["orders"]
    group = subject.groups[GROUP]
    # As if the commit with the pull of 0 to 19 were damaged.
    driver.store.act(subject, group, Pull("orders", GROUP, "c", 0, False, 0, 20, 20, ()))
    assert group.progress.orphans == [SequenceRun(0, 20)]
    assert move_orphans(driver.store, subject, group, Budget(messages=8)) == 8
    subject.changed()
    driver.commit()
    driver.checkpoint()
    store, _, _ = driver._open(driver.disk.after_kill())
    subject = store.subjects["orders"]
    group = subject.groups[GROUP]
    assert group.progress.orphans == [SequenceRun(8, 12)]
    while group.progress.orphans:
        move_orphans(store, subject, group, Budget(messages=8))
    driver.store = store
    driver.commit()
    assert retried(store) == [f"m{n}" for n in range(20)]
