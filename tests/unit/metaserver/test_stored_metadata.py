"""What the database holds is applied in slices; policies are computed in a thread and set once."""

import asyncio
import random
import threading

import pytest

from metaserver import stored_metadata as stored_metadata_module
from metaserver.choices import GroupKind, GroupState
from metaserver.directory import Directory
from metaserver.domain import BrokerGroup, Metadata, MetadataChanges, Route, SubjectRule
from metaserver.policies import policies_of
from metaserver.stored_metadata import ROUTES_PER_SLICE, StoredMetadata
from qmq.policy import NodePolicy
from tests.support.manual_clock import ManualClock

GROUP = BrokerGroup("g1", GroupKind.BROKER, GroupState.READ_WRITE, 1, "g1-a", ("g1-a",))


class Memory:
    """A metaserver's memory that follows a database."""

    def __init__(self) -> None:
        self.directory = Directory(ManualClock(), random.Random(1))
        self.stored = StoredMetadata(self.directory, ManualClock())


def routes(count: int) -> tuple[Route, ...]:
    return tuple(Route(f"s{number}", ("g1",), 1, 0) for number in range(count))


async def test_other_work_goes_on_between_the_slices_of_a_load() -> None:
    memory = Memory()
    loading = asyncio.ensure_future(memory.stored.load(Metadata((GROUP,), (), routes(5 * ROUTES_PER_SLICE + 1))))
    sizes = []
    while not loading.done():
        await asyncio.sleep(0)
        sizes.append(len(memory.directory.routes))
    steps = [new - old for old, new in zip([0, *sizes], sizes, strict=False)]
    assert max(steps) <= ROUTES_PER_SLICE
    assert sum(steps) == 5 * ROUTES_PER_SLICE + 1
    assert len(loading.result().subjects) == sum(steps)


async def test_a_route_that_appears_during_a_load_is_kept() -> None:
    memory = Memory()
    loading = asyncio.ensure_future(memory.stored.load(Metadata((GROUP,), (), routes(2 * ROUTES_PER_SLICE))))
    await asyncio.sleep(0)
    own, newer = Route("own", ("g1",), 1, 0), Route(f"s{2 * ROUTES_PER_SLICE - 1}", ("g1", "g2"), 7, 0)
    memory.directory.put_route(own)
    memory.directory.put_route(newer)
    await loading
    assert memory.directory.routes["own"] == own
    assert memory.directory.routes[newer.subject] == newer


async def test_policies_are_computed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def observed(*arguments: object) -> dict[str, NodePolicy]:
        threads.append(threading.current_thread())
        return policies_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stored_metadata_module, "policies_of", observed)
    memory = Memory()
    rules = {"s0": SubjectRule(messages_per_second=5)}
    await memory.stored.load(Metadata((GROUP,), (), routes(2), rules))
    first = memory.directory.policies.of("g1")
    assert first is not None
    assert set(first.subjects) == {"s0"}
    changed = MetadataChanges(
        frozenset({"s1"}), frozenset(), frozenset(), Metadata((), (), (Route("s1", ("g1",), 1, 0),),
        {"s1": SubjectRule(is_archived=True)}),
    )  # fmt: skip
    await memory.stored.apply(changed)
    second = memory.directory.policies.of("g1")
    assert second is not None
    assert set(second.subjects) == {"s0", "s1"}
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_change_without_rules_computes_no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    await memory.stored.load(Metadata((GROUP,), (), routes(2)))
    monkeypatch.setattr(stored_metadata_module, "policies_of", None)
    changed = MetadataChanges(
        frozenset({"s1"}), frozenset(), frozenset(), Metadata((), (), (Route("s1", ("g1",), 2, 0),))
    )  # fmt: skip
    assert (await memory.stored.apply(changed)).subjects == {"s1"}
