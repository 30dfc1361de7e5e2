"""What the keeper does with what the database will never take: it holds up nothing else."""

import asyncio

from metaserver.keeper import Keeper
from metaserver.repository import MemoryRepository, Unstorable
from metaserver.snapshot import ClientSeen, Route
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
