"""The live state: deltas, feeds, sums over nodes, what is unknown."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.live import stats_of
from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.collector.collector import Health, understood
from console.collector.messages import messages_of
from console.collector.metadata import Metadata
from console.collector.summing import Sums, summed
from console.snapshot.feeds import Feed, feed_of, restrict, views
from console.snapshot.state import (
    RECENT_MAX,
    SECTIONS,
    State,
    apply,
    delta,
    empty,
    events_between,
    group_key,
    recent,
)
from console.times import rfc3339
from qmq.protocol.reasons import Code, Reason
from tests.support.console.node_stats import consumer, group_stats, subject_stats
from tests.unit.console.live.stats import AWAY, NOW_MS, place, states, stats

feeds = st.sampled_from(
    [Feed("lag", "orders"), Feed("lag", "orders", "g"), Feed("lag", "a"), Feed("nodes"), Feed("events")]
)


@given(states, states)
def test_a_delta_applied_gives_the_new_state(old: State, new: State) -> None:
    through_json = json.loads(json.dumps(delta(old, new)))
    assert apply(old, through_json) == new


def view(state: State, feed: Feed) -> State:
    return views(state, [feed])[0]


@given(states, states, feeds)
def test_a_feed_sees_the_same_by_its_part_of_the_delta(old: State, new: State, feed: Feed) -> None:
    assert apply(view(old, feed), restrict(delta(old, new), feed)) == view(new, feed)


@given(states, states, feeds)
def test_what_is_published_to_a_feed_is_its_part(old: State, new: State, feed: Feed) -> None:
    messages = dict(messages_of(delta(old, new), {"version": 1}, [feed.name]))
    assert apply(view(old, feed), json.loads(messages[feed.name])["delta"]) == view(new, feed)
    assert json.loads(messages["beat"]) == {"type": "beat", "version": 1}


@given(states, st.lists(feeds))
def test_feeds_looked_at_together_show_what_each_shows_alone(state: State, some: list[Feed]) -> None:
    assert views(state, some) == [view(state, feed) for feed in some]
    for feed in some:
        for section in feed.sections:
            wanted = feed.keys(section, state[section])
            expected = state[section] if wanted is None else {key: state[section].get(key) for key in wanted}
            assert view(state, feed)[section] == {key: entry for key, entry in expected.items() if entry is not None}


@given(states)
def test_nothing_changed_is_an_empty_delta(state: State) -> None:
    assert delta(state, json.loads(json.dumps(state))) == {}


@given(st.text("ab%/.·\u4e3b", min_size=1), st.none() | st.text("ab./", min_size=1))
def test_names_of_feeds_lead_back(subject: str, group: str | None) -> None:
    feed = Feed("lag", subject, group)
    assert feed_of(feed.name) == feed


@pytest.mark.parametrize(
    "name", ["", "lag", "beat", "lag.subject", "lag.other.YQ", "lag.subject.\u00fc", "lag.group.a"]
)
def test_other_names_are_no_feeds(name: str) -> None:
    assert feed_of(name) is None


# --- sums -------------------------------------------------------------------------------------------------------------


AWAY_REASON = f"node g2-a: {AWAY.reason}"
"""Of what the node g2-a holds."""


def test_an_id_that_two_processes_use_counts_once_for_its_group() -> None:
    both = [consumer(f"c{n}", duplicate=n < 2) for n in range(3)]
    answers = {
        "g1-a": stats(subject_stats("orders", 0, 0, group_stats(consumers=both))),
        "g2-a": stats(subject_stats("orders", 0, 0, group_stats(consumers=both[:2]))),
        "g3-a": stats(subject_stats("orders", 0, 0, group_stats())),
    }
    found = summed(empty(), None, [place("g1"), place("g2"), place("g3")], answers, {})
    assert found["groups"][group_key("orders", "g")]["duplicate_consumers"] == 2
    answers["g2-a"] = AWAY
    found = summed(found, NOW_MS, [place("g1"), place("g2"), place("g3")], answers, {})
    assert found["groups"][group_key("orders", "g")]["duplicate_consumers"] is None


def test_withheld_messages_are_summed_and_the_broker_groups_with_damage_are_named() -> None:
    places = [place("g1"), place("g2"), place("g3")]
    answers = {
        "g1-a": stats(
            subject_stats("orders", 0, 9, group_stats(withheld=2), withheld=2), subject_stats("x", 0, 9, withheld=1)
        ),
        "g2-a": stats(subject_stats("orders", 0, 9, group_stats(withheld=0), withheld=0)),
        "g3-a": stats(subject_stats("orders", 0, 9, group_stats())),
    }
    found = summed(empty(), None, places, answers, {})
    orders, group = found["subjects"]["orders"], found["groups"][group_key("orders", "g")]
    assert (orders["withheld"], orders["withheld_on"], group["withheld"]) == (2, ["g1"], 2)
    assert [found["nodes"][f"{name}-a"]["withheld"] for name in ("g1", "g2", "g3")] == [3, 0, 0]
    assert (orders["reason"], group["reason"]) == (None, None)
    answers["g2-a"] = AWAY
    found = summed(found, NOW_MS, places, answers, {})
    orders, group = found["subjects"]["orders"], found["groups"][group_key("orders", "g")]
    assert (orders.get("withheld"), group.get("withheld"), found["nodes"]["g2-a"]["withheld"]) == (None, None, None)
    answers["g2-a"] = stats(subject_stats("orders", 0, 9, group_stats(withheld=0), withheld=0))
    answers["g1-a"] = stats(subject_stats("orders", 9, 9, group_stats(withheld=0), withheld=0))
    later = summed(found, NOW_MS, places, answers, {})
    assert "withheld" not in later["subjects"]["orders"], "retention deleted them"
    assert "withheld" not in later["groups"][group_key("orders", "g")]


def test_a_clock_that_a_delay_node_does_not_follow_is_in_its_numbers() -> None:
    places = [place("d1", kind="delay"), place("d2", kind="delay"), place("d3", kind="delay")]
    numbers = {"subjects": 0, "pending": 1, "overdue": 0, "put_aside": 0, "delivered_per_second": 0.0}
    answers = {
        "d1-a": stats(**numbers, clock={"now_ms": 5, "ahead_ms": 3_600_000, "held_since_ms": 4}),
        "d2-a": stats(**numbers, clock={"now_ms": 5, "ahead_ms": 0, "held_since_ms": None, "behind_ms": 6_000}),
        "d3-a": AWAY,
    }
    found = summed(empty(), None, places, answers, {})["nodes"]
    assert [found[f"d{n}-a"]["clock_ahead_ms"] for n in (1, 2, 3)] == [3_600_000, 0, None]
    assert [found[f"d{n}-a"]["clock_behind_ms"] for n in (1, 2, 3)] == [0, 6_000, None]


def test_lag_is_the_sum_and_time_lag_the_longest() -> None:
    first = group_stats(backlog=3, in_flight=1, lag=4, time_lag_seconds=5.0, ack_rate=2.0)
    second = group_stats(backlog=6, in_flight=0, lag=6, time_lag_seconds=19.0, ack_rate=5.0)
    answers = {
        "g1-a": stats(subject_stats("orders", 2, 10, first)),
        "g2-a": stats(subject_stats("orders", 0, 6, second)),
    }
    found = summed(empty(), None, [place("g1"), place("g2")], answers, {})
    group = found["groups"][group_key("orders", "g")]
    assert (group["backlog"], group["in_flight"], group["lag"], group["time_lag_seconds"]) == (9, 1, 10, 19.0)
    assert (group["is_draining"], group["drain_seconds"]) == (True, 2.0)  # 10 / (7 - 2)
    assert (group["consumers_online"], group["reason"], group["at"]) == (1, None, None)
    assert (group["state"], group["is_paused"], group["retry_lag"]) == ("draining", False, 0)
    subject = found["subjects"]["orders"]
    assert (subject["stored_messages"], subject["sent_messages"], subject["send_rate"]) == (14, 16, 2.0)
    assert subject["broker_groups"] == ("g1", "g2")


def test_a_lag_that_never_drains_is_known_and_one_without_rates_is_not() -> None:
    never = group_stats(lag=4, backlog=4, time_lag_seconds=60.0, ack_rate=0.5)
    early = group_stats("h", lag=4, backlog=4, ack_rate=None, pull_rate=None, reason="too early")
    found = summed(empty(), None, [place("g1")], {"g1-a": stats(subject_stats("orders", 0, 4, never, early))}, {})
    known, unknown = (found["groups"][group_key("orders", name)] for name in "gh")
    assert (known["is_draining"], known["drain_seconds"], known["reason"]) == (False, None, None)
    assert (unknown["is_draining"], unknown["lag"], unknown["reason"]) == (None, 4, "too early")


@pytest.mark.parametrize(
    "values", [{"steady_ack_rate": 0.5}, {"ack_rate": 0.0}, {"lag": 0}, {"lag": 0, "consumers": []}]
)
def test_the_lag_of_a_group_that_keeps_up_is_gone_at_once_whatever_its_rates_are(values: dict[str, Any]) -> None:
    base = {"lag": 8, "time_lag_seconds": 9.0, "ack_rate": 5.0, "steady_ack_rate": 5.0}
    answers = {"g1-a": stats(subject_stats("orders", 0, 8, group_stats(**base | values)))}
    group = summed(empty(), None, [place("g1")], answers, {})["groups"][group_key("orders", "g")]
    assert (group["is_draining"], group["not_draining"], group["drain_seconds"]) == (True, None, 0.0)


def test_what_a_group_did_while_it_kept_up_does_not_decide_whether_its_lag_decreases_later() -> None:
    def at(before: Any, seconds: float, acked: float) -> Any:
        found = group_stats(lag=8, time_lag_seconds=seconds, steady_ack_rate=acked)
        answers = {"g1-a": stats(subject_stats("orders", 5.0, 8, found))}
        return empty() | summed(before, NOW_MS, [place("g1")], answers, {})

    kept_up = at(empty(), 9.0, 5.0)
    late = at(kept_up, 11.0, 4.9)
    assert [one["groups"][group_key("orders", "g")]["is_draining"] for one in (kept_up, late)] == [True, False]


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"paused": True}, "paused"),
        ({"consumers": []}, "no_consumers"),
        ({"ack_rate": 0.0}, "stopped"),
        ({"steady_ack_rate": 0.5}, "too_slow"),
        ({}, None),
        ({"lag": 0, "consumers": []}, None),
    ],
)
def test_nothing_drains_while_nothing_is_acknowledged_whatever_the_smoothed_rate_is(
    values: dict[str, Any], why: str | None
) -> None:
    base = {"lag": 8, "time_lag_seconds": 60.0, "ack_rate": 5.0, "steady_ack_rate": 5.0}
    answers = {"g1-a": stats(subject_stats("orders", 0, 8, group_stats(**base | values)))}
    group = summed(empty(), None, [place("g1")], answers, {})["groups"][group_key("orders", "g")]
    assert (group["not_draining"], group["is_draining"], group["reason"]) == (why, why is None, None)
    assert group["drain_seconds"] == (None if why else group["lag"] / 4)


def test_a_pause_on_one_node_is_a_pause() -> None:
    answers = {
        "g1-a": stats(subject_stats("orders", 0, 4, group_stats(lag=4))),
        "g2-a": stats(subject_stats("orders", 0, 4, group_stats(paused=True))),
    }
    found = summed(empty(), None, [place("g1"), place("g2")], answers, {})
    group = found["groups"][group_key("orders", "g")]
    assert (group["is_paused"], group["state"], group["lag"]) == (True, "paused", 4)


def test_what_waits_for_another_attempt_is_shown_at_its_group() -> None:
    retries = subject_stats("%RETRY%orders%g", 0, 9, group_stats("g", lag=3), group_stats("other", lag=8))
    orders = subject_stats("orders", 0, 9, group_stats("g"), group_stats("h"))
    found = summed(empty(), None, [place("g1")], {"g1-a": stats(retries, orders)}, {})["groups"]
    assert [found[group_key("orders", name)]["retry_lag"] for name in "gh"] == [3, 0]
    places = [place("g1"), place("g2")]
    before = empty() | summed(empty(), None, places, {"g1-a": stats(orders), "g2-a": stats(retries)}, {})
    found = summed(before, NOW_MS, places, {"g1-a": stats(orders), "g2-a": AWAY}, {})["groups"]
    group = found[group_key("orders", "g")]
    assert (group["lag"], group["retry_lag"], group["reason"]) == (0, None, AWAY_REASON)


def test_slaves_do_not_count_twice() -> None:
    answer = stats(subject_stats("orders", 0, 10, group_stats(lag=4, backlog=4)))
    places = [place("g1"), place("g1", "g1-b", is_master=False)]
    found = summed(empty(), None, places, {"g1-a": answer, "g1-b": answer}, {})
    assert found["groups"][group_key("orders", "g")]["lag"] == 4
    assert set(found["nodes"]) == {"g1-a", "g1-b"}


def test_a_slave_is_as_far_behind_as_its_master_says() -> None:
    places = [place("g1"), *(place("g1", node, is_master=False) for node in ("g1-b", "g1-c", "g1-d"))]
    slaves = [
        {"node_id": "g1-b", "lag_bytes": 70, "lag_seconds": 0.04},
        {"node_id": "g1-c", "lag_bytes": 9_000, "lag_seconds": None},
    ]
    healthy = {"damaged_ranges": 0, "repaired_ranges": 0, "scrub": None}
    master = stats(replication={**healthy, "slaves": slaves})
    found = summed(empty(), None, places, {"g1-a": master, "g1-b": AWAY, "g1-c": stats(), "g1-d": stats()}, {})["nodes"]
    lags = {
        node: (entry["replication_lag_bytes"], entry["replication_lag_seconds"])
        for node, entry in found.items()
        if node != "g1-a"
    }
    assert lags == {"g1-b": (70, 0.0), "g1-c": (9_000, None), "g1-d": (None, None)}
    assert "replication_lag_bytes" not in found["g1-a"]
    away = summed(empty(), None, places, {"g1-a": AWAY, "g1-b": stats()}, {})["nodes"]
    assert away["g1-b"]["replication_lag_bytes"] is None


def test_a_node_that_is_away_makes_what_it_holds_unknown_and_nothing_else() -> None:
    places = [place("g1"), place("g2")]
    both = {
        "g1-a": stats(
            subject_stats("orders", 0, 9, group_stats(lag=4)), subject_stats("mail", 0, 1, group_stats(lag=1))
        ),
        "g2-a": stats(subject_stats("orders", 0, 9, group_stats(lag=3), group_stats("only-g2", lag=2))),
    }
    before = empty() | summed(empty(), None, places, both, {})
    now = empty() | summed(before, NOW_MS, places, {**both, "g2-a": AWAY}, {})
    for key in (group_key("orders", "g"), group_key("orders", "only-g2")):
        group = now["groups"][key]
        assert (group["lag"], group["time_lag_seconds"], group["reason"]) == (None, None, AWAY_REASON)
        assert group["at"] == rfc3339(NOW_MS)
    assert now["subjects"]["orders"]["send_rate"] is None
    assert now["subjects"]["orders"]["broker_groups"] == ("g1", "g2")
    assert now["groups"][group_key("mail", "g")]["lag"] == 1
    assert (now["nodes"]["g2-a"]["log_end"], now["nodes"]["g2-a"]["reason"]) == (None, AWAY.reason)
    # Later still: the time stays that of the last known value; then it is known again.
    later = empty() | summed(now, NOW_MS + 60_000, places, {**both, "g2-a": AWAY}, {})
    silent = {**now["nodes"]["g2-a"], "is_silent": True}
    assert later == {**now, "nodes": {**now["nodes"], "g2-a": silent}}
    again = empty() | summed(later, NOW_MS + 61_000, places, both, {})
    assert again == before


def test_why_a_node_accepts_no_sends_is_in_its_entry_as_a_code_too() -> None:
    why = {"code": "refuses", "values": {"why": "maintenance"}, "text": "read only: maintenance"}
    answer = stats(state="read_only", state_reason=why["text"], state_why=why)
    node = summed(empty(), None, [place("g1")], {"g1-a": answer}, {})["nodes"]["g1-a"]
    assert (node["state_reason"], node["state_why"]) == (why["text"], why)


def test_why_a_node_does_not_respond_is_in_its_entry_as_a_code_if_it_has_one() -> None:
    def why(reason: str | None) -> Any:
        answer = Measured(None, reason, 0) if reason else stats()
        return summed(empty(), None, [place("g1")], {"g1-a": answer}, {})["nodes"]["g1-a"]["why"]

    refused = Reason.of(Code.CONNECTION_REFUSED)
    assert why(refused) == refused.as_json()
    assert why(Reason("no route to host")) is why("not queried") is why(None) is None


def test_for_how_long_a_disk_hangs_is_in_the_entry_of_a_node_that_reports_it() -> None:
    answers = {"g1-a": stats(disk_stuck_seconds=2.5), "g2-a": stats()}
    nodes = summed(empty(), None, [place("g1"), place("g2")], answers, {})["nodes"]
    assert nodes["g1-a"]["disk_stuck_seconds"] == 2.5
    assert "disk_stuck_seconds" not in nodes["g2-a"]


def test_what_reachable_broker_groups_report_is_a_lower_bound_while_one_is_away() -> None:
    places = [place("g1"), place("g2")]
    online = [consumer(name) for name in ("c1", "c2", "c3")]
    both = {
        "g1-a": stats(
            subject_stats(
                "orders", 0, 9, group_stats(lag=4, time_lag_seconds=2.0, ack_rate=3.0, retried=1, consumers=online[:2])
            ),
            subject_stats("%RETRY%orders%g", 0, 9, group_stats(lag=5)),
        ),
        "g2-a": stats(
            subject_stats("orders", 0, 9, group_stats(lag=3, retried=2, consumers=online[1:])), send_rate=1.0
        ),
    }
    key = group_key("orders", "g")
    before = empty() | summed(empty(), None, places, both, {})
    whole = before["groups"][key]
    assert (whole["lag"], whole["consumers_online"], whole["retry_lag"], whole["retried"]) == (7, 3, 5, 3)
    assert "at_least" not in whole
    now = empty() | summed(before, NOW_MS, places, {**both, "g2-a": AWAY}, {})
    group = now["groups"][key]
    assert (group["missing"], group["lag"], group["consumers_online"]) == (["g2"], None, None)
    part = {"lag": 4, "time_lag_seconds": 2.0, "ack_rate": 3.0, "consumers_online": 2, "retry_lag": 5, "retried": 1}
    assert group["at_least"].items() >= part.items()
    assert group["last"].items() >= {"lag": 7, "consumers_online": 3, "retry_lag": 5, "retried": 3}.items()
    assert now["subjects"]["orders"]["at_least"]["send_rate"] == 1.0
    assert summed(now, NOW_MS, places, {**both, "g2-a": AWAY}, {})["groups"][key] is group


def test_retries_of_unreachable_broker_groups_are_missing_in_the_lower_bound() -> None:
    places = [place("g1"), place("g2")]
    both = {
        f"{name}-a": stats(
            subject_stats("orders", 0, 9, group_stats()), subject_stats("%RETRY%orders%g", 0, 9, group_stats(lag=lag))
        )
        for name, lag in (("g1", 5), ("g2", 6))
    }
    before = empty() | summed(empty(), None, places, both, {})
    now = summed(before, NOW_MS, places, {**both, "g2-a": AWAY}, {})
    group = now["groups"][group_key("orders", "g")]
    assert (group["retry_lag"], group["at_least"]["retry_lag"], group["last"]["retry_lag"]) == (None, 5, 11)


def test_a_node_that_is_away_keeps_its_last_numbers() -> None:
    places = [place("g1"), place("g2")]
    both = {"g1-a": stats(), "g2-a": stats(subject_stats("orders", 0, 9), disk_free_bytes=7, disk_total_bytes=10)}
    before = empty() | summed(empty(), None, places, both, {})
    assert "last" not in before["nodes"]["g2-a"]
    now = empty() | summed(before, NOW_MS, places, {**both, "g2-a": AWAY}, {})
    node = now["nodes"]["g2-a"]
    assert (node["send_rate"], node["disk_free_bytes"], node["at"]) == (None, None, rfc3339(NOW_MS))
    assert node["last"].items() >= {"send_rate": 1.0, "disk_free_bytes": 7, "disk_total_bytes": 10}.items()
    later = summed(now, NOW_MS + 60_000, places, {**both, "g2-a": AWAY}, {})["nodes"]["g2-a"]
    assert (later["last"], later["at"]) == (node["last"], node["at"])


def test_a_routed_subject_whose_node_was_never_reached_is_unknown() -> None:
    found = summed(empty(), None, [place("g2")], {"g2-a": AWAY}, {"orders": ("g2",), "mail": ("g1",)})
    assert list(found["subjects"]) == ["orders"]
    assert (found["subjects"]["orders"]["stored_messages"], found["subjects"]["orders"]["at"]) == (None, None)


def test_a_broker_group_without_master_is_unknown() -> None:
    found = summed(empty(), None, [place("g1", is_master=False)], {"g1-a": stats()}, {"orders": ("g1",)})
    assert found["subjects"]["orders"]["reason"] == "broker group g1 has no master"


def test_a_broker_nodes_rates_are_sums_and_unknown_where_a_part_is() -> None:
    known = subject_stats("orders", 0, 9, group_stats(pull_rate=2.0), group_stats("h", pull_rate=0.5), send_rate=1.25)
    early = subject_stats(
        "mail", 0, 1, group_stats(pull_rate=None, reason="too early"), send_rate=2.0, send_bytes_rate=20.4
    )

    def rates(*subjects: dict[str, Any]) -> tuple[Any, Any, Any]:
        node = summed(empty(), None, [place("g1")], {"g1-a": stats(*subjects)}, {})["nodes"]["g1-a"]
        return node["send_rate"], node["send_bytes_rate"], node["pull_rate"]

    assert rates(known) == (1.25, 100, 2.5)
    assert rates(known, early) == (3.25, 120, None)
    assert rates() == (0, 0, 0)
    away = summed(empty(), None, [place("g2")], {"g2-a": AWAY}, {})["nodes"]["g2-a"]
    assert (away["send_rate"], away["send_bytes_rate"], away["pull_rate"]) == (None, None, None)


def test_what_all_nodes_forgot_is_gone() -> None:
    before = empty() | summed(
        empty(), None, [place("g1")], {"g1-a": stats(subject_stats("old", 0, 1, group_stats()))}, {}
    )
    now = summed(before, NOW_MS, [place("g1")], {"g1-a": stats()}, {})
    assert (now["subjects"], now["groups"]) == ({}, {})


def test_one_node_that_talks_nonsense_is_unknown_alone() -> None:
    metadata = Metadata((place("g1"), place("g2")))
    answers = {"g1-a": stats(subject_stats("orders", 0, 1)), "g2-a": stats({"subject": "orders"})}
    found = understood(metadata, answers)
    assert found["g1-a"].value is not None
    assert found["g2-a"].value is None
    assert "can't be understood" in (found["g2-a"].reason or "")


def test_a_subject_with_the_same_numbers_keeps_its_entries() -> None:
    retries = subject_stats("%RETRY%orders%g", 0, 9, group_stats("g", lag=3))

    def answers(lag: int) -> dict[str, Measured[dict[str, Any]]]:
        return {"g1-a": stats(retries, subject_stats("orders", 0, 9, group_stats()), mail(lag))}

    def mail(lag: int) -> dict[str, Any]:
        return subject_stats("mail", 0, 9, group_stats(lag=lag), group_stats("h"))

    sums = Sums()
    before = empty() | summed(empty(), None, [place("g1")], answers(1), {}, sums)
    now = empty() | summed(before, NOW_MS, [place("g1")], answers(2), {}, sums)
    assert now == empty() | summed(before, NOW_MS, [place("g1")], answers(2), {})
    same = {key for key, entry in now["groups"].items() if entry is before["groups"][key]}
    assert same == {group_key("%RETRY%orders%g", "g"), group_key("orders", "g")}
    assert now["groups"][group_key("orders", "g")]["retry_lag"] == 3
    assert now["subjects"]["orders"] is before["subjects"]["orders"]
    # Its node is away, and back: nothing of before is mistaken for new.
    away = empty() | summed(now, NOW_MS, [place("g1")], {"g1-a": AWAY}, {}, sums)
    assert {entry["lag"] for entry in away["groups"].values()} == {None}
    still = summed(away, NOW_MS + 1_000, [place("g1")], {"g1-a": AWAY}, {}, sums)
    assert all(entry is away["subjects"][key] for key, entry in still["subjects"].items())
    assert still["groups"] == away["groups"]
    assert empty() | summed(away, NOW_MS, [place("g1")], answers(2), {}, sums) == now


def test_subjects_that_were_not_read_yet_are_unknown_and_their_node_is_not() -> None:
    both = stats(subject_stats("mail", 0, 9, group_stats()), subject_stats("orders", 0, 9, group_stats("g", lag=4)))
    before = empty() | summed(empty(), None, [place("g1")], {"g1-a": both}, {})
    part = stats(subject_stats("mail", 0, 9, group_stats()), subjects_reason="its subjects are being read")
    found = summed(before, NOW_MS, [place("g1")], {"g1-a": part}, {"new": ("g1",), "other": ("g2",)})
    assert {key: entry["reason"] for key, entry in found["subjects"].items()} == {
        "mail": None, "orders": "its subjects are being read", "new": "its subjects are being read",
    }  # fmt: skip
    orders = found["groups"][group_key("orders", "g")]
    assert (orders["lag"], orders["at"], orders["is_measured"]) == (None, rfc3339(NOW_MS), False)
    node = found["nodes"]["g1-a"]
    assert (node["reason"], node["is_measured"], node["log_end"]) == (None, True, "9")
    assert (node["send_rate"], node["subjects_reason"]) == (None, "its subjects are being read")
    assert events_between(before, empty() | found) == []
    # Read in full, a subject that its node no longer has is gone.
    whole = summed(empty() | found, NOW_MS, [place("g1")], {"g1-a": stats(subject_stats("mail", 0, 9))}, {})
    assert list(whole["subjects"]) == ["mail"]


# --- events -----------------------------------------------------------------------------------------------------------


def test_events_tell_of_changes_and_not_of_first_sight() -> None:
    places = [place("g2")]
    up = empty() | summed(empty(), None, places, {"g2-a": stats()}, {})
    late = empty() | summed(up, NOW_MS, places, {"g2-a": AWAY}, {})
    down = empty() | summed(late, NOW_MS, places, {"g2-a": AWAY}, {})
    up["broker_groups"] = {"g2": {"state": "read_write", "operator_state": "normal", "master": "g2-a"}}
    down["broker_groups"] = {"g2": {"state": "offline", "operator_state": "normal", "master": "g2-a"}}
    down["jobs"] = {"heartbeats": {"is_late": True}}
    assert events_between(empty(), up) == []
    assert [(event["kind"], event["target"]) for event in events_between(up, down)] == [
        ("broker_group.state", "g2"),
        ("node.unreachable", "g2-a"),
    ]
    assert [event["kind"] for event in events_between(down, up)] == ["broker_group.state", "node.reachable"]


def test_one_missed_answer_of_a_node_is_no_event_and_two_in_a_row_are_one() -> None:
    state, events = empty(), []
    answered = {"g2-a": stats()}
    for answers in (answered, {"g2-a": AWAY}, answered, {"g2-a": AWAY}, {"g2-a": AWAY}, {"g2-a": AWAY}, answered):
        before, state = state, empty() | summed(state, NOW_MS, [place("g2")], answers, {})
        events += events_between(before, state)
        assert state["nodes"]["g2-a"]["is_measured"] == (answers is answered), "numbers are unknown at once"
    reason = AWAY.reason
    assert [(event["kind"], event["before"], event["after"]) for event in events] == [
        ("node.unreachable", reason, reason), ("node.reachable", reason, None),
    ]  # fmt: skip


def test_a_node_that_never_answered_is_no_event_until_it_does() -> None:
    first = empty() | summed(empty(), None, [place("g2")], {"g2-a": AWAY}, {})
    second = empty() | summed(first, NOW_MS, [place("g2")], {"g2-a": AWAY}, {})
    up = empty() | summed(second, NOW_MS, [place("g2")], {"g2-a": stats()}, {})
    assert events_between(empty(), first) + events_between(first, second) == []
    assert [event["kind"] for event in events_between(second, up)] == ["node.reachable"]


def test_only_recent_events_are_kept() -> None:
    before = {str(number): {"id": str(number)} for number in range(8, 8 + RECENT_MAX)}
    now = recent(before, [{"id": "500"}, {"id": "501"}])
    assert (len(now), next(iter(now)), list(now)[-1]) == (RECENT_MAX, "10", "501")
    assert recent(now, []) is now


def test_every_section_is_in_a_feed() -> None:
    shown = {section for kind in ("lag", "nodes", "events", "audit") for section in Feed(kind, "s").sections}
    assert shown == set(SECTIONS)


def test_health_is_json() -> None:
    assert json.loads(json.dumps(asdict(Health("me"))))["holder"] == "me"


def test_the_benchmark_gives_a_page_that_a_beat_can_sum() -> None:
    answers = {"g1-a": Measured(json.loads(stats_of(subjects=3, groups=2, beat=1)), None, 0)}
    state = summed(empty(), 0, [NodePlace("g1-a", "g1", "broker", True, "", "")], answers, {})
    assert [
        (len(state[section]), {entry["is_measured"] for entry in state[section].values()}) for section in SECTIONS[:2]
    ] == [
        (3, {True}),
        (6, {True}),
    ]
