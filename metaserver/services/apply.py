"""Provisioning: a document of teams, subjects and consumer groups, compared with what is there, and applied as a whole.

What a document names is set as it says; what it leaves out stays as it is, and is shown as drift where it differs from
the document's own subjects. Nothing is ever deleted by a document. Applying it twice changes nothing the second time.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from metaserver.models import ConsumerGroup, Subject, Team
from metaserver.services import groups, subjects, teams
from metaserver.services.changes import Actor, Change, ChangeRefused, changing, for_change, text_problem

ITEMS_MAX = 2_000
"""Maximum number of objects of one document: a few seconds in which other changes are blocked."""
GROUPS = "consumer_groups"
KEYS = {"teams": ("name", "description"), "subjects": ("name", GROUPS, "archived", *subjects.SUBJECT.fields)}
GROUP_KEYS = ("name", *groups.GROUP.fields)


@dataclass(frozen=True, slots=True)
class Step:
    """One object of a document: `create`, `update`, `archive`, `restore`, or `keep` where it already matches."""

    kind: str
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a document, and what is there beside it."""

    steps: tuple[Step, ...]
    drift: tuple[str, ...]
    """Consumer groups of the document's subjects that the document does not name."""

    @property
    def changes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.action != "keep")


def apply(document: Any, *, actor: Actor, reason: str = "", dry_run: bool = False) -> Plan:
    """Apply a document as a whole. Raises ChangeRefused with the place of an invalid value, or NotAllowed."""
    document_rows = _checked(document)
    with changing(dry_run=dry_run):
        there = _lock(document_rows)
        steps = [_team(team, actor, reason) for team in document_rows["teams"]]
        for subject in document_rows["subjects"]:
            steps += _subject(subject, there, actor, reason)
        drift = _drift(document_rows["subjects"])
    return Plan(tuple(steps), tuple(drift))


def names_teams(document: Any) -> bool:
    """Return whether a document creates or changes teams."""
    return bool(_checked(document)["teams"])


There = tuple[Mapping[str, bool], Collection[tuple[str, str]]]
"""What is there of a document's subjects (name -> whether archived) and consumer groups (subject, name)."""


def _lock(document_rows: dict[str, list[dict[str, Any]]]) -> There:
    """Lock all that is there of what the document names, in one order: two documents at once wait for each other
    instead of each holding what the other one needs."""
    subjects_named = [item["name"] for item in document_rows["subjects"]]
    owners_named = [item["owner"] for item in document_rows["subjects"] if isinstance(item.get("owner"), str)]
    groups_named = {
        (item["name"], group["name"]) for item in document_rows["subjects"] for group in item.get(GROUPS, [])
    }
    found = ConsumerGroup.objects.filter(subject__name__in={subject for subject, _ in groups_named})
    rows = found.values_list("pk", "subject__name", "name")
    groups_there = {(subject, name): key for key, subject, name in rows if (subject, name) in groups_named}
    subject_keys = Subject.objects.filter(name__in=subjects_named).values_list("pk", flat=True)
    team_names = {item["name"] for item in document_rows["teams"]} | {
        name for name in owners_named if not text_problem(name)
    }
    team_keys = Team.objects.filter(name__in=team_names).values_list("pk", flat=True)
    subject_rows = list(for_change(Subject.objects.filter(pk__in=list(subject_keys))))
    list(for_change(ConsumerGroup.objects.filter(pk__in=list(groups_there.values()))))
    list(for_change(Team.objects.filter(pk__in=list(team_keys))))
    return {row.name: row.archived_at is not None for row in subject_rows}, groups_there.keys()


def _team(item: Mapping[str, Any], actor: Actor, reason: str) -> Step:
    name, description = item["name"], item.get("description")
    with _at(f"team {name}"):
        there = Team.objects.filter(name=name).first()
        if there is None:
            change = teams.create_team(name, "" if description is None else description, actor=actor, reason=reason)
            return _step("team", "create", change)
        if description is None:
            description = there.description
        return _step("team", "update", teams.update_team(name, description, actor=actor, reason=reason))


def _subject(item: Mapping[str, Any], there: There, actor: Actor, reason: str) -> list[Step]:
    name, (subjects_there, groups_there) = item["name"], there
    values = {key: item[key] for key in subjects.SUBJECT.fields if key in item}
    steps = []
    with _at(f"subject {name}"):
        is_archived = subjects_there.get(name)
        make = subjects.create_subject if is_archived is None else subjects.update_subject
        change = make(name, values, actor=actor, reason=reason)
        steps.append(_step("subject", "create" if is_archived is None else "update", change))
        if "archived" in item and item["archived"] != bool(is_archived):
            change = subjects.set_archived(name, item["archived"], actor=actor, reason=reason)
            steps.append(_step("subject", "archive" if item["archived"] else "restore", change))
    for group in item.get(GROUPS, []):
        values = {key: group[key] for key in groups.GROUP.fields if key in group}
        with _at(f"consumer group {group['name']} of {name}"):
            known = (name, group["name"]) in groups_there
            make_group = groups.update_group if known else groups.create_group
            change = make_group(name, group["name"], values, actor=actor, reason=reason)
            steps.append(_step("consumer_group", "update" if known else "create", change))
    return steps


def _step(kind: str, action: str, change: Change) -> Step:
    return Step(kind, action if change.is_change else "keep", change.target, change.before, change.after)


def _drift(items: list[dict[str, Any]]) -> list[str]:
    named = {item["name"]: {group["name"] for group in item[GROUPS]} for item in items if GROUPS in item}
    rows = ConsumerGroup.objects.filter(subject__name__in=list(named)).values_list("subject__name", "name")
    return sorted(f"{subject}/{group}" for subject, group in rows if group not in named[subject])


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Says where in the document a refusal arose."""
    try:
        yield
    except ChangeRefused as error:
        raise type(error)(f"{where}: {error}", code=error.code, fields={where: str(error)}) from error


def _checked(document: Any) -> dict[str, list[dict[str, Any]]]:
    """The document's lists, each item with the keys it may have and a name."""
    top = _mapping(document, tuple(KEYS), "the document")
    found = {key: _items(top.get(key), keys, key) for key, keys in KEYS.items()}
    count = sum(map(len, found.values()))
    for subject in found["subjects"]:
        where = f"subject {subject['name']}"
        if GROUPS in subject:
            subject[GROUPS] = _items(subject[GROUPS], GROUP_KEYS, f"{GROUPS} of {where}")
            count += len(subject[GROUPS])
        if "archived" in subject and not isinstance(subject["archived"], bool):
            raise _wrong(where, "archived: must be true or false")
    if count > ITEMS_MAX:
        raise _wrong("the document", f"contains {count} objects; the limit is {ITEMS_MAX}. Split it.")
    return found


def _items(value: Any, keys: tuple[str, ...], where: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(where, "must be a list")
    items = []
    seen: set[str] = set()
    for number, item in enumerate(value, 1):
        item = {"name": item} if isinstance(item, str) else _mapping(item, keys, f"{where}, number {number}")
        name = item.get("name")
        if not isinstance(name, str) or not name or text_problem(name):
            raise _wrong(f"{where}, number {number}", "must have a name")
        if name in seen:
            raise _wrong(where, f"contains {name!r} twice")
        seen.add(name)
        items.append(dict(item))
    return items


def _mapping(value: Any, keys: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, f"must be a mapping with {', '.join(keys)}")
    for key in value:
        if key not in keys:
            raise _wrong(where, f"has the unknown key {str(key)[:60]!r}; allowed: {', '.join(keys)}")
    return value


def _wrong(where: str, what: str) -> ChangeRefused:
    return ChangeRefused(f"{where}: {what}", code="apply.invalid", fields={where: what})
