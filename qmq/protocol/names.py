"""Legal subjects, groups and consumer ids; names of retry and dead-letter subjects put together and taken apart.

Rules: `docs/reference/wire.md`, sections 4, 5 and 10.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, NamedTuple

from qmq.errors import IllegalName
from qmq.words import UNPRINTABLE

RETRY_PREFIX = "%RETRY%"
DEAD_PREFIX = "%DEAD_RETRY%"

SUBJECT_CHARS_MAX = 100
GROUP_CHARS_MAX = 100
CONSUMER_ID_CHARS_MAX = 200
MESSAGE_ID_CHARS_MAX = 100
TAGS_MAX = 10
VALUE_BYTES_MAX = 32767

SUBJECT_CLOSED = "subject.closed"
SUBJECT_OVER_QUOTA = "subject.over_quota"
SUBJECT_OVER_LIMIT = "subject.over_limit"
"""What the remark begins with when a node refuses a message for its subject: the node itself is fine."""

NO_SPACE = "no space"
"""What the remark begins with when a node refuses a message because its disk is full."""

_BREAKING = re.compile("[/\0\r\n \t\v\f\x85\u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")
"""What a subject may not hold: '/', line ends and white space that breaks."""
_SEPARATORS = re.compile("[/\0\r\n]")
UNADDRESSABLE = frozenset({".", ".."})
"""Names that no URL can carry: clients and servers remove such a part of a path, however it is written."""
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})
"""Control, format (bidirectional and zero-width) and separator characters, and lone surrogates."""
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters of other categories that show nothing: fillers, blanks, variation selectors."""


class _Rule(NamedTuple):
    """What the names of one kind may be."""

    what: str
    code: str
    illegal: re.Pattern[str]
    illegal_words: str
    chars_max: int


_SUBJECT = _Rule("subject", "subject.name_illegal", _BREAKING, "'/', white space and line ends", SUBJECT_CHARS_MAX)
# A broadcast's group is its consumer id, so the broker allows groups as long as ids; clients keep to GROUP_CHARS_MAX.
_GROUP = _Rule("consumer group", "group.name_illegal", _SEPARATORS, "'/' and line ends", CONSUMER_ID_CHARS_MAX)
_CONSUMER_ID = _GROUP._replace(what="consumer id", code="consumer_id.illegal")


@dataclass(frozen=True, slots=True)
class SubjectName:
    """A subject's name taken apart; `group` is empty for a real one."""

    kind: Literal["real", "retry", "dead"]
    subject: str
    group: str


def is_subject_refusal(remark: str) -> bool:
    """Whether a send was rejected because of its subject; the node's other subjects are not affected."""
    return remark.startswith((SUBJECT_CLOSED, SUBJECT_OVER_QUOTA, SUBJECT_OVER_LIMIT))


def split_subject(name: str) -> SubjectName:
    """What kind of subject a name means. A name with the prefix that does not fit the pattern counts as real text."""
    kind: Literal["real", "retry", "dead"] = "real"
    if name.startswith("%RETRY"):
        kind = "retry"
    elif name.startswith("%DEAD_RETRY"):
        kind = "dead"
    parts = [] if kind == "real" else [part for part in name.split("%") if part]
    if len(parts) != 3:
        return SubjectName(kind, name, "")
    return SubjectName(kind, parts[1], parts[2])


def real_subject(name: str) -> str:
    """Return the real subject of a retry or dead-letter subject, and any other name as it is.

    The result is "" for a name with one of their prefixes that is not written as clients and brokers write such names: a subject
    may hold '%', so `%RETRY%orders%%billing` may come from subject `orders%` as well as from `orders`.
    """
    parts = split_subject(name)
    if parts.kind == "real":
        return name
    prefix = RETRY_PREFIX if parts.kind == "retry" else DEAD_PREFIX
    return parts.subject if parts.group and name == f"{prefix}{parts.subject}%{parts.group}" else ""


def retry_subject(subject: str, group: str) -> str:
    """Where a group's failed messages of a subject go; for a retry subject that subject itself."""
    return f"{RETRY_PREFIX}{split_subject(subject).subject}%{group}"


def dead_letter_subject(subject: str, group: str) -> str:
    """Where a group's messages go that failed too often."""
    return f"{DEAD_PREFIX}{split_subject(subject).subject}%{group}"


def characters(text: str) -> int:
    """Length as the official client counts it: UTF-16 code units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be", "surrogatepass")) // 2


def message_id_problem(message_id: str) -> str:
    """Why a new message may not have this ID; "" if it may."""
    count = characters(message_id)
    if count > MESSAGE_ID_CHARS_MAX:
        return f"message id of {count} characters, the limit is {MESSAGE_ID_CHARS_MAX}"
    if message_id.isprintable() or (found := UNPRINTABLE.search(message_id)) is None:
        return ""
    return f"the message id {message_id!a} contains {found[0]!a}; control and bidirectional characters are not allowed"


def check_subject(name: str) -> None:
    """Raises IllegalName for a subject that may not be stored. Of a retry subject the real one's length counts."""
    _check(_SUBJECT, name, split_subject(name).subject)


def check_group(name: str) -> None:
    """Raises IllegalName for a consumer group that can't be pulled for."""
    _check(_GROUP, name, name)


def check_consumer_id(name: str) -> None:
    """Raises IllegalName for a consumer id that can't be pulled with."""
    _check(_CONSUMER_ID, name, name)


def check_new_subject(name: str) -> None:
    """Raises IllegalName for a subject that may not be created, although it may exist. Of a retry subject the parts count."""
    check_subject(name)
    parts = split_subject(name)
    _check_visible(_SUBJECT, name, parts.subject, parts.group)


def check_new_group(name: str) -> None:
    """Raises IllegalName for a consumer group that may not be created, although one with such a name may exist."""
    check_group(name)
    _check_visible(_GROUP, name, name)


def hidden_text_problem(name: str) -> str:
    """Why another name could look the same as this one, or no URL could name it; "" if neither. Only for new names: others were
    stored before."""
    if name in UNADDRESSABLE:
        return "can't be part of a URL; choose another name"
    if name.isascii() and name.isprintable():
        return ""
    for character in name:
        if character == " ":
            continue
        if unicodedata.category(character) in _HIDDEN_CATEGORIES or _INVISIBLE.match(character):
            return f"holds {character!a}: control, bidirectional and invisible characters are not allowed"
    if not unicodedata.is_normalized("NFC", name):
        return "is not in Unicode's normal form NFC"
    return ""


def _check_visible(rule: _Rule, name: str, *parts: str) -> None:
    for part in filter(None, parts):
        problem = hidden_text_problem(part)
        if problem:
            raise IllegalName(f"{rule.what} {name[:120]!a} {problem}", code=rule.code)


def _check(rule: _Rule, name: str, counted: str) -> None:
    """Raises IllegalName for an empty name, one with an illegal character, or one whose part `counted` is too long."""
    if not name:
        raise IllegalName(f"a {rule.what} may not be empty", code=rule.code)
    if name in UNADDRESSABLE or counted in UNADDRESSABLE:
        raise IllegalName(
            f"{rule.what} {name[:120]!r}: '.' and '..' are not allowed, no URL can name them", code=rule.code
        )
    found = rule.illegal.search(name)
    if found is not None:
        text = f"{rule.what} {name[:120]!r} holds {found.group()!r}; {rule.illegal_words} are not allowed"
        raise IllegalName(text, code=rule.code)
    if characters(counted) > rule.chars_max:
        text = f"{rule.what} {name[:60]!r}... has {characters(name)} characters, the limit is {rule.chars_max}"
        raise IllegalName(text, code=rule.code)
