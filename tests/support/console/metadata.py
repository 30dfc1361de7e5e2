"""What services stored, for tests to compare: audit entries, and everything an operator decided."""

from typing import Any

from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState
from metaserver.models import AuditEntry, BrokerGroup, ConsumerGroup, Subject, SubjectRoute, Team
from metaserver.services import broker_groups, groups, routes, subjects, teams
from metaserver.services.changes import METASERVER, Actor
from qmq_node.replication.rules.membership import Membership

ACTOR = Actor("ada", "192.0.2.7", "request-1234")


def audit_rows() -> list[tuple[str, str, Any, Any]]:
    """(action, target, before, after), oldest first."""
    rows = queries.audit_entries().order_by("id")
    return [(row.action, row.target, row.before, row.after) for row in rows]


def last_audit() -> AuditEntry:
    found = queries.audit_entries().first()
    assert found is not None
    return found


def everything() -> dict[str, Any]:
    """All that services may change, audit and versions included."""
    return {
        "teams": {row.name: (teams.described(row), row.version) for row in Team.objects.all()},
        "subjects": {row.name: (subjects.described(row), row.version) for row in Subject.objects.all()},
        "groups": {
            (row.subject.name, row.name): (groups.described(row), row.has_pauses, row.version)
            for row in ConsumerGroup.objects.select_related("subject")
        },
        "broker_groups": {
            row.name: (broker_groups.described(row), row.state, row.epoch, row.version)
            for row in BrokerGroup.objects.all()
        },
        "routes": {
            row.subject.name: (row.broker_groups, row.phases, row.has_phases, row.version)
            for row in SubjectRoute.objects.select_related("subject")
        },
        "audit": audit_rows(),
    }


def broker_group(
    name: str, state: GroupState = GroupState.READ_WRITE, kind: GroupKind = GroupKind.BROKER, **node: Any
) -> BrokerGroup:
    """A group whose master has registered."""
    master = f"{name}-node"
    group = domain.BrokerGroup(kind, state, Membership(name, (master,), master, (master,), 1, 0, ""))
    broker_groups.save_group(group, actor=METASERVER, reason="registered")
    values = {"address": "127.0.0.1:1", "admin_address": "127.0.0.1:1", "version": "1", "log_end": 1000, **node}
    broker_groups.save_node(domain.Node(master, name, 0, **values))
    return BrokerGroup.objects.get(name=name)


def route(subject: str, *names: str, version: int = 1) -> domain.Route:
    """A subject's first route."""
    return routes.save_route(
        domain.Route(subject, names, version, 1_700_000_000_000), actor=METASERVER, reason="first registration"
    )
