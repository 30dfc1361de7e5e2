"""The proof that a message is stored: class Receipt."""

from typing import NamedTuple


class Receipt(NamedTuple):
    """The proof that a message is stored on disk: by which broker group, after how many attempts."""

    message_id: str
    subject: str
    broker_group: str
    attempts: int
