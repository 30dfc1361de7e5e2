"""Sends a message that a user wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.conf import settings

from console.cluster import limits
from console.cluster.asking import ask
from console.cluster.edited_bodies import as_stored
from console.cluster.entries import recorded
from console.cluster.masking import body_format_of
from console.cluster.messages import read_one, real_subject
from metaserver import queries
from metaserver.errors import ChangeRefused, Conflict
from metaserver.services.changes import Actor
from qmq.client.bodies import KEY_DATA, EncodedBody, encode_body
from qmq.client.delayed import DelayedReceipt
from qmq.client.message import build_message, delayed_message, due_ms_of, new_message_id
from qmq.client.producer import Producer
from qmq.protocol.masking import NO_MASKS
from qmq.protocol.messages import encode_entry, set_large_string
from qmq.protocol.values import moment
from qmq.receipt import Receipt

APP = "qmq-console"
KEY_USER = "qmq_console_user"
"""The property that says who produced a message from the console."""
KEY_COPY_OF = "qmq_console_copy_of"
"""The property that says of which stored message a message is a copy, edited or not: `origin_text`."""
Origin = tuple[str, str, int]
"""Subject, broker group and sequence of a stored message."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was stored; `broker_group` "" for a dry run, whose `due_at` is by this machine's clock."""

    message_id: str
    subject: str
    broker_group: str
    attempts: int
    due_at: datetime | None


def produce(
    subject: str,
    properties: Mapping[str, str],
    *,
    tags: Sequence[str] = (),
    delay: timedelta | None = None,
    due: datetime | None = None,
    origin: Origin | None = None,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> Sent:
    """Send one message to a subject that is there, with the sender's name in property KEY_USER.

    Args:
        origin: the stored message that was edited: the copy names it in KEY_COPY_OF, and its body has the same form.

    The audit entry is written first: a message without one can't be. When sending fails, a second entry says so.

    Raises:
        NotFound, Conflict: there is no such subject, or it is archived; there is no such origin.
        NotAllowed: it belongs to another team.
        ChangeRefused, LocalProtocolError: the message can't be carried.
        ConnectionLost: the broker group of the origin can't be reached.
        SendFailed: it was not stored, or that is unknown.
    """
    check_can_take(subject)
    for key in {KEY_USER, KEY_COPY_OF} & properties.keys():
        text = f"property {key} is set by the console"
        raise ChangeRefused(text, code="message.invalid", fields={"properties": text})
    message_id = new_message_id()
    body: Mapping[str, str] | EncodedBody = {**in_parts(properties), KEY_USER: actor.name}
    if origin is not None:
        own, form = as_stored(properties, read_one(*origin, masks=NO_MASKS), body_format_of(origin[0]))
        body = EncodedBody({**encode_body(own), **form, KEY_USER: actor.name, KEY_COPY_OF: origin_text(*origin)})
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    message = build_message(subject, body, tuple(tags), message_id, APP, now_ms)
    due_ms = None if delay is None and due is None else due_ms_of(delay, due)
    encode_entry(message if due_ms is None else delayed_message(message, due_ms))
    due_at = None if due_ms is None else moment(due_ms)
    if dry_run:
        return Sent(message_id, subject, "", 0, due_at)
    details: dict[str, object] = {"message_id": message_id, "properties": sorted(properties), "tags": list(tags)}
    if origin is not None:
        details["copy_of"] = origin_text(*origin)
    if delay is not None:
        details["delay_seconds"] = f"{delay.total_seconds():g}"
    elif due_at is not None:
        details["due_at"] = due_at.isoformat()

    async def send() -> Receipt | DelayedReceipt:
        async with Producer(settings.META_URL, app=APP, timeouts=limits.SEND_TIMEOUTS) as producer:
            return await producer.send(subject, body, delay=delay, due=due, tags=tags, message_id=message_id)

    with recorded(actor, "message.send", subject, reason, details):
        receipt = ask(send)
    if isinstance(receipt, DelayedReceipt):
        due_at = receipt.due_at
    return Sent(receipt.message_id, subject, receipt.broker_group, receipt.attempts, due_at)


def in_parts(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties whose body is in several of them, as clients do it, where it is too long for one."""
    found = {key: value for key, value in properties.items() if key != KEY_DATA}
    if KEY_DATA in properties:
        set_large_string(found, KEY_DATA, properties[KEY_DATA])
    return found


def origin_text(subject: str, broker_group: str, sequence: int) -> str:
    """The place of a stored message as a copy of it names it."""
    return f"{subject}/{broker_group}/{sequence}"


def check_can_take(subject: str) -> None:
    """Raises NotFound, Conflict or ChangeRefused for a subject that takes no messages from users."""
    check_real(subject)
    check_not_archived(subject)


def check_real(subject: str) -> None:
    """Raises NotFound for an unknown subject, ChangeRefused for a retry or dead-letter subject."""
    if real_subject(subject).kind != "real":
        raise ChangeRefused(
            f"Subject {subject} accepts messages from consumers and replays only.", code="subject.not_real",
            fields={"subject": "a retry or dead-letter subject"},
        )  # fmt: skip


def check_not_archived(subject: str) -> None:
    """Raises Conflict for an archived subject: nodes refuse its messages."""
    if queries.is_archived(subject):
        raise Conflict(
            f"Subject {subject} is archived and accepts no messages. Restore it first.", code="subject.archived"
        )
