"""A host's disk: a MemoryDisk whose operations take virtual time and are recorded."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.sim.world.loop import SimulatedLoop, running_loop
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash

SYNC_SECONDS = (0.0001, 0.002)
"""A sync's shortest and longest time."""
READ_SECONDS = (0.0001, 0.001)
"""The same of a read that is not in the page cache."""


@dataclass(slots=True)
class DiskWeather:
    """What a host's disk does now. It outlives a crash, unlike what the process made of the disk."""

    slowness: float = 1.0
    """Factor of every sync and read that waits."""
    sync_seconds: float = 0.0
    """Added to each sync."""
    hang_seconds: float = 0.0
    """Added to the next sync only."""
    steps_until_crash: int = 0
    """Before so many more changes of a file by a thread, `crash` is called; 0: it is not."""
    crash: Callable[[], None] = lambda: None
    """Ends the process, by a kill or a power cut."""
    steps_until_pause: int = 0
    """Before so many more changes of a file by a thread, `pause` is called; 0: it is not."""
    pause: Callable[[], None] = lambda: None
    """Stops the process, which continues later."""
    failing_syncs: int = 0
    """So many of the next syncs fail with EIO. What they were to write is in the page cache only, and no later sync writes it."""
    failing_writes: int = 0
    """So many of the next writes fail with EIO, half done."""

    def clear(self) -> None:
        """End everything but what a whole run has."""
        self.sync_seconds = self.hang_seconds = 0.0
        self.steps_until_crash = self.steps_until_pause = self.failing_syncs = self.failing_writes = 0


class SimulatedDisk(MemoryDisk):
    """The disk of one host."""

    def __init__(self, loop: SimulatedLoop, host: str, rng: Random, weather: DiskWeather) -> None:
        super().__init__()
        self._loop = loop
        self._host = host
        self._rng = rng
        self.weather = weather
        self.fail = self._fail
        # The bytes of a run's files would wait for the collection of its cycles, which counts objects and not bytes.
        loop.at_close.append(self.clear)

    def _empty(self) -> "SimulatedDisk":
        return SimulatedDisk(self._loop, self._host, self._rng, self.weather)

    def step(self, what: str, path: str, half: Callable[[], None] | None = None) -> None:
        weather = self.weather
        if (weather.steps_until_crash or weather.steps_until_pause) and self._loop.is_in_thread:
            self._count_down(f"{what} {path}", half)
        if what in ("sync", "sync_dir"):
            self._loop.record(self._host, what, path)
            self._wait(SYNC_SECONDS)
            self._loop.block(weather.sync_seconds + weather.hang_seconds)
            weather.hang_seconds = 0.0
        super().step(what, path, half)

    def _count_down(self, what: str, half: Callable[[], None] | None) -> None:
        """Pause the process, or end it, if it is time; an end sometimes leaves a write half done."""
        weather = self.weather
        if weather.steps_until_pause:
            weather.steps_until_pause -= 1
            if not weather.steps_until_pause:
                weather.pause()
        if weather.steps_until_crash:
            weather.steps_until_crash -= 1
            if not weather.steps_until_crash:
                if half is not None and self._rng.random() < 0.5:
                    half()
                weather.crash()
                raise SimulatedCrash(what)

    def read(self, path: str, offset: int, size: int, *, waits: bool = True) -> None:
        if waits and not self.is_cached(path, offset, size):
            self._wait(READ_SECONDS)
        super().read(path, offset, size, waits=waits)

    def _wait(self, seconds: tuple[float, float]) -> None:
        self._loop.block(self._rng.uniform(*seconds) * self.weather.slowness)

    def _fail(self, what: str, path: str) -> OSError | None:
        if what == "write" and self.weather.failing_writes:
            self.weather.failing_writes -= 1
            return OSError(errno.EIO, "Input/output error", path)
        if what != "sync" or not self.weather.failing_syncs:
            return None
        self.weather.failing_syncs -= 1
        inode = self.names.get(path)
        if inode is not None:
            inode.sync_failed()
        return OSError(errno.EIO, "Input/output error", path)


def only_in_threads(path_part: str, *operations: str) -> Callable[[str, str], None]:
    """Return an observer of a MemoryDisk that fails these operations when the event loop would wait for them."""
    loop = running_loop()

    def observe(operation: str, path: str) -> None:
        if operation in operations and path_part in path:
            assert loop.is_in_thread, f"{operation} of {path} on the event loop"

    return observe
