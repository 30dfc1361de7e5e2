"""Walking a log's commits, and telling a torn tail from damage.

A bad place at log offset b is *damage of acknowledged data* when b lies below what is known to have been synced: the
`synced_to` of any valid commit behind it, or of the checkpoint. It is never cut; the walk goes on at the next valid commit.
Otherwise it is a *torn tail*: bytes of a commit that was never answered, with whatever unsynced bytes lie behind.
A seal is written without a sync of its own, so a power cut may lose it and keep the commit behind it; a seal's bytes follow
from its place, so that commit is recognised by its chain and nothing is wrong.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from qmq.errors import ReadFailed
from qmq.log.disk import File
from qmq.log.record import (
    HEADER_BYTES,
    MAGIC_BYTES,
    UNKNOWN_CHAIN,
    CommitHeader,
    Position,
    commit_crc,
    decode_header,
    encode_header,
    is_whole,
)
from qmq.log.segment import SegmentInfo, Segments

READ_AHEAD_BYTES = 1 << 20
SECTOR_BYTES = 4096
"""The place at which reading continues after one that the disk cannot read."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A valid commit as the walk hands it over. `body` may be kept; offsets are log offsets.

    `after_damage`: damage lies between it and the commit that was handed over before it.
    """

    header: CommitHeader
    body: memoryview
    after_damage: bool

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
class Walked:
    """What a walk found. `position` is behind the last valid commit; `torn_at` where unanswered bytes begin, if any."""

    position: Position
    segment_base: int
    synced_to: int
    damaged: tuple[Damage, ...]
    torn_at: int | None
    tails: dict[int, Position] = field(default_factory=dict)
    """Segment base -> its last commit with records (a seal may be lost by right): offset and CRC."""


class _Window:
    """Reads one segment's file in large pieces."""

    def __init__(self, file: File, base: int) -> None:
        self._file = file
        self._base = base
        self._data = memoryview(b"")
        self._begin = 0

    def get(self, place: int, size: int) -> memoryview:
        """Up to `size` bytes at `place`; fewer at the end of the file. Raises ReadFailed."""
        at = place - self._begin
        if not (at >= 0 and at + size <= len(self._data)):
            self._data, self._begin, at = memoryview(self._read(place, size)), place, 0
        return self._data[at : at + size]

    def _read(self, place: int, size: int) -> bytes:
        if size < READ_AHEAD_BYTES:
            # A bad sector in what is read ahead is no error yet.
            with suppress(OSError):
                return self._file.pread(READ_AHEAD_BYTES, place)
        try:
            return self._file.pread(size, place)
        except OSError as error:
            raise ReadFailed(
                f"{size} bytes at log offset {self._base + place} ({place} in the segment's file) can't be read: {error}"
            ) from error

    def next_data(self, place: int) -> int | None:
        """The first place at or after `place` that may hold data. Raises ReadFailed."""
        try:
            return self._file.next_data(place)
        except OSError as error:
            raise ReadFailed(f"the segment at log offset {self._base} can't be searched: {error}") from error

    def readable(self, place: int) -> memoryview:
        """Bytes from `place` on, up to READ_AHEAD_BYTES, to the end of the file, or to the first sector that can't be read."""
        try:
            return self.get(place, READ_AHEAD_BYTES)
        except ReadFailed:
            parts: list[memoryview] = []
            at = place
            while at < place + READ_AHEAD_BYTES:
                size = SECTOR_BYTES - at % SECTOR_BYTES
                try:
                    parts.append(memoryview(self._file.pread(size, at)))
                except OSError:
                    break
                at += size
            return memoryview(b"".join(parts))


@dataclass(eq=False, repr=False)
class Walker:
    """Walks commits over segments. `visit` is called for each valid one, in order; `stop` may end the walk early.

    A place that the disk can't read raises `ReadFailed`; with `skip_unreadable` it is passed over like damage.
    """

    segments: Segments
    visit: Callable[[Commit], None]
    synced_to: int = 0
    stop: Callable[[int], bool] | None = None
    skip_unreadable: bool = False
    _damaged: list[Damage] = field(default_factory=list)
    _current: tuple[int, _Window] | None = None
    """The segment that is being read: its base, and its window."""
    _tails: dict[int, Position] = field(default_factory=dict)

    def walk(self, start: Position | None) -> Walked:
        """From a position, or from the oldest segment's beginning with an unknown chain.

        Raises ReadFailed when the disk can't read a place, and unreadable places are not skipped.
        """
        infos = self.segments.infos()
        if not infos:
            return Walked(start or Position(0, 0), -1, self.synced_to, (), None)
        # The very first commit follows nothing; what came before a later oldest segment is not known.
        oldest = infos[0].base
        if start is None:
            at, chain = oldest, 0 if oldest == 0 else None
        else:
            at, chain = start.offset, None if start.chain == UNKNOWN_CHAIN else start.chain
        base = max((info.base for info in infos if info.base <= at), default=oldest)
        after_damage = False
        while True:
            if self.stop is not None and self.stop(at):
                break
            commit = self._read(base, at)
            if commit is None:
                commit = self._next_whole(infos, base, at)
                if commit is None:
                    break
                verdict = self._judge(at, chain, commit, base)
                if verdict == "torn":
                    return self._end(at, chain, base, torn_at=at)
                if verdict == "damage":
                    self._damaged.append(Damage(at, commit.offset, "commits can't be read"))
                    chain, after_damage = None, True
                else:
                    chain = commit.header.previous_crc
                base = commit.header.segment_base
            if chain is not None and commit.header.previous_crc != chain:
                self._damaged.append(Damage(commit.offset, commit.offset, "a commit does not follow the one before it"))
                after_damage = True
            if commit.header.record_count:
                self.visit(Commit(commit.header, commit.body, after_damage))
                self._tails[base] = Position(commit.offset, commit.header.crc)
                after_damage = False
            self.synced_to = max(self.synced_to, commit.header.synced_to)
            chain, at = commit.header.crc, commit.end
        return self._end(at, chain, base, torn_at=None)

    def _end(self, at: int, chain: int | None, base: int, torn_at: int | None) -> Walked:
        if at < self.synced_to and self.stop is None:
            self._damaged.append(Damage(at, self.synced_to, "synced commits at the end of the log can't be read"))
            torn_at = None
        end = Position(at, chain or 0)
        return Walked(end, base, self.synced_to, tuple(self._damaged), torn_at, self._tails)

    def _window(self, base: int) -> _Window:
        if self._current is None or self._current[0] != base:
            try:
                self._current = base, _Window(self.segments.file(base), base)
            except OSError as error:
                raise ReadFailed(f"the segment at log offset {base} can't be opened: {error}") from error
        return self._current[1]

    def _read(self, base: int, at: int) -> Commit | None:
        """The whole commit at a log offset, or None."""
        try:
            return self._read_whole(base, at)
        except ReadFailed:
            if not self.skip_unreadable:
                raise
            return None

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
            window = self._window(info.base)
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
                elif self.skip_unreadable and place + SECTOR_BYTES < info.bytes:
                    place += SECTOR_BYTES - place % SECTOR_BYTES
                else:
                    break
        return None

    def holds(self, base: int, tail: Position) -> bool:
        """Whether a segment's last commit is where it was, and whole."""
        commit = self._read(base, tail.offset)
        return commit is not None and commit.header.crc == tail.chain

    def _judge(self, at: int, chain: int | None, found: Commit, base: int) -> str:
        """Why nothing valid stands at `at` although a whole commit follows: "clean", "damage" or "torn"."""
        if chain is not None and found.header.previous_crc == chain:
            # The segment was full: the log goes on in the next.
            return "clean" if found.header.segment_base != base else "damage"
        if chain is not None:
            seal = encode_header(
                segment_base=base,
                epoch=found.header.epoch,
                offset=at,
                body_bytes=0,
                record_count=0,
                previous_crc=chain,
                synced_to=at,
            )
            if found.header.previous_crc == commit_crc(seal):
                return "clean"
        return "damage" if at < max(self.synced_to, self._synced_behind(found)) else "torn"

    def _synced_behind(self, found: Commit) -> int:
        """The highest `synced_to` of whole commits from `found` on."""
        highest, infos = 0, self.segments.infos()
        commit: Commit | None = found
        while commit is not None:
            highest, base, at = max(highest, commit.header.synced_to), commit.header.segment_base, commit.end
            commit = self._read(base, at) or self._next_whole(infos, base, at)
        return highest
