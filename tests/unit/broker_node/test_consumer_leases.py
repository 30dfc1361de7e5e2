"""The check of consumers' leases is spread over iterations of the event loop."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

from broker_node.consumer_leases import SLICE_SUBJECTS, SWEEP_SUBJECTS_MAX, ConsumerLeases
from tests.support.manual_clock import ManualClock


class Subjects(dict[str, Any]):
    """Remembers which subjects were looked up."""

    def __init__(self, names: list[str]) -> None:
        super().__init__({name: SimpleNamespace(groups={}) for name in names})
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
            subjects["new"] = SimpleNamespace(groups={})
    await sweep
    assert max(after - before for before, after in zip([0, *turns], turns, strict=False)) == SLICE_SUBJECTS
    assert subjects.checked == names[:SWEEP_SUBJECTS_MAX]
    await leases.check()
    assert subjects.checked == names
