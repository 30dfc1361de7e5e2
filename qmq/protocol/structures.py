"""Bodies declared as data: the annotation of a field names its kind on the wire, and one encoder and decoder read the annotations.

A structure is written as a map of strings with its fields of map kinds, when it has such fields, and then its other fields one
after the other; both in the order of the declaration. Map entries have names, so unknown ones are ignored and missing ones take
their default. A class variable with a kind is a constant: it is written, and what others write there is ignored.

    @dataclass(frozen=True, slots=True)
    class Example(Structure):
        subject: Text                                          # an entry of the map
        limit: Int = 50                                        # the same, 50 when it is missing
        hours: Annotated[tuple[int, ...], Counted("i", Number("q"), "hours")] = ()   # behind the map

docs/reference/wire.md is generated from the declarations.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from itertools import takewhile
from operator import attrgetter, itemgetter
from struct import Struct
from struct import error as StructError
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

from qmq.errors import ProtocolError
from qmq.protocol.codes import CURRENT_VERSION
from qmq.protocol.kinds import LABELS, UNSET, Kind, MapKind, MapPrefix, Number, Part, String, misfit
from qmq.protocol.primitives import Reader, encode_count, encode_str, encode_strmap

Body = memoryview | bytes

_LEAST_MAP_BYTES = 2


class Nested(Kind):
    """Another structure."""

    def __init__(self, kind: "type[Structure]") -> None:
        self.kind = kind
        self.label = kind.__name__
        self._layout = _LAYOUTS[kind, CURRENT_VERSION]
        self.least_bytes = self._layout.least_bytes
        self.read = self._layout.read  # type: ignore[method-assign]

    def write(self, parts: list[Part], value: Any) -> None:
        for write in self._layout.writers:
            write(parts, value)


class Row(Kind):
    """A tuple with a value of each kind."""

    def __init__(self, *kinds: Kind) -> None:
        self._steps = _steps(kinds, itemgetter, range(len(kinds)))
        self.kinds = kinds
        self.least_bytes = sum(kind.least_bytes for kind in kinds)
        self.label = "(" + ", ".join(kind.label for kind in kinds) + ")"

    def read(self, reader: Reader) -> Any:
        found: list[Any] = []
        for read, _ in self._steps:
            read(reader, found)
        return tuple(found)

    def write(self, parts: list[Part], value: Any) -> None:
        for _, write in self._steps:
            write(parts, value)


class Counted(Kind):
    """A tuple of values behind their count. `what` names them in errors; more than `most` are refused when they are read."""

    def __init__(self, code: str, item: "Kind | type[Structure]", what: str, most: int | None = None) -> None:
        self._layout = Struct(f">{code}")
        self.item = item if isinstance(item, Kind) else Nested(item)
        self._what = what
        self.most = most
        self.least_bytes = self._layout.size
        limit = "" if most is None else f" (at most {most})"
        self.label = f"{LABELS[code]} count{limit}, {self.item.label} each"

    def read(self, reader: Reader) -> Any:
        count = reader.count(reader.unpack(self._layout)[0], self.item.least_bytes, self._what)
        if self.most is not None and count > self.most:
            raise ProtocolError(f"{count} {self._what}, at most {self.most}")
        read = self.item.read
        return tuple([read(reader) for _ in range(count)])

    def write(self, parts: list[Part], value: Any) -> None:
        parts.append(encode_count(self._layout, len(value)))
        write = self.item.write
        for item in value:
            write(parts, item)


class Maybe(Kind):
    """A structure or None."""

    least_bytes = 1

    def __init__(self, kind: "type[Structure]") -> None:
        self.item = Nested(kind)
        self.label = f"i8 0, or i8 1 and {self.item.label}"

    def read(self, reader: Reader) -> Any:
        (flag,) = reader.bytes_(1)
        if flag > 1:
            raise ProtocolError(f"{flag}; must be 0 (none) or 1")
        return self.item.read(reader) if flag else None

    def write(self, parts: list[Part], value: Any) -> None:
        parts.append(b"\0" if value is None else b"\1")
        if value is not None:
            self.item.write(parts, value)


class UntilEnd(Kind):
    """A tuple of structures up to the end of the body."""

    least_bytes = 0

    def __init__(self, item: "type[Structure]") -> None:
        self.item = Nested(item)
        self.label = f"{self.item.label} each, to the end"

    def read(self, reader: Reader) -> Any:
        found = []
        while reader.remaining:
            found.append(self.item.read(reader))
        return tuple(found)

    def write(self, parts: list[Part], value: Any) -> None:
        for item in value:
            self.item.write(parts, item)


class ByVersion:
    """The kind that a field has from each header version on; earlier versions lack the field, which then has its default.

    Such fields are the last ones of a structure.
    """

    def __init__(self, kinds: Mapping[int, Kind]) -> None:
        self.kinds = dict(sorted(kinds.items(), reverse=True))

    def at(self, version: int) -> Kind | None:
        """The kind of a version."""
        return next((kind for since, kind in self.kinds.items() if version >= since), None)


@dataclass(frozen=True, slots=True)
class Field:
    """A field as it is declared. `key` is its name on the wire, `default` the value when it is missing, if it may be."""

    name: str
    key: str
    kind: Kind | MapKind | ByVersion
    default: Any
    is_constant: bool


class Structure:
    """Base of all declared bodies and their parts."""

    __slots__ = ()

    is_exact: ClassVar[bool] = False
    """Whether bytes behind the last field are refused; elsewhere later versions may add fields."""

    @classmethod
    def decode(cls, body: Body, version: int = CURRENT_VERSION) -> Self:
        """The value in a body of a frame with this header version. Views in it are views of `body`. Raises ProtocolError."""
        reader = Reader(body)
        value: Self = _LAYOUTS[cls, version].read(reader)
        if cls.is_exact and reader.remaining:
            raise ProtocolError(f"{reader.remaining} bytes behind the end of the body")
        return value

    def encode(self, version: int = CURRENT_VERSION) -> bytes:
        """The body. Raises LocalProtocolError for a value that the wire can't carry."""
        return b"".join(self.parts(version))

    def parts(self, version: int = CURRENT_VERSION) -> list[Part]:
        """The body in pieces, in which blocks are not copied. Raises: as `encode`."""
        parts: list[Part] = []
        for write in _LAYOUTS[type(self), version].writers:
            write(parts, self)
        return parts

    def check(self) -> None:
        """Refuse what was decoded when its fields do not fit together. Raises ProtocolError."""


def fields_of(kind: type[Structure]) -> list[Field]:
    """The declared fields of a structure, in the order of the declaration."""
    defaults = {item.name: item.default for item in fields(kind)}  # type: ignore[arg-type]
    found = []
    for name, hint in get_type_hints(kind, include_extras=True).items():
        is_constant = get_origin(hint) is ClassVar
        if is_constant:
            (hint,) = get_args(hint)
        wire = next((one for one in get_args(hint)[1:] if isinstance(one, Kind | MapKind | ByVersion)), None)
        if get_origin(hint) is not Annotated or wire is None:
            continue
        key, default = name, getattr(kind, name) if is_constant else defaults[name]
        default = UNSET if default is MISSING else default
        if isinstance(wire, MapKind):
            key = wire.key or name
            default = next((one for one in (wire.missing, default, wire.zero) if one is not UNSET), UNSET)
        found.append(Field(name, key, wire, default, is_constant))
    return found


_Read = Callable[[Reader, list[Any]], None]
"""Appends the values of neighbouring fields."""
_Write = Callable[[list[Part], Any], None]
"""Appends the bytes of neighbouring fields of a structure or tuple."""
_Get = Callable[[Any], Any]


def _strings(count: int, get: _Get) -> tuple[_Read, _Write]:
    def read(reader: Reader, found: list[Any]) -> None:
        reader.strs(count, found)

    def write(parts: list[Part], value: Any) -> None:
        for text in get(value):
            parts.append(encode_str(text))

    return read, write


def _numbers(kinds: Sequence[Number], get: _Get) -> tuple[_Read, _Write]:
    layout = Struct(">" + "".join(kind.code for kind in kinds))
    read_checks = [(at, kind.check_read) for at, kind in enumerate(kinds) if type(kind).check_read != Number.check_read]
    write_checks = [
        (at, kind.check_written) for at, kind in enumerate(kinds) if type(kind).check_written != Number.check_written
    ]

    def read(reader: Reader, found: list[Any]) -> None:
        values = reader.unpack(layout)
        for at, check in read_checks:
            check(values[at])
        found += values

    def write(parts: list[Part], value: Any) -> None:
        values = get(value)
        for at, check in write_checks:
            check(values[at])
        try:
            parts.append(layout.pack(*values))
        except StructError as error:
            for kind, value in zip(kinds, values, strict=False):
                kind.write([], value)  # raises for the one that does not fit
            raise misfit(layout, values) from error

    return read, write


def _is_number(kind: Kind) -> bool:
    """Whether a kind is read and written as every number is."""
    return isinstance(kind, Number) and type(kind).read == Number.read and type(kind).write == Number.write


def _one(kind: Kind, get: _Get) -> tuple[_Read, _Write]:
    read_one, write_one = kind.read, kind.write

    def read(reader: Reader, found: list[Any]) -> None:
        found.append(read_one(reader))

    def write(parts: list[Part], value: Any) -> None:
        write_one(parts, get(value))

    return read, write


def _map(declared: list[Field]) -> tuple[_Read, _Write]:
    """The map of strings with all fields of map kinds."""
    kinds: list[tuple[MapKind, str, Any, str]] = []
    for field in declared:
        assert isinstance(field.kind, MapKind)
        kinds.append((field.kind, field.key, field.default, field.name))

    def read(reader: Reader, found: list[Any]) -> None:
        entries = reader.strmap()
        found += [kind.read(entries, key, missing) for kind, key, missing, _ in kinds]

    def write(parts: list[Part], value: Any) -> None:
        entries: dict[str, str] = {}
        for kind, key, missing, name in kinds:
            one = getattr(value, name)
            if not kind.is_optional or one != missing:
                entries.update(kind.entries(key, one))
        parts.append(encode_strmap(entries))

    return read, write


def _steps(kinds: Sequence[Kind], getter: Callable[..., _Get], keys: Sequence[Any]) -> list[tuple[_Read, _Write]]:
    """Reads and writes fields one after the other, in as few steps as there can be.

    Args:
        kinds: of the fields.
        getter, keys: `attrgetter` or `itemgetter`, and the names or places, by which the values are read.
    """
    steps: list[tuple[_Read, _Write]] = []
    at = 0
    while at < len(kinds):
        numbers = [kind for kind in takewhile(_is_number, kinds[at:]) if isinstance(kind, Number)]
        strings = sum(1 for _ in takewhile(lambda kind: type(kind) is String, kinds[at:]))
        last = at + max(1, len(numbers), strings)
        get = getter(*keys[at:last])
        if last == at + 1:
            steps.append(_one(kinds[at], get))
        elif strings:
            steps.append(_strings(strings, get))
        else:
            steps.append(_numbers(numbers, get))
        at = last
    return steps


class _Layout:
    """A structure as one header version writes it."""

    __slots__ = ("_build", "_check", "_fields", "_kind", "least_bytes", "readers", "writers")

    def __init__(self, kind: type[Structure], version: int) -> None:
        entries: list[Field] = []
        placed: list[tuple[str, Kind]] = []
        for field in fields_of(kind):
            wire = field.kind.at(version) if isinstance(field.kind, ByVersion) else field.kind
            if isinstance(wire, MapKind):
                entries.append(field)
            elif wire is not None:
                placed.append((field.name, wire))
        entries.sort(key=lambda field: isinstance(field.kind, MapPrefix))
        steps = [_map(entries)] if entries else []
        steps += _steps([wire for _, wire in placed], attrgetter, [name for name, _ in placed])
        self.readers = [read for read, _ in steps]
        self.writers = [write for _, write in steps]
        self.least_bytes = _LEAST_MAP_BYTES * bool(entries) + sum(wire.least_bytes for _, wire in placed)
        self._build = _builder(kind, [field.name for field in entries] + [name for name, _ in placed])
        self._check = None if kind.check is Structure.check else kind.check
        self._kind = kind
        self._fields: list[tuple[str, Callable[[Reader], Any]]] = [(f".{name}", wire.read) for name, wire in placed]
        """Reads one field after the other; map entries name themselves."""
        if entries:
            self._fields.insert(0, ("", lambda reader: steps[0][0](reader, [])))

    def read(self, reader: Reader) -> Any:
        begin = reader.at
        found: list[Any] = []
        try:
            for read in self.readers:
                read(reader, found)
        except ProtocolError:
            reader.at = begin
            self._read_fields(reader)
            raise
        value = self._build(found)
        if self._check is not None:
            self._check(value)
        return value

    def _read_fields(self, reader: Reader) -> None:
        """Raise the error of the field that can't be read, with the names of structure and field."""
        for place, read in self._fields:
            try:
                read(reader)
            except ProtocolError as error:
                raise ProtocolError(f"{self._kind.__name__}{place}: {error}", code=error.code) from error


def _builder(kind: type[Structure], names: list[str]) -> Callable[[list[Any]], Any]:
    """What makes the value of the fields as they are on the wire; fields that are not there have their defaults."""
    placed_fields = [field for field in fields(kind) if field.name in names]  # type: ignore[arg-type]
    places = [names.index(field.name) for field in placed_fields if not field.kw_only]
    by_name = [(field.name, names.index(field.name)) for field in placed_fields if field.kw_only]
    if places == list(range(len(names))):
        return lambda found: kind(*found)
    pick = itemgetter(*places) if len(places) > 1 else lambda found: (found[places[0]],)
    if not by_name:
        return lambda found: kind(*pick(found))
    return lambda found: kind(*pick(found), **{name: found[place] for name, place in by_name})


class _Layouts(dict[tuple[type[Structure], int], _Layout]):
    def __missing__(self, key: tuple[type[Structure], int]) -> _Layout:
        kind, version = key
        # Clamped, so that frames with many versions make no more layouts than there are known versions.
        known = max(0, min(version, CURRENT_VERSION))
        if known != version:
            return self[kind, known]
        layout = self[key] = _Layout(kind, version)
        return layout


_LAYOUTS = _Layouts()
