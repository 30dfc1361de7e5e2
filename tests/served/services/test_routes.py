"""Routes: stored by compare-and-set, moved in every phase; and what nodes are told of it all (policies)."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.placement.plan import advance
from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.errors import Conflict, NotFound, Stale
from metaserver.memory.policies import policies_of
from metaserver.models import ClientSeen, ConsumerGroup, SubjectRoute
from metaserver.services import broker_groups, groups, routes, subjects
from metaserver.services.changes import METASERVER
from qmq.protocol.codes import ClientType
from qmq_node.policy import EMPTY_POLICY, SubjectPolicy
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import ACTOR, audit_rows, broker_group, everything, route

pytestmark = [pytest.mark.django_db, pytest.mark.database]
JOINING, LEAVING, DRAINING = Phase.JOINING, Phase.LEAVING, Phase.DRAINING


def stored(subject: str = "orders") -> domain.Route:
    return next(item for item in queries.route_snapshots() if item.subject == subject)


def move(*names: str, **options: Any) -> Any:
    return routes.move("orders", names, actor=ACTOR, reason=options.pop("reason", "moved"), **options)


def go_on(*, ready: tuple[str, ...] = (), empty: tuple[str, ...] = ()) -> None:
    """One step of the background job."""
    step = advance(stored(), ready=ready, empty=empty)
    assert step is not None
    routes.step(step.route, actor=METASERVER, reason=step.reason)


@pytest.fixture
def three(db: None) -> None:
    for name in ("g1", "g2", "g3"):
        broker_group(name)
    route("orders", "g1")


def test_a_route_is_stored_over_the_version_before_it_and_no_other() -> None:
    first = route("orders", "g1")
    assert route("orders", "g2") == first, "another metaserver was first"
    second = replace(first, broker_groups=("g1", "g2"), version=2)
    assert routes.save_route(second, actor=METASERVER, reason="topped up") == second
    late = replace(first, broker_groups=("g3",), version=2)
    assert routes.save_route(late, actor=METASERVER, reason="late") == second
    assert stored() == second
    assert [entry[0] for entry in audit_rows()] == ["route.set", "route.set"]
    assert audit_rows()[1][2:] == (
        {"broker_groups": ["g1"], "phases": {}},
        {"broker_groups": ["g1", "g2"], "phases": {}},
    )


@pytest.mark.usefixtures("three")
def test_a_move_goes_by_joining_leaving_draining_and_is_over() -> None:
    before = everything()
    planned = move("g2", dry_run=True)
    assert everything() == before
    assert move("g2") == planned
    assert (stored().broker_groups, stored().phases) == (("g1", "g2"), {"g1": LEAVING, "g2": JOINING})
    assert stored().writable == ("g1",)
    assert advance(stored(), ready=(), empty=("g1",)) is None, "nothing is ready"
    go_on(ready=("g2",))
    assert (stored().phases, stored().writable) == ({"g1": LEAVING}, ("g1", "g2"))
    go_on()
    assert (stored().phases, stored().writable) == ({"g1": DRAINING}, ("g2",))
    assert advance(stored(), ready=(), empty=()) is None, "g1 still holds something"
    go_on(empty=("g1",))
    assert (stored().broker_groups, stored().phases, stored().version) == (("g2",), {}, 5)
    assert not SubjectRoute.objects.get().has_phases
    assert [entry[0] for entry in audit_rows()[-4:]] == ["route.move", "route.step", "route.step", "route.step"]


@pytest.mark.usefixtures("three")
def test_a_broker_group_that_returns_to_service_keeps_the_subjects_that_are_leaving_it() -> None:
    """Also where stopped consumer groups would have let them leave never."""

    def decide(state: OperatorState, **options: Any) -> Any:
        return broker_groups.set_operator_state("g1", state, actor=ACTOR, **options)

    for name in ("parts", "gone"):
        route(name, "g1", "g2")
    routes.move("gone", ["g1"], actor=ACTOR, reason="of another group")
    decide(OperatorState.DRAINING)
    move("g2")
    go_on(ready=("g2",))
    go_on()
    assert stored().phases == {"g1": DRAINING}
    routes.move("parts", ["g2", "g3"], actor=ACTOR, reason="moved")
    before = everything()
    planned = decide(OperatorState.NORMAL, dry_run=True)
    assert everything() == before
    assert decide(OperatorState.NORMAL) == planned
    assert planned.notes == ("Subjects that have not left yet stay: orders, parts.",)
    phases = {route.subject: dict(route.phases) for route in queries.route_snapshots()}
    assert phases == {"orders": {"g1": JOINING}, "parts": {"g3": JOINING}, "gone": {"g2": LEAVING}}
    rejoined = [entry for entry in audit_rows() if entry[0] == "route.rejoin"]
    assert [entry[1] for entry in rejoined] == ["orders", "parts"]
    go_on(ready=("g1",))
    assert (stored().broker_groups, stored().writable) == (("g1", "g2"), ("g1", "g2"))
    assert decide(OperatorState.NORMAL).notes == ()


@pytest.mark.usefixtures("three")
def test_who_is_wanted_again_in_the_middle_comes_back() -> None:
    move("g2")
    move("g1")
    assert stored().phases == {"g2": DRAINING}, "it may hold nothing, and goes by the same door"
    move("g2")
    assert stored().phases == {"g1": LEAVING, "g2": JOINING}
    go_on(ready=("g2",))
    go_on()
    assert stored().phases == {"g1": DRAINING}
    move("g1", "g2")
    assert stored().phases == {"g1": JOINING}, "consumer groups may have come that never read there"
    assert stored().writable == ("g2",)
    move("g3")
    assert stored().phases == {"g1": DRAINING, "g2": LEAVING, "g3": JOINING}
    go_on(ready=("g3",))
    go_on()
    go_on(empty=("g1", "g2"))
    assert (stored().broker_groups, stored().phases) == (("g3",), {})


@pytest.mark.usefixtures("three")
def test_whatever_is_asked_in_whatever_order_somebody_takes_messages() -> None:
    names = ("g1", "g2", "g3")
    wishes = [tuple(name for bit, name in enumerate(names) if number >> bit & 1) for number in range(1, 8)]
    for first in wishes:
        for ready in (names, ()):
            for second in wishes:
                for wish in (first, second):
                    move(*wish)
                    assert set(stored().staying) == set(wish)
                    assert stored().writable, (first, second, ready)
                    step = advance(stored(), ready=ready, empty=())
                    if step is not None:
                        routes.step(step.route, actor=METASERVER, reason="s")
                        assert stored().writable, (first, second, ready)


@pytest.mark.usefixtures("three")
def test_a_move_that_would_leave_nobody_to_send_to_is_refused() -> None:
    broker_group("g2", GroupState.OFFLINE)
    broker_group("d1", kind=GroupKind.DELAY)
    broker_groups.set_operator_state("g3", OperatorState.DRAINING, actor=ACTOR)
    before = everything()
    for names, code in (
        (("g2",), "route.not_writable"),
        (("g2", "g3"), "route.not_writable"),
        ((), "route.not_writable"),
        (("none",), "broker_group.unknown"),
        (("g1", "d1"), "broker_group.unknown"),
    ):
        with pytest.raises(Conflict) as refused:
            move(*names)
        assert refused.value.code == code, names
    with pytest.raises(NotFound) as missing:
        routes.move("none", ["g1"], actor=ACTOR, reason="")
    assert missing.value.code == "route.unknown"
    with pytest.raises(Stale):
        move("g1", "g2", expected_version=9)
    assert not move("g1").is_change
    assert not move("g1", "g1").is_change
    assert everything() == before
    assert move("g1", "g2").is_change, "one of them takes messages"


@pytest.mark.usefixtures("three")
def test_a_step_over_a_route_that_was_changed_meanwhile_is_refused() -> None:
    move("g2")
    old = stored()
    move("g3")
    with pytest.raises(Stale):
        routes.step(old, actor=METASERVER, reason="late")
    with pytest.raises(NotFound):
        routes.step(replace(old, subject="none"), actor=METASERVER, reason="gone")


def test_clients_make_their_groups_known_and_are_forgotten_a_few_at_a_time() -> None:
    route("orders", "g1")
    seen = [
        domain.ClientSeen("orders", int(ClientType.CONSUMER), f"g{number}", f"c{number}", "app") for number in range(5)
    ]
    strangers = [
        domain.ClientSeen("unknown", int(ClientType.CONSUMER), "g", "c", "app"),
        domain.ClientSeen("orders", int(ClientType.PRODUCER), "", "p", "app"),
    ]
    routes.save_clients([*seen, *strangers])
    routes.save_clients(seen)
    assert ClientSeen.objects.count() == 7
    assert {row.name for row in ConsumerGroup.objects.all()} == {f"g{number}" for number in range(5)}
    assert routes.forget_clients(timedelta(days=7), 10) == 0
    ClientSeen.objects.update(last_seen_at=timezone.now() - timedelta(days=8))
    assert [routes.forget_clients(timedelta(days=7), 3) for _ in range(4)] == [3, 3, 1, 0]
    assert ConsumerGroup.objects.count() == 5


@pytest.mark.usefixtures("three")
def test_nodes_are_told_what_was_decided() -> None:
    broker_group("d1", kind=GroupKind.DELAY)
    route("bills", "g1", "g2")
    route("plain", "g1")
    subjects.update_subject("bills", {"messages_per_second": 5, "bytes_per_second": 9}, actor=ACTOR)
    subjects.create_subject("unserved", {"retention_hours": 2.0, "allowed_groups": ["x"]}, actor=ACTOR)
    subjects.set_archived("orders", True, actor=ACTOR)
    groups.create_group("bills", "audit", {}, actor=ACTOR)
    groups.set_paused("bills", "audit", True, consumer_id="c1", actor=ACTOR)
    broker_groups.set_operator_state("g2", OperatorState.READ_ONLY, actor=ACTOR)
    broker_groups.set_operator_state("g3", OperatorState.DRAINING, actor=ACTOR)
    routes.move("plain", ["g1", "g2"], actor=ACTOR, reason="")
    routes.move("plain", ["g1"], actor=ACTOR, reason="")

    def told() -> Any:
        metadata = queries.metadata()
        return policies_of(metadata, {item.subject: item for item in metadata.routes})

    found = told()
    quota = SubjectPolicy(messages_per_second=5, bytes_per_second=9)
    closed = SubjectPolicy(closed=True)
    unserved = SubjectPolicy(retention_hours=2.0, allowed_groups=("x",))
    paused = {("bills", "audit", "c1")}
    assert dict(found["g1"].subjects) == {"bills": quota, "orders": closed}
    assert dict(found["g2"].subjects) == {"bills": quota, "plain": closed}
    assert dict(found["g3"].subjects) == {}
    assert dict(found["d1"].subjects) == {"bills": quota, "orders": closed, "unserved": unserved}
    assert {name: set(policy.paused) for name, policy in found.items()} == {
        "g1": paused, "g2": paused, "g3": paused, "d1": set(),
    }  # fmt: skip
    assert {name: bool(policy.read_only) for name, policy in found.items()} == {
        "g1": False, "g2": True, "g3": True, "d1": False,
    }  # fmt: skip
    subjects.update_subject("bills", {"messages_per_second": None, "bytes_per_second": None}, actor=ACTOR)
    subjects.set_archived("orders", False, actor=ACTOR)
    groups.set_paused("bills", "audit", False, actor=ACTOR)
    assert told()["g1"].version == EMPTY_POLICY.version, "nothing is left of it"


@pytest.mark.django_db(transaction=True)
@needs_two_writers
class TestTwoWriters:
    """At once, each in a transaction of its own."""

    def test_of_metaservers_that_choose_for_a_new_subject_all_get_the_first_ones_choice(self) -> None:
        found = at_once(*(lambda n=number: route("orders", f"g{n}") for number in range(4)))
        assert all(isinstance(item, domain.Route) for item in found), found
        assert len({item.broker_groups for item in found}) == 1
        assert stored() == found[0]
        assert len(audit_rows()) == 1

    def test_of_two_steps_over_one_version_one_is_taken(self) -> None:
        for name in ("g1", "g2", "g3"):
            broker_group(name)
        route("orders", "g1")
        found = at_once(lambda: move("g2", expected_version=1), lambda: move("g3", expected_version=1))
        assert sum(isinstance(item, Stale) for item in found) == 1, found
        assert stored().version == 2
