"""encode: an edited body, which is JSON, in its format again, by the plug-in of the format."""

import json
from collections.abc import Sequence
from math import isfinite
from typing import Any

from qmq.formats.decoding import decode
from qmq.formats.plugins import WHY_CHARS_MAX, BodyFormat, plugin_of
from qmq.formats.values import SchemaError, Undecodable, Unencodable


def encode(body_format: BodyFormat, text: str, original: bytes) -> bytes:
    """Return an edited body in its format.

    Args:
        text: the body as JSON, as `decode` returned it, edited.
        original: the body as it was before.

    Raises:
        Unencodable: the text is not JSON, or has a value that the format or the schema does not allow; it names the field.
    """
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refused, parse_float=_finite)
        encoder = getattr(plugin_of(body_format.name), "encoder", None)
        if encoder is None:
            raise Unencodable(f"can't be edited: the plug-in of format {body_format.name} has no encoder")
        data: bytes = encoder(body_format.schema)(value, original)
        decode(body_format, data)
    except RecursionError as error:
        raise Unencodable("is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise Unencodable(f"is not JSON: {error}") from error
    except (SchemaError, Undecodable) as error:
        raise Unencodable(f"can't be encoded: {error}") from error
    except Unencodable:
        raise
    except Exception as error:  # plug-ins and their libraries raise whatever they like
        raise Unencodable(f"can't be encoded: {type(error).__name__}: {error}"[:WHY_CHARS_MAX]) from error
    return data


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise Unencodable("occurs twice in its object", twice)
    return found


def _refused(text: str) -> Any:
    raise Unencodable(f"has {text}, which is no number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise Unencodable(f"has the number {text[:40]}, which is too large")
    return value
