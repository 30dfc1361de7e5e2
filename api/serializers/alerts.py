"""Serializers of alerts, rules, silences and channels."""

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from api.serializers.bodies import Body, Names, NullText, Reason, Row, Strings
from api.serializers.reasons import Explanation
from console.accounts.roles import Right
from console.alerts.models import AlertState, ChannelKind, NotificationState, Resolution
from console.alerts.past import Source
from console.alerts.rules import Event, Kind, Severity
from console.alerts.services.channels import ALERT_CHANNEL
from console.alerts.services.channels import KIND as CHANNEL_KIND
from console.alerts.services.rules import ALERT_RULE
from console.alerts.services.rules import KIND as RULE_KIND
from console.alerts.services.silences import FIELDS
from console.alerts.wording import Language
from console.times import rfc3339

KINDS = [kind.value for kind in Kind]
SEVERITIES = [severity.value for severity in Severity]
ALERT_STATES = [state.value for state in AlertState]
RESOLUTIONS = [resolution.value for resolution in Resolution]
CHANNEL_KINDS = [kind.value for kind in ChannelKind]
LANGUAGES = [language.value for language in Language]
NOTIFICATION_STATES = [state.value for state in NotificationState]
EVENTS = [event.value for event in Event]


class AlertRuleChange(Reason):
    """A change of a rule; omitted fields keep their value."""

    rules = ALERT_RULE.fields


class NewAlertRule(Reason):
    """A new rule."""

    rules = {**ALERT_RULE.fields, "kind": RULE_KIND}
    needed = ("name", "kind", "threshold", "severity")


class AlertRuleRow(Row):
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
    channels = Names()
    is_notifying = serializers.SerializerMethodField(help_text="whether a channel of it is enabled")
    owner = NullText(help_text="the team that can change the rule; null: any operator can")
    is_enabled = serializers.BooleanField()
    is_builtin = serializers.SerializerMethodField(help_text="built-in rules can be disabled but not deleted")
    firing = serializers.IntegerField(source="firing_count", help_text="firing alerts of this rule")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_is_builtin(self, rule: Any) -> bool:
        """Whether it is a built-in rule."""
        return rule.builtin is not None

    def get_is_notifying(self, rule: Any) -> bool:
        """Whether anyone is notified when it fires."""
        return any(channel.is_enabled for channel in rule.channels.all())


class AboveNow(Row):
    """A target whose value is above the threshold."""

    target = serializers.CharField()
    value = serializers.FloatField()
    retries = serializers.IntegerField(allow_null=True, help_text="pending retries in the value")


class OftenRow(Row):
    """A target for which the rule would have fired."""

    target = serializers.CharField()
    count = serializers.IntegerField()


class SpanRow(Row):
    """A range of time whose stored values were evaluated."""

    stored_in = serializers.ChoiceField([source.value for source in Source], source="source")
    begin = serializers.SerializerMethodField()
    end = serializers.SerializerMethodField()

    @extend_schema_field(serializers.DateTimeField())
    def get_begin(self, span: Any) -> str:
        """When it begins."""
        return rfc3339(int(span.begin * 1000))

    @extend_schema_field(serializers.DateTimeField())
    def get_end(self, span: Any) -> str:
        """When it ends."""
        return rfc3339(int(span.end * 1000))


class RulePast(Row):
    """How often a rule would have fired in the last 24 hours."""

    count = serializers.IntegerField()
    targets_count = serializers.IntegerField(help_text="targets for which it would have fired")
    targets = OftenRow(many=True, help_text="the most frequent ones")
    spans = SpanRow(many=True, help_text="what was evaluated; empty: no values of this kind are stored")
    left_out = serializers.IntegerField(help_text="targets whose past was not evaluated")


class RulePreview(Row):
    """What a rule would do."""

    matched = serializers.IntegerField(help_text="targets that the rule means")
    above = serializers.IntegerField(help_text="targets whose value is above the threshold now")
    unmeasured = serializers.IntegerField(help_text="targets that can't be measured now")
    targets = AboveNow(many=True, help_text="those with the highest values")
    past = RulePast()
    fired = serializers.IntegerField(
        allow_null=True, help_text="how often the stored rule did fire in the last 24 hours; null: none was named"
    )
    reason = serializers.CharField(allow_null=True, default=None, help_text="why live data is missing; null: it is not")


class AlertRow(Row):
    """An alert."""

    # The context's `is_silenced` matches an alert against the silences of now.

    id = serializers.CharField()
    rule = serializers.CharField(source="rule_name", help_text="the rule's name")
    rule_id = serializers.CharField(allow_null=True, help_text="null: the rule was deleted")
    kind = serializers.ChoiceField(KINDS)
    target = serializers.CharField()
    owner = NullText()
    severity = serializers.ChoiceField(SEVERITIES)
    threshold = serializers.FloatField()
    state = serializers.ChoiceField(ALERT_STATES)
    since = serializers.DateTimeField()
    fired_at = serializers.DateTimeField(allow_null=True)
    resolved_at = serializers.DateTimeField(allow_null=True)
    resolution = serializers.SerializerMethodField()
    value = serializers.FloatField(help_text="when it fired; while pending, when the condition was first met")
    last_value = serializers.FloatField(allow_null=True, help_text="null: not measured, see reason")
    retries = serializers.IntegerField(
        allow_null=True,
        help_text="pending retries of the group, which its lag contains; null: not measured, or of another kind",
    )
    reason = NullText()
    why = Explanation(allow_null=True, help_text="the cause as it was known when the alert fired")
    last_seen_at = serializers.DateTimeField()
    is_silenced = serializers.SerializerMethodField()
    acknowledged_by = NullText()
    acknowledged_at = serializers.DateTimeField(allow_null=True)
    acknowledgement = NullText()
    notified = serializers.IntegerField(source="notified_count", help_text="notifications that were delivered")
    not_notified = serializers.IntegerField(source="failed_count", help_text="notifications that failed permanently")
    version = serializers.CharField()

    @extend_schema_field(serializers.ChoiceField(RESOLUTIONS, allow_null=True))
    def get_resolution(self, alert: Any) -> str | None:
        """Why the alert resolved; None: it has not."""
        return alert.resolution or None

    def get_is_silenced(self, alert: Any) -> bool:
        """Whether its notifications are suppressed now."""
        return alert.open_key is not None and self.context["is_silenced"](alert)


class NotificationRow(Row):
    """A notification of an alert."""

    channel = serializers.CharField(source="channel.name")
    event = serializers.ChoiceField(EVENTS)
    state = serializers.ChoiceField(NOTIFICATION_STATES)
    attempts = serializers.IntegerField()
    next_at = serializers.DateTimeField(allow_null=True)
    last_error = NullText()
    created_at = serializers.DateTimeField()
    delivered_at = serializers.DateTimeField(allow_null=True)

    def to_representation(self, instance: Any) -> dict[str, Any]:
        row = super().to_representation(instance)
        if instance.state != NotificationState.WAITING:
            row["next_at"] = None
        return row | ({} if is_admin(self) else {"last_error": None})


def is_admin(shape: serializers.Serializer) -> bool:  # type: ignore[type-arg]
    """Whether the caller can see the destinations of notifications."""
    may: bool = shape.context["view"].principal.may(Right.CHANGE_CLUSTER)
    return may


class AlertDetail(AlertRow):
    """An alert with its notifications."""

    notifications = NotificationRow(many=True)


class NewSilence(Body):
    """A new silence."""

    rules = FIELDS
    needed = ("reason",)
    defaults = {"rule": "*", "target": "*"}
    starts_at = serializers.DateTimeField(required=False, allow_null=True, help_text="null: now")
    ends_at = serializers.DateTimeField(help_text="at most 30 days later")


class SilenceRow(Row):
    """A silence."""

    id = serializers.CharField()
    rule = serializers.CharField()
    target = serializers.CharField()
    owner = NullText()
    is_system = serializers.BooleanField(help_text="whether it applies to all alerts regardless of their owner")
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField()
    is_active = serializers.SerializerMethodField()
    created_by = serializers.CharField()
    ended_by = NullText()
    created_at = serializers.DateTimeField()
    version = serializers.CharField()

    def get_is_active(self, silence: Any) -> bool:
        """Whether it is active now."""
        active: bool = silence.starts_at <= timezone.now() < silence.ends_at
        return active


class AlertChannelChange(Reason):
    """A change of a channel; omitted fields keep their value. URL, secret and header values can't be read again."""

    rules = ALERT_CHANNEL.fields


class NewAlertChannel(Reason):
    """A new channel."""

    rules = {**ALERT_CHANNEL.fields, "kind": CHANNEL_KIND}
    needed = ("name", "kind")


class AlertChannelRow(Row):
    """A channel. Fields for administrators only are null for other users."""

    id = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(CHANNEL_KINDS)
    is_enabled = serializers.BooleanField()
    origin = NullText(help_text="scheme, host and port of the URL; administrators only")
    addresses = Strings(allow_null=True, help_text="administrators only")
    headers = Strings(source="header_names", allow_null=True, help_text="names; administrators only")
    has_secret = serializers.BooleanField()
    language = serializers.ChoiceField(LANGUAGES, help_text="of emails and messages to chats")
    paused_until = serializers.DateTimeField(
        allow_null=True, help_text="nothing is sent before this time, because the server limited the rate"
    )
    last_success_at = serializers.DateTimeField(allow_null=True)
    last_failure_at = serializers.DateTimeField(allow_null=True)
    last_error = NullText(help_text="administrators only")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def to_representation(self, instance: Any) -> dict[str, Any]:
        row = super().to_representation(instance)
        hidden = dict.fromkeys(("origin", "addresses", "headers", "last_error"))
        return row | ({} if is_admin(self) else hidden)


class ChannelTest(serializers.Serializer):  # type: ignore[type-arg]
    """Result of a test notification."""

    target = serializers.CharField()
    dry_run = serializers.BooleanField()
    is_told = serializers.BooleanField(help_text="in a dry run: whether requests to the host are allowed")
    code = serializers.CharField(allow_blank=True, help_text="empty if it succeeded")
    detail = serializers.CharField()
