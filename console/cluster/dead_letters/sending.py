"""Sends copies of dead letters and stores the results."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

from django.conf import settings
from django.db import transaction

from console.cluster import limits
from console.cluster.asking import ask
from console.cluster.dead_letters.claims import Claimed, save
from console.cluster.dead_letters.orders import SYSTEM_PREFIX, Edit, Order, Progress
from console.cluster.edited_bodies import FORM_KEYS
from console.cluster.merging import Row
from console.cluster.producing import APP, KEY_USER
from console.models import DeadLetterDecision
from metaserver.errors import ChangeRefused
from qmq.client.producer import Producer
from qmq.errors import LocalProtocolError, QmqError, SendFailed
from qmq.protocol.messages import (
    KEY_ATTEMPT,
    KEY_CREATED,
    KEY_GROUP,
    KEY_MAX_RETRY,
    KEY_PULL_OFFSET,
    KEY_RETRY_CAUSE,
    Message,
    encode_entry,
)
from qmq.protocol.names import retry_subject
from qmq.receipt import Receipt

KEY_REPLAY_OF = "qmq_console_replay_of"
"""The property of a replay that names the dead letter's message id."""

State = DeadLetterDecision.State


def check_edit(edit: Edit) -> None:
    """Raises ChangeRefused for properties that clients and nodes write."""
    for name in edit.properties:
        if name.startswith(SYSTEM_PREFIX):
            text = f"property {name[:100]} is written by clients and nodes, and can't be edited"
            raise ChangeRefused(text, code="message.invalid", fields={"properties": text})


def check_copies(order: Order, dead_letters: Sequence[Row], progress: Progress) -> list[Row]:
    """Those whose copies could be sent; of the others `progress` has the reason."""
    if order.action != "replay":
        return list(dead_letters)
    fine = []
    for dead_letter in dead_letters:
        try:
            _check(order, dead_letter)
            encode_entry(copy_of(order, dead_letter, "replay", now_ms=0))
        except LocalProtocolError as error:
            progress.fail(dead_letter["broker_group"], dead_letter["sequence"], str(error))
        else:
            fine.append(dead_letter)
    return fine


def copy_of(order: Order, dead_letter: Row, message_id: str, *, now_ms: int) -> Message:
    """The copy that is sent: without what retries left, with who replays it and which message it was at first.

    For the group's retry subject it names the group, as a retry does, and keeps the number of attempts it may have. For
    a subject it names neither: other groups have their own.
    """
    to_group = order.to == "group"
    dropped = {KEY_ATTEMPT, KEY_PULL_OFFSET, KEY_GROUP, KEY_RETRY_CAUSE} | (set() if to_group else {KEY_MAX_RETRY})
    properties = {key: value for key, value in dead_letter["properties"].items() if key not in dropped}
    tags = tuple(dead_letter["tags"])
    if order.edit is not None:
        system = {
            key: value for key, value in properties.items() if key.startswith(SYSTEM_PREFIX) and key not in FORM_KEYS
        }
        properties, tags = {**system, **order.edit.form, **order.edit.properties}, tuple(order.edit.tags)
    properties.setdefault(KEY_REPLAY_OF, dead_letter["message_id"])
    properties |= {KEY_CREATED: str(now_ms), KEY_USER: order.actor.name}
    target = order.other_subject or order.subject
    if to_group:
        properties[KEY_GROUP] = order.group
        target = retry_subject(order.subject, order.group)
    return Message(target, message_id, properties, tags, 0, now_ms, now_ms)


def _is_damaged(dead_letter: Row) -> bool:
    """Whether text of it was no UTF-8 when it was read: a copy would not say the same."""
    texts = (*dead_letter["tags"], *dead_letter["properties"], *dead_letter["properties"].values())
    return any("\N{REPLACEMENT CHARACTER}" in text for text in texts)


def send(order: Order, claimed: Sequence[Claimed], progress: Progress) -> None:
    """Send the copies and store the results."""
    now_ms = int(datetime.now(UTC).timestamp() * 1000)

    async def send_all() -> list[Receipt | BaseException]:
        async with Producer(settings.META_URL, app=APP, timeouts=limits.SEND_TIMEOUTS) as producer:
            return await asyncio.gather(
                *(_send_one(producer, order, item, now_ms) for item in claimed),
                return_exceptions=True,
            )

    try:
        results = ask(send_all)
    except QmqError as error:
        results = [error] * len(claimed)
    _record_results(claimed, results, progress)


async def _send_one(producer: Producer, order: Order, item: Claimed, now_ms: int) -> Receipt:
    _check(order, item.dead_letter)
    return await producer.send_message(copy_of(order, item.dead_letter, item.decision.replay_id, now_ms=now_ms))


def _check(order: Order, dead_letter: Row) -> None:
    if not order.force and order.edit is None and _is_damaged(dead_letter):
        raise LocalProtocolError(
            "it contains characters that are not valid UTF-8, so a copy may differ; use force to replay it anyway"
        )


def is_refused(error: BaseException) -> bool:
    """Whether a message is surely not stored; otherwise that is unknown."""
    return isinstance(error, LocalProtocolError) or (
        isinstance(error, SendFailed) and error.code == "client.message_refused"
    )


def _record_results(claimed: Sequence[Claimed], results: Sequence[Receipt | BaseException], progress: Progress) -> None:
    recorded, undone = [], []
    for item, result in zip(claimed, results, strict=True):
        if isinstance(result, Receipt):
            progress.done += 1
            item.decision.state = State.REPLAYED
            item.decision.replays += 1
            recorded.append(item.decision)
        elif is_refused(result):
            progress.fail(item.decision.broker_group, item.decision.sequence, str(result))
            undone.append(item)
        elif isinstance(result, QmqError):
            progress.unknown += 1
            progress.stopped = str(result)
            item.decision.state = State.UNKNOWN
            recorded.append(item.decision)
        else:
            # A bug in this code: the claims stay as they are and expire by themselves.
            raise result
    with transaction.atomic():
        for item in undone:
            if item.before is None:
                item.decision.delete()
            else:
                for name, value in item.before.items():
                    setattr(item.decision, name, value)
                recorded.append(item.decision)
        save(recorded, "replays")
