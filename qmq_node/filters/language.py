"""compile_filter: a text is checked and becomes a Filter.

The CEL library (cel-expr-python, the bindings of Google's cel-cpp) parses, checks and evaluates. Its errors are worded for users
here, and its checked tree is read once for what the filter names.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Any

from cel_expr_python import cel

from qmq.errors import QmqError
from qmq_node.filters.content import VALUES, Content, moment, picked
from qmq_node.filters.syntax import Call, Constant, Name, Node, Select, children, tree_of, walk
from qmq_node.filters.words import VARIABLES, terms_of

FILTER_CHARS_MAX = 4_000
"""Most characters of a filter: as many fit into a URL, whatever they are."""
FILTER_NODES_MAX = 1_000
"""Most names, values and operators of a filter; a word has four."""
WORDS_MAX = 100
"""Most words and `key=value` of a filter in plain words."""

_TYPES = {
    "body": cel.Type.DYN,
    "properties": cel.Type.Map(cel.Type.STRING, cel.Type.STRING),
    "tags": cel.Type.List(cel.Type.STRING),
    "text": cel.Type.STRING,
    "size": cel.Type.INT,
    "time": cel.Type.TIMESTAMP,
    "created": cel.Type.TIMESTAMP,
    "id": cel.Type.STRING,
    "sequence": cel.Type.INT,
    "now": cel.Type.TIMESTAMP,
}
assert tuple(_TYPES) == VARIABLES
SEARCHED = {"body": ("body",), "properties": ("properties",), "text": ("properties", "body"), "tags": ("tags",)}
_ERROR = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNKNOWN = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'")
_NO_TEXT = re.compile(r"[\x00\ud800-\udfff]")
_DEEP = "recursion limit exceeded"


class FilterError(QmqError):
    """A filter that can't be used; `line` and `column` begin at 1, and are 0 if no place is to blame."""

    code = "filter.invalid"

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(f"line {line}, column {column}: {message}" if line else message)
        self.line = line
        self.column = column


class TooCostly(QmqError):
    """Evaluating a filter for one message takes more than it may."""

    code = "filter.too_costly"


@dataclass(frozen=True, eq=False)
class Filter:
    """A checked filter. For one thread at a time."""

    text: str
    expression: str
    """The text as CEL; "": every message matches."""
    tree: Node | None
    names: frozenset[str]
    """The variables that it uses."""
    now: datetime
    _program: Any
    _fields: Mapping[str, tuple[str, ...] | None]
    """Of body and properties, those that it names; None: all."""

    @property
    def searched(self) -> list[str]:
        """The parts of a message that it names: "properties", "body", "tags"; others are named like their variable."""
        parts = {part: None for name in VARIABLES if name in self.names for part in SEARCHED.get(name, (name,))}
        parts.pop("now", None)
        return list(parts)

    def matches(self, content: Content) -> bool:
        """Whether a message matches. A missing field, and a value of another type, is no match. Raises TooCostly."""
        if self._program is None:
            return True
        data = {name: VALUES[name](content) for name in self.names if name in VALUES}
        for name, fields in self._fields.items():
            data[name] = picked(data[name], fields)
        if "now" in self.names:
            data["now"] = self.now
        try:
            return self._program.eval(data=data).value() is True
        except RuntimeError as error:
            # Errors of values are values; what is raised is the limit of the loops, or of memory.
            raise TooCostly(f"sequence {content.sequence}: {error}") from error


@lru_cache(maxsize=1)
def _environment() -> Any:
    return cel.NewEnv(variables=_TYPES)


def compile_filters(texts: Iterable[str], now_ms: int) -> Filter:
    """Return a filter that matches what all of these match. Raises FilterError."""
    found = [one for one in (compile_filter(text, now_ms) for text in texts) if one.expression]
    if len(found) <= 1:
        return found[0] if found else compile_filter("", now_ms)
    return compile_filter(" && ".join(f"({one.expression})" for one in found), now_ms)


def compile_filter(text: str, now_ms: int) -> Filter:
    """Return a filter.

    Args:
        text: CEL, or plain words; "" matches every message.
        now_ms: what `now` is.

    Raises:
        FilterError: the text is no filter; the message has the place and what is wrong there.
    """
    if len(text) > FILTER_CHARS_MAX:
        raise FilterError(f"the filter has {len(text)} characters; the limit is {FILTER_CHARS_MAX}")
    terms = terms_of(text)
    if terms is not None and len(terms) > WORDS_MAX:
        raise FilterError(f"the filter has {len(terms)} words; the limit is {WORDS_MAX}")
    expression = text if terms is None else " && ".join(terms)
    now = moment(now_ms)
    if not expression:
        return Filter(text, "", None, frozenset(), now, None, {})
    if _NO_TEXT.search(expression):
        raise FilterError("the filter contains a character that is not text: NUL, or half of a surrogate pair")
    try:
        program = _environment().compile(expression)
    except RuntimeError as error:
        raise _worded(str(error)) from error
    kind = program.return_type().name()
    if kind not in ("BOOL", "DYN"):
        raise FilterError(f"the filter is of type {kind.lower()}; it must be true or false. Compare it with a value")
    tree = tree_of(program.serialize())
    if (nodes := sum(1 for _ in walk(tree))) > FILTER_NODES_MAX:
        raise FilterError(f"the filter has {nodes} names, values and operators; the limit is {FILTER_NODES_MAX}")
    names = frozenset(node.name for node in walk(tree) if isinstance(node, Name)) & frozenset(VARIABLES)
    fields: dict[str, tuple[str, ...] | None] = {
        name: _fields_of(tree, name) for name in ("body", "properties") if name in names
    }
    return Filter(text, expression, tree, names, now, program, fields)


def _fields_of(tree: Node, variable: str) -> tuple[str, ...] | None:
    """Return the top-level fields of a variable that an expression reads; None if it uses the variable in another way."""
    fields: set[str] = set()
    pending = [tree]
    while pending:
        node = pending.pop()
        if node == Name(variable):
            return None
        if isinstance(node, Select) and node.operand == Name(variable):
            fields.add(node.field)
        elif (
            isinstance(node, Call)
            and node.function == "_[_]"
            and node.arguments[0] == Name(variable)
            and isinstance(key := node.arguments[1], Constant)
            and isinstance(key.value, str)
        ):
            fields.add(key.value)
        else:
            pending += children(node)
    return tuple(sorted(fields))


def _worded(error: str) -> FilterError:
    if _DEEP in error:
        return FilterError("the filter is nested too deeply: at most 32 levels")
    found = _ERROR.search(error)
    if found is None:
        return FilterError(error.partition("\n")[0][:300])
    line, column, why = int(found[1]), int(found[2]), found[3].removesuffix("[INVALID_ARGUMENT]").strip()[:300]
    if unknown := _UNKNOWN.search(why):
        why = _unknown(unknown[1])
    elif overload := _OVERLOAD.search(why):
        operator = overload[1].replace("_", "").replace("@", "")
        why = f"{operator!r} can't be applied to {overload[2].replace(', ', ' and ')}; convert one of them, as in double(...)"
    elif why.startswith("Syntax error:"):
        # The rest is a list of all that the grammar allows here.
        why = why.partition(" expecting ")[0].replace("Syntax error: ", "syntax error: ")
        why = why.replace("mismatched input '<EOF>'", "the filter ends too early")
    return FilterError(why, line, column)


def _unknown(name: str) -> str:
    root, _, rest = name.partition(".")
    near = get_close_matches(root, VARIABLES, 1)
    if root == "message":
        near = get_close_matches(rest.partition(".")[0], VARIABLES, 1, 0.5)
    if near:
        return f"{name[:60]!r} is unknown; did you mean {near[0]!r}?"
    return f"{name[:60]!r} is unknown; known are {', '.join(VARIABLES)}. Write a text in quotes"
