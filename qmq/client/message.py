"""Messages of producers with the properties that the protocol requires."""

from dataclasses import replace

from qmq.client.bodies import Body, encode_body
from qmq.protocol.messages import FLAG_DELAY, KEY_APP, KEY_CREATED, KEY_EXPIRE, KEY_SCHEDULE, Message

CAUSE_CHARS_MAX = 120
"""Longest cause of a retry; the rest of a longer one is left out."""
EXPIRE_AFTER_MS = 15 * 60 * 1000
"""Properties that the official client writes and no program reads."""


def build_message(subject: str, body: Body, tags: tuple[str, ...], message_id: str, app: str, now_ms: int) -> Message:
    """Build a new message with the properties that the protocol requires."""
    properties = {
        KEY_CREATED: str(now_ms),
        KEY_EXPIRE: str(now_ms + EXPIRE_AFTER_MS),
        KEY_APP: app,
        **encode_body(body),
    }
    return Message(subject, message_id, properties, tags, 0, now_ms, now_ms)


def delayed_message(message: Message, due_ms: int) -> Message:
    """The message as one that is due later."""
    properties = {**message.properties, KEY_SCHEDULE: str(due_ms)}
    return replace(message, properties=properties, flag=message.flag | FLAG_DELAY, time_ms=due_ms)


def cause_label(text: str) -> str:
    """A cause as it is stored: one line, at most CAUSE_CHARS_MAX characters, nothing that can't be written as UTF-8."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:CAUSE_CHARS_MAX].rstrip()
