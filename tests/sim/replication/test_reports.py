"""What masters and slaves report of their roles: pages and metrics."""

import asyncio

import pytest

from broker_node.broker import Broker
from qmq.node_admin import NodeAdmin
from qmq.protocol.codes import ReplicaRole
from qmq_node.log.record import HEADER_BYTES
from tests.sim.replication.pair import client_of, in_sync, members
from tests.sim.replication.reports import series
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import get_json, message, running_broker
from tests.support.waiting import eventually_async


def admin(broker: Broker) -> NodeAdmin:
    """The admin pages of a node."""
    return NodeAdmin("{}:{}".format(*broker.admin.address), timeout_seconds=20)


async def test_a_master_reports_its_slaves_and_a_slave_its_master() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        master, slave = group.broker("g1-a"), group.broker("g1-b")
        async with client_of(master) as client:
            await in_sync(group, "g1-a", "g1-b")
            assert await client.send(message(1)) == {}
        await group.all_equal()
        end = master.log.high_watermark
        report = (await admin(master).stats())["replication"]
        (reported,) = report.pop("slaves")
        assert report == {
            "role": "master", "reason": "", "epoch": 2, "master": "g1-a", "members": ["g1-a", "g1-b"],
            "in_sync": ["g1-a", "g1-b"], "in_sync_min": 2, "in_sync_version": report["in_sync_version"],
            "high_watermark": end, "repairs": {"repaired": {}, "failed_attempts": 0, "pending": []},
            "damaged_ranges": 0, "repaired_ranges": 0, "scrub": report["scrub"],
            "role_changes": {"promoted": 1, "master": 1}, "stalled_seconds": 0.0,
            "unreachable": [], "slow": {},
        }  # fmt: skip
        assert (reported["node_id"], reported["state"]) == ("g1-b", "following")
        assert (reported["lag_bytes"], reported["lag_seconds"]) == (0, 0.0)
        assert reported["applied_end"] <= end <= reported["confirmed_end"]
        assert reported["sent_end"] - reported["confirmed_end"] in (0, HEADER_BYTES), "a seal need not be confirmed"
        assert await get_json(master, "/readyz") == (200, {"status": "ok", "role": "master"})
        await eventually_async(lambda: slave.replication.member.role is ReplicaRole.IN_SYNC)
        stats = await admin(slave).stats()
        report = stats["replication"]
        assert (stats["role"], stats["state_reason"]) == ("in_sync", "slave, in sync")
        assert stats["state_why"] == {"code": "slave_in_sync", "values": {}, "text": "slave, in sync"}
        assert (stats["connections"], stats["disk_free_bytes"]) == (0, slave.storage.space.disk_free_bytes)
        assert stats["uptime_seconds"] > 0
        assert (report["role"], report["master"], report["epoch"]) == ("in_sync", "g1-a", 2)
        assert (report["received_end"], report["applied_end"], report["high_watermark"]) == (
            slave.log.written_end,
            end,
            end,
        )
        assert (report["confirmed_end"], report["problem"], report["copy"]) == (slave.log.synced_end, "", None)
        assert 0 <= report["master_silent_seconds"] < 1
        readiness = {"status": "failing", "reason": "slave, in sync", "role": "in_sync"}
        assert await get_json(slave, "/readyz") == (503, readiness)


async def test_the_lag_of_a_slave_grows_while_it_confirms_nothing() -> None:
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        master = group.broker("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        group.membership.is_available = False
        group.hosts["g1-b"].process.pause()  # type: ignore[union-attr]
        async with client_of(master) as client:
            sending = asyncio.create_task(client.send(message(1)))
            await eventually_async(lambda: master.log.synced_end > master.log.high_watermark)
            await asyncio.sleep(2.0)
            (report,) = (await admin(master).stats())["replication"]["slaves"]
            lag = master.log.synced_end - master.log.high_watermark
            assert report["lag_bytes"] >= lag > 0
            assert report["lag_seconds"] == pytest.approx(2.0, abs=0.3)
            found = await series(master)
            assert found['lag_bytes{slave="g1-b"}'] >= lag
            assert found['lag_seconds{slave="g1-b"}'] == pytest.approx(2.0, abs=0.3)
            group.hosts["g1-b"].process.resume()  # type: ignore[union-attr]
            assert await sending == {}
            assert (await series(master))['confirm_seconds_bucket{le="1.0"}'] < master.committer.commits


async def test_metrics_of_a_master_and_a_slave() -> None:
    async with members(running_loop()) as group:
        slave = group.broker("g1-b")
        assert (await series(slave))['role{role="waiting"}'] == 1
        await group.promote("g1-a")
        master = group.broker("g1-a")
        async with client_of(master) as client:
            await in_sync(group, "g1-a", "g1-b")
            assert await client.send(message(1)) == {}
        await group.all_equal()
        found = await series(master)
        assert {name: value for name, value in found.items() if name.startswith("role{")} == {
            f'role{{role="{role.name.lower()}"}}': float(role is ReplicaRole.MASTER)
            for role in ReplicaRole
            if role is not ReplicaRole.NONE
        }
        assert (found["epoch"], found["in_sync_members"], found["high_watermark_bytes"]) == (
            2,
            2,
            master.log.high_watermark,
        )
        assert found["slave_sessions_total"] == 1
        assert found["confirm_seconds_count"] == 2, "the record of the epoch, and the message"
        assert 'rejected_confirmations_total{reason="no_session"}' not in found
        await eventually_async(lambda: slave.replication.member.role is ReplicaRole.IN_SYNC)
        found = await series(slave)
        assert found['role{role="in_sync"}'] == 1
        assert found["sessions_total"] == 1
        assert found["received_bytes_total"] > 0
        assert "in_sync_members" not in found
        text = (await slave.admin.metrics_text()).decode()
        assert "qmq_broker_log_end_bytes" in text
        assert "qmq_job_failures_total" in text


async def test_role_changes_are_counted_over_all_lives_of_a_process() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await group.broker("g1-a").replication.switch_over("")
        await eventually_async(lambda: group.is_master("g1-b"))
        await in_sync(group, "g1-a", "g1-b")
        old = group.broker("g1-a")
        await eventually_async(lambda: old.replication.member.role is ReplicaRole.IN_SYNC)
        assert {name: value for name, value in (await series(old)).items() if name.startswith("role_changes")} == {
            'role_changes_total{role="promoted"}': 1,
            'role_changes_total{role="master"}': 1,
            'role_changes_total{role="stepping_down"}': 1,
            'role_changes_total{role="waiting"}': 1,
            'role_changes_total{role="in_sync"}': 1,
        }


async def test_the_only_member_of_a_group_reports_no_role(tmp_path: object) -> None:
    async with running_broker(tmp_path) as broker:  # type: ignore[arg-type]
        assert await get_json(broker, "/readyz") == (200, {"status": "ok"})
        report = (await admin(broker).stats())["replication"]
        assert (report["role"], report["members"], "slaves" in report) == ("master", None, False)
