"""Deleting subjects over REST, on real nodes: refusals, what goes, a change in between, a node away or failing."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from metaserver import queries
from metaserver.models import ClientSeen, ConsumerGroup, Subject
from metaserver.services import groups, subjects
from qmq.errors import ConnectionLost
from qmq.node_admin import NodeAdmin
from qmq_node.policy import NodePolicy, SubjectPolicy, encode_policy
from tests.served.api.nodes.changes import when_nodes_change
from tests.served.api.nodes.crew import Crew
from tests.support.console.metadata import ACTOR, audit_rows, everything
from tests.support.drivers.policies import set_policies
from tests.support.servers.threaded_system import ThreadedSystem

ORDERS = "/api/v1/subjects/orders/"


@pytest.fixture
def archived(cluster: ThreadedSystem, crew: Crew) -> ThreadedSystem:
    """Subject orders is archived, its messages are past retention, and group billing has a position."""
    groups.create_group("orders", "billing", {}, actor=ACTOR)
    subjects.set_archived("orders", True, actor=ACTOR)
    ClientSeen.objects.create(key="k", subject="orders", client_type=1, client_id="c", last_seen_at=long_ago())
    close(cluster, is_empty=True)
    return cluster


def long_ago() -> Any:
    return timezone.now() - subjects.CLIENTS_GONE - timedelta(seconds=1)


def close(cluster: ThreadedSystem, *, is_empty: bool) -> None:
    policy = NodePolicy.of({"orders": SubjectPolicy(closed=True)})

    async def work() -> None:
        set_policies(cluster.small.meta.directory, dict.fromkeys(cluster.small.brokers, policy))
        for broker in cluster.small.brokers.values():
            await broker.registration.policies.replace(encode_policy(policy))
            subject = broker.store.subjects["orders"]
            if is_empty:
                subject.consume_log.hide_before(subject.visible_end)

    cluster.do(work)


def holders(cluster: ThreadedSystem) -> list[str]:
    return sorted(name for name, broker in cluster.small.brokers.items() if "orders" in broker.store.subjects)


def test_an_archived_empty_subject_is_deleted_everywhere(archived: ThreadedSystem, crew: Crew) -> None:
    before, version = everything(), queries.metadata_version()
    planned = crew.own.delete(f"{ORDERS}?dry_run=true", {})
    assert (planned.status_code, everything(), holders(archived)) == (200, before, ["g1", "g2"]), planned.content
    done = crew.own.delete(ORDERS, {"reason": "a typo"}, HTTP_IF_MATCH=crew.own.get(ORDERS).headers["ETag"])
    assert done.status_code == 200, done.content
    assert done.json() == planned.json() | {"dry_run": False}
    assert holders(archived) == []
    assert crew.own.get(ORDERS).status_code == 404
    assert not ConsumerGroup.objects.filter(subject__name="orders").exists()
    assert not ClientSeen.objects.filter(subject="orders").exists()
    first, last = audit_rows()[-2:]
    assert (first[0], first[1], first[3], last[0], last[3]) == (
        "subject.delete", "orders", None, "subject.deleted", {"done": ["g1", "g2"]},
    )  # fmt: skip
    found = queries.changed_metadata(version, queries.metadata_version())
    assert found is not None
    assert found.deleted_subjects == {"orders"}, "metaservers drop its route"


def test_what_is_in_use_is_not_deleted(cluster: ThreadedSystem, crew: Crew) -> None:
    def refused(code: str, status: int = 409) -> None:
        before = everything()
        answer = crew.own.delete(ORDERS, {})
        assert (answer.status_code, answer.json()["code"]) == (status, code), answer.content
        assert (everything(), holders(cluster)) == (before, ["g1", "g2"])

    refused("subject.not_archived")
    subjects.set_archived("orders", True, actor=ACTOR)
    refused("subject.not_empty")
    close(cluster, is_empty=False)
    refused("subject.not_empty")
    close(cluster, is_empty=True)
    ClientSeen.objects.create(key="k", subject="orders", client_type=1, client_id="c", last_seen_at=timezone.now())
    refused("subject.in_use")
    ClientSeen.objects.update(last_seen_at=long_ago())
    assert crew.own.delete(ORDERS, {}, HTTP_IF_MATCH='"v99"').status_code == 412
    assert crew.other.delete(ORDERS, {}).status_code == 403
    assert crew.viewer.delete(ORDERS, {}).status_code == 403
    assert crew.own.delete("/api/v1/subjects/none/", {}).status_code in (403, 404)
    cluster.stop_broker("g2")
    answer = crew.own.delete(ORDERS, {})
    assert (answer.status_code, answer.json()["code"]) == (503, "broker_group.away")
    assert Subject.objects.filter(name="orders", deleting_since=None).exists()


def test_a_restore_in_between_is_refused(archived: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = []

    def change() -> None:
        answers.append(crew.own.post(f"{ORDERS}restore/", {}))
        answers.append(crew.own.delete(ORDERS, {}))

    when_nodes_change(monkeypatch, "drop", change)
    assert crew.own.delete(ORDERS, {}).status_code == 200
    assert {(a.status_code, a.json()["code"]) for a in answers} == {(409, "subject.busy")}


def test_a_node_that_fails_is_in_the_audit_log_and_the_deletion_can_be_repeated(
    archived: ThreadedSystem, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing, original = queries.masters()["g2"].admin_address, NodeAdmin.drop

    async def call(node: NodeAdmin, subject: str) -> Any:
        if node.admin_address == failing:
            raise ConnectionLost("no answer")
        return await original(node, subject)

    with monkeypatch.context() as broken:
        broken.setattr(NodeAdmin, "drop", call)
        answer = crew.own.delete(ORDERS, {})
    assert (answer.status_code, answer.json()["code"]) == (409, "subject.delete_in_part")
    assert audit_rows()[-1][0] == "subject.delete_failed"
    assert audit_rows()[-1][3] == {"done": ["g1"], "failed": {"g2": "no answer"}}
    assert crew.own.delete(ORDERS, {}).status_code == 200
    assert holders(archived) == []


def test_a_subject_that_was_never_used_is_deleted_without_nodes(cluster: ThreadedSystem, crew: Crew) -> None:
    subjects.create_subject("typo", {}, actor=ACTOR)
    path = "/api/v1/subjects/typo/"
    assert crew.admin.delete(path, {}).json()["code"] == "subject.not_archived"
    assert crew.admin.post(f"{path}archive/", {}).status_code == 200
    assert crew.admin.delete(path, {}).status_code == 200
    assert crew.admin.get(path).status_code == 404
