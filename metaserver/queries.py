"""The read side of the metadata."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db.models import Count, F, Max, Model, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from metaserver import domain, models
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.errors import NotFound
from metaserver.memory.members import Members
from qmq.conversion import convert
from qmq.protocol.names import real_subject

CHANGES_MAX = 5_000
"""Changes whose rows are loaded one by one; behind by more, a reader loads everything."""
NAMES_PER_QUERY = 500
METASERVER_FRESH_SECONDS = 4.0
"""A metaserver that has stored nothing for longer does not run, for `hearing_since`."""
ROLE_HISTORY_MAX = 50
"""Role changes of a broker group that are shown."""
SWITCH_OVER, RESIGN = "broker_group.switch_over", "broker_group.resign"
"""A user's request that a slave leads, and what its master does then."""
SWITCH_OVER_SECONDS = 15.0
"""How long after the request its master may resign; the master answers within 10 s."""
MASTER_ACTIONS = (
    RESIGN,
    *(f"broker_group.{action}" for action in ("promote", "promote_by_operator", "replace_member")),
)
"""Audit entries of changes of a broker group's master."""
ROLE_ACTIONS = (
    *MASTER_ACTIONS,
    *(
        f"broker_group.{action}"
        for action in ("add_in_sync", "remove_in_sync", "add_member", "remove_member", "request_replacement", "recover")
    ),
)


def metadata() -> domain.Metadata:
    """Everything a metaserver starts from."""
    # Before the groups: what an operator accepts of a node is a loss of its group, whose nodes have to know that with it.
    all_nodes = tuple(_node(row) for row in nodes())
    return domain.Metadata(
        tuple(_broker_group(row) for row in models.BrokerGroup.objects.all()),
        all_nodes,
        tuple(route_snapshots()),
        _rules(models.Subject.objects.all()),
        _paused(models.ConsumerGroup.objects.all()),
        removed_folders=_removed_folders(models.RemovedGroup.objects.all()),
    )


def metadata_version() -> domain.MetadataVersion:
    """What changes with every change of metadata."""
    newest = models.MetadataChange.objects.order_by("-number").values_list("number", "at").first()
    return domain.NO_CHANGES if newest is None else domain.MetadataVersion(*newest)


def changes(since: domain.MetadataVersion, until: domain.MetadataVersion) -> list[tuple[str, str]] | None:
    """(subject, broker group) of each change after `since` up to `until`; None when these are not known one by one."""
    if not 0 <= until.number - since.number <= CHANGES_MAX:
        return None
    rows = models.MetadataChange.objects.filter(number__gte=since.number, number__lte=until.number).order_by("number")
    found = list(rows.values_list("number", "at", "subject", "broker_group"))
    if since != domain.NO_CHANGES and (not found or found.pop(0)[:2] != since):
        return None
    return [(subject, group) for _, _, subject, group in found] if len(found) == until.number - since.number else None


def changed_metadata(since: domain.MetadataVersion, until: domain.MetadataVersion) -> domain.MetadataChanges | None:
    """The rows that the changes after `since` up to `until` are about; None when these changes are not known one by one."""
    changed = changes(since, until)
    if changed is None:
        return None
    subjects = frozenset(subject for subject, _ in changed if subject)
    names = frozenset(name for _, name in changed if name)
    # As in `metadata`: the nodes first.
    of_groups = [_node(row) for row in nodes().filter(broker_group__name__in=names)] if names else []
    groups = [_broker_group(row) for row in models.BrokerGroup.objects.filter(name__in=names)] if names else []
    rules: dict[str, domain.SubjectRule] = {}
    existing: set[str] = set()
    paused: frozenset[tuple[str, str, str]] = frozenset()
    ordered = sorted(subjects)
    for i in range(0, len(ordered), NAMES_PER_QUERY):
        some = ordered[i : i + NAMES_PER_QUERY]
        rules |= _rules(models.Subject.objects.filter(name__in=some))
        existing.update(models.Subject.objects.filter(name__in=some).values_list("name", flat=True))
        paused |= _paused(models.ConsumerGroup.objects.filter(subject__name__in=some))
    removed = _removed_folders(models.RemovedGroup.objects.filter(name__in=names)) if names else frozenset()
    routes = tuple(route_snapshots(subjects=subjects))
    stored = domain.Metadata(tuple(groups), tuple(of_groups), routes, rules, paused, removed_folders=removed)
    return domain.MetadataChanges(subjects, subjects - existing, names, stored)


def snapshot(row: models.SubjectRoute, subject: str) -> domain.Route:
    """A route as a plain value."""
    phases = {name: Phase(phase) for name, phase in row.phases.items()}
    return domain.Route(subject, tuple(row.broker_groups), row.version, row.created_at_ms, phases)


def _broker_group(row: models.BrokerGroup) -> domain.BrokerGroup:
    values = vars(row) | {
        "promotion_id": str(row.promotion_id or ""),
        "known_place": (row.known_epoch, row.known_version),
        "created_at_us": round(row.created_at.timestamp() * 1_000_000),
    }
    return domain.BrokerGroup.of({name: values[name] for name in domain.BrokerGroup.names()})


def broker_group(name: str) -> domain.BrokerGroup | None:
    """A broker group's row; None if there is none."""
    row = models.BrokerGroup.objects.filter(name=name).first()
    return None if row is None else _broker_group(row)


def _node(row: models.Node) -> domain.Node:
    reported_at_ms = round(row.leased_at.timestamp() * 1000) if row.leased_at is not None else 0
    return convert(domain.Node, row, broker_group=row.broker_group.name, reported_at_ms=reported_at_ms)


def group_members(name: str, now: datetime) -> Members | None:
    """Return the members of a broker group, as they last reported; None if there is no such group."""
    group = broker_group(name)
    if group is None:
        return None
    return Members.of(group, [_node(row) for row in nodes().filter(broker_group__name=name)], _milliseconds(now))


def all_members(now: datetime) -> list[Members]:
    """Return the members of each approved broker group, as they last reported."""
    found: dict[str, list[domain.Node]] = {}
    for row in approved_nodes():
        found.setdefault(row.broker_group.name, []).append(_node(row))
    groups = [_broker_group(row) for row in approved_broker_groups()]
    return [Members.of(group, found.get(group.name, []), _milliseconds(now)) for group in groups]


def role_history(name: str) -> list[models.AuditEntry]:
    """Return the newest changes of a broker group's master, members and in-sync set, newest first.

    A master that resigns because a user requested a switch-over has this user as its `actor`.
    """
    found = audit_entries().filter(target=name, action__in=(*ROLE_ACTIONS, SWITCH_OVER))[: 2 * ROLE_HISTORY_MAX]
    history: list[models.AuditEntry] = []
    requested: models.AuditEntry | None = None
    for entry in reversed(found):
        if entry.action == SWITCH_OVER:
            requested = entry
            continue
        if entry.action == RESIGN and requested is not None:
            if abs((entry.at - requested.at).total_seconds()) <= SWITCH_OVER_SECONDS:
                entry.actor = requested.actor
            requested = None
        history.append(entry)
    return history[: -ROLE_HISTORY_MAX - 1 : -1]


def switch_over_requesters(resigned: Iterable[tuple[str, datetime]]) -> dict[tuple[str, datetime], str]:
    """Return who requested the switch-overs in which these masters resigned, by (broker group, time); others are left out."""
    margin, found = timedelta(seconds=SWITCH_OVER_SECONDS), dict[tuple[str, datetime], str]()
    times = list(resigned)
    if not times:
        return found
    first, last = min(at for _, at in times) - margin, max(at for _, at in times) + margin
    rows = models.AuditEntry.objects.filter(action=SWITCH_OVER, target__in={name for name, _ in times})
    for target, at, actor in rows.filter(at__range=(first, last)).order_by("id").values_list("target", "at", "actor"):
        found |= {(name, time): actor for name, time in times if name == target and abs(time - at) <= margin}
    return found


def role_changes(since: datetime) -> dict[str, int]:
    """Return how often broker groups have got another master since a time, without those that have not."""
    rows = models.AuditEntry.objects.filter(at__gt=since, action__in=MASTER_ACTIONS).order_by()
    return dict(rows.values_list("target").annotate(count=Count("pk")))


def role_change_times(since: datetime) -> dict[str, list[datetime]]:
    """Return when broker groups have got another master since a time, without those that have not."""
    rows = models.AuditEntry.objects.filter(at__gt=since, action__in=MASTER_ACTIONS).order_by("at")
    found: dict[str, list[datetime]] = {}
    for target, at in rows.values_list("target", "at"):
        found.setdefault(target, []).append(at)
    return found


def _milliseconds(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def leases() -> list[tuple[domain.BrokerGroup, domain.Node, datetime]]:
    """Each broker group with its master and when the master's last heartbeat was stored; groups without one are left out."""
    rows = nodes().filter(broker_group__master=F("node_id"), leased_at__isnull=False)
    return [(_broker_group(row.broker_group), _node(row), row.leased_at) for row in rows if row.leased_at is not None]


def metaserver_heartbeats() -> dict[str, datetime]:
    """When each metaserver last stored that it runs, by address and its own clock."""
    return dict(models.MetaserverBeat.objects.values_list("name", "seen_at"))


def _rules(subjects: QuerySet[models.Subject]) -> dict[str, domain.SubjectRule]:
    has_rule = Q(archived_at__isnull=False) | Q(allowed_groups__isnull=False) | Q(retention_hours__isnull=False)
    has_quota = Q(messages_per_second__isnull=False) | Q(bytes_per_second__isnull=False)
    return {
        row.name: convert(
            domain.SubjectRule,
            row,
            is_archived=row.archived_at is not None,
            allowed_groups=None if row.allowed_groups is None else tuple(row.allowed_groups),
        )
        for row in subjects.filter(has_rule | has_quota).iterator()
    }


def _removed_folders(rows: QuerySet[models.RemovedGroup]) -> frozenset[tuple[str, str]]:
    return frozenset((row.name, incarnation) for row in rows for incarnation in row.incarnations)


def lost_groups() -> set[str]:
    """Broker groups that were removed with the loss of their messages, and that no node registered again. Subjects may name them
    until another group has joined."""
    present = models.BrokerGroup.objects.values("name")
    return set(models.RemovedGroup.objects.exclude(name__in=present).values_list("name", flat=True))


def _paused(groups: QuerySet[models.ConsumerGroup]) -> frozenset[tuple[str, str, str]]:
    found = set()
    for row in groups.filter(has_pauses=True).select_related("subject"):
        if row.is_paused:
            found.add((row.subject.name, row.name, ""))
        found.update((row.subject.name, row.name, consumer) for consumer in row.paused_consumers)
    return frozenset(found)


def subjects() -> QuerySet[models.Subject]:
    """Subjects with owner, route and the count of their consumer groups: one query a page."""
    groups = models.ConsumerGroup.objects.filter(subject=OuterRef("pk")).order_by().values("subject")
    counted = groups.annotate(count=Count("pk")).values("count")
    return models.Subject.objects.select_related("owner", "route").annotate(
        consumer_group_count=Coalesce(Subquery(counted), 0)
    )


def longest_retention_hours() -> float | None:
    """The longest retention that a subject has of its own; None: no subject has one."""
    longest: float | None = models.Subject.objects.aggregate(longest=Max("retention_hours"))["longest"]
    return longest


def consumer_groups() -> QuerySet[models.ConsumerGroup]:
    """Consumer groups with their subject and its owner."""
    return models.ConsumerGroup.objects.select_related("subject__owner")


def stored_consumer_groups(after: int, count: int) -> list[domain.StoredConsumerGroup]:
    """The next `count` consumer groups after the one of this number, with the broker groups of their subjects."""
    rows = models.ConsumerGroup.objects.filter(id__gt=after).order_by("id")
    found = rows.values_list("id", "subject__name", "name", "subject__route__broker_groups")[:count]
    return [
        domain.StoredConsumerGroup(number, subject, name, tuple(groups or ()))
        for number, subject, name, groups in found
    ]


@dataclass(frozen=True, slots=True)
class Mark:
    """What changes whenever a row of a table is created or deleted. A restored database has another time."""

    count: int
    newest_id: int
    newest_at: datetime


def groups_mark() -> Mark | None:
    """The mark of the consumer groups that there are; None: there are none. Costs a count."""
    return _mark(models.ConsumerGroup, "first_seen_at")


def subjects_mark() -> Mark | None:
    """The same of subjects."""
    return _mark(models.Subject, "created_at")


def group_names(since: Mark | None, until: Mark) -> list[tuple[str, str]] | None:
    """(subject, name) of the consumer groups that were created after `since` up to `until`; None: one may have been deleted."""
    found = _created(models.ConsumerGroup, "first_seen_at", ("subject__name", "name"), since, until)
    return None if found is None else [(subject, name) for subject, name in found]


def subject_names(since: Mark | None, until: Mark) -> list[str] | None:
    """The names of the subjects that were created after `since` up to `until`; None: one may have been deleted."""
    found = _created(models.Subject, "created_at", ("name",), since, until)
    return None if found is None else [name for (name,) in found]


def _mark(model: type[Model], created: str) -> Mark | None:
    rows = model._default_manager.order_by("-id")
    newest = rows.values_list("id", created).first()
    return None if newest is None else Mark(rows.count(), *newest)


def _created(
    model: type[Model], created: str, fields: tuple[str, ...], since: Mark | None, until: Mark
) -> list[tuple[Any, ...]] | None:
    rows = model._default_manager.filter(id__lte=until.newest_id).order_by("id")
    if since is None:
        return list(rows.values_list(*fields))
    found = list(rows.filter(id__gte=since.newest_id).values_list("id", created, *fields))
    if not found or found[0][:2] != (since.newest_id, since.newest_at) or since.count + len(found) - 1 != until.count:
        return None
    return [tuple(names) for _, _, *names in found[1:]]


def called_subjects() -> QuerySet[models.Subject]:
    """Subjects with their name and description alone: to look through many."""
    return models.Subject.objects.only("name", "description")


def called_groups() -> QuerySet[models.ConsumerGroup]:
    """Consumer groups with names and description alone."""
    return models.ConsumerGroup.objects.select_related("subject").only("name", "description", "subject__name")


def broker_groups() -> QuerySet[models.BrokerGroup]:
    """Broker groups with their nodes: two queries a page."""
    return models.BrokerGroup.objects.prefetch_related("nodes")


def nodes() -> QuerySet[models.Node]:
    """Nodes with their group; those of groups that wait for approval are only to be listed, never connected to."""
    return models.Node.objects.select_related("broker_group")


def approved_nodes() -> QuerySet[models.Node]:
    """Nodes of approved broker groups, with their group: those that the console may connect to."""
    return nodes().exclude(broker_group__operator_state=OperatorState.UNAPPROVED)


def approved_broker_groups() -> QuerySet[models.BrokerGroup]:
    """Broker groups that do not wait for approval."""
    return models.BrokerGroup.objects.exclude(operator_state=OperatorState.UNAPPROVED)


def clients() -> QuerySet[models.ClientSeen]:
    return models.ClientSeen.objects.all()


def client_ids(group: str) -> set[str]:
    """The ids of the clients that ever registered for a consumer group."""
    return set(models.ClientSeen.objects.filter(group=group).values_list("client_id", flat=True))


def audit_entries() -> QuerySet[models.AuditEntry]:
    """The audit log, newest first."""
    return models.AuditEntry.objects.all()


def latest_reset(subject: str, group: str, since: datetime) -> models.AuditEntry | None:
    """The newest complete reset of a consumer group after a time."""
    found = audit_entries().filter(target=f"{subject}/{group}", action="consumer_group.reset_done", at__gte=since)
    return found.first()


def teams() -> QuerySet[models.Team]:
    """Teams with the count of their subjects."""
    return models.Team.objects.annotate(subject_count=Count("subjects"))


def metaservers(since: datetime) -> QuerySet[models.MetaserverBeat]:
    """Metaservers that stored something after this time, by address."""
    return models.MetaserverBeat.objects.filter(seen_at__gt=since).order_by("name")


def hearing_since(now: datetime, fresh_seconds: float) -> datetime | None:
    """Return since when some metaserver has received and stored heartbeats without a pause; None: none does at the moment."""
    margin = timedelta(seconds=fresh_seconds)
    # One from the future was written by a clock that ran ahead: it would look fresh long after its metaserver died.
    fresh = models.MetaserverBeat.objects.filter(seen_at__gt=now - margin, seen_at__lt=now + margin)
    return fresh.order_by("steady_since").values_list("steady_since", flat=True).first()


def _of_master(field: str) -> Subquery:
    """A field of a broker group's master."""
    masters = models.Node.objects.filter(broker_group=OuterRef("pk"), node_id=OuterRef("master")).order_by()
    return Subquery(masters.values(field))


def silent_groups(now: datetime, silent_seconds: float) -> list[tuple[str, int, datetime | None]]:
    """(broker group, number of members, time of its master's last stored lease) of groups that are silent and not offline."""
    limit = now - timedelta(seconds=silent_seconds)
    groups = models.BrokerGroup.objects.exclude(state=GroupState.OFFLINE).annotate(leased=_of_master("leased_at"))
    silent = groups.filter(Q(leased__isnull=True) | Q(leased__lt=limit))
    return [(name, len(members), leased) for name, members, leased in silent.values_list("name", "members", "leased")]


def route_snapshots(*, moving_only: bool = False, subjects: Iterable[str] | None = None) -> list[domain.Route]:
    """Routes as plain values; `subjects`: of these only."""
    rows = routes().filter(has_phases=True) if moving_only else routes()
    if subjects is None:
        return [snapshot(row, row.subject.name) for row in rows.iterator()]
    names = sorted(subjects)
    parts = (names[i : i + NAMES_PER_QUERY] for i in range(0, len(names), NAMES_PER_QUERY))
    return [snapshot(row, row.subject.name) for part in parts for row in rows.filter(subject__name__in=part)]


def moves_unchanged_since(moment: datetime) -> set[str]:
    """The subjects that move and whose route did not change after this."""
    rows = models.SubjectRoute.objects.filter(has_phases=True, updated_at__lte=moment)
    return set(rows.values_list("subject__name", flat=True))


def groups_by_subject(subjects: Iterable[str]) -> dict[str, list[str]]:
    """The consumer groups known of these subjects."""
    found: dict[str, list[str]] = {}
    rows = models.ConsumerGroup.objects.filter(subject__name__in=set(subjects)).values_list("subject__name", "name")
    for subject, group in rows:
        found.setdefault(subject, []).append(group)
    return found


def masters() -> dict[str, models.Node]:
    """Each approved broker group's master, where one has registered."""
    return {row.broker_group.name: row for row in approved_nodes() if row.broker_group.master == row.node_id}


def owner_of(subject: str) -> str | None:
    """The team that owns a subject, or the real subject of a retry or dead-letter subject; None: none. Raises NotFound."""
    owners = owners_of((subject,))
    if subject not in owners:
        raise NotFound(f"Subject {subject!r} not found.", code="subject.unknown")
    return owners[subject]


def owners_of(subjects: Iterable[str]) -> dict[str, str | None]:
    """Return the owner of each subject as `owner_of` does. Unknown subjects are left out: they are not unowned."""
    real = {subject: real_subject(subject) for subject in subjects}
    owners = dict(models.Subject.objects.filter(name__in=set(real.values())).values_list("name", "owner__name"))
    return {subject: owners[name] for subject, name in real.items() if name in owners}


class Display(NamedTuple):
    """What decides how messages of a subject are shown."""

    masking: list[dict[str, Any]]
    body_format: str
    body_schema: str


def display_of(subjects: Iterable[str]) -> dict[str, Display]:
    """Return how messages of each subject that exists are shown; of retry and dead-letter subjects as those of the real subject."""
    real = {subject: real_subject(subject) for subject in subjects}
    rows = models.Subject.objects.filter(name__in=set(real.values()))
    found = {name: Display(*values) for name, *values in rows.values_list("name", *Display._fields)}
    return {subject: found[name] for subject, name in real.items() if name in found}


def subjects_of(team: str) -> set[str]:
    """The names of the subjects that a team owns."""
    return set(models.Subject.objects.filter(owner__name=team).values_list("name", flat=True))


def routes() -> QuerySet[models.SubjectRoute]:
    """Routes with their subject."""
    return models.SubjectRoute.objects.select_related("subject")


@dataclass(frozen=True, slots=True)
class MasterAddress:
    """Where the master of a broker group answers questions of the console."""

    admin_address: str
    """"": it has registered none."""
    is_offline: bool
    """Whether the lease of the group's master has expired."""


def broker_masters() -> dict[str, MasterAddress]:
    """The masters of approved broker groups, by group; delay groups are left out."""
    return _masters(GroupKind.BROKER)


def delay_masters() -> dict[str, MasterAddress]:
    """The masters of approved delay groups, by group."""
    return _masters(GroupKind.DELAY)


def _masters(kind: GroupKind) -> dict[str, MasterAddress]:
    groups = approved_broker_groups().filter(kind=kind)
    rows = groups.annotate(address=_of_master("admin_address")).values_list("name", "address", "state")
    return {name: MasterAddress(address or "", state == GroupState.OFFLINE) for name, address, state in rows}


def broker_groups_of(subject: str) -> list[str] | None:
    """The broker groups of a subject, empty before its first client came; None when there is no such subject."""
    rows = models.Subject.objects.filter(name=subject).values_list("route__broker_groups", flat=True)
    return next((list(groups or ()) for groups in rows), None)


def broker_groups_by_subject(subjects: Iterable[str]) -> dict[str, list[str]]:
    """The broker groups of each of these subjects that exists; empty before its first client came."""
    rows = models.Subject.objects.filter(name__in=list(subjects)).values_list("name", "route__broker_groups")
    return {name: list(groups or ()) for name, groups in rows}


def is_archived(subject: str) -> bool:
    """Whether a subject is archived; false when there is none."""
    return models.Subject.objects.filter(name=subject, archived_at__isnull=False).exists()
