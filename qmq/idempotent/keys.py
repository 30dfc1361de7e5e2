"""The key under which a processed delivery is marked. Pure."""

from collections.abc import Callable
from typing import Any, Protocol

from qmq.errors import KeyInvalid

KEY_BYTES_MAX = 400
"""Longest marker key: the width of the column. Subject, group and message ID of 100 ASCII characters each need 302."""


class Keyed(Protocol):
    """What a key is made of: a `qmq.Delivery` or a `qmq.sync.Delivery`."""

    @property
    def subject(self) -> str: ...

    @property
    def group(self) -> str: ...

    @property
    def message_id(self) -> str: ...

    @property
    def properties(self) -> dict[str, str]: ...


Key = str | Callable[[Any], str] | None
"""None: the message ID. A text: the property of that name. A function: what it returns for the delivery."""


def marker_key(delivery: Keyed, key: Key = None) -> bytes:
    """Return `subject%group%key` of a delivery in UTF-8, the same for all attempts and copies of a message.

    Names may contain '%' and never '/', so a '%' of subject or group is written as '/': different deliveries have different keys.

    Raises KeyInvalid: the key is missing, empty, no text, or the whole is longer than KEY_BYTES_MAX.
    """
    value = _value(delivery, key)
    if not isinstance(value, str):
        raise KeyInvalid(
            f"the key of message {delivery.message_id!r} is a {type(value).__name__}; the function given as `key` must return a"
            " str",
            code="idempotent.key_type",
        )
    if not value:
        raise KeyInvalid(
            f"the key of message {delivery.message_id!r} is empty; use a property or function whose value identifies the message",
            code="idempotent.key_empty",
        )
    found = "%".join((delivery.subject.replace("%", "/"), delivery.group.replace("%", "/"), value))
    data = found.encode("utf-8", "surrogatepass")
    if len(data) > KEY_BYTES_MAX:
        raise KeyInvalid(
            f"the key of message {delivery.message_id!r} has {len(data)} bytes with its subject and group, the limit is"
            f" {KEY_BYTES_MAX}; use a shorter key, such as a hash of it",
            code="idempotent.key_too_long",
        )
    return data


def _value(delivery: Keyed, key: Key) -> object:
    if key is None:
        return delivery.message_id
    if not isinstance(key, str):
        return key(delivery)
    value = delivery.properties.get(key)
    if value is None:
        raise KeyInvalid(
            f"message {delivery.message_id!r} has no property {key!r}, which is its key; its producer must set it",
            code="idempotent.key_missing",
        )
    return value
