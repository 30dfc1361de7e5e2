"""Serializers of rehearsals."""

from rest_framework import serializers

from api.serializers.bodies import Row
from api.serializers.reasons import Why
from metaserver.choices import GroupKind


class PlannedSwitchOver(Row):
    """A group that would be switched over, by `POST /broker-groups/NAME/switch-over/`."""

    broker_group = serializers.CharField()
    kind = serializers.ChoiceField(choices=[k.value for k in GroupKind])
    version = serializers.CharField(help_text="version of the group, for If-Match")
    master = serializers.CharField(help_text="node ID of the node that leads it")
    to = serializers.CharField(allow_blank=True, help_text="node ID of the node that would lead it; empty: none can")
    reason = serializers.CharField(source="why", allow_blank=True, help_text="why none can; empty if one can")
    why = Why(allow_null=True)


class RehearsedSwitchOver(PlannedSwitchOver):
    """A group that a rehearsal has switched over, and that would be switched back."""

    rehearsal = serializers.CharField(help_text="what was rehearsed, such as `node g1-a` or `rack r1`")
    at = serializers.DateTimeField()
    actor = serializers.CharField()


class Rack(Row):
    """A rack that nodes were started with (`--rack`)."""

    rack = serializers.CharField()
    nodes = serializers.IntegerField()
    groups = serializers.IntegerField(help_text="broker and delay groups that its nodes lead")


class Rehearsal(serializers.Serializer):  # type: ignore[type-arg]
    """What a rehearsal would switch over, and what earlier ones have switched over."""

    plan = PlannedSwitchOver(many=True, help_text="the groups that the node, or a node of the rack, leads")
    undo = RehearsedSwitchOver(
        many=True, help_text="groups that were switched over by a rehearsal in the last 24 hours and not back"
    )
    racks = Rack(many=True)
