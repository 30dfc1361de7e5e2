"""An operator accepts a loss: what is acknowledged afterwards, before any consumer returns, reaches each consumer group
that was known before, also one that was lost."""

import asyncio
import shutil
from collections.abc import Callable
from subprocess import CalledProcessError

from qmq import Consumer, Producer
from qmq.errors import SendFailed
from tests.faults.replication.scene import (
    LOOK_SECONDS,
    NODE_FLAGS,
    TURNS,
    in_sync,
    process_of,
    repeated,
    report_of,
    set_minimum,
)
from tests.support.promises import judging
from tests.support.servers.system import System
from tests.support.waiting import eventually, eventually_async

SUBJECT = "orders"
GROUPS = ("billing", "shipping")
SENT = 500
TOGETHER = 100
"""Sends at the same time."""


async def used(system: System, *groups: str) -> None:
    """Consumers of these groups register, receive a message, and end."""
    async with Producer(system.meta_url) as producer:
        await producer.send(SUBJECT, "first")
    for group in groups:
        async with Consumer(system.meta_url, SUBJECT, group, start="earliest") as consumer:
            await (await anext(aiter(consumer))).ack()


async def accepted(system: System, turn: int) -> set[str]:
    """Send messages until so many are accepted, whatever happens to the brokers meanwhile; their bodies."""
    found: set[str] = set()
    tried = 0

    async def send(producer: Producer, body: str) -> None:
        try:
            await producer.send(SUBJECT, body)
        except SendFailed:
            return
        found.add(body)

    async with Producer(system.meta_url) as producer:
        while len(found) < SENT:
            await asyncio.gather(*(send(producer, f"{turn}.{number}") for number in range(tried, tried + TOGETHER)))
            tried += TOGETHER
    return found


async def receives(system: System, group: str, sent: set[str]) -> None:
    """A consumer of a group returns, and receives everything. If the group did not exist, it would begin at the end."""
    missing = set(sent)

    async def receive(consumer: Consumer) -> None:
        async for message in consumer:
            missing.discard(message.body or "")
            await message.ack()

    async with Consumer(system.meta_url, SUBJECT, group, start="latest") as consumer:
        receiving = asyncio.create_task(receive(consumer))
        try:
            await eventually_async(lambda: not missing or receiving.done())
        except AssertionError:
            with judging():
                assert not missing, f"group {group} lacks {len(missing)} of {len(sent)} messages"
        finally:
            receiving.cancel()
            await asyncio.wait([receiving])


@repeated
async def test_an_empty_broker_has_its_groups_before_it_accepts_messages(new_system: Callable[..., System]) -> None:
    system = new_system(groups=1, broker_flags=NODE_FLAGS)
    await asyncio.to_thread(system.start)
    await used(system, *GROUPS)
    process = process_of(system, "g1-a")
    for turn in range(TURNS):
        # Only a loss of what the node has reported is noticed.
        await asyncio.to_thread(eventually, lambda: has_reported(system), what="its log end is stored")
        await asyncio.to_thread(process.kill)
        shutil.rmtree(system.folder / "g1")
        process.start(wait=False)
        sending = asyncio.create_task(accepted(system, turn))
        await asyncio.to_thread(
            eventually, lambda: "missing" in state_of(system), what="it waits", every_s=LOOK_SECONDS
        )
        assert not sending.done()
        await asyncio.to_thread(system.accept_log_loss, "g1")
        sent = await sending
        for group in GROUPS:
            await receives(system, group, sent)


def has_reported(system: System) -> bool:
    """Whether the database has messages of the only broker."""
    return system.query("SELECT log_end > 0 FROM metaserver_node WHERE node_id = 'g1-a'") == [(1,)]


def state_of(system: System) -> str:
    """Why the only broker accepts no messages; "" while it does not respond."""
    try:
        return str(system.admin("g1", "/stats?subject=-")["state_reason"])
    except (OSError, ValueError):
        return ""


@repeated
async def test_a_member_that_lacks_a_group_has_it_before_it_accepts_messages(new_system: Callable[..., System]) -> None:
    system = new_system(groups=1, copies=2, broker_flags=NODE_FLAGS)
    await asyncio.to_thread(system.start)
    await in_sync(system, "g1")
    await asyncio.to_thread(set_minimum, system)
    await used(system, *GROUPS)
    for turn in range(TURNS):
        master = await in_sync(system, "g1")
        (behind,) = system.members("g1").keys() - {master}
        await asyncio.to_thread(process_of(system, behind).kill)
        await asyncio.to_thread(
            eventually,
            lambda node=master: report_of(system, node).get("in_sync") == [node],
            what="the master stores alone",
            every_s=LOOK_SECONDS,
        )
        late = f"late{turn}"
        await used(system, late)
        await asyncio.to_thread(process_of(system, master).kill)
        process_of(system, behind).start(wait=False)
        sending = asyncio.create_task(accepted(system, turn))
        await asyncio.to_thread(promote, system, behind)
        sent = await sending
        for group in (*GROUPS, late):
            await receives(system, group, sent)
        process_of(system, master).start(wait=False)
        await in_sync(system, "g1", behind)


def promote(system: System, node: str) -> None:
    """Promote a member and accept what is lost, as soon as that is allowed."""

    def promoted() -> bool:
        try:
            dry = system.call_service("members.promote", "g1", node, None, dry_run=True)
            system.call_service("members.promote", "g1", node, int(dry["bytes_at_risk"]))
        except CalledProcessError:
            return False
        return True

    eventually(promoted, what=f"{node} is promoted")
