"""What the console itself remembers: answers given to repeated requests, and runs of background jobs."""

from datetime import datetime, timedelta

from django.db import models

from metaserver.versioned import Versioned

ANSWERS_KEPT = timedelta(hours=24)
"""How long the answer of a POST is returned again."""


class IdempotencyKey(models.Model):
    """The stored answer of a POST, returned when it is repeated with the same key."""

    key = models.CharField(max_length=64, unique=True)
    """Digest of the caller and the key."""
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    """Null while the first request runs."""
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return f"{self.key[:8]} {self.status}"


class BackgroundJob(models.Model):
    """A background job: who may run it now, and how its last run went."""

    name = models.CharField(max_length=50, unique=True)
    holder = models.CharField(max_length=100, blank=True)
    held_until = models.DateTimeField(null=True)
    is_enabled = models.BooleanField(default=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=500, blank=True)
    result_parts = models.JSONField(default=list)
    """Parts of the result, for other languages than English."""
    error = models.CharField(max_length=500, blank=True)
    """Why the last run failed, in a sentence; "" if it succeeded."""
    error_parts = models.JSONField(default=list)
    """Parts of the error, for other languages than English; empty: only the sentence is known."""
    error_details = models.TextField(blank=True, default="")
    """What the sentence leaves out, such as the end of a program's output."""
    runs = models.BigIntegerField(default=0)
    failures = models.BigIntegerField(default=0)
    state = models.JSONField(default=dict)
    """What the job remembers from run to run."""

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def is_new(self, at: datetime) -> bool:
        """Whether it has not been due yet, or runs for the first time."""
        if self.succeeded_at is not None or self.failures:
            return False
        return self.started_at is None or (self.held_until is not None and self.held_until > at)


class DeadLetterDecision(models.Model):
    """What was decided about one dead letter. The log that holds dead letters is append-only: this is what hides or marks them."""

    class State(models.TextChoices):
        """How far a decision is."""

        REPLAYING = "replaying"
        """A request is processing it, or ended without a recorded result."""
        UNKNOWN = "unknown"
        """It was sent, and it is unknown whether it was stored; sending it again uses the same message ID."""
        REPLAYED = "replayed"
        DELETED = "deleted"

    subject = models.CharField(max_length=100)
    group = models.CharField(max_length=200)
    broker_group = models.CharField(max_length=100)
    sequence = models.BigIntegerField()
    message_id = models.CharField(max_length=100)
    """The dead letter's: a node that lost its log numbers messages again from 0, and a decision must not apply to another dead
    letter.
    """
    state = models.CharField(max_length=10, choices=State.choices)
    replays = models.PositiveIntegerField(default=0)
    """How often it was replayed for sure."""
    replayed_to = models.CharField(max_length=10, blank=True)
    """"group", "subject" or "other"."""
    other_subject = models.CharField(max_length=100, blank=True)
    """Of a replay to another subject: which."""
    replay_id = models.CharField(max_length=100, blank=True)
    """The message id that the newest replay has."""
    by = models.CharField(max_length=200)
    at = models.DateTimeField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("subject", "group", "broker_group", "sequence"), name="one_decision_per_letter"
            ),
        )
        ordering = ("subject", "group", "broker_group", "sequence")

    def __str__(self) -> str:
        return f"{self.subject}/{self.group} {self.broker_group}:{self.sequence} {self.state}"


class SystemEvent(models.Model):
    """What the collector saw of a node or background job, for the feed of events. Changes of metadata are in the audit log, and
    alerts in a table of their own."""

    id = models.BigIntegerField(primary_key=True)
    """That of the live feed `/ws/events/`."""
    at = models.DateTimeField(db_index=True)
    kind = models.CharField(max_length=20)
    """An `EventKind`."""
    severity = models.CharField(max_length=10)
    """An `EventSeverity`."""
    target = models.CharField(max_length=100)
    """A node ID, or the name of a job."""
    broker_group = models.CharField(max_length=100, blank=True)
    """That of the node."""
    before = models.CharField(max_length=100, blank=True)
    after = models.CharField(max_length=100, blank=True)
    reason = models.CharField(max_length=500, blank=True)
    why = models.JSONField(null=True)
    """The reason with its code (`qmq.protocol.reasons`), where a node reported one."""

    class Meta:
        indexes = (models.Index(fields=("broker_group", "at"), name="system_event_of_group"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.target} {self.at:%Y-%m-%d %H:%M:%S}"


class SavedFilter(Versioned):
    """A filter of messages with a name: a user's own, or a team's."""

    subject = models.CharField(max_length=100)
    team = models.CharField(max_length=60, blank=True)
    """A team's name; "": it is the user's."""
    username = models.CharField(max_length=150, blank=True)
    """Whose it is; "" for a team's."""
    name = models.CharField(max_length=60)
    filter = models.TextField()
    made_by = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("subject", "team", "username", "name"), name="one_saved_filter_per_name"),
        )
        ordering = ("subject", "name", "id")

    def __str__(self) -> str:
        return f"{self.subject} {self.name}"
