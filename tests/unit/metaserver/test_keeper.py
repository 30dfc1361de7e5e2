"""What the keeper does with what the database will never take: it holds up nothing else."""

import asyncio
import threading

from metaserver.choices import GroupKind, GroupState
from metaserver.keeper import Keeper
from metaserver.repository import MemoryRepository, Unstorable
from metaserver.snapshot import BrokerGroup, ClientSeen, Node, Route
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
