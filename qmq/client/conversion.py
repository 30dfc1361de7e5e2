"""Values of JSON, and texts of properties, as Python values by annotation. msgspec and pydantic convert their models.

A converter is built once for each annotation. It gets a value of JSON, or the text of a property, and returns the value of the
annotation or raises Mismatch.
"""

import contextlib
import json
import sys
import types
import typing
from collections import abc
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Literal, NewType, Union, cast, get_args, get_origin, get_type_hints

from qmq.client.models import (
    SCALARS,
    Convert,
    Mismatch,
    check_hashes,
    datetime_of,
    expected,
    is_pydantic,
    is_struct,
    is_whole,
    names_of,
    shown,
    to_json,
    with_msgspec,
    with_pydantic,
)
from qmq.protocol.messages import get_large_string

CONVERTERS_MAX = 1000
"""Annotations and classes whose converters are cached."""

_ABSENT = object()
_MAPPINGS = (dict, Mapping, abc.MutableMapping)
_LISTS = (list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable)
_HASHED = (set, frozenset)
_SETS = {set: set, abc.MutableSet: set, frozenset: frozenset, abc.Set: frozenset}


def load(text: str) -> Any:
    """The value of a JSON text. Raises Mismatch for another text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Mismatch(f"{shown(text)} is not JSON: {error}") from error


def from_json(text: str, hint: Any) -> Any:
    """The instance of an annotation that a JSON text describes. Raises Mismatch if it does not fit."""
    if is_struct(hint):
        return with_msgspec(lambda msgspec: msgspec.json.decode(text, type=hint))
    if is_pydantic(hint):
        return with_pydantic(lambda: hint.model_validate_json(text))
    return converter(hint)(load(text))


def from_properties(properties: Mapping[str, str], hint: Any) -> Any:
    """The instance of a mapping or class that properties describe, each converted from its text. Raises Mismatch."""
    if is_mapping(hint):
        keys, values = get_args(hint) or (str, str)
        return _convert_items(properties, converter(keys, is_text=True), converter(values, is_text=True))
    names = field_names(hint) or ()
    texts = {name: text for name in names if (text := get_large_string(properties, name)) is not None}
    if is_struct(hint):
        return with_msgspec(lambda msgspec: msgspec.convert(_with_iso_times(texts, hint), hint, strict=False))
    if is_pydantic(hint):
        return with_pydantic(lambda: hint.model_validate(_with_iso_times(texts, hint)))
    return _object_converter(hint, is_text=True)(texts)


def _with_iso_times(texts: dict[str, str], cls: Any) -> dict[str, str]:
    """Milliseconds since the epoch in fields that are times as ISO 8601: msgspec takes numbers as seconds, pydantic guesses."""
    for name in _time_names(cls) & texts.keys():
        if is_whole(texts[name]):
            with contextlib.suppress(OverflowError, ValueError):  # then the library rejects the number
                texts[name] = datetime_of(texts[name]).isoformat()
    return texts


@lru_cache(maxsize=CONVERTERS_MAX)
def _time_names(cls: Any) -> frozenset[str]:
    """The names, as they are written, of the fields of a model of msgspec or pydantic that are times."""
    if is_struct(cls):
        return frozenset(each.encode_name for each in sys.modules["msgspec"].structs.fields(cls) if _is_time(each.type))
    return frozenset(name for name, each in _pydantic_fields(cls) if _is_time(each.annotation))


def _pydantic_fields(cls: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a model of pydantic, by name and by each alias."""
    for name, each in cls.model_fields.items():
        for alias in (name, each.alias, each.validation_alias):
            if isinstance(alias, str):
                yield alias, each


def _is_time(hint: Any) -> bool:
    if get_origin(hint) is Annotated:
        return _is_time(get_args(hint)[0])
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    return datetime in members and set(members) <= {datetime, types.NoneType}


def is_mapping(hint: Any) -> bool:
    """Whether an annotation is a dict or a mapping, with or without the types of its items."""
    return (get_origin(hint) or hint) in _MAPPINGS


def field_names(hint: Any) -> Collection[str] | None:
    """Return the names of a class's fields as they are written in JSON; None for an annotation without fields."""
    if is_struct(hint):
        return cast("tuple[str, ...]", hint.__struct_encode_fields__)
    if is_pydantic(hint):
        return {name for name, _ in _pydantic_fields(hint)}
    if isinstance(hint, type) and is_dataclass(hint):
        return names_of(hint)
    if typing.is_typeddict(hint):
        return cast("dict[str, Any]", hint.__annotations__).keys()
    return None


def type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def converter(hint: Any, *, is_text: bool = False) -> Convert:
    """The function that converts a value of JSON, or with `is_text` the text of a property, to an annotation.

    Raises Mismatch for an annotation that is not supported (code `body.type_unsupported`).
    """
    try:
        hash(hint)
    except TypeError:
        return _build.__wrapped__(hint, "", is_text)
    # Unions with the same members in another order are equal, but the order matters: the first member that fits is taken.
    return _build(hint, "" if isinstance(hint, type) else repr(hint), is_text)


@lru_cache(maxsize=CONVERTERS_MAX)
def _build(hint: Any, _written: str, is_text: bool) -> Convert:
    if hint is Any or hint is object:
        return _unchanged
    if hint is None:
        hint = types.NoneType
    if isinstance(hint, NewType):
        return converter(hint.__supertype__, is_text=is_text)
    if type(hint).__name__ == "TypeAliasType":
        return converter(hint.__value__, is_text=is_text)
    if isinstance(hint, type) and hint in SCALARS:
        strict, of_text = SCALARS[hint]
        return of_text if is_text else strict
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return converter(arguments[0], is_text=is_text)
    if origin is Literal:
        return _literal(arguments, is_text)
    if origin is Union or origin is types.UnionType:
        return _union(hint, [converter(each, is_text=is_text) for each in arguments], arguments, is_text)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum(hint, is_text)
    convert = _build_composite(hint, origin or hint, arguments)
    if not is_text:
        return convert
    return lambda text: convert(load(text))


def _build_composite(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> Convert:
    if origin in _LISTS:
        return _list(converter(arguments[0]) if arguments else _unchanged, list)
    if origin in _SETS:
        return _list(converter(arguments[0]) if arguments else _unchanged, _SETS[origin])
    if origin is tuple:
        return _tuple(arguments)
    if origin in _MAPPINGS:
        keys, values = arguments or (str, Any)
        return _mapping(converter(keys, is_text=True), converter(values))
    if is_struct(hint):
        return lambda value: with_msgspec(lambda msgspec: msgspec.convert(value, hint))
    if is_pydantic(hint):
        # By way of JSON: a strict model accepts texts as times and numbers from JSON only.
        return lambda value: with_pydantic(lambda: hint.model_validate_json(json.dumps(value)))
    if field_names(hint) is not None:
        return _object_converter(hint, is_text=False)
    raise _unsupported(hint)


def _unsupported(hint: Any) -> Mismatch:
    return Mismatch(
        f"the annotation {type_name(hint)} is not supported; use a standard type, a dataclass, a msgspec.Struct or a pydantic "
        "model",
        code="body.type_unsupported",
    )


def _unchanged(value: Any) -> Any:
    return value


def _literal(allowed: tuple[Any, ...], is_text: bool) -> Convert:
    def convert(value: Any) -> Any:
        for each in allowed:
            if (_as_text(each) == value) if is_text else (type(each) is type(value) and each == value):
                return each
        raise expected(f"one of {', '.join(map(repr, allowed))}", value)

    return convert


def _as_text(value: object) -> str:
    """A value as the text of a property."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _enum(cls: type[Enum], is_text: bool) -> Convert:
    try:
        by_value = {(_as_text(each.value) if is_text else to_json(each.value)): each for each in cls}
    except (TypeError, ValueError) as error:
        raise _unsupported(cls) from error

    def convert(value: Any) -> Any:
        try:
            return by_value[value if is_text else to_json(value)]
        except (KeyError, TypeError, ValueError):
            raise expected(f"a value of {cls.__name__}", value) from None

    return convert


def _union(hint: Any, converters: list[Convert], members: tuple[Any, ...], is_text: bool) -> Convert:
    exact = frozenset() if is_text else frozenset(members) & {str, int, float, bool, types.NoneType}
    simple = exact - {str}
    # A text that fits no other member is a str, so `datetime | str` decodes both.

    def convert(value: Any) -> Any:
        if type(value) in simple:
            return value
        mismatches = []
        for each in converters:
            try:
                return each(value)
            except Mismatch as mismatch:
                if mismatch.code is not None:
                    raise
                mismatches.append(mismatch)
        # The deepest path is of the member that fits best.
        nearest = max(mismatches, key=lambda mismatch: len(mismatch.field))
        raise nearest if nearest.field else expected(type_name(hint), value)

    return convert


def _list(convert_item: Convert, make: Callable[[list[Any]], Any]) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, list):
            raise expected("a list", value)
        items = _convert_all(value, [convert_item] * len(value))
        try:
            if make in _HASHED:
                check_hashes(items)
            return items if make is list else make(items)
        except TypeError as error:
            raise Mismatch(f"the items of a set must be hashable: {error}") from error

    return convert


def _tuple(arguments: tuple[Any, ...]) -> Convert:
    if not arguments or arguments[-1] is Ellipsis:
        return _list(converter(arguments[0]) if arguments else _unchanged, tuple)
    converters = [converter(each) for each in arguments]

    def convert(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(converters):
            raise expected(f"a list of {len(converters)} items", value)
        return tuple(_convert_all(value, converters))

    return convert


def _convert_all(values: list[Any], converters: list[Convert]) -> list[Any]:
    items: list[Any] = []
    try:
        for value, convert_item in zip(values, converters, strict=True):
            items.append(convert_item(value))
    except Mismatch as mismatch:
        raise mismatch.inside(f"[{len(items)}]") from mismatch.__cause__
    return items


def _mapping(convert_key: Convert, convert_value: Convert) -> Convert:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise expected("an object", value)
        return _convert_items(value, convert_key, convert_value)

    return convert


def _convert_items(items: Mapping[str, Any], convert_key: Convert, convert_value: Convert) -> dict[Any, Any]:
    converted = []
    for key, item in items.items():
        try:
            converted.append((convert_key(key), convert_value(item)))
        except Mismatch as mismatch:
            raise mismatch.inside(key) from mismatch.__cause__
    check_hashes([key for key, _ in converted])
    return dict(converted)


@lru_cache(maxsize=CONVERTERS_MAX)
def _object_converter(cls: Any, *, is_text: bool) -> Convert:
    # Built at the first use: a class may contain itself.
    plan: list[tuple[str, Convert, bool]] | None = None
    is_typed_dict = typing.is_typeddict(cls)

    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            raise expected("an object", value)
        nonlocal plan
        if plan is None:
            plan = _plan(cls, is_text)
        found = {}
        for name, convert_field, is_required in plan:
            raw = value.get(name, _ABSENT)
            if raw is not _ABSENT:
                try:
                    found[name] = convert_field(raw)
                except Mismatch as mismatch:
                    raise mismatch.inside(name) from mismatch.__cause__
            elif is_required:
                raise Mismatch("it is missing", field=name)
        if is_typed_dict:
            return found
        try:
            return cls(**found)
        except (TypeError, ValueError) as error:
            raise Mismatch(f"{cls.__name__} rejects the values: {error}") from error

    return convert


def _plan(cls: Any, is_text: bool) -> list[tuple[str, Convert, bool]]:
    """Name, converter and whether it is required, of each field."""
    try:
        hints = get_type_hints(cls)
    except (NameError, TypeError) as error:
        raise Mismatch(
            f"the annotations of {cls.__name__} can't be resolved: {error}. Define the types at the top level of a module",
            code="body.type_unsupported",
        ) from error
    if typing.is_typeddict(cls):
        required = {name: name in cls.__required_keys__ for name in hints}
    else:
        required = {
            each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(cls) if each.init
        }
    plan: list[tuple[str, Convert, bool]] = []
    for name, is_required in required.items():
        try:
            plan.append((name, converter(hints[name], is_text=is_text), is_required))
        except Mismatch as mismatch:
            raise mismatch.inside(name) from mismatch.__cause__
    return plan
