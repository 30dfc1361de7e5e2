"""Walking a log's commits, and telling a torn tail from damage.

A bad place at log offset b is *damage of acknowledged data* when b lies below what is known to have been synced: the
`synced_to` of any valid commit behind it, or of the checkpoint. It is never cut; the walk continues at the next valid commit.
Otherwise it is a *torn tail*: bytes of a commit that was never answered, with whatever unsynced bytes lie behind.
Where many commits were written with one sync, a valid commit behind a bad place proves nothing: everything is a torn tail there,
except exactly the ranges that the log is known to have lost (`qmq_node.log.lost_ranges`).
A seal is written without a sync of its own, so a power cut may lose it and keep the commit behind it; a seal's bytes follow
from its place, so that commit is recognised by its chain and nothing is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from qmq.errors import ReadFailed
from qmq_node.log.commit_ends import CommitEnds
from qmq_node.log.disk import Buffer
from qmq_node.log.epochs import NO_EPOCHS, EpochChain
from qmq_node.log.lost_ranges import Range
from qmq_node.log.record import (
    BEGINNING,
    HEADER_BYTES,
    MAGIC_BYTES,
    UNKNOWN_CHAIN,
    CommitHeader,
    Position,
    commit_crc,
    decode_header,
    encode_crc,
    encode_header,
    is_whole,
)
from qmq_node.log.segment import SegmentInfo
from qmq_node.log.window import READ_AHEAD_BYTES, SECTOR_BYTES, ReadableFile, Window


class ReadableSegments(Protocol):
    """The segments of a log, of which a walk reads commits; as `qmq_node.log.segment.Segments`."""

    def infos(self) -> list[SegmentInfo]: ...

    def holding(self, offset: int) -> SegmentInfo | None: ...

    def file(self, base: int) -> ReadableFile: ...


@dataclass(frozen=True, slots=True)
class Commit:
    """A valid commit as the walk hands it over. `body` may be kept; offsets are log offsets.

    `after_damage`: damage lies between it and the commit that was handed over before it.
    """

    header: CommitHeader
    body: memoryview
    after_damage: bool
    index_entries: Buffer = b""
    """Those of its messages, as the master sent them; empty: they are made from the messages."""

    @property
    def offset(self) -> int:
        return self.header.offset

    @property
    def end(self) -> int:
        return self.header.end

    @property
    def body_offset(self) -> int:
        return self.header.offset + HEADER_BYTES


@dataclass(frozen=True, slots=True)
class Damage:
    """Log offsets [begin, end) hold acknowledged commits that can't be read; begin == end: the chain is broken there."""

    begin: int
    end: int
    why: str


@dataclass(frozen=True, slots=True)
class LostSeal:
    """A seal that a power cut took from between two commits: its place, and the bytes that stood there."""

    segment_base: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk found. `position` is behind the last valid commit; `torn_at` where unanswered bytes begin, if any."""

    position: Position
    segment_base: int
    synced_to: int
    damaged: tuple[Damage, ...]
    torn_at: int | None
    tails: dict[int, Position] = field(default_factory=dict)
    """Segment base -> its last commit with records (a seal may be lost by right) that was not above the limit of visits."""
    visited: Position = BEGINNING
    """Behind the last commit that was not above the limit of visits."""
    lost_seals: tuple[LostSeal, ...] = ()
    epochs: EpochChain = NO_EPOCHS
    """Of the commits, and of those before them that the caller knows."""


@dataclass(eq=False, repr=False)
class Walker:
    """Walks commits over segments. `visit` is called for each valid one with records, in order; `stop` may end the walk early.

    A place that the disk can't read raises `ReadFailed`; with `skip_unreadable` it is passed over like damage, also at the end
    unless `needs_readable_end`.
    """

    segments: ReadableSegments
    visit: Callable[[Commit], None]
    synced_to: int = 0
    stop: Callable[[int], bool] | None = None
    skip_unreadable: bool = False
    needs_readable_end: bool = False
    """Raise `ReadFailed` if the disk can't read a place behind the last valid commit: acknowledged commits may be stored there."""
    stops_at_damage: bool = False
    """End the walk at the first place at which no valid commit follows on the one before; with `stop`, that is no damage."""
    visit_end: int | None = None
    """Commits that end above it are checked and not visited; None: all are visited."""
    copied_from: int | None = None
    """From this log offset on, commits were written many at a time with one sync: the first bad place at or above
    `synced_to` is a torn tail."""
    lost: tuple[Range, ...] = ()
    """Exactly these are damage wherever they are met."""
    ends: CommitEnds | None = None
    """Gets the ends of the commits."""
    epochs: EpochChain = NO_EPOCHS
    """Of the commits before the start of the walk; afterwards, also of those that it met."""
    _damaged: list[Damage] = field(default_factory=list)
    _current: tuple[int, Window] | None = None
    """The segment that is being read: its base, and its window."""
    _tails: dict[int, Position] = field(default_factory=dict)
    _visited: Position = BEGINNING
    _lost_seals: list[LostSeal] = field(default_factory=list)
    _passed_over: ReadFailed | None = None
    """The last read error behind the last valid commit."""

    def walk(self, start: Position | None) -> Walked:
        """From a position, or from the oldest segment's beginning with an unknown chain.

        Raises ReadFailed when the disk can't read a place, and unreadable places are not skipped.
        """
        infos = self.segments.infos()
        if not infos:
            begin = start or BEGINNING
            return Walked(begin, -1, self.synced_to, (), None, visited=begin)
        # The very first commit follows nothing; what came before a later oldest segment is not known.
        oldest = infos[0].base
        if start is None:
            at, chain = oldest, 0 if oldest == 0 else None
        else:
            at, chain = start.offset, None if start.chain == UNKNOWN_CHAIN else start.chain
        base = max((info.base for info in infos if info.base <= at), default=oldest)
        self._visited = Position(at, chain or 0)
        after_damage = False
        while True:
            if self.stop is not None and self.stop(at):
                break
            commit = self._read(base, at)
            if commit is None:
                commit = self._next_whole(infos, base, at)
                verdict = "torn" if commit is None else self._judge(at, chain, commit, base)
                if verdict == "torn" and self.needs_readable_end and self._passed_over is not None:
                    raise self._passed_over
                if commit is None:
                    break
                if verdict == "torn":
                    return self._end(at, chain, base, torn_at=at)
                if verdict == "damage":
                    if self.stops_at_damage:
                        break
                    self._damaged.append(Damage(at, commit.offset, "commits can't be read"))
                    chain, after_damage = None, True
                else:
                    chain = commit.header.previous_crc
                base = commit.header.segment_base
            if chain is not None and commit.header.previous_crc != chain:
                if self._is_copied(at) and (commit.offset, commit.offset) not in self.lost:
                    return self._end(at, chain, base, torn_at=at)
                if self.stops_at_damage:
                    break
                self._damaged.append(Damage(commit.offset, commit.offset, "a commit does not follow the one before it"))
                after_damage = True
            if commit.header.epoch != self.epochs.last_epoch and not self._enter_epoch(commit, at):
                after_damage = True
            chain, end = commit.header.crc, commit.end
            is_below = self.visit_end is None or end <= self.visit_end
            if commit.header.record_count and is_below:
                self.visit(Commit(commit.header, commit.body, after_damage))
                self._tails[base] = Position(commit.offset, chain)
                after_damage = False
            self.synced_to = max(self.synced_to, commit.header.synced_to)
            self._ended(end, chain, is_below=is_below)
            at, self._passed_over = end, None
        return self._end(at, chain, base, torn_at=None)

    def _end(self, at: int, chain: int | None, base: int, torn_at: int | None) -> Walked:
        if at < self.synced_to and self.stop is None:
            self._damaged.append(Damage(at, self.synced_to, "synced commits at the end of the log can't be read"))
            torn_at = None
        return Walked(
            Position(at, chain or 0),
            base,
            self.synced_to,
            tuple(self._damaged),
            torn_at,
            self._tails,
            self._visited,
            tuple(self._lost_seals),
            self.epochs,
        )

    def _enter_epoch(self, commit: Commit, previous_end: int) -> bool:
        """Continue with the epoch of a commit; False for damage, because it is lower than the one before."""
        if commit.header.epoch < self.epochs.last_epoch:
            self._damaged.append(Damage(commit.offset, commit.offset, "the epoch falls from one commit to the next"))
            return False
        self.epochs = self.epochs.with_commit(commit.header.epoch, previous_end)
        return True

    def _ended(self, end: int, crc: int, *, is_below: bool) -> None:
        if self.ends is not None:
            self.ends.add(end, crc)
        if is_below:
            self._visited = Position(end, crc)

    def _is_copied(self, at: int) -> bool:
        return self.copied_from is not None and at >= self.copied_from

    def _window(self, base: int) -> Window:
        if self._current is None or self._current[0] != base:
            try:
                self._current = base, Window(self.segments.file(base), base)
            except OSError as error:
                raise ReadFailed(f"the segment at log offset {base} can't be opened: {error}") from error
        return self._current[1]

    def _read(self, base: int, at: int) -> Commit | None:
        """The whole commit at a log offset, or None."""
        try:
            return self._read_whole(base, at)
        except ReadFailed as error:
            self._pass_over(error)
            return None

    def _pass_over(self, error: ReadFailed) -> None:
        """Raise a read error, or record it if unreadable places are skipped."""
        if not self.skip_unreadable:
            raise error
        self._passed_over = error

    def _read_whole(self, base: int, at: int) -> Commit | None:
        info = self.segments.holding(at)
        if info is None or info.base != base or at > info.end - HEADER_BYTES:
            return None
        window = self._window(base)
        header = decode_header(window.get(at - base, HEADER_BYTES), at, base)
        if header is None or header.end > info.end:
            return None
        data = window.get(at - base, HEADER_BYTES + header.body_bytes)
        return Commit(header, data[HEADER_BYTES:], False) if is_whole(header, data) else None

    def _next_whole(self, infos: list[SegmentInfo], base: int, at: int) -> Commit | None:
        """The next whole commit behind a bad place."""
        for info in infos:
            if info.base < base:
                continue
            place = at + 1 - base if info.base == base else 0
            try:
                window = self._window(info.base)
            except ReadFailed as error:
                self._pass_over(error)
                continue
            while place < info.bytes:
                data_at = window.next_data(place)
                if data_at is None:
                    break
                place = max(place, data_at)
                read = window.readable(place) if self.skip_unreadable else window.get(place, READ_AHEAD_BYTES)
                piece = bytes(read)
                found = piece.find(MAGIC_BYTES)
                if found >= 0:
                    commit = self._read(info.base, info.base + place + found)
                    if commit is not None:
                        return commit
                    place += found + 1
                elif piece:
                    place += max(1, len(piece) - len(MAGIC_BYTES) + 1)
                elif self.skip_unreadable and place < info.bytes:
                    self._pass_over(ReadFailed(f"log offset {info.base + place} can't be read"))
                    place += SECTOR_BYTES - place % SECTOR_BYTES
                else:
                    break
        return None

    def commit_at(self, offset: int) -> CommitHeader | None:
        """Return the header of the whole commit at a log offset; None if there is none. Raises ReadFailed as `walk`."""
        info = self.segments.holding(offset)
        commit = self._read(info.base, offset) if info is not None else None
        return commit.header if commit is not None else None

    def next_commit(self, offset: int) -> CommitHeader | None:
        """Return the header of the next whole commit at or behind a log offset, whatever it follows; None if there is none."""
        infos = self.segments.infos()
        base = max((info.base for info in infos if info.base <= offset), default=-1)
        commit = self._read(base, offset) or self._next_whole(infos, base, offset)
        return commit.header if commit is not None else None

    def holds(self, base: int, tail: Position) -> bool:
        """Whether a segment's last commit is where it was, and whole."""
        commit = self._read(base, tail.offset)
        return commit is not None and commit.header.crc == tail.chain

    def _judge(self, at: int, chain: int | None, found: Commit, base: int) -> str:
        """Why nothing valid stands at `at` although a whole commit follows: "clean", "damage" or "torn"."""
        if chain is not None and found.header.previous_crc == chain and found.header.segment_base != base:
            # The segment was full: the log continues in the next.
            return "clean"
        if (at, found.offset) in self.lost:
            return "damage"
        if self._is_copied(at):
            return "torn"
        if chain is not None and found.header.previous_crc == chain:
            return "damage"
        if chain is not None and self._finds_seal(at, chain, found, base):
            return "clean"
        # What lies behind is read only if nothing else says so.
        is_synced = self.stops_at_damage or at < self.synced_to or at < self._synced_behind(found)
        return "damage" if is_synced else "torn"

    def _finds_seal(self, at: int, chain: int, found: Commit, base: int) -> bool:
        """Return whether the commit that was found follows a seal that is lost, and note it: its bytes follow from its place."""
        # It was written before a promotion, or after it.
        for epoch in {self.epochs.last_epoch, found.header.epoch}:
            seal = encode_header(
                segment_base=base,
                epoch=epoch,
                offset=at,
                body_bytes=0,
                record_count=0,
                previous_crc=chain,
                synced_to=at,
            )
            crc, end = commit_crc(seal), at + HEADER_BYTES
            if found.header.previous_crc == crc:
                self._lost_seals.append(LostSeal(base, at, seal + encode_crc(crc)))
                self._ended(end, crc, is_below=self.visit_end is None or end <= self.visit_end)
                return True
        return False

    def _synced_behind(self, found: Commit) -> int:
        """The highest `synced_to` of whole commits from `found` on."""
        highest, infos = 0, self.segments.infos()
        commit: Commit | None = found
        while commit is not None:
            highest, base, at = max(highest, commit.header.synced_to), commit.header.segment_base, commit.end
            commit = self._read(base, at) or self._next_whole(infos, base, at)
        return highest
