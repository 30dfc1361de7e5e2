"""Flipped bits and overwritten pages in the log and hour files of a member that was stopped: all are repaired."""

import asyncio
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.replication.scene import (
    TURNS,
    Figures,
    becomes,
    groups_of,
    in_sync,
    process_of,
    report_of,
    segments_of,
    start,
)
from tests.support.promises import judging
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually
from tests.support.whole import in_whole_fault_runs

TURN_SECONDS = 180
DAMAGED = 200
"""Places in the files of a member."""
PAGE_BYTES = 4096
PAGES_PART = 0.1
"""Of the places, so many are whole pages."""
MESSAGES = 300_000
CHECKPOINT_SECONDS = 2
FLAGS = (
    *("--scrub-days", "0.001", "--scrub-bytes-per-second", str(256 << 20)),
    *("--segment-bytes", str(8 << 20), "--checkpoint-seconds", str(CHECKPOINT_SECONDS), "--checkpoint-bytes", str(8 << 20)),
)  # fmt: skip
REPAIRED_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a file that was changed."""

    path: Path
    at: int
    right: bytes

    def is_right(self) -> bool:
        """Whether the file has the right bytes again, or was removed because nothing needs it any more."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.at)
                return file.read(len(self.right)) == self.right
        except FileNotFoundError:
            return True

    def change(self, rng: random.Random) -> None:
        """Flip a bit, or replace a whole page."""
        if len(self.right) == PAGE_BYTES:
            wrong = rng.randbytes(PAGE_BYTES)
        else:
            wrong = bytes([self.right[0] ^ 1 << rng.randrange(8)])
        with open(self.path, "r+b") as file:
            file.seek(self.at)
            file.write(wrong)
            os.fsync(file.fileno())


def stored_files(folder: Path, log_end: int) -> list[tuple[Path, int]]:
    """Return the files of a member's folder that only its disk has, and how many bytes of each are in use."""
    segments = segments_of(folder / "log")
    ends = [begin for begin, _ in segments[1:]] + [log_end]
    files = [(path, end - begin) for (begin, path), end in zip(segments, ends, strict=True)]
    files += [(path, path.stat().st_size) for name in ("schedule", "dispatch") for path in (folder / name).glob("*")]
    # A segment ends with zeros if the next commit did not fit.
    used = [(path, len(path.read_bytes()[: max(0, size)].rstrip(b"\0"))) for path, size in sorted(files)]
    return [(path, size) for path, size in used if size]


def damage(folder: Path, log_end: int, rng: random.Random) -> list[Place]:
    """Change DAMAGED places of the files of a member that does not run."""
    files, places = stored_files(folder, log_end), list[Place]()
    while len(places) < DAMAGED:
        path, size = rng.choices(files, [size for _, size in files])[0]
        length = PAGE_BYTES if size >= 2 * PAGE_BYTES and rng.random() < PAGES_PART else 1
        at = rng.randrange(size - length + 1) // length * length
        with open(path, "rb") as file:
            file.seek(at)
            place = Place(path, at, file.read(length))
        place.change(rng)
        # One in what was changed already would remember wrong bytes.
        if all(other.path != path or abs(other.at - at) >= PAGE_BYTES for other in places):
            places.append(place)
        else:
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(place.right)
    return places


def log_of(system: System, node: str) -> dict[str, object]:
    """Return what a node reports of its log."""
    found: dict[str, object] = system.admin(node.removesuffix("-a"), "/stats?subject=-")["log"]
    return found


@in_whole_fault_runs
@pytest.mark.timeout(300 + TURNS * TURN_SECONDS)
@pytest.mark.parametrize("kind", ["broker", "delay"])
@pytest.mark.parametrize("copies", [2, 3])
async def test_what_a_disk_has_changed_is_repaired(new_system: Callable[..., System], kind: str, copies: int) -> None:
    parts = {"copies": copies} if kind == "broker" else {"delays": 1, "delay_copies": copies}
    system = new_system(groups=1, broker_flags=FLAGS, delay_flags=FLAGS, **parts)
    figures, rng = Figures(f"{DAMAGED} damaged places, {kind}, {copies} members"), random.Random(copies)
    await start(system, turns=0)
    group = groups_of(system)[0 if kind == "broker" else 1]
    sends = ("produce",) if kind == "broker" else ("delay", "--due-from=2h", "--due-to=8h")

    async def store(count: int) -> None:
        command = ("bench", sends[0], "stored", *sends[1:], f"--count={count}", "--batch=500", "--json")
        done = await asyncio.to_thread(system.qmq, *command)
        assert done.returncode == 0, done.stderr

    await store(MESSAGES)
    for _ in range(TURNS):
        master = await in_sync(system, group)
        node = rng.choice([member for member in system.members(group) if member != master])
        process, folder = process_of(system, node), system.folder / node.removesuffix("-a")
        assert await asyncio.to_thread(process.stop) == 0
        end = int(str(log_of(system, master)["synced_end"]))
        places = await asyncio.to_thread(damage, folder, end, rng)
        process.start(wait=False)
        await becomes(system, "in_sync", node)
        await figures.timed("all repaired", REPAIRED_SECONDS, lambda places=places: all(map(Place.is_right, places)))
        await becomes(system, "in_sync", node)
        await asyncio.to_thread(
            eventually,
            lambda node=node: not log_of(system, node)["damaged"],
            what="no damage is known",
            every_s=ASK_SECONDS,
        )
        # Nothing was cut off, and the other members have what they had.
        with judging():
            assert report_of(system, node)["high_watermark"] >= end
    figures.report()
