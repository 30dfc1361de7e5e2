"""Which nodes a metaserver registers (F-7)."""

from pathlib import Path
from typing import Any

import pytest

from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import BrokerRegisterRequest
from qmq.protocol.extensions import NodeRegisterRequest
from tests.support.drivers.metaserver_peers import peer, running
from tests.support.manual_clock import ManualClock


@pytest.mark.parametrize("new_groups", ["allow", "approval"])
async def test_f7_nodes_of_qmq_register_for_no_group_that_is_not_named(tmp_path: Path, new_groups: str) -> None:
    async with (
        running(tmp_path, ManualClock(), new_groups=new_groups, official_nodes="java") as metaserver,
        peer(metaserver) as node,
    ):
        for group, code in (("evil", ResponseCode.BROKER_ERROR), ("java", ResponseCode.SUCCESS)):
            body = BrokerRegisterRequest(0, group, f"{group}:20881", 0, 1).encode(8)
            frame = await node.caller.call(Command.BROKER_REGISTER, body, timeout_s=20, version=8)
            assert frame.code == code
        assert list(metaserver.directory.groups) == ["java"]
        # Another address is another node: it waits for the lease.
        body = BrokerRegisterRequest(0, "java", "evil:20881", 0, 1).encode(8)
        frame = await node.caller.call(Command.BROKER_REGISTER, body, timeout_s=20, version=8)
        assert frame.code == ResponseCode.BROKER_ERROR
        live = metaserver.directory.groups["java"]
        assert live.node is not None
        assert live.node.address == "java:20881"


@pytest.mark.parametrize(
    "values",
    [
        {"address": "10.0.0.1"}, {"address": "10.0.0.1:0"}, {"address": "10.0.0.1:65536"}, {"address": "a b:1"},
        {"address": "a..b:1"}, {"address": "x" * 64 + ":1"},
        {"address": ""}, {"address": "x" * 100 + ":1"}, {"admin_address": "127.0.0.1:6379/x?"},
        {"admin_address": "user@10.0.0.1:80"}, {"admin_address": "10.0.0.1:80\r\nX: y"}, {"role": 77}, {"role": -1},
        {"epoch": -1}, {"epoch": 1 << 63}, {"version": "x" * 41}, {"kind": "other"}, {"node_id": ""},
        {"broker_group": "x" * 101},
    ],
)  # fmt: skip
async def test_f7_a_registration_with_impossible_values_is_refused(tmp_path: Path, values: dict[str, Any]) -> None:
    request: dict[str, Any] = {
        "request_type": 0, "broker_group": "g1", "node_id": "g1-a", "kind": "broker", "role": 0, "address": "10.0.0.1:1",
        "admin_address": "[::1]:2", "state": 1, "epoch": 1, "log_end": 0, "started_at_ms": 0, "version": "1",
    }  # fmt: skip
    async with running(tmp_path, ManualClock()) as metaserver, peer(metaserver) as node:
        body = NodeRegisterRequest(**{**request, **values}).encode()
        frame = await node.caller.call(Command.NODE_REGISTER, body, timeout_s=20)
        assert frame.code == ResponseCode.BROKER_ERROR
        assert (metaserver.directory.groups, metaserver.directory.nodes) == ({}, {})
        frame = await node.caller.call(Command.NODE_REGISTER, NodeRegisterRequest(**request).encode(), timeout_s=20)
        assert frame.code == ResponseCode.SUCCESS
        assert list(metaserver.directory.groups) == ["g1"]
