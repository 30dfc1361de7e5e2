"""Reads commits from the segments of a log, to send them to a slave that is behind."""

from qmq.errors import LogError, ReadFailed
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, CommitHeader, Position, decode_header, is_whole
from qmq_node.log.segment import SegmentInfo
from qmq_node.replication.master.commit_batch import CommitBatch


def read_batch(log: SegmentedLog, after: Position, end: int, bytes_max: int) -> CommitBatch:
    """Return commits behind `after`: as many as `bytes_max` bytes hold, at least one; from a thread that may wait for the disk.

    Each is checked: its CRC, and that it names the CRC of the commit before it. So an unused rest of a segment can be
    distinguished from damage: the next segment's first commit continues the chain.

    Args:
        after: where a commit ends, and its CRC.
        end: up to here the log is written; above `after`.

    Raises:
        ReadFailed: the disk returned an error.
        LogError: there is no such commit: retention removed it, or the log is damaged there.
    """
    segment = log.stored.segment_at(after.offset)
    batch = _read(log, segment, after.offset, after, end, bytes_max) if segment is not None else None
    if batch is None:
        # The rest of the segment is unused.
        following = next((info for info in log.stored.segments() if info.base > after.offset), None)
        why = "it was removed, or is damaged"
        if following is not None and following.base < end:
            try:
                batch = _read(log, following, following.base, after, end, bytes_max)
            except ReadFailed:
                raise
            except LogError as error:
                why = str(error)
        if batch is None:
            raise LogError(f"the log has no readable commit at log offset {after.offset}: {why}", code="log.unreadable")
    return batch


def _read(
    log: SegmentedLog, segment: SegmentInfo, offset: int, after: Position, end: int, bytes_max: int
) -> CommitBatch | None:
    """Return the commits from `offset` on; None if none begins there."""
    room = min(segment.end, end) - offset
    data = log.stored.read(offset, min(max(bytes_max, HEADER_BYTES), room))
    first = decode_header(data, offset, segment.base)
    if first is None or first.end - offset > room:
        return None
    if first.end - offset > len(data):
        data = log.stored.read(offset, first.end - offset)
    ends, records_end = _ends(memoryview(data), offset, segment.base, after)
    size = ends[-1].offset - offset
    return CommitBatch(
        segment.base,
        segment.bytes if offset == segment.base else 0,
        offset,
        tuple(ends),
        records_end,
        (memoryview(data)[:size],),
    )


def _ends(data: memoryview, offset: int, segment_base: int, after: Position) -> tuple[list[Position], int]:
    """Return where the whole commits in `data` end, and the end of the last one with records."""
    ends: list[Position] = []
    records_end, chain, at = 0, after.chain, 0
    while (header := decode_header(data[at:], offset + at, segment_base)) is not None:
        commit_end = header.end - offset
        if commit_end > len(data):
            break
        _check(header, data[at:commit_end], chain)
        ends.append(Position(header.end, header.crc))
        if header.record_count:
            records_end = header.end
        chain, at = header.crc, commit_end
    return ends, records_end


def _check(header: CommitHeader, data: memoryview, chain: int) -> None:
    if not is_whole(header, data):
        raise LogError(f"the commit at log offset {header.offset} is damaged", code="log.unreadable")
    if header.previous_crc != chain:
        raise LogError(
            f"the commit at log offset {header.offset} names CRC {header.previous_crc:#010x} of the commit before it, which"
            f" has {chain:#010x}",
            code="log.unreadable",
        )
