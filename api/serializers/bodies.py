"""Base classes of request bodies and of rows of answers.

Both take fields from the definition of a resource (metaserver.services.fields), so that type and limits of a value are
defined once and appear in the OpenAPI file.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.plumbing import build_choice_field
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.accounts.roles import Right
from console.times import rfc3339
from metaserver.services.fields import Choice, Field, Texts, TextsByName

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
    """A sequence: a number, or a string of digits, because numbers past 2^53 lose precision in JSON parsers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(min_value=0, max_value=SEQUENCE_MAX, **options)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and not re.fullmatch("[0-9]{1,19}", data):
            self.fail("invalid")
        return super().to_internal_value(data)


class ValueField(serializers.Field):  # type: ignore[type-arg]
    """A value defined by a resource. The service validates its meaning."""

    def __init__(self, rule: Field, **options: Any) -> None:
        self.rule = rule
        super().__init__(allow_null=rule.nullable, help_text=rule.help or None, **options)

    def to_internal_value(self, data: Any) -> Any:
        value = self.rule.cleaned(data)
        if wrong := self._wrong_items(value):
            raise serializers.ValidationError(wrong)
        if text := self.rule.shape_problem(value):
            raise serializers.ValidationError(text)
        return value

    def _wrong_items(self, value: Any) -> dict[str, list[str]]:
        """Errors of items, by index or name."""
        items: Collection[tuple[Any, Any]] = ()
        if isinstance(self.rule, Texts) and isinstance(value, list):
            items = tuple(enumerate(value))
        elif isinstance(self.rule, TextsByName) and isinstance(value, dict):
            items = value.items()
        else:
            return {}
        problems = {str(name): self.rule.item.shape_problem(item) for name, item in items}
        return {name: [text] for name, text in problems.items() if text}

    def to_representation(self, value: Any) -> Any:
        return value


class ValueFieldSchema(OpenApiSerializerFieldExtension):
    """Returns the schema of a value from its definition."""

    target_class = "api.serializers.bodies.ValueField"

    def map_serializer_field(self, auto_schema: Any, direction: Any) -> dict[str, Any]:
        rule = self.target.rule
        if isinstance(rule, Choice):
            schema: dict[str, Any] = build_choice_field(serializers.ChoiceField(list(rule.values)))  # type: ignore[no-untyped-call]
            return schema
        return dict(rule.value_schema())


_TYPES: tuple[tuple[type[Any], tuple[type, ...], str], ...] = (
    (SequenceField, (int, str), "a whole number or a string of digits"),
    (serializers.IntegerField, (int,), "a whole number"),
    (serializers.FloatField, (int, float), "a number"),
    (serializers.BooleanField, (bool,), "true or false"),
    (serializers.CharField, (str,), "text"),
    (serializers.ChoiceField, (str,), "text"),
    (serializers.DateTimeField, (str,), "text"),
)
"""Fields, the JSON types of their values, and the name of the type in errors. The first match applies."""


class OfResource(serializers.Serializer):  # type: ignore[type-arg]
    """A serializer with the fields of a resource in addition to its own."""

    rules: ClassVar[Mapping[str, Field]] = {}
    needed: ClassVar[Collection[str]] = ()
    """Required fields among `rules`."""
    defaults: ClassVar[Mapping[str, Any]] = {}

    def get_fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, rule in self.rules.items():
            options = {"default": self.defaults[name]} if name in self.defaults else {}
            found[name] = ValueField(rule, required=name in self.needed, **options)
        return found | super().get_fields()


class Row(OfResource):
    """A row of an answer. Fields are attributes of an object; `source` names another attribute."""


class NullText(serializers.CharField):
    """A text that is stored as "" and null in answers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_null=True, **options)

    def to_representation(self, value: Any) -> str | None:  # type: ignore[override]
        return str(value) if value else None


class Moment(serializers.DateTimeField):
    """A time stored in milliseconds since the epoch. Null also for times outside of the calendar."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_null=True, **options)

    def to_representation(self, value: Any) -> str | None:  # type: ignore[override]
        return moment(value)


def iso(ms: int | None) -> str | None:
    """Convert milliseconds since the epoch to an RFC 3339 time in UTC."""
    return None if ms is None else rfc3339(ms)


def moment(ms: int | None) -> str | None:
    """Convert a time from a message like `iso`; None for a time outside of the calendar."""
    try:
        return iso(ms)
    except (ValueError, OverflowError, OSError):
        return None


class Strings(serializers.ListField):
    """A list of texts."""

    child = serializers.CharField()


class Names(serializers.ListField):
    """The names of related objects."""

    child = serializers.CharField()

    def to_representation(self, data: Any) -> list[str]:
        return [row.name for row in data.all()]


class MayChange(serializers.BooleanField):
    """Whether the caller has a right on the shown object."""

    def __init__(self, right: Right, owner: str = "owner", **options: Any) -> None:
        """Args:
        owner: the attribute with the owning team; dots follow relations.
        """
        self._right, self._owner = right, owner.split(".")
        super().__init__(source="*", required=True, **options)

    def to_representation(self, value: Any) -> bool:
        for name in self._owner:
            value = getattr(value, name, None)
        may: bool = self.context["view"].principal.may(self._right, value)
        return may


class Body(OfResource):
    """A request body. Values of another type are rejected.

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
    """Return the type errors of a value, nested as REST framework does; null is left to the field."""
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


class Expected(serializers.IntegerField):
    """The number of things that a change of many will affect."""

    def __init__(self, what: str, **options: Any) -> None:
        super().__init__(min_value=0, required=False, help_text=f"required without dry_run: {what}", **options)


REASON_CHARS_MAX = 500


class Reason(Body):
    """Reason for the audit log."""

    reason = serializers.CharField(required=False, allow_blank=True, max_length=REASON_CHARS_MAX)
