"""What the event loop must not wait for: disk operations that are forbidden on its thread."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_node import admin
from qmq.clock import ManualClock
from tests.support.in_process import connected, message, running_broker
from tests.support.memory_disk import MemoryDisk
from tests.support.processes import get_json
from tests.support.waiting import eventually_async


def not_on_this_thread(path_part: str, *operations: str) -> Callable[[str, str], None]:
    """Fail disk operations of the event loop's thread."""
    loop_thread = threading.get_ident()

    def observe(operation: str, path: str) -> None:
        if operation in operations and path_part in path:
            assert threading.get_ident() != loop_thread, f"{operation} of {path} on the event loop"

    return observe


async def test_a_message_is_found_by_its_id_without_reading_on_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = MemoryDisk()
    async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(50)), message(7))
        host, port = broker.admin.address
        url = f"http://{host}:{port}/subjects/orders/messages?message_id=m7"
        disk.observe = not_on_this_thread("/log/", "read")
        found = await asyncio.to_thread(get_json, url)
        assert [m["sequence"] for m in found["messages"]] == [7, 50]
        assert found["next_sequence"] is None
        monkeypatch.setattr(admin, "SCAN_MESSAGES_MAX", 4)
        found = await asyncio.to_thread(get_json, url)
        assert ([m["sequence"] for m in found["messages"]], found["next_sequence"]) == ([7], 40)
        found = await asyncio.to_thread(get_json, f"{url}&sequence=40")
        assert ([m["sequence"] for m in found["messages"]], found["next_sequence"]) == ([50], None)


async def test_retention_deletes_segments_in_a_thread(tmp_path: Path) -> None:
    clock, disk = ManualClock(), MemoryDisk()
    settings = {"segment_bytes": 1 << 20, "retention_hours": 1.0, "checkpoint_bytes": 1 << 30}
    async with running_broker(tmp_path, clock=clock, disk=disk, **settings) as broker, connected(broker) as client:
        for number in range(60):
            await client.send(message(2 * number, size=30_000), message(2 * number + 1, size=30_000))
            if number % 20 == 19:
                await broker.checkpoints.finish()
        clock.advance(2 * 3600)
        await client.send(message(999))
        disk.observe = not_on_this_thread("/log", "remove", "sync_dir")
        folder = f"{broker.options.data_dir}/log/"
        files = [path for path in disk.names if path.startswith(folder)]
        broker._retain()
        begin = broker.store.log.begin
        assert begin >= 2 << 20
        await eventually_async(lambda: broker.store.log.hidden_segments == 0)
        left = sorted(path for path in disk.names if path.startswith(folder))
        assert left == sorted(path for path in files if int(path.removeprefix(folder)) >= begin)
