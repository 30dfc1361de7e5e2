"""The shape of alerts, rules, silences and channels. What values mean is checked by the services."""

from rest_framework import serializers

from api.serializers.bodies import Body
from console.alerts.models import AlertState, ChannelKind, NotificationState, Resolution
from console.alerts.rules import Event, Kind, Severity

_SECONDS_MAX = 7 * 86_400


KINDS = [kind.value for kind in Kind]
SEVERITIES = [severity.value for severity in Severity]
ALERT_STATES = [state.value for state in AlertState]
RESOLUTIONS = [resolution.value for resolution in Resolution]
CHANNEL_KINDS = [kind.value for kind in ChannelKind]
NOTIFICATION_STATES = [state.value for state in NotificationState]
EVENTS = [event.value for event in Event]


class AlertRuleChange(Body):
    """A change of a rule; what is left out stays."""

    name = serializers.CharField(required=False, max_length=100)
    target = serializers.CharField(
        required=False, max_length=300,
        help_text="a glob on subject/group, node, broker group or loop; without '/', on the subject alone too",
    )  # fmt: skip
    threshold = serializers.FloatField(required=False, min_value=0, max_value=1e18)
    clear_threshold = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=1e18, help_text="null: 80% of the threshold"
    )
    for_seconds = serializers.IntegerField(required=False, min_value=0, max_value=_SECONDS_MAX)
    clear_for_seconds = serializers.IntegerField(required=False, min_value=0, max_value=_SECONDS_MAX)
    window_seconds = serializers.IntegerField(
        required=False,
        min_value=60,
        max_value=3_600,
        help_text="for dead letters: the window in which they are counted",
    )
    severity = serializers.ChoiceField(SEVERITIES, required=False)
    channels = serializers.ListField(
        child=serializers.CharField(max_length=100), required=False, max_length=10, help_text="names"
    )
    owner = serializers.CharField(
        required=False, allow_null=True, max_length=60,
        help_text="the team that may change the rule; of a rule about one subject, the subject's owner",
    )  # fmt: skip
    is_enabled = serializers.BooleanField(required=False)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class NewAlertRule(AlertRuleChange):
    """A rule to make."""

    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(KINDS)
    threshold = serializers.FloatField(min_value=0, max_value=1e18)
    severity = serializers.ChoiceField(SEVERITIES)


class AlertRuleRow(serializers.Serializer):  # type: ignore[type-arg]
    """A rule."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(KINDS)
    target = serializers.CharField()
    threshold = serializers.FloatField()
    clear_threshold = serializers.FloatField()
    for_seconds = serializers.IntegerField()
    clear_for_seconds = serializers.IntegerField()
    window_seconds = serializers.IntegerField()
    severity = serializers.ChoiceField(SEVERITIES)
    channels = serializers.ListField(child=serializers.CharField())
    owner = serializers.CharField(
        allow_null=True, help_text="the team that can change the rule; null: any operator can"
    )
    is_enabled = serializers.BooleanField()
    is_builtin = serializers.BooleanField(help_text="built-in rules can be disabled but not deleted")
    firing = serializers.IntegerField(help_text="firing alerts of this rule")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class AlertRow(serializers.Serializer):  # type: ignore[type-arg]
    """An alert."""

    id = serializers.CharField()
    rule = serializers.CharField(help_text="the rule's name")
    rule_id = serializers.CharField(allow_null=True, help_text="null: the rule was deleted")
    kind = serializers.ChoiceField(KINDS)
    target = serializers.CharField()
    owner = serializers.CharField(allow_null=True)
    severity = serializers.ChoiceField(SEVERITIES)
    threshold = serializers.FloatField()
    state = serializers.ChoiceField(ALERT_STATES)
    since = serializers.DateTimeField()
    fired_at = serializers.DateTimeField(allow_null=True)
    resolved_at = serializers.DateTimeField(allow_null=True)
    resolution = serializers.ChoiceField(RESOLUTIONS, allow_null=True)
    value = serializers.FloatField(help_text="when it fired; while pending, when the condition was first met")
    last_value = serializers.FloatField(allow_null=True, help_text="null: not measured, see reason")
    reason = serializers.CharField(allow_null=True)
    last_seen_at = serializers.DateTimeField()
    is_silenced = serializers.BooleanField()
    acknowledged_by = serializers.CharField(allow_null=True)
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    acknowledgement = serializers.CharField(allow_null=True)
    notified = serializers.IntegerField(help_text="notifications that were delivered")
    not_notified = serializers.IntegerField(help_text="notifications that failed permanently")
    version = serializers.CharField()


class NotificationRow(serializers.Serializer):  # type: ignore[type-arg]
    """A notification of an alert."""

    channel = serializers.CharField()
    event = serializers.ChoiceField(EVENTS)
    state = serializers.ChoiceField(NOTIFICATION_STATES)
    attempts = serializers.IntegerField()
    next_at = serializers.DateTimeField(allow_null=True)
    last_error = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    delivered_at = serializers.DateTimeField(allow_null=True)


class AlertDetail(AlertRow):
    """An alert with its notifications."""

    notifications = NotificationRow(many=True)


class NewSilence(Body):
    """A silence to make."""

    rule = serializers.CharField(required=False, default="*", max_length=300, help_text="glob on rule names")
    target = serializers.CharField(required=False, default="*", max_length=300, help_text="glob on targets")
    owner = serializers.CharField(
        required=False, allow_null=True, max_length=60,
        help_text="the team whose alerts are silenced, besides those of unowned subjects; null: of administrators, all alerts",
    )  # fmt: skip
    starts_at = serializers.DateTimeField(required=False, allow_null=True, help_text="null: now")
    ends_at = serializers.DateTimeField(help_text="at most 30 days later")
    reason = serializers.CharField(max_length=500)


class SilenceRow(serializers.Serializer):  # type: ignore[type-arg]
    """A silence."""

    id = serializers.CharField()
    rule = serializers.CharField()
    target = serializers.CharField()
    owner = serializers.CharField(allow_null=True)
    is_system = serializers.BooleanField(help_text="whether it applies to all alerts regardless of their owner")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    is_active = serializers.BooleanField()
    created_by = serializers.CharField()
    ended_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    version = serializers.CharField()


class AlertChannelChange(Body):
    """A change of a channel; what is left out stays. URL, secret and headers' values can't be read again."""

    name = serializers.CharField(required=False, max_length=100)
    is_enabled = serializers.BooleanField(required=False)
    url = serializers.CharField(required=False, max_length=1_000, write_only=True)
    secret = serializers.CharField(
        required=False, allow_null=True, min_length=16, max_length=200, write_only=True, trim_whitespace=False,
        help_text="signs each notification (X-QMQ-Signature, HMAC-SHA256); null: no signature",
    )  # fmt: skip
    headers = serializers.DictField(
        child=serializers.CharField(max_length=500, allow_blank=True), required=False, write_only=True
    )
    addresses = serializers.ListField(child=serializers.CharField(max_length=254), required=False, max_length=20)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class NewAlertChannel(AlertChannelChange):
    """A channel to make."""

    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(CHANNEL_KINDS)


class AlertChannelRow(serializers.Serializer):  # type: ignore[type-arg]
    """A channel. What only administrators see is null for others."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(CHANNEL_KINDS)
    is_enabled = serializers.BooleanField()
    origin = serializers.CharField(allow_null=True, help_text="scheme, host and port of the URL; administrators only")
    addresses = serializers.ListField(child=serializers.CharField(), allow_null=True, help_text="administrators only")
    headers = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="names; administrators only"
    )
    has_secret = serializers.BooleanField()
    last_success_at = serializers.DateTimeField(allow_null=True)
    last_failure_at = serializers.DateTimeField(allow_null=True)
    last_error = serializers.CharField(allow_null=True, help_text="administrators only")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ChannelTest(serializers.Serializer):  # type: ignore[type-arg]
    """What a test of a channel did."""

    target = serializers.CharField()
    dry_run = serializers.BooleanField()
    is_told = serializers.BooleanField(help_text="in a dry run: whether requests to the host are allowed")
    code = serializers.CharField(allow_blank=True, help_text="empty if it succeeded")
    detail = serializers.CharField()
