"""F13: a member's disk is full. F15: a sync of a master's log fails. F16: it hangs. F17: a slave's disk is slow."""

import asyncio
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.faults.replication.direct_sends import DirectSends
from tests.faults.replication.failover import consumed_again
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
    set_minimum,
    start,
)
from tests.support.disks.faulty_disks import MODULE, Disks
from tests.support.servers.system import System
from tests.support.waiting import eventually_async
from tests.support.whole import in_whole_fault_runs

REPLACED_SECONDS = 12.0
"""Another master serves within this."""
FULL_BYTES = 256 << 20
"""Size of the file system that is filled."""
SLOW_SECONDS, HANGING_SECONDS = 0.2, 10.0 if IS_FULL else 5.0
LASTING_SECONDS = 0.05
"""A slave whose syncs take so much longer stays in the set of a master that writes COMMITS_PER_SECOND."""
COMMITS_PER_SECOND = 1_000
AWAY_SECONDS, STAYS_SECONDS = 3.0, 60.0 if IS_FULL else 10.0
NORMAL_P99_SECONDS = 0.1
"""Sends are as before the fault when 99 % of them are answered within it, or within twice what it was before the fault."""
WINDOW_SECONDS = 0.5


@repeated
@pytest.mark.parametrize("copies", [2, pytest.param(3, marks=in_whole_fault_runs)])
async def test_f15_a_master_whose_sync_failed_is_replaced(new_system: Callable[..., System], copies: int) -> None:
    system = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS, broker_module=MODULE)
    disks, figures = Disks(system), Figures(f"F15, {copies} members")
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            old = await in_sync(system, "g1")
            await load.flows()
            disks.fail(old)
            await eventually_async(lambda node=old: disks.has_failed(node), what="a sync fails")
            failed_at, failed_at_ms = time.monotonic(), time.time() * 1000
            await figures.timed("serves no longer", 1, lambda node=old: role_of(system, node) != "master")
            await consumed_again(load, figures, failed_at_ms)
            await becomes(system, "master", *(node for node in system.members("g1") if node != old))
            await load.flows()
            figures.add("slowest send of the subject", load.sends.seconds(failed_at)[-1], 2)
            await asyncio.to_thread(process_of(system, old).stop)
            process_of(system, old).start(wait=False)
            await figures.timed("in sync after its start", 30, lambda node=old: role_of(system, node) == "in_sync")
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


@repeated
@pytest.mark.parametrize("copies", [2, pytest.param(3, marks=in_whole_fault_runs)])
async def test_f16_a_master_whose_disk_hangs_refuses_sends_and_is_replaced(
    new_system: Callable[..., System], copies: int
) -> None:
    system = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS, broker_module=MODULE)
    disks, figures = Disks(system), Figures(f"F16, {copies} members")
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            old = await in_sync(system, "g1")
            await load.flows()
            others = [node for node in system.members("g1") if node != old]
            disks.hang(old)
            hung_at, hung_at_ms = time.monotonic(), time.time() * 1000
            await figures.timed(
                "refuses sends", 4, lambda node=old: "has not completed a write" in state_of(system, node)
            )
            await becomes(system, "master", *others)
            figures.add("another master", time.monotonic() - hung_at, REPLACED_SECONDS)
            await consumed_again(load, figures, hung_at_ms, REPLACED_SECONDS)
            await load.flows()
            figures.add("slowest send of the subject", load.sends.seconds(hung_at)[-1], 10)
            disks.delay(old, 0)
            await figures.timed(
                "in sync after its disk responds", 30, lambda node=old: role_of(system, node) == "in_sync"
            )
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


def state_of(system: System, node: str) -> str:
    """Return why a node refuses sends; "" if it does not, or does not serve."""
    try:
        return str(system.admin(node.removesuffix("-a"), "/stats?subject=-").get("state_reason", ""))
    except (OSError, ValueError):
        return ""


@repeated
async def test_f13_a_member_with_a_full_disk_is_not_promoted_while_another_one_can_lead(
    new_system: Callable[..., System],
) -> None:
    system, figures = new_system(groups=2, copies=3, broker_flags=NODE_FLAGS), Figures("F13, 3 members")
    with ExitStack() as mounts:
        for group in system.brokers:
            for node in system.members(group):
                mounts.enter_context(small_file_system(system.folder / node.removesuffix("-a")))
        await start(system)
        async with Load(system.meta_url, PER_SECOND) as load:
            for _ in range(TURNS):
                old = await in_sync(system, "g1")
                await load.flows()
                # The one that would be promoted if both had a log of the same length.
                full, able = sorted(node for node in system.members("g1") if node != old)
                epoch = report_of(system, old)["epoch"]
                with filled(system.folder / full.removesuffix("-a")):
                    await eventually_async(lambda node=full: is_full(system, node), what="the node knows of it")
                    assert role_of(system, full) == "in_sync"
                    await asyncio.to_thread(process_of(system, old).kill)
                    killed_at, killed_at_ms = time.monotonic(), time.time() * 1000
                    await becomes(system, "master", full, able)
                    figures.add("another master", time.monotonic() - killed_at, REPLACED_SECONDS)
                    assert (role_of(system, able), report_of(system, able)["epoch"]) == ("master", epoch + 1)
                    await consumed_again(load, figures, killed_at_ms, REPLACED_SECONDS)
                # A node ends when it can't store the new epoch.
                await asyncio.to_thread(process_of(system, full).stop)
                for node in (old, full):
                    process_of(system, node).start(wait=False)
                await in_sync(system, "g1")
        figures.report()
        assert not load.sends.errors, load.sends.errors[:5]
        await logs_are_equal(system)
        await asyncio.to_thread(system.stop)


def is_full(system: System, node: str) -> bool:
    """Whether a node has noticed that its disk is full."""
    free = system.admin(node.removesuffix("-a"), "/stats?subject=-")["disk_free_bytes"]
    return int(free) < 1 << 20


@contextmanager
def small_file_system(folder: Path) -> Iterator[None]:
    """Mount a file system of FULL_BYTES as a folder."""
    folder.mkdir(exist_ok=True)
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "tmpfs", str(folder)], check=False
    ).returncode == 0  # fmt: skip
    if not mounted:
        pytest.skip(
            "a file system can't be mounted here; tests/sim/replication/test_fitness.py has the same on simulated disks"
        )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Use all space of a file system inside the block."""
    path = folder / "fills the disk"
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(folder).free)
    try:
        yield
    finally:
        path.unlink()


@repeated
@pytest.mark.parametrize("copies", [pytest.param(2, marks=in_whole_fault_runs), 3])
async def test_f17_a_slave_whose_disk_hangs_is_removed_and_returns(
    new_system: Callable[..., System], copies: int
) -> None:
    system = new_system(groups=2, copies=copies, broker_flags=NODE_FLAGS, broker_module=MODULE)
    disks, figures = Disks(system), Figures(f"F17, {copies} members")
    await start(system)
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            master = await in_sync(system, "g1")
            slave = min(node for node in system.members("g1") if node != master)
            await load.until(time.monotonic() + WINDOW_SECONDS)
            normal = max(NORMAL_P99_SECONDS, 2 * p99(load.sends.seconds(time.monotonic() - WINDOW_SECONDS)))
            disks.delay(slave, SLOW_SECONDS)
            await load.flows(PER_SECOND)
            assert slave in report_of(system, master)["in_sync"], "a slave that makes progress stays"
            began = time.monotonic()
            disks.delay(slave, HANGING_SECONDS)
            await figures.timed(
                "removed", 4, lambda node=slave, of=master: node not in report_of(system, of).get("in_sync", [node])
            )
            figures.add("p99 of sends is back", await back_to_normal(load, began, normal) - began, 5)
            disks.delay(slave, 0)
            await figures.timed("in sync again", 30, lambda node=slave: role_of(system, node) == "in_sync")
            # Its time outside of the set doubles each time, as long as it has this master.
            await asyncio.to_thread(process_of(system, master).stop)
            process_of(system, master).start(wait=False)
            await in_sync(system, "g1")
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


@repeated
async def test_f17_a_slave_with_slow_syncs_catches_up_and_stays_in_the_set(new_system: Callable[..., System]) -> None:
    system = new_system(groups=1, copies=2, broker_flags=NODE_FLAGS, broker_module=MODULE)
    disks, figures = Disks(system), Figures(f"F17, syncs of {LASTING_SECONDS} s")
    await start(system)
    await asyncio.to_thread(set_minimum, system)
    async with Load(system.meta_url, 1) as load:
        master = await in_sync(system, "g1")
        (slave,) = system.members("g1").keys() - {master}
        disks.delay(slave, LASTING_SECONDS)
        await asyncio.to_thread(process_of(system, slave).stop)
        async with DirectSends(load, "127.0.0.1", system.port_of(master), "g1") as direct:
            sending = asyncio.create_task(many_commits(direct))
            await load.until(time.monotonic() + AWAY_SECONDS)
            began_at, began = commits(system, master)
            process_of(system, slave).start(wait=False)
            await figures.timed("in sync", 60, lambda: role_of(system, slave) == "in_sync")
            stays_from, version = time.monotonic(), report_of(system, master)["in_sync_version"]
            await load.until(stays_from + STAYS_SECONDS)
            ended_at, ended = commits(system, master)
            assert report_of(system, master)["in_sync_version"] == version, "it stays in the set"
            assert report_of(system, slave)["shares_syncs"]
            figures.add("p99 of sends", p99(load.sends.seconds(stays_from, stays_from + STAYS_SECONDS)), 0.25)
            print(f"figure: F17: {(ended - began) / (ended_at - began_at):.0f} commits a second on the master")
            disks.delay(slave, 0)
            sending.cancel()
            await load.until(time.monotonic() + 1)
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    assert not direct.not_acked, direct.not_acked[:5]
    await logs_are_equal(system)


async def many_commits(direct: DirectSends) -> None:
    """Send single messages at a constant rate: a commit has one or a few of them."""
    began, count = time.monotonic(), 0
    while True:
        while count < (time.monotonic() - began) * COMMITS_PER_SECOND:
            direct.send()
            count += 1
            await asyncio.sleep(0)
        await asyncio.sleep(0.5 / COMMITS_PER_SECOND)


def commits(system: System, node: str) -> tuple[float, float]:
    """Return the time, and how many commits a node has written since its start."""
    port = system.ports[node.removesuffix("-a")][1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        lines = answer.read().decode().splitlines()
    line = next(line for line in lines if line.startswith("qmq_broker_commits_total"))
    return time.monotonic(), float(line.split()[-1])


def p99(seconds: list[float]) -> float:
    """Return the percentile 99 of sorted values."""
    return seconds[int(len(seconds) * 0.99)]


async def back_to_normal(load: Load, since: float, normal_seconds: float) -> float:
    """Wait until sends were fast in three windows in a row, and return when the first of these began (monotonic seconds)."""
    begin, fast = since, 0
    while fast < 3:
        end = begin + WINDOW_SECONDS
        await load.until(end + normal_seconds)
        is_fast = p99(load.sends.seconds(begin, end)) <= normal_seconds
        begin, fast = end, fast + 1 if is_fast else 0
    return begin - 3 * WINDOW_SECONDS
