"""The check of consumers' leases is spread over iterations of the event loop."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from broker_node.delivery.consumer_leases import SLICE_SUBJECTS, SWEEP_SUBJECTS_MAX, ConsumerLeases
from broker_node.storage.actions import SequenceRun
from broker_node.storage.progress import Consumer
from broker_node.storage.sessions import Session
from tests.support.manual_clock import ManualClock


class Subjects(dict[str, Any]):
    """Remembers which subjects were looked up."""

    def __init__(self, names: list[str]) -> None:
        super().__init__({name: SimpleNamespace(groups={}, check_at=0.0) for name in names})
        self.checked: list[str] = []

    def get(self, name: str, default: Any = None) -> Any:
        self.checked.append(name)
        return super().get(name, default)


async def test_a_sweep_checks_a_limited_number_of_subjects_between_which_clients_are_served() -> None:
    names = [f"s{i}" for i in range(SWEEP_SUBJECTS_MAX + 1)]
    subjects = Subjects(names)
    settlements = MagicMock()
    settlements.retry_deferred.return_value = []
    leases = ConsumerLeases(
        SimpleNamespace(subjects=subjects, clock=ManualClock()),  # type: ignore[arg-type]
        settlements,
        MagicMock(),
        MagicMock(),
        lease_seconds=10.0,
        forget_seconds=100.0,
    )
    sweep = asyncio.create_task(leases.check())
    turns = []
    while not sweep.done():
        await asyncio.sleep(0)
        turns.append(len(subjects.checked))
        if len(turns) == 1:
            # Subjects come and go in between.
            del subjects[names[SLICE_SUBJECTS]]
            subjects["new"] = SimpleNamespace(groups={}, check_at=0.0)
    await sweep
    assert max(after - before for before, after in zip([0, *turns], turns, strict=False)) == SLICE_SUBJECTS
    assert subjects.checked == names[:SWEEP_SUBJECTS_MAX]
    await leases.check()
    assert subjects.checked == names


def consumer_of_ten() -> tuple[Consumer, Session]:
    """A consumer that holds ten messages and is reported as online."""
    consumer = Consumer("orders", "g", "c", seen_at=100.0)
    session = consumer.sessions.pull_arrived(MagicMock(), -1, 50.0, 10.0)
    consumer.log.assign(0, (SequenceRun(0, 10),), session)
    consumer.reported = (True, False)
    return consumer, session


def test_a_consumer_is_checked_again_when_the_first_of_its_leases_may_end() -> None:
    consumer, session = consumer_of_ten()
    assert consumer.check_at(10.0, 1_000.0) == 60.0, "the session that holds its messages was last used at 50"
    session.seen_at = 200.0
    assert consumer.check_at(10.0, 1_000.0) == 110.0
    consumer.reported = (False, False)
    assert consumer.check_at(10.0, 1_000.0) == 110.0, "it is silent and still holds messages"
    consumer.log.ack(0, 10)
    assert consumer.check_at(10.0, 1_000.0) == 1_100.0, "it is silent and can only be forgotten"
    assert consumer.check_at(2_000.0, 1_000.0) == 2_100.0


def test_a_consumer_with_two_sessions_is_checked_in_each_sweep() -> None:
    consumer, _ = consumer_of_ten()
    consumer.sessions.pull_arrived(MagicMock(), -1, 101.0, 10.0)
    assert consumer.check_at(10.0, 1_000.0) == 0.0


async def test_a_sweep_leaves_out_subjects_whose_leases_cannot_have_ended() -> None:
    checked: list[str] = []

    class Watched(dict[str, Any]):
        def values(self) -> Any:
            checked.append("groups")
            return super().values()

    clock, subject = ManualClock(), SimpleNamespace(name="orders", groups=Watched(), changed=lambda: None, check_at=0.0)
    consumer, session = consumer_of_ten()
    consumer.log.ack(0, 10)
    subject.groups["g"] = SimpleNamespace(progress=SimpleNamespace(consumers={"c": consumer}, broadcast=False))
    settlements = MagicMock()
    settlements.retry_deferred.return_value = []
    settlements.abandoned.return_value = False
    store: Any = SimpleNamespace(subjects={"orders": subject}, clock=clock)
    leases = ConsumerLeases(store, settlements, MagicMock(), MagicMock(), lease_seconds=10.0, forget_seconds=100.0)
    consumer.seen_at = session.seen_at = clock.monotonic()
    for _ in range(5):
        await leases.check()
    assert checked == ["groups"]
    clock.advance(10.0)
    await leases.check()
    assert checked == ["groups"] * 2
    assert consumer.reported == (False, False)
    assert subject.check_at == consumer.seen_at + 100.0
