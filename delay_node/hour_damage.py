"""class HourDamage: what is known to be damaged of the files of hours, and what follows when it was repaired.

Reads report what failed, from any thread. A job checks those places, so that whole ranges are known, and has hours take in what was
repaired: a master delivers a message then that it could not read before.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np

from delay_node.damaged_file import DamagedFile
from delay_node.hour import Hour, Hours
from delay_node.hour_checks import (
    HourFile,
    are_whole,
    damaged_ranges,
    dispatch_of,
    file_named,
    index_of,
    messages_of,
    place_messages,
    read_pages,
)
from delay_node.schedule_log import DISPATCH, INDEX, INDEX_BYTES
from delay_node.store import DelayStore
from qmq.clock import Clock
from qmq.errors import LogError
from qmq.net.open_files import FileBudget
from qmq_node.daemon.part import Part
from qmq_node.node.node import Node
from qmq_node.node.storage import JOB_SECONDS
from qmq_node.repair.ranges import DamagedRange

KNOWN_MAX = 10_000
"""Damaged ranges that are known at a time; further ones are found again later."""
SUSPECTS_MAX = 10_000
"""Places that wait to be checked; of more the oldest are dropped, and found again when they are read again."""
WAIT_SECONDS = 10.0
"""How long an hour with damaged decisions is not opened, so that another member can repair it first. Then it is: a message may be
delivered although it was cancelled."""

logger = logging.getLogger("qmq.delay.repair")


Place = tuple[str, int, int, int]
Ranges = dict[Place, DamagedRange]


class _Suspect(NamedTuple):
    """A place that failed when it was read."""

    file: str
    begin: int
    end: int
    with_messages: bool = False
    """Whether the messages of these entries of an index are to be checked, too."""


class HourDamage:
    """What is damaged of one node's hours.

    Args:
        store: returns the open store.
        file: has the ranges over restarts: a master with damage ends its life, and repairs as a slave, which opens no hour.
        is_alone: whether no other member can repair anything.
    """

    def __init__(
        self, store: Callable[[], DelayStore], file: DamagedFile, clock: Clock, is_alone: Callable[[], bool]
    ) -> None:
        self._store = store
        self._file = file
        self._clock = clock
        self._is_alone = is_alone
        self._suspects: deque[_Suspect] = deque(maxlen=SUSPECTS_MAX)
        self._known: Ranges = {}
        self._is_watching = False
        self._saved: Collection[Place] | None = None
        """The places that the file has; None: it was not read yet."""
        self._repaired: Ranges = {}
        """What was repaired and is not taken in yet."""
        self._waits_until: dict[Hour, float] = {}
        """Until when hours with damaged decisions are not opened."""

    @property
    def known(self) -> Collection[DamagedRange]:
        """The ranges that are known to be damaged; those of an hour that has ended are dropped within a second."""
        return self._known.values()

    # --- reports ---------------------------------------------------------------------------------------------------

    def watch(self) -> None:
        """Receive what reads of the open store report."""
        store, self._is_watching = self._store(), True
        store.hours.handles.on_unreadable = self._unreadable
        store.bodies.on_damaged = self._damaged_messages
        store.open_hours.on_damaged = self._damaged_entries
        store.open_hours.must_wait = self._must_wait

    def suspect(self, file: str, begin: int, end: int) -> None:
        """Have bytes of a file checked; from any thread."""
        self._suspects.append(_Suspect(file, begin, end))

    def _unreadable(self, path: str, begin: int, end: int) -> None:
        self.suspect(path.removeprefix(f"{self._store().root}/"), begin, end)

    def _damaged_messages(self, hour: Hour, numbers: Iterable[int]) -> None:
        """Messages, or their index entries, fail their checks."""
        name, known = index_of(hour).name, self._suspects
        for number in sorted(numbers):
            last, begin = known[-1] if known else None, number * INDEX_BYTES
            if last is not None and last.with_messages and (last.file, last.end) == (name, begin):
                known[-1] = last._replace(end=begin + INDEX_BYTES)
            else:
                known.append(_Suspect(name, begin, begin + INDEX_BYTES, with_messages=True))

    def _damaged_entries(self, hour: Hour) -> None:
        """Entries of an hour's index or dispatch log fail their checks."""
        for file in (index_of(hour), dispatch_of(hour)):
            self.suspect(file.name, 0, file.end)

    def _must_wait(self, hour: Hour) -> bool:
        """Whether an hour with damaged decisions is not to be opened now, because another member may repair it soon."""
        if self._is_alone():
            return False
        now = self._clock.monotonic()
        return now < self._waits_until.setdefault(hour, now + WAIT_SECONDS)

    def repaired(self, damaged: DamagedRange) -> None:
        """A range is whole again, or its hour has ended."""
        self._known.pop(damaged.place, None)
        self._repaired[damaged.place] = damaged

    # --- the job ---------------------------------------------------------------------------------------------------

    async def check(self) -> None:
        """Check the places that were reported, and take in what was repaired. To be called periodically."""
        if not self._is_watching:
            return
        hours, found = self._store().hours, Ranges()
        if self._saved is None:
            await self._load()
        for suspect in dict.fromkeys(self._suspects.popleft() for _ in range(len(self._suspects))):
            file = file_named(hours, suspect.file)
            if file is not None:
                found.update({damaged.place: damaged for damaged in await self._check(file, suspect)})
        # On disk before anything follows from it.
        await self._save({**self._known, **found})
        for place, damaged in found.items():
            if len(self._known) < KNOWN_MAX:
                self._known.setdefault(place, damaged)
        for damaged in list(self._known.values()):
            if current(hours, damaged) is None:
                del self._known[damaged.place]
        for hour in [hour for hour in self._waits_until if hours.get(hour.number) is not hour]:
            del self._waits_until[hour]
        await self._take_in()
        await self._save(self._known)

    async def _load(self) -> None:
        """Have what was known before the start checked."""
        ranges = await asyncio.to_thread(self._file.load)
        self._saved = {damaged.place for damaged in ranges}
        for damaged in ranges:
            if current(self._store().hours, damaged) is not None:
                self.suspect(damaged.file, damaged.begin, damaged.end)

    async def _save(self, ranges: Ranges) -> None:
        if ranges.keys() != self._saved:
            try:
                await asyncio.to_thread(self._file.save, list(islice(ranges.values(), KNOWN_MAX)))
            except OSError as error:
                logger.error("a start will not know which hours are damaged: %s", error)
            self._saved = set(ranges)

    async def _check(self, file: HourFile, suspect: _Suspect) -> list[DamagedRange]:
        begin, end, run = suspect.begin, suspect.end, self._store().io.run
        found = await run(damage_of(file, begin, end))
        if suspect.with_messages:
            place, stop = await run(_place_of(file.hour, begin // INDEX_BYTES, end // INDEX_BYTES))
            found += await run(damage_of(messages_of(file.hour), place, stop))
        return found

    async def _take_in(self) -> None:
        """Have hours take in what was repaired. If one can't be read, it does so later: what it lacks is reported by then."""
        store, stale = self._store(), dict[Hour, None]()
        for damaged in list(self._repaired.values()):
            file = current(store.hours, damaged)
            if file is None:
                del self._repaired[damaged.place]
            elif file.entries is None:
                dues = await store.io.run(_dues_of(file.hour, damaged.begin, damaged.end))
                store.retry_repaired(file.hour, dues)
                del self._repaired[damaged.place]
            else:
                stale[file.hour] = None
        for hour in stale:
            try:
                await store.reread(hour)
            except LogError as error:
                logger.error("hour %d: what was repaired is taken in later: %s", hour.number, error)
                continue
            self._waits_until.pop(hour, None)
            for place, damaged in list(self._repaired.items()):
                file = current(store.hours, damaged)
                if file is not None and file.hour is hour and file.entries is not None:
                    del self._repaired[place]
                    if file.entries is INDEX:
                        # Without them their messages were not known.
                        self._suspects.append(_Suspect(file.name, damaged.begin, damaged.end, with_messages=True))


class DamageWatch(Part):
    """Checks what was reported once a second while the node runs, whatever its role is."""

    def __init__(self, node: Node, damage: HourDamage) -> None:
        self._node, self._damage = node, damage

    async def open(self, budget: FileBudget) -> None:
        """The data is open."""
        self._node.supervisor.every(JOB_SECONDS, "hour_damage", self._damage.check)


def current(hours: Hours, damaged: DamagedRange) -> HourFile | None:
    """Return the file of a damaged range; None: its hour has ended."""
    file = file_named(hours, damaged.file)
    return file if file is not None and file.hour.begins_at == damaged.since else None


def damage_of(file: HourFile, begin: int, end: int) -> Generator[None, None, list[DamagedRange]]:
    """Return what is damaged of bytes [begin, end) of a file, as `damaged_ranges`. A job of `IoThreads.run`."""
    kind = {INDEX: "index entries", DISPATCH: "decisions", None: "messages"}[file.entries]
    found = yield from damaged_ranges(file, begin, end)
    why = f"{kind} fail their checks or can't be read"
    return [DamagedRange(file.name, file.hour.begins_at, at, stop, why) for at, stop in found]


def _place_of(hour: Hour, first: int, end: int) -> Generator[None, None, tuple[int, int]]:
    """Return where in the data file the messages with numbers [first, end) are, as far as their index entries are whole."""
    index = index_of(hour)
    data, _ = read_pages(index.file, first * INDEX_BYTES, min(end * INDEX_BYTES, index.end))
    entries = np.frombuffer(data, dtype=INDEX)
    entries = entries[are_whole(entries)]
    yield
    if not len(entries):
        return 0, 0
    return int(entries["place"].min()), int((entries["place"] + entries["size"]).max())


def _dues_of(hour: Hour, begin: int, end: int) -> Generator[None, None, dict[int, int]]:
    """Return the due times of the messages in bytes [begin, end) of the data file by number."""
    dues: dict[int, int] = {}
    for numbers, entries in place_messages(hour, begin, end):
        dues.update(zip(numbers.tolist(), entries["due"].tolist(), strict=True))
        yield
    return dues
