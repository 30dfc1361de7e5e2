"""CHANGE_IN_SYNC and RESIGN of masters, and ROLE to the nodes of a group."""

from pathlib import Path

import pytest

from metaserver.choices import GroupKind, GroupState
from qmq.protocol.codes import Command, ReplicaRole, ResponseCode
from qmq.protocol.group_memberships import ChangeInSyncRequest, InSyncChange, MembershipResponse, MembershipResult
from tests.sim.metaserver.pairs import HEARTBEAT, running_pair
from tests.sim.metaserver.repositories import FaultyRepository
from tests.support.drivers.metaserver_peers import peer, running
from tests.support.manual_clock import ManualClock
from tests.support.stored_groups import changed
from tests.support.waiting import eventually_async


@pytest.mark.parametrize("kind", GroupKind)
async def test_a_master_changes_the_in_sync_set_and_all_nodes_are_sent_the_membership(
    tmp_path: Path, kind: GroupKind
) -> None:
    async with running_pair(tmp_path, kind) as pair:
        answer = await pair.change(InSyncChange.ADD)
        assert answer == MembershipResponse(MembershipResult.DONE, "", pair.membership)
        assert pair.membership.in_sync == pair.repository.groups["g1"].membership.in_sync == ("g1-a", "g1-b")
        assert pair.membership.master_sync_address == "10.0.0.1:9"
        for node in (pair.master, pair.slave):
            await pair.sent(node, pair.membership)
        assert (await pair.change(InSyncChange.REMOVE)).result is MembershipResult.DONE
        assert pair.membership.in_sync == ("g1-a",)


async def test_a_change_is_answered_as_it_ended(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        stale = await pair.change(InSyncChange.ADD, in_sync_version=0)
        assert (stale.result, stale.membership) == (MembershipResult.STALE, pair.membership)
        refused = await pair.change(InSyncChange.ADD, "g1-z")
        assert (refused.result, refused.membership) == (MembershipResult.REFUSED, pair.membership)
        assert "node 'g1-z' is not a member" in refused.reason
        pair.repository.is_away = True
        unavailable = await pair.change(InSyncChange.ADD)
        assert unavailable.result is MembershipResult.UNAVAILABLE
        pair.repository.is_away = False
        pair.repository.loses_replies = True
        assert (await pair.change(InSyncChange.ADD)).result is MembershipResult.DONE


async def test_the_set_is_never_empty_and_names_members_only(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.change(InSyncChange.ADD)
        membership = pair.membership
        await pair.sent(pair.slave, membership)
        sent = len(pair.slave.pushed)
        refused = await pair.change(InSyncChange.REMOVE, "g1-a")
        assert (refused.result, refused.membership) == (MembershipResult.REFUSED, membership)
        assert refused.reason == "node 'g1-a' is the master, which is always in sync"
        # A body without a member, which no structure makes.
        request = ChangeInSyncRequest("g1", "g1-a", 1, "", membership.in_sync_version, InSyncChange.REMOVE, "g1-b")
        body = request.encode().replace(b"\0\x06member\0\x04g1-b", b"\0\x06member\0\0")
        assert len(body) == len(request.encode()) - 4
        frame = await pair.master.caller.call(Command.CHANGE_IN_SYNC, body, timeout_s=20)
        assert frame.code == ResponseCode.BROKER_ERROR
        assert (
            pair.membership
            == pair.repository.groups["g1"].membership.sent("10.0.0.1:9", ("10.0.0.1:9", ""))
            == membership
        )
        # The connection is still served.
        assert (await pair.change(InSyncChange.ADD, "g1-z")).result is MembershipResult.REFUSED
        assert len(pair.slave.pushed) == sent


async def test_only_the_connection_of_a_node_changes_its_membership(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        for name, group in (("g1-a", "g1"), ("g1-b", "g9")):
            request = ChangeInSyncRequest(group, name, 1, "", 1, InSyncChange.ADD, "g1-b")
            frame = await pair.slave.caller.call(Command.CHANGE_IN_SYNC, request.encode(), timeout_s=20)
            assert frame.code == ResponseCode.BROKER_ERROR
        request = ChangeInSyncRequest("g1", "g1-b", 1, "", 1, InSyncChange.ADD, "g1-b")
        frame = await pair.slave.caller.call(Command.CHANGE_IN_SYNC, request.encode(), timeout_s=20)
        refused = MembershipResponse.decode(frame.body)
        assert (refused.result, refused.reason) == (
            MembershipResult.REFUSED, "node 'g1-b' is not the master of broker group g1",
        )  # fmt: skip
        assert pair.membership.in_sync == ("g1-a",)


@pytest.mark.parametrize("kind", GroupKind)
async def test_a_master_that_stops_hands_over_and_leaves_the_in_sync_set(tmp_path: Path, kind: GroupKind) -> None:
    async with running_pair(tmp_path, kind) as pair:
        await pair.change(InSyncChange.ADD)
        answer = await pair.resign(is_leaving=True)
        assert (answer.result, answer.membership) == (MembershipResult.DONE, pair.membership)
        assert (pair.membership.master, pair.membership.epoch, pair.membership.in_sync) == ("g1-b", 2, ("g1-b",))


@pytest.mark.parametrize("kind", GroupKind)
async def test_a_master_hands_over_and_stays_in_sync(tmp_path: Path, kind: GroupKind) -> None:
    async with running_pair(tmp_path, kind) as pair:
        assert (await pair.resign()).result is MembershipResult.REFUSED, "the successor is not in sync"
        await pair.change(InSyncChange.ADD)
        answer = await pair.resign()
        assert (answer.result, answer.membership) == (MembershipResult.DONE, pair.membership)
        assert (pair.membership.master, pair.membership.epoch, pair.membership.in_sync) == ("g1-b", 2, ("g1-a", "g1-b"))
        assert pair.membership.promotion_id
        await pair.sent(pair.slave, pair.membership)
        live = pair.metaserver.directory.groups["g1"]
        assert live.node is not None
        assert live.node.node_id == "g1-a", "clients are sent to the new master when it serves"
        values = {"kind": kind, "boot_id": "b", "epoch": 2, "request_type": HEARTBEAT}
        await pair.slave.register("g1", "g1-b", port=2, state=4, replica_role=ReplicaRole.PROMOTED, **values)
        assert live.seen_by_clients == ("g1-a", "10.0.0.1:1", GroupState.READ_WRITE)
        await pair.slave.register("g1", "g1-b", port=2, state=1, replica_role=ReplicaRole.MASTER, **values)
        assert live.seen_by_clients[:2] == ("g1-b", "10.0.0.1:2")


async def test_a_successor_that_is_silent_is_refused(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.change(InSyncChange.ADD)
        pair.clock.advance(7)
        answer = await pair.resign()
        assert (answer.result, answer.reason) == (MembershipResult.REFUSED, "node g1-b does not send heartbeats")
        assert answer.membership == pair.membership
        assert pair.membership.master == "g1-a"


async def test_a_membership_that_is_read_from_the_database_is_sent_to_the_nodes(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        with pair.repository.lock:
            group = pair.repository.groups["g1"]
            promoted = changed(group, epoch=2, in_sync_version=5, promotion_id="00000000-0000-4000-8000-000000000002")
            pair.repository.groups["g1"] = promoted
            pair.repository.changes_made += 1
        await pair.metaserver.serving.reload()
        assert pair.membership.epoch == 2
        for node in (pair.master, pair.slave):
            await pair.sent(node, pair.membership)


async def test_a_node_without_replication_is_sent_no_membership(tmp_path: Path) -> None:
    repository, clock = FaultyRepository(), ManualClock()
    async with running(tmp_path, clock, repository) as metaserver, peer(metaserver) as node:
        await node.register("g1")
        await eventually_async(lambda: "g1" in repository.groups)
        clock.advance(20)
        async with peer(metaserver) as other:
            assert (await other.register("g1", "g1-b", port=2)).accepted
            assert metaserver.directory.groups["g1"].membership.epoch == 2
            with repository.lock:
                repository.groups["g1"] = changed(repository.groups["g1"], epoch=3)
                repository.changes_made += 1
            await metaserver.serving.reload()
            assert metaserver.directory.groups["g1"].membership.epoch == 3
            await other.register("g1", "g1-b", port=2)
            assert other.pushed == []


async def test_changes_are_counted(tmp_path: Path) -> None:
    async with running_pair(tmp_path) as pair:
        await pair.change(InSyncChange.ADD)
        text = (await pair.metaserver.admin.metrics_text()).decode()
        assert "qmq_meta_membership_changes_total 2.0" in text
        assert "qmq_meta_membership_changes_unavailable_total 0.0" in text


@pytest.mark.parametrize("command", [Command.CHANGE_IN_SYNC, Command.RESIGN])
async def test_a_body_that_is_none_is_rejected(tmp_path: Path, command: Command) -> None:
    async with running_pair(tmp_path) as pair:
        frame = await pair.master.caller.call(command, b"\x00", timeout_s=20)
        assert frame.code == ResponseCode.BROKER_ERROR
        assert pair.membership.in_sync_version == 1
