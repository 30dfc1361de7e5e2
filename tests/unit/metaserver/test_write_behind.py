"""What the write-behind queue does with what the database will never take: it holds up nothing else."""

import asyncio
import threading
from typing import ClassVar

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, ClientSeen, Leases, Metadata, MetadataChanges, MetadataVersion, Node, Route
from metaserver.stored import write_behind as write_behind_module
from metaserver.stored.write_behind import CLIENT_SECONDS, Unstorable, WriteBehind
from qmq_node.replication.rules.membership import Membership
from qmq_testing.repository import MemoryRepository
from tests.support.manual_clock import ManualClock
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
    write_behind = WriteBehind(repository, lambda *_: None, lambda leases: None, ManualClock())
    for name in ("one", "bad", "two"):
        write_behind.route(Route(name, ("g1",), 1, 0))
        write_behind.client(ClientSeen(name, 1, "", f"client-{name}", "app"))
    running = asyncio.create_task(write_behind.run(stop))
    await eventually_async(lambda: write_behind.pending == 0)
    stop.set()
    await running
    assert set(repository.routes) == {"one", "two"}
    assert {client.client_id for client in repository.clients} == {"client-one", "client-two"}
    assert write_behind.counters.unstorable == 2
    assert write_behind.problem == "", "the database answers"


class SlowRepository(MemoryRepository):
    """A repository whose `save_node` waits for `may_go_on`, and raises Unstorable for a node whose broker group is not stored."""

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
    write_behind = WriteBehind(repository, lambda *_: None, lambda leases: None, ManualClock())

    def comes(name: str) -> None:
        write_behind.group(
            BrokerGroup(
                GroupKind.BROKER, GroupState.READ_WRITE, Membership(name, (), f"{name}-a", (f"{name}-a",), 1, 0, "")
            ),
            "new",
        )
        write_behind.node(Node(f"{name}-a", name, 0, "127.0.0.1:1", "127.0.0.1:2", "1", 0))

    comes("g1")
    running = asyncio.create_task(write_behind.run(stop))
    await eventually_async(repository.writes_a_node.is_set)
    comes("g2")
    repository.may_go_on.set()
    await eventually_async(lambda: write_behind.pending == 0)
    stop.set()
    await running
    assert set(repository.nodes) == {"g1-a", "g2-a"}
    assert write_behind.counters.unstorable == 0


class CountedClient(ClientSeen):
    """Counts how often a table looks it up."""

    hashed: ClassVar[int] = 0

    def __hash__(self) -> int:
        CountedClient.hashed += 1
        return hash((self.subject, self.client_id))


def counted(number: int) -> CountedClient:
    return CountedClient(f"s{number}", 1, "", "c", "app")


async def test_a_sighting_over_the_limit_evicts_the_oldest_at_the_cost_of_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_behind_module, "SIGHTINGS_MAX", 1_000)
    write_behind = WriteBehind(MemoryRepository(), lambda *_: None, lambda leases: None, ManualClock())
    for number in range(1_000):
        write_behind.client(counted(number))
    CountedClient.hashed = 0
    for number in range(1_000, 1_100):
        write_behind.client(counted(number))
    assert CountedClient.hashed <= 6 * 100
    assert (write_behind.counters.dropped_clients, write_behind.pending) == (0, 1_100)


async def test_sightings_that_are_out_of_date_together_are_forgotten_one_after_the_other() -> None:
    clock = ManualClock()
    write_behind = WriteBehind(MemoryRepository(), lambda *_: None, lambda leases: None, clock)
    for number in range(1_000):
        write_behind.client(counted(number))
    clock.advance(CLIENT_SECONDS)
    most = 0
    for number in range(2_000, 3_001):
        CountedClient.hashed = 0
        write_behind.client(counted(number))
        most = max(most, CountedClient.hashed)
    assert most <= 8
    assert len(write_behind._sightings) == 1_001


async def test_the_client_that_registered_least_recently_is_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind_module, "SIGHTINGS_MAX", 3)
    repository, stop = MemoryRepository(), asyncio.Event()
    write_behind = WriteBehind(repository, lambda *_: None, lambda leases: None, ManualClock())
    for number in (0, 1, 2, 0, 3):
        write_behind.client(counted(number))
    running = asyncio.create_task(write_behind.run(stop))
    await eventually_async(lambda: write_behind.pending == 0)
    write_behind.client(counted(0))
    assert write_behind.pending == 0, "it registered after 1 and 2, which were evicted first"
    write_behind.client(counted(1))
    assert write_behind.pending == 1
    stop.set()
    await running


async def test_sightings_over_the_limit_of_the_queue_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_behind_module, "WORK_MAX", 2)
    write_behind = WriteBehind(MemoryRepository(), lambda *_: None, lambda leases: None, ManualClock())
    for number in range(3):
        write_behind.client(counted(number))
    assert (write_behind.counters.dropped_clients, write_behind.pending) == (1, 2)


async def test_a_client_is_recorded_again_after_its_interval() -> None:
    clock, repository, stop = ManualClock(), MemoryRepository(), asyncio.Event()
    write_behind = WriteBehind(repository, lambda *_: None, lambda leases: None, clock)
    write_behind.client(counted(0))
    running = asyncio.create_task(write_behind.run(stop))
    await eventually_async(lambda: write_behind.pending == 0)
    clock.advance(CLIENT_SECONDS - 1)
    write_behind.client(counted(0))
    assert write_behind.pending == 0
    clock.advance(1)
    write_behind.client(counted(0))
    assert write_behind.pending == 1
    stop.set()
    await running


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
    write_behind = WriteBehind(repository, lambda *_: None, lambda leases: None, ManualClock())
    assert isinstance(await write_behind.load(), Metadata)
    assert await write_behind.load() is None
    repository.changes_made = 1
    assert isinstance(await write_behind.load(), Metadata), "the changes up to 1 are not known"
    repository.changes_made = 3
    found = await write_behind.load()
    assert isinstance(found, MetadataChanges)
    assert found.subjects == {"s3"}
    assert await write_behind.load() is None
    assert repository.full_loads == 2


class AwayRepository(MemoryRepository):
    """Unavailable while `is_away`; records the order of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = True
        self.calls: list[str] = []

    def leases(self) -> Leases:
        self._called("leases")
        return super().leases()

    def save_group(self, group: BrokerGroup, reason: str) -> None:
        self._called(f"save {group.name}")
        super().save_group(group, reason)

    def save_node(self, node: Node) -> None:
        self._called(f"save {node.node_id}")
        super().save_node(node)

    def _called(self, what: str) -> None:
        if self.is_away:
            raise ConnectionError("the database is away")
        self.calls.append(what)


async def test_after_a_failure_what_others_stored_is_read_first_and_what_is_out_of_date_is_not_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_behind_module, "BACK_OFF_SECONDS", (0.001,))
    repository, stop = AwayRepository(), asyncio.Event()
    write_behind = WriteBehind(repository, lambda *_: None, lambda leases: write_behind.discard(["g1"]), ManualClock())
    for name in ("g1", "g2"):
        row = BrokerGroup(
            GroupKind.BROKER, GroupState.OFFLINE, Membership(name, (), f"{name}-a", (f"{name}-a",), 1, 0, "")
        )
        write_behind.group(row, "it left")
        write_behind.node(Node(f"{name}-a", name, 0, "127.0.0.1:1", "127.0.0.1:2", "1", 0))
    running = asyncio.create_task(write_behind.run(stop))
    await eventually_async(lambda: write_behind.counters.failures > 1)
    repository.is_away = False
    await eventually_async(lambda: not write_behind.pending)
    assert repository.calls == ["leases", "save g2", "save g2-a"]
    row = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", (), "g1-a", ("g1-a",), 1, 0, ""))
    write_behind.group(row, "it is back")
    await eventually_async(lambda: not write_behind.pending)
    assert repository.calls[3:] == ["save g1"], "read once after a failure"
    stop.set()
    await running
