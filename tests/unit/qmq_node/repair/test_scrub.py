"""The scrub: its rate, the end of a pass, data that can't be read, and progress that can't be written."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from qmq.errors import LogError
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.repair.ranges import DamagedRange
from qmq_node.repair.scrub import PAUSE_SECONDS_MAX, PLAN_SECONDS, PLANNED_SHARE, SAVE_SECONDS, Found, Scrub, Step
from qmq_node.repair.scrub_progress import FILE_BYTES_MAX, FILE_NAME, ScrubProgress, ScrubProgressFile
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.manual_clock import ManualClock

PASS_SECONDS = 3_500.0
PLANNED_SECONDS = PASS_SECONDS * PLANNED_SHARE
PIECE = 1_000
DAMAGED = Found(DamagedRange("log", 0, 5, 6, "test"), is_readable=True)


@dataclass(eq=False)
class Data:
    """A unit of so many pieces."""

    key: int
    pieces: int
    kind: "Kind"
    error: Exception | None = None
    has_damage: bool = False
    has_ended: bool = False

    def steps(self) -> Iterator[Step]:
        for number in range(self.pieces):
            if self.error is not None and number == 1:
                raise self.error
            self.kind.read.append((self.key, number))
            self.kind.was_read.set()
            self.kind.may_continue.wait()
            yield Step(PIECE, [DAMAGED] if self.has_damage else [])

    def is_current(self) -> bool:
        return self.kind.units.get(self.key) is self

    def ended(self) -> None:
        self.has_ended = True


@dataclass
class Kind:
    kind: str
    units: dict[int, Data] = field(default_factory=dict)
    read: list[tuple[int, int]] = field(default_factory=list)
    was_read: threading.Event = field(default_factory=threading.Event)
    may_continue: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.may_continue.set()

    def add(self, key: int, pieces: int = 2, **values: object) -> Data:
        self.units[key] = Data(key, pieces, self, **values)  # type: ignore[arg-type]
        return self.units[key]

    def next_unit(self, key: int) -> Data | None:
        return self.units.get(min((own for own in self.units if own >= key), default=-1))

    def bytes_from(self, key: int) -> int:
        return sum(unit.pieces * PIECE for own, unit in self.units.items() if own >= key)


class Scene:
    def __init__(self, bytes_per_second_max: int = 1 << 30, disk: MemoryDisk | None = None) -> None:
        self.disk = disk or MemoryDisk()
        self.disk.make_dir("data")
        self.clock = ManualClock()
        self.log, self.hours = Kind("log"), Kind("hours")
        self.found: list[Found] = []
        self.file = ScrubProgressFile(CheckedFile(self.disk, "data", FILE_NAME, FILE_BYTES_MAX))
        self.scrub = Scrub(
            [self.log, self.hours],
            self.file,
            self.found.append,
            self.clock,
            bytes_per_second_max,
            PASS_SECONDS,
            self._pause,
        )

    async def _pause(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @property
    def read_bytes(self) -> int:
        return self.scrub.counters.read_bytes

    async def run(self, seconds: float, every: float = 5.0) -> None:
        """Run it again and again for this time."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            await self.scrub.run()
            self.clock.advance(every)


async def test_kinds_are_read_one_behind_the_other_and_units_in_the_order_of_their_keys() -> None:
    scene = Scene()
    scene.hours.add(5)
    scene.log.add(300)
    scene.log.add(0)
    await scene.run(PLANNED_SECONDS + 10)
    assert scene.log.read[:4] == [(0, 0), (0, 1), (300, 0), (300, 1)]
    assert scene.hours.read[:2] == [(5, 0), (5, 1)]
    assert scene.scrub.counters.passes == 1
    assert all(unit.has_ended for unit in (*scene.log.units.values(), *scene.hours.units.values()))


async def test_reading_is_spread_over_the_planned_time_and_follows_what_is_added() -> None:
    scene = Scene()
    scene.log.add(0, 50)
    await scene.run(PLANNED_SECONDS / 2)
    assert 23 * PIECE < scene.read_bytes < 27 * PIECE
    # What was measured counts for a while.
    scene.log.add(1, 100)
    await scene.run(PLAN_SECONDS + PLANNED_SECONDS / 4)
    assert 75 * PIECE < scene.read_bytes < 95 * PIECE
    await scene.run(PLANNED_SECONDS / 4)
    assert scene.scrub.counters.passes == 1
    assert 150 * PIECE <= scene.read_bytes <= 155 * PIECE


async def test_a_pass_that_had_no_time_is_read_at_the_limit_and_the_warning_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene(bytes_per_second_max=PIECE)
    scene.log.add(0, 100)
    await scene.scrub.run()
    assert scene.read_bytes == PIECE
    # It did not run.
    scene.clock.advance(PASS_SECONDS + 1)
    for second in range(20):
        await scene.scrub.run()
        assert scene.read_bytes <= PIECE * (second + 4)
        scene.clock.advance(1.0)
    assert scene.read_bytes >= 18 * PIECE
    await scene.run(120, 1.0)
    assert scene.scrub.counters.passes == 1
    assert "reading all stored data again took 0.0 days instead of 0.0" in caplog.text


async def test_without_data_a_pass_ends_when_its_time_is_over() -> None:
    scene = Scene()
    await scene.run(PLANNED_SECONDS - 200)
    assert scene.scrub.counters.passes == 0
    report = scene.scrub.report()
    assert report is not None
    assert (report.done_share, report.last_pass_age_seconds) == (1.0, None)
    await scene.run(400)
    assert scene.scrub.counters.passes == 1
    report = scene.scrub.report()
    assert report is not None
    assert report.pass_seconds < 300


async def test_a_clock_that_steps_back_or_ahead_repeats_nothing_and_ends_the_pass_early() -> None:
    scene = Scene()
    scene.log.add(0, 10)
    await scene.run(PLANNED_SECONDS / 2)
    read = scene.read_bytes
    scene.clock.step_wall(-round(PASS_SECONDS * 1000))
    await scene.run(100)
    report = scene.scrub.report()
    assert report is not None
    assert (report.pass_seconds, scene.log.read) == (0.0, [(0, n) for n in range(scene.read_bytes // PIECE)])
    assert read <= scene.read_bytes
    scene.clock.step_wall(round(3 * PASS_SECONDS * 1000))
    await scene.run(PAUSE_SECONDS_MAX)
    assert scene.scrub.counters.passes >= 1


async def test_damage_of_what_was_removed_meanwhile_is_not_reported() -> None:
    scene = Scene()
    scene.log.add(0, 3, has_damage=True)
    gone = scene.log.add(1, 3, has_damage=True)
    while scene.log.read[-1:] != [(1, 0)]:
        await scene.run(5)
    assert len(scene.found) == 4
    scene.log.add(1, 3)
    await scene.run(PLANNED_SECONDS / 4)
    assert (len(scene.found), scene.scrub.counters.found) == (4, 4)
    assert not gone.has_ended
    # Nor is the rest of it read: what has its name now is read in the next pass.
    assert (1, 2) not in scene.log.read


async def test_data_that_can_not_be_read_is_an_error_and_what_follows_is_read() -> None:
    scene = Scene()
    bad = scene.log.add(0, error=LogError("unknown format"))
    scene.log.add(1)
    with pytest.raises(LogError, match="unknown format"):
        await scene.run(PLANNED_SECONDS)
    await scene.run(PLANNED_SECONDS / 2)
    assert scene.log.read == [(0, 0), (1, 0), (1, 1)]
    assert not bad.has_ended


async def test_a_run_that_is_cancelled_loses_no_data() -> None:
    scene = Scene()
    scene.log.add(0, 3)
    scene.log.may_continue.clear()
    run = asyncio.create_task(scene.scrub.run())
    await asyncio.to_thread(scene.log.was_read.wait)
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    scene.log.may_continue.set()
    await scene.scrub.close()
    found = scene.file.load()
    assert found is not None
    assert found.key("log") == 0, "what was not read to its end is read again"


async def test_progress_is_written_seldom_and_a_disk_that_refuses_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    for key in range(40):
        scene.log.add(key, 1)
    saves = 0

    def fail(what: str, path: str) -> OSError | None:
        nonlocal saves
        saves += what == "create"
        return OSError("no space") if what == "create" else None

    scene.disk.fail = fail
    await scene.run(PLANNED_SECONDS / 2)
    assert 0 < saves <= PLANNED_SECONDS / 2 / SAVE_SECONDS
    assert len(scene.log.read) > 10
    assert "a restart reads some stored data again that was read already: no space" in caplog.text
    await scene.scrub.close()
    scene.disk.fail = None
    await scene.scrub.close()
    found = scene.file.load()
    assert found is not None
    assert 0 <= scene.log.read[-1][0] + 1 - found.key("log") <= 1
    # Nothing has changed: nothing is written.
    saves, scene.disk.fail = 0, fail
    await scene.scrub.close()
    assert saves == 0


async def test_what_was_saved_is_continued() -> None:
    scene = Scene()
    scene.log.add(7)
    scene.hours.add(3)
    scene.hours.add(4)
    began = scene.clock.wall_ms() - 5_000
    scene.file.save(ScrubProgress(began, began - 1_000, {"log": 8, "hours": 4}))
    await scene.run(PLANNED_SECONDS - 100)
    assert (scene.log.read, scene.hours.read) == ([], [(4, 0), (4, 1)])
    report = scene.scrub.report()
    assert report is not None
    assert report.last_pass_age_seconds == report.pass_seconds + 1


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"{}",
        b"nonsense",
        b'{"began_at_ms": -1, "ended_at_ms": null, "next_keys": {}}',
        b'{"began_at_ms": 1, "ended_at_ms": true, "next_keys": {}}',
        b'{"began_at_ms": 1, "ended_at_ms": null, "next_keys": {"log": "7"}}',
        b'{"began_at_ms": 1, "ended_at_ms": null, "next_keys": []}',
    ],
)
def test_progress_of_another_form_begins_again(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    disk.make_dir("data")
    file = CheckedFile(disk, "data", FILE_NAME, FILE_BYTES_MAX)
    file.save(content)
    assert ScrubProgressFile(file).load() is None
    assert "data/scrub can't be used" in caplog.text
