"""class Lookup: finds the copies of messages by their IDs. Files are read in threads."""

from collections.abc import Generator, Sequence
from itertools import islice

import numpy as np

from delay_node.errors import BadQuery
from delay_node.found import Found, by_hour
from delay_node.hour_reader import READ_BYTES_MAX, slices
from delay_node.records import HOUR_MS, State, number_of, ref_of
from delay_node.schedule_log import Entry, message_id_of
from delay_node.store import DelayStore
from delay_node.times import check_time
from qmq.checksum import crc32
from qmq.protocol.delayed import DelayedTarget

FOUND_BYTES_MAX = 64 << 20
"""Bytes of the messages of one query or change."""


class Lookup:
    """Finds messages where their due time says, and where they were moved from there; otherwise anywhere."""

    def __init__(self, store: DelayStore) -> None:
        self._store = store

    async def find(self, target: DelayedTarget) -> list[Found]:
        """Return every copy of a message, oldest due first. Raises BadQuery, LogError."""
        (entries,) = await self.locate([target])
        found = []
        for number, mine in by_hour(entries).items():
            async with self._store.open_hours.use(number) as hour:
                if hour is not None:
                    found += [
                        Found(e.ref, e.due_ms, self._store.state(e.ref), e.data) for e in mine if e.data is not None
                    ]
        return sorted(found, key=lambda item: (item.due_ms, item.ref))

    async def locate(self, targets: Sequence[DelayedTarget]) -> list[list[Entry]]:
        """Return the copies of each message: in the hour of its due time and where it was moved from there, otherwise anywhere."""
        for target in targets:
            check_time(target.due_ms, "due_ms", -1)
        digests = [crc32(target.message_id.encode()) for target in targets]
        where: list[set[int]] = [{t.due_ms // HOUR_MS} if t.due_ms >= 0 else set() for t in targets]
        found: list[dict[int, Entry]] = [{} for _ in targets]
        searched: list[set[int]] = [set() for _ in targets]
        while any(where):
            refs = [
                [ref for number in hours for ref in await self._candidates(number, digest)]
                for hours, digest in zip(where, digests, strict=True)
            ]
            fresh = await self._verified(targets, refs)
            moved: dict[int, int] = {}
            for number, mine in by_hour(entry for entries in fresh for entry in entries.values()).items():
                async with self._store.open_hours.use(number) as hour:
                    if hour is None:
                        continue
                    for entry in mine:
                        if self._store.state(entry.ref) is State.MOVED:
                            moved[entry.ref] = hour.moved.get(number_of(entry.ref), number)
            for i, entries in enumerate(fresh):
                found[i] |= entries
                searched[i] |= where[i]
                where[i] = {moved[ref] for ref in entries if ref in moved} - searched[i]
        if missing := [i for i, entries in enumerate(found) if not entries]:
            refs = await self._everywhere([digests[i] for i in missing])
            for i, entries in zip(missing, await self._verified([targets[i] for i in missing], refs), strict=True):
                found[i] = entries
        return [list(entries.values()) for entries in found]

    async def _candidates(self, number: int, digest: int) -> list[int]:
        async with self._store.open_hours.use(number) as hour:
            if hour is None or not hour.schedule.count:
                return []
            ids = await self._store.open_hours.ids(hour)
            return [ref_of(number, n) for n in ids.find(digest)]

    async def _verified(self, targets: Sequence[DelayedTarget], refs: list[list[int]]) -> list[dict[int, Entry]]:
        """Read the candidates of all targets at once, and return those with the id and the subject of their target, by ref."""
        entries = iter(await self._read_all([ref for candidates in refs for ref in candidates]))
        found: list[dict[int, Entry]] = []
        for target, candidates in zip(targets, refs, strict=True):
            found.append({})
            for entry in islice(entries, len(candidates)):
                is_same = entry.data is not None and message_id_of(entry.data) == target.message_id
                if is_same and target.subject in ("", self._store.subjects.name(entry.subject)):
                    found[-1][entry.ref] = entry
        return found

    async def _read_all(self, refs: list[int]) -> list[Entry]:
        """Read messages, READ_BYTES_MAX at a time. Raises BadQuery for more than FOUND_BYTES_MAX bytes."""
        entries: list[Entry] = []
        left = FOUND_BYTES_MAX
        while len(entries) < len(refs):
            part = await self._store.bodies.read(refs[len(entries) :], min(left, READ_BYTES_MAX))
            whole = [entry for entry in part if not entry.is_unread]
            left -= sum(len(entry.data) for entry in whole if entry.data is not None)
            entries += whole
            if left <= 0 and len(entries) < len(refs):
                raise BadQuery(
                    f"the requested messages have more than {FOUND_BYTES_MAX} bytes in total; request fewer at a time",
                    code="delay.too_much",
                )
        return entries

    async def _everywhere(self, digests: list[int]) -> list[list[int]]:
        """Return candidates in all hours, read from their files without keeping anything."""
        hours = [self._store.hours[number] for number in self._store.hours.order]
        wanted = np.array(digests, dtype=np.uint32)

        def scan() -> Generator[None, None, list[list[int]]]:
            refs: list[list[int]] = [[] for _ in digests]
            for hour in hours:
                for begin, end in slices(hour.schedule.count):
                    ids = hour.schedule.read_index(begin, end)["id"]
                    for n in np.flatnonzero(np.isin(ids, wanted)).tolist():
                        for i in np.flatnonzero(wanted == ids[n]).tolist():
                            refs[i].append(ref_of(hour.number, begin + n))
                    yield
            return refs

        return await self._store.io.run(scan())
