"""Replays and deletes dead letters, a batch at a time."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from django.db import IntegrityError, transaction

from console.cluster import limits
from console.cluster.asking import Nodes, ask, broker, brokers
from console.cluster.dead_letters.claims import choose, claim
from console.cluster.dead_letters.orders import Edit, Order, Progress, Selection, To
from console.cluster.dead_letters.reading import dead_subject, decisions_about, place_of
from console.cluster.dead_letters.sending import check_copies, check_edit, send
from console.cluster.edited_bodies import as_stored
from console.cluster.masking import body_format_of
from console.cluster.merging import Row
from console.cluster.messages import or_empty, read_one
from console.cluster.producing import check_not_archived, check_real
from console.cursors import decode_cursor, encode_cursor
from metaserver.errors import Conflict
from metaserver.services.changes import Request
from qmq.errors import QmqError
from qmq.node_admin import NodeAdmin
from qmq.protocol.masking import NO_MASKS

REPLAY_MAX = 10_000
"""Maximum number of dead letters that one request replays or deletes; `next` continues."""
SEQUENCES_MAX = 1_000
"""Dead letters that one request may name one by one."""
BATCH = 200
"""Dead letters read, claimed and sent at a time, with the results recorded."""


def replay(
    subject: str,
    group: str,
    selection: Selection,
    *,
    to: To = "group",
    other_subject: str = "",
    edit: Edit | None = None,
    force: bool = False,
    limit: int,
    **request: Unpack[Request],
) -> Progress:
    """Send copies of dead letters to the consumer group's retry subject, where only this group gets them, to the subject, or to
    another one.

    A dead letter that was replayed or deleted before is skipped unless `force`. Each batch is claimed, with its audit entry,
    before it is sent: two requests never replay the same dead letter, and none is replayed without an entry.

    Args:
        other_subject: with `to="other"`: where the copies go.
        edit: what the copy of the one dead letter that is selected says instead of it.

    Raises:
        NotFound, Conflict: there is no such subject, or it is archived, or another request claims at this moment.
        NotAllowed: the subject belongs to another team. Batches before it was handed over stay done.
        ChangeRefused: the cursor is none of this selection, or no message has the edited body.
        QmqError: nothing could be done because a part of the system can't be reached.
    """
    dead_subject(subject, group)
    if to == "other":
        check_real(other_subject)
    check_not_archived(other_subject if to == "other" else subject)
    if edit is not None:
        check_edit(edit)
        edit = _as_stored(subject, group, selection, edit)
    order = Order(subject, group, "replay", to, force, other_subject=other_subject, edit=edit, **request)
    return _work(order, selection, limit)


def _as_stored(subject: str, group: str, selection: Selection, edit: Edit) -> Edit:
    """The edit with its body in the form of the dead letter's. Raises ChangeRefused, NotFound, ConnectionLost."""
    broker_group, sequence = next((name, one) for name, some in (selection.sequences or {}).items() for one in some)
    stored = read_one(dead_subject(subject, group), broker_group, sequence, masks=NO_MASKS)
    properties, form = as_stored(edit.properties, stored, body_format_of(subject))
    return replace(edit, properties=properties, form=form)


def delete(subject: str, group: str, selection: Selection, *, limit: int, **request: Unpack[Request]) -> Progress:
    """Hide dead letters from lists and from replays. The log is append-only: retention removes their bytes, nothing else does.

    Raises:
        as `replay`.
    """
    dead_subject(subject, group)
    return _work(Order(subject, group, "delete", "group", False, **request), selection, limit)


def _work(order: Order, selection: Selection, limit: int) -> Progress:
    limit = max(1, min(limit, REPLAY_MAX))
    for name in selection.sequences or ():
        broker(name)
    nodes = brokers(selection.sequences)
    windows: _Windows = {}
    unreachable = dict(nodes.unreachable)
    if selection.sequences is None:
        windows = _windows(order, nodes, selection.cursor, unreachable)
    if selection.expected is not None and not order.dry_run:
        _check_count(order, nodes, windows, limit, selection.expected)
    return _pass(order, nodes, selection.sequences, windows, limit, unreachable)


_Windows = dict[str, tuple[int, int]]
"""Sequences of all dead letters by broker group: from the first to the one after the last."""


def _check_count(order: Order, nodes: Nodes, windows: _Windows, limit: int, expected: int) -> None:
    """Raise Conflict unless the request would replay or delete the expected number of dead letters."""
    found = _pass(replace(order, dry_run=True), nodes, None, windows, limit, {}).done
    if found != expected:
        raise Conflict(
            f"{found} dead letters would be processed, {expected} were expected: nothing was changed. Repeat the dry run.",
            code="dead_letter.count_differs",
        )


def _pass(
    order: Order,
    nodes: Nodes,
    sequences: Mapping[str, Sequence[int]] | None,
    windows: _Windows,
    limit: int,
    unreachable: Mapping[str, str],
) -> Progress:
    """Go through the dead letters once, until the limits are reached."""
    progress = Progress(unreachable=dict(unreachable))
    deadline = time.monotonic() + limits.BATCHES_SECONDS
    if sequences is None:
        batches = _all_batches(order, nodes, dict(windows), limit, progress, deadline)
    else:
        batches = _named_batches(order, nodes, sequences, progress, deadline)
    for begin, batch in batches:
        progress.looked_at += len(batch)
        readable = []
        for dead_letter in batch:
            if dead_letter.get("withheld"):
                progress.fail(*place_of(dead_letter), dead_letter.get("reason", "its stored data is corrupted"))
            else:
                readable.append(dead_letter)
        if readable:
            _batch(order, begin, readable, progress)
    return progress


def _query(order: Order) -> tuple[str, str]:
    """What a cursor of a request belongs to."""
    return f"{order.action} dead letters", order.name


def _windows(order: Order, nodes: Nodes, cursor: str | None, unreachable: dict[str, str]) -> _Windows:
    """Return where the dead letters of each broker group are: those of the cursor, or all that are stored now."""
    windows: _Windows = {} if cursor is None else decode_cursor(cursor, _query(order))
    fresh = nodes.only(set(nodes.admins) - set(windows))
    ends = fresh.ask(lambda _, admin: admin.messages(order.name, sequence=0, limit=1))
    unreachable.update(ends.unreachable)
    return windows | {group: (page["begin_sequence"], page["end_sequence"]) for group, page in ends.values.items()}


def _all_batches(
    order: Order, nodes: Nodes, windows: _Windows, limit: int, progress: Progress, deadline: float
) -> Iterator[tuple[int, list[Row]]]:
    """Yield batches of all dead letters in these windows with the start of their log. Dead letters that arrive during the request
    (possibly the replays themselves) are behind the windows. Advances `windows` to where the next request continues.
    """
    left = limit
    for group in sorted(set(windows) & set(nodes.admins)):
        admin = nodes.admins[group]
        while (
            windows[group][0] < windows[group][1] and left > 0 and time.monotonic() < deadline and not progress.stopped
        ):
            begin, end = windows[group]
            try:
                page = _read(admin, order.name, begin, min(BATCH, left, end - begin))
            except QmqError as error:
                progress.unreachable[group] = str(error)
                break
            batch = [{**m, "broker_group": group} for m in page["messages"] if m["sequence"] < end]
            reached = batch[-1]["sequence"] + 1 if batch else end
            yield page["begin_sequence"], batch
            if progress.stopped:
                break  # the next request begins with this batch again
            left -= len(batch)
            windows[group] = (reached, end)
    has_more = any(begin < end and g not in progress.unreachable for g, (begin, end) in windows.items())
    progress.next = encode_cursor(_query(order), windows) if has_more else None


def _named_batches(
    order: Order, nodes: Nodes, sequences: Mapping[str, Sequence[int]], progress: Progress, deadline: float
) -> Iterator[tuple[int, list[Row]]]:
    """Batches of the dead letters named; what is not there fails."""
    for group in sorted(nodes.admins):
        left = sorted(set(sequences[group]))
        while left:
            if progress.stopped or time.monotonic() >= deadline:
                progress.unreachable[group] = (
                    f"{progress.stopped or 'no time was left'}: {len(left)} dead letters were not processed"
                )
                break
            span = [number for number in left if number < left[0] + BATCH]
            try:
                page = _read(nodes.admins[group], order.name, span[0], span[-1] - span[0] + 1)
            except QmqError as error:
                progress.unreachable[group] = str(error)
                break
            found = {m["sequence"]: {**m, "broker_group": group} for m in page["messages"]}
            # A page of large messages may end early; it holds one at least, else nothing is there.
            reached = max(found, default=span[-1]) + 1
            for number in span:
                if number < reached and number not in found:
                    progress.fail(group, number, "Dead letter not found. Retention may have deleted it.")
            batch = [found[number] for number in span if number in found]
            yield page["begin_sequence"], batch
            left = [number for number in left if number >= reached]


def _read(admin: NodeAdmin, name: str, sequence: int, limit: int) -> Row:
    return ask(lambda: or_empty(admin.messages(name, sequence=sequence, limit=limit)))


def _batch(order: Order, begin: int, batch: Sequence[Row], progress: Progress) -> None:
    """Decide about dead letters of one broker group."""
    if order.dry_run:
        chosen = choose(order, batch, decisions_about(order.subject, order.group, batch), progress)
        progress.done += len(check_copies(order, chosen, progress))
        return
    try:
        with transaction.atomic():
            claimed = claim(order, begin, batch, progress)
    except IntegrityError as error:
        raise Conflict(
            "Another request is processing the same dead letters. Try again.", code="dead_letter.busy"
        ) from error
    if order.action == "delete":
        progress.done += len(claimed)
    elif claimed:
        send(order, claimed, progress)
