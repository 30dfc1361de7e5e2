"""How many messages a transaction may have."""

from collections.abc import Sequence

from qmq.errors import LocalProtocolError
from qmq.outbox.committed import Pending

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
