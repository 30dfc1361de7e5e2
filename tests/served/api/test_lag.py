"""/lag/ and the numbers of /nodes/: filters and orders over what the collector measured; unknown is last, and never zero."""

import csv
import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from api.views.analytics import LAG_PAGES
from console.accounts.roles import Role
from console.reports import lag_table, overview
from console.reports.lag_table import LAG_FIELDS, LagTable, table_keys
from console.reports.live_orders import ORDERS_MAX
from console.snapshot.lag_state import lag_state
from metaserver import queries
from metaserver.services import groups, subjects, teams
from tests.support.console.metadata import ACTOR, broker_group
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
LIST, NODES = "/api/v1/lag/", "/api/v1/nodes/"
AT = "2026-01-31T12:00:00.000Z"


def entry(subject: str, group: str, lag: int | None, drain: float | None, is_draining: bool | None) -> dict[str, Any]:
    numbers = dict.fromkeys(
        ("backlog", "in_flight", "pull_rate", "ack_rate", "time_lag_seconds", "consumers_online"), lag
    )
    found = {"subject": subject, "group": group, "lag": lag, "drain_seconds": drain, "is_draining": is_draining}
    found |= {"is_paused": False} | ({} if lag is None else {"consumers_online": 1})
    found["state"] = lag_state(numbers | found)
    return numbers | found | {"reason": None if lag is not None else "node g1-a does not answer"}


ENTRIES = [
    entry("orders", "billing", 30, 5.0, True),
    entry("orders", "audit", 0, 0.0, True),
    entry("parts", "Billing.old", 20, None, False),
    entry("parts", "lost", None, None, None),
    entry("parts", "slow", 20, 50.0, True),
    entry("quiet", "lost", None, None, None),
]


@pytest.fixture
def admin(db: None, monkeypatch: pytest.MonkeyPatch) -> APIClient:
    teams.create_team("shop", actor=ACTOR)
    subjects.create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    subjects.create_subject("parts", {}, actor=ACTOR)
    nodes = {
        f"g{number}-node": {"disk_free_bytes": free, "disk_total_bytes": 100, "connections": number, "reason": reason}
        for number, free, reason in ((1, 40, None), (2, None, "node g2-node does not answer"), (3, 90, None))
    }
    state = {"groups": {f"{item['subject']}\n{item['group']}": item for item in ENTRIES}, "nodes": nodes}
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(state, AT, None))
    return browser(person("root", Role.ADMIN))


def names(client: APIClient, query: str, path: str = LIST) -> list[str]:
    answer = client.get(f"{path}?{query}")
    assert answer.status_code == 200, answer.content
    return [row.get("group") or row["node_id"] for row in answer.json()["results"]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("subject=orders", ["billing", "audit"]), ("group=lost", ["lost", "lost"]), ("subject=none", []),
        ("subject=parts&group=slow", ["slow"]), ("subject=parts&group=none", []), ("subject=%00", []), ("group=a%00", []),
        ("search=BILL", ["billing", "Billing.old"]), ("search=order+bill", ["billing"]),
        ("search=order", ["billing", "audit"]), ("owner=shop", ["billing", "audit"]),
        ("owner=none", []), ("state=caught_up", ["audit"]), ("state=draining", ["billing", "slow"]),
        ("state=growing", ["Billing.old"]), ("state=unknown", ["lost", "lost"]), ("search=bill&state=growing", ["Billing.old"]),
    ],
)  # fmt: skip
def test_each_filter(admin: APIClient, query: str, expected: list[str]) -> None:
    assert names(admin, query) == expected


@pytest.mark.parametrize("field", [name.removeprefix("-") for name in LAG_PAGES.orderings])
@pytest.mark.parametrize("sign", ["", "-"])
def test_each_order_page_by_page_with_the_unknown_last(admin: APIClient, field: str, sign: str) -> None:
    rows, cursor = [], ""
    while cursor is not None:
        page = admin.get(f"{LIST}?ordering={sign}{field}&limit=2&cursor={cursor}").json()
        rows += page["results"]
        cursor = page["next"]
    assert len(rows) == len({(row["subject"], row["group"]) for row in rows}) == len(ENTRIES)
    known = [row[field] for row in rows if row["lag"] is not None and row[field] is not None]
    assert known == sorted(known, reverse=bool(sign))
    if field not in ("subject", "group"):
        assert [row["lag"] for row in rows[-2:]] == [None, None]


def test_a_lag_that_never_drains_takes_longer_than_any(admin: APIClient) -> None:
    assert names(admin, "ordering=drain_seconds") == ["audit", "billing", "slow", "Billing.old", "lost", "lost"]
    assert names(admin, "ordering=-drain_seconds") == ["Billing.old", "slow", "billing", "audit", "lost", "lost"]


def test_a_group_that_nobody_measured_is_there_and_retries_are_no_row(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("billing", "new"):
        groups.create_group("orders", name, {}, actor=ACTOR)
    retries = entry("%RETRY%orders%billing", "billing", 5, None, False)
    state = {"groups": {f"{item['subject']}\n{item['group']}": item for item in [*ENTRIES, retries]}}
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(state, AT, None))
    rows = admin.get(f"{LIST}?search=order&ordering=group").json()["results"]
    assert [(row["group"], row["lag"], row["state"]) for row in rows] == [
        ("audit", 0, "caught_up"), ("billing", 30, "draining"), ("new", None, "unknown"),
    ]  # fmt: skip
    assert "no consumer of this group has pulled" in rows[2]["reason"]
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(None, None, "does the collector run?"))
    rows = admin.get(f"{LIST}?search=order&ordering=group").json()["results"]
    assert [(row["group"], row["reason"]) for row in rows] == [
        ("billing", "does the collector run?"), ("new", "does the collector run?"),
    ]  # fmt: skip


class Counted(dict[str, Any]):
    """An entry that counts how often a field of it is read."""

    reads = 0

    def get(self, name: str, default: Any = None) -> Any:
        Counted.reads += 1
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        Counted.reads += 1
        return super().__getitem__(name)


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch, admin: APIClient) -> APIClient:
    """3,000 groups in the snapshot; `orders` and `parts` have one each in the database that is measured."""
    for subject in ("orders", "parts"):
        groups.create_group(subject, "g", {}, actor=ACTOR)
    found = [entry(f"s{number:04d}", "g", number, float(number), True) for number in range(3_000)]
    found += [entry(subject, "g", 5_000, 5_000.0, True) for subject in ("orders", "parts")]
    state = {"groups": {f"{item['subject']}\n{item['group']}": Counted(item) for item in found}, "subjects": {}}
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(state, AT, None))
    return admin


@pytest.mark.database
def test_a_page_costs_its_rows_once_the_order_is_known(many: APIClient) -> None:
    query = "ordering=-drain_seconds&limit=3"
    assert names(many, query) == ["g"] * 3
    Counted.reads = 0
    with CaptureQueriesContext(connection) as captured:
        page = many.get(f"{LIST}?{query}").json()
    assert [row["subject"] for row in page["results"]] == ["orders", "parts", "s2999"]
    assert Counted.reads < 100
    of_groups = [one["sql"] for one in captured if "consumergroup" in one["sql"]]
    assert all("COUNT(" in sql or "LIMIT 1" in sql for sql in of_groups), "names of groups are not read again"
    Counted.reads = 0
    following = many.get(f"{LIST}?{query}&cursor={page['next']}").json()
    assert [row["subject"] for row in following["results"]] == ["s2998", "s2997", "s2996"]
    assert Counted.reads < 400, "a few rows to find the place of the cursor"
    Counted.reads = 0
    assert names(many, "subject=orders&ordering=-drain_seconds") == ["g"]
    assert Counted.reads < 100


def test_the_start_page_sums_each_snapshot_once(many: APIClient) -> None:
    first = many.get("/api/v1/overview/").json()
    assert (first["lag"], len(first["worst"])) == (sum(range(3_000)) + 10_000, 5)
    Counted.reads = 0
    second = many.get("/api/v1/overview/").json()
    assert (second["worst"], Counted.reads) == (first["worst"], 0)


def test_a_total_that_is_unknown_while_all_nodes_respond_has_a_reason(
    admin: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "measured for less than a second"
    busy, idle = {"send_rate": 2.0, "reason": None}, {"send_rate": None, "reason": why}

    def known(*subjects: dict[str, Any]) -> dict[str, Any]:
        state = {"groups": {}, "subjects": {str(number): entry for number, entry in enumerate(subjects)}}
        monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(state, AT, None))
        found: dict[str, Any] = admin.get("/api/v1/overview/").json()["known"]
        return found

    assert known(busy, idle) == {"send_rate": 2.0, "ack_rate": 0.0, "lag": 0.0, "missing": [], "reason": why}
    assert known(busy)["reason"] is None
    assert known(busy, idle | {"missing": ["g1"]})["reason"] is None


@pytest.mark.database
def test_groups_that_come_and_go_in_the_database_are_on_the_next_page(many: APIClient) -> None:
    def unmeasured() -> list[str]:
        rows = many.get(f"{LIST}?state=unknown&ordering=subject").json()["results"]
        return [f"{row['subject']}/{row['group']}" for row in rows]

    assert unmeasured() == []
    groups.create_group("parts", "new", {}, actor=ACTOR)
    assert unmeasured() == ["parts/new"]
    groups.create_group("orders", "newer", {}, actor=ACTOR)
    assert unmeasured() == ["orders/newer", "parts/new"]
    groups.delete_group("parts", "new", actor=ACTOR)
    assert unmeasured() == ["orders/newer"]
    groups.delete_group("orders", "newer", actor=ACTOR)
    groups.create_group("orders", "again", {}, actor=ACTOR)
    assert unmeasured() == ["orders/again"]


@pytest.mark.database
def test_created_groups_are_loaded_alone_and_all_after_one_was_deleted() -> None:
    subjects.create_subject("orders", {}, actor=ACTOR)
    assert queries.groups_mark() is None
    for name in ("a", "b"):
        groups.create_group("orders", name, {}, actor=ACTOR)
    two = queries.groups_mark()
    assert two is not None
    assert queries.group_names(None, two) == [("orders", "a"), ("orders", "b")]
    groups.create_group("orders", "c", {}, actor=ACTOR)
    three = queries.groups_mark()
    assert three is not None
    assert queries.group_names(two, three) == [("orders", "c")]
    groups.delete_group("orders", "a", actor=ACTOR)
    less = queries.groups_mark()
    assert less is not None
    assert queries.group_names(three, less) is None
    other = replace(two, newest_at=two.newest_at - timedelta(seconds=1))
    assert queries.group_names(other, three) is None, "the database is another one"


@pytest.mark.database
def test_keys_are_in_the_order_of_their_names_whatever_characters_these_have() -> None:
    names = [("a\tb", "g"), ("a", "h"), ("a", "g"), ("%RETRY%a%g", "g"), ("%a", "g")]
    measured = {f"{subject}\n{group}": {} for subject, group in names[:3]}
    keys = table_keys(measured, {f"{subject}\n{group}" for subject, group in names[2:] if "RETRY" not in subject})
    assert [tuple(key.split("\n")) for key in keys] == [("%a", "g"), ("a", "g"), ("a", "h"), ("a\tb", "g")]


def test_a_table_keeps_few_orders() -> None:
    table = LagTable({}, [], "")
    for field in LAG_FIELDS:
        table.ordered(field, False)
    assert len(table._orders) == ORDERS_MAX


@pytest.mark.usefixtures("db")
def test_a_new_snapshot_follows_the_orders_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[str] = []

    def counting(entry: Any, field: str) -> Any:
        computed.append(entry["group"])
        return entry[field]

    monkeypatch.setattr(lag_table, "lag_value", counting)
    tables = lag_table.LagTables()
    numbers: dict[str, Any] = {f"s\ng{number}": {"group": f"g{number}", "lag": number} for number in range(10)}
    for number in (3, 7):
        assert tables.newest(numbers, "").ordered("lag", True)[9] == "s\ng0"
        computed.clear()
        numbers = numbers | {f"s\ng{number}": {"group": f"g{number}", "lag": 50 + number}}
    assert tables.newest(numbers, "").ordered("lag", True)[:2] == ["s\ng7", "s\ng3"]
    assert set(computed) == {"g7"}


def test_groups_are_counted_by_state_whatever_is_filtered(admin: APIClient) -> None:
    everything = {"caught_up": 1, "draining": 2, "growing": 1, "unknown": 2}
    for query in ("", "state=growing", "search=bill&limit=1"):
        assert admin.get(f"{LIST}?{query}").json()["states"] == everything
    assert admin.get(f"{LIST}?subject=orders").json()["states"] == {"caught_up": 1, "draining": 1}


@pytest.mark.database
def test_rows_name_the_owner(admin: APIClient) -> None:
    rows = admin.get(f"{LIST}?ordering=subject").json()["results"]
    assert [row["owner"] for row in rows] == ["shop", "shop", None, None, None, None]


@pytest.mark.parametrize(
    "query", ["ordering=none", "state=none", "limit=0", "limit=501", "cursor=none", "cursor=W10:1tDl:x"]
)
def test_what_can_not_be_is_refused(admin: APIClient, query: str) -> None:
    assert admin.get(f"{LIST}?{query}").status_code == 400


def test_a_cursor_of_another_order_is_refused(admin: APIClient) -> None:
    cursor = admin.get(f"{LIST}?ordering=lag&limit=1").json()["next"]
    answer = admin.get(f"{LIST}?ordering=subject&limit=1&cursor={cursor}")
    assert (answer.status_code, answer.json()["code"]) == (400, "request.cursor_illegal")


def test_a_download_has_what_is_unknown_as_an_empty_cell(admin: APIClient) -> None:
    text = b"".join(admin.get(f"{LIST}?format=csv&ordering=lag").streaming_content).decode()  # type: ignore[attr-defined]
    rows = list(csv.DictReader(io.StringIO(text[1:])))
    assert [row["lag"] for row in rows] == ["0", "20", "20", "30", "", ""]
    assert rows[-1]["reason"] == "node g1-a does not answer"


def test_a_download_without_numbers_says_why(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(None, None, "does the collector run?"))
    text = b"".join(admin.get(f"{LIST}?format=csv").streaming_content).decode()  # type: ignore[attr-defined]
    assert text.splitlines()[1:] == ['"# incomplete: does the collector run?"']


def test_nodes_by_their_numbers(admin: APIClient) -> None:
    for name in ("g1", "g2", "g3", "g4"):
        broker_group(name)
    assert names(admin, "ordering=disk_used_bytes", NODES) == ["g3-node", "g1-node", "g2-node", "g4-node"]
    assert names(admin, "ordering=-disk_used_bytes&search=g", NODES) == ["g1-node", "g3-node", "g2-node", "g4-node"]
    assert names(admin, "ordering=-connections&limit=1", NODES) == ["g3-node"]
    rows = {row["node_id"]: row for row in admin.get(NODES).json()["results"]}
    assert (rows["g1-node"]["disk_used_bytes"], rows["g1-node"]["unmeasured_reason"]) == (60, None)
    assert (rows["g2-node"]["disk_used_bytes"], rows["g2-node"]["unmeasured_reason"]) == (
        None,
        "node g2-node does not answer",
    )
    assert rows["g4-node"]["unmeasured_reason"] == "not known to the collector yet"


def test_withheld_messages_are_a_number_or_unknown(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENTRIES[0], "withheld", 3)
    rows = {(row["subject"], row["group"]): row["withheld"] for row in admin.get(LIST).json()["results"]}
    assert (rows["orders", "billing"], rows["orders", "audit"], rows["parts", "lost"]) == (3, 0, None)
