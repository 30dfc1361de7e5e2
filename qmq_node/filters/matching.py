"""Which of some messages match a filter: work for the process of filters, or for a thread."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import ProtocolError
from qmq.protocol.masking import NO_MASKS, Masks
from qmq.protocol.raw import RawView
from qmq_node.filters.content import Content
from qmq_node.filters.language import Filter, TooCostly, compile_filter
from qmq_node.log.disk import Disk


@dataclass(frozen=True, slots=True)
class Matching:
    """Raw messages, and what is looked for in them as `masks` show them."""

    text: str
    """The filter; "": every message."""
    match: Mapping[str, str]
    """Properties and their values."""
    now_ms: int
    messages: list[tuple[bytes, int]]
    """Each with its time in milliseconds."""
    seconds: float
    """After this time no further message is compared."""
    masks: Masks = field(default=NO_MASKS)

    @property
    def what(self) -> str:
        """How many messages there are."""
        return f"{len(self.messages)} messages"

    def run(self, disk: Disk, clock: Clock) -> list[bool]:
        """Return whether each message matches, of the first ones if there was no time for all; of one at least. Raises FilterError.

        A message for which the filter takes more than it may does not match.
        """
        del disk
        until = clock.monotonic() + self.seconds
        wanted = compile_filter(self.text, self.now_ms)
        found: list[bool] = []
        for number, (raw, time_ms) in enumerate(self.messages):
            if found and clock.monotonic() >= until:
                break
            found.append(self._is_match(wanted, number, raw, time_ms))
        return found

    def _is_match(self, wanted: Filter, number: int, raw: bytes, time_ms: int) -> bool:
        try:
            content = Content(number, RawView(raw), len(raw), time_ms, self.masks)
            if not all(content.properties.get(key) == value for key, value in self.match.items()):
                return False
            return wanted.matches(content)
        except (TooCostly, ProtocolError):
            return False
