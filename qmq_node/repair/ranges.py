"""class DamagedRange: what is damaged on the disk of a member, and what each kind of file does to have it repaired."""

from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Protocol

from qmq.errors import LogError
from qmq.protocol.replication import LOG_FILE, ReadRangeRequest, ReadRangeResponse


@dataclass(frozen=True, slots=True, order=True)
class DamagedRange:
    """A range of the log or of another file of the state that fails its checks, or that the disk can't read."""

    file: str
    """"log", or a name as READ_COPY has it: `schedule/2026112913.data`."""
    since: int
    """0 for the log, else the log offset of the hour's first record: names are used again."""
    begin: int
    end: int
    """Log offsets [begin, end), or bytes of the file."""
    why: str

    @property
    def is_log(self) -> bool:
        """Whether it is of the log."""
        return self.file == LOG_FILE

    @property
    def place(self) -> tuple[str, int, int, int]:
        """What identifies it: all but the reason."""
        return self.file, self.since, self.begin, self.end

    def __str__(self) -> str:
        what = "log offsets" if self.is_log else f"bytes of {self.file}"
        return f"{what} {self.begin} to {self.end} ({self.why})"


@dataclass(frozen=True, slots=True)
class WantedRange:
    """What a repair needs next from another member; as `ReadRangeRequest` has it."""

    file: str
    since: int
    begin: int
    end: int
    crc: int = 0


class RepairRejected(LogError):
    """What another member sent can't take the place of the damaged range; none of it was written."""

    code = "repair.rejected"


class RepairableFiles(Protocol):
    """The log, or the hour files of a delay node."""

    def damaged(self) -> Iterable[DamagedRange]:
        """Return what is known to be damaged and still kept; on the event loop. `Repairs` requests it once a second."""

    def add(self, damaged: DamagedRange) -> None:
        """Add a range to what is known to be damaged, unless it is; on the event loop."""

    def read(self, request: ReadRangeRequest) -> ReadRangeResponse:
        """Return the first bytes of a range for another member, checked; from any thread that may wait for the disk.

        `Serving` has checked who requests it. Raises ReadRefused: with a code of READ_RANGE.
        """

    def repair(self, damaged: DamagedRange) -> Generator[WantedRange, ReadRangeResponse, None]:
        """Repair a range in place; each step in a thread that may wait for the disk.

        Yields what it needs next, and is sent what another member has answered, which it checks before it writes. When it ends, all
        of the range is whole and durable. A generator that is closed, or ends with an error, may have repaired a part: the next one
        begins behind that. So a crash at any point leaves the same or fewer bytes damaged, and the repair is repeated.

        Raises:
            RepairRejected: the answer fails a check. The next member may have a better one.
            OSError: the disk refused. The range stays damaged.
        """

    async def repaired(self, damaged: DamagedRange) -> None:
        """Take a range off what is known to be damaged, and correct what was derived from it; on the event loop."""
