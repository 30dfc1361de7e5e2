"""Consumer groups: made known, described, paused, resumed, forgotten."""

from typing import Any

import pytest

from metaserver import domain, queries
from metaserver.errors import ChangeRefused, Conflict, NotFound, Stale
from metaserver.models import ConsumerGroup
from metaserver.services import groups as service
from metaserver.services import routes, subjects
from qmq.protocol.codes import ClientType
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import ACTOR, audit_rows, everything

pytestmark = pytest.mark.django_db


@pytest.fixture
def orders(db: None) -> None:
    subjects.create_subject("orders", {}, actor=ACTOR)
    service.create_group("orders", "billing", {}, actor=ACTOR)


def row() -> ConsumerGroup:
    return ConsumerGroup.objects.get(name="billing")


def pause(paused: bool = True, consumer_id: str = "", **options: Any) -> Any:
    return service.set_paused("orders", "billing", paused, consumer_id=consumer_id, actor=ACTOR, **options)


def held() -> frozenset[tuple[str, str, str]]:
    """What metaservers are told."""
    return queries.metadata().paused


@pytest.mark.database
@pytest.mark.usefixtures("orders")
def test_a_group_is_made_known_once() -> None:
    for name, code in (("", "group.name_illegal"), ("a/b", "group.name_illegal"), ("x" * 201, "group.name_illegal"),
                       ("a\x00", "group.name_illegal"), ("a\ud900", "group.name_illegal")):  # fmt: skip
        with pytest.raises(ChangeRefused) as refused:
            service.create_group("orders", name, {}, actor=ACTOR)
        assert (refused.value.code, set(refused.value.fields)) == (code, {"name"})
    with pytest.raises(Conflict) as there:
        service.create_group("orders", "billing", {}, actor=ACTOR)
    assert there.value.code == "consumer_group.exists"
    with pytest.raises(NotFound) as missing:
        service.create_group("none", "billing", {}, actor=ACTOR)
    assert missing.value.code == "subject.unknown"
    assert [entry[:2] for entry in audit_rows()] == [
        ("subject.create", "orders"),
        ("consumer_group.create", "orders/billing"),
    ]


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("key", "value"),
    [("description", 5), ("description", "\x00"), ("tags", "a"), ("tags", [""]), ("is_paused", True), ("name", "x")],
)
def test_a_value_that_is_not_allowed_is_refused_by_its_name(key: str, value: Any) -> None:
    before = everything()
    with pytest.raises(ChangeRefused) as refused:
        service.update_group("orders", "billing", {"description": "ok", key: value}, actor=ACTOR)
    assert (refused.value.code, set(refused.value.fields)) == ("consumer_group.invalid", {key})
    assert everything() == before


@pytest.mark.database
@pytest.mark.usefixtures("orders")
def test_dry_runs_and_repetitions_change_nothing() -> None:
    before = everything()
    planned = [
        service.create_group("orders", "new", {}, actor=ACTOR, dry_run=True),
        service.update_group("orders", "billing", {"tags": ["a"]}, actor=ACTOR, dry_run=True),
        pause(dry_run=True),
        service.delete_group("orders", "billing", actor=ACTOR, dry_run=True),
    ]
    assert all(change.is_change for change in planned)
    assert everything() == before
    assert service.update_group("orders", "billing", {"tags": ["a"]}, actor=ACTOR) == planned[1]
    before = everything()
    assert not service.update_group("orders", "billing", {"tags": ["a"]}, actor=ACTOR).is_change
    assert not pause(False).is_change
    assert everything() == before


@pytest.mark.database
@pytest.mark.usefixtures("orders")
def test_pausing_and_resuming_a_group_and_single_consumers() -> None:
    assert pause(reason="deploy").is_change
    assert not pause(reason="deploy").is_change
    assert (row().is_paused, row().has_pauses, row().pause_reason) == (True, True, "deploy")
    assert held() == {("orders", "billing", "")}
    pause(consumer_id="c2", reason="broken")
    pause(consumer_id="c1", reason="broken")
    assert held() == {("orders", "billing", ""), ("orders", "billing", "c1"), ("orders", "billing", "c2")}
    pause(False, "c1")
    assert (row().paused_consumers, row().pause_reason) == (["c2"], "broken")
    pause(False)
    assert (row().is_paused, row().paused_consumers, row().has_pauses, row().pause_reason) == (False, [], False, "")
    assert held() == frozenset()
    actions = [entry[0] for entry in audit_rows()[2:]]
    assert actions == ["consumer_group.pause"] * 3 + ["consumer_group.resume"] * 2
    last = audit_rows()[-1]
    assert (last[2]["paused_consumers"], last[3]["paused_consumers"]) == (["c2"], [])


@pytest.mark.database
@pytest.mark.usefixtures("orders")
def test_only_so_many_consumers_are_paused_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "PAUSED_CONSUMERS_MAX", 2)
    for name in ("c1", "c2"):
        pause(consumer_id=name)
    with pytest.raises(ChangeRefused) as refused:
        pause(consumer_id="c3")
    assert refused.value.code == "consumer_group.paused_consumers_max"
    pause(consumer_id="c2")
    for illegal in ("a/b", "x" * 201, "a\x00"):
        with pytest.raises(ChangeRefused) as refused:
            pause(consumer_id=illegal)
        assert (refused.value.code, set(refused.value.fields)) == ("consumer_id.illegal", {"consumer_id"})


@pytest.mark.database
@pytest.mark.usefixtures("orders")
def test_versions_and_what_is_not_there() -> None:
    pause()
    before = everything()
    for call in (
        lambda: pause(False, expected_version=1),
        lambda: service.update_group("orders", "billing", {}, actor=ACTOR, expected_version=1),
        lambda: service.delete_group("orders", "billing", actor=ACTOR, expected_version=1),
    ):
        with pytest.raises(Stale):
            call()
    for subject, group, code in (
        ("orders", "none", "consumer_group.unknown"),
        ("none", "billing", "subject.unknown"),
    ):
        with pytest.raises(NotFound) as missing:
            service.update_group(subject, group, {}, actor=ACTOR)
        assert missing.value.code == code
    assert everything() == before
    service.delete_group("orders", "billing", actor=ACTOR, expected_version=2, reason="gone")
    assert audit_rows()[-1][0::3] == ("consumer_group.delete", None)
    assert held() == frozenset()


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("transactional_db")
@needs_two_writers
class TestTwoWriters:
    """At once, each in a transaction of its own."""

    def test_pauses_of_different_consumers_are_all_kept(self) -> None:
        subjects.create_subject("orders", {}, actor=ACTOR)
        service.create_group("orders", "billing", {}, actor=ACTOR)
        found = at_once(*(lambda n=number: pause(consumer_id=f"c{n}") for number in range(4)))
        assert not [item for item in found if isinstance(item, Exception)], found
        assert row().paused_consumers == ["c0", "c1", "c2", "c3"]

    def test_a_group_whose_consumer_comes_as_it_is_made_is_there_once(self) -> None:
        subjects.create_subject("orders", {}, actor=ACTOR)
        seen = domain.ClientSeen("orders", int(ClientType.CONSUMER), "billing", "c1", "app")
        found = at_once(
            lambda: service.create_group("orders", "billing", {}, actor=ACTOR),
            lambda: routes.save_clients([seen]),
            lambda: service.create_group("orders", "billing", {}, actor=ACTOR),
        )
        assert found[1] is None
        assert all(not isinstance(item, Exception) or isinstance(item, Conflict) for item in found), found
        assert ConsumerGroup.objects.count() == 1
