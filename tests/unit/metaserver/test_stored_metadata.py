"""What the database holds is applied in slices; policies are computed in a thread and set once."""

import asyncio
import random
import threading

import pytest

from metaserver import stored_metadata as stored_metadata_module
from metaserver.choices import GroupKind, GroupState, Phase
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
    memory.directory.add_unstored(newer)
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


async def test_a_restored_database_is_followed_and_gets_the_groups_that_it_has_lost() -> None:
    memory = Memory()
    newest = (
        Route("extended", ("g1", "g2"), 3, 0),
        Route("other content", ("g1", "g2"), 2, 0, {"g2": Phase.DRAINING}),
        Route("same", ("g1",), 1, 0),
        Route("moved", ("g2",), 4, 0),
    )
    await memory.stored.load(Metadata((GROUP,), (), newest))
    backup = (
        Route("extended", ("g1",), 2, 0),
        Route("other content", ("g2", "g1"), 2, 0),
        Route("same", ("g1",), 1, 0),
        Route("moved", ("g3", "g2"), 2, 0),
    )
    reloaded = await memory.stored.load(Metadata((GROUP,), (), backup))
    assert reloaded.subjects == {"extended", "other content", "moved"}
    assert reloaded.to_store == [Route("extended", ("g1", "g2"), 3, 0)]
    assert memory.directory.routes == {route.subject: route for route in (*backup[1:], *reloaded.to_store)}
    # Another metaserver has stored the same since: nothing is left to do.
    reloaded = await memory.stored.load(Metadata((GROUP,), (), (*reloaded.to_store, *backup[1:])))
    assert (reloaded.subjects, reloaded.to_store) == (set(), [])


async def test_what_the_route_file_has_and_the_database_lacks_is_stored() -> None:
    memory = Memory()
    file = (
        Route("both created", ("g1", "g2"), 1, 0),
        Route("extended", ("g1", "g2"), 2, 0),
        Route("older", ("g1",), 1, 0),
    )
    await memory.stored.load(Metadata((GROUP,), (), file), from_file=True)
    stored = (
        Route("both created", ("g2", "g3"), 1, 0),
        Route("extended", ("g1",), 1, 0),
        Route("older", ("g2",), 2, 0),
    )
    reloaded = await memory.stored.load(Metadata((GROUP,), (), stored))
    assert reloaded.to_store == [
        Route("both created", ("g2", "g3", "g1"), 2, 0), Route("extended", ("g1", "g2"), 2, 0),
    ]  # fmt: skip
    assert memory.directory.routes == {route.subject: route for route in (*reloaded.to_store, stored[2])}


async def test_a_change_that_is_not_stored_yet_is_kept_when_everything_is_loaded_again() -> None:
    memory = Memory()
    await memory.stored.load(Metadata((GROUP,), (), routes(1)))
    own = Route("s0", ("g1", "g2"), 2, 0)
    memory.directory.put_route(own)
    memory.directory.add_unstored(own)
    reloaded = await memory.stored.load(Metadata((GROUP,), (), routes(1)))
    assert (memory.directory.routes["s0"], reloaded.to_store) == (own, [])
