"""What one INSERT contains, and how many messages a transaction may have."""

from collections.abc import Iterator, Sequence

from qmq.errors import LocalProtocolError
from qmq.outbox.committed import Pending

INSERT_ROWS_MAX = 500
"""Rows of one INSERT; SQLite before 3.32 accepts 999 values."""
INSERT_BYTES_MAX = 1 << 20
"""Contents of one INSERT, unless a single one is larger: far below each server's limit of a packet."""
TRANSACTION_MESSAGES_MAX = 100_000
TRANSACTION_BYTES_MAX = 256 << 20
"""Of contents. Messages are in memory until the commit."""


class Room:
    """Counts the messages of one transaction."""

    def __init__(self) -> None:
        self._messages = 0
        self._bytes = 0

    def take(self, pending: Sequence[Pending]) -> None:
        """Raise LocalProtocolError if these don't fit, and count them otherwise."""
        messages, size = self._messages + len(pending), self._bytes + sum(len(each.content) for each in pending)
        if messages > TRANSACTION_MESSAGES_MAX or size > TRANSACTION_BYTES_MAX:
            raise LocalProtocolError(
                f"this transaction would have {messages} messages of {size} bytes, the limits are {TRANSACTION_MESSAGES_MAX} and"
                f" {TRANSACTION_BYTES_MAX}: commit in between"
            )
        self._messages, self._bytes = messages, size


def insertions(pending: Sequence[Pending]) -> Iterator[Sequence[Pending]]:
    """Split messages into those of one INSERT each."""
    begin, size = 0, 0
    for at, each in enumerate(pending):
        size += len(each.content)
        if at > begin and (at - begin >= INSERT_ROWS_MAX or size > INSERT_BYTES_MAX):
            yield pending[begin:at]
            begin, size = at, len(each.content)
    if pending:
        yield pending[begin:]
