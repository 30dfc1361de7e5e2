"""Serializers of subjects."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from api.serializers.bodies import MayChange, Reason, Row, Strings
from api.serializers.broker_groups import Waiting
from console.accounts.roles import Right
from metaserver.choices import Phase
from metaserver.services.subjects import SUBJECT


class SubjectChange(Reason):
    """A change of a subject; omitted fields keep their value. Null: no limit, or the brokers' default."""

    rules = SUBJECT.fields


class NewSubject(SubjectChange):
    """A new subject."""

    name = serializers.CharField(max_length=100, help_text="no slashes, whitespace or line breaks")


def Phases() -> serializers.DictField:
    """Broker group -> phase."""
    return serializers.DictField(
        child=serializers.ChoiceField(choices=[phase.value for phase in Phase]),
        help_text="phases of broker groups that are added or removed. joining: readable, not writable yet; leaving: writable until"
        " all joining groups are; draining: accepts no new messages, leaves when all its messages are acknowledged",
    )


class Route(serializers.Serializer):  # type: ignore[type-arg]
    """The broker groups that serve a subject."""

    broker_groups = Strings()
    phases = Phases()
    waiting = Waiting(many=True, help_text="what the next step of a move waits for, as of the last check")
    version = serializers.CharField()


class SubjectRow(Row):
    """A subject in a list."""

    rules = SUBJECT.fields
    owner = serializers.CharField(source="owner.name", allow_null=True, required=False, help_text="name of a team")
    name = serializers.CharField()
    is_archived = serializers.SerializerMethodField()
    archived_at = serializers.DateTimeField(allow_null=True)
    consumer_groups = serializers.IntegerField(source="consumer_group_count")
    broker_groups = serializers.SerializerMethodField()
    phases = serializers.SerializerMethodField()
    may_change = MayChange(Right.CHANGE_SUBJECTS, "owner.name", help_text="whether the caller can change it")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    def get_is_archived(self, subject: Any) -> bool:
        """Whether it is archived."""
        return subject.archived_at is not None

    def get_broker_groups(self, subject: Any) -> list[str]:
        """The broker groups that serve it; empty before its first client connects."""
        route = getattr(subject, "route", None)
        return [] if route is None else route.broker_groups

    @extend_schema_field(Phases())
    def get_phases(self, subject: Any) -> dict[str, str]:
        """Phases by broker group, see `Phases`."""
        route = getattr(subject, "route", None)
        return {} if route is None else route.phases


class FolderNumbers(serializers.Serializer):  # type: ignore[type-arg]
    """Numbers of a folder of subjects whose measurement is incomplete."""

    send_rate = serializers.FloatField(help_text="messages per second")
    highest_lag = serializers.IntegerField(allow_null=True, help_text="null: no consumer group is known")


class SubjectNode(serializers.Serializer):  # type: ignore[type-arg]
    """A folder of subjects, or a subject. Null: not measured; `reason` says why."""

    name = serializers.CharField(help_text="of a folder with the point at its end")
    is_folder = serializers.BooleanField()
    subjects = serializers.IntegerField(help_text="number of subjects in the folder and those below it")
    send_rate = serializers.FloatField(allow_null=True, help_text="messages per second, of all subjects together")
    highest_lag = serializers.IntegerField(
        allow_null=True, help_text="of all consumer groups; null without a reason: there are none"
    )
    at_least = FolderNumbers(allow_null=True, help_text="what is known while some numbers are not")
    reason = serializers.CharField(allow_null=True)


class SubjectTree(serializers.Serializer):  # type: ignore[type-arg]
    """What is in a folder of subjects, in the order of names."""

    at = serializers.DateTimeField(allow_null=True, help_text="time of measurement; null: not measured")
    reason = serializers.CharField(allow_null=True, help_text="why numbers are missing")
    results = SubjectNode(many=True)
    next = serializers.CharField(allow_null=True, help_text="pass it as ?cursor=")


class Placement(Reason):
    """The target broker groups of a subject. Groups that are not named drain and leave."""

    broker_groups = serializers.ListField(child=serializers.CharField(max_length=100), min_length=1, max_length=50)
