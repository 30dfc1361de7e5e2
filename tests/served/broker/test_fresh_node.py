"""What a node takes of the disk before it holds anything: a whole fresh system, of three nodes, is to fit in 300 MB."""

from pathlib import Path

from qmq_node.log.segment import FIRST_SEGMENT_BYTES
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.waiting import eventually_async

NODES = 3
SYSTEM_BYTES_MAX = 300_000_000


def allocated_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


async def test_a_fresh_broker_takes_one_small_segment(tmp_path: Path) -> None:
    async with running_broker(tmp_path, segment_bytes=1 << 30) as broker, connected(broker) as client:
        assert FIRST_SEGMENT_BYTES <= allocated_bytes(tmp_path) <= SYSTEM_BYTES_MAX // NODES
        assert not await client.send(message(0))
        await eventually_async(lambda: broker.log.gather.prepared_bytes > 0, what="the next segment is created ahead")
        assert broker.log.gather.prepared_bytes == FIRST_SEGMENT_BYTES
