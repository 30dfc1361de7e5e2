"""Provisioning: a document of teams, subjects and consumer groups, compared with what is there, and applied as a whole.

What a document names is set as it says; what it leaves out stays as it is, and is shown as drift where it differs from
the document's own subjects. Nothing is ever deleted by a document. Applying it twice changes nothing the second time.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from metaserver.models import ConsumerGroup, Subject, Team
from metaserver.services import audit, groups, subjects, teams
from metaserver.services.changes import Actor, Change, changing, for_change
from metaserver.services.documents import GROUPS, Items, Problems, read, shown_name


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
    """Apply a document as a whole. Raises ChangeRefused or NotAllowed, which names all problems, each with its place.

    The audit log gets an entry for each change, and one `settings.apply` with their numbers.
    """
    problems, caller = Problems(), actor
    actor = replace(caller, is_applying=True)
    document_rows = read(document, problems)
    with changing(dry_run=dry_run):
        there, steps = _lock(document_rows), list[Step]()
        for team in document_rows["teams"]:
            with problems.at(f"team {shown_name(team)}"):
                steps.append(_team(team, actor, reason))
        for subject in document_rows["subjects"]:
            made: list[Step] = []
            with problems.at(f"subject {shown_name(subject)}"):
                made = _subject(subject, there, actor, reason)
            steps += made
            if made:
                steps += _groups(subject, there, problems, actor, reason)
            else:
                # They would be rejected for the same reason as their subject.
                _check_group_names(subject, there, problems)
        problems.refuse()
        plan = Plan(tuple(steps), tuple(_drift(document_rows["subjects"])))
        if plan.changes:
            counts = Counter(step.action for step in plan.changes)
            audit.record(caller, "settings.apply", f"{len(plan.changes)} changes", reason=reason, after=dict(counts))
    return plan


There = tuple[Mapping[str, bool], Collection[tuple[str, str]]]
"""What is there of a document's subjects (name -> whether archived) and consumer groups (subject, name)."""


def _lock(document_rows: dict[str, Items]) -> There:
    """Lock all that is there of what the document names, in one order: two documents at once wait for each other
    instead of each holding what the other one needs."""
    subjects_named = [item["name"] for item in document_rows["subjects"]]
    owners_named = [item["owner"] for item in document_rows["subjects"] if item.get("owner") is not None]
    groups_named = {
        (item["name"], group["name"]) for item in document_rows["subjects"] for group in item.get(GROUPS, [])
    }
    found = ConsumerGroup.objects.filter(subject__name__in={subject for subject, _ in groups_named})
    rows = found.values_list("pk", "subject__name", "name")
    groups_there = {(subject, name): key for key, subject, name in rows if (subject, name) in groups_named}
    subject_keys = Subject.objects.filter(name__in=subjects_named).values_list("pk", flat=True)
    team_names = {item["name"] for item in document_rows["teams"]} | set(owners_named)
    team_keys = Team.objects.filter(name__in=team_names).values_list("pk", flat=True)
    subject_rows = list(for_change(Subject.objects.filter(pk__in=list(subject_keys))))
    list(for_change(ConsumerGroup.objects.filter(pk__in=list(groups_there.values()))))
    list(for_change(Team.objects.filter(pk__in=list(team_keys))))
    return {row.name: row.archived_at is not None for row in subject_rows}, groups_there.keys()


def _team(item: Mapping[str, Any], actor: Actor, reason: str) -> Step:
    name, there = item["name"], Team.objects.filter(name=item["name"]).first()
    description = item.get("description", "" if there is None else there.description)
    if there is None:
        return _step("team", "create", teams.create_team(name, description, actor=actor, reason=reason))
    return _step("team", "update", teams.update_team(name, description, actor=actor, reason=reason))


def _subject(item: Mapping[str, Any], there: There, actor: Actor, reason: str) -> list[Step]:
    name = item["name"]
    is_archived = there[0].get(name)
    values = {key: item[key] for key in subjects.SUBJECT.fields if key in item}
    make = subjects.create_subject if is_archived is None else subjects.update_subject
    change = make(name, values, actor=actor, reason=reason)
    steps = [_step("subject", "create" if is_archived is None else "update", change)]
    if "archived" in item and item["archived"] != bool(is_archived):
        change = subjects.set_archived(name, item["archived"], actor=actor, reason=reason)
        steps.append(_step("subject", "archive" if item["archived"] else "restore", change))
    return steps


def _groups(item: Mapping[str, Any], there: There, problems: Problems, actor: Actor, reason: str) -> list[Step]:
    name, steps = item["name"], []
    for group in item.get(GROUPS, []):
        values = {key: group[key] for key in groups.GROUP.fields if key in group}
        with problems.at(f"consumer group {shown_name(group)} of {shown_name(item)}"):
            is_known = (name, group["name"]) in there[1]
            make = groups.update_group if is_known else groups.create_group
            change = make(name, group["name"], values, actor=actor, reason=reason)
            steps.append(_step("consumer_group", "update" if is_known else "create", change))
    return steps


def _check_group_names(item: Mapping[str, Any], there: There, problems: Problems) -> None:
    """Check what creating the groups of a subject would check first."""
    for group in item.get(GROUPS, []):
        with problems.at(f"consumer group {shown_name(group)} of {shown_name(item)}"):
            if (item["name"], group["name"]) not in there[1]:
                groups.check_name(group["name"])


def _step(kind: str, action: str, change: Change) -> Step:
    return Step(kind, action if change.is_change else "keep", change.target, change.before, change.after)


def _drift(items: Items) -> list[str]:
    named = {item["name"]: {group["name"] for group in item[GROUPS]} for item in items if GROUPS in item}
    rows = ConsumerGroup.objects.filter(subject__name__in=list(named)).values_list("subject__name", "name")
    return sorted(f"{subject}/{group}" for subject, group in rows if group not in named[subject])
