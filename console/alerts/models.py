"""Alert rules, alerts, silences and notifications."""

from django.db import models
from django.utils import timezone

from console.alerts.rules import Event, Kind, Severity
from metaserver.versioned import Versioned

TARGET_CHARS_MAX = 600
"""Maximum length of a target: the longest group twice, the longest subject, and the separators."""


class ChannelKind(models.TextChoices):
    """How a notification is delivered."""

    WEBHOOK = "webhook"
    EMAIL = "email"
    SLACK = "slack"
    DINGTALK = "dingtalk"
    FEISHU = "feishu"
    WECOM = "wecom"


class AlertState(models.TextChoices):
    """Where an alert is."""

    PENDING = "pending"
    """The value is above the threshold, not yet for long enough."""
    FIRING = "firing"
    RESOLVED = "resolved"


class Resolution(models.TextChoices):
    """Why an alert ended."""

    CLEARED = "cleared"
    TARGET_GONE = "target_gone"
    """The target has been missing for so long that it counts as removed."""
    RULE_CHANGED = "rule_changed"
    """The rule was disabled, or means other targets now."""
    RULE_DELETED = "rule_deleted"


class NotificationState(models.TextChoices):
    """Where a notification is."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


class AlertChannel(Versioned):
    """A webhook, a chat or a list of email addresses. Its secrets are in `sealed` only."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, choices=ChannelKind.choices)
    origin = models.CharField(max_length=300, blank=True)
    """Of the URL, what may be shown: scheme, host and port. The path is often a secret."""
    addresses = models.JSONField(default=list)
    header_names = models.JSONField(default=list)
    has_secret = models.BooleanField(default=False)
    sealed = models.TextField(blank=True)
    """URL, secret and headers, encrypted (`sealing.CHANNELS`)."""
    language = models.CharField(max_length=5, default="en")
    """Of what people read (wording.Language); a webhook's JSON has none."""
    is_enabled = models.BooleanField(default=True)
    paused_until = models.DateTimeField(null=True)
    """Nothing is sent before: the server limited the rate of messages."""
    last_success_at = models.DateTimeField(null=True)
    last_failure_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class AlertRule(Versioned):
    """What is to be noticed."""

    name = models.CharField(max_length=100, unique=True)
    builtin = models.CharField(max_length=50, null=True, unique=True)
    """The key of a rule that comes with the product; it can be changed and disabled, not deleted."""
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in Kind])
    target = models.CharField(max_length=300, default="*")
    """A glob on targets (rules.py)."""
    threshold = models.FloatField()
    clear_threshold = models.FloatField()
    for_seconds = models.PositiveIntegerField(default=0)
    clear_for_seconds = models.PositiveIntegerField(default=0)
    window_seconds = models.PositiveIntegerField(default=600)
    """Dead letters: how far back they are counted."""
    severity = models.CharField(max_length=10, choices=[(s.value, s.value) for s in Severity])
    channels = models.ManyToManyField(AlertChannel, blank=True, related_name="rules")
    owner = models.CharField(max_length=60, blank=True)
    """The team whose operators may change the rule, besides administrators: the owner of the subject when the rule is about one
    subject that has an owner. "": every operator may."""
    is_enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Alert(Versioned):
    """One occurrence. Its rule's words are copied: history outlives rules."""

    rule = models.ForeignKey(AlertRule, null=True, on_delete=models.SET_NULL, related_name="alerts")
    rule_name = models.CharField(max_length=100)
    kind = models.CharField(max_length=20, choices=[(k.value, k.value) for k in Kind], db_index=True)
    target = models.CharField(max_length=TARGET_CHARS_MAX, db_index=True)
    owner = models.CharField(max_length=60, blank=True, db_index=True)
    severity = models.CharField(max_length=10, choices=[(s.value, s.value) for s in Severity])
    threshold = models.FloatField()
    state = models.CharField(max_length=10, choices=AlertState.choices, db_index=True)
    since = models.DateTimeField()
    """When the value was first seen above the threshold."""
    held_from = models.DateTimeField(null=True)
    clear_from = models.DateTimeField(null=True)
    unknown_from = models.DateTimeField(null=True)
    """These three are the memory of rules.step."""
    fired_at = models.DateTimeField(null=True, db_index=True)
    resolved_at = models.DateTimeField(null=True, db_index=True)
    resolution = models.CharField(max_length=20, choices=Resolution.choices, blank=True)
    value = models.FloatField()
    """When it was opened, and again when it fired."""
    last_value = models.FloatField(null=True)
    """The newest; null when it can't be measured, `reason` says why."""
    retries = models.BigIntegerField(null=True)
    """Of a consumer group's lag: the pending retries that `last_value` contains; null: unknown, or of another kind."""
    reason = models.CharField(max_length=300, blank=True)
    why = models.JSONField(null=True)
    """The cause as it was known when the alert fired (`Reason.as_json`); null: the kind has none, or it is not known."""
    last_seen_at = models.DateTimeField()
    """When the target was last evaluated."""
    acknowledged_by = models.CharField(max_length=200, blank=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledgement = models.CharField(max_length=500, blank=True)
    announced_at = models.DateTimeField(null=True)
    """When notifications were created; null while there are none: pending, silenced."""
    notified_count = models.PositiveIntegerField(default=0)
    failed_count = models.PositiveIntegerField(default=0)
    """Notifications that failed permanently."""
    open_key = models.CharField(max_length=64, null=True, unique=True)
    """A digest of rule and target while the alert is open: so no database can contain two."""
    place = models.BigIntegerField(db_index=True)
    """What lists are ordered by: open alerts above all others, of these the critical ones first, then by age."""

    class Meta:
        ordering = ("-place", "-id")

    def __str__(self) -> str:
        return f"{self.rule_name}: {self.target} {self.state}"


class Silence(Versioned):
    """Suppresses notifications of alerts for a time. The alerts still fire and are shown."""

    rule = models.CharField(max_length=300, default="*")
    """A glob on rules' names."""
    target = models.CharField(max_length=300, default="*")
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField(db_index=True)
    owner = models.CharField(max_length=60, blank=True, default="")
    """The team whose alerts are silenced, and whose operators may end the silence. "": alerts of subjects without an owner."""
    is_system = models.BooleanField(default=True)
    """The silence applies to all alerts, whatever their owner; only administrators create and end such silences."""
    reason = models.CharField(max_length=500)
    created_by = models.CharField(max_length=200)
    ended_by = models.CharField(max_length=200, blank=True)
    """Who ended it before its time."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.rule}: {self.target} until {self.ends_at:%Y-%m-%d %H:%M}"


class Notification(models.Model):
    """One notification for one channel; written with the alert's change, delivered afterwards, at least once."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="notifications")
    channel = models.ForeignKey(AlertChannel, on_delete=models.CASCADE, related_name="notifications")
    event = models.CharField(max_length=10, choices=[(e.value, e.value) for e in Event])
    body = models.JSONField()
    state = models.CharField(max_length=10, choices=NotificationState.choices, default=NotificationState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField()
    last_error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(fields=("alert", "channel", "event"), name="told_once_per_channel_and_event"),
        )
        indexes = (models.Index(fields=("state", "next_at"), name="notification_due"),)

    def __str__(self) -> str:
        return f"{self.event} to {self.channel_id} {self.state}"


class DeadLetterCount(models.Model):
    """How many dead letters a group had, and when they came: what "in ten minutes" is counted from."""

    key = models.CharField(max_length=64, unique=True)
    """A digest of the target: names differ by case, and not every database's text does."""
    target = models.CharField(max_length=TARGET_CHARS_MAX, blank=True)
    """`subject/group`; "" for the row that says since when anything is counted."""
    count = models.BigIntegerField(default=0)
    arrivals = models.JSONField(default=list)
    """[seconds since the epoch, how many], oldest first."""
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.target} {self.count}"
