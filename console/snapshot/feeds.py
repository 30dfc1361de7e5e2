"""Feeds: the parts of the live state that clients subscribe to. Pure."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console.snapshot.state import Delta, State, group_key

_SECTIONS_OF = {
    "lag": ("subjects", "groups"),
    "nodes": ("nodes", "broker_groups", "metaservers", "jobs", "alerts"),
    "events": ("events",),
    "audit": ("events", "audit"),
}


@dataclass(frozen=True, slots=True)
class Feed:
    """The part of the state that a client subscribes to: `lag` (of a subject, or of a group of a subject), `nodes`, `events`,
    `audit` (events with the audit log).
    """

    kind: str
    subject: str | None = None
    group: str | None = None

    @property
    def name(self) -> str:
        """`lag.subject.<code>`, `lag.group.<code>`, `nodes`, `events`, `audit`. The code is the names in base64, so that
        `feed_of` needs no table."""
        if self.subject is None:
            return self.kind
        if self.group is None:
            return f"lag.subject.{_coded(self.subject)}"
        return f"lag.group.{_coded(group_key(self.subject, self.group))}"

    @property
    def sections(self) -> tuple[str, ...]:
        """What it shows."""
        return _SECTIONS_OF[self.kind]

    def keys(self, section: str, present: Mapping[str, Any]) -> Iterable[str] | None:
        """The keys of a section that belong to it, of those that are present; None: all."""
        if self.subject is None:
            return None
        if section == "subjects":
            return (self.subject,)
        if self.group is not None:
            return (group_key(self.subject, self.group),)
        prefix = group_key(self.subject, "")
        return [key for key in present if key.startswith(prefix)]


def _coded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def feed_of(name: str) -> Feed | None:
    """The feed with this name; None: there is none."""
    if name in _SECTIONS_OF and name != "lag":
        return Feed(name)
    kind, _, code = name.rpartition(".")
    if kind not in ("lag.subject", "lag.group"):
        return None
    try:
        text = urlsafe_b64decode(code + "=" * (-len(code) % 4)).decode()
    except ValueError:
        return None
    subject, _, group = text.partition("\n")
    return Feed("lag", subject, group if kind == "lag.group" else None)


def views(state: State, feeds: Sequence[Feed]) -> list[State]:
    """The part of a state that each feed shows. The groups of all subjects are looked through once for all feeds."""
    of_subject: dict[str, list[str]] = {
        feed.subject: [] for feed in feeds if feed.subject is not None and feed.group is None
    }
    if of_subject:
        for key in state.get("groups", {}):
            subject, separator, _ = key.partition("\n")
            if separator and (keys := of_subject.get(subject)) is not None:
                keys.append(key)
    found = []
    for feed in feeds:
        part: State = {}
        for section in feed.sections:
            entries = state.get(section, {})
            if section == "groups" and feed.subject in of_subject and feed.group is None:
                wanted: Iterable[str] | None = of_subject[feed.subject]
            else:
                wanted = feed.keys(section, entries)
            part[section] = entries if wanted is None else {key: entries[key] for key in wanted if key in entries}
        found.append(part)
    return found


def restrict(change: Delta, feed: Feed) -> Delta:
    """The part of a delta that a feed shows."""
    found: Delta = {}
    for section in feed.sections:
        parts = change.get(section)
        if parts is None:
            continue
        keys = feed.keys(section, {**dict.fromkeys(parts["gone"]), **parts["set"]})
        if keys is None:
            found[section] = parts
            continue
        wanted = set(keys)
        gone = [key for key in parts["gone"] if key in wanted]
        changed = {key: parts["set"][key] for key in wanted if key in parts["set"]}
        if gone or changed:
            found[section] = {"gone": gone, "set": changed}
    return found
