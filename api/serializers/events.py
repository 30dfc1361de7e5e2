"""Serializers of the feed of events."""

from rest_framework import serializers

from api.serializers.bodies import NullText, Row
from api.serializers.reasons import Explanation
from console.reports.events.kinds import EventKind, EventSeverity

EVENT_KINDS = [(kind.value, kind.value) for kind in EventKind]
EVENT_SEVERITIES = [(severity.value, severity.value) for severity in EventSeverity]


class EventRow(Row):
    """One event. Names are null where it concerns no such thing."""

    id = serializers.CharField()
    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=EVENT_KINDS)
    severity = serializers.ChoiceField(choices=EVENT_SEVERITIES)
    target = serializers.CharField(help_text="what it concerns, such as subject/group, a node ID or the name of a job")
    action = NullText(help_text="as in the audit log, of a change")
    subject = NullText()
    group = NullText(help_text="consumer group")
    broker_group = NullText()
    node = NullText()
    actor = NullText(
        help_text="who made the change; null without the right to read the audit log, except for processes"
    )
    reason = NullText(help_text="in English; null without the right to read the audit log if a user gave it")
    why = Explanation(allow_null=True, help_text="the reason that a node or metaserver gave")
    values = serializers.DictField(help_text="what the sentence mentions, by kind (docs/reference/rest-api.md)")


class EventPage(serializers.Serializer):  # type: ignore[type-arg]
    """Events, newest first."""

    results = EventRow(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")
