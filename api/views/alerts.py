"""/alerts/, /alert-rules/, /silences/, /alert-channels/."""

from typing import Any

import django_filters
from django.db.models import Q, QuerySet
from django.db.models.functions import Left
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import PartFilter, PrefixFilter, TruthFilter
from api.generics import ListView, action
from api.serializers import alerts as shapes
from console.accounts.roles import Right
from console.alerts import queries
from console.alerts.models import TARGET_CHARS_MAX, Alert, AlertChannel, AlertRule, AlertState, ChannelKind, Silence
from console.alerts.rules import OF_GROUPS, Kind, Severity, matcher
from console.alerts.services import alerts as alert_service
from console.alerts.services import channels as channel_service
from console.alerts.services import rules as rule_service
from console.alerts.services import silences as silence_service
from console.reports import overview, rule_preview
from console.resource_fields import with_id
from metaserver.services.changes import Change

NOTIFICATIONS_SHOWN_MAX = 50


class ConcernsFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Rules whose target, a glob, matches a name."""

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        if not value:
            return queryset
        rules = AlertRule.objects.order_by("pk").values_list("pk", "target")[: rule_service.RULES_MAX]
        return queryset.filter(pk__in=[pk for pk, target in rules if matcher(target)(value)])


class SubjectFilter(django_filters.CharFilter):  # type: ignore[misc]
    """Alerts of a subject and of its consumer groups."""

    def filter(self, queryset: "QuerySet[Any]", value: str) -> "QuerySet[Any]":
        if not value:
            return queryset
        groups = f"{value}/"
        # Not `startswith`: SQLite's ignores case.
        rows: QuerySet[Any] = queryset.filter(kind__in=OF_GROUPS).alias(beginning_of_target=Left("target", len(groups)))
        return rows.filter(Q(target=value) | Q(beginning_of_target=groups))


_KINDS = [(kind.value, kind.value) for kind in Kind]
_SEVERITIES = [(severity.value, severity.value) for severity in Severity]


# --- rules ------------------------------------------------------------------------------------------------------------


class AlertRulesView(ListView):
    """List rules."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_ALERTS}
    serializer_class = shapes.AlertRuleRow
    bodies = {"POST": shapes.NewAlertRule}
    rows = staticmethod(queries.rules)
    filters = {
        "search": PartFilter("name", label="words that occur in the name"),
        "kind": django_filters.ChoiceFilter(choices=_KINDS),
        "severity": django_filters.ChoiceFilter(choices=_SEVERITIES),
        "owner": django_filters.CharFilter("owner", label="team"),
        "channel": django_filters.CharFilter("channels__name", label="name of a channel"),
        "concerns": ConcernsFilter(
            "target", max_length=TARGET_CHARS_MAX, label="a target, such as subject/group, that the rule's glob matches"
        ),
        "is_enabled": TruthFilter("is_enabled"),
        "is_builtin": TruthFilter("builtin", "isnull", exclude=True),
    }
    ordering_fields = ("name", "kind", "owner", "is_enabled", "created_at", "updated_at")
    ordering = ("name",)

    def post(self, request: Request) -> Change:
        """Create a rule."""
        values = self.body()
        kind = values.pop("kind")
        return rule_service.create_rule(kind, values, **self.arguments)


class AlertRuleView(ApiView):
    """One rule."""

    serializer_class = shapes.AlertRuleRow
    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_ALERTS, "DELETE": Right.CHANGE_ALERTS}
    bodies = {"PATCH": shapes.AlertRuleChange}

    def get(self, request: Request, rule: str) -> Response:
        """Return one rule."""
        return self.one(rule_service.ALERT_RULE.one(with_id(queries.rules(), rule), rule))

    def patch(self, request: Request, rule: str) -> Change:
        """Update a rule; omitted fields keep their value."""
        return rule_service.update_rule(rule, self.body(), **self.versioned_arguments)

    def delete(self, request: Request, rule: str) -> Change:
        """Delete a rule and resolve its open alerts. Built-in rules can only be disabled."""
        return rule_service.delete_rule(rule, **self.versioned_arguments)


_NUMBERS = ("threshold", "clear_threshold", "for_seconds", "clear_for_seconds", "window_seconds")


class AlertRulePreviewView(ApiView):
    """Return what a rule would do, without storing anything: which targets are above its threshold now, and how often it would
    have fired in the last 24 hours, as far as values of them are stored (`spans`).
    """

    rights = {"GET": Right.READ}
    serializer_class = shapes.RulePreview

    @extend_schema(
        operation_id="alert_rules_preview",
        parameters=[
            OpenApiParameter("kind", str, required=True, enum=[kind.value for kind in Kind]),
            OpenApiParameter("target", str, description="Glob, as of a rule. Default: *"),
            OpenApiParameter("threshold", float, required=True),
            OpenApiParameter("clear_threshold", float, description="Default: 80% of the threshold."),
            OpenApiParameter("for_seconds", int, description="Default: 0."),
            OpenApiParameter("clear_for_seconds", int, description="Default: 0."),
            OpenApiParameter("window_seconds", int, description="For dead letters. Default: 600."),
            OpenApiParameter("rule", str, description="ID of the stored rule, to count how often it did fire."),
        ],
    )
    def get(self, request: Request) -> Response:
        query = request.query_params
        kind, target, rule = query.get("kind", ""), query.get("target") or "*", query.get("rule")
        stored = rule_service.ALERT_RULE.one(with_id(AlertRule.objects.all(), rule), rule).pk if rule else None
        given = {name: self.number(name) for name in _NUMBERS}
        values = {"kind": kind, "target": target} | {name: value for name, value in given.items() if value is not None}
        conditions = rule_service.conditions_of(values)
        window_seconds = given["window_seconds"] or AlertRule._meta.get_field("window_seconds").default
        live = overview.numbers()
        found = rule_preview.preview_rule(
            Kind(kind), target, conditions, window_seconds, rule=stored, snapshot=live.state, now=timezone.now()
        )
        return Response(shapes.RulePreview(found).data | {"reason": live.reason})


# --- alerts -----------------------------------------------------------------------------------------------------------


class AlertsView(ListView):
    """List alerts: open ones first, of these the critical ones, then resolved ones, newest first."""

    serializer_class = shapes.AlertRow
    rows = staticmethod(Alert.objects.all)
    filters = {
        "state": django_filters.MultipleChoiceFilter(choices=AlertState.choices),
        "is_open": TruthFilter("open_key", "isnull", exclude=True, label="pending or firing"),
        "severity": django_filters.ChoiceFilter(choices=_SEVERITIES),
        "kind": django_filters.ChoiceFilter(choices=_KINDS),
        "subject": SubjectFilter("target", label="a subject: alerts of it and of its consumer groups"),
        "target": django_filters.CharFilter("target", label="exact target, such as subject/group"),
        "target_prefix": PrefixFilter("target", label="prefix of the target, such as subject/"),
        "target_contains": PartFilter("target", label="case-insensitive substring of the target"),
        "rule": PartFilter("rule_name", label="substring of the rule's name"),
        "owner": django_filters.CharFilter("owner", label="team"),
        "search": PartFilter(
            "rule_name", "target", "owner", label="words that occur in the name of the rule, the target or the team"
        ),
        "is_acknowledged": TruthFilter("acknowledged_at", "isnull", exclude=True),
    }
    ordering_fields = ("since", "place", "rule", "target", "owner", "state", "value", "fired_at", "resolved_at")
    ordering_paths = {"rule": "rule_name"}
    ordering = ("-place", "-id")

    def context(self) -> dict[str, Any]:
        return {"is_silenced": silence_service.silenced_at(timezone.now())}


class AlertView(ApiView):
    """Return one alert with its notifications."""

    serializer_class = shapes.AlertDetail
    rights = {"GET": Right.READ}

    def get(self, request: Request, alert: str) -> Response:
        found = alert_service.ALERT.one(with_id(Alert.objects.all(), alert), alert)
        notifications = found.notifications.select_related("channel")[:NOTIFICATIONS_SHOWN_MAX]
        row = self.shown(found, shapes.AlertRow, is_silenced=silence_service.silenced_at(timezone.now()))
        shown = [self.shown(item, shapes.NotificationRow) for item in notifications]
        return self.tagged({**row, "notifications": shown}, found.version)


AcknowledgeView = action(
    Right.CHANGE_ALERTS,
    lambda view, alert: alert_service.acknowledge(alert, now=timezone.now(), **view.versioned_arguments),
    "Acknowledge an alert; the reason is shown with it.",
)


# --- silences ---------------------------------------------------------------------------------------------------------


def _active(rows: "QuerySet[Any]", name: str, value: bool) -> "QuerySet[Any]":
    """Return the silences that are active now, or the others."""
    holds = queries.is_active(timezone.now())
    return rows.filter(holds) if value else rows.exclude(holds)


class SilencesView(ListView):
    """List silences, newest first."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_ALERTS}
    serializer_class = shapes.SilenceRow
    bodies = {"POST": shapes.NewSilence}
    rows = staticmethod(Silence.objects.all)
    filters = {
        "rule": PartFilter("rule", label="substring of the rule pattern"),
        "target": django_filters.CharFilter("target", label="exact target pattern"),
        "target_contains": PartFilter("target", label="case-insensitive substring of the target pattern"),
        "created_by": django_filters.CharFilter("created_by", label="username of the creator"),
        "is_active": TruthFilter(method=_active, label="whether it is active now"),
    }
    ordering_fields = ("id", "starts_at", "ends_at", "rule", "target", "created_by")
    ordering = ("-id",)

    def post(self, request: Request) -> Change:
        """Create a silence: it suppresses notifications of matching alerts for a time; the alerts still fire and are shown."""
        return silence_service.create_silence(**self.body(), now=timezone.now(), **self.arguments)


class SilenceView(ApiView):
    """One silence."""

    serializer_class = shapes.SilenceRow
    rights = {"GET": Right.READ, "DELETE": Right.CHANGE_ALERTS}

    def get(self, request: Request, silence: str) -> Response:
        """Return one silence."""
        return self.one(silence_service.SILENCE.one(with_id(Silence.objects.all(), silence), silence))

    @extend_schema(operation_id="silences_end")
    def delete(self, request: Request, silence: str) -> Change:
        """End a silence now. It remains in the list."""
        return silence_service.end_silence(silence, now=timezone.now(), **self.versioned_arguments)


# --- channels ---------------------------------------------------------------------------------------------------------


class AlertChannelsView(ListView):
    """List the channels that rules can use."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_CLUSTER}
    serializer_class = shapes.AlertChannelRow
    bodies = {"POST": shapes.NewAlertChannel}
    rows = staticmethod(AlertChannel.objects.all)
    filters = {
        "search": PartFilter("name", label="words that occur in the name"),
        "kind": django_filters.ChoiceFilter(choices=ChannelKind.choices),
        "is_enabled": TruthFilter("is_enabled"),
    }
    ordering_fields = ("name", "kind", "is_enabled", "last_success_at", "last_failure_at", "created_at", "updated_at")
    ordering = ("name",)

    def post(self, request: Request) -> Change:
        """Create a channel: email with `addresses`, a webhook or a chat with `url`."""
        values = self.body()
        kind = values.pop("kind")
        return channel_service.create_channel(kind, values, **self.arguments)


class AlertChannelView(ApiView):
    """One channel."""

    serializer_class = shapes.AlertChannelRow
    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_CLUSTER, "DELETE": Right.CHANGE_CLUSTER}
    bodies = {"PATCH": shapes.AlertChannelChange}

    def get(self, request: Request, channel: str) -> Response:
        """Return one channel."""
        return self.one(channel_service.ALERT_CHANNEL.one(with_id(AlertChannel.objects.all(), channel), channel))

    def patch(self, request: Request, channel: str) -> Change:
        """Update a channel; omitted fields keep their value. A URL with another origin removes the secret and headers unless the
        body contains them.
        """
        return channel_service.update_channel(channel, self.body(), **self.versioned_arguments)

    def delete(self, request: Request, channel: str) -> Change:
        """Delete a channel. It must not be used by a rule."""
        return channel_service.delete_channel(channel, **self.versioned_arguments)


class TestChannelView(ApiView):
    """Send a test notification and return the result. A dry run only checks whether requests to the host are allowed."""

    rights = {"POST": Right.CHANGE_CLUSTER}
    answers = {"POST": shapes.ChannelTest}

    def post(self, request: Request, channel: str) -> Response:
        outcome = channel_service.try_channel(channel, now=timezone.now(), **self.arguments)
        return Response(outcome)
