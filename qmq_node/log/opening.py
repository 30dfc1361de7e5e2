"""Opening a log in three parts: inspect what is there, which writes nothing; decide, by the caller; act.

The decision depends on the log's copies. A log with one copy continues in a new segment behind damage at its end. A member of a
larger group must not do that: its offsets would name bytes that no other member has.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from qmq.errors import LogError, ReadFailed
from qmq_node.log.atomic_file import BeginFile
from qmq_node.log.commit_ends import CommitEnds
from qmq_node.log.disk import Disk
from qmq_node.log.epochs import NO_EPOCHS, EpochChain
from qmq_node.log.lost_ranges import LostRanges
from qmq_node.log.record import UNKNOWN_CHAIN, Position
from qmq_node.log.recovery import Commit, Damage, Walked, Walker
from qmq_node.log.segment import SegmentInfo, Segments
from qmq_node.log.sync_proof import SyncProof
from qmq_node.log.truncation import TruncationFile

OTHER_SEGMENT = "the segment is not as it was left"
"""Why a segment is damaged whose commits are whole: an older copy of it, or a foreign file, took its place."""

logger = logging.getLogger("qmq_node.log")

LOST = "the broker group has lost this"
"""Why a range is damaged that was left out when the log was copied."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is in the folder of a log."""

    disk: Disk
    segments: Segments
    walked: Walked
    damaged: tuple[Damage, ...]
    """All damage, in order."""
    tails: Mapping[int, Position]
    """Segment base -> offset and CRC of its last commit with records that was not above the limit of visits."""
    ends: CommitEnds
    begin_file: BeginFile
    lost: LostRanges
    proof: SyncProof
    missing_from: int | None
    """Where the log began before its first segments were lost; None: they are there."""
    continues_at: int | None
    """Where a log with one copy continues in a new segment, because acknowledged bytes at its end are lost; None: at `end`."""

    @property
    def end(self) -> int:
        """The end of the last valid commit."""
        return self.walked.position.offset


def inspect(
    disk: Disk,
    folder: str,
    *,
    start: Position | None = None,
    synced_to: int = 0,
    tails: Mapping[int, Position] | None = None,
    visit: Callable[[Commit], None],
    epochs: EpochChain = NO_EPOCHS,
    visit_end: int | None = None,
    copied_from: int | None = None,
    is_only_member: bool = True,
) -> Inspection:
    """Walk the log in a folder, new or used, and visit valid commits from `start` (default: the oldest) on. Writes nothing.

    Args:
        start: a position that an earlier open or `position` gave.
        synced_to: what is known, from a checkpoint, to have been synced.
        tails: as the property of that name was at the checkpoint: segments below `start` are held to it.
        epochs: as the property of that name was at the checkpoint.
        visit_end: commits that end above this log offset are checked and not visited: they may still be removed.
        copied_from: the log was being copied from this offset on, many commits with one sync: the first bad place is a torn tail.
        is_only_member: no other node has a copy.

    Raises:
        ReadFailed: the disk can't read a place that recovery needs. It may be an acknowledged commit or a torn one, so it is
            neither cleared nor skipped. In a group with several members, a place counts as damage instead if a later commit
            proves that it was synced: it is repaired from another member.
        LogError: a commit of an unknown format stands in the log, a truncation of it is not complete, or its proof is
            unusable.
        OSError: the disk refused.
    """
    if (truncation := TruncationFile(disk, folder).load()) is not None:
        raise LogError(
            f"the truncation of the log in {folder} to offset {truncation.end} is not complete: `finish_truncation` comes first",
            code="log.truncating",
        )
    proof = SyncProof(disk, folder)
    if (proven := proof.load()) is not None:
        synced_to = max(synced_to, proven.offset)
        copied_from = proven.offset if copied_from is None else min(copied_from, proven.offset)
    segments, ends, lost_ranges = Segments(disk, folder), CommitEnds(), LostRanges.load(disk, folder)
    infos = segments.infos()
    if start is not None and not any(s.base <= start.offset <= s.end for s in infos):
        # Not even the segment that the position names is there: all that is left is read, and the rest is damage.
        start = Position(infos[0].base, UNKNOWN_CHAIN) if infos else start
    for info in infos:
        # After a sync that failed, memory may hold commits that the disk does not have, and no later sync writes them.
        if start is None or info.end > start.offset:
            segments.file(info.base).drop_cached(0, info.bytes)
    walker = Walker(
        segments,
        visit,
        synced_to=synced_to,
        visit_end=visit_end,
        copied_from=copied_from,
        lost=lost_ranges.ranges,
        ends=ends,
        skip_unreadable=not is_only_member,
        needs_readable_end=True,
        epochs=NO_EPOCHS if start is None else epochs.truncated(start.offset),
    )
    walked = walker.walk(start)
    if proven is not None and not _has_commit(proven, ends, walked):
        raise proof.other_log(proven)
    begin_file = BeginFile(disk, folder)
    lost, missing_from = _lost_segments(infos, walked, begin_file.load())
    known_lost = _known_lost(segments, lost_ranges, start)
    changed, known_tails = _changed_segments(segments, tails or {}, walked)
    damaged = added(added(added(walked.damaged, known_lost), lost), changed)
    lacks_end = walked.position.offset < walked.synced_to
    continues_at = max(segments.end, walked.synced_to) if lacks_end else None
    return Inspection(
        disk, segments, walked, damaged, known_tails, ends, begin_file, lost_ranges, proof, missing_from, continues_at
    )  # fmt: skip


def _has_commit(proven: Position, ends: CommitEnds, walked: Walked) -> bool:
    """Whether the last proven commit is in the log, or in a damaged place, or below the start of the walk."""
    found = ends.at_or_below(proven.offset)
    is_damaged = any(damage.begin < proven.offset <= damage.end for damage in walked.damaged)
    return found is None or found == proven or is_damaged


def added(known: tuple[Damage, ...], found: Iterable[Damage]) -> tuple[Damage, ...]:
    """Return damage with what was found besides, in order."""
    new = [d for d in found if not any(k.begin <= d.begin and d.end <= k.end for k in known)]
    return tuple(sorted({*known, *new}, key=lambda damage: (damage.begin, damage.end))) if new else known


def _lost_segments(
    infos: list[SegmentInfo], walked: Walked, recorded_begin: int | None
) -> tuple[list[Damage], int | None]:
    """Return the damage of segments that are not there, and where the log began if its first ones are among them.

    Retention records the log's begin before it deletes any.
    """
    end = walked.position.offset
    found = [Damage(a.end, b.base, "a segment is missing") for a, b in pairwise(infos) if a.end < b.base]
    if not infos and end < walked.synced_to:
        found.append(Damage(end, walked.synced_to, "the whole log is missing"))
    begin = infos[0].base if infos else max(end, walked.synced_to)
    if recorded_begin is None or recorded_begin >= begin:
        return found, None
    return [*found, Damage(recorded_begin, begin, "the first segment is missing")], recorded_begin


def _known_lost(segments: Segments, lost: LostRanges, start: Position | None) -> list[Damage]:
    """Return the lost ranges that the walk did not come to, because it began behind them; not those that were repaired."""
    walker, found = Walker(segments, lambda _: None, skip_unreadable=True), []
    oldest = segments.begin or 0
    for begin, end in lost.ranges:
        is_below = start is not None and oldest < end <= start.offset
        if is_below and (begin == end or walker.commit_at(begin) is None):
            found.append(Damage(begin, end, LOST))
    return found


def _changed_segments(
    segments: Segments, tails: Mapping[int, Position], walked: Walked
) -> tuple[list[Damage], dict[int, Position]]:
    """Return the damage of segments that are not as they were left (an older copy, a foreign file), and all tails."""
    found: list[Damage] = []
    known = dict(walked.tails)
    walker = Walker(segments, lambda _: None)
    for info in segments.infos():
        tail = tails.get(info.base)
        if tail is None or info.base in known:
            continue
        known[info.base] = tail
        try:
            holds = walker.holds(info.base, tail)
        except ReadFailed as error:
            # Its messages are withheld when they are read, as in a running node; the next start compares again.
            logger.error("the segment at log offset %d can't be compared with its checkpoint: %s", info.base, error)
            continue
        if not holds:
            found += _damage_of(segments, info, tail, walked.position.offset)
    return found, known


def _damage_of(segments: Segments, info: SegmentInfo, tail: Position, log_end: int) -> tuple[Damage, ...]:
    """Return what is damaged in a segment whose last commit is not as it was left."""
    walker = Walker(segments, lambda _: None, stop=lambda offset: offset >= info.end, skip_unreadable=True)
    found = tuple(
        Damage(damage.begin, min(damage.end, info.end), damage.why)
        for damage in walker.walk(Position(info.base, UNKNOWN_CHAIN)).damaged
        if damage.begin < info.end
    )
    if any(damage.begin <= tail.offset < damage.end for damage in found):
        return found
    # Its commits are whole, but not those that were written: an older copy, a foreign file.
    end = min(info.end, log_end) if info.base < log_end else info.end
    return (Damage(info.base, end, OTHER_SEGMENT),)


def clear_folders(disk: Disk, *folders: str) -> None:
    """Remove all files of folders, which are made if they do not exist, durably. Raises OSError: the next call continues."""
    for folder in folders:
        disk.make_dir(folder)
        for name in disk.list_dir(folder):
            disk.remove(f"{folder}/{name}")
        disk.sync_dir(folder)


def remove_log(disk: Disk, folder: str) -> None:
    """Remove a log, and the files beside its folder that belong to it. Raises OSError: the next call continues."""
    clear_folders(disk, folder)
    parent, _, own = folder.rpartition("/")
    for name in disk.list_dir(parent or "."):
        if name in (f"{own}.begin", f"{own}.truncation", f"{own}.proof", f"{own}.lost"):
            disk.remove(f"{parent or '.'}/{name}")
    disk.sync_dir(parent or ".")
