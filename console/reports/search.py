"""Search by name for Ctrl-K, best match first. One query per kind, each with a limit; a second one if no name contains the text.

A message's ID contains neither its subject nor its broker group. By ID alone, only messages with a record by ID are found:
delayed ones, and dead letters that were replayed or deleted. With the subject before it (`orders 260131.120000...`), its broker
groups are queried.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.db.models.functions import Length, Lower

from console.accounts.models import User
from console.alerts.models import AlertRule
from console.cluster import limits, messages
from console.cluster.delayed import reading
from console.cluster.masking import ALL
from console.models import DeadLetterDecision
from console.reports import typos
from metaserver import queries
from metaserver.errors import NotFound
from qmq.errors import QmqError

FOUND_MAX = 20
QUERY_CHARS_MAX = 200
CANDIDATES_MAX = 200
"""Names of a kind that are compared with a text that no name contains."""
_MESSAGE_ID = re.compile(r"[0-9]{6}\.[0-9]{6}\.[0-9a-zA-Z.:-]{3,80}")
"""Ids as our clients and the official ones make them: date, time, host, process, counter."""
_EXACT, _BEGINNING, _INSIDE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Place:
    """Something that was found. What each kind needs to be shown: `subject`, `name`, `broker_group`, `sequence`."""

    kind: str
    name: str
    rank: tuple[int, int, str]
    subject: str | None = None
    broker_group: str | None = None
    sequence: int | None = None
    text: str = ""
    """A few more words about it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, the best first, and what could not be reached."""

    places: list[Place]
    unreachable: dict[str, str]


def jump(text: str, *, sees_accounts: bool) -> Found:
    """At most FOUND_MAX things whose name has each word of the text in it; without any, those that the text can mean with typing
    errors (`typos`).

    Args:
        sees_accounts: whether users are looked for too.
    """
    places = _places(text, _best, sees_accounts=sees_accounts)
    unreachable: dict[str, str] = {}
    subject, _, message_id = text.rpartition(" ")
    if _MESSAGE_ID.fullmatch(message_id):
        if subject:
            places += _messages(subject, message_id, unreachable)
        else:
            places += _dead_letters(message_id)
            places += _delayed(message_id, unreachable)
    if not places and not unreachable:
        places = _places(text, _closest, sees_accounts=sees_accounts)
    places.sort(key=lambda place: place.rank)
    return Found(places[:FOUND_MAX], unreachable)


def _places(text: str, rows_of: "RowsOf", *, sees_accounts: bool) -> list[Place]:
    named = [place for kind in _NAMED if kind != "user" or sees_accounts for place in _named(kind, text, rows_of)]
    return [*named, *_groups(text, rows_of)]


def _best(rows: "QuerySet[Any]", field: str, text: str) -> Any:
    """The rows with all words of the text: best as it is, then at the beginning, then anywhere; of those the shortest."""
    wanted = Lower(Value(text))
    has_words = Q(*(Q(lowered__contains=Lower(Value(word))) for word in text.split()))
    rank = Case(
        When(Q(lowered=wanted), then=_EXACT),
        When(Q(lowered__startswith=wanted), then=_BEGINNING),
        default=_INSIDE,
        output_field=IntegerField(),
    )
    lowered = rows.alias(lowered=Lower(field)).filter(has_words)
    return lowered.annotate(fits=rank, length=Length(field)).order_by("fits", "length", field)[:FOUND_MAX]


def _closest(rows: "QuerySet[Any]", field: str, text: str) -> list[Any]:
    """The rows whose name the text can mean with typing errors, among the CANDIDATES_MAX that have most of its pairs of characters.

    The database selects candidates by pairs, so that few names are compared character by character.
    """
    words = text.lower().split()
    tolerated = [word for word in words if typos.edits_allowed(word)]
    if not tolerated:
        return []
    has_others = Q(*(Q(lowered__contains=word) for word in words if word not in tolerated))
    pairs = [pair for word in tolerated for pair in typos.pairs(word)]
    score = sum(
        (Case(When(lowered__contains=pair, then=1), default=0, output_field=IntegerField()) for pair in pairs),
        start=Value(0, output_field=IntegerField()),
    )
    needed = sum(map(typos.pairs_needed, tolerated))
    candidates = rows.alias(lowered=Lower(field)).filter(has_others).alias(score=score).filter(score__gte=needed)
    found = []
    for row in candidates.annotate(length=Length(field)).order_by("-score", "length", field)[:CANDIDATES_MAX]:
        edits = typos.distance(text.lower(), getattr(row, field).lower())
        if edits is not None:
            row.fits = _INSIDE + edits
            found.append(row)
    return found


RowsOf = Callable[["QuerySet[Any]", str, str], Iterable[Any]]
"""Rows whose field fits a text; each with how well as `fits`, and `length`."""


def _broker_groups() -> "QuerySet[Any]":
    return queries.broker_groups().prefetch_related(None)


_NAMED: dict[str, tuple[Callable[[], "QuerySet[Any]"], str, dict[str, str]]] = {
    "subject": (queries.called_subjects, "name", {"subject": "name", "text": "description"}),
    "broker_group": (_broker_groups, "name", {"broker_group": "name", "text": "description"}),
    "node": (queries.nodes, "node_id", {"broker_group": "broker_group.name", "text": "address"}),
    "team": (queries.teams, "name", {"text": "description"}),
    "alert_rule": (AlertRule.objects.all, "name", {"text": "kind"}),
    "user": (User.objects.all, "username", {"text": "role"}),
}
"""By kind: its rows, the field that is searched, and where its `Place` gets further fields from."""


def _groups(text: str, rows_of: RowsOf) -> Iterator[Place]:
    """By name; `subject/group` finds one of a subject."""
    subject, slash, group = text.rpartition("/")
    rows = queries.called_groups()
    if slash:
        rows = rows.filter(subject__name=subject)
    if not slash or group:
        for row in rows_of(rows, "name", group or text):
            rank = row.fits, row.length, row.name
            yield Place("consumer_group", row.name, rank, subject=row.subject.name, text=row.description)


def _named(kind: str, text: str, rows_of: RowsOf) -> Iterator[Place]:
    rows, name, others = _NAMED[kind]
    for row in rows_of(rows(), name, text):
        found = {key: attrgetter(path)(row) for key, path in others.items()}
        yield Place(kind, getattr(row, name), (row.fits, row.length, getattr(row, name)), **found)


def _messages(subject: str, message_id: str, unreachable: dict[str, str]) -> Iterator[Place]:
    try:
        page = messages.read_page(subject, messages.Start(message_id=message_id), limit=FOUND_MAX, masks=ALL)
    except NotFound:
        return
    except QmqError as error:
        unreachable[subject] = str(error)
        return
    unreachable.update(page.unreachable)
    for row in page.rows:
        yield Place(
            "message", message_id, (_EXACT, 0, message_id), subject=subject, broker_group=row["broker_group"],
            sequence=row["sequence"],
        )  # fmt: skip


def _dead_letters(message_id: str) -> Iterator[Place]:
    rows = DeadLetterDecision.objects.filter(Q(message_id=message_id) | Q(replay_id=message_id))
    for row in rows.order_by("-at")[:FOUND_MAX]:
        yield Place(
            "dead_letter", row.message_id, (_EXACT, 0, row.message_id), subject=row.subject, broker_group=row.broker_group,
            sequence=row.sequence, text=row.group,
        )  # fmt: skip


def _delayed(message_id: str, unreachable: dict[str, str]) -> Iterator[Place]:
    try:
        result = reading.found(reading.Target(message_id), seconds=limits.JUMP_SECONDS)
    except NotFound:
        return
    except QmqError as error:
        unreachable["delay groups"] = str(error)
        return
    unreachable.update(result.unreachable)
    for message in result.rows[:FOUND_MAX]:
        yield Place(
            "delayed_message", message_id, (_EXACT, 0, message_id), subject=message["subject"],
            broker_group=message["delay_group"], text=message["state"],
        )  # fmt: skip
