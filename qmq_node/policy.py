"""Policies: what a node enforces for its subjects, and the JSON document in which nodes receive it from the metaserver.

Subjects are real ones: the retry and dead-letter subjects of a group are never closed or throttled, because failed messages
would have nowhere to go.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from qmq.errors import IllegalName, ProtocolError
from qmq.protocol.names import check_subject, split_subject
from qmq.protocol.reasons import NO_REASON, Reason, sent

POLICY_BYTES_MAX = 4 << 20
"""Longest document."""
POLICY_SUBJECTS_MAX = 50_000
"""Most subjects with a policy of their own; also bounds a node's token buckets."""
POLICY_PAUSES_MAX = 50_000
"""Most paused groups and consumers."""
ALLOWED_GROUPS_MAX = 1_000
"""Most groups that one subject allows."""
READ_ONLY_CHARS_MAX = 500
"""Longest reason for read only: it is in every refusal."""
RATE_MAX = 1 << 40
"""Highest rate of a quota, messages or bytes a second."""
RETENTION_HOURS_MAX = 24 * 36_525.0
ITEMS_PER_PART = 500
"""Subjects or pauses encoded at once: json holds the interpreter's lock for that long."""
_DIGEST_BYTES = 16

Pause = tuple[str, str, str]
"""(real subject, group, consumer id); an empty consumer id means the whole group."""


@dataclass(frozen=True, slots=True)
class SubjectPolicy:
    """What applies to one subject; None: no rule.

    Attributes:
        closed: new messages are refused; reads, acks and retries continue.
        messages_per_second: quota, with a burst of one second. 0 is not a quota: close the subject.
        bytes_per_second: the same in bytes of stored messages.
        retention_hours: older messages are dropped, where that is sooner than the node's own retention.
        allowed_groups: groups that may pull. A broadcast consumer's group is its consumer id.
    """

    closed: bool = False
    messages_per_second: int | None = None
    bytes_per_second: int | None = None
    retention_hours: float | None = None
    allowed_groups: tuple[str, ...] | None = None

    @property
    def has_quota(self) -> bool:
        return self.messages_per_second is not None or self.bytes_per_second is not None


NO_RULES = SubjectPolicy()


def sends_policy(policy: SubjectPolicy) -> dict[str, Any]:
    """What counts for sends of a subject, as `/stats` shows it."""
    quota = {"messages_per_second": policy.messages_per_second, "bytes_per_second": policy.bytes_per_second}
    return {"closed": policy.closed, "quota": quota if policy.has_quota else None}


@dataclass(frozen=True, slots=True)
class NodePolicy:
    """Everything a node enforces. Made by `of`, which digests the content into `version`, or by `decode_policy`."""

    version: str
    subjects: Mapping[str, SubjectPolicy] = field(default_factory=dict)
    paused: frozenset[Pause] = frozenset()
    read_only: Reason = NO_REASON
    """Why sends are refused; "": they are taken."""

    @classmethod
    def of(
        cls, subjects: Mapping[str, SubjectPolicy] | None = None, paused: Iterable[Pause] = (), read_only: str = ""
    ) -> "NodePolicy":
        """A policy of this content. Raises ProtocolError for a name, value or size that a node would refuse."""
        content = _content(subjects or {}, paused, read_only)
        return _read(content, _digest(content))


def _content(subjects: Mapping[str, SubjectPolicy], paused: Iterable[Pause], read_only: str) -> dict[str, Any]:
    """The content in its one canonical shape: everything sorted, rules that say nothing left out."""
    return {
        "subjects": {name: _rules(subjects[name]) for name in sorted(subjects)},
        "paused": sorted([list(pause) for pause in set(paused)]),
        "read_only": sent(read_only, READ_ONLY_CHARS_MAX),
    }


def _rules(policy: SubjectPolicy) -> dict[str, Any]:
    rules = {
        "closed": policy.closed or None,
        "messages_per_second": policy.messages_per_second,
        "bytes_per_second": policy.bytes_per_second,
        # 24 and 24.0 are one content, so they have to be one digest.
        "retention_hours": None if policy.retention_hours is None else float(policy.retention_hours),
        "allowed_groups": None if policy.allowed_groups is None else sorted(set(policy.allowed_groups)),
    }
    return {name: rule for name, rule in rules.items() if rule is not None}


def _parts(content: dict[str, Any]) -> Iterator[str]:
    """The content as one JSON object with sorted keys, in parts."""
    subjects, pauses = content["subjects"], content["paused"]
    names = list(subjects)
    yield '{"paused":['
    for begin in range(0, len(pauses), ITEMS_PER_PART):
        yield ("," if begin else "") + _dumps(pauses[begin : begin + ITEMS_PER_PART])[1:-1]
    yield f'],"read_only":{_dumps(content["read_only"])},"subjects":{{'
    for begin in range(0, len(names), ITEMS_PER_PART):
        part = {name: subjects[name] for name in names[begin : begin + ITEMS_PER_PART]}
        yield ("," if begin else "") + _dumps(part)[1:-1]
    yield "}}"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _digest(content: dict[str, Any]) -> str:
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for part in _parts(content):
        digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def encode_policy(policy: NodePolicy) -> bytes:
    """The document. Raises ProtocolError for one that is too long, or a name that can't be written as UTF-8."""
    content = "".join(_parts(_content(policy.subjects, policy.paused, policy.read_only)))
    try:
        data = f'{{"version":{_dumps(policy.version)},{content[1:]}'.encode()
    except UnicodeEncodeError as error:
        raise ProtocolError(f"the policy can't be written as UTF-8: {error.reason}") from error
    if len(data) > POLICY_BYTES_MAX:
        raise ProtocolError(f"the policy has {len(data)} bytes, the limit is {POLICY_BYTES_MAX}")
    return data


def decode_policy(data: bytes | memoryview) -> NodePolicy:
    """Read a document; unknown keys are ignored. Raises ProtocolError, which names the field.

    The version is taken as it is: a newer metaserver's document may have keys that are not known here.
    """
    if len(data) > POLICY_BYTES_MAX:
        raise ProtocolError(f"the policy has {len(data)} bytes, the limit is {POLICY_BYTES_MAX}")
    try:
        document = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"the policy is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise ProtocolError("the policy is not a JSON object")
    version = document.get("version")
    if not isinstance(version, str) or not 1 <= len(version) <= 100:
        raise ProtocolError("version: must be text of 1 to 100 characters")
    return _read(document, version)


def _read(document: dict[str, Any], version: str) -> NodePolicy:
    subjects = _kind(document, "subjects", dict, {})
    _at_most(len(subjects), POLICY_SUBJECTS_MAX, "subjects")
    found = {}
    for name, rules in subjects.items():
        _check_real(name, f"subjects[{name[:60]!r}]")
        if not isinstance(rules, dict):
            raise ProtocolError(f"subjects[{name!r}]: must be an object")
        found[name] = _read_subject(rules, f"subjects[{name!r}].")
    read_only = _kind(document, "read_only", str, "")
    _at_most(len(read_only), READ_ONLY_CHARS_MAX, "characters of read_only")
    return NodePolicy(
        version, found, frozenset(_read_pauses(_kind(document, "paused", list, []))), Reason.received(read_only)
    )


def _read_subject(rules: dict[str, Any], where: str) -> SubjectPolicy:
    return SubjectPolicy(
        _kind(rules, "closed", bool, False, where),
        _number(rules, "messages_per_second", where, int, 1, RATE_MAX),
        _number(rules, "bytes_per_second", where, int, 1, RATE_MAX),
        _number(rules, "retention_hours", where, float, 0.0, RETENTION_HOURS_MAX),
        _read_groups(rules, where),
    )


def _read_groups(rules: dict[str, Any], where: str) -> tuple[str, ...] | None:
    groups = rules.get("allowed_groups")
    if groups is None:
        return None
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        raise ProtocolError(f"{where}allowed_groups: must be a list of texts")
    _at_most(len(groups), ALLOWED_GROUPS_MAX, f"{where}allowed_groups")
    return tuple(groups)


def _read_pauses(items: list[Any]) -> Iterable[Pause]:
    _at_most(len(items), POLICY_PAUSES_MAX, "paused")
    for at, item in enumerate(items):
        if not isinstance(item, list) or len(item) != 3 or not all(isinstance(part, str) for part in item):
            raise ProtocolError(f"paused[{at}]: must be a list of subject, group and consumer ID")
        subject, group, consumer_id = item
        _check_real(subject, f"paused[{at}]")
        if not group:
            raise ProtocolError(f"paused[{at}]: the group may not be empty")
        yield subject, group, consumer_id


def _check_real(name: str, where: str) -> None:
    try:
        check_subject(name)
    except IllegalName as error:
        raise ProtocolError(f"{where}: {error}") from error
    if split_subject(name).kind != "real":
        raise ProtocolError(f"{where}: a retry or dead-letter subject can't have a policy, its real subject can")


def _kind(values: dict[str, Any], key: str, kind: type, default: Any, where: str = "") -> Any:
    value = values.get(key, default)
    if not isinstance(value, kind):
        raise ProtocolError(f"{where}{key}: must be {kind.__name__}, not {type(value).__name__}")
    return value


def _number(values: dict[str, Any], key: str, where: str, kind: Callable[[Any], Any], least: float, most: float) -> Any:
    """A number or None; a whole one where `kind` is int. JSON's true, NaN and Infinity are none."""
    value = values.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        raise ProtocolError(f"{where}{key}: must be a {'whole ' if kind is int else ''}number, not {value!r:.40}")
    if not least <= value <= most or value == 0:
        raise ProtocolError(
            f"{where}{key}: {value!r:.40} is outside {'above ' if not least else ''}{least:g} to {most:g}"
        )
    return kind(value)


def _at_most(count: int, most: int, what: str) -> None:
    if count > most:
        raise ProtocolError(f"{count} {what}, the limit is {most}")


EMPTY_POLICY = NodePolicy.of()
"""Nothing is restricted, by decision."""
NO_POLICY = NodePolicy("")
"""What a node starts with that never got one, or lost it: nothing is restricted, and any policy is another one."""
