"""class Masks: the rules that apply for one reader, as requests to nodes contain them and as they change a message."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from typing import Any

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
ENCODED_CHARS_MAX = RULES_BYTES_MAX + 256
"""Of the parameter of a request: the rules and the key."""

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
class Masks:
    """Rules, and the key of hashes, with which values can be tried until a hash fits."""

    rules: tuple[Rule, ...] = ()
    key: bytes = b""

    @classmethod
    def of(cls, rules: Iterable[Mapping[str, Any]], key: bytes = b"") -> "Masks":
        """Masks from rules in their JSON form."""
        return cls(tuple(map(Rule.of, rules)), key)

    def encode(self) -> str | None:
        """Return it as a parameter of a request; None without rules."""
        return _compact({"key": self.key.hex(), "rules": list(map(asdict, self.rules))}) if self.rules else None

    @classmethod
    def decode(cls, text: str) -> "Masks":
        """Read what `encode` returned. Raises ValueError with what is wrong."""
        if len(text) > ENCODED_CHARS_MAX:
            raise ValueError(f"has {len(text)} characters; at most {ENCODED_CHARS_MAX} are allowed")
        try:
            found = json.loads(text)
            if found.keys() != {"key", "rules"} or not all(map(_is_rule, found["rules"])):
                raise ValueError(f"must be an object with key and rules, each with {', '.join(_RULE_KEYS)}")
            key = bytes.fromhex(found["key"])
            masks = cls.of(found["rules"], key)
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

    def apply(self, properties: Mapping[str, str]) -> tuple[dict[str, str], list[Mark]]:
        """Return the properties of a message as they are shown, and what was masked. Masked texts are in one piece."""
        if not self.rules:
            return dict(properties), []
        if len(properties) > PROPERTIES_MAX:
            kept = {name: value for name, value in properties.items() if name in RESERVED_KEYS}
            return kept, [Mark("*", "*", How.HIDE, Why.TOO_LARGE)]
        shown = _Shown(properties)
        marks: dict[Mark, None] = {}
        for base in [base for base in shown.names if base not in RESERVED_KEYS]:
            for rule in self.rules:
                for pattern in rule.patterns_for(base):
                    shown.put(base, self._text(shown.text(base), rule.how))
                    marks[Mark(base, pattern, rule.how)] = None
        if KEY_DATA in shown.names and not any(mark.property == KEY_DATA for mark in marks):
            self._mask_body(shown, marks)
        return shown.properties, list(marks)

    def _mask_body(self, shown: "_Shown", marks: dict[Mark, None]) -> None:
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


class _Shown:
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
