"""The shape of subjects."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from api.serializers.bodies import MayChange, Reason, Row
from console.accounts.roles import Right
from metaserver.choices import Phase
from metaserver.services.subjects import SUBJECT


class SubjectChange(Reason):
    """A change of a subject; what is left out stays. Null: no limit, or the node's default."""

    rules = SUBJECT.fields


class NewSubject(SubjectChange):
    """A subject to make."""

    name = serializers.CharField(max_length=100, help_text="no slashes, whitespace or line breaks")


def Phases() -> serializers.DictField:
    """Broker group -> phase."""
    return serializers.DictField(
        child=serializers.ChoiceField(choices=[phase.value for phase in Phase]),
        help_text="of broker groups that come or go: joining is read but not written yet, leaving is written until"
        " all have joined, draining takes nothing new and is read until it is empty",
    )


class Route(serializers.Serializer):  # type: ignore[type-arg]
    """Which broker groups serve a subject."""

    broker_groups = serializers.ListField(child=serializers.CharField())
    phases = Phases()
    waiting = serializers.ListField(
        child=serializers.CharField(), help_text="what the next step of a move waits for, as of the last check"
    )
    version = serializers.CharField()


class SubjectRow(Row):
    """A subject of a list."""

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
        """Those that serve it; none before its first client comes."""
        route = getattr(subject, "route", None)
        return [] if route is None else route.broker_groups

    @extend_schema_field(Phases())
    def get_phases(self, subject: Any) -> dict[str, str]:
        """As `Phases`."""
        route = getattr(subject, "route", None)
        return {} if route is None else route.phases


class Placement(Reason):
    """Where a subject shall be: the groups that take its messages. Those left out drain and then go."""

    broker_groups = serializers.ListField(child=serializers.CharField(max_length=100), min_length=1, max_length=50)
