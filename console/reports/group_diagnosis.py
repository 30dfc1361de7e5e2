"""The diagnosis of one consumer group: its numbers collected from the nodes' pages, the newest snapshot and the history."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from console.cluster.asking import Answers
from console.cluster.group_numbers import total
from console.reports import overview
from console.reports.diagnosis import Finding, Held, Observed, diagnose, growth, pace_of
from console.snapshot.history import STEP_SECONDS, STEPS, read_history
from console.snapshot.lag_state import LagState
from console.snapshot.state import group_key
from qmq.protocol.names import dead_letter_subject, retry_subject

DEAD_LETTER_POINTS = 12
"""Points of the history in which more dead letters are noticed."""
Entry = Mapping[str, Any]


def group_diagnosis(row: Any, answers: Answers[dict[str, Any]]) -> tuple[str, list[Finding]]:
    """Return the state of a group, a LagState, and findings about it, worst first; none while no broker group has a position of it.

    Numbers from which the state follows are those of its measurement, so that no finding contradicts it: the pages are newer. They
    are used where nothing was measured.

    Args:
        row: of the database.
        answers: the group's page of each broker group.
    """
    subject, group = row.subject.name, row.name
    live = overview.numbers()
    state: Mapping[str, Mapping[str, Entry]] = live.state or {"groups": {}, "subjects": {}}
    entry = state["groups"].get(group_key(subject, group), {})
    lag_state = str(entry.get("state", LagState.UNKNOWN))
    pages = list(answers.values.values())
    if not pages:
        return lag_state, []
    members = [member for page in pages for member in page["members"]]
    online = {member["consumer_id"] for member in members if member["online"]}
    is_cut = any(len(page["members"]) < page["members_total"] for page in pages)
    is_whole = not answers.unreachable
    dead_letters, seconds = _dead_letters(subject, group)
    attempts, failing = _attempts(state, entry, subject, group)
    measured = {
        "is_paused": row.is_paused,
        "lag": total("lag", pages) if is_whole else None,
        "consumers_online": None if is_cut or not is_whole else len(online),
    } | {name: value for name, value in entry.items() if value is not None}
    return lag_state, diagnose(
        Observed(
            state=lag_state,
            unknown_reason=entry.get("reason") or live.reason,
            away=answers.unreachable,
            is_paused=measured["is_paused"],
            paused_consumers=sorted(online & set(row.paused_consumers)),
            lag=measured["lag"],
            time_lag_seconds=entry.get("time_lag_seconds"),
            drain_seconds=entry.get("drain_seconds"),
            arriving=total("steady_send_rate", pages, 2) if is_whole else None,
            acked=total("steady_ack_rate", pages, 2) if is_whole else None,
            consumers_online=measured["consumers_online"],
            held=[_held(member) for member in members],
            attempts=attempts,
            failing=failing,
            retry_lag=entry.get("retry_lag"),
            dead_letters=dead_letters,
            dead_letters_seconds=seconds,
            pace=pace_of(read_history(settings.REDIS_URL, "groups", group_key(subject, group))),
        )
    )


def _held(member: Entry) -> Held:
    return Held(member["consumer_id"], member["online"], member["in_flight"], member["unacked_seconds"])


def _attempts(
    state: Mapping[str, Mapping[str, Entry]], entry: Entry, subject: str, group: str
) -> tuple[float | None, float | None]:
    """Attempts whose processing ended, and messages returned for another one, per second; None: unknown, or no retry subject."""
    retries = retry_subject(subject, group)
    first, again = entry.get("ack_rate"), state["groups"].get(group_key(retries, group), {}).get("ack_rate")
    failing = state["subjects"].get(retries, {}).get("send_rate")
    if first is None or failing is None:
        return None, None
    # Both rates are means of short spans that begin at different moments; no more fail than are attempted.
    return max(round(first + (again or 0.0), 2), failing), failing


def _dead_letters(subject: str, group: str) -> tuple[int, int]:
    every = STEPS // DEAD_LETTER_POINTS
    history = read_history(settings.REDIS_URL, "subjects", dead_letter_subject(subject, group), every=every)
    return growth(history, "stored_messages", every * STEP_SECONDS)
