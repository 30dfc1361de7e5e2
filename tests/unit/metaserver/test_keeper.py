"""What the keeper does with what the database will never take: it holds up nothing else."""

import asyncio
import threading
from dataclasses import dataclass
from typing import ClassVar

import pytest

from metaserver import keeper as keeper_module
from metaserver.choices import GroupKind, GroupState
from metaserver.keeper import CLIENT_SECONDS, Keeper
from metaserver.repository import MemoryRepository, Unstorable
from metaserver.snapshot import BrokerGroup, ClientSeen, Metadata, MetadataChanges, MetadataVersion, Node, Route
from qmq.clock import ManualClock
from tests.support.waiting import eventually_async


class PickyRepository(MemoryRepository):
    """Takes nothing with "bad" in its name."""

    def save_route(self, route: Route) -> Route:
        if "bad" in route.subject:
            raise Unstorable("no such text")
        return super().save_route(route)

    def save_clients(self, clients: list[ClientSeen]) -> None:
        if any("bad" in client.client_id for client in clients):
            raise Unstorable("no such text")
        super().save_clients(clients)


async def test_what_can_not_be_stored_is_left_out_and_holds_up_nothing_else() -> None:
    repository, stop = PickyRepository(), asyncio.Event()
    keeper = Keeper(repository, lambda route: None, ManualClock())
    for name in ("one", "bad", "two"):
        keeper.route(Route(name, ("g1",), 1, 0))
        keeper.client(ClientSeen(name, 1, "", f"client-{name}", "app"))
    running = asyncio.create_task(keeper.run(stop))
    await eventually_async(lambda: keeper.waiting == 0)
    stop.set()
    await running
    assert set(repository.routes) == {"one", "two"}
    assert {client.client_id for client in repository.clients} == {"client-one", "client-two"}
    assert keeper.unstorable == 2
    assert keeper.problem == "", "the database answers"


class SlowRepository(MemoryRepository):
    """Writes the first node when it is told to, and takes none before its broker group, like a foreign key."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_a_node = threading.Event()
        self.may_go_on = threading.Event()

    def save_node(self, node: Node) -> None:
        self.writes_a_node.set()
        assert self.may_go_on.wait(10)
        if node.broker_group not in self.groups:
            raise Unstorable("its broker group does not exist")
        super().save_node(node)


async def test_a_broker_group_that_comes_while_a_node_is_written_is_stored_before_its_own_node() -> None:
    repository, stop = SlowRepository(), asyncio.Event()
    keeper = Keeper(repository, lambda route: None, ManualClock())

    def comes(name: str) -> None:
        keeper.group(BrokerGroup(name, GroupKind.BROKER, GroupState.READ_WRITE, 1, f"{name}-a", (f"{name}-a",)), "new")
        keeper.node(Node(f"{name}-a", name, 0, "127.0.0.1:1", "127.0.0.1:2", "1", 0))

    comes("g1")
    running = asyncio.create_task(keeper.run(stop))
    await eventually_async(repository.writes_a_node.is_set)
    comes("g2")
    repository.may_go_on.set()
    await eventually_async(lambda: keeper.waiting == 0)
    stop.set()
    await running
    assert set(repository.nodes) == {"g1-a", "g2-a"}
    assert keeper.unstorable == 0


@dataclass(frozen=True)
class CountedClient(ClientSeen):
    """Counts how often a table looks it up."""

    hashed: ClassVar[int] = 0

    def __hash__(self) -> int:
        CountedClient.hashed += 1
        return hash((self.subject, self.client_id))


def counted(number: int) -> CountedClient:
    return CountedClient(f"s{number}", 1, "", "c", "app")


async def test_a_sighting_over_the_limit_costs_as_little_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "SIGHTINGS_MAX", 1_000)
    keeper = Keeper(MemoryRepository(), lambda route: None, ManualClock())
    for number in range(1_000):
        keeper.client(counted(number))
    assert (keeper.dropped_clients, keeper.waiting) == (0, 1_000)
    CountedClient.hashed = 0
    for number in range(1_000, 1_100):
        keeper.client(counted(number))
    assert keeper.dropped_clients == 100
    assert CountedClient.hashed <= 5 * 100


async def test_sightings_that_are_old_make_room_and_are_noted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "SIGHTINGS_MAX", 10)
    clock, repository, stop = ManualClock(), MemoryRepository(), asyncio.Event()
    keeper = Keeper(repository, lambda route: None, clock)
    for number in range(10):
        keeper.client(counted(number))
        clock.advance(1)
    running = asyncio.create_task(keeper.run(stop))
    await eventually_async(lambda: keeper.waiting == 0)
    keeper.client(counted(0))
    assert keeper.waiting == 0, "it was noted a moment ago"
    clock.advance(CLIENT_SECONDS - 10)
    keeper.client(counted(0))
    keeper.client(counted(10))
    assert (keeper.waiting, keeper.dropped_clients) == (1, 1)
    clock.advance(1)
    keeper.client(counted(10))
    assert (keeper.waiting, keeper.dropped_clients) == (2, 1)
    stop.set()
    await running
    assert len(repository.clients) == 11


class CountingRepository(MemoryRepository):
    """Counts full loads, and knows the changes from number 1 on."""

    full_loads = 0

    def load(self) -> Metadata:
        self.full_loads += 1
        return super().load()

    def changed(self, since: MetadataVersion, until: MetadataVersion) -> MetadataChanges | None:
        if since.number < 1:
            return None
        return MetadataChanges(frozenset({f"s{until.number}"}), frozenset(), frozenset(), Metadata())


async def test_everything_is_loaded_once_and_then_what_changed_where_that_is_known() -> None:
    repository = CountingRepository()
    keeper = Keeper(repository, lambda route: None, ManualClock())
    assert isinstance(await keeper.load(), Metadata)
    assert await keeper.load() is None
    repository.changes_made = 1
    assert isinstance(await keeper.load(), Metadata), "the changes up to 1 are not known"
    repository.changes_made = 3
    found = await keeper.load()
    assert isinstance(found, MetadataChanges)
    assert found.subjects == {"s3"}
    assert await keeper.load() is None
    assert repository.full_loads == 2
