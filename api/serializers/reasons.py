"""Serializers of reasons: a code with values, of which the console makes the sentence in the viewer's language."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from metaserver.services.memberships import WHY
from qmq.protocol.reasons import Reason


class Explanation(serializers.Serializer):  # type: ignore[type-arg]
    """A reason. A value is a text, a number, or another reason, which is a part of the sentence."""

    code = serializers.CharField(allow_blank=True, help_text="such as not_connected; empty: there is only the text")
    values = serializers.DictField(help_text="what the sentence mentions")
    text = serializers.CharField(help_text="the sentence in English")


@extend_schema_field(Explanation)
class Explained(serializers.Field):  # type: ignore[type-arg]
    """A `Reason`."""

    def to_representation(self, value: Reason) -> dict[str, Any] | None:
        return value.as_json() if value else None


class Notes(serializers.ListField):
    """Notes of a change (`metaserver.services.notes`)."""

    child = Explained()


@extend_schema_field(Explanation(allow_null=True))
class Why(Explained):
    """A `Reason`; null if there is none."""


@extend_schema_field(Explanation(allow_null=True))
class WhyChanged(serializers.Field):  # type: ignore[type-arg]
    """The reason of an audit entry as a metaserver recorded it; null for what a user did."""

    def to_representation(self, entry: Any) -> Any:
        return (entry.after or {}).get(WHY)
