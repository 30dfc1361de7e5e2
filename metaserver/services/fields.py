"""What may be set of a resource: the type and the limits of each value, said once.

Services refuse values by these definitions, the API reads its request bodies by them, and the OpenAPI file and the console's forms
get their limits from `Field.value_schema`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from metaserver.services.changes import text_problem
from qmq.errors import IllegalName

SHOWN_CHARS_MAX = 80
"""Of a wrong value in an error."""


def shown(value: object) -> str:
    """A wrong value as errors show it."""
    return repr(value[:SHOWN_CHARS_MAX]) if isinstance(value, str) else str(value)[:SHOWN_CHARS_MAX]


def joined(problems: Mapping[str, str]) -> str:
    """The problems by name as one text, without those of ""."""
    return "; ".join(f"{name}: {text}" for name, text in problems.items() if text)


def legal(check: Callable[[str], None]) -> Callable[[str], str]:
    """A `Text.check` out of a check of the wire format, which raises IllegalName."""

    def problem(text: str) -> str:
        try:
            check(text)
        except IllegalName as error:
            return str(error)
        return ""

    return problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A value of any type: the base of the others."""

    help: str = ""
    """For the OpenAPI file."""
    nullable: bool = False
    check: Callable[[Any], str] | None = None
    """What a value of the right shape may still be wrong about: the problem, or ""."""

    def problem(self, value: object) -> str:
        """Why this value is not allowed, "" if it is."""
        return self.shape_problem(value) or ("" if value is None else self.meaning_problem(value))

    def shape_problem(self, value: object) -> str:
        """Why a value has the wrong type or is beyond a limit, all that a JSON schema can say; "" if not."""
        if value is None:
            return "" if self.nullable else "must not be null"
        return self.value_problem(value)

    def value_problem(self, value: Any) -> str:
        """As `shape_problem`, of a value that is not null."""
        raise NotImplementedError

    def meaning_problem(self, value: Any) -> str:
        """As `problem`, of a value of the right shape that is not null."""
        return self.check(value) if self.check is not None else ""

    def cleaned(self, value: Any) -> Any:
        """What a request means by this value: texts without spaces at their ends."""
        return value

    def stored(self, value: Any) -> Any:
        """The form in which an allowed value is stored."""
        return value

    def value_schema(self) -> dict[str, Any]:
        """The JSON schema of values that are not null."""
        raise NotImplementedError

    def __deepcopy__(self, memo: object) -> Self:
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Field):
    chars_max: int
    chars_min: int = 0
    is_line: bool = False
    """Whether it must be one line of printable characters."""
    is_trimmed: bool = True
    """Whether requests may have spaces at its ends, which are removed."""
    pattern: str = ""
    """A regular expression that the whole text must match; "": any text."""
    pattern_problem: str = ""
    """What to say of a text that does not; "": `check` refuses it and says why."""

    def value_problem(self, value: Any) -> str:
        if not isinstance(value, str) or not self.chars_min <= len(value) <= self.chars_max:
            least = f"{self.chars_min} to " if self.chars_min else "at most "
            return f"must be text of {least}{self.chars_max} characters"
        return self.pattern_problem if self.pattern and not re.fullmatch(self.pattern, value) else ""

    def meaning_problem(self, value: str) -> str:
        if self.is_line and not value.isprintable():
            return "must be one line of printable characters"
        return text_problem(value) or super(Text, self).meaning_problem(value)

    def cleaned(self, value: Any) -> Any:
        return value.strip() if self.is_trimmed and isinstance(value, str) else value

    def value_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string", "maxLength": self.chars_max}
        if self.chars_min:
            schema["minLength"] = self.chars_min
        return schema | ({"pattern": f"^{self.pattern}$"} if self.pattern else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Field):
    minimum: float
    maximum: float
    unit: str = ""
    types: ClassVar[Any] = int | float
    noun: ClassVar[str] = "number"

    def value_problem(self, value: Any) -> str:
        is_number = isinstance(value, self.types) and not isinstance(value, bool)
        if is_number and self.minimum <= value <= self.maximum:
            return ""
        what = f"{'null or ' if self.nullable else ''}a {self.noun}{f' of {self.unit}' if self.unit else ''}"
        return f"{shown(value)}: must be {what} from {self.minimum:.15g} to {self.maximum:.15g}"

    def value_schema(self) -> dict[str, Any]:
        return {"type": "number", "format": "double", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Number):
    minimum: int
    maximum: int
    types: ClassVar[Any] = int
    noun: ClassVar[str] = "whole number"

    def cleaned(self, value: Any) -> Any:
        # JSON does not tell 5.0 from 5.
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def value_schema(self) -> dict[str, Any]:
        schema = {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}
        return schema | ({"format": "int64"} if self.maximum > (1 << 31) - 1 else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag(Field):
    def value_problem(self, value: Any) -> str:
        return "" if isinstance(value, bool) else "must be true or false"

    def value_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Field):
    """One of a few texts."""

    values: Sequence[str]

    def value_problem(self, value: Any) -> str:
        is_known = isinstance(value, str) and value in self.values
        return "" if is_known else f"{shown(value)}: must be one of {', '.join(self.values)}"

    def value_schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": [str(value) for value in self.values]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts(Field):
    item: Text
    items_max: int
    items_min: int = 0
    is_set: bool = True
    """Whether the order means nothing: stored sorted, and each text once."""

    def value_problem(self, value: Any) -> str:
        if not isinstance(value, list) or not self.items_min <= len(value) <= self.items_max:
            least = f"{self.items_min} to " if self.items_min else "at most "
            return f"must be {'null or ' if self.nullable else ''}a list of {least}{self.items_max} texts"
        return _first(self.item.shape_problem, value)

    def meaning_problem(self, value: list[str]) -> str:
        return _first(self.item.meaning_problem, value) or super(Texts, self).meaning_problem(value)

    def cleaned(self, value: Any) -> Any:
        return [self.item.cleaned(item) for item in value] if isinstance(value, list) else value

    def stored(self, value: Any) -> Any:
        if value is None:
            return None
        return sorted(set(value)) if self.is_set else list(dict.fromkeys(value))

    def value_schema(self) -> dict[str, Any]:
        schema = {"type": "array", "items": self.item.value_schema(), "maxItems": self.items_max}
        return schema | ({"minItems": self.items_min} if self.items_min else {})


def _first(problem: Callable[[str], str], items: Sequence[str]) -> str:
    """The problem of the first item that has one."""
    found = ((item, problem(item)) for item in items)
    return next((f"{shown(item)}: {text}" for item, text in found if text), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextsByName(Field):
    """Texts by name. What names may be is up to `check`."""

    item: Text
    items_max: int

    def value_problem(self, value: Any) -> str:
        if not isinstance(value, dict) or len(value) > self.items_max:
            return f"must be at most {self.items_max} names with values"
        return self._of_each(self.item.shape_problem, value)

    def meaning_problem(self, value: Mapping[str, str]) -> str:
        return self._of_each(self.item.meaning_problem, value) or super(TextsByName, self).meaning_problem(value)

    @staticmethod
    def _of_each(problem: Callable[[str], str], value: Mapping[str, str]) -> str:
        return joined({shown(str(name)): problem(text) for name, text in value.items()})

    def value_schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": self.item.value_schema()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Values(Field):
    """Values by name, of which any may be left out."""

    fields: Mapping[str, Field]

    def value_problem(self, value: Any) -> str:
        if not isinstance(value, Mapping):
            return "must be an object"
        if unknown := sorted(str(name)[:SHOWN_CHARS_MAX] for name in value.keys() - self.fields.keys()):
            return f"{', '.join(unknown[:5])}: unknown; allowed: {', '.join(self.fields)}"
        return self._of_each("shape_problem", value)

    def meaning_problem(self, value: Mapping[str, Any]) -> str:
        return self._of_each("problem", value)

    def _of_each(self, kind: str, value: Mapping[str, Any]) -> str:
        return joined({name: getattr(self.fields[name], kind)(item) for name, item in value.items()})

    def value_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {name: rule.value_schema() for name, rule in self.fields.items()}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects(Field):
    """A list of objects of the same kind, in their order."""

    item: Values
    items_max: int
    defaults: Mapping[str, Any]
    """What values that are left out mean."""

    def value_problem(self, value: Any) -> str:
        if not isinstance(value, list) or len(value) > self.items_max:
            return f"must be a list of at most {self.items_max} objects"
        return self._of_each(self.item.shape_problem, value)

    def meaning_problem(self, value: Sequence[Mapping[str, Any]]) -> str:
        return self._of_each(self.item.meaning_problem, value) or super(Objects, self).meaning_problem(value)

    @staticmethod
    def _of_each(problem: Callable[[Any], str], value: Sequence[Any]) -> str:
        return joined({f"number {number}": problem(item) for number, item in enumerate(value, 1)})

    def stored(self, value: Any) -> Any:
        fields = self.item.fields
        return [
            {name: fields[name].stored(item.get(name, default)) for name, default in self.defaults.items()}
            for item in value
        ]

    def value_schema(self) -> dict[str, Any]:
        return {"type": "array", "items": self.item.value_schema(), "maxItems": self.items_max}
