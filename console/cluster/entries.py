"""Audit entries of requests to nodes. There is no transaction over database and nodes, so the entry is written first."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from metaserver.services import audit, subjects
from metaserver.services.changes import Actor
from qmq.errors import QmqError


def note_reading(actor: Actor, target: str, what: Mapping[str, Any]) -> None:
    """Write the audit entry of a request, or of a live tail, that was shown what messages say."""
    with transaction.atomic():
        audit.record(actor=actor, action="message.read", target=target, after=dict(what))


def begin(actor: Actor, action: str, subject: str, reason: str, after: Mapping[str, Any]) -> None:
    """Write the audit entry of a change on nodes before any node is contacted, if the actor may change the subject.

    Raises:
        NotFound: there is no such subject.
        NotAllowed: it belongs to another team.
    """
    with transaction.atomic():
        subjects.authorize(subject, actor)
        audit.record(actor=actor, action=action, target=subject, reason=reason, after=dict(after))


@contextmanager
def recorded(actor: Actor, action: str, subject: str, reason: str, after: Mapping[str, Any]) -> Iterator[None]:
    """`begin`, and a second entry `<action>_failed` when what is done then fails.

    Raises:
        as `begin`.
    """
    begin(actor, action, subject, reason, after)
    try:
        yield
    except QmqError as error:
        note(actor, f"{action}_failed", subject, reason, {**after, "error": str(error)[:500]})
        raise


def note(actor: Actor, action: str, target: str, reason: str, after: Mapping[str, Any]) -> None:
    """Write the audit entry of how a change on nodes ended, in a transaction of its own."""
    with transaction.atomic():
        audit.record(actor=actor, action=action, target=target, reason=reason, after=dict(after))
