"""Memberships of broker groups are in the route file before nodes get them, and a restarted metaserver notices a
restored database."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from metaserver.choices import GroupKind
from metaserver.memory.directory import Directory
from metaserver.replication.membership_records import RECORD_SECONDS
from metaserver.replication.restored_memberships import RESTORED_SECONDS
from metaserver.server import Metaserver
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.group_memberships import GroupMembership, InSyncChange, MembershipResult
from tests.sim.metaserver.pairs import Pair, running_pair
from tests.support.drivers.in_process import get_json, get_page
from tests.support.drivers.metaserver_peers import peer, running
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


class HeldFile:
    """Holds back saves of a metaserver's route file until they are released."""

    def __init__(self) -> None:
        self.may_save = asyncio.Event()
        self.saves = 0


@contextmanager
def held_file(metaserver: Metaserver, monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldFile]:
    file, save = HeldFile(), metaserver.serving.route_file.save

    async def held(directory: Directory) -> None:
        file.saves += 1
        await file.may_save.wait()
        await save(directory)

    monkeypatch.setattr(metaserver.serving.route_file, "save", held)
    try:
        yield file
    finally:
        file.may_save.set()


def memberships_of(pair: Pair) -> list[GroupMembership]:
    return [GroupMembership.decode(frame.body) for frame in pair.slave.pushed]


async def test_a_membership_is_in_the_file_before_nodes_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_pair(tmp_path) as pair:
        pair.slave.pushed.clear()
        with held_file(pair.metaserver, monkeypatch) as file:
            change = asyncio.ensure_future(pair.change(InSyncChange.ADD))
            await eventually_async(lambda: file.saves == 1)
            assert pair.membership.in_sync == ("g1-a", "g1-b"), "the database has it"
            answer = await pair.slave.register("g1", "g1-b", port=2, boot_id="b", state=4)
            assert (answer.accepted, answer.membership, memberships_of(pair), change.done()) == (True, None, [], False)
        assert (await change).membership == pair.membership
        await eventually_async(lambda: memberships_of(pair) == [pair.membership])
        assert (await pair.slave.register("g1", "g1-b", port=2, boot_id="b", state=4)).membership == pair.membership


async def test_nodes_get_a_membership_when_the_disk_of_the_file_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    async with running_pair(tmp_path) as pair:
        with held_file(pair.metaserver, monkeypatch) as file:
            began = loop.time()
            assert (await pair.change(InSyncChange.ADD)).result is MembershipResult.DONE
            assert loop.time() - began >= RECORD_SECONDS
            assert "nodes get the memberships of g1 before the route file has them" in caplog.text
            await pair.sent(pair.slave, pair.membership)
            assert (await pair.change(InSyncChange.REMOVE)).result is MembershipResult.DONE
            assert (await pair.change(InSyncChange.ADD)).result is MembershipResult.DONE
            await pair.sent(pair.slave, pair.membership)
            assert file.saves <= 2, "of the change, and of the periodic job"


async def test_nodes_get_a_membership_when_the_file_can_t_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_pair(tmp_path) as pair:

        def fail(*_: object) -> None:
            raise OSError("no space left")

        monkeypatch.setattr(pair.metaserver.serving.route_file, "_append", fail)
        monkeypatch.setattr(pair.metaserver.serving.route_file, "_replace", fail)
        assert (await pair.change(InSyncChange.ADD)).result is MembershipResult.DONE
        assert "no space left" in pair.metaserver.serving.route_file.save_problem
        await pair.sent(pair.slave, pair.membership)


@pytest.mark.parametrize("has_file", [True, False])
async def test_restarted_metaservers_notice_that_the_database_was_restored(tmp_path: Path, has_file: bool) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.change(InSyncChange.ADD)
        repository, backup = pair.repository, dict(pair.repository.groups)
        await pair.change(InSyncChange.REMOVE)
        newest = pair.membership
    repository.groups = backup
    folder = tmp_path if has_file else tmp_path / "another"
    async with running(folder, ManualClock(), repository) as metaserver, peer(metaserver) as master:
        await master.register("g1", boot_id="a", replica_role=ReplicaRole.MASTER)
        assert metaserver.directory.newest_place("g1") == (1, newest.in_sync_version - (not has_file))
        pair = Pair(repository, ManualClock(), metaserver, master, master)
        assert pair.membership.in_sync == (("g1-a",) if has_file else ("g1-a", "g1-b"))
        answer = await pair.change(InSyncChange.REMOVE)
        assert (answer.result is MembershipResult.REFUSED) == has_file
        assert ("the database was restored from a backup" in answer.reason) == has_file


@pytest.mark.parametrize("kind", GroupKind)
async def test_the_last_master_brings_the_membership_of_a_restored_database_up_to_date(
    tmp_path: Path, kind: GroupKind
) -> None:
    async with running_pair(tmp_path, kind) as pair:
        directory, metaserver = pair.metaserver.directory, pair.metaserver
        await pair.change(InSyncChange.ADD)
        backup = dict(pair.repository.groups)
        await pair.change(InSyncChange.REMOVE)
        newest = pair.membership
        pair.repository.groups = backup
        assert (await pair.change(InSyncChange.ADD)).result is MembershipResult.REFUSED
        # The clock of this test passes only here.
        pair.clock.advance(RESTORED_SECONDS + 0.1)
        await eventually_async(lambda: "g1" in metaserver.handlers.restored_memberships.blocked)
        _, cluster = await get_json(metaserver, "/meta/cluster")
        assert "the database was restored from a backup" in cluster["broker_groups"][0]["membership_problem"]
        metrics = (await get_page(metaserver, "/metrics"))[1].decode()
        assert "qmq_meta_restored_memberships 1.0" in metrics
        for name, value in (("epoch", 1), ("members", 2), ("in_sync", 1), ("copies", 2)):
            assert f'qmq_meta_broker_group_{name}{{broker_group="g1"}} {value}.0' in metrics
        values = {"boot_id": "a", "sync_address": "10.0.0.1:9", "request_type": BrokerRequestType.HEARTBEAT}
        await pair.master.register(
            "g1", kind=kind, led_membership=newest, counted=("g1-a",), replica_role=ReplicaRole.MASTER, **values
        )
        version = newest.in_sync_version + 1
        await eventually_async(lambda: pair.repository.groups["g1"].membership.version == version)
        assert pair.repository.groups["g1"].membership.in_sync == ("g1-a",)
        assert (await pair.change(InSyncChange.ADD)).result is MembershipResult.DONE
        await eventually_async(lambda: not metaserver.handlers.restored_memberships.blocked)
        assert directory.newest_place("g1") == (1, version + 1)
