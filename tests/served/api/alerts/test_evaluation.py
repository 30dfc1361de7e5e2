"""Looks at snapshots: what opens, fires, is told, ends."""

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from console.alerts.builtin import BUILTIN, ensure_builtin_rules
from console.alerts.models import (
    Alert,
    AlertChannel,
    AlertRule,
    AlertState,
    DeadLetterCount,
    Notification,
    Resolution,
    Silence,
)
from console.alerts.rules import Kind
from console.alerts.services import alert_changes, dead_letters, evaluate, evaluation, notifications
from console.alerts.services.alerts import acknowledge
from console.alerts.services.channels import create_channel
from console.alerts.services.closing import forget_old
from console.alerts.services.current import current_readings
from console.alerts.services.rules import create_rule, delete_rule, update_rule
from console.alerts.services.silences import create_silence, end_silence
from console.models import BackgroundJob
from console.outbox.models import OutboxDatabase
from metaserver.choices import GroupKind
from metaserver.models import AuditEntry, BrokerGroup, Node
from metaserver.services import audit
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from qmq.protocol.reasons import Code, Reason
from tests.served.api.alerts.receiver import ACTOR
from tests.served.api.alerts.system_state import at, group, lagging, node, snapshot, store_members
from tests.support.console.metadata import broker_group

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def only_ours() -> None:
    """The built-in rules rest, except where they are the subject."""
    AlertRule.objects.update(is_enabled=False)


def rule(**values: Any) -> str:
    """A rule on lag above 100, clear at 80, and its id."""
    AlertChannel.objects.get_or_create(name="mail", kind="email", addresses=["ops@example.com"])
    given: dict[str, Any] = {"name": "lag", "threshold": 100, "severity": "warning", "channels": ["mail"], **values}
    return create_rule(given.pop("kind", "lag"), given, actor=ACTOR).target


def states() -> list[tuple[str, str]]:
    return list(Alert.objects.order_by("id").values_list("target", "state"))


def told() -> list[tuple[str, str]]:
    return list(Notification.objects.order_by("id").values_list("alert__target", "event"))


@pytest.mark.database
def test_pending_then_firing_then_resolved():
    rule(for_seconds=30, clear_for_seconds=20)
    assert evaluate(lagging(101), at(0)).opened == 1
    assert states() == [("orders/billing", "pending")]
    assert told() == []
    assert evaluate(lagging(150), at(30)).fired == 1
    alert = Alert.objects.get()
    assert (alert.state, alert.value, alert.since, alert.fired_at) == ("firing", 150, at(0), at(30))
    assert told() == [("orders/billing", "firing")]
    evaluate(lagging(80), at(40))
    done = evaluate(lagging(10), at(60))
    assert (done.resolved, done.notifications) == (1, 1)
    alert.refresh_from_db()
    assert (alert.state, alert.resolution, alert.resolved_at, alert.last_value) == ("resolved", "cleared", at(60), 10)
    assert told() == [("orders/billing", "firing"), ("orders/billing", "resolved")]


def test_a_flapping_value_fires_and_is_told_once():
    rule()
    for second in range(60):
        evaluate(lagging(101 if second % 2 == 0 else 90), at(second))
    assert states() == [("orders/billing", "firing")]
    assert told() == [("orders/billing", "firing")]


def test_pending_that_was_nothing_leaves_nothing():
    rule(for_seconds=30)
    evaluate(lagging(101), at(0))
    evaluate(lagging(100), at(10))
    assert states() == []


@pytest.mark.database
def test_looking_twice_at_the_same_changes_nothing():
    rule()
    evaluate(lagging(101), at(0))
    before = list(Alert.objects.values())
    again = evaluate(lagging(101), at(0))
    assert (again.opened, again.fired, again.notifications) == (0, 0, 0)
    assert list(Alert.objects.values()) == before
    assert len(told()) == 1


@pytest.mark.database
def test_what_another_process_did_meanwhile_is_not_done_again(monkeypatch: pytest.MonkeyPatch):
    rule()
    look = evaluation._Look(lagging(101), at(0), current_readings(lagging(101), at(0), {}))
    write = look._changes.write

    def late() -> Counter[str]:
        evaluate(lagging(101), at(0))
        return write()

    monkeypatch.setattr(look._changes, "write", late)
    assert look.run().opened == 0
    assert states() == [("orders/billing", "firing")]
    assert len(told()) == 1
    look = evaluation._Look(lagging(1), at(10), current_readings(lagging(1), at(10), {}))
    write = look._changes.write

    def later() -> Counter[str]:
        evaluate(lagging(1), at(10))
        return write()

    monkeypatch.setattr(look._changes, "write", later)
    assert look.run().resolved == 0
    assert len(told()) == 2


def test_unknown_fires_no_lag_and_ends_none():
    rule()
    evaluate(lagging(None), at(0))
    assert states() == []
    evaluate(lagging(101), at(10))
    for seconds in (20, 100, 100_000):
        evaluate(lagging(None), at(seconds))
    alert = Alert.objects.get()
    assert (alert.state, alert.last_value, alert.reason) == ("firing", None, "node-1 is away")
    evaluate(None, at(200_000))
    assert Alert.objects.get().state == "firing"


def test_processes_that_share_an_id_are_one_alert_of_their_group():
    rule(kind="duplicate_ids", threshold=0, for_seconds=120, clear_for_seconds=60)

    def found(count: int | None) -> dict[str, Any]:
        entry = {**group(0), "duplicate_consumers": count}
        return snapshot({"orders/billing": entry, "%RETRY%orders%billing/billing": entry, "orders/old": group(0)})

    evaluate(found(1), at(0))
    assert states() == [("orders/billing", "pending")]
    evaluate(found(1), at(120))
    assert told() == [("orders/billing", "firing")]
    evaluate(found(None), at(200))
    evaluate(found(0), at(300))
    evaluate(found(0), at(360))
    assert told()[-1] == ("orders/billing", "resolved")


def test_pending_retries_are_in_the_alert_of_their_group():
    rule()
    rule(name="time lag", kind="time_lag", threshold=900)
    retries = "%RETRY%orders%billing/billing"
    evaluate(snapshot({"orders/billing": group(90, 30.0), retries: group(11, 901.0)}), at(0))
    assert states() == [("orders/billing", "firing")] * 2
    values = list(Alert.objects.order_by("id").values_list("kind", "last_value", "retries"))
    assert values == [("lag", 101, 11), ("time_lag", 901, 11)]
    # The subject itself is on no node any more.
    evaluate(snapshot({retries: group(150, 20.0)}), at(60))
    values = list(Alert.objects.order_by("id").values_list("state", "last_value", "retries"))
    assert values == [("firing", 150, 150), ("resolved", 20, 150)]
    evaluate(snapshot({"orders/billing": group(90, 30.0), retries: group(None, None, "g2 is away")}), at(120))
    assert list(Alert.objects.filter(state="firing").values_list("last_value", "retries", "reason")) == [
        (None, None, "g2 is away")
    ]


def test_unknown_is_told_by_its_own_rule():
    rule(kind="unknown", threshold=0, for_seconds=60, target="*/*")
    evaluate(lagging(None), at(0))
    evaluate(lagging(None), at(59))
    assert told() == []
    evaluate(lagging(None), at(60))
    assert told() == [("orders/billing", "firing")]
    evaluate(lagging(0), at(61))
    assert told()[-1] == ("orders/billing", "resolved")


def test_a_node_that_is_away_is_one_alert_not_one_for_each_group():
    rule(kind="unknown", threshold=0)
    away = snapshot({f"s{n}/g": group(None, reason="node-1 is away") for n in range(5)}, {"node-1": node("no answer")})
    evaluate(away, at(0))
    assert states() == [("node-1", "firing")]
    assert Alert.objects.get().last_value == 1


def test_subjects_that_are_still_being_read_are_no_alert_and_overdue_ones_are_one_of_their_node():
    rule(kind="unknown", threshold=0)
    groups = {f"s{n}/g": group(None, reason="node-1: its subjects are being read") for n in range(5)}
    reading = node(subjects_reason="node-1: its subjects are being read")
    evaluate(snapshot(groups, {"node-1": reading}), at(0))
    assert states() == []
    evaluate(snapshot(groups, {"node-1": node(subjects_reason="too old", are_subjects_overdue=True)}), at(1))
    assert states() == [("node-1", "firing")]


def test_no_snapshot_at_all_is_an_unknown_collector():
    rule(kind="unknown", threshold=0, for_seconds=60)
    evaluate(None, at(0))
    evaluate(None, at(60))
    assert states() == [("collector", "firing")]
    evaluate(snapshot(), at(61))
    assert states() == [("collector", "resolved")]


def test_time_lag():
    rule(kind="time_lag", threshold=900)
    evaluate(snapshot({"a/g": group(5, 901.0), "b/g": group(5, 900.0), "c/g": group(5, None)}), at(0))
    assert states() == [("a/g", "firing")]


def test_disk_and_lateness_by_node():
    rule(kind="disk", name="disk", threshold=85)
    rule(kind="lateness", name="late", threshold=5)
    nodes = {
        "full": node(disk_free_bytes=14, disk_total_bytes=100),
        "fine": node(disk_free_bytes=15, disk_total_bytes=100),
        "old": node(),
        "delay": node(lateness_p99_seconds=5.5),
        "away": node("no answer"),
    }
    evaluate(snapshot(nodes=nodes), at(0))
    assert sorted(states()) == [("delay", "firing"), ("full", "firing")]


def test_damage_by_node():
    AlertRule.objects.filter(builtin="damage").update(is_enabled=True)
    nodes = {
        "damaged": node(damaged_ranges=1),
        "unreadable": node(damaged_ranges=0, unreadable_messages=3),
        "fine": node(damaged_ranges=0, unreadable_messages=0),
        "away": node("no answer"),
    }
    evaluate(snapshot(nodes=nodes), at(0))
    assert sorted(states()) == [("damaged", "firing"), ("unreadable", "firing")]
    evaluate(snapshot(nodes={name: node(damaged_ranges=0) for name in nodes}), at(1))
    assert sorted(states()) == [("damaged", "resolved"), ("unreadable", "resolved")]


def test_a_pass_over_stored_data_that_takes_too_long():
    AlertRule.objects.filter(builtin="scrub").update(is_enabled=True)
    nodes = {
        "late": node(scrub_seconds=7 * 86_400 + 60),
        "in time": node(scrub_seconds=7 * 86_400),
        "off": node(scrub_seconds=None),
        "away": node("no answer"),
    }
    evaluate(snapshot(nodes=nodes), at(0))
    assert states() == [("late", "firing")]
    evaluate(snapshot(nodes={name: node(scrub_seconds=0) for name in nodes}), at(1))
    assert states() == [("late", "resolved")]


def test_the_clock_of_delay_nodes():
    AlertRule.objects.filter(builtin="clock").update(is_enabled=True)
    nodes = {
        "ahead": node(clock_ahead_ms=3_000, clock_behind_ms=0),
        "behind": node(clock_ahead_ms=0, clock_behind_ms=60_000),
        "fine": node(clock_ahead_ms=0, clock_behind_ms=0),
        "broker": node(),
        "away": node("no answer"),
    }
    evaluate(snapshot(nodes=nodes), at(0))
    assert sorted(states()) == [("ahead", "firing"), ("behind", "firing")]
    evaluate(snapshot(nodes={name: node(clock_ahead_ms=0, clock_behind_ms=0) for name in nodes}), at(1))
    assert sorted(states()) == [("ahead", "resolved"), ("behind", "resolved")]


def test_the_state_of_broker_groups():
    rule(kind="group_state", threshold=1, clear_threshold=1)
    for name, state in (("g1", "offline"), ("g2", "read_only"), ("g3", "read_write")):
        BrokerGroup.objects.create(name=name, state=state)
    evaluate(None, at(0))
    assert states() == [("g1", "firing")]
    BrokerGroup.objects.filter(name="g1").update(state="read_only")
    evaluate(None, at(1))
    assert states() == [("g1", "resolved")]


@pytest.mark.parametrize("of", GroupKind)
@pytest.mark.parametrize(
    ("kind", "threshold", "bad", "target"),
    [
        ("copies", 1, {"in_sync": ("a",)}, "g1"),
        ("below_minimum", 0, {"in_sync": ("a",)}, "g1"),
        ("no_candidate", 0, {"slave": "copying"}, "g1"),
        ("no_candidate", 0, {"limitations": (Reason.of(Code.HANDS_OVER_LATER, why="it is far behind"),)}, "g1"),
        ("replication", 0, {"slave": "failed"}, "b"),
    ],
)
def test_members_of_broker_groups(kind: str, threshold: int, bad: dict[str, Any], target: str, of: GroupKind) -> None:
    rule(kind=kind, threshold=threshold, clear_threshold=threshold)
    store_members(of)
    evaluate(None, at(0))
    assert states() == []
    store_members(of, **bad)
    evaluate(None, at(1))
    assert states() == [(target, "firing")]
    store_members(of)
    evaluate(None, at(2))
    assert states() == [(target, "resolved")]


def test_all_members_on_one_rack() -> None:
    rule(kind="one_rack", threshold=0)
    store_members()
    evaluate(None, at(0))
    assert states() == [], "nothing is known of racks"
    Node.objects.update(rack="r1")
    evaluate(None, at(1))
    assert states() == [("g1", "firing")]
    Node.objects.filter(node_id="b").update(rack="r2")
    evaluate(None, at(2))
    assert states() == [("g1", "resolved")]


def test_groups_with_one_member_need_no_candidate() -> None:
    for kind in ("copies", "below_minimum", "no_candidate", "one_rack"):
        rule(kind=kind, threshold=0, name=kind)
    broker_group("alone")
    BrokerGroup.objects.update(copies=1)
    BrokerGroup.objects.create(name="announced", state="offline")
    evaluate(None, at(0))
    assert states() == []


@pytest.mark.database
def test_more_than_three_role_changes_in_an_hour() -> None:
    rule(kind="role_changes", threshold=3)
    store_members()
    for number in range(4):
        action = "broker_group.promote" if number % 2 else "broker_group.resign"
        with transaction.atomic():
            audit.record(ACTOR, action, "g1")
            audit.record(ACTOR, "broker_group.add_in_sync", "g1")
            audit.record(ACTOR, action, "g2")
        AuditEntry.objects.update(at=at(0))
        evaluate(None, at(1))
        assert states() == ([("g1", "firing")] if number == 3 else [])
    evaluate(None, at(3_700))
    assert states() == [("g1", "resolved")]


def test_a_loop_that_is_late():
    rule(kind="job_late", threshold=3)
    BackgroundJob.objects.create(name="heartbeats", succeeded_at=at(0))
    BackgroundJob.objects.create(name="off", succeeded_at=at(0), is_enabled=False)
    BackgroundJob.objects.create(name="never")
    intervals = {"heartbeats": 10.0, "off": 10.0, "never": 10.0}
    evaluate(None, at(30), job_intervals=intervals)
    assert states() == []
    evaluate(None, at(31), job_intervals=intervals)
    assert states() == [("heartbeats", "firing")]
    assert Alert.objects.get().value == pytest.approx(3.1)


def test_a_loop_is_not_unmeasured_before_its_first_run_has_ended():
    rule(kind="unknown", target="analytics", threshold=0, for_seconds=60)
    intervals = {"analytics": 600.0}

    def evaluated(second: int) -> list[tuple[str, str]]:
        evaluate(None, at(second), job_intervals=intervals)
        return states()

    job = BackgroundJob.objects.create(name="analytics")
    assert evaluated(0) == evaluated(120) == [], "it was never due"
    BackgroundJob.objects.update(started_at=at(120), held_until=at(400))
    assert evaluated(121) == evaluated(300) == [], "it runs for the first time"
    assert evaluated(401) == [("analytics", "pending")], "its worker died"
    BackgroundJob.objects.update(held_until=at(800), started_at=at(420))
    assert evaluated(421) == []
    BackgroundJob.objects.update(held_until=None, finished_at=at(430), failures=1)
    assert evaluated(431) == [("analytics", "pending")]
    BackgroundJob.objects.update(held_until=at(1_500), started_at=at(1_031))
    assert evaluated(1_040) == [("analytics", "firing")], "after a failure, running does not help"
    BackgroundJob.objects.filter(pk=job.pk).update(held_until=None, succeeded_at=at(1_100))
    assert evaluated(1_101) == [("analytics", "resolved")]


def test_dead_letters_count_as_they_come():
    rule(kind="dead_letters", threshold=0, window_seconds=600)
    name = "%DEAD_RETRY%orders%billing"
    evaluate(snapshot(sent={name: 7}), at(0))
    assert states() == [], "what is there at the first look is old"
    evaluate(snapshot(sent={name: 7, "%DEAD_RETRY%orders%audit": 1, "orders": 10_000}), at(10))
    assert states() == [("orders/audit", "firing")], "the first dead letter makes the subject"
    evaluate(snapshot(sent={name: 9, "%DEAD_RETRY%orders%audit": 1}), at(20))
    assert Alert.objects.get(target="orders/billing").value == 2
    later = snapshot(sent={name: 9, "%DEAD_RETRY%orders%audit": 1})
    evaluate(later, at(609))
    assert states() == [("orders/audit", "firing"), ("orders/billing", "firing")]
    evaluate(later, at(610))
    assert states() == [("orders/audit", "resolved"), ("orders/billing", "firing")]
    evaluate(snapshot(sent={name: None}), at(5000))
    assert Alert.objects.get(target="orders/billing").state == "firing", "not measured is not none"
    assert Alert.objects.get(target="orders/billing").last_value is None


def test_dead_letters_found_after_a_node_was_away_at_the_first_look_are_old():
    rule(kind="dead_letters", threshold=0)
    evaluate(snapshot(nodes={"node-1": node("no answer")}), at(0))
    evaluate(snapshot(sent={"%DEAD_RETRY%orders%billing": 7}), at(10))
    assert states() == []
    evaluate(snapshot(sent={"%DEAD_RETRY%orders%billing": 8}), at(20))
    assert Alert.objects.get().value == 1


@pytest.mark.database
def test_two_processes_count_a_dead_letter_once():
    name = "%DEAD_RETRY%orders%billing"
    evaluate(snapshot(sent={name: 1}), at(0))
    read_by_both = [DeadLetterCount.objects.get(target="orders/billing") for _ in range(2)]
    for row in read_by_both:
        dead_letters._update(row, 2, at(1).timestamp())
    assert DeadLetterCount.objects.get(target="orders/billing").arrivals == [[at(1).timestamp(), 1]]
    dead_letters._update(read_by_both[1], 3, at(2).timestamp())
    assert DeadLetterCount.objects.get(target="orders/billing").count == 2, "what was read is not the newest"


def test_the_owner_of_the_subject():
    create_team("shop", actor=ACTOR)
    create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    rule(target="orders")
    assert AlertRule.objects.get(name="lag").owner == "shop"
    evaluate(snapshot({"orders/billing": group(101), "%RETRY%orders%billing/billing": group(5)}), at(0))
    assert Alert.objects.get().owner == "shop"


def test_a_rule_that_is_disabled_or_means_others_ends_its_alerts():
    pk = rule()
    evaluate(lagging(101), at(0))
    update_rule(pk, {"target": "other"}, actor=ACTOR)
    evaluate(lagging(101), at(1))
    assert Alert.objects.get().resolution == Resolution.RULE_CHANGED
    update_rule(pk, {"target": "*"}, actor=ACTOR)
    evaluate(lagging(101), at(2))
    update_rule(pk, {"is_enabled": False}, actor=ACTOR)
    evaluate(lagging(101), at(3))
    assert list(Alert.objects.values_list("resolution", flat=True)) == [Resolution.RULE_CHANGED] * 2
    assert [event for _, event in told()] == ["firing", "resolved"] * 2


def test_a_rule_that_is_deleted_ends_its_alerts_and_keeps_its_history():
    pk = rule()
    evaluate(lagging(101), at(0))
    assert delete_rule(pk, actor=ACTOR).notes == ("Open alerts that will be resolved: 1.",)
    alert = Alert.objects.get()
    assert (alert.rule_id, alert.rule_name, alert.state, alert.resolution) == (None, "lag", "resolved", "rule_deleted")
    assert [event for _, event in told()] == ["firing", "resolved"]


def test_a_target_that_is_gone_for_an_hour_ends_and_one_that_can_not_be_seen_does_not():
    rule()
    evaluate(lagging(101), at(0))
    evaluate(snapshot(nodes={"node-1": node("no answer")}), at(7200))
    assert Alert.objects.get().state == "firing"
    evaluate(lagging(101), at(7300))
    evaluate(snapshot(), at(7300 + evaluation.GONE_SECONDS - 1))
    assert Alert.objects.get().state == "firing"
    evaluate(snapshot(), at(7300 + evaluation.GONE_SECONDS))
    assert Alert.objects.get().resolution == Resolution.TARGET_GONE


def test_a_silenced_alert_is_shown_and_told_to_nobody_until_the_silence_ends():
    rule()
    made = create_silence(
        rule="la*", target="orders", starts_at=None, ends_at=at(3600), now=at(0), actor=ACTOR, reason="works"
    )
    evaluate(snapshot({"orders/billing": group(101), "other/g": group(101)}), at(1))
    assert {state for _, state in states()} == {"firing"}
    evaluate(snapshot({"orders/billing": group(101), "other/g": group(101)}), at(2))
    assert told() == [("other/g", "firing")]
    end_silence(made.target, now=at(10), actor=ACTOR)
    evaluate(snapshot({"orders/billing": group(101), "other/g": group(101)}), at(11))
    assert told() == [("other/g", "firing"), ("orders/billing", "firing")]
    evaluate(snapshot({"orders/billing": group(101), "other/g": group(101)}), at(12))
    assert len(told()) == 2


def test_an_alert_that_ends_while_it_is_silenced_is_never_told():
    rule()
    create_silence(rule="*", target="*", starts_at=None, ends_at=at(3600), now=at(0), actor=ACTOR, reason="works")
    evaluate(lagging(101), at(1))
    evaluate(lagging(0), at(2))
    evaluate(lagging(0), at(4000))
    assert states() == [("orders/billing", "resolved")]
    assert told() == []


def test_who_was_told_of_the_beginning_is_told_of_the_end_silenced_or_not():
    rule()
    evaluate(lagging(101), at(1))
    create_silence(rule="*", target="*", starts_at=None, ends_at=at(3600), now=at(2), actor=ACTOR, reason="works")
    evaluate(lagging(0), at(3))
    assert [event for _, event in told()] == ["firing", "resolved"]


def test_an_acknowledged_alert_is_not_told_when_its_silence_ends():
    rule()
    create_silence(rule="*", target="*", starts_at=None, ends_at=at(100), now=at(0), actor=ACTOR, reason="works")
    evaluate(lagging(101), at(1))
    acknowledge(str(Alert.objects.get().pk), now=at(2), actor=ACTOR, reason="mine")
    evaluate(lagging(101), at(200))
    assert told() == []


def test_open_alerts_are_limited_and_what_is_left_out_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluation, "OPEN_MAX", 3)
    monkeypatch.setattr(alert_changes, "BATCH_ALERTS", 2)
    rule()
    many = snapshot({f"s{n}/g": group(101) for n in range(5)})
    done = evaluate(many, at(0))
    assert (done.opened, done.left_out) == (3, 2)
    evaluate(snapshot({f"s{n}/g": group(0 if n < 2 else 101) for n in range(5)}), at(1))
    assert evaluate(snapshot({f"s{n}/g": group(101) for n in range(2, 5)}), at(2)).opened == 2
    assert Alert.objects.filter(state="firing").count() == 3


def test_changes_of_one_look_are_limited_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alert_changes, "CHANGES_MAX", 3)
    rule()
    many = snapshot({f"s{n}/g": group(101) for n in range(5)})
    assert (evaluate(many, at(0)).fired, evaluate(many, at(1)).fired, evaluate(many, at(2)).fired) == (3, 2, 0)
    few = snapshot({f"s{n}/g": group(0) for n in range(5)} | {"new/g": group(101)})
    done = evaluate(few, at(3))
    assert (done.resolved, done.opened, done.put_off) == (3, 0, 3), "what ends goes before what begins"
    assert (evaluate(few, at(4)).put_off, len(told())) == (0, 11)


@pytest.mark.database
def test_values_written_in_one_look_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alert_changes, "REFRESHED_MAX", 3)
    rule()
    evaluate(snapshot({f"s{n}/g": group(101) for n in range(5)}), at(0))
    many = snapshot({f"s{n}/g": group(200) for n in range(5)})
    for seconds, fresh in ((60, 3), (61, 5)):
        evaluate(many, at(seconds))
        assert Alert.objects.filter(last_value=200).count() == fresh


def test_readings_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(evaluation, "READINGS_MAX", 10)
    rule()
    done = evaluate(snapshot({f"s{n}/g": group(101) for n in range(10)}), at(0))
    assert done.looked_at == 10
    assert done.left_out > 0


def test_notifications_that_wait_for_a_channel_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(notifications, "WAITING_OF_A_CHANNEL_MAX", 2)
    rule()
    done = evaluate(snapshot({f"s{n}/g": group(101) for n in range(5)}), at(0))
    assert (done.fired, done.notifications, done.left_out) == (5, 2, 3)
    assert Alert.objects.filter(failed_count=1).count() == 3


@pytest.mark.database
def test_five_thousand_groups_take_few_queries(django_assert_max_num_queries: Any):
    rule()
    many = snapshot({f"s{n // 5}/g{n % 5}": group(3, 1.0) for n in range(5_000)})
    evaluate(many, at(0))
    with django_assert_max_num_queries(13):
        done = evaluate(many, at(1))
    assert done.looked_at > 15_000
    with django_assert_max_num_queries(13):
        evaluate(snapshot(), at(2))


def test_an_open_alert_is_written_now_and_then_not_each_time(django_assert_max_num_queries: Any):
    rule()
    evaluate(lagging(101), at(0))
    evaluate(lagging(500), at(evaluation.VALUE_SECONDS - 1))
    assert Alert.objects.get().last_value == 101
    evaluate(lagging(600), at(evaluation.VALUE_SECONDS))
    assert Alert.objects.get().last_value == 600


def test_the_built_in_rules_are_there_and_stay_as_they_were_changed():
    rows = {row.builtin: row for row in AlertRule.objects.filter(builtin__isnull=False)}
    assert rows.keys() == BUILTIN.keys()
    assert {row.kind for row in rows.values()} >= {
        Kind.GROUP_STATE, Kind.DISK, Kind.TIME_LAG, Kind.DEAD_LETTERS, Kind.LATENESS, Kind.JOB_LATE, Kind.UNKNOWN,
        Kind.DUPLICATE_IDS, Kind.DAMAGE, Kind.COPIES, Kind.BELOW_MINIMUM, Kind.NO_CANDIDATE, Kind.ONE_RACK, Kind.ROLE_CHANGES,
        Kind.REPLICATION,
    }  # fmt: skip
    for row in rows.values():
        assert row.clear_threshold <= row.threshold
    update_rule(str(rows["disk"].pk), {"threshold": 95, "name": "Disk"}, actor=ACTOR)
    assert ensure_builtin_rules() == 0
    assert AlertRule.objects.get(builtin="disk").threshold == 95


@pytest.mark.database
def test_what_is_old_is_forgotten_and_what_is_open_is_not():
    rule()
    evaluate(lagging(101), at(0))
    evaluate(lagging(0), at(1))
    evaluate(lagging(101, "other/g"), at(2))
    create_silence(rule="*", target="*", starts_at=None, ends_at=at(9), now=at(0), actor=ACTOR, reason="works")
    assert forget_old(at(86_400 * 90)) == 0
    assert forget_old(at(86_400 * 91)) == 2
    assert states() == [("other/g", "firing")]
    assert not Silence.objects.exists()


def test_a_disabled_channel_is_not_told():
    rule()
    AlertChannel.objects.update(is_enabled=False)
    evaluate(lagging(101), at(0))
    assert Alert.objects.get().state == AlertState.FIRING
    assert told() == []


def test_two_channels_are_told_once_each():
    create_channel("email", {"name": "second", "addresses": ["b@example.com"]}, actor=ACTOR)
    rule(channels=["mail", "second"])
    evaluate(lagging(101), at(0))
    assert sorted(Notification.objects.values_list("channel__name", flat=True)) == ["mail", "second"]
    assert Notification.objects.first().next_at - at(0) == timedelta(0)  # type: ignore[union-attr]


def outbox_database(name: str = "shop", **values: Any) -> OutboxDatabase:
    """A registered database, measured at 0 s."""
    measured = {"measured_at": at(0), "pending": 5, "failed": 0, "oldest_ms": 1_000, **values}
    return OutboxDatabase.objects.create(name=name, kind="sqlite", database="x", **measured)


def test_the_built_in_rules_about_outboxes() -> None:
    AlertRule.objects.filter(builtin__startswith="outbox_").update(is_enabled=True)
    rules = {rule.builtin: (rule.threshold, rule.for_seconds) for rule in AlertRule.objects.filter(is_enabled=True)}
    assert rules == {"outbox_age": (300, 0), "outbox_failed": (0, 0), "outbox_unreachable": (0, 60)}
    outbox_database("late", oldest_ms=300_001)
    outbox_database("wrong", failed=1)
    outbox_database("fine", oldest_ms=300_000)
    outbox_database("disabled", failed=9, is_enabled=False)
    evaluate(snapshot(), at(1))
    assert set(Alert.objects.values_list("kind", "target", "state")) == {
        (Kind.OUTBOX_AGE, "late", "firing"), (Kind.OUTBOX_FAILED, "wrong", "firing"),
    }  # fmt: skip
    OutboxDatabase.objects.update(oldest_ms=0, failed=0)
    evaluate(None, at(2))
    assert not Alert.objects.exclude(state="resolved").exists(), "numbers of outboxes are known without a snapshot"


def test_an_outbox_that_can_not_be_used_fires_after_a_minute_and_its_numbers_are_unknown() -> None:
    AlertRule.objects.filter(builtin__startswith="outbox_").update(is_enabled=True)
    row = outbox_database(failed=1, owner="shop")
    evaluate(snapshot(), at(0))
    OutboxDatabase.objects.update(error="gone", error_code="database.unreachable", error_since=at(1))
    for seconds in (1, 60, 62):
        evaluate(snapshot(), at(seconds))
    failed, unusable = Alert.objects.order_by("kind")
    assert (failed.state, failed.last_value, failed.reason) == ("firing", None, "database.unreachable")
    assert (unusable.kind, unusable.state, unusable.target) == (Kind.OUTBOX_UNREACHABLE, "firing", row.name)
    assert {failed.owner, unusable.owner} == {"shop"}


def test_old_numbers_of_an_outbox_raise_and_resolve_nothing() -> None:
    AlertRule.objects.filter(builtin__startswith="outbox_").update(is_enabled=True)
    outbox_database(failed=1)
    evaluate(snapshot(), at(0))
    OutboxDatabase.objects.update(failed=0)
    evaluate(snapshot(), at(91))
    assert Alert.objects.get().state == "firing", "what was measured 91 s ago is not known any more"
