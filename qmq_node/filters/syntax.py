"""The checked syntax tree of an expression, read from the message `cel.expr.CheckedExpr` that the CEL library writes.

Field numbers: https://github.com/google/cel-spec/blob/master/proto/cel/expr/syntax.proto. The format of protocol buffers is simple
and fixed; a package to read it would be ten times as large as this.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct

Value = str | int | float | bool | bytes | None
_DOUBLE = Struct("<d")


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: Value


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, of the filter or of a loop."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field of a value; with `is_test` whether it exists (`has`)."""

    operand: "Node"
    field: str
    is_test: bool


@dataclass(frozen=True, slots=True)
class Call:
    """An operator, such as `_==_`, or a function. The target of a method is the first argument."""

    function: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A list, or the keys and values of a map."""

    items: tuple["Node", ...]
    is_map: bool


@dataclass(frozen=True, slots=True)
class Loop:
    """What `exists`, `all`, `map` and `filter` become."""

    variable: str
    parts: tuple["Node", ...]
    """Range, initial value, condition, step and result."""


Node = Constant | Name | Select | Call | Items | Loop


def tree_of(serialized: bytes) -> Node:
    """Return the tree of an `Expression.serialize()` of the library."""
    (checked,) = (value for number, value in _fields(serialized) if number == 2)
    (expr,) = (value for number, value in _fields(_bytes(checked)) if number == 4)
    return _node(_bytes(expr))


def children(node: Node) -> tuple[Node, ...]:
    """Return the parts of a node."""
    if isinstance(node, Select):
        return (node.operand,)
    if isinstance(node, Call):
        return node.arguments
    if isinstance(node, Items):
        return node.items
    return node.parts if isinstance(node, Loop) else ()


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and everything in it."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += children(node)


def _bytes(value: bytes | int) -> bytes:
    assert isinstance(value, bytes)
    return value


def _fields(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Yield number and value of each field of a protocol buffer message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size, at = (8, at) if kind == 1 else (4, at) if kind == 5 else _varint(data, at)
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _node(data: bytes) -> Node:
    for number, value in _fields(data):
        if number == 3:
            return _constant(_bytes(value))
        if number == 4:
            return Name(_text(_bytes(value), 1))
        if number == 5:
            fields = dict(_fields(_bytes(value)))
            return Select(_node(_bytes(fields[1])), _bytes(fields.get(2, b"")).decode(), bool(fields.get(3)))
        if number == 6:
            return _call(_bytes(value))
        if number == 7:
            return Items(tuple(_node(_bytes(item)) for at, item in _fields(_bytes(value)) if at == 1), False)
        if number == 8:
            entries = [_bytes(entry) for at, entry in _fields(_bytes(value)) if at == 2]
            parts = (_node(_bytes(part)) for entry in entries for at, part in _fields(entry) if at in (3, 4))
            return Items(tuple(parts), True)
        if number == 9:
            loop = _bytes(value)
            return Loop(
                _text(loop, 1), tuple(_node(_bytes(part)) for at, part in _fields(loop) if at in (2, 4, 5, 6, 7))
            )  # fmt: skip
    return Constant(None)


def _call(data: bytes) -> Call:
    fields = list(_fields(data))
    target = [_node(_bytes(value)) for number, value in fields if number == 1]
    arguments = [_node(_bytes(value)) for number, value in fields if number == 3]
    return Call(_text(data, 2), (*target, *arguments))


def _constant(data: bytes) -> Constant:
    for number, value in _fields(data):
        if number == 1:
            return Constant(None)
        if number == 2:
            return Constant(bool(value))
        if number == 3:
            assert isinstance(value, int)
            return Constant(value - (1 << 64) if value >> 63 else value)
        if number == 5:
            return Constant(_double(_bytes(value)))
        if number == 6:
            return Constant(_bytes(value).decode())
        return Constant(value)
    return Constant(None)


def _double(data: bytes) -> float:
    value: float = _DOUBLE.unpack(data)[0]
    return value


def _text(data: bytes, wanted: int) -> str:
    return next((_bytes(value).decode() for number, value in _fields(data) if number == wanted), "")
