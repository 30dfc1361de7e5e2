"""Messages as queries and changes find them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from delay_node.records import State, hour_of, number_of
from delay_node.schedule_log import Entry
from qmq.protocol.bulk_read import SCHEDULE_STATES
from qmq.protocol.delayed import DelayedItem
from qmq.protocol.scan import CRC_BYTES

WORDS = {state: SCHEDULE_STATES[state] for state in State}


@dataclass(frozen=True, slots=True)
class Found:
    """A scheduled message with its state when it was read; `data` is its whole entry."""

    ref: int
    due_ms: int
    state: State
    data: bytes

    def item(self) -> DelayedItem:
        """Return it as answers contain it."""
        return DelayedItem(self.due_ms, WORDS[self.state], self.data[CRC_BYTES:])

    @property
    def cursor(self) -> str:
        """The cursor with which a list continues behind it."""
        return f"{self.due_ms}:{number_of(self.ref)}"


R = TypeVar("R", Entry, Found)


def by_hour(items: Iterable[R]) -> dict[int, list[R]]:
    """Group messages by hour, earliest first."""
    found: dict[int, list[R]] = {}
    for item in sorted(items, key=lambda item: item.ref):
        found.setdefault(hour_of(item.ref), []).append(item)
    return found
