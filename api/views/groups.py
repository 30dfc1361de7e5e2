"""/consumer-groups/."""

from datetime import timedelta
from functools import partial
from typing import Any

import django_filters
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import PartFilter, TruthFilter
from api.generics import ListView, action
from api.serializers import groups as shapes
from console.accounts.roles import Right
from console.cluster import progress
from console.cluster.asking import Answers, brokers
from console.cluster.group_numbers import GROUP_SUMS, total
from console.reports.group_diagnosis import group_diagnosis
from metaserver import queries
from metaserver.services import groups as service
from metaserver.services.changes import Change

UNDO_TIME = timedelta(hours=1)
"""How long a reset is offered to be undone."""
_ON_BROKER_GROUP = tuple(str(name) for name in shapes.OnBrokerGroup().fields)
_MEMBER = tuple(str(name) for name in shapes.GroupMember().fields)


class GroupsView(ListView):
    """List consumer groups."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_GROUPS}
    serializer_class = shapes.GroupRow
    bodies = {"POST": shapes.NewGroup}
    answers = {"POST": shapes.GroupCreated}
    rows = staticmethod(queries.consumer_groups)
    filters = {
        "search": PartFilter("name", label="words that occur in the name"),
        "subject": django_filters.CharFilter("subject__name", label="its subject"),
        "owner": django_filters.CharFilter("subject__owner__name", label="team of its subject"),
        "has_pauses": TruthFilter("has_pauses", label="whether the group or one of its consumers is paused"),
    }
    ordering_fields = ("name", "subject", "owner", "is_paused", "first_seen_at", "updated_at")
    ordering_paths = {"subject": "subject__name", "owner": "subject__owner__name"}
    ordering = ("name", "id")

    def post(self, request: Request) -> Response:
        """Create a consumer group before its first consumer pulls, and set its start position."""
        values = self.body()
        subject, name = values.pop("subject"), values.pop("name")
        place = _place(values.pop("start", None), values)
        if place is None:
            change, answers = service.create_group(subject, name, values, **self.arguments), None
        else:
            change, answers = progress.create(subject, name, values, place, **self.arguments)
        response = self.changed(change)
        response.data["broker_groups"] = [] if answers is None else _previews(answers)
        return response


class GroupView(ApiView):
    """One consumer group."""

    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_GROUPS, "DELETE": Right.CHANGE_GROUPS}
    serializer_class = shapes.GroupDetail
    bodies = {"PATCH": shapes.GroupChange, "DELETE": shapes.Forget}

    def get(self, request: Request, subject: str, group: str) -> Response:
        """Return a consumer group with its current progress and consumers, read from the nodes."""
        groups = queries.consumer_groups().filter(subject__name=subject, name=group)
        found = service.GROUP.one(groups, f"{subject}/{group}")
        answers = brokers(queries.broker_groups_of(subject) or []).ask(lambda _, node: node.group(subject, group))
        state, findings = group_diagnosis(found, answers)
        diagnosis = shapes.FindingShape(findings, many=True).data
        reset = queries.latest_reset(subject, group, timezone.now() - UNDO_TIME)
        return self.tagged(
            self.shown(found, shapes.GroupRow)
            | _progress(answers, found)
            | {"state": state, "diagnosis": diagnosis, "latest_reset": None if reset is None else _latest_reset(reset)},
            found.version,
        )

    def patch(self, request: Request, subject: str, group: str) -> Change:
        """Update a consumer group; omitted fields keep their value."""
        return service.update_group(subject, group, self.body(), **self.versioned_arguments)

    @extend_schema(operation_id="consumer_groups_forget")
    def delete(self, request: Request, subject: str, group: str) -> Change:
        """Delete a consumer group: its progress on the nodes and what was set of it. Messages are kept. `force` deletes it even if
        it is in use.
        """
        force = self.body()["force"]
        return progress.forget(subject, group, force=force, **self.versioned_arguments)


def _progress(answers: Answers[dict[str, Any]], group: Any) -> dict[str, Any]:
    places: list[dict[str, Any]] = []
    members: list[dict[str, Any]] = []
    unknown = [f"{name}: {why}" for name, why in answers.unreachable.items()]
    for name, why in (answers.unreachable | answers.absent).items():
        places.append(dict.fromkeys(_ON_BROKER_GROUP, None) | {"broker_group": name, "reason": why})
    for name, page in answers.values.items():
        sequences = {key: str(page[key]) for key in ("next_sequence", "begin_sequence", "end_sequence")}
        numbers = {
            key: page[key] for key in ("backlog", "in_flight", "lag", "time_lag_seconds", "pull_rate", "ack_rate")
        }
        places.append({"broker_group": name, "reason": page.get("reason"), **sequences, **numbers})
        if page["time_lag_seconds"] is None:
            unknown.append(f"{name}: {page.get('reason')}")
        for member in page["members"]:
            kept = {key: member[key] for key in _MEMBER if key in member}
            kept |= {key: str(member[key]) for key in ("pulled", "acked")}
            kept["duplicate_addresses"] = member["duplicate_addresses"]
            kept["in_flight_ranges"] = [[str(begin), str(end)] for begin, end in member["in_flight_ranges"]]
            is_paused = group.is_paused or member["consumer_id"] in group.paused_consumers
            members.append({"broker_group": name, "is_paused": is_paused, **kept})
    pages = list(answers.values.values())
    places.sort(key=lambda place: place["broker_group"])
    return {
        **{name: None if unknown else GROUP_SUMS[name](pages) for name in ("lag", "time_lag_seconds")},
        "unknown_reason": "; ".join(unknown) or None,
        "progress": places,
        "members": members,
        "members_total": total("members_total", pages),
    }


def _set_paused(view: ApiView, subject: str, group: str, *, paused: bool) -> Change:
    consumer_id = view.body().get("consumer_id", "")
    return service.set_paused(subject, group, paused, consumer_id=consumer_id, **view.versioned_arguments)


PauseView = action(
    Right.CHANGE_GROUPS,
    partial(_set_paused, paused=True),
    "Pause a consumer group or one of its consumers: pulls return no messages, acknowledgements are still accepted.",
    body=shapes.Pause,
)
ResumeView = action(
    Right.CHANGE_GROUPS,
    partial(_set_paused, paused=False),
    "Resume a consumer group or one of its consumers. Resuming the group resumes all its consumers.",
    body=shapes.Pause,
)


class ResetView(ApiView):
    """Reset the progress of a consumer group to earliest, latest, a time, positions, or the positions of another group. `dry_run`
    returns the number of messages that are skipped or delivered again.
    """

    rights = {"POST": Right.CHANGE_GROUPS}
    bodies = {"POST": shapes.Reset}
    answers = {"POST": shapes.ResetDone}
    versioned_methods = frozenset({"POST"})

    def post(self, request: Request, subject: str, group: str) -> Response:
        self.require(Right.CHANGE_GROUPS, queries.owner_of(subject))
        values = self.body()
        place = _place(values.pop("to"), values)
        assert place is not None
        change, answers = progress.reset(subject, group, place, **self.versioned_arguments)
        return Response(
            {
                "target": change.target,
                "dry_run": self.dry_run,
                "is_change": change.is_change,
                "before": change.before,
                "after": change.after,
                "broker_groups": _previews(answers),
            }
        )


def _place(to: str | None, values: dict[str, Any]) -> progress.ResetPlace | None:
    """Take a place out of the values of a body; None without one."""
    time = values.pop("time", None)
    positions, group = values.pop("positions", {}), values.pop("from_group", "")
    broker_group = values.pop("broker_group", None)
    if to is None:
        return None
    time_ms = None if time is None else max(0, round(time.timestamp() * 1000))
    return progress.ResetPlace(to=to, time_ms=time_ms, positions=positions, group=group, broker_group=broker_group)


def _previews(answers: Answers[dict[str, Any]]) -> list[dict[str, Any]]:
    """What nodes answered to a reset or its preview."""
    return [
        {
            "broker_group": name,
            "position": None if preview["position"] is None else str(preview["position"]),
            "new_position": str(preview["new_position"]),
            **{key: preview[key] for key in ("skipped", "repeated", "in_flight")},
            "pending": preview["end_sequence"] - preview["new_position"],
        }
        for name, preview in answers.values.items()
    ]


def _latest_reset(entry: Any) -> dict[str, Any]:
    data: dict[str, Any] = shapes.LatestReset(
        {"at": entry.at, "by": entry.actor, "before": entry.before, "after": entry.after}
    ).data
    return data
