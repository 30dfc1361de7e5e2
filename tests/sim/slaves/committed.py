"""What a broker group has committed, byte by byte, and how members' disks are compared with it."""

import re
from bisect import bisect_left

from qmq_node.log.record import HEADER_BYTES, decode_header
from qmq_node.log.segment import SegmentInfo
from tests.sim.slaves.member_logs import durable_pieces, log_begin, written
from tests.sim.world.cluster import Host

MARK = re.compile(rb"<([a-z0-9.]+)>")
"""Stands in the body of each message, around its id."""


class CommittedLog:
    """All that any master has committed, also what retention has removed since."""

    def __init__(self) -> None:
        self.committed = bytearray()
        """All bytes below the highest high watermark that any master had, by log offset."""
        self.committed_ids: set[bytes] = set()
        """Ids of the messages in them."""
        self.removed_to = 0
        """Retention of a master has removed what is below this log offset: members need not have it."""
        self.removed_ids: set[str] = set()
        """Ids of the messages in what was removed: they are not lost."""
        self._commits: list[int] = []
        """Log offsets of the commits in `committed`."""
        self._seals: list[int] = []
        """Log offsets of those without records."""
        self._parsed_to = 0

    def has_committed(self, host: Host, begin: int, end: int) -> bool:
        """Whether a member's disk has synced the committed bytes [begin, end), without those that retention has removed.
        Seals may lack: a start writes them again."""
        return self._equals(host, max(begin, self.removed_to), end)

    def is_whole(self, host: Host) -> bool:
        """Whether a member's disk has all that is committed, also what it keeps longer than others."""
        return self._equals(host, min(log_begin(host), self.removed_to), len(self.committed))

    def _equals(self, host: Host, begin: int, end: int) -> bool:
        return all(
            found == self.committed[at : at + len(found)] or self._equals_but_for_seals(at, found)
            for at, found in durable_pieces(host, begin, end)
        )

    def _equals_but_for_seals(self, begin: int, found: bytes) -> bool:
        end = begin + len(found)
        masked, expected = bytearray(found), self.committed[begin:end]
        for at in self._seals:
            first, last = max(begin, at) - begin, min(end, at + HEADER_BYTES) - begin
            if first < last:
                masked[first:last] = expected[first:last]
        return masked == expected

    def _commit(self, new: bytes, segments: list[SegmentInfo]) -> None:
        """Add bytes that a master has committed, which has these segments."""
        self.committed += new
        self.committed_ids.update(MARK.findall(new))
        bases = [info.base for info in segments]
        at = self._parsed_to
        while at + HEADER_BYTES <= len(self.committed):
            base = max(base for base in bases if base <= at)
            header = decode_header(self.committed[at : at + HEADER_BYTES], at, base)
            if header is None:
                # The rest of the segment is unused.
                at = min((base for base in bases if base > at), default=len(self.committed))
                continue
            self._commits.append(at)
            if not header.record_count:
                self._seals.append(at)
            at = header.end
        self._parsed_to = at

    def _lose(self, end: int) -> set[str]:
        """Forget what is committed from a log offset on, because an operator accepted that; ids of the messages."""
        lost = {message_id.decode() for message_id in MARK.findall(self.committed[end:])}
        del self.committed[end:]
        self.committed_ids -= {message_id.encode() for message_id in lost}
        self._commits = [at for at in self._commits if at < end]
        self._seals = [at for at in self._seals if at < end]
        self._parsed_to = min(self._parsed_to, end)
        self.removed_to = min(self.removed_to, end)
        return lost

    def _begin_at(self, begin: int) -> None:
        """What is committed begins here: the log of the member that an operator promoted has removed what is below."""
        if begin > len(self.committed):
            self.committed += bytes(begin - len(self.committed))
            self.removed_to = self._parsed_to = begin

    def _common_end(self, host: Host) -> int:
        """Return up to where a member's log is what is committed. It may end with commits of an older epoch that were not."""
        length, begin = len(self.committed), self.removed_to
        found = self.committed[:begin] + written(host, begin, length)
        if found == self.committed:
            return length
        return self._commits[bisect_left(self._commits, True, key=lambda at: found[:at] != self.committed[:at]) - 1]
