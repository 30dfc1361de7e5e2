"""What a metaserver stores in its database."""

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Node, Route
from qmq.protocol.codes import ClientType
from qmq_node.replication.rules.membership import Membership


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_routes_groups_and_clients_are_stored_in_the_database_with_an_audit_row() -> None:
    from metaserver import models
    from metaserver.domain import ClientSeen
    from metaserver.models import AuditEntry, ConsumerGroup, SubjectRoute
    from metaserver.stored.orm_repository import OrmRepository

    repository = OrmRepository()
    group = BrokerGroup(
        GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", ("g1-a",), "g1-a", ("g1-a",), 1, 0, "")
    )
    repository.save_group(group, "registered")
    repository.save_node(Node("g1-a", "g1", 0, "10.0.0.1:1", "", "1", 70))
    repository.save_node(Node("g1-a", "g1", 0, "10.0.0.1:1", "", "1", 50))
    route = Route("orders", ("g1",), 1, 5)
    assert repository.save_route(route) == route
    assert repository.save_route(Route("orders", ("g9",), 1, 5)) == route
    longer = Route("orders", ("g1", "g2"), 2, 5)
    assert repository.save_route(longer) == longer
    seen = ClientSeen("orders", int(ClientType.CONSUMER), "billing", "c@@1", "app")
    repository.save_clients([seen])
    repository.save_clients([seen._replace(agent="PyQMQ/1 Python/3.11")])
    assert models.ClientSeen.objects.get().agent == "PyQMQ/1 Python/3.11"
    metadata = repository.load()
    assert metadata.routes == (longer,)
    assert metadata.broker_groups == (group,)
    assert 0 < metadata.broker_groups[0].created_at_us == repository.load().broker_groups[0].created_at_us
    assert [node.log_end for node in metadata.nodes] == [70]
    assert SubjectRoute.objects.get().version == 2
    assert ConsumerGroup.objects.get().name == "billing"
    actions = list(AuditEntry.objects.order_by("id").values_list("action", "target"))
    assert actions == [("broker_group.create", "g1"), ("route.set", "orders"), ("route.set", "orders")]


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
def test_the_heartbeat_of_a_peer_is_told_from_the_own_one_also_in_the_same_millisecond() -> None:
    from metaserver.stored.orm_repository import OrmRepository

    one, other = OrmRepository(), OrmRepository()
    long = "x" * 250
    one.heartbeat(f"{long}:1", 5.0, 1_700_000_000_000)
    other.heartbeat("b:1", 5.0, 1_700_000_000_000)
    assert list(one.leases().peers) == ["b:1"]
    assert list(other.leases().peers) == [long[:200]]


@pytest.mark.database
@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    from io import StringIO

    from django.core.management import call_command

    call_command("makemigrations", "--check", "--dry-run", stdout=StringIO())
