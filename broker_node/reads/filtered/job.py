"""What a step of a search with a filter is to do, and what it found. Without NumPy, which only the process of a step loads."""

from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.protocol.masking import Masks
from qmq_node.log.disk import Disk
from qmq_node.log.index import IndexCopy


@dataclass(frozen=True, slots=True)
class Job:
    """What a step is to do."""

    log_folder: str
    index: IndexCopy
    text: str
    """The filter."""
    now_ms: int
    begin: int
    end: int
    newest_first: bool
    limit: int
    bytes_max: int
    """Of the messages found; there is at least one, whatever its size."""
    seconds: float
    """A step ends after this time, at the next message or block of messages."""
    masks: Masks
    """Applied before the filter is evaluated. Found messages are returned as they are stored."""

    @property
    def what(self) -> str:
        """The messages that are searched."""
        return f"sequences {self.begin} to {self.end - 1}"

    def run(self, disk: Disk, clock: Clock) -> "Result":
        """Do the step. Raises LogError, OSError when files are gone or can't be opened."""
        from broker_node.reads.filtered.step import run

        return run(disk, clock, self)


@dataclass(slots=True)
class Result:
    """What a step found."""

    reached: int
    """Where the next step begins; against the order of the log, the sequence behind its last."""
    found: list[tuple[int, bytes, bytes]] = field(default_factory=list)
    """Sequence, index entry and bytes of each message, in the order of the search."""
    unreadable: list[int] = field(default_factory=list)
    """Sequences whose index entries or messages fail their checks."""
    costly: int = 0
    """Messages for which the filter takes more than it may: whether they match is unknown."""
    found_bytes: int = 0
