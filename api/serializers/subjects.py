"""The shape of subjects. What values mean is checked by the services."""

from rest_framework import serializers

from api.serializers.bodies import Body
from metaserver.choices import Phase


class SubjectValues(Body):
    """What an operator may set. Null: no limit, or the node's default."""

    description = serializers.CharField(required=False, allow_blank=True, max_length=500)
    owner = serializers.CharField(required=False, allow_null=True, max_length=60, help_text="name of a team")
    tags = serializers.ListField(child=serializers.CharField(max_length=50), required=False, max_length=20)
    messages_per_second = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=10_000_000, help_text="on each broker group"
    )
    bytes_per_second = serializers.IntegerField(required=False, allow_null=True, min_value=1, max_value=100 << 30)
    retention_hours = serializers.FloatField(required=False, allow_null=True, min_value=0.001, max_value=24 * 366 * 2)
    allowed_groups = serializers.ListField(
        child=serializers.CharField(max_length=200), required=False, allow_null=True, max_length=200,
        help_text="consumer groups allowed to pull; null: any",
    )  # fmt: skip


class SubjectChange(SubjectValues):
    """A change of a subject; what is left out stays."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


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


class SubjectRow(SubjectValues):
    """A subject of a list."""

    name = serializers.CharField()
    is_archived = serializers.BooleanField()
    archived_at = serializers.DateTimeField(allow_null=True)
    consumer_groups = serializers.IntegerField()
    broker_groups = serializers.ListField(child=serializers.CharField())
    phases = Phases()
    may_change = serializers.BooleanField(help_text="whether the caller can change it")
    version = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class Placement(Body):
    """Where a subject shall be: the groups that take its messages. Those left out drain and then go."""

    broker_groups = serializers.ListField(child=serializers.CharField(max_length=100), min_length=1, max_length=50)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)
