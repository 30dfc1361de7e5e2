"""F28 and F31: the database, or Celery and Redis are away, and a group loses a member (promises 6 and 7 of docs/failover.md)."""

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.replication.failover import CONSUMED_SECONDS, consumed_again, kill_and_return
from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    IS_FULL,
    NODE_FLAGS,
    PER_SECOND,
    TURNS,
    Figures,
    becomes,
    in_sync,
    logs_are_equal,
    process_of,
    repeated,
    report_of,
    role_of,
    start,
)
from tests.support.load.faults import kill_family
from tests.support.promises import judging
from tests.support.servers.services import PostgresqlServer, own_database
from tests.support.servers.system import System
from tests.support.whole import in_whole_fault_runs

REJECTS_SECONDS = 3.0
"""2 s without progress, and one more until a stored message has waited for so long."""


def away_seconds(turn: int) -> float:
    """How long the database is away in a turn: at least; the fault of the table once."""
    return (60.0 if turn == 0 else 5.0) if IS_FULL else 2.0


def roles(system: System) -> dict[str, tuple[object, object]]:
    """Return role and in-sync set of each member of g1."""
    reports = {node: report_of(system, node) for node in system.members("g1")}
    return {node: (found.get("role"), found.get("in_sync")) for node, found in reports.items()}


@pytest.fixture
def replicated(new_system: Callable[..., System], postgresql_server: PostgresqlServer) -> Iterator[System]:
    """Two groups of two members whose metaserver uses PostgreSQL; not started."""
    with own_database(postgresql_server.url, "faults_replication") as url:
        system = new_system(groups=2, copies=2, database_url=url, broker_flags=NODE_FLAGS)
        yield system
        system.close()


@repeated
async def test_f28_nothing_changes_while_the_database_is_away(
    replicated: System, postgresql_server: PostgresqlServer
) -> None:
    figures = Figures("F28")
    await start(replicated)
    async with Load(replicated.meta_url, PER_SECOND) as load:
        before = roles(replicated)
        for turn in range(TURNS):
            began = time.monotonic()
            # In this thread: a server ends with the thread that started it.
            with postgresql_server.stopped():
                await load.until(began + away_seconds(turn))
                await load.flows()
                assert roles(replicated) == before
            await load.flows()
            figures.add("slowest send", load.sends.seconds(began)[-1], 1)
        assert roles(replicated) == before
    figures.report()
    with judging():
        assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(replicated)


@repeated
async def test_f28_a_group_that_loses_its_slave_meanwhile_rejects_sends_and_is_consumed(
    replicated: System, postgresql_server: PostgresqlServer
) -> None:
    figures = Figures("F28, slave killed")
    await start(replicated)
    async with Load(replicated.meta_url, PER_SECOND) as load:
        for turn in range(TURNS):
            master = await in_sync(replicated, "g1")
            (slave,) = replicated.members("g1").keys() - {master}
            before = roles(replicated)[master]
            began = time.monotonic()
            with postgresql_server.stopped():
                await asyncio.to_thread(process_of(replicated, slave).kill)
                await figures.timed(
                    "rejects sends", REJECTS_SECONDS, lambda node=master: is_read_only(replicated, node)
                )
                rejects_at = time.monotonic()
                await load.until(began + away_seconds(turn))
                await load.flows()
                assert roles(replicated)[master] == before
                figures.add("slowest send after that", load.sends.seconds(rejects_at)[-1], 2)
                if turn % 2:  # the slave returns while nothing can change
                    process_of(replicated, slave).start(wait=False)
                    await figures.timed(
                        "writes again with its slave", 30, lambda node=master: not is_read_only(replicated, node)
                    )
            if not turn % 2:
                await figures.timed(
                    "the slave is removed after the return", 10,
                    lambda node=master: report_of(replicated, node).get("in_sync") == [node],
                )  # fmt: skip
                process_of(replicated, slave).start(wait=False)
            await figures.timed("in sync after that", 30, lambda node=slave: role_of(replicated, node) == "in_sync")
            await load.flows()
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(replicated)


def is_read_only(system: System, node: str) -> bool:
    """Whether a master rejects sends."""
    return bool(system.admin(node.removesuffix("-a"), "/stats?subject=-")["state"] == "read_only")


@repeated
@in_whole_fault_runs
async def test_f28_a_master_that_dies_meanwhile_is_replaced_after_the_return(
    replicated: System, postgresql_server: PostgresqlServer
) -> None:
    figures = Figures("F28, master killed")
    await start(replicated)
    async with Load(replicated.meta_url, PER_SECOND) as load:
        for turn in range(TURNS):
            master = await in_sync(replicated, "g1")
            (slave,) = replicated.members("g1").keys() - {master}
            began = time.monotonic()
            with postgresql_server.stopped():
                await asyncio.to_thread(process_of(replicated, master).kill)
                await load.until(began + away_seconds(turn))
                await load.flows()
                assert role_of(replicated, slave) != "master"
            returned_at_ms = time.time() * 1000
            await consumed_again(load, figures, returned_at_ms, CONSUMED_SECONDS)
            await becomes(replicated, "master", slave)
            process_of(replicated, master).start(wait=False)
            await in_sync(replicated, "g1", slave)
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(replicated)


@repeated
@in_whole_fault_runs
async def test_f31_masters_are_replaced_without_celery_and_redis(make_plane: Callable[..., System]) -> None:
    system, figures = make_plane(groups=2, copies=2, broker_flags=NODE_FLAGS), Figures("F31")
    await asyncio.to_thread(system.prepare)
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        for process in (*system.workers, *system.beats):
            kill_family(process)
        with system.redis.stopped():
            for _ in range(TURNS):
                await kill_and_return(system, load, figures)
        master = await in_sync(system, "g1")
        (slave,) = system.members("g1").keys() - {master}
        await asyncio.to_thread(
            system.post, "/broker-groups/g1/switch-over/", {"node_id": slave, "reason": "without Celery"}
        )
        await in_sync(system, "g1", slave)
        await load.flows()
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)
