"""Documents of provisioning: their form, and every error of one at once."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from metaserver.errors import ChangeRefused, NotAllowed
from metaserver.services import groups, subjects, teams
from metaserver.services.changes import text_problem
from metaserver.services.fields import SHOWN_CHARS_MAX, shown
from metaserver.services.resources import Resource
from qmq.words import nearest

ITEMS_MAX = 2_000
"""Maximum number of objects of one document: a few seconds in which other changes are blocked."""
PROBLEMS_MAX = 20
"""Problems of a document that its error names; it counts the others."""
GROUPS = "consumer_groups"
KEYS = {"teams": ("name", "description"), "subjects": ("name", GROUPS, "archived", *subjects.SUBJECT.fields)}
GROUP_KEYS = ("name", *groups.GROUP.fields)

Items = list[dict[str, Any]]


@dataclass(eq=False, repr=False)
class Problems:
    """Collects what is wrong with a document."""

    count: int = 0
    _first: list[tuple[str, str]] = field(default_factory=list, init=False)
    """Place and text of at most PROBLEMS_MAX of them."""
    _kinds: set[tuple[type[ChangeRefused], str]] = field(default_factory=set, init=False)

    def add(
        self, place: str, text: str, code: str = "apply.invalid", kind: type[ChangeRefused] = ChangeRefused
    ) -> None:
        self.count += 1
        self._kinds.add((kind, code))
        if len(self._first) < PROBLEMS_MAX:
            self._first.append((place, text))

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Collect a rejection, which ends the block."""
        try:
            yield
        except ChangeRefused as error:
            self.add(place, str(error), error.code, type(error))

    def refuse(self) -> None:
        """Raise one ChangeRefused with all problems; none without any.

        It has the type and code that all problems share. Otherwise it is NotAllowed if one of them is, or else `apply.invalid`.
        """
        if not self.count:
            return
        kind, code = next(iter(self._kinds)) if len(self._kinds) == 1 else (ChangeRefused, "apply.invalid")
        if any(each is NotAllowed for each, _ in self._kinds):
            kind, code = NotAllowed, NotAllowed.code
        lines = [*self._first]
        if more := self.count - len(self._first):
            lines.append(("the document", f"and {more} more: correct these first"))
        fields: dict[str, str] = {}
        for place, text in lines:
            fields[place] = f"{fields[place]}; {text}" if place in fields else text
        raise kind("; ".join(f"{place}: {text}" for place, text in fields.items()), code=code, fields=fields)


def names_teams(document: Any) -> bool:
    """Return whether a document, valid or not, creates or changes teams."""
    return isinstance(document, dict) and bool(document.get("teams"))


def read(document: Any, problems: Problems) -> dict[str, Items]:
    """Return the lists `teams` and `subjects` of a document, without what is wrong in it, which is added to `problems`.

    Each object has a name and only values that may be set, as far as that can be said without the database, which also says whether
    a name has to be legal: objects that exist may have others.

    Raises:
        ChangeRefused: it has more than ITEMS_MAX objects.
    """
    top = _known(document, tuple(KEYS), "the document", problems)
    found = {key: _items(top.get(key), keys, key, problems) for key, keys in KEYS.items()}
    count = sum(map(len, found.values()))
    for subject in found["subjects"]:
        if GROUPS in subject:
            where = f"{GROUPS} of subject {shown_name(subject)}"
            subject[GROUPS] = _items(subject[GROUPS], GROUP_KEYS, where, problems)
            count += len(subject[GROUPS])
    if count > ITEMS_MAX:
        problems.add("the document", f"contains {count} objects; the limit is {ITEMS_MAX}. Split it.")
        problems.refuse()
    for team in found["teams"]:
        if team.get("description") is None:
            team.pop("description", None)
        _remove_wrong(teams.TEAM, team, f"team {shown_name(team)}", problems)
    for subject in found["subjects"]:
        place = f"subject {shown_name(subject)}"
        if not isinstance(subject.get("archived", False), bool):
            problems.add(place, f"archived: {shown(subject.pop('archived'))}: must be true or false")
        _remove_wrong(subjects.SUBJECT, subject, place, problems)
        for group in subject.get(GROUPS, ()):
            _remove_wrong(groups.GROUP, group, f"consumer group {shown_name(group)} of {shown_name(subject)}", problems)
    return found


def _remove_wrong(resource: Resource[Any], item: dict[str, Any], place: str, problems: Problems) -> None:
    for key, rule in resource.fields.items():
        if key in item and (text := rule.problem(item[key])):
            problems.add(place, f"{key}: {text}", f"{resource.kind}.invalid")
            del item[key]


def _items(value: Any, keys: tuple[str, ...], where: str, problems: Problems) -> Items:
    """The objects of a list that have a name of their own, with known keys only."""
    if value is None:
        return []
    if not isinstance(value, list):
        problems.add(where, f"{shown(value)}: must be a list")
        return []
    items: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(value, 1):
        place = f"{where}, number {number}"
        if not isinstance(item, str | dict):
            problems.add(place, f"{shown(item)}: must be a name or a mapping with {', '.join(keys)}")
            continue
        item = {"name": item} if isinstance(item, str) else _known(item, keys, place, problems)
        name = item.get("name")
        if not isinstance(name, str) or not name or text_problem(name):
            problems.add(
                place, "must have a name" if name is None else f"name: {shown(name)}: must be the name, as text"
            )
        elif name in items:
            problems.add(where, f"contains {shown(name)} twice: remove one")
        else:
            items[name] = item
    return list(items.values())


def _known(value: Any, keys: tuple[str, ...], where: str, problems: Problems) -> dict[str, Any]:
    """The known keys of a mapping, with their values."""
    if not isinstance(value, Mapping):
        problems.add(where, f"{shown(value)}: must be a mapping with {', '.join(keys)}")
        return {}
    for key in value:
        if key in keys:
            continue
        problems.add(where, f"has the unknown key {shown(str(key))}; {nearest(str(key)[:SHOWN_CHARS_MAX], keys)}")
    return {key: value[key] for key in keys if key in value}


def shown_name(item: Mapping[str, Any]) -> str:
    """The name of an object as places of problems show it."""
    return str(item["name"])[:SHOWN_CHARS_MAX]
