"""Serializers of search results."""

from rest_framework import serializers

from api.serializers.messages import UNREACHABLE

KINDS = (
    "subject", "consumer_group", "broker_group", "node", "team", "alert_rule", "user", "message", "dead_letter", "delayed_message",
)  # fmt: skip


class PlaceRow(serializers.Serializer):  # type: ignore[type-arg]
    """A search result."""

    kind = serializers.ChoiceField(choices=KINDS)
    name = serializers.CharField(help_text="for messages, the ID")
    subject = serializers.CharField(allow_null=True)
    broker_group = serializers.CharField(allow_null=True, help_text="for delayed messages, the delay group")
    sequence = serializers.CharField(allow_null=True, help_text="for dead letters")
    text = serializers.CharField(allow_blank=True, help_text="additional text; for dead letters, the consumer group")


class Places(serializers.Serializer):  # type: ignore[type-arg]
    """Search results, best match first."""

    results = PlaceRow(many=True)
    unreachable = serializers.DictField(child=serializers.CharField(), help_text=UNREACHABLE)
