"""The event loop of a delay node waits for none of its schedule, dispatch and checkpoint files."""

from pathlib import Path

import pytest

from delay_node import hour_reader
from qmq.protocol.delayed import DelayedTarget, ListDelayedRequest, Operation, Outcome
from tests.sim.world.disk import SimulatedDisk
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import ShiftedClock, connected, delayed, now_ms, small_system
from tests.support.waiting import eventually_async

HOUR = 3_600_000
DAY = 24 * HOUR


async def test_hours_are_read_written_and_removed_in_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hour_reader, "SLICE_ENTRIES", 8)
    clock = ShiftedClock()
    async with small_system(tmp_path, clock=clock, keep_hours=1.0, checkpoint_seconds=1.0) as system:
        async with connected(system.delay) as client:
            far = now_ms() + 40 * DAY
            assert await client.send(*[delayed(i, now_ms() + 2 * HOUR + i) for i in range(30)]) == {}
            assert await client.send(*[delayed(100 + i, far + i * HOUR) for i in range(30)]) == {}
        await system.delay.close()
        clock.offset_ms = 8 * HOUR
        await system.start_delay()
        disk = system.disks[-1].inner
        assert isinstance(disk, SimulatedDisk)
        loop, on_loop = running_loop(), []
        folders = tuple(f"{tmp_path}/d1/{name}" for name in ("schedule", "dispatch", "checkpoint"))

        def observe(operation: str, path: str) -> None:
            if path.startswith(folders) and not loop.is_in_thread:
                on_loop.append((operation, path))

        disk.observe = observe
        for name in ("open", "list_dir"):
            method = getattr(disk, name)

            def watched(path: str, *, name: str = name, method: object = method, **options: object) -> object:
                observe(name, path)
                return method(path, **options)  # type: ignore[operator]

            monkeypatch.setattr(disk, name, watched)
        async with connected(system.delay) as client:
            await eventually_async(lambda: system.delay.store.pending == 30, 20, "the overdue hour was delivered")
            page = await client.listed(ListDelayedRequest("orders", 0, far + 100 * DAY, limit=100))
            assert len(page.items) == 30
            assert len((await client.find("m105")).items) == 1, "searched in all hours"
            (change,) = await client.change(Operation.CANCEL, DelayedTarget("m107", due_ms=far + 7 * HOUR))
            assert change.outcome is Outcome.DONE
            await system.delay.serving.queries.calendar("orders", 0, far + 100 * DAY)
            past = [number for number in system.delay.store.hours if number < far // HOUR]
            await eventually_async(
                lambda: not any(number in system.delay.store.hours for number in past), 20, "finished hours are removed"
            )
            await eventually_async(lambda: not system.delay.checkpoints._writer.has_removals, 20)
        assert on_loop == []
