"""class HourRanges: the files of hours as members repair them from each other.

Entries and messages are checked by the member that sends them and by the one that writes them. They are written where they are
missing, in place: what passes its check on this disk stays, and has to be the same on both.
"""

import errno
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress

import numpy as np

from delay_node.hour import Hours
from delay_node.hour_checks import (
    HourFile,
    Range,
    are_whole,
    damaged_ranges,
    file_named,
    merged,
    place_messages,
    read_pages,
)
from delay_node.hour_damage import HourDamage, current
from delay_node.records import State
from delay_node.schedule_log import INDEX, INDEX_BYTES, EntryArray, is_whole, message_id_of
from qmq.checksum import crc32
from qmq.errors import LogError, ReadRefused
from qmq.protocol.replication import (
    COPY_BEYOND,
    COPY_DAMAGED,
    COPY_NO_FILE,
    COPY_REMOVED,
    READ_COPY_BYTES_MAX,
    ReadRangeRequest,
    ReadRangeResponse,
)
from qmq_node.log.disk import File
from qmq_node.log.unreadable_pages import PAGE_BYTES
from qmq_node.log.whole_pages import write_whole_pages
from qmq_node.repair.ranges import DamagedRange, RepairRejected, WantedRange
from qmq_node.slices import run_to_end

_STATES = np.array([int(state) for state in State if state not in (State.PENDING, State.LOST)], dtype=np.uint8)
"""What an entry of a dispatch log may say."""


class HourRanges:
    """As `qmq_node.repair.ranges.RepairableFiles`.

    Args:
        hours: returns the hours of the open store.
        damage: what is known to be damaged.
    """

    def __init__(self, hours: Callable[[], Hours], damage: HourDamage) -> None:
        self._hours = hours
        self._damage = damage

    def damaged(self) -> Iterable[DamagedRange]:
        return self._damage.known

    def add(self, damaged: DamagedRange) -> None:
        # It is known within a second, when it is on disk.
        self._damage.suspect(damaged.file, damaged.begin, damaged.end)

    async def repaired(self, damaged: DamagedRange) -> None:
        self._damage.repaired(damaged)

    # --- for another member ----------------------------------------------------------------------------------------

    def read(self, request: ReadRangeRequest) -> ReadRangeResponse:
        file = file_named(self._hours(), request.file)
        if file is None:
            raise ReadRefused(f"this node has no file {request.file[:100]!r}", code=COPY_NO_FILE)
        if file.hour.begins_at != request.since:
            raise ReadRefused(
                f"{file.name} is of the hour that began at log offset {file.hour.begins_at}, not {request.since}",
                code=COPY_REMOVED,
            )
        size = file.entries.itemsize if file.entries is not None else 1
        if request.end > file.end or request.begin % size or request.end % size:
            raise ReadRefused(
                f"bytes {request.begin} to {request.end} of {file.name} are not whole entries of its {file.end} bytes",
                code=COPY_BEYOND,
            )
        stop = min(request.end, request.begin + READ_COPY_BYTES_MAX // size * size)
        data = _checked(file, request.begin, stop)
        if self._hours().get(file.hour.number) is not file.hour:
            raise ReadRefused(f"the hour of {file.name} has ended", code=COPY_REMOVED)
        if data is None:
            self._damage.suspect(file.name, request.begin, stop)
            raise ReadRefused(
                f"bytes {request.begin} to {stop} of {file.name} are damaged at this node, too", code=COPY_DAMAGED
            )
        return ReadRangeResponse(request.begin, 0, 0, data)

    # --- of this member --------------------------------------------------------------------------------------------

    def repair(self, damaged: DamagedRange) -> Generator[WantedRange, ReadRangeResponse, None]:
        self._settle(damaged)
        # There is nothing to repair of an hour that has ended.
        while (file := current(self._hours(), damaged)) is not None:
            ranges = run_to_end(damaged_ranges(file, damaged.begin, damaged.end))
            if not ranges:
                return
            begin, end = ranges[0]
            data = b""
            while begin + len(data) < end:
                at = begin + len(data)
                answer = yield WantedRange(damaged.file, damaged.since, at, end)
                if answer.begin != at or len(answer.data) > end - at:
                    raise RepairRejected(
                        f"{len(answer.data)} bytes from {answer.begin} on of {file.name}, requested were {at} to {end}"
                    )
                data += answer.data
            _check(file, begin, data)
            self._write(file, damaged, begin, data)

    def _settle(self, damaged: DamagedRange) -> None:
        """Have reads of the range return what the disk holds: what an attempt before has written may be in the page cache alone.

        Raises OSError.
        """
        file = current(self._hours(), damaged)
        if file is not None:
            with (
                suppress(FileNotFoundError),
                closing(self._hours().handles.open(file.file.path(), create=False)) as opened,
            ):
                opened.datasync()
                _drop_cached(opened, damaged.begin, damaged.end)

    def _write(self, file: HourFile, damaged: DamagedRange, begin: int, data: bytes) -> None:
        """Write what is missing of checked bytes, durably. Raises RepairRejected, OSError."""
        hours, path = self._hours(), file.file.path()
        # A checkpoint may write the rest of a page, or remove the file for another use of the hour.
        with hours.writing:
            if current(hours, damaged) is None:
                return
            pages, parts = _missing(file, begin, data)
            disk = hours.handles.disk
            with closing(hours.handles.open(path, create=True)) as opened:
                for at, piece in pages:
                    # Nothing in use lies behind a page that is not full.
                    write_whole_pages(opened, [piece], at)
                for at, piece in parts:
                    opened.pwritev([piece], at)
                opened.datasync()
                # The file may be new.
                disk.sync_dir(path.rpartition("/")[0])
                for at, piece in (*pages, *parts):
                    _check_written(opened, path, at, piece)


def _check_written(file: File, path: str, at: int, piece: bytes) -> None:
    """Raise OSError if the disk does not return what was written."""
    _drop_cached(file, at, at + len(piece))
    if file.pread(len(piece), at) != piece:
        raise OSError(errno.EIO, f"bytes {at} to {at + len(piece)} read back as others than were written", path)


def _drop_cached(file: File, begin: int, end: int) -> None:
    """Have the next read of bytes [begin, end) come from the disk. Parts of pages would stay."""
    begin = begin // PAGE_BYTES * PAGE_BYTES
    file.drop_cached(begin, -(-(end - begin) // PAGE_BYTES) * PAGE_BYTES)


def _checked(file: HourFile, begin: int, end: int) -> bytes | None:
    """Return bytes of a file if all of what they are part of passes its check; None if not."""
    if file.entries is not None:
        data, unreadable = read_pages(file.file, begin, end)
        return data if not unreadable and are_whole(np.frombuffer(data, dtype=file.entries)).all() else None
    pieces: list[bytes] = []
    at = begin
    for place, stop in _message_places(file, begin, end):
        try:
            message = file.file.read(place, stop)
        except LogError:
            return None
        if place > at or not is_whole(message):
            return None
        pieces.append(message[at - place : end - place])
        at = stop
    return b"".join(pieces) if at >= end else None


def _message_places(file: HourFile, begin: int, end: int) -> Iterable[Range]:
    for _, entries in place_messages(file.hour, begin, end):
        for place, size in zip(entries["place"].tolist(), entries["size"].tolist(), strict=True):
            yield place, place + size


# --- checks of what another member has sent --------------------------------------------------------------------------


def _check(file: HourFile, begin: int, data: bytes) -> None:
    """Check bytes that are to be at `begin` of a file. Raises RepairRejected."""
    if file.entries is None:
        problem = _problem_of_messages(file, begin, data)
    else:
        entries = np.frombuffer(data, dtype=file.entries)
        if not are_whole(entries).all():
            problem = "entries fail their check"
        elif file.entries is INDEX:
            problem = _problem_of_index(file, begin, entries)
        else:
            problem = _problem_of_dispatch(file, entries)
    if problem:
        raise RepairRejected(f"bytes {begin} to {begin + len(data)} of {file.name}: {problem}")


def _problem_of_index(file: HourFile, begin: int, entries: EntryArray) -> str:
    """Messages lie in the data file in the order of their numbers, without gaps."""
    hour, end = file.hour, begin + len(entries) * INDEX_BYTES
    around, _ = read_pages(file.file, max(0, begin - INDEX_BYTES), min(end + INDEX_BYTES, file.end))
    known = np.frombuffer(around, dtype=INDEX)
    before, after = known[: int(begin > 0)], known[int(begin > 0) + len(entries) :]
    all_of = np.concatenate((before[are_whole(before)], entries, after[are_whole(after)]))
    places, ends = all_of["place"].astype(np.int64), (all_of["place"] + all_of["size"]).astype(np.int64)
    if (places[1:] < ends[:-1]).any() or (ends > hour.schedule.data.end).any():
        return "messages that are elsewhere in the data file"
    if ((entries["due"] < hour.begin_ms) | (entries["due"] >= hour.end_ms)).any():
        return "messages of another hour"
    return ""


def _problem_of_dispatch(file: HourFile, entries: EntryArray) -> str:
    is_known = (entries["number"] < file.hour.schedule.count) & np.isin(entries["what"], _STATES)
    return "" if is_known.all() else "decisions of messages that the hour does not have"


def _problem_of_messages(file: HourFile, begin: int, data: bytes) -> str:
    """Messages are checked by the CRC before each, and by the index of this member."""
    view, at = memoryview(data), begin
    for _, entries in place_messages(file.hour, begin, begin + len(data)):
        for place, size, digest in zip(
            entries["place"].tolist(), entries["size"].tolist(), entries["id"].tolist(), strict=True
        ):
            message = view[place - begin : place + size - begin] if place == at else view[:0]
            if not is_whole(message) or crc32(message_id_of(message).encode()) != digest:
                return f"the message at {place} fails its check"
            at += size
    return "" if at == begin + len(data) else "the index has other messages"


# --- what is missing -------------------------------------------------------------------------------------------------


Pieces = list[tuple[int, bytes]]
"""Bytes by their place."""


def _missing(file: HourFile, begin: int, data: bytes) -> tuple[Pieces, Pieces]:
    """Return what has to be written of checked bytes: whole pages that the disk can't read, and elsewhere what is damaged.

    Raises RepairRejected, OSError.
    """
    end = begin + len(data)
    current, unreadable = read_pages(file.file, begin, end)
    bad: list[Range] = []
    for at, stop in _parts(file, begin, data):
        ours, theirs = current[at - begin : stop - begin], data[at - begin : stop - begin]
        if ours == theirs:
            continue
        if _is_whole(file, ours):
            raise RepairRejected(f"bytes {at} to {stop} of {file.name} differ although both pass their checks")
        bad.append((at, stop))
    pages = {at // PAGE_BYTES for at, _ in unreadable}
    whole = [known for page in sorted(pages) if (known := _page(file, begin, data, page)) is not None]
    found: Pieces = []
    for at, stop in merged(bad):
        while at < stop:
            part = min(stop, (at // PAGE_BYTES + 1) * PAGE_BYTES)
            here = slice(at - begin, part - begin)
            # Of a message that reaches into an unreadable page the rest may be whole.
            if at // PAGE_BYTES not in pages and current[here] != data[here]:
                found.append((at, data[here]))
            at = part
    if not whole and not found:
        raise OSError(
            errno.EIO, f"pages with bytes {begin} to {end} can't be read, and are not known as a whole", file.name
        )
    return whole, found


def _page(file: HourFile, begin: int, data: bytes, page: int) -> tuple[int, bytes] | None:
    """Return what belongs on a page that can't be read; None: not all of it is known."""
    at = page * PAGE_BYTES
    written, taken = file.file.taken
    on_disk = written + sum(map(len, taken))
    # What is in memory only is written by the next checkpoint.
    if at < begin or begin + len(data) < min(at + PAGE_BYTES, on_disk):
        return None
    return at, data[at - begin : at - begin + PAGE_BYTES]


def _parts(file: HourFile, begin: int, data: bytes) -> Iterable[Range]:
    if file.entries is None:
        return _message_places(file, begin, begin + len(data))
    size = file.entries.itemsize
    return ((at, at + size) for at in range(begin, begin + len(data), size))


def _is_whole(file: HourFile, part: bytes) -> bool:
    if file.entries is None:
        return is_whole(part)
    return bool(are_whole(np.frombuffer(part, dtype=file.entries)).all())
