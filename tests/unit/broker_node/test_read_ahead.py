"""What is read during a sync for the pulls that probably follow it."""

import pytest

from broker_node.reads import read_ahead
from broker_node.reads.filters import tag_match
from broker_node.reads.message_reader import Messages, Wanted, read_messages
from broker_node.storage.message_log import MessageLog
from broker_node.storage.subject import Group, Subject
from qmq.protocol.commands import PullRequest, TagFilter
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.store_driver import GROUP, StoreDriver, id_of


def filled(count: int) -> tuple[StoreDriver, Subject, Group]:
    driver = StoreDriver(MemoryDisk(), 1)
    subject = driver.store.subject("orders")
    group = driver.store.start_group(subject, GROUP, "", 0, False, 0)  # type: ignore[arg-type]
    driver.send("orders", count)
    driver.commit()
    return driver, subject, group


def noted(driver: StoreDriver, subject: Subject, group: Group, limit: int, times: int = 1) -> None:
    """Full pulls, twice: before one sync and before the next, during which messages are read ahead."""
    for _ in range(2):
        for _ in range(times):
            driver.delivery.read_ahead.note(subject, group, Wanted(((0, limit),), limit))
        driver.delivery.read_ahead.read()


def ids(messages: Messages | None) -> list[str] | None:
    return None if messages is None else [id_of(bytes(raw or b"")) for raw in messages.raws]


def test_a_group_that_pulls_again_and_again_finds_its_next_messages_read() -> None:
    driver, subject, group = filled(100)
    ahead = driver.delivery.read_ahead
    assert not ahead.is_due
    ahead.note(subject, group, Wanted(((0, 10),), 10))
    assert ahead.is_due
    ahead.read()
    assert not ahead.is_due
    assert ahead.take(group, Wanted(((0, 10),), 10)) is None, "one full pull does not make a backlog"
    noted(driver, subject, group, 10, times=3)
    for begin in (0, 10, 20):
        assert ids(ahead.take(group, Wanted(((begin, begin + 10),), 10))) == [f"m{n}" for n in range(begin, begin + 10)]
        assert ahead.take(group, Wanted(((begin, begin + 10),), 10)) is None, "taken once"
    assert ahead.take(group, Wanted(((30, 40),), 10)) is None, "as many pulls as there were"


@pytest.mark.parametrize(
    "wanted",
    [
        Wanted(((1, 11),), 10),
        Wanted(((0, 9),), 9),
        Wanted(((0, 11),), 11),
        Wanted(((0, 10),), 10, bytes_max=read_ahead.AHEAD_BYTES_MAX - 1),
        Wanted(((0, 10),), 10, match=tag_match([TagFilter(1, ("a",))])),
        Wanted(((0, 10),), 10, delay_ms=1),
    ],
)
def test_a_pull_that_wants_something_else_reads_for_itself(wanted: Wanted) -> None:
    driver, subject, group = filled(100)
    noted(driver, subject, group, 10)
    assert driver.delivery.read_ahead.take(group, wanted) is None


@pytest.mark.parametrize(
    "wanted", [Wanted(((0, 5),), 5, delay_ms=1), Wanted(((0, 5),), 5, match=tag_match([TagFilter(1, ("a",))]))]
)
def test_pulls_with_filters_and_of_retry_subjects_are_not_read_ahead_for(wanted: Wanted) -> None:
    driver, subject, group = filled(10)
    driver.delivery.read_ahead.note(subject, group, wanted)
    assert not driver.delivery.read_ahead.is_due


def test_what_was_not_pulled_by_the_next_sync_is_dropped() -> None:
    driver, subject, group = filled(100)
    noted(driver, subject, group, 10)
    driver.delivery.read_ahead.read()
    assert driver.delivery.read_ahead.take(group, Wanted(((0, 10),), 10)) is None


def test_a_group_that_lacks_messages_for_a_full_pull_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, subject, group = filled(15)
    reads: list[Wanted] = []
    monkeypatch.setattr(
        read_ahead,
        "read_messages",
        lambda store, subject, wanted: reads.append(wanted) or read_messages(store, subject, wanted),
    )
    noted(driver, subject, group, 10, times=5)
    assert [wanted.ranges for wanted in reads] == [((0, 10),)]
    assert ids(driver.delivery.read_ahead.take(group, Wanted(((0, 10),), 10))) is not None
    assert driver.delivery.read_ahead.take(group, Wanted(((10, 20),), 10)) is None


def test_messages_and_bytes_of_one_sync_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, subject, group = filled(100)
    monkeypatch.setattr(read_ahead, "AHEAD_MESSAGES_MAX", 25)
    noted(driver, subject, group, 10, times=5)
    ahead = driver.delivery.read_ahead
    assert [ahead.take(group, Wanted(((at, at + 10),), 10)) is not None for at in (0, 10, 20)] == [True, True, False]
    monkeypatch.undo()
    raws = read_messages(driver.store, subject, Wanted(((0, 12),), 12)).raws
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES_MAX", sum(map(len, filter(None, raws))))
    noted(driver, subject, group, 10, times=5)
    assert [ahead.take(group, Wanted(((at, at + 10),), 10)) is not None for at in (0, 10)] == [True, False]
    monkeypatch.setattr(read_ahead, "AHEAD_BYTES_MAX", 1)
    noted(driver, subject, group, 1)
    assert ahead.take(group, Wanted(((0, 1),), 1)) is None, "also not the one message that any pull gets"


def test_cold_messages_are_left_to_the_pull() -> None:
    driver, subject, group = filled(20)
    driver.disk.chill("data/")
    noted(driver, subject, group, 10)
    assert driver.delivery.read_ahead.take(group, Wanted(((0, 10),), 10)) is None


def test_another_group_of_the_name_does_not_get_what_was_read_for_the_removed_one() -> None:
    driver, subject, group = filled(20)
    noted(driver, subject, group, 10)
    driver.store.forget_group(subject, group)
    again = driver.store.start_group(subject, GROUP, "", 0, False, 0)  # type: ignore[arg-type]
    assert driver.delivery.read_ahead.take(again, Wanted(((0, 10),), 10)) is None


def test_pulls_take_what_was_read_and_the_order_of_messages_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    driver, _, _ = filled(60)
    reads: list[int] = []
    read_raws = MessageLog.read_raws

    def counted(log: MessageLog, index_bytes: bytes, **options: object) -> object:
        reads.append(0)
        return read_raws(log, index_bytes, **options)  # type: ignore[arg-type]

    got: list[str] = []
    for number in range(6):
        with monkeypatch.context() as patch:
            patch.setattr(MessageLog, "read_raws", counted)
            answer = driver.delivery.pull(PullRequest("orders", GROUP, "c1", 10, -1, len(got) - 1, 0, False))
        got += [id_of(bytes(raw)) for raw in answer.raws]
        assert len(reads) == min(number + 1, 2), "from the third on, nothing is read in the pull"
        driver.delivery.read_ahead.read()
    assert got == [f"m{n}" for n in range(60)]
