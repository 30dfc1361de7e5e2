"""The masking rules that nodes apply to messages for a reader."""

from collections.abc import Collection

from django.utils.crypto import salted_hmac

from metaserver import queries
from qmq.formats import FORMAT_JSON, BodyFormat
from qmq.protocol.masking import Masks
from qmq.protocol.masking.rules import How, Rule
from qmq.protocol.names import real_subject

ALL = Masks((Rule(("*",), (), How.HIDE),))
"""For readers without the right to read messages: every property but those of the protocol."""


def masks_of(subject: str, role: str) -> Masks:
    """Return the rules that apply to messages of a subject for a reader in this role; ALL if there is no such subject."""
    return masks_of_each((subject,), role).get(subject, ALL)


def masks_of_each(subjects: Collection[str], role: str) -> dict[str, Masks]:
    """Return `masks_of` for each of these subjects that exists."""
    found = queries.display_of(subjects)
    return {name: masks_from(name, display, role) for name, display in found.items()}


def masks_from(subject: str, display: queries.Display, role: str) -> Masks:
    """Return those of the rules of a subject that apply to a role, with the format of its bodies."""
    applied = [rule for rule in display.masking if role not in rule["roles"]]
    # Retry and dead-letter subjects show a value with the hash that it has in their subject.
    return Masks.of(applied, _key(real_subject(subject)) if applied else b"", _body_format(display))


def body_format_of(subject: str) -> BodyFormat | None:
    """Return the format of the bodies of a subject; None: they are JSON or text."""
    display = queries.display_of((subject,)).get(subject)
    return None if display is None else _body_format(display)


def _body_format(display: queries.Display) -> BodyFormat | None:
    is_json = display.body_format == FORMAT_JSON
    return None if is_json else BodyFormat(display.body_format, display.body_schema)


def _key(subject: str) -> bytes:
    return salted_hmac("qmq.masking", subject, algorithm="sha256").digest()
