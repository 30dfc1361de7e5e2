"""Python values as JSON text, and models of msgspec and pydantic.

These libraries are not imported: a program that has a model has imported its library.
"""

import json
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, cast
from uuid import UUID

from qmq.client.scalars import Mismatch

_MSGSPEC_PATH = re.compile(r"(.*) - at `\$(?P<path>.*)`", re.S)


def is_struct(hint: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def is_pydantic(hint: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def with_msgspec(convert: Callable[[Any], Any]) -> Any:
    """Return what a function makes with the module msgspec; its errors become Mismatch."""
    msgspec: Any = sys.modules["msgspec"]
    try:
        return convert(msgspec)
    except (msgspec.DecodeError, RecursionError) as error:
        found = _MSGSPEC_PATH.fullmatch(str(error))
        if found is None:
            raise Mismatch(str(error)) from error
        raise Mismatch(found[1], field=found["path"].lstrip(".")) from error


def with_pydantic(convert: Callable[[], Any]) -> Any:
    """Return what a function makes with pydantic; its errors become Mismatch."""
    pydantic: Any = sys.modules["pydantic"]
    try:
        return convert()
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        mismatch = Mismatch(first["msg"])
        for step in reversed(first["loc"]):
            mismatch.inside(f"[{step}]" if isinstance(step, int) else str(step))
        raise mismatch from error


CLASSES_MAX = 1000
"""Dataclasses whose field names are cached."""


def to_json(value: object) -> str:
    """A value as JSON text without white space. Raises TypeError, ValueError or RecursionError for what JSON can't express."""
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def is_dataclass_instance(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__")


def _plain(value: Any) -> object:
    """A value that `json` does not know, as one that it knows."""
    if is_dataclass_instance(value):
        return {name: getattr(value, name) for name in names_of(cast(Hashable, type(value)))}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode("ascii")
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_struct(type(value)):
        return sys.modules["msgspec"].to_builtins(value)
    if is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"a {type(value).__name__} is not supported")


@lru_cache(maxsize=CLASSES_MAX)
def names_of(cls: Hashable) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cast(Any, cls)))
