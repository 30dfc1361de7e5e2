"""class Masks: the rules that apply for one reader, as requests to nodes contain them and as they change a message."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from qmq.errors import BodyUndecodable
from qmq.formats import BODY_BYTES_MAX, SCHEMA_CHARS_MAX, BodyFormat, Undecodable, decode
from qmq.protocol.content_encoding import content_bytes
from qmq.protocol.masking.json_body import JsonBody, Unmaskable, Why
from qmq.protocol.masking.rules import (
    KEY_DATA,
    PATTERN_CHARS_MAX,
    RULES_BYTES_MAX,
    How,
    Rule,
    path_problem,
    property_problem,
    steps_of,
)
from qmq.protocol.messages import KEY_CONTENT_ENCODING, KEY_CONTENT_TYPE, RESERVED_KEYS, get_large_string

HIDDEN = "••••"
LAST4_CHARS_MIN = 8
"""Of shorter values `last4` shows nothing."""
PROPERTIES_MAX = 2_000
"""Of a message with more properties, all are hidden where there are rules."""
KEY_BYTES_MAX = 64
ENCODED_CHARS_MAX = RULES_BYTES_MAX + 2 * SCHEMA_CHARS_MAX + 256
"""Of the parameter of a request: the rules, the key, and the format of bodies with its schema."""

TYPE_BYTES, TYPE_JSON = "application/octet-stream", "application/json"

_PART = re.compile(r"(.+)#part[0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Mark:
    """A property of a message of which something was masked, and the pattern or path that names it."""

    property: str
    rule: str
    how: How
    why: Why | None = None
    """Why more is hidden than the rule names: the whole body, or with property `*` all properties; None: it is not."""


@dataclass(frozen=True, slots=True)
class Decoding:
    """What became of a body in a format other than JSON."""

    format: str
    problem: str | None
    """Why it is shown as it is stored; None: it is decoded."""


class Shown(NamedTuple):
    """A message as it is shown."""

    properties: dict[str, str]
    marks: list[Mark]
    decoding: Decoding | None
    """None: the body needs no decoding."""


@dataclass(frozen=True, slots=True)
class Masks:
    """Rules, and the key of hashes, with which values can be tried until a hash fits."""

    rules: tuple[Rule, ...] = ()
    key: bytes = b""
    body_format: BodyFormat | None = None
    """How bodies are decoded before rules apply; None: they are JSON or text."""

    @classmethod
    def of(cls, rules: Iterable[Mapping[str, Any]], key: bytes = b"", body_format: BodyFormat | None = None) -> "Masks":
        """Masks from rules in their JSON form."""
        return cls(tuple(map(Rule.of, rules)), key, body_format)

    @property
    def is_identity(self) -> bool:
        """Whether messages are shown as they are stored."""
        return not self.rules and self.body_format is None

    def encode(self) -> str | None:
        """Return it as a parameter of a request; None where messages are shown as they are stored."""
        if self.is_identity:
            return None
        values = {"key": self.key.hex(), "rules": list(map(asdict, self.rules))}
        return _compact(values if self.body_format is None else values | {"body_format": asdict(self.body_format)})

    @classmethod
    def decode(cls, text: str) -> "Masks":
        """Read what `encode` returned. Raises ValueError with what is wrong."""
        if len(text) > ENCODED_CHARS_MAX:
            raise ValueError(f"has {len(text)} characters; at most {ENCODED_CHARS_MAX} are allowed")
        try:
            found = json.loads(text)
            body_format = found.pop("body_format", None)
            if found.keys() != {"key", "rules"} or not all(map(_is_rule, found["rules"])):
                raise ValueError(f"must be an object with key and rules, each with {', '.join(_RULE_KEYS)}")
            key = bytes.fromhex(found["key"])
            masks = cls.of(found["rules"], key, None if body_format is None else _body_format(body_format))
        except (AttributeError, TypeError, RecursionError) as error:
            raise ValueError("must be an object with key and rules") from error
        if len(key) > KEY_BYTES_MAX:
            raise ValueError(f"has a key of {len(key)} bytes; at most {KEY_BYTES_MAX} are allowed")
        for rule in masks.rules:
            _check(rule.properties, property_problem)
            _check(rule.json_paths, path_problem)
        return masks

    def may_change(self, name: str) -> bool:
        """Whether the value of a property may be shown other than it is."""
        base = _base(name)
        return base not in RESERVED_KEYS and any(
            any(rule.patterns_for(base)) or (base == KEY_DATA and rule.json_paths) for rule in self.rules
        )

    def apply(self, properties: Mapping[str, str]) -> Shown:
        """Return the properties of a message as they are shown. Decoded and masked texts are in one piece."""
        if self.is_identity:
            return Shown(dict(properties), [], None)
        if len(properties) > PROPERTIES_MAX and self.rules:
            kept = {name: value for name, value in properties.items() if name in RESERVED_KEYS}
            return Shown(kept, [Mark("*", "*", How.HIDE, Why.TOO_LARGE)], None)
        shown = _Texts(properties)
        decoding = None if self.body_format is None else _decode_body(shown, self.body_format)
        marks: dict[Mark, None] = {}
        for base in [base for base in shown.names if base not in RESERVED_KEYS]:
            for rule in self.rules:
                for pattern in rule.patterns_for(base):
                    shown.put(base, self._text(shown.text(base), rule.how))
                    marks[Mark(base, pattern, rule.how)] = None
        if KEY_DATA in shown.names and not any(mark.property == KEY_DATA for mark in marks):
            self._mask_body(shown, marks)
        return Shown(shown.properties, list(marks), decoding)

    def _mask_body(self, shown: "_Texts", marks: dict[Mark, None]) -> None:
        paths = [(path, rule.how) for rule in self.rules for path in rule.json_paths]
        if not paths:
            return
        try:
            body = JsonBody(shown.text(KEY_DATA), shown.properties.get(KEY_CONTENT_ENCODING))
            found = [
                Mark(KEY_DATA, path, how) for path, how in paths if body.mask(steps_of(path), partial(self._value, how))
            ]
        except Unmaskable as error:
            shown.put(KEY_DATA, HIDDEN)
            marks[Mark(KEY_DATA, paths[0][0], How.HIDE, error.why)] = None
            return
        marks.update(dict.fromkeys(found))
        # Also where nothing was masked: of a name that occurs twice in an object, only the last value was compared.
        shown.put(KEY_DATA, body.text(), is_json=True)

    def _value(self, how: How, value: Any) -> str:
        if isinstance(value, str):
            return self._text(value, how)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return self._text(json.dumps(value, sort_keys=True), how) if is_number or how is How.HASH else HIDDEN

    def _text(self, text: str, how: How) -> str:
        if how is How.HASH:
            return "#" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=self.key).hexdigest()
        return HIDDEN + text[-4:] if how is How.LAST4 and len(text) >= LAST4_CHARS_MIN else HIDDEN


NO_MASKS = Masks()
_RULE_KEYS = ("properties", "json_paths", "how")


class _Texts:
    """The properties of a message, with the parts of each large text."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.names: dict[str, list[str]] = {}
        """By the name of a text: the properties that it consists of."""
        for name in properties:
            self.names.setdefault(_base(name), []).append(name)

    def text(self, base: str) -> str:
        """Return the whole text."""
        parts = {name: self.properties[name] for name in self.names[base]}
        text = get_large_string(parts, base)
        return "".join(parts.values()) if text is None else text

    def put(self, base: str, text: str, *, is_json: bool = False) -> None:
        """Replace a text by another one, which is neither encoded nor, unless `is_json`, what its content type says."""
        for name in self.names[base]:
            del self.properties[name]
        self.names[base] = [base]
        self.properties[base] = text
        if base == KEY_DATA:
            self.properties.pop(KEY_CONTENT_ENCODING, None)
            if not is_json:
                self.properties.pop(KEY_CONTENT_TYPE, None)


def _decode_body(shown: _Texts, body_format: BodyFormat) -> Decoding | None:
    """Replace a body that consists of bytes by JSON, if it can be decoded. Texts are left as they are."""
    encoding = shown.properties.get(KEY_CONTENT_ENCODING)
    kind = shown.properties.get(KEY_CONTENT_TYPE, TYPE_BYTES).partition(";")[0].strip().lower()
    if KEY_DATA not in shown.names or encoding is None or kind.startswith("text/") or kind.endswith("json"):
        return None
    try:
        text = decode(body_format, content_bytes(shown.text(KEY_DATA), encoding, bytes_max=BODY_BYTES_MAX))
    except (Undecodable, BodyUndecodable) as error:
        return Decoding(body_format.name, str(error))
    shown.put(KEY_DATA, text, is_json=True)
    shown.properties[KEY_CONTENT_TYPE] = TYPE_JSON
    return Decoding(body_format.name, None)


def _body_format(values: Mapping[str, Any]) -> BodyFormat:
    if values.keys() != {"name", "schema"} or not all(isinstance(value, str) for value in values.values()):
        raise ValueError("has a body_format that is not an object with name and schema")
    if len(values["schema"]) > SCHEMA_CHARS_MAX:
        raise ValueError(f"has a schema of {len(values['schema'])} characters; at most {SCHEMA_CHARS_MAX} are allowed")
    return BodyFormat(values["name"], values["schema"])


def size_of(rules: Iterable[Mapping[str, Any]]) -> int:
    """The bytes of rules as requests contain them; compare with RULES_BYTES_MAX."""
    return len(_compact([asdict(Rule.of(rule)) for rule in rules]).encode())


def _base(name: str) -> str:
    """The name of the large text that a property is a part of; otherwise its own name."""
    match = _PART.fullmatch(name)
    return match[1] if match else name


def _is_rule(values: Mapping[str, Any]) -> bool:
    return (
        values.keys() == set(_RULE_KEYS)
        and isinstance(values["properties"], list)
        and isinstance(values["json_paths"], list)
    )


def _check(texts: Iterable[Any], problem: Callable[[str], str]) -> None:
    for text in texts:
        found = problem(text) if isinstance(text, str) and len(text) <= PATTERN_CHARS_MAX else "must be a short text"
        if found:
            raise ValueError(f"{str(text)[:PATTERN_CHARS_MAX]!r}: {found}")


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
