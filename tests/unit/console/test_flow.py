"""The picture of the flow: which applications, subjects and groups it has, what is folded, and what stands between them."""

from collections.abc import Mapping
from typing import Any

from console.cluster.clients import Sender
from console.reports import flow
from console.reports.flow import Flow, PlaceKind, drawn
from console.reports.overview import Numbers


def subject(name: str, rate: float | None, **fields: Any) -> tuple[str, dict[str, Any]]:
    return name, {"subject": name, "send_rate": rate, **fields}


def group(
    of: str, name: str, rate: float | None, lag: int | None = 0, state: str = "caught_up"
) -> tuple[str, dict[str, Any]]:
    return f"{of}\n{name}", {"subject": of, "group": name, "ack_rate": rate, "lag": lag, "state": state}


def picture(subjects: Mapping[str, Any], groups: Mapping[str, Any], *sent: Sender) -> Flow:
    return drawn(Numbers({"subjects": subjects, "groups": groups}, "now", None), sent, {})


def links(found: Flow) -> dict[tuple[str, str], float]:
    names = {place.id: place.name or place.kind for place in [*found.applications, *found.subjects, *found.groups]}
    return {(names[link.sender], names[link.receiver]): link.rate for link in found.links}


def test_what_is_sent_and_acknowledged_is_between_its_places() -> None:
    found = picture(
        dict([subject("orders", 10.0), subject("mail", 2.0), subject("idle", 0.0)]),
        dict([group("orders", "billing", 8.0, 40, "growing"), group("mail", "smtp", 2.0), group("idle", "g", 0.0)]),
        Sender("shop", False, "orders", 9.0),
        Sender("", False, "orders", 1.0),
        Sender("", True, "mail", 2.0),
        Sender("shop", False, "idle", 0.0),
    )
    assert [place.name for place in found.subjects] == ["orders", "mail"]
    assert [(place.kind, place.name, place.rate) for place in found.applications] == [
        (PlaceKind.APPLICATION, "shop", 9.0),
        (PlaceKind.DELAY_NODES, "", 2.0),
        (PlaceKind.UNNAMED, "", 1.0),
    ]
    assert [(place.name, place.subject, place.lag, place.state) for place in found.groups] == [
        ("billing", "orders", 40, "growing"),
        ("smtp", "mail", 0, "caught_up"),
    ]
    assert links(found) == {
        ("shop", "orders"): 9.0,
        ("unnamed", "orders"): 1.0,
        ("delay_nodes", "mail"): 2.0,
        ("orders", "billing"): 8.0,
        ("mail", "smtp"): 2.0,
    }


def test_a_group_that_stopped_is_shown_although_it_acknowledges_nothing() -> None:
    found = picture(dict([subject("orders", 5.0)]), dict([group("orders", "dead", 0.0, 900, "stopped")]))
    assert [(place.name, place.rate, place.lag, place.state) for place in found.groups] == [
        ("dead", 0.0, 900, "stopped")
    ]


def test_retries_and_dead_letters_are_no_subjects_and_unknown_numbers_count_as_far_as_known() -> None:
    found = picture(
        dict([subject("orders", None, at_least={"send_rate": 3.0}), subject("%RETRY%orders%g", 4.0)]),
        dict([group("orders", "g", 1.0, None), group("%RETRY%orders%g", "g", 4.0)]),
    )
    assert [(place.name, place.rate) for place in found.subjects] == [("orders", 3.0)]
    assert [(place.name, place.lag) for place in found.groups] == [("g", None)]


def test_each_column_is_limited_and_the_rest_is_one_place() -> None:
    subjects = dict(subject(f"s{n:03}", 100.0 - n) for n in range(50))
    groups = dict(group(f"s{n:03}", "g", 50.0 - n, n) for n in range(40))
    sent = [Sender(f"app{n:03}", False, f"s{n:03}", 100.0 - n) for n in range(50)]
    found = picture(subjects, groups, *sent)
    columns = [found.applications, found.subjects, found.groups]
    most = (flow.APPLICATIONS_MAX, flow.SUBJECTS_MAX, flow.GROUPS_MAX)
    assert [len(column) for column in columns] == [limit + 1 for limit in most]
    assert [column[-1].kind for column in columns] == [PlaceKind.OTHERS] * 3
    assert [column[-1].count for column in columns] == [42, 38, 28]
    assert found.subjects[-1].rate == sum(100.0 - n for n in range(12, 50))
    assert found.groups[-1].lag == sum(range(12, 40))
    assert len(found.links) <= (flow.APPLICATIONS_MAX + 1 + flow.GROUPS_MAX + 1) * (flow.SUBJECTS_MAX + 1)
    assert sum(link.rate for link in found.links if link.sender.startswith("a")) == sum(100.0 - n for n in range(50))


def test_without_messages_there_is_nothing_to_draw() -> None:
    found = picture(dict([subject("orders", 0.0)]), dict([group("orders", "g", 0.0)]))
    assert (found.subjects, found.groups, found.links) == ([], [], [])
