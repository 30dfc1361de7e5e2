"""F29: the metaserver's machine is restored from a backup, database and route file, in which a member is in sync that was removed
since and lacks messages."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from metaserver.memory.live_groups import EXPIRY_SECONDS
from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    NODE_FLAGS,
    PER_SECOND,
    TURNS,
    Figures,
    in_sync,
    logs_are_equal,
    process_of,
    repeated,
    report_of,
    role_of,
    set_minimum,
    start,
)
from tests.support.servers.system import System

REMOVED_SECONDS, RECOVERED_SECONDS = 10.0, 15.0


def replace_folder(system: System, source: Path, target: Path) -> None:
    """Copy a folder over another one while the metaserver does not run."""
    (meta,) = system.metas.values()
    meta.kill()
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    meta.start()


def stored_set(system: System) -> list[str]:
    """Return the in-sync set of g1 as the database has it."""
    ((found,),) = system.query("SELECT in_sync FROM metaserver_brokergroup WHERE name = 'g1'")
    names: list[str] = json.loads(found)
    return names


@repeated
async def test_f29_a_member_that_a_restored_database_takes_for_in_sync_is_not_promoted(
    new_system: Callable[..., System], tmp_path: Path
) -> None:
    system, figures = new_system(groups=2, copies=2, broker_flags=NODE_FLAGS), Figures("F29")
    await start(system)
    await asyncio.to_thread(set_minimum, system)
    folder = system.database.parent
    async with Load(system.meta_url, PER_SECOND) as load:
        for turn in range(TURNS):
            master = await in_sync(system, "g1")
            (slave,) = system.members("g1").keys() - {master}
            await load.flows()
            backup = tmp_path / f"backup{turn}"
            await asyncio.to_thread(replace_folder, system, folder, backup)
            await asyncio.to_thread(process_of(system, slave).kill)
            await figures.timed(
                "the master stores alone", REMOVED_SECONDS,
                lambda node=master: report_of(system, node).get("in_sync") == [node],
            )  # fmt: skip
            began = time.monotonic()
            await load.until(began + 1)
            assert load.sends.newest.get("g1", 0.0) > began, "it acknowledges messages that its slave lacks"
            await asyncio.to_thread(replace_folder, system, backup, folder)
            await figures.timed(
                "the membership is up to date", RECOVERED_SECONDS, lambda node=master: stored_set(system) == [node]
            )
            await asyncio.to_thread(process_of(system, master).kill)
            process_of(system, slave).start(wait=False)
            killed_at = time.monotonic()
            while time.monotonic() < killed_at + EXPIRY_SECONDS + 2:
                assert await asyncio.to_thread(role_of, system, slave) != "master"
                await load.flows()
            process_of(system, master).start(wait=False)
            await figures.timed("the master serves again", 30, lambda node=master: role_of(system, node) == "master")
            await in_sync(system, "g1", master)
            shutil.rmtree(backup)
    figures.report()
    assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)
