"""Sends copies of stored messages, also to another subject."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

from console.cluster import limits
from console.cluster.asking import ask
from console.cluster.edited_bodies import FORM_KEYS
from console.cluster.entries import note, recorded
from console.cluster.merging import Row
from console.cluster.messages import nodes_of, or_empty, real_subject
from console.cluster.producing import APP, KEY_COPY_OF, KEY_USER, check_can_take, origin_text
from metaserver.errors import ChangeRefused, NotAllowed
from metaserver.services.changes import Actor
from qmq.client.bodies import KEY_DATA
from qmq.client.message import new_message_id, standard_properties
from qmq.client.producer import Producer
from qmq.errors import QmqError
from qmq.node_admin import NodeAdmin
from qmq.protocol.masking import Masks
from qmq.protocol.messages import RESERVED_KEYS, Message, set_large_string
from qmq.protocol.names import VALUE_BYTES_MAX
from qmq.receipt import Receipt
from qmq.words import counted

RESEND_MAX = 100
"""Messages of one request."""
RESEND_BYTES_MAX = 64 << 20
"""Bytes of the messages of one request."""

Place = tuple[str, int]
"""Broker group and sequence."""


@dataclass(frozen=True, slots=True)
class Resent:
    """A message that was to be sent again. `problem` "" if it was; `message_id` None in a dry run, and with a problem."""

    broker_group: str
    sequence: int
    size: int
    message_id: str | None = None
    problem: str = ""


def copy_of(row: Row, origin: str, target: str, message_id: str, *, by: str, now_ms: int) -> Message:
    """The copy of a stored message that is sent: without what the protocol and the console added to the message."""
    own = {
        key: value
        for key, value in row["properties"].items()
        if (key not in RESERVED_KEYS or key in FORM_KEYS) and not key.startswith("qmq_console_")
    }
    if len(own.get(KEY_DATA, "").encode()) > VALUE_BYTES_MAX:
        # Where there are masks, a body that is stored in parts is shown in one piece.
        set_large_string(own, KEY_DATA, own.pop(KEY_DATA))
    properties = {**standard_properties(APP, now_ms), **own, KEY_USER: by, KEY_COPY_OF: origin}
    return Message(target, message_id, properties, tuple(row["tags"]), 0, now_ms, now_ms)


def resend(
    subject: str,
    places: Sequence[Place],
    target: str,
    *,
    masks: Masks,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> list[Resent]:
    """Send copies of stored messages of a subject to subject `target`. Each has property KEY_COPY_OF.

    The audit entry is written first. When a message is not sent, a second entry says so.

    Args:
        masks: what the sender does not see of the messages. A copy contains what the sender sees, because other people may
            read the target: JSON is written again where there are rules with paths.

    Raises:
        NotFound, Conflict: there is no such subject, or the target is archived.
        NotAllowed: the target belongs to another team, or a value of a message is masked.
        ChangeRefused: the target is no real subject, or the messages are too large together.
        ConnectionLost: a broker group can't be reached.
    """
    check_can_take(target)
    real_subject(subject)
    rows = _read(subject, places, masks)
    _check_unmasked(rows.values())
    if masks.body_format is not None:
        _check_undecoded(rows.values(), masks)
        # Copies have the bodies as they are stored, not decoded.
        rows = _read(subject, places, Masks(masks.rules, masks.key))
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    copies: dict[Place, Message] = {}
    results: dict[Place, Resent] = {}
    for place in places:
        row = rows.get(place)
        problem = _problem(row)
        results[place] = Resent(*place, 0 if row is None else row["bytes"], None, problem)
        if row is not None and not problem:
            origin = origin_text(subject, *place)
            copies[place] = copy_of(row, origin, target, new_message_id(), by=actor.name, now_ms=now_ms)
    if not dry_run and copies:
        details = {
            "from": subject,
            "messages": len(copies),
            "copies": [origin_text(subject, *place) for place in copies],
        }
        with recorded(actor, "message.resend", target, reason, details):
            sent = _send(copies)
        for place, receipt in sent.items():
            is_sent = isinstance(receipt, Receipt)
            results[place] = Resent(
                *place,
                results[place].size,
                copies[place].message_id if is_sent else None,
                "" if is_sent else str(receipt),
            )
        failed = [origin_text(subject, *place) for place, receipt in sent.items() if not isinstance(receipt, Receipt)]
        if failed:
            note(actor, "message.resend_failed", target, reason, {"from": subject, "copies": failed})
    return list(results.values())


def _problem(row: Row | None) -> str:
    """Why a message can't be sent again; "" if it can."""
    if row is None:
        return "the message is not stored any more"
    if "properties" not in row:
        return f"the message can't be read: {row.get('reason', '')}"
    texts = (*row["tags"], *row["properties"], *row["properties"].values())
    if any("\N{REPLACEMENT CHARACTER}" in text for text in texts):
        return "it contains characters that are not valid UTF-8, so a copy would differ"
    return ""


def _check_unmasked(rows: Iterable[Row]) -> None:
    """Raises NotAllowed if a value is masked."""
    masked = [row for row in rows if row.get("masked")]
    if masked:
        values = ", ".join(sorted({mark["property"] for row in masked for mark in row["masked"]}))
        what = f"values of {counted(len(masked), 'message')} are masked for you ({values[:200]})"
        raise NotAllowed(
            f"The messages can't be sent again: {what}. Ask a user whose role sees them.", code="message.masked"
        )


def _check_undecoded(rows: Iterable[Row], masks: Masks) -> None:
    """Raises NotAllowed for decoded bodies where rules have paths: what they do not find may be in the bytes all the same."""
    has_paths = any(rule.json_paths for rule in masks.rules)
    if has_paths and any((row.get("decoding") or {"problem": ""})["problem"] is None for row in rows):
        raise NotAllowed(
            "The messages can't be sent again: values of their bodies are masked for you by their paths, and a copy would contain"
            " the bytes. Ask a user whose role sees them.",
            code="message.masked",
        )


def _read(subject: str, places: Sequence[Place], masks: Masks) -> dict[Place, Row]:
    """The stored messages at these places."""
    nodes = nodes_of(subject)
    admins: Mapping[str, NodeAdmin] = {group: nodes.one(group) for group in {group for group, _ in places}}

    async def read() -> dict[Place, Row]:
        found: dict[Place, Row] = {}
        size = 0
        for group, sequence in places:
            page = await or_empty(admins[group].messages(subject, sequence=sequence, limit=1, masks=masks))
            for row in page["messages"]:
                if row["sequence"] == sequence:
                    found[group, sequence] = row
                    size += row["bytes"]
            if size > RESEND_BYTES_MAX:
                what = f"have more than {RESEND_BYTES_MAX >> 20} MiB together; select fewer"
                raise ChangeRefused(f"The messages {what}.", code="message.invalid", fields={"messages": what})
        return found

    return ask(read)


def _send(copies: Mapping[Place, Message]) -> dict[Place, Receipt | QmqError]:
    async def send_all() -> list[Receipt | BaseException]:
        async with Producer(settings.META_URL, app=APP, timeouts=limits.SEND_TIMEOUTS) as producer:
            return await asyncio.gather(
                *(producer.send_message(copy) for copy in copies.values()), return_exceptions=True
            )

    results: dict[Place, Receipt | QmqError] = {}
    for place, result in zip(copies, ask(send_all), strict=True):
        if not isinstance(result, Receipt | QmqError):
            raise result
        results[place] = result
    return results
