"""/alerts/, /alert-rules/, /silences/, /alert-channels/."""

from typing import Any

import django_filters
from django.db.models import QuerySet
from django.utils import timezone
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from api.base import ApiView
from api.filters import Ordering, PartFilter, PrefixFilter, TruthFilter, containing
from api.schema import MADE, ChangeSerializer
from api.serializers import alerts as shapes
from api.serializers.bodies import Reason
from console.accounts.roles import Principal, Right
from console.alerts import queries
from console.alerts.models import AlertState, ChannelKind
from console.alerts.rules import Kind, Severity
from console.alerts.services import alerts as alert_service
from console.alerts.services import channels as channel_service
from console.alerts.services import rules as rule_service
from console.alerts.services import silences as silence_service
from console.alerts.services.values import row_id
from metaserver.services.changes import NotFound

NOTIFICATIONS_SHOWN_MAX = 50
_KINDS = [(kind.value, kind.value) for kind in Kind]
_SEVERITIES = [(severity.value, severity.value) for severity in Severity]


def _values(shape: Any, data: Any) -> dict[str, Any]:
    """The body's values without the reason. Raises 400."""
    checked = shape(data=data)
    checked.is_valid(raise_exception=True)
    values = dict(checked.validated_data)
    values.pop("reason", None)
    return values


# --- rules ------------------------------------------------------------------------------------------------------------


class AlertRuleFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of rules can be narrowed by."""

    search = PartFilter("name", label="substring of the name")
    kind = django_filters.ChoiceFilter(choices=_KINDS)
    severity = django_filters.ChoiceFilter(choices=_SEVERITIES)
    owner = django_filters.CharFilter("owner", label="team")
    channel = django_filters.CharFilter("channels__name", label="name of a channel")
    is_enabled = TruthFilter("is_enabled")
    is_builtin = TruthFilter("builtin", "isnull", exclude=True)


def rule_row(rule: Any) -> dict[str, Any]:
    """A rule as lists and details show it."""
    return {
        **rule_service.described(rule),
        "id": str(rule.pk),
        "is_builtin": rule.builtin is not None,
        "firing": rule.firing_count,
        "version": str(rule.version),
        "created_at": rule.created_at,
        "updated_at": rule.updated_at,
    }


class AlertRulesView(ApiView):
    """Rules."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_ALERTS}
    serializer_class = shapes.AlertRuleRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = AlertRuleFilter
    ordering_fields = ("name", "kind", "owner", "is_enabled", "created_at", "updated_at")
    ordering = ("name",)

    def get_queryset(self) -> "QuerySet[Any]":
        return queries.rules()

    @extend_schema(operation_id="alert_rules_list", responses=shapes.AlertRuleRow(many=True))
    def get(self, request: Request) -> Response:
        """List rules."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([rule_row(item) for item in page or []])

    @extend_schema(operation_id="alert_rules_create", request=shapes.NewAlertRule, responses=MADE)
    def post(self, request: Request) -> Response:
        """Make a rule."""
        values = _values(shapes.NewAlertRule, request.data)
        kind = values.pop("kind")
        change = rule_service.create_rule(kind, values, actor=self.actor, reason=self.reason, dry_run=self.dry_run)
        return self.changed(change, 201)


class AlertRuleView(ApiView):
    """One rule."""

    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_ALERTS, "DELETE": Right.CHANGE_ALERTS}

    @extend_schema(operation_id="alert_rules_get", responses=shapes.AlertRuleRow)
    def get(self, request: Request, rule: str) -> Response:
        """One rule."""
        found = queries.rules().filter(pk=row_id("alert_rule", rule)).first()
        if found is None:
            raise NotFound(f"Alert rule {rule} not found.", code="alert_rule.unknown")
        return self.tagged(rule_row(found), found.version)

    @extend_schema(operation_id="alert_rules_update", request=shapes.AlertRuleChange, responses=ChangeSerializer)
    def patch(self, request: Request, rule: str) -> Response:
        """Change what the body names."""
        values = _values(shapes.AlertRuleChange, request.data)
        change = rule_service.update_rule(
            rule, values, actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)

    @extend_schema(operation_id="alert_rules_delete", responses=ChangeSerializer)
    def delete(self, request: Request, rule: str) -> Response:
        """Delete a rule; its open alerts end. Those that come with the product can only be disabled."""
        change = rule_service.delete_rule(
            rule, actor=self.actor, reason=self.reason, expected_version=self.expected_version, dry_run=self.dry_run
        )
        return self.changed(change)


# --- alerts -----------------------------------------------------------------------------------------------------------


class AlertFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of alerts can be narrowed by."""

    state = django_filters.MultipleChoiceFilter(choices=AlertState.choices)
    is_open = TruthFilter("open_key", "isnull", exclude=True, label="pending or firing")
    severity = django_filters.ChoiceFilter(choices=_SEVERITIES)
    kind = django_filters.ChoiceFilter(choices=_KINDS)
    target = django_filters.CharFilter("target", label="exact target, such as subject/group")
    target_prefix = PrefixFilter("target", label="prefix of the target, such as subject/")
    target_contains = PartFilter("target", label="case-insensitive substring of the target")
    rule = PartFilter("rule_name", label="substring of the rule's name")
    owner = django_filters.CharFilter("owner", label="team")
    search = django_filters.CharFilter(method="by_text", label="substring of the rule's name, the target or the team")
    is_acknowledged = TruthFilter("acknowledged_at", "isnull", exclude=True)

    def by_text(self, rows: "QuerySet[Any]", name: str, value: str) -> "QuerySet[Any]":
        """Alerts that have the text somewhere."""
        return containing(rows, value, "rule_name", "target", "owner")


def alert_row(alert: Any, is_silenced: silence_service.IsSilenced) -> dict[str, Any]:
    """An alert as lists and details show it."""
    return {
        "id": str(alert.pk),
        "rule": alert.rule_name,
        "rule_id": None if alert.rule_id is None else str(alert.rule_id),
        "kind": alert.kind,
        "target": alert.target,
        "owner": alert.owner or None,
        "severity": alert.severity,
        "threshold": alert.threshold,
        "state": alert.state,
        "since": alert.since,
        "fired_at": alert.fired_at,
        "resolved_at": alert.resolved_at,
        "resolution": alert.resolution or None,
        "value": alert.value,
        "last_value": alert.last_value,
        "reason": alert.reason or None,
        "last_seen_at": alert.last_seen_at,
        "is_silenced": alert.open_key is not None and is_silenced(alert),
        "acknowledged_by": alert.acknowledged_by or None,
        "acknowledged_at": alert.acknowledged_at,
        "acknowledgement": alert.acknowledgement or None,
        "notified": alert.notified_count,
        "not_notified": alert.failed_count,
        "version": str(alert.version),
    }


class AlertsView(ApiView):
    """Alerts."""

    rights = {"GET": Right.READ}
    serializer_class = shapes.AlertRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = AlertFilter
    ordering_fields = ("since", "place", "rule", "target", "owner", "state", "value", "fired_at", "resolved_at")
    ordering_paths = {"rule": "rule_name"}
    ordering = ("-place", "-id")

    def get_queryset(self) -> "QuerySet[Any]":
        return queries.alerts()

    @extend_schema(operation_id="alerts_list", responses=shapes.AlertRow(many=True))
    def get(self, request: Request) -> Response:
        """List alerts: open ones first, then those that ended, the newest of each first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        is_silenced = silence_service.silenced_at(timezone.now())
        return self.get_paginated_response([alert_row(item, is_silenced) for item in page or []])


class AlertView(ApiView):
    """One alert."""

    rights = {"GET": Right.READ}

    @extend_schema(operation_id="alerts_get", responses=shapes.AlertDetail)
    def get(self, request: Request, alert: str) -> Response:
        """One alert with its notifications."""
        found = queries.alerts().filter(pk=row_id("alert", alert)).first()
        if found is None:
            raise NotFound(f"Alert {alert} not found.", code="alert.unknown")
        shows_errors = self.principal.may(Right.CHANGE_CLUSTER)
        notifications = [
            {
                "channel": item.channel.name,
                "event": item.event,
                "state": item.state,
                "attempts": item.attempts,
                "next_at": item.next_at if item.state == "waiting" else None,
                "last_error": (item.last_error or None) if shows_errors else None,
                "created_at": item.created_at,
                "delivered_at": item.delivered_at,
            }
            for item in found.notifications.select_related("channel")[:NOTIFICATIONS_SHOWN_MAX]
        ]
        row = alert_row(found, silence_service.silenced_at(timezone.now()))
        return self.tagged({**row, "notifications": notifications}, found.version)


class AcknowledgeView(ApiView):
    """Acknowledging."""

    rights = {"POST": Right.CHANGE_ALERTS}
    versioned_methods = frozenset({"POST"})

    @extend_schema(operation_id="alerts_acknowledge", request=Reason, responses=ChangeSerializer)
    def post(self, request: Request, alert: str) -> Response:
        """Say that you have it in hand; the reason is shown with the alert."""
        change = alert_service.acknowledge(
            alert, now=timezone.now(), actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)


# --- silences ---------------------------------------------------------------------------------------------------------


class SilenceFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of silences can be narrowed by."""

    rule = PartFilter("rule", label="substring of the rule pattern")
    target = django_filters.CharFilter("target", label="exact target pattern")
    target_contains = PartFilter("target", label="case-insensitive substring of the target pattern")
    created_by = django_filters.CharFilter("created_by", label="username of the creator")
    is_active = TruthFilter(method="active", label="whether it is active now")

    def active(self, queryset: "QuerySet[Any]", name: str, value: bool) -> "QuerySet[Any]":
        """Those that hold now, or the others."""
        holds = queries.is_active(timezone.now())
        return queryset.filter(holds) if value else queryset.exclude(holds)


def silence_row(silence: Any) -> dict[str, Any]:
    """A silence as lists and details show it."""
    return {
        "id": str(silence.pk),
        "rule": silence.rule,
        "target": silence.target,
        "owner": silence.owner or None,
        "is_system": silence.is_system,
        "starts_at": silence.starts_at,
        "ends_at": silence.ends_at,
        "reason": silence.reason,
        "is_active": silence.starts_at <= timezone.now() < silence.ends_at,
        "created_by": silence.created_by,
        "ended_by": silence.ended_by or None,
        "created_at": silence.created_at,
        "version": str(silence.version),
    }


class SilencesView(ApiView):
    """Silences."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_ALERTS}
    serializer_class = shapes.SilenceRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = SilenceFilter
    ordering_fields = ("id", "starts_at", "ends_at", "rule", "target", "created_by")
    ordering = ("-id",)

    def get_queryset(self) -> "QuerySet[Any]":
        return queries.silences()

    @extend_schema(operation_id="silences_list", responses=shapes.SilenceRow(many=True))
    def get(self, request: Request) -> Response:
        """List silences, the newest first."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([silence_row(item) for item in page or []])

    @extend_schema(operation_id="silences_create", request=shapes.NewSilence, responses=MADE)
    def post(self, request: Request) -> Response:
        """Tell nobody of certain alerts for a time; they are noticed and shown as ever."""
        values = _values(shapes.NewSilence, request.data)
        change = silence_service.create_silence(
            rule=values["rule"], target=values["target"], starts_at=values.get("starts_at"), ends_at=values["ends_at"],
            now=timezone.now(), owner=values.get("owner"), actor=self.actor, reason=self.reason, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change, 201)


class SilenceView(ApiView):
    """One silence."""

    rights = {"GET": Right.READ, "DELETE": Right.CHANGE_ALERTS}

    @extend_schema(operation_id="silences_get", responses=shapes.SilenceRow)
    def get(self, request: Request, silence: str) -> Response:
        """One silence."""
        found = queries.silences().filter(pk=row_id("silence", silence)).first()
        if found is None:
            raise NotFound(f"Silence {silence} not found.", code="silence.unknown")
        return self.tagged(silence_row(found), found.version)

    @extend_schema(operation_id="silences_end", responses=ChangeSerializer)
    def delete(self, request: Request, silence: str) -> Response:
        """End a silence now. It stays in the list."""
        change = silence_service.end_silence(
            silence, now=timezone.now(), actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)


# --- channels ---------------------------------------------------------------------------------------------------------


class AlertChannelFilter(django_filters.FilterSet):  # type: ignore[misc]
    """What a list of channels can be narrowed by."""

    search = PartFilter("name", label="substring of the name")
    kind = django_filters.ChoiceFilter(choices=ChannelKind.choices)
    is_enabled = TruthFilter("is_enabled")


def channel_row(channel: Any, principal: Principal) -> dict[str, Any]:
    """A channel as lists and details show it: where it goes is for administrators, its secrets for nobody."""
    is_admin = principal.may(Right.CHANGE_CLUSTER)
    return {
        "id": str(channel.pk),
        "name": channel.name,
        "kind": channel.kind,
        "is_enabled": channel.is_enabled,
        "origin": (channel.origin or None) if is_admin else None,
        "addresses": channel.addresses if is_admin else None,
        "headers": channel.header_names if is_admin else None,
        "has_secret": channel.has_secret,
        "last_success_at": channel.last_success_at,
        "last_failure_at": channel.last_failure_at,
        "last_error": (channel.last_error or None) if is_admin else None,
        "version": str(channel.version),
        "created_at": channel.created_at,
        "updated_at": channel.updated_at,
    }


class AlertChannelsView(ApiView):
    """Channels."""

    rights = {"GET": Right.READ, "POST": Right.CHANGE_CLUSTER}
    serializer_class = shapes.AlertChannelRow
    filter_backends = [DjangoFilterBackend, Ordering]
    filterset_class = AlertChannelFilter
    ordering_fields = ("name", "kind", "is_enabled", "last_success_at", "last_failure_at", "created_at", "updated_at")
    ordering = ("name",)

    def get_queryset(self) -> "QuerySet[Any]":
        return queries.channels()

    @extend_schema(operation_id="alert_channels_list", responses=shapes.AlertChannelRow(many=True))
    def get(self, request: Request) -> Response:
        """List channels; rules name them."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response([channel_row(item, self.principal) for item in page or []])

    @extend_schema(operation_id="alert_channels_create", request=shapes.NewAlertChannel, responses=MADE)
    def post(self, request: Request) -> Response:
        """Make a channel: a webhook by its `url`, or e-mail by its `addresses`."""
        values = _values(shapes.NewAlertChannel, request.data)
        kind = values.pop("kind")
        change = channel_service.create_channel(
            kind, values, actor=self.actor, reason=self.reason, dry_run=self.dry_run
        )
        return self.changed(change, 201)


class AlertChannelView(ApiView):
    """One channel."""

    rights = {"GET": Right.READ, "PATCH": Right.CHANGE_CLUSTER, "DELETE": Right.CHANGE_CLUSTER}

    @extend_schema(operation_id="alert_channels_get", responses=shapes.AlertChannelRow)
    def get(self, request: Request, channel: str) -> Response:
        """One channel."""
        found = queries.channels().filter(pk=row_id("alert_channel", channel)).first()
        if found is None:
            raise NotFound(f"Alert channel {channel} not found.", code="alert_channel.unknown")
        return self.tagged(channel_row(found, self.principal), found.version)

    @extend_schema(operation_id="alert_channels_update", request=shapes.AlertChannelChange, responses=ChangeSerializer)
    def patch(self, request: Request, channel: str) -> Response:
        """Change what the body names. A URL with another origin drops secret and headers that are not given with it."""
        values = _values(shapes.AlertChannelChange, request.data)
        change = channel_service.update_channel(
            channel, values, actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)

    @extend_schema(operation_id="alert_channels_delete", responses=ChangeSerializer)
    def delete(self, request: Request, channel: str) -> Response:
        """Delete a channel that no rule uses."""
        change = channel_service.delete_channel(
            channel, actor=self.actor, reason=self.reason,
            expected_version=self.expected_version, dry_run=self.dry_run,
        )  # fmt: skip
        return self.changed(change)


class TestChannelView(ApiView):
    """Trying a channel."""

    rights = {"POST": Right.CHANGE_CLUSTER}

    @extend_schema(operation_id="alert_channels_test", request=Reason, responses=shapes.ChannelTest)
    def post(self, request: Request, channel: str) -> Response:
        """Send a test notification and say what happened; a dry run only asks whether the host is allowed."""
        told = channel_service.try_channel(
            channel, now=timezone.now(), actor=self.actor, reason=self.reason, dry_run=self.dry_run
        )
        return Response(told)
