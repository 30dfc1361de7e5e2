"""Claims dead letters in the database before anything is sent, so that two requests never decide about the same one."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from django.utils import timezone

from console.cluster import limits
from console.cluster.dead_letters.orders import SYSTEM_PREFIX, Edit, Order, Progress
from console.cluster.dead_letters.reading import place_of
from console.cluster.merging import Row
from console.models import DeadLetterDecision
from metaserver.services import audit, subjects

State = DeadLetterDecision.State
_DECIDED = (State.REPLAYED, State.DELETED)


def choose(
    order: Order, messages: Sequence[Row], known: Mapping[tuple[str, int], DeadLetterDecision], progress: Progress
) -> list[Row]:
    """Those that are to be decided about now; the others are counted."""
    chosen = []
    fresh_since = timezone.now() - timedelta(seconds=limits.CLAIM_SECONDS)
    left_alone: tuple[State, ...] = (State.DELETED,) if order.action == "delete" else () if order.force else _DECIDED
    for dead_letter in messages:
        decision = known.get(place_of(dead_letter))
        if decision is not None and decision.state == State.REPLAYING and decision.at > fresh_since:
            progress.under_way += 1
        elif decision is not None and decision.state in left_alone:
            progress.already += 1
        else:
            chosen.append(dead_letter)
    return chosen


@dataclass(slots=True)
class Claimed:
    """A dead letter, its decision, and the decision it had before; None: it had none."""

    dead_letter: Row
    decision: DeadLetterDecision
    before: dict[str, Any] | None


_FIELDS = ("state", "by", "at", "replayed_to", "other_subject", "replay_id")


def claim(order: Order, begin: int, messages: Sequence[Row], progress: Progress) -> list[Claimed]:
    """Write the decisions and their audit entry, if the actor may: final ones for a delete, claims for a replay."""
    subjects.authorize(order.subject, order.actor)
    if order.other_subject:
        subjects.authorize(order.other_subject, order.actor)
    broker_group = messages[0]["broker_group"]
    ids = {dead_letter["sequence"]: dead_letter["message_id"] for dead_letter in messages}
    mine = DeadLetterDecision.objects.filter(subject=order.subject, group=order.group, broker_group=broker_group)
    # Dead letters below are gone from the log, so their decisions are deleted.
    mine.filter(sequence__lt=begin).delete()
    known = {}
    for row in mine.select_for_update().filter(sequence__in=ids):
        if row.message_id == ids[row.sequence]:
            known[(broker_group, row.sequence)] = row
        else:
            row.delete()
    chosen = choose(order, messages, known, progress)
    if not chosen:
        return []
    now = timezone.now()
    claimed = []
    for dead_letter in chosen:
        found = known.get(place_of(dead_letter))
        before = None if found is None else {name: getattr(found, name) for name in _FIELDS}
        row = found or DeadLetterDecision(
            subject=order.subject, group=order.group, broker_group=broker_group, sequence=dead_letter["sequence"],
            message_id=dead_letter["message_id"],
        )  # fmt: skip
        row.state, row.by, row.at = State.DELETED, order.actor.name[:200], now
        if order.action == "replay":
            row.state, row.replayed_to, row.other_subject = State.REPLAYING, order.to, order.other_subject
            row.replay_id = replay_id(order, row)
        claimed.append(Claimed(dead_letter, row, before))
    save([item.decision for item in claimed if item.before is not None])
    DeadLetterDecision.objects.bulk_create([item.decision for item in claimed if item.before is None])
    details: dict[str, Any] = {"broker_group": broker_group, "letters": len(chosen), "sequences": runs_text(ids)}
    if len(chosen) < len(ids):
        details["sequences"] = runs_text(dead_letter["sequence"] for dead_letter in chosen)
    if order.action == "replay":
        details |= {"to": order.to, "force": order.force}
        if order.other_subject:
            details["other_subject"] = order.other_subject
        if order.edit is not None:
            details |= {"edited_properties": changed_properties(order.edit, chosen[0]), "tags": list(order.edit.tags)}
    audit.record(
        actor=order.actor, action=f"dead_letter.{order.action}", target=f"{order.subject}/{order.group}",
        reason=order.reason, after=details,
    )  # fmt: skip
    return claimed


def save(rows: Sequence[DeadLetterDecision], *more: str) -> None:
    """Write decisions, and further fields of them."""
    DeadLetterDecision.objects.bulk_update(rows, [*_FIELDS, *more], batch_size=100)


def replay_id(order: Order, decision: DeadLetterDecision) -> str:
    """The message id of a dead letter's next replay: the same until one is known to be stored, and another one for another
    content or destination, which would not be the same message.
    """
    words = [decision.subject, decision.group, decision.broker_group, str(decision.sequence), decision.message_id]
    if order.other_subject or order.edit is not None:
        edit = None if order.edit is None else [sorted(order.edit.properties.items()), list(order.edit.tags)]
        words.append(json.dumps([order.other_subject, edit]))
    return f"replay.{blake2b('/'.join(words).encode(), digest_size=16).hexdigest()}.{decision.replays + 1}"


def changed_properties(edit: Edit, dead_letter: Row) -> list[str]:
    """Names of the properties that an edit changes, adds or removes."""
    before = {key: text for key, text in dead_letter["properties"].items() if not key.startswith(SYSTEM_PREFIX)}
    names = {*before, *edit.properties}
    return sorted(name for name in names if before.get(name) != edit.properties.get(name))


def runs_text(numbers: Iterable[int]) -> str:
    """Numbers as text: "3-5, 9"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first}-{last}" if first < last else str(first) for first, last in runs)
