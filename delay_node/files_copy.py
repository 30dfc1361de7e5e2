"""class FilesCopy: copies the files of hours that a checkpoint counts from another member, checks them, and makes them durable."""

import logging
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace

from delay_node.checkpoint import HourRow
from delay_node.entry_checks import Check, EntryCheck, Found, MessageCheck
from delay_node.hour_checks import merged
from delay_node.schedule_log import DISPATCH, INDEX
from delay_node.whole_files import Part, Whole, WholeBytes, WholeFiles, parts_of
from qmq_node.log.handles import HandleCache
from qmq_node.replication.state_files import WantedBytes

BYTES_PER_SYNC = 64 << 20
FILES_PER_SYNC = 2_000
"""After this number of bytes or files what was copied is synced, and noted as whole; a power cut costs no more than that. More than
500 files share one sync of the file system."""

logger = logging.getLogger("qmq.delay.copying")

Steps = Generator[WantedBytes, bytes, None]


@dataclass(eq=False, repr=False)
class FilesCopy:
    """One copy. All of it runs in the thread that writes; memory holds one piece, or the message that it has a part of."""

    _root: str
    _handles: HandleCache
    _file: WholeFiles
    _whole: Whole
    """What is whole of this state."""
    _rows: list[HourRow]
    """Of the state's checkpoint, the earliest hour first."""
    _done: int = field(default=0, init=False)
    _unsynced_bytes: int = field(default=0, init=False)
    damaged: int = field(default=0, init=False)
    """Entries that failed their check twice, so they are damaged at the master, and that no other member has."""

    def steps(self) -> Steps:
        """As `qmq_node.replication.state_files.StateFiles.copy`."""
        # What is not part of this state is overwritten next.
        self._file.save(self._whole)
        self._done = sum(whole.total for whole in self._whole.hours.values())
        self._total = sum(WholeBytes.counted(row).total for row in self._rows)
        for row in self._rows:
            whole = self._whole.hours.setdefault(row.hour, WholeBytes(row.begins_at))
            yield from self._copy_hour(row, whole)
        self._sync()

    def _copy_hour(self, row: HourRow, whole: WholeBytes) -> Steps:
        index, dispatch, data = parts_of(row)
        yield from self._copy(index, whole, EntryCheck(INDEX))
        yield from self._copy(dispatch, whole, EntryCheck(DISPATCH))
        if whole.data < data.bytes:
            with closing(self._handles.open(f"{self._root}/{index.name}", create=False)) as file:
                yield from self._copy(data, whole, MessageCheck(file, row.messages, data.bytes))

    def _copy(self, part: Part, whole: WholeBytes, check: Check) -> Steps:
        at: int = getattr(whole, part.field)
        path, window, damaged, replaced = f"{self._root}/{part.name}", b"", list[Found](), 0
        if not at:
            # What another use of the hour has left would look valid behind the end of this one.
            with suppress(FileNotFoundError):
                self._handles.disk.remove(path)
        if at >= part.bytes:
            return
        with closing(self._handles.open(path, create=True)) as file:
            while at < part.bytes:
                begin = at + len(window)
                window += yield self._wanted(part, begin, part.bytes - begin)
                found = check.check(at, window)
                if found.bad:
                    again = yield from self._read(part, found.first, found.last)
                    window = _replaced(window, found.first - at, again)
                    found = check.check(at, window)
                    before = found.damaged
                    for first, last in merged(found.bad):
                        wanted = self._wanted(part, first, last - first)
                        other = yield replace(wanted, since=whole.begins_at, is_damaged=True)
                        window = _replaced(window, first - at, other)
                    found = check.check(at, window) if before else found
                    replaced += before - found.damaged
                    if found.bad:
                        damaged.append(found)
                if size := found.end - at:
                    file.pwritev([memoryview(window)[:size]], at)
                    window, at = window[size:], found.end
                    self._handles.unsynced.add(path)
                    self._wrote(part, whole, at, size)
        if replaced:
            logger.warning(
                "%s: %d entries fail their checks at the master, and come from another member", part.name, replaced
            )
        if damaged:
            count = sum(found.damaged for found in damaged)
            self.damaged += count
            logger.error(
                "%s: %d entries between bytes %d and %d fail their checks at all members: copied as they are",
                part.name, count, damaged[0].first, damaged[-1].last,
            )  # fmt: skip

    def _read(self, part: Part, begin: int, end: int) -> Generator[WantedBytes, bytes, bytes]:
        """Read a range whole."""
        data = b""
        while begin + len(data) < end:
            data += yield self._wanted(part, begin + len(data), end - begin - len(data))
        return data

    def _wanted(self, part: Part, begin: int, size: int) -> WantedBytes:
        return WantedBytes(part.name, begin, size, part.bytes, self._done, self._total)

    def _wrote(self, part: Part, whole: WholeBytes, at: int, size: int) -> None:
        setattr(whole, part.field, at)
        self._done += size
        self._unsynced_bytes += size
        if self._unsynced_bytes >= BYTES_PER_SYNC or len(self._handles.unsynced) >= FILES_PER_SYNC:
            self._sync()

    def _sync(self) -> None:
        """Make durable what was written, then that it is whole."""
        self._handles.sync(self._root)
        self._file.save(self._whole)
        self._unsynced_bytes = 0


def _replaced(window: bytes, at: int, data: bytes) -> bytes:
    """Return a window with other bytes at a place."""
    return window[:at] + data + window[at + len(data) :]
