"""Which of some messages match a filter: work for the process of filters."""

from dataclasses import dataclass

from qmq.clock import Clock
from qmq.errors import ProtocolError
from qmq.protocol.raw import RawView
from qmq_node.filters.content import Content
from qmq_node.filters.language import TooCostly, compile_filter
from qmq_node.log.disk import Disk


@dataclass(frozen=True, slots=True)
class Matching:
    """Raw messages and a filter."""

    text: str
    now_ms: int
    messages: list[tuple[bytes, int]]
    """Each with its time in milliseconds."""

    @property
    def what(self) -> str:
        """How many messages there are."""
        return f"{len(self.messages)} messages"

    def run(self, disk: Disk, clock: Clock) -> list[bool]:
        """Return whether each message matches; one for which the filter takes more than it may does not. Raises FilterError."""
        del disk, clock
        wanted = compile_filter(self.text, self.now_ms)
        found = []
        for number, (raw, time_ms) in enumerate(self.messages):
            try:
                found.append(wanted.matches(Content(number, RawView(raw), len(raw), time_ms)))
            except (TooCostly, ProtocolError):
                found.append(False)
        return found
