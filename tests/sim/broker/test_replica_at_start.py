"""What a node's replica state says at its start."""

from pathlib import Path

import pytest

from qmq.errors import SettingError
from qmq_node.replication.flush_check import flush_problem
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import ReplicaState
from tests.support.drivers.in_process import connected, default_disk, message, running_broker, write_file


async def test_a_node_of_a_one_member_group_starts_without_a_file_and_stores_the_id_of_its_log(tmp_path: Path) -> None:
    stored = []
    for number in range(2):
        async with running_broker(tmp_path) as broker, connected(broker) as client:
            assert await client.send(message(number)) == {}
            assert broker.folder.replica.is_stored
            stored.append(broker.folder.replica.state)
    assert stored[0] == stored[1] == ReplicaState(log_id=stored[0].log_id)
    assert len(stored[0].log_id) == 16


async def test_a_node_whose_replica_state_can_not_be_read_does_not_start(tmp_path: Path) -> None:
    write_file(tmp_path / "broker" / "replica", b"nonsense")
    with pytest.raises(SettingError, match=r"can't be read: .* its check does not match. Without it this node may not"):
        async with running_broker(tmp_path):
            pass


async def test_a_node_whose_replica_state_is_older_than_its_log_does_not_start(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        broker.folder.replica.save(ReplicaState(2, "p-2", True))
        broker.folder.replica.begin_epoch(broker.log)
        assert await client.send(message(1)) == {}
    async with running_broker(tmp_path) as broker:
        assert (broker.log.epoch, broker.folder.replica.state.epoch) == (2, 2)
    default_disk().remove(str(tmp_path / "broker" / "replica"))
    ReplicaStateFile(default_disk(), str(tmp_path / "broker")).save(ReplicaState(1, "p-1", True))
    with pytest.raises(SettingError, match="has epoch 1, but the log has commits of epoch 2"):
        async with running_broker(tmp_path):
            pass


@pytest.mark.parametrize("flush", ["interval", "os"])
async def test_a_member_of_a_larger_group_that_does_not_sync_each_commit_does_not_start(
    tmp_path: Path, flush: str
) -> None:
    default_disk().make_dir(str(tmp_path / "broker"))
    ReplicaStateFile(default_disk(), str(tmp_path / "broker")).save(ReplicaState(is_only_member=False))
    with pytest.raises(SettingError, match=rf"flush is {flush}, and broker group g1 has several .* --flush always"):
        async with running_broker(tmp_path, flush=flush):
            pass
    assert flush_problem("g1", "always") == ""
