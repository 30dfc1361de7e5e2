"""Which needs a filter has, derived from its checked tree. Pure."""

import re
from collections.abc import Sequence
from datetime import datetime, timedelta

from qmq.protocol.messages import KEY_CONTENT_ENCODING
from qmq.protocol.primitives import encode_str
from qmq_node.filters.content import KEY_DATA
from qmq_node.filters.needs import All, Any_, Anything, Bounds, Need, Number, Texts
from qmq_node.filters.syntax import Call, Constant, Items, Loop, Name, Node, Select

ALTERNATIVES_MAX = 16
"""A choice of more texts is not searched for: each costs another pass over the bytes."""
TEXTS_MAX = 3
"""Texts that must all occur and are searched for; further ones are left to the filter."""
TEXT_BYTES_MIN = 3
"""Shorter texts occur in most messages."""
_OPAQUE = (KEY_CONTENT_ENCODING.encode(), f"{KEY_DATA}#part1".encode())
"""Bytes of a message whose body is encoded, or split: its text does not occur as it is."""
_ESCAPED = set('"\\/\b\f\n\r\t') | {chr(code) for code in range(32)} | {"\x7f"}
_DURATION = re.compile(r"(-?)((?:\d+(?:\.\d+)?(?:h|ms|us|ns|m|s))+)")
_PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|ns|m|s)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_UNBOUNDED = 1 << 62
_CONVERSIONS: dict[str, type[int] | type[float]] = {"int": int, "double": float}
_FLIPPED = {"_<_": "_>_", "_>_": "_<_", "_<=_": "_>=_", "_>=_": "_<=_", "_==_": "_==_", "_!=_": "_!=_"}


def needs_of(tree: Node | None, now: datetime) -> Need:
    """Return what each message that matches has."""
    return Anything() if tree is None else _simplified(_need(tree, now))


def _need(node: Node, now: datetime) -> Need:
    if isinstance(node, Loop):
        return _exists(node, now)
    if not isinstance(node, Call):
        return Anything()
    arguments = node.arguments
    if node.function == "_&&_":
        return All(tuple(_need(part, now) for part in arguments))
    if node.function == "_||_":
        return Any_(tuple(_need(part, now) for part in arguments))
    if node.function in _FLIPPED:
        left, right = arguments
        found = _compared(node.function, left, right, now)
        return _compared(_FLIPPED[node.function], right, left, now) if found == Anything() else found
    if node.function in ("contains", "startsWith", "endsWith") and isinstance(text := arguments[1], Constant):
        return _text_in(arguments[0], text, is_whole=False)
    if node.function == "@in":
        return _member(*arguments)
    return Anything()


def _exists(loop: Loop, now: datetime) -> Need:
    """Return the need of `exists`: that of its condition, for some part of what it goes through."""
    through, begin, _, step, _ = loop.parts
    if begin != Constant(False) or not (isinstance(step, Call) and step.function == "_||_"):
        return Anything()
    return _need(_replaced(step.arguments[1], loop.variable, through), now)


def _replaced(node: Node, variable: str, by: Node) -> Node:
    """Return an expression with something else in place of a variable."""
    if node == Name(variable):
        return by
    if isinstance(node, Select):
        return Select(_replaced(node.operand, variable, by), node.field, node.is_test)
    if isinstance(node, Call):
        return Call(node.function, tuple(_replaced(part, variable, by) for part in node.arguments))
    return node


def _compared(function: str, left: Node, right: Node, now: datetime) -> Need:
    """Return the need of a comparison whose right side is constant."""
    if isinstance(left, Name) and left.name in ("size", "time"):
        value = _number(right) if left.name == "size" else _moment_ms(right, now)
        if value is not None:
            # Times are compared in milliseconds here and in microseconds by the filter: one more on each side.
            slack = 0 if left.name == "size" else 1
            least = value - slack if function in ("_>_", "_>=_", "_==_") else -_UNBOUNDED
            most = value + slack if function in ("_<_", "_<=_", "_==_") else _UNBOUNDED
            return Bounds(left.name, least, most)
    if not isinstance(right, Constant):
        return Anything()
    if isinstance(left, Call) and left.function in _CONVERSIONS:
        key, convert = _property(left.arguments[0]), _CONVERSIONS[left.function]
        if key is not None and "\ufffd" not in key and type(right.value) is convert:
            return Number(encode_str(key), convert, function, right.value)
    return _text_in(left, right, is_whole=True) if function == "_==_" else Anything()


def _member(value: Node, container: Node) -> Need:
    if isinstance(container, Items) and not container.is_map:
        parts = [_text_in(value, item, True) if isinstance(item, Constant) else Anything() for item in container.items]
        return Any_(tuple(parts))
    if isinstance(value, Constant) and isinstance(value.value, str) and container in (Name("tags"), Name("properties")):
        return _texts(value.value, encode=True)
    return Anything()


def _text_in(source: Node, constant: Constant, is_whole: bool) -> Need:
    """Return the need of a message in which `source` is this text, or contains it."""
    text = constant.value
    if not isinstance(text, str):
        return Anything()
    if source == Name("id"):
        return _texts(text, encode=is_whole)
    key = _property(source)
    if key is not None:
        if "\ufffd" in key + text:
            return Anything()
        if is_whole:
            return Texts((encode_str(key) + encode_str(text),))
        return _texts(text, encode=False)
    if source == Name("text"):
        return Anything() if "\n" in text else _texts(text, False, _OPAQUE)
    if _root(source) == "body":
        hidden = b"\\" if _ESCAPED & set(text) else b"\\u"
        return _texts(text, False, (hidden, *_OPAQUE))
    return Anything()


def _texts(text: str, encode: bool, others: Sequence[bytes] = ()) -> Need:
    # Bytes that are no UTF-8 are read as U+FFFD.
    if "\ufffd" in text:
        return Anything()
    needle = encode_str(text) if encode else text.encode()
    return Texts((needle, *others)) if len(needle) >= TEXT_BYTES_MIN else Anything()


def _property(node: Node) -> str | None:
    """Return the key if the node is a property."""
    if isinstance(node, Select) and not node.is_test and node.operand == Name("properties"):
        return node.field
    if isinstance(node, Call) and node.function == "_[_]" and node.arguments[0] == Name("properties"):
        key = node.arguments[1]
        return key.value if isinstance(key, Constant) and isinstance(key.value, str) else None
    return None


def _root(node: Node) -> str:
    """Return the variable of which the node is a part."""
    while True:
        if isinstance(node, Select) and not node.is_test:
            node = node.operand
        elif isinstance(node, Call) and node.function == "_[_]":
            node = node.arguments[0]
        else:
            return node.name if isinstance(node, Name) else ""


def _number(node: Node) -> int | None:
    is_number = isinstance(node, Constant) and isinstance(node.value, int) and not isinstance(node.value, bool)
    return node.value if is_number else None  # type: ignore[union-attr,return-value]


def _moment_ms(node: Node, now: datetime) -> int | None:
    """Return a time of constants and `now` in milliseconds; None for others."""
    if node == Name("now"):
        return int(now.timestamp() * 1000)
    if not isinstance(node, Call):
        return None
    first = node.arguments[0] if node.arguments else None
    if node.function == "timestamp" and isinstance(first, Constant) and isinstance(first.value, str):
        try:
            found = datetime.fromisoformat(first.value)
        except ValueError:
            return None
        return None if found.tzinfo is None else int(found.timestamp() * 1000)
    if node.function in ("_-_", "_+_"):
        begin, by = _moment_ms(node.arguments[0], now), _duration(node.arguments[1])
        if begin is None or by is None:
            return None
        milliseconds = by // timedelta(milliseconds=1)
        return begin - milliseconds if node.function == "_-_" else begin + milliseconds
    return None


def _duration(node: Node) -> timedelta | None:
    if not (isinstance(node, Call) and node.function == "duration" and isinstance(node.arguments[0], Constant)):
        return None
    found = _DURATION.fullmatch(str(node.arguments[0].value))
    if found is None:
        return None
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(found[2]))
    return timedelta(seconds=-seconds if found[1] else seconds) if seconds < 1e10 else None


def _simplified(need: Need) -> Need:
    if isinstance(need, All):
        parts = [part for part in map(_simplified, need.parts) if part != Anything()]
        flat = [inner for part in parts for inner in (part.parts if isinstance(part, All) else (part,))]
        # The longest texts are the rarest, and found fastest.
        texts = sorted((p for p in flat if isinstance(p, Texts)), key=lambda p: -len(p.needles[0]))[:TEXTS_MAX]
        kept = [part for part in flat if not isinstance(part, Texts)] + texts
        return kept[0] if len(kept) == 1 else All(tuple(kept)) if kept else Anything()
    if isinstance(need, Any_):
        parts = [_simplified(part) for part in need.parts]
        if Anything() in parts or not parts or len(parts) > ALTERNATIVES_MAX:
            return Anything()
        return parts[0] if len(parts) == 1 else Any_(tuple(parts))
    return need
