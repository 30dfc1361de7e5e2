"""What operators do with rows of a registered database: resend and discard them.

There is no transaction over both databases, so the audit entry is written first, and a second one with what was done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Unpack

from django.db import transaction

from console.outbox.models import OutboxDatabase
from console.outbox.rows import opened
from console.outbox.services.databases import OUTBOX_DATABASE, one
from metaserver.errors import Conflict
from metaserver.services import audit
from metaserver.services.changes import Actor, VersionedRequest, check_version
from qmq.errors import QmqError
from qmq.outbox.databases import Connection
from qmq.outbox.dialects import PENDING_COUNTED_MAX, Statements
from qmq.outbox.rows import Status

IDS_MAX = 1_000
"""Rows that one request may name."""
CHANGED_MAX = 10_000
"""Rows that one request changes when it names a status; the answer says how many are left."""
STATEMENT_ROWS = 500
"""Rows changed by one statement: none takes long or holds many locks."""


class RowAction(StrEnum):
    """What is done with rows."""

    RESEND = "resend"
    """The next pass of the relay sends them as if they were new."""
    DISCARD = "discard"
    """They are deleted, and their messages are never sent."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Rows of a database: those with these IDs, or all with one of the statuses."""

    ids: Sequence[int] | None
    statuses: Sequence[Status]
    """Rows with another status are left alone."""
    expected: int | None = None
    """Of all: as many as this may match."""


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """What a request came to, or in a dry run would."""

    matched: int
    """Rows of the selection that the action applies to, counted up to PENDING_COUNTED_MAX."""
    is_exact: bool
    done: int
    left: int
    """Rows that a further request changes."""
    not_found: int
    """IDs without such a row."""


def change_rows(
    database: str, action: RowAction, selection: Selection, **request: Unpack[VersionedRequest]
) -> RowsChanged:
    """Resend or discard rows; a pending row that never failed is left to its program and the relay.

    A failure in between leaves what was done before; repeating the request does the rest.

    Raises:
        NotFound: there is no such database.
        NotAllowed: it belongs to a team that the actor is not in.
        Stale: it was changed since it was read, so IDs may mean other rows.
        Conflict: more rows match than `expected`; nothing was changed.
        QmqError: the database can't be used.
    """
    row = one(OutboxDatabase.objects.all(), database)
    actor = request["actor"]
    actor.require_owner(OUTBOX_DATABASE.about(row), row.owner)
    check_version(OUTBOX_DATABASE.about(row), row.version, request.get("expected_version"))
    if request.get("dry_run"):
        with opened(row) as (connection, statements):
            return _foreseen(connection, statements, selection)
    reason = request.get("reason", "")
    what = {
        "ids": None if selection.ids is None else len(selection.ids),
        "first_ids": None if selection.ids is None else [str(each) for each in selection.ids[:20]],
        "statuses": [status.name.lower() for status in selection.statuses],
        "expected": selection.expected,
    }
    _note(actor, row, str(action), reason, what)
    try:
        with opened(row) as (connection, statements):
            done = _change(connection, statements, action, selection)
    except QmqError as error:
        _note(actor, row, f"{action}_failed", reason, {**what, "error": str(error)[:500]})
        raise
    _note(actor, row, f"{action}_done", reason, {"done": done.done, "left": done.left, "not_found": done.not_found})
    return done


def _note(actor: Actor, row: OutboxDatabase, action: str, reason: str, after: dict[str, Any]) -> None:
    with transaction.atomic():
        target = OUTBOX_DATABASE.about(row)
        audit.record(actor=actor, action=f"outbox_row.{action}", target=target, reason=reason, after=after)


def _matched(connection: Connection, statements: Statements, selection: Selection) -> int:
    if selection.ids is not None:
        ((count,),) = connection.rows(statements.chosen(selection.ids, selection.statuses))
    else:
        ((count,),) = connection.rows(statements.count_changeable(selection.statuses), (PENDING_COUNTED_MAX + 1,))
    return int(count)


def _foreseen(connection: Connection, statements: Statements, selection: Selection) -> RowsChanged:
    matched = _matched(connection, statements, selection)
    is_exact, most = matched <= PENDING_COUNTED_MAX, IDS_MAX if selection.ids is not None else CHANGED_MAX
    shown = min(matched, PENDING_COUNTED_MAX)
    not_found = 0 if selection.ids is None else len(selection.ids) - matched
    return RowsChanged(shown, is_exact, min(shown, most), max(0, shown - most), not_found)


def _change(connection: Connection, statements: Statements, action: RowAction, selection: Selection) -> RowsChanged:
    change = statements.resend if action is RowAction.RESEND else statements.discard
    if selection.ids is not None:
        ids, done = list(selection.ids), 0
        for begin in range(0, len(ids), STATEMENT_ROWS):
            done += connection.change(change(ids[begin : begin + STATEMENT_ROWS], selection.statuses))
        return RowsChanged(done, True, done, 0, len(ids) - done)
    matched = _matched(connection, statements, selection)
    if selection.expected is not None and min(matched, PENDING_COUNTED_MAX) > selection.expected:
        raise Conflict(
            f"{min(matched, PENDING_COUNTED_MAX)} rows match, more than the {selection.expected} of the dry run. Nothing was"
            " changed. Repeat the dry run.",
            code="outbox_row.count_differs",
        )
    done, after = 0, 0
    while done < CHANGED_MAX:
        found = connection.rows(statements.changeable(selection.statuses), (after, STATEMENT_ROWS))
        if not found:
            break
        ids = [int(values[0]) for values in found]
        done, after = done + connection.change(change(ids, selection.statuses)), ids[-1]
    left = 0 if done < CHANGED_MAX else _matched(connection, statements, selection)
    return RowsChanged(
        min(matched, PENDING_COUNTED_MAX), matched <= PENDING_COUNTED_MAX, done, min(left, PENDING_COUNTED_MAX), 0
    )
