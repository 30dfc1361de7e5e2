"""/dead-letters/."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.pagination import PAGE_DEFAULT
from api.problems import invalid
from api.serializers import dead_letters as shapes
from api.serializers.bodies import moment
from api.views.messages import CURSOR, FILTER, LIMIT, ReadingView, message_row, within
from console.accounts.roles import Right
from console.cluster.dead_letters import attempts, causes, counts, decisions, orders, reading, sending
from console.cluster.masking import ALL
from console.cluster.messages import whole_property
from metaserver.errors import NotAllowed
from metaserver.services.notes import NoteCode
from qmq.protocol.messages import KEY_ATTEMPT, KEY_MAX_RETRY, KEY_PULL_OFFSET
from qmq.protocol.names import dead_letter_subject
from qmq.protocol.reasons import Reason
from qmq.protocol.values import LONG_MAX

COUNTS_MAX = 100
"""Counts of one page: each requires requests to every broker group that holds dead letters of the consumer group."""
STATES = ("open", "replaying", "unknown", "replayed", "deleted")
SHOWN = tuple(state for state in STATES if state != "deleted")


class DeadLetterCountsView(ReadingView):
    """Count dead letters by subject and consumer group, ordered by name."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.LetterCounts
    download_page_rows = COUNTS_MAX

    @extend_schema(
        operation_id="dead_letters_count",
        parameters=[
            OpenApiParameter("subject", OpenApiTypes.STR, description="Only this subject."),
            OpenApiParameter("group", OpenApiTypes.STR, description="Only this consumer group."),
            LIMIT,
            CURSOR,
        ],
    )
    def get(self, request: Request) -> Response:
        found = counts.count_dead_letters(
            subject=self.text("subject"),
            group=self.text("group"),
            limit=self.whole("limit", PAGE_DEFAULT, minimum=1, maximum=COUNTS_MAX) or PAGE_DEFAULT,
            cursor=self.cursor,
        )
        return self.paged(found, list(shapes.LetterCount(found.rows, many=True).data))


class DeadLettersView(ReadingView):
    """List dead letters by the time when they became ones, with cause and the last replay or deletion."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.LetterPage

    @extend_schema(
        operation_id="dead_letters_list",
        parameters=[
            OpenApiParameter(
                "state", OpenApiTypes.STR, many=True, enum=STATES,
                description="Only this state; can be repeated. Default: all except deleted.",
            ),
            OpenApiParameter(
                "cause", OpenApiTypes.STR, description="Only dead letters with this cause (exact, case-sensitive)."
            ),
            FILTER,
            LIMIT,
            CURSOR,
        ],
    )  # fmt: skip
    def get(self, request: Request, subject: str, group: str) -> Response:
        masks = self.masks(subject)
        masked = masks is ALL
        if self.filter_text:
            # Which messages match reveals what they contain.
            self.require(Right.READ_MESSAGES, self.owner(subject))
        states = request.query_params.getlist("state") or list(SHOWN)
        if not set(states) <= set(STATES):
            raise invalid("state", f"must be one of {', '.join(STATES)}")
        found = reading.dead_letters_of(
            subject,
            group,
            states=states,
            cause=self.text("cause"),
            filter_text=self.filter_text,
            limit=self.limit,
            cursor=self.cursor,
            masks=masks,
            caller=self.actor.name,
        )
        self.note_reading(dead_letter_subject(subject, group), [item.message for item in found.rows], masked)
        return self.paged(found, [_row(dead_letter, masked) for dead_letter in found.rows])


class DeadLetterCausesView(ReadingView):
    """Count the causes of the newest dead letters of a consumer group, at most 10,000 of each broker group."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.CausePage

    def get(self, request: Request, subject: str, group: str) -> Response:
        return Response(shapes.CausePage(causes.count_causes(subject, group)).data)


class AllCausesView(ReadingView):
    """Count the causes of the newest dead letters of all consumer groups: of the first 50 by name, at most 1,000 of each on each
    broker group.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.CausePage

    @extend_schema(operation_id="dead_letters_all_causes")
    def get(self, request: Request) -> Response:
        return Response(shapes.CausePage(causes.count_all_causes()).data)


class DeadLetterView(ReadingView):
    """Return a dead letter with the attempts that preceded it: time, consumer, and changed properties (an error text, if the
    consumer set one). Null with a reason: no longer known by the nodes. `holes` says whether attempts may be missing.
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.LetterStory

    def get(self, request: Request, subject: str, group: str, broker_group: str, sequence: int) -> Response:
        masks = self.masks(subject)
        masked = masks is ALL
        story = attempts.story_of(subject, group, broker_group, within(sequence), masks=masks)
        shown = [story.dead_letter.message, *(attempt.message for attempt in story.attempts)]
        self.note_reading(dead_letter_subject(subject, group), shown, masked)
        return Response(
            {
                **_row(story.dead_letter, masked),
                "changes": None if masked else _changes(story.changes),
                "story": [_attempt(attempt, masked) for attempt in story.attempts],
                "holes": story.holes,
            }
        )


def _attempt(attempt: attempts.Attempt, masked: bool) -> dict[str, Any]:
    return {
        **message_row(attempt.message, masked=masked),
        "attempt": attempt.number,
        "subject": attempt.subject,
        "consumer_id": attempt.consumer_id,
        "pulled_at": moment(attempt.pulled_at_ms),
        "ended_at": moment(attempt.ended_at_ms),
        "cause": attempt.cause,
        "why": attempt.why or None,
        "changes": None if masked else _changes(attempt.changes),
    }


def _changes(found: Mapping[str, tuple[str | None, str | None]]) -> list[dict[str, str | None]]:
    return [{"name": name, "before": before, "now": now} for name, (before, now) in found.items()]


def _row(dead_letter: reading.DeadLetter, masked: bool) -> dict[str, Any]:
    message, decision = dead_letter.message, dead_letter.decision
    attempt = whole_property(message, KEY_ATTEMPT, None)
    is_masked = any(mark["property"] in (sending.KEY_REPLAY_OF, "*") for mark in message.get("masked", ()))
    pulled = whole_property(message, KEY_PULL_OFFSET, None, LONG_MAX)
    return {
        **message_row(message, masked=masked),
        # The number that a consumer writes is that of the attempt that is not made any more.
        "attempts": attempt - 1 if attempt else None,
        "attempts_max": whole_property(message, KEY_MAX_RETRY, None),
        # A label for statistics, without contents of the message: never masked.
        "cause": causes.cause_of(message),
        "last_pull_sequence": None if pulled is None else str(pulled),
        "original_message_id": None if is_masked else message.get("properties", {}).get(sending.KEY_REPLAY_OF),
        "decision": None if decision is None else shapes.Decision(decision).data,
    }


class _DecidingView(ReadingView):
    def selection(self, values: dict[str, Any]) -> orders.Selection:
        """The dead letters that a body selects."""
        expected = self.expected_count(values) if values.get("all") else None
        return orders.Selection(values.get("sequences"), values.get("cursor"), expected)

    def answer(self, progress: orders.Progress, note: NoteCode) -> Response:
        """What a replay or deletion came to."""
        values = {**asdict(progress), "dry_run": self.dry_run, "notes": [Reason.of(note)]}
        return Response(shapes.Progress(values).data)


class ReplayView(_DecidingView):
    """Replay dead letters: send copies to the consumer group, to all groups of the subject, or to another subject; of one dead
    letter also an edited copy. Refused with `message.masked` for another subject or an edited copy if values are masked for
    the caller. Dead letters that were already replayed or deleted are skipped without `force`. A request processes a bounded
    number; continue with `next`. With `all` the change requires `expected`; with another number nothing is changed: 409
    `dead_letter.count_differs`.
    """

    rights = {"POST": Right.SEND}
    bodies = {"POST": shapes.Replay}
    answers = {"POST": shapes.Progress}

    def post(self, request: Request, subject: str, group: str) -> Response:
        self.require(Right.SEND, self.owner(subject))
        values = self.body()
        wanted = {name: values[name] for name in ("to", "force", "limit")}
        if ("other_subject" in values or "edit" in values) and self.masks(subject).rules:
            # A copy would show what is masked where it goes, or contain the placeholders.
            raise NotAllowed(
                f"Values of messages of {subject} are masked for you, so dead letters can't be edited or sent to another"
                " subject. Ask a user whose role sees them.",
                code="message.masked",
            )
        if other := values.get("other_subject"):
            self.require(Right.SEND, self.owner(other))
            wanted["other_subject"] = other
        if "edit" in values:
            wanted["edit"] = orders.Edit(values["edit"]["properties"], values["edit"]["tags"])
        progress = decisions.replay(subject, group, self.selection(values), **wanted, **self.arguments)
        return self.answer(progress, NoteCode.COPIES_OF_DEAD_LETTERS)


class DeleteView(_DecidingView):
    """Delete dead letters: they are hidden. The log is append-only, so retention deletes their data later. With `all` the
    change requires `expected`; with another number nothing is changed: 409 `dead_letter.count_differs`.
    """

    rights = {"POST": Right.CHANGE_GROUPS}
    bodies = {"POST": shapes.Selection}
    answers = {"POST": shapes.Progress}

    def post(self, request: Request, subject: str, group: str) -> Response:
        self.require(Right.CHANGE_GROUPS, self.owner(subject))
        values = self.body()
        selection = self.selection(values)
        progress = decisions.delete(subject, group, selection, limit=values["limit"], **self.arguments)
        return self.answer(progress, NoteCode.DEAD_LETTERS_HIDDEN)
