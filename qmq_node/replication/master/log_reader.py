"""Reads commits from the segments of a log, to send them to a slave that is behind."""

from dataclasses import replace

from qmq.errors import LogError
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, Position, decode_header, is_whole
from qmq_node.log.segment import SegmentInfo
from qmq_node.replication.master.commit_batch import CommitBatch


def read_batch(log: SegmentedLog, after: Position, end: int, bytes_max: int) -> CommitBatch:
    """Return commits of one segment behind `after`: as many as the next `bytes_max` bytes of the log hold, at least one; from a
    thread that may wait for the disk.

    Each is checked: its CRC, and that it names the CRC of the commit before it. So an unused rest of a segment can be
    distinguished from damage: the next segment's first commit continues the chain. Where no commit follows so, because the log is
    damaged, they are those behind the damage (`CommitBatch.lost_from`).

    Args:
        after: where a commit ends, and its CRC.
        end: up to here the log is written; above `after`.

    Raises:
        ReadFailed: the disk returned an error.
        LogError: there is no such commit: retention removed it, or all of the log is damaged from there on.
    """
    segment = log.stored.segment_at(after.offset)
    batch = _read(log, segment, after, end, bytes_max) if segment is not None else None
    if batch is None:
        # The rest of the segment is unused.
        following = next((info for info in log.stored.segments() if info.base > after.offset), None)
        if following is not None and following.base < end:
            rest = following.base - after.offset
            batch = _read(log, following, Position(following.base, after.chain), end, bytes_max - rest)
    return batch or _behind_damage(log, after, end, bytes_max)


def _behind_damage(log: SegmentedLog, after: Position, end: int, bytes_max: int) -> CommitBatch:
    """Return the commits behind what is damaged at `after`. Raises as `read_batch`."""
    if log.begin <= after.offset and (found := log.stored.next_commit(after.offset)) is not None and found.end <= end:
        segment = log.stored.segment_at(found.offset)
        begin = Position(found.offset, found.previous_crc)
        batch = _read(log, segment, begin, end, bytes_max) if segment is not None else None
        if batch is not None and segment is not None:
            return replace(batch, segment_bytes=segment.bytes, lost_from=after.offset)
    raise LogError(
        f"the log has no readable commit at log offset {after.offset}: it was removed, or is damaged",
        code="log.unreadable",
    )


def _read(log: SegmentedLog, segment: SegmentInfo, begin: Position, end: int, bytes_max: int) -> CommitBatch | None:
    """Return the commits from a place in a segment on, which follow on the chain there; None if none does."""
    offset, room = begin.offset, min(segment.end, end) - begin.offset
    data = log.stored.read(offset, min(max(bytes_max, HEADER_BYTES), room))
    first = decode_header(data, offset, segment.base)
    if first is None or first.end - offset > room:
        return None
    if first.end - offset > len(data):
        data = log.stored.read(offset, first.end - offset)
    ends, records_end = _ends(memoryview(data), segment.base, begin)
    if not ends:
        return None
    size = ends[-1].offset - offset
    return CommitBatch(
        segment.base,
        segment.bytes if offset == segment.base else 0,
        offset,
        tuple(ends),
        records_end,
        (memoryview(data)[:size],),
    )


def _ends(data: memoryview, segment_base: int, begin: Position) -> tuple[list[Position], int]:
    """Return where the whole commits in `data` end that follow one another, and the end of the last one with records."""
    ends: list[Position] = []
    offset, records_end, chain, at = begin.offset, 0, begin.chain, 0
    while (header := decode_header(data[at:], offset + at, segment_base)) is not None:
        commit_end = header.end - offset
        if commit_end > len(data) or header.previous_crc != chain or not is_whole(header, data[at:commit_end]):
            break
        ends.append(Position(header.end, header.crc))
        if header.record_count:
            records_end = header.end
        chain, at = header.crc, commit_end
    return ends, records_end
