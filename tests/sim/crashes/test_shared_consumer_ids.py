"""Processes that share a consumer id, with connections that break: nothing is lost, and what one holds no other gets.

Short by default; `make faults` (QMQ_FAULTS=full) runs it whole. A failing case prints its seed.
"""

import pytest

from tests.sim.crashes.shared_ids import FULL, LEASE, SUBJECT, Shared
from tests.support.drivers.store_driver import GROUP


@pytest.mark.parametrize("seed", range(200 if FULL else 15))
def test_what_is_not_handled_is_held_or_retried_and_no_live_process_loses_its_messages(seed: int) -> None:
    system = Shared(seed)
    # The group exists before the first message.
    system.pull_by(system.processes[0])
    for _ in range(120):
        system.step()
        system.commit()
        subject = system.store.subjects[SUBJECT]
        log = subject.groups[GROUP].progress.consumers["c1"].log
        position = subject.groups[GROUP].progress.next_sequence
        waiting = {n for run in log.runs() for n in range(run.begin, run.begin + run.count)}
        ids = system._read_all(system.store, SUBJECT, 0, subject.visible_end, False)
        retried = system.retried()
        for sequence, message_id in ids.items():
            assert (
                sequence >= position or sequence in waiting or message_id in system.handled or message_id in retried
            ), f"{message_id} is lost"
    # Once they are all gone, the rest is retried.
    system.clock.advance(LEASE + 1)
    for _ in range(3):
        system.sweep()
    system.commit()
    assert log.in_flight == 0
