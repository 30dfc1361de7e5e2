"""class CopiedLog: a log that gets the bytes of another member's log, at the same offsets.

**Following.** Each commit with records has its own sync before the next is written. A commit names the end of what was synced
before it, and recovery takes that for a proof, but it was written about the master's disk: with one sync for several commits here,
a power cut could lose the first and keep the second, which would look like damage of acknowledged data.

**Following with shared syncs.** For a disk that syncs more slowly than the master writes: several commits are written
with one sync, and a second one makes durable how far they are proven (`SyncProof`). Only then they count as synced.

**Copying.** Many commits share a sync. Allowed only in that durable state of the replica: nothing is confirmed then, and recovery
truncates at the first bad place, whatever follows it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from struct import Struct

from qmq.errors import LogError
from qmq_node.log.disk import Buffer
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import HEADER_BYTES, MAGIC_BYTES, CommitHeader, claimed_bytes, decode_header, is_whole

COPIED_SEGMENT_BYTES_MAX = 1 << 36
"""Largest segment that is created for a master: a size is allocated before a commit proves it right."""
COPIED_BYTES_PER_SYNC = 8 << 20
"""While the log is copied, this number of bytes is written between two syncs."""
_PLACE = Struct(">8xq8xq")
"""Of a header: the base of the segment, and the log offset."""


class CopyCheck(Enum):
    """What a copied commit must pass, in this order."""

    LENGTH = "length"
    MAGIC = "magic"
    LOST = "lost range"
    SEGMENT = "segment"
    OFFSET = "offset"
    HEADER = "header"
    CRC = "CRC"
    FORMAT = "format"
    CHAIN = "chain"
    EPOCH = "epoch"
    SYNCED_TO = "synced_to"
    INDEX_ENTRIES = "index entries"


class CopyRejected(LogError):
    """A commit of another member can't be part of this log; nothing of what came with it was written."""

    code = "log.copy_rejected"

    def __init__(self, check: CopyCheck, offset: int, why: str) -> None:
        super().__init__(f"the commit at log offset {offset} is rejected by its {check.value}: {why}")
        self.check = check
        self.offset = offset


@dataclass(frozen=True, slots=True)
class CopiedCommits:
    """Whole commits of one segment, one behind the other, as the master has them."""

    segment_base: int
    segment_bytes: int
    offset: int
    """Log offset of the first byte of `data`."""
    data: memoryview
    index_entries: Buffer = b""
    """Those of all messages of the commit, if it is a single one, or none."""
    lost_from: int | None = None
    """Where the range begins that the group has lost, and that is left out before these commits; None: they follow on the log."""

    def parts(self, commits_max: int) -> Iterator["CopiedCommits"]:
        """Yield the commits in parts of at most `commits_max`. Nothing is checked: the last part has what is no commit."""
        begin = at = count = 0
        size = len(self.data)
        while size - at >= HEADER_BYTES:
            at, count = at + claimed_bytes(self.data[at:]), count + 1
            if at >= size:
                break
            if count == commits_max:
                yield self._part(begin, at)
                begin, count = at, 0
        yield self._part(begin, size) if begin else self

    def _part(self, begin: int, end: int) -> "CopiedCommits":
        lost_from = None if begin else self.lost_from
        return replace(self, offset=self.offset + begin, data=self.data[begin:end], lost_from=lost_from)


class CopiedLog:
    """Writes to a log what its group's master has written, after checking it. One caller at a time; nothing else may write.

    Args:
        log: opened as a member of a larger group, so that it has no segment that is not the master's.
        epoch: of the session with the master; it must be on disk here (`ReplicaStateFile.copied_log`).
        is_copying: whether the durable state of the replica is "copying". When that changes, so must the attribute, in the
            thread that writes.
    """

    def __init__(self, log: SegmentedLog, *, epoch: int, is_copying: bool) -> None:
        self._log = log
        self._epoch = epoch
        self.is_copying = is_copying
        self._unsynced_bytes = 0

    def write(self, copied: CopiedCommits) -> Sequence[CommitHeader]:
        """Check commits, write them, and sync them; from a thread that may wait for the disk.

        While the log is being copied, only every COPIED_BYTES_PER_SYNC bytes are synced; `sync` does the rest. While
        commits share syncs, `sync` has to follow.

        Returns their headers, for `complete`.

        Raises:
            CopyRejected: a commit is not what has to come next. Nothing was written.
            OSError: the disk refused. The log takes no more, as after a failed write of its own.
            LogError: it has failed before, or this node is the master by now.
        """
        log = self._log
        if log.failed is not None:
            raise LogError(f"the log has failed: {log.failed}", code="log.failed")
        if not log.is_slave:
            raise LogError("the log takes no copies: this node writes it as the master", code="log.not_slave")
        self._check_segment(copied)
        headers = self._checked(copied)
        self._record_lost(copied)
        sync_each = not self.is_copying and not self.shares_syncs
        log.writer.write_copied(copied.segment_bytes, headers, copied.data, sync_each=sync_each)
        if self.is_copying:
            self._unsynced_bytes += len(copied.data)
            if self._unsynced_bytes >= COPIED_BYTES_PER_SYNC:
                self.sync()
        return headers

    def complete(self, headers: Sequence[CommitHeader]) -> None:
        """Back on the log's thread after `write`: the commits are part of the log."""
        self._log.complete_copied(headers)

    def sync(self) -> None:
        """Sync all that was written; from the thread that writes. Raises OSError: the log takes no more."""
        self._log.writer.sync()
        self._unsynced_bytes = 0

    @property
    def shares_syncs(self) -> bool:
        """Whether commits are written without a sync of each, although the log is not being copied."""
        return self._log.writer.shares_syncs

    def share_syncs(self) -> None:
        """Let commits share syncs from now on; from the thread that writes. Raises OSError: the log takes no more."""
        self._log.writer.share_syncs()

    def sync_each(self) -> None:
        """Sync each commit again. It has to precede a copy, and whatever else writes to the log. Raises as
        `share_syncs`."""
        self._log.writer.sync_each()

    def _record_lost(self, copied: CopiedCommits) -> None:
        """Record the range that is left out before these commits, or that none is lost where they will be."""
        log, begin = self._log, copied.lost_from
        if log.writer.copied_segment is None and begin is not None:
            # An empty log begins with the segment of its first commit.
            begin = copied.segment_base if copied.segment_base < copied.offset else None
        log.stored.lost.forget_from(copied.offset if begin is None else begin)
        if begin is not None:
            try:
                log.stored.lost.add([(begin, copied.offset)], log.begin)
            except LogError as error:
                raise CopyRejected(CopyCheck.LOST, copied.offset, str(error)) from error

    # --- checks ----------------------------------------------------------------------------------------------------

    def _check_segment(self, copied: CopiedCommits) -> None:
        """The segment is the one being written, or begins where that one ends, and the first commit is at its place."""
        if copied.lost_from is not None:
            self._check_lost(copied, copied.lost_from)
            return
        log, base, size, offset = self._log, copied.segment_base, copied.segment_bytes, copied.offset
        if not HEADER_BYTES <= size <= COPIED_SEGMENT_BYTES_MAX:
            raise CopyRejected(
                CopyCheck.SEGMENT, offset, f"a segment of {size} bytes, the limit is {COPIED_SEGMENT_BYTES_MAX}"
            )
        current, end = log.writer.copied_segment, log.writer.end
        if current is None:
            if base != offset or (base > 0 and not self.is_copying):
                raise CopyRejected(CopyCheck.SEGMENT, offset, f"segment {base}, in a log that has no segment yet")
        elif base != current.base and (base != current.end or end == current.base):
            raise CopyRejected(
                CopyCheck.SEGMENT, offset, f"segment {base}, after the one from {current.base} to {current.end}"
            )
        elif size != current.bytes and base == current.base and end > base:
            raise CopyRejected(CopyCheck.SEGMENT, offset, f"a segment of {size} bytes, which has {current.bytes}")
        expected = base if current is None or base != current.base else end
        if offset != expected:
            raise CopyRejected(CopyCheck.OFFSET, offset, f"the next commit is at {expected}")

    def _check_lost(self, copied: CopiedCommits, lost_from: int) -> None:
        """Commits follow on a lost range: it begins where the log ends, and they are of its last segment, or of one behind that."""
        log, base, size, offset = self._log, copied.segment_base, copied.segment_bytes, copied.offset
        if not self.is_copying:
            raise CopyRejected(CopyCheck.LOST, offset, f"it would leave out what is lost from {lost_from} on")
        if not HEADER_BYTES <= size <= COPIED_SEGMENT_BYTES_MAX:
            raise CopyRejected(
                CopyCheck.SEGMENT, offset, f"a segment of {size} bytes, the limit is {COPIED_SEGMENT_BYTES_MAX}"
            )
        current, end = log.writer.copied_segment, log.writer.end
        if current is None:
            return
        if lost_from != end:
            raise CopyRejected(CopyCheck.LOST, offset, f"what is lost begins at {lost_from}, the log ends at {end}")
        if base == current.base:
            if size != current.bytes and end > base:
                raise CopyRejected(CopyCheck.SEGMENT, offset, f"a segment of {size} bytes, which has {current.bytes}")
        elif base < current.end:
            raise CopyRejected(
                CopyCheck.SEGMENT, offset, f"segment {base}, after the one from {current.base} to {current.end}"
            )

    def _checked(self, copied: CopiedCommits) -> list[CommitHeader]:
        """The headers of the commits, which follow on what the log has."""
        writer = self._log.writer
        chain = writer.copied_chain
        if copied.lost_from is not None:
            # The commit before is lost.
            chain = None
        elif chain is None and copied.segment_base == 0:
            # The first commit of all follows nothing.
            chain = 0
        headers = checked_commits(copied, chain, writer.copied_epoch, self._epoch)
        if copied.index_entries and len(headers) > 1:
            why = f"{len(copied.index_entries)} bytes for {len(headers)} commits, only a single one may have any"
            raise CopyRejected(CopyCheck.INDEX_ENTRIES, copied.offset, why)
        return headers


def checked_commits(copied: CopiedCommits, chain: int | None, epoch: int, epoch_max: int) -> list[CommitHeader]:
    """Return the headers of commits of another member, after checking them.

    Args:
        chain: the CRC of the commit that the first one follows; None: it is not known.
        epoch: of that commit; epochs never fall.
        epoch_max: the highest that they may have.

    Raises CopyRejected: one is not whole, does not follow on the one before, or does not fit into the segment; or there is none.
    """
    base, at, data = copied.segment_base, copied.offset, copied.data
    segment_end = base + copied.segment_bytes
    headers: list[CommitHeader] = []
    while place := len(data) - (at - copied.offset):
        header = _header(data[-place:], at, base)
        if header.end > segment_end:
            raise CopyRejected(CopyCheck.SEGMENT, at, f"it ends at {header.end}, its segment at {segment_end}")
        if HEADER_BYTES + header.body_bytes > place:
            raise CopyRejected(CopyCheck.LENGTH, at, f"{place} bytes of {HEADER_BYTES + header.body_bytes} are here")
        begin = at - copied.offset
        _check_whole(header, data[begin : begin + HEADER_BYTES + header.body_bytes])
        if chain is not None and header.previous_crc != chain:
            raise CopyRejected(
                CopyCheck.CHAIN, at, f"it follows a commit with CRC {header.previous_crc}, the one here has {chain}"
            )
        if not epoch <= header.epoch <= epoch_max:
            raise CopyRejected(CopyCheck.EPOCH, at, f"epoch {header.epoch} after {epoch}, in a session of {epoch_max}")
        if header.synced_to > at:
            raise CopyRejected(CopyCheck.SYNCED_TO, at, f"it names {header.synced_to} as synced, behind itself")
        headers.append(header)
        chain, epoch, at = header.crc, header.epoch, header.end
    if not headers:
        raise CopyRejected(CopyCheck.LENGTH, at, "there is no commit")
    return headers


def _header(data: memoryview, at: int, base: int) -> CommitHeader:
    """The header at the beginning of `data`."""
    if len(data) < HEADER_BYTES:
        raise CopyRejected(CopyCheck.LENGTH, at, f"{len(data)} bytes of a header of {HEADER_BYTES} are here")
    header = decode_header(data, at, base)
    if header is not None:
        return header
    if data[: len(MAGIC_BYTES)] != MAGIC_BYTES:
        raise CopyRejected(CopyCheck.MAGIC, at, f"it begins with {bytes(data[: len(MAGIC_BYTES)]).hex()}")
    its_base, its_offset = _PLACE.unpack_from(data)
    if its_base != base:
        raise CopyRejected(CopyCheck.SEGMENT, at, f"it is of segment {its_base}, not of {base}")
    if its_offset != at:
        raise CopyRejected(CopyCheck.OFFSET, at, f"it was written at {its_offset}")
    raise CopyRejected(CopyCheck.HEADER, at, "flags, reserved bytes or the size of its body are not possible")


def _check_whole(header: CommitHeader, data: memoryview) -> None:
    try:
        if is_whole(header, data):
            return
    except LogError as error:
        raise CopyRejected(CopyCheck.FORMAT, header.offset, str(error)) from error
    raise CopyRejected(CopyCheck.CRC, header.offset, "its bytes do not match it")
