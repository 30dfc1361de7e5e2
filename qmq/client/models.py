"""Models of msgspec and pydantic, without importing these libraries: a program that has a model has imported its library."""

import re
import sys
from collections.abc import Callable
from typing import Any

from qmq.client.scalars import Mismatch

_MSGSPEC_PATH = re.compile(r"(.*) - at `\$(?P<path>.*)`", re.S)


def is_struct(hint: Any) -> bool:
    """Whether it is a class of msgspec."""
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def is_pydantic(hint: Any) -> bool:
    """Whether it is a model of pydantic."""
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
