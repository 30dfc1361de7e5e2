"""The base of request bodies: values have the JSON types that the OpenAPI file lists."""

import re
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

SEQUENCE_MAX = (1 << 63) - 1


@extend_schema_field(
    {
        "oneOf": [
            {"type": "integer", "minimum": 0, "maximum": SEQUENCE_MAX},
            {"type": "string", "pattern": "^[0-9]{1,19}$"},
        ]
    }
)
class SequenceField(serializers.IntegerField):
    """A sequence: a number, or a text of digits, as numbers past 2^53 are sent."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=SEQUENCE_MAX, **options)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and not re.fullmatch("[0-9]{1,19}", data):
            self.fail("invalid")
        return super().to_internal_value(data)


_TYPES: tuple[tuple[type[Any], tuple[type, ...], str], ...] = (
    (SequenceField, (int, str), "a whole number or a string of digits"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.CharField, (str,), "a text"),
    (serializers.ChoiceField, (str,), "a text"),
    (serializers.DateTimeField, (str,), "a text"),
)
"""Fields, what their values are in JSON, and how errors call it. The first row that fits holds."""


class Body(serializers.Serializer):  # type: ignore[type-arg]
    """A request body. Values of another type are refused.

    REST framework converts them: 5 to the text "5", "off" to false, true to the number 1.0.
    """

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            given = {name: (field, data[name]) for name, field in self.fields.items() if name in data}
            if errors := _errors_of_each(given):
                raise serializers.ValidationError(errors)
        return super().to_internal_value(data)


def _errors_of_each(given: Mapping[Any, tuple[Any, Any]]) -> dict[Any, Any]:
    """Returns the errors of fields and their values, by name or index."""
    found = {name: _errors(field, value) for name, (field, value) in given.items()}
    return {name: errors for name, errors in found.items() if errors}


def _errors(field: Any, value: Any) -> Any:
    """Returns what is wrong with the type of a value, as REST framework nests errors; null is left to the field."""
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        return _errors_of_each({index: (field.child, item) for index, item in enumerate(value)})
    if isinstance(field, serializers.DictField) and isinstance(value, dict):
        return _errors_of_each({name: (field.child, item) for name, item in value.items()})
    for kind, types, what in _TYPES:
        if isinstance(field, kind) and value is not None:
            # JSON does not tell 5.0 from 5, and Python's true is a number.
            found = int(value) if isinstance(value, float) and value.is_integer() and float not in types else value
            is_right = isinstance(found, types) and (bool in types or not isinstance(found, bool))
            return [] if is_right else [f"must be {what}"]
    return []


class Reason(Body):
    """Why, for the audit log."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)
