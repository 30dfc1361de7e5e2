"""What holds for the whole API: problems, bodies, pages, versions, keys for repetition, dry runs, limits, request ids."""

import base64
import gzip
import io
import json
import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import django_filters
import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from api import idempotency
from api.pagination import PAGE_MAX
from api.parsers import read_bounded
from api.problems import Problem
from api.throttles import PrincipalThrottle
from api.views.subjects import SubjectsView
from console import settings as console_settings
from console.accounts import tokens
from console.accounts.models import ApiToken
from console.accounts.roles import Role
from console.http.requests import RequestIdFilter
from console.models import ANSWERS_KEPT, IdempotencyKey
from console.reports.subject_table import NUMBERS
from metaserver import queries
from metaserver.models import ConsumerGroup, Node, Subject, Team
from metaserver.services import audit, subjects
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import ACTOR, broker_group, everything
from tests.support.console.people import browser, person
from tests.support.generated.error_codes import api_codes
from tests.support.servers.services import Server

pytestmark = pytest.mark.django_db
LIST = "/api/v1/subjects/"
ORDERS = "/api/v1/subjects/orders/"


@pytest.fixture
def admin(db: None) -> APIClient:
    subjects.create_subject("orders", {}, actor=ACTOR)
    return browser(person("root", Role.ADMIN))


CODES = api_codes()


def is_problem(answer: Any, status: int, code: str, *fields: str) -> dict[str, Any]:
    """The answer is a problem of this kind, whole, and says nothing of how the server is made."""
    assert answer.status_code == status, (answer.status_code, answer.content[:500])
    assert answer.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = json.loads(answer.content)
    assert set(body) == {"type", "title", "status", "code", "detail", "fields", "request_id"}
    assert (body["status"], body["code"], body["type"]) == (status, code, f"urn:qmq:problem:{code}")
    assert code in CODES.get(status, ()), f"{status} {code} is not in docs/reference/errors.md"
    assert body["title"] != "The request failed", f"{status} has no title"
    assert body["request_id"] == answer.headers["X-Request-Id"]
    assert body["detail"]
    assert "Traceback" not in body["detail"]
    if fields:
        assert set(body["fields"]) == set(fields), body
    return body


def send(
    client: APIClient, data: bytes | str, path: str = LIST, method: str = "POST", kind: str = "application/json"
) -> Any:
    return client.generic(method, path, data, content_type=kind)


# --- problems ----------------------------------------------------------------------------------------------------------


def test_unknown_addresses_and_methods(admin: APIClient) -> None:
    is_problem(admin.get("/api/v1/nothing/"), 404, "request.not_found")
    is_problem(admin.get("/api/v1/subjects/none/"), 404, "subject.unknown")
    for method in ("DELETE", "PUT", "PATCH", "OPTIONS"):
        answer = send(admin, b"{}", method=method)
        is_problem(answer, 405, "request.method_not_allowed")
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST"}
    assert admin.head(LIST).status_code == 200
    for method in ("GET", "DELETE", "OPTIONS"):
        is_problem(APIClient().generic(method, LIST), 401, "request.not_authenticated")
        is_problem(APIClient().generic(method, f"{LIST}?format=csv"), 401, "request.not_authenticated")
    is_problem(send(admin, b"{}", f"{LIST}?format=csv", "DELETE"), 405, "request.method_not_allowed")
    is_problem(send(admin, b"{}", f"{LIST}?format=csv"), 400, "request.unknown_parameter", "format")
    is_problem(admin.get(LIST, HTTP_ACCEPT="text/html"), 406, "request.not_acceptable")
    is_problem(admin.get(LIST, HTTP_HOST="elsewhere.example"), 400, "request.bad")


@pytest.mark.parametrize(
    "data",
    [
        b"{", b"", b"\xff\xfe", b"\xef\xbb\xbf{}", b'{"name": "a"', b"[" * 100_000, b'{"a":' * 100_000, b"nul",
        b'{"messages_per_second": NaN}', b'{"messages_per_second": -Infinity}', b"1" * 5_000,
        b'{"name": "a\\u0000"}', b'{"name": "\\ud800"}', b'{"tags": ["a", {"\\udc00": 1}]}', b'"\\u0000"',
    ],
    ids=lambda data: repr(data[:24]),
)  # fmt: skip
def test_a_body_that_can_not_be_read_or_stored_is_refused(admin: APIClient, data: bytes) -> None:
    before = everything()
    answer = send(admin, data)
    assert answer.status_code == 400, answer.content
    is_problem(answer, 400, json.loads(answer.content)["code"])
    assert everything() == before


@pytest.mark.parametrize("data", [b"[]", b"5", b'"text"', b"null", b"true", b"[[]]"])
def test_a_body_that_is_no_object_is_refused(admin: APIClient, data: bytes) -> None:
    """Every change of the API, found by looking."""
    from tests.served.api.routes import ROUTES, address

    before = everything()
    known = {"subject": "orders"}
    for route in ROUTES:
        for method in set(route.view.rights) - {"GET"}:
            answer = send(admin, data, address(route, known), method)
            assert 400 <= answer.status_code < 500, f"{method} {route.pattern}: {answer.content!r}"
            assert answer.headers["Content-Type"] == "application/problem+json"
    assert everything() == before


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (LIST, {"name": 5}, "name"),
        (LIST, {"name": "n", "tags": ["a", 5]}, "tags.1"),
        (LIST, {"name": "n", "messages_per_second": "5"}, "messages_per_second"),
        (LIST, {"name": "n", "messages_per_second": True}, "messages_per_second"),
        (LIST, {"name": "n", "messages_per_second": 5.5}, "messages_per_second"),
        (LIST, {"name": "n", "retention_hours": "1.5"}, "retention_hours"),
        (f"{ORDERS}messages/", {"properties": {"a": 5}}, "properties.a"),
        (f"{ORDERS}messages/", {"properties": {"a": "b"}, "delay_seconds": True}, "delay_seconds"),
        ("/api/v1/alert-channels/", {"name": "n", "kind": "email", "is_enabled": "off"}, "is_enabled"),
        ("/api/v1/alert-channels/", {"name": "n", "kind": 5}, "kind"),
        ("/api/v1/silences/", {"reason": "r", "ends_at": 5}, "ends_at"),
        ("/api/v1/dead-letters/orders/g/delete/", {"sequences": {"g1": [True]}}, "sequences.g1.0"),
        ("/api/v1/dead-letters/orders/g/delete/", {"sequences": {"g1": [0, " 5"]}}, "sequences.g1.1"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_not_converted(
    admin: APIClient, path: str, body: dict[str, Any], field: str
) -> None:
    before = everything()
    is_problem(admin.post(path, body), 400, "request.invalid", field)
    assert everything() == before


def test_numbers_may_be_written_as_json_allows(admin: APIClient) -> None:
    given = {"name": "new", "messages_per_second": 5.0, "retention_hours": 1, "owner": None}
    made = admin.post(LIST, given).json()["after"]
    assert (made["messages_per_second"], made["retention_hours"], made["owner"]) == (5, 1.0, None)


def test_other_types_and_large_bodies(admin: APIClient, settings: Any) -> None:
    is_problem(send(admin, b"<a/>", kind="text/xml"), 415, "request.unsupported_media_type")
    is_problem(send(admin, b"a=b", kind="application/x-www-form-urlencoded"), 415, "request.unsupported_media_type")
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    fitting = json.dumps({"name": "large", "description": "x" * 400}).encode().ljust(1000)
    assert send(admin, fitting).status_code == 201
    is_problem(send(admin, fitting + b" "), 413, "request.too_large")
    assert queries.subjects().count() == 2


def test_no_more_of_a_body_is_read_than_may_be() -> None:
    """What Django checks is what a body says of itself; one that says nothing is cut while it is read."""
    body = io.BytesIO(b"x" * 1000)
    with pytest.raises(Problem) as refused:
        read_bounded(body, 10, None)
    assert (refused.value.status_code, body.tell()) == (413, 11)
    assert read_bounded(io.BytesIO(b"x" * 10), 10, None) == b"x" * 10
    said = {"request": SimpleNamespace(META={"CONTENT_LENGTH": "11"})}
    body = io.BytesIO(b"x" * 11)
    with pytest.raises(Problem):
        read_bounded(body, 10, said)
    assert body.tell() == 0, "one that says it is too large is not read at all"


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["name"]), ({"name": None}, ["name"]), ({"name": ""}, ["name"]), ({"name": ["a"]}, ["name"]),
        ({"name": {"a": 1}}, ["name"]), ({"name": "a", "tags": "x"}, ["tags"]), ({"name": "a", "tags": [["x"]]}, ["tags.0"]),
        ({"name": "a", "messages_per_second": 10**30}, ["messages_per_second"]),
        ({"name": "a", "messages_per_second": 1.5}, ["messages_per_second"]),
        ({"name": "a", "messages_per_second": True}, ["messages_per_second"]),
        ({"name": "a", "bytes_per_second": -1}, ["bytes_per_second"]),
        ({"name": "a", "retention_hours": "1e400"}, ["retention_hours"]),
        ({"name": "a", "retention_hours": "nan"}, ["retention_hours"]),
        ({"name": "a", "retention_hours": 10**400}, ["retention_hours"]),
        ({"name": "a", "allowed_groups": {}}, ["allowed_groups"]), ({"name": "a", "owner": 5.5}, ["owner"]),
        ({"name": "a", "reason": "x" * 501}, ["reason"]), ({"name": "a", "reason": []}, ["reason"]),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named(admin: APIClient, body: dict[str, Any], fields: list[str]) -> None:
    before = everything()
    answer = send(admin, json.dumps(body))
    assert answer.status_code == 400, answer.content
    is_problem(answer, 400, json.loads(answer.content)["code"], *fields)
    assert everything() == before


@pytest.mark.database
@pytest.mark.parametrize("name", ["a%00b", "%ED%A0%80", "%FF", "..", "%2e%2e", "x" * 5000, "%F0%9F%98%80", "a%0Ab"])
def test_a_name_in_an_address_can_be_anything(admin: APIClient, name: str) -> None:
    for path in (
        f"/api/v1/subjects/{name}/", f"/api/v1/consumer-groups/orders/{name}/", f"/api/v1/broker-groups/{name}/",
        f"/api/v1/nodes/{name}/", f"/api/v1/jobs/{name}/", f"/api/v1/teams/{name}/",
    ):  # fmt: skip
        answer = admin.get(path)
        assert answer.status_code == 404, (path, answer.content[:200])
        assert answer.headers["Content-Type"] == "application/problem+json"


# --- pages -------------------------------------------------------------------------------------------------------------


def walk(client: APIClient, path: str, key: str = "name", limit: int = 7) -> list[str]:
    """All rows of a list page by page forth, and the same back."""
    mark = "&" if "?" in path else "?"
    forth: list[str] = []
    pages: list[list[str]] = []
    cursor, last = "", ""
    while True:
        page = client.get(f"{path}{mark}limit={limit}{cursor}").json()
        rows = [row[key] for row in page["results"]]
        assert len(rows) <= limit
        assert (page["previous"] is None) == (not pages)
        pages.append(rows)
        forth += rows
        assert len(forth) < 5000
        if page["next"] is None:
            last = page["previous"] or ""
            break
        cursor = f"&cursor={page['next']}"
    back = [pages[-1]]
    while last:
        page = client.get(f"{path}{mark}limit={limit}&cursor={last}").json()
        back.insert(0, [row[key] for row in page["results"]])
        assert page["next"] is not None
        last = page["previous"] or ""
    assert back == pages
    return forth


@pytest.fixture
def many(admin: APIClient) -> APIClient:
    """40 subjects of which 25 have one and the same time; their names don't sort like their ids. Every other value is there
    several times, and null."""
    owners = [*Team.objects.bulk_create([Team(name="b-team"), Team(name="a-team")]), None]
    made = Subject.objects.bulk_create(
        [
            Subject(
                name=f"s{(number * 7) % 40:02}", owner=owners[number % 3], retention_hours=(1.5, None, 0.5)[number % 3],
                messages_per_second=(7, None)[number % 2], bytes_per_second=(None, 9, 1 << 40)[number % 3],
                archived_at=timezone.now() if number % 4 == 0 else None,
            )
            for number in range(40)
        ]
    )  # fmt: skip
    names = {subject.name: subject for subject in Subject.objects.all()}
    ConsumerGroup.objects.bulk_create([ConsumerGroup(subject=names[item.name], name="g") for item in made[::3]])
    same = timezone.now()
    Subject.objects.filter(name__lt="s25", name__startswith="s").update(created_at=same, updated_at=same)
    return admin


@pytest.mark.database
@pytest.mark.parametrize("field", [name for name in SubjectsView.ordering_fields if name not in NUMBERS])
@pytest.mark.parametrize("sign", ["", "-"])
def test_pages_forth_and_back_in_every_order(many: APIClient, field: str, sign: str) -> None:
    found = walk(many, f"{LIST}?ordering={sign}{field}")
    rows = {row["name"]: row[field] for row in many.get(f"{LIST}?limit=500").json()["results"]}
    assert sorted(found) == sorted(rows)
    values = [rows[name] for name in found]
    # Null counts as the greatest.
    assert values == sorted(
        values, key=lambda value: (value is None, "" if value is None else value), reverse=bool(sign)
    )
    assert len(set(values)) > 1


@pytest.mark.database
def test_two_orders_at_once(many: APIClient) -> None:
    found = walk(many, f"{LIST}?ordering=-created_at,name")
    rows = {row.name: row.created_at for row in Subject.objects.all()}
    by_name = sorted(rows)
    assert found == sorted(by_name, key=lambda name: rows[name], reverse=True)


@pytest.mark.database
def test_more_equal_values_than_a_page_and_nulls(admin: APIClient) -> None:
    subject = Subject.objects.get()
    others = Subject.objects.bulk_create([Subject(name=f"s{number:04}") for number in range(1200)])
    ConsumerGroup.objects.bulk_create([ConsumerGroup(subject=item, name="workers") for item in [subject, *others]])
    found = walk(admin, "/api/v1/consumer-groups/", "subject", 400)
    assert (len(found), len(set(found))) == (1201, 1201)
    broker_group("g1")
    group = Node.objects.get().broker_group
    now = timezone.now()
    Node.objects.bulk_create(
        [
            Node(
                node_id=f"n{number}", broker_group=group, role=0, address="a:1",
                leased_at=None if number % 3 else now - timedelta(seconds=number % 4),
            )
            for number in range(20)
        ]
    )  # fmt: skip
    up = walk(admin, "/api/v1/nodes/?ordering=leased_at", "node_id", 3)
    assert len(up) == 21
    assert len(set(up)) == 21
    down = walk(admin, "/api/v1/nodes/?ordering=-leased_at", "node_id", 4)
    assert sorted(down) == sorted(up)
    leased = {row.node_id: row.leased_at for row in Node.objects.all()}
    assert [leased[name] is None for name in up] == [False] * 8 + [True] * 13
    assert [leased[name] is None for name in down] == [True] * 13 + [False] * 8


@pytest.mark.database
def test_rows_that_come_and_go_move_no_other_row(many: APIClient) -> None:
    first = many.get(f"{LIST}?limit=10").json()
    seen = [row["name"] for row in first["results"]]
    Subject.objects.filter(name__in=[seen[0], seen[-1]]).delete()
    subjects.create_subject("a-new-one", {}, actor=ACTOR)
    second = many.get(f"{LIST}?limit=500&cursor={first['next']}").json()
    rest = [row["name"] for row in second["results"]]
    assert sorted(seen + rest) == sorted(["orders", *(f"s{number:02}" for number in range(40))])


def made(ordering: str, values: Any, backwards: Any = 0) -> str:
    text = json.dumps([backwards, ordering, values])
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "x", "%00", "Zm9v", "é", "!" * 50, "A" * 5000, made("name", []), made("name", ["a", "b"]), made("-name", ["a"]),
        made("name", [None]), made("name", [["a"]]), made("name", [{"a": 1}]), made("name", ["a\x00"]), made("name", ["\ud800"]),
        made("name", ["a"], 7), made("name", ["a"], "0"), made("name", [True]), base64.urlsafe_b64encode(b"[" * 2000).decode(),
    ],
    ids=repr,
)  # fmt: skip
def test_a_cursor_that_was_made_up_is_refused(admin: APIClient, cursor: str) -> None:
    is_problem(admin.get(LIST, {"cursor": cursor}), 400, "request.cursor_illegal", "cursor")


@pytest.mark.database
@pytest.mark.parametrize(
    "values",
    [["today", 1], ["2026-01-01T00:00:00", 1], ["2026-01-01T00:00:00Z", 10**30], [5, 1], ["99999999999", 1], [None, 1]],
)
def test_a_cursor_with_a_time_or_number_that_is_none_is_refused(admin: APIClient, values: Any) -> None:
    answer = admin.get(LIST, {"cursor": made("created_at,pk", values), "ordering": "created_at"})
    is_problem(answer, 400, "request.cursor_illegal", "cursor")


def test_a_cursor_that_was_changed_is_refused(many: APIClient) -> None:
    place, _, signature = many.get(f"{LIST}?limit=3").json()["next"].rpartition(":")
    changed = place[:-1] + ("A" if place[-1] != "A" else "B")
    is_problem(many.get(LIST, {"cursor": f"{changed}:{signature}"}), 400, "request.cursor_illegal", "cursor")


def test_a_cursor_of_another_list_is_refused(many: APIClient) -> None:
    cursor = many.get("/api/v1/teams/?limit=1&ordering=name").json()["next"]
    assert cursor
    is_problem(many.get(LIST, {"cursor": cursor, "ordering": "name"}), 400, "request.cursor_illegal", "cursor")


def test_a_cursor_of_another_order_is_refused(many: APIClient) -> None:
    cursor = many.get(f"{LIST}?limit=3").json()["next"]
    answer = many.get(f"{LIST}?limit=3&ordering=-name&cursor={cursor}")
    is_problem(answer, 400, "request.cursor_illegal", "cursor")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"), ("limit=-1", "limit"), ("limit=x", "limit"), ("limit=1.5", "limit"), ("limit=٣", "limit"),
        ("limit=99999999999999999999", "limit"), ("ordering=tags", "ordering"), ("ordering=--name", "ordering"),
        ("ordering=name,password", "ordering"), ("ordering=-", "ordering"), ("is_archived=maybe", "is_archived"),
        ("is_owned=2", "is_owned"), ("search=%00", "search"), ("prefix=%00", "prefix"), ("owner=a%00", "owner"),
    ],
)  # fmt: skip
def test_a_query_that_makes_no_sense_is_refused(admin: APIClient, query: str, field: str) -> None:
    is_problem(admin.get(f"{LIST}?{query}"), 400, "request.invalid", field)


def test_a_page_has_a_largest_size(admin: APIClient) -> None:
    Subject.objects.bulk_create([Subject(name=f"s{number:04}") for number in range(PAGE_MAX + 5)])
    assert len(admin.get(f"{LIST}?limit=100000").json()["results"]) == PAGE_MAX


# --- versions ----------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_a_version_that_is_not_the_newest_is_412(admin: APIClient) -> None:
    tag = admin.get(ORDERS).headers["ETag"]
    assert tag == '"v1"'
    done = admin.patch(ORDERS, {"description": "a"}, HTTP_IF_MATCH=tag)
    assert (done.status_code, done.headers["ETag"], done.json()["version"]) == (200, '"v2"', "2")
    before = everything()
    for query in ("", "?dry_run=true"):
        is_problem(admin.patch(ORDERS + query, {"description": "b"}, HTTP_IF_MATCH=tag), 412, "change.stale")
    assert everything() == before
    assert admin.patch(ORDERS, {"description": "c"}, HTTP_IF_MATCH='W/"v2"').status_code == 200
    assert admin.patch(ORDERS, {"description": "d"}, HTTP_IF_MATCH="*").status_code == 200
    assert admin.patch(ORDERS, {"description": "e"}).status_code == 200


@pytest.mark.database
def test_answers_are_compressed_and_their_tags_are_still_good(admin: APIClient) -> None:
    admin.patch(ORDERS, {"description": "word " * 40})
    plain, packed = admin.get(ORDERS), admin.get(ORDERS, HTTP_ACCEPT_ENCODING="gzip")
    assert ("Content-Encoding" in plain.headers, packed.headers["Content-Encoding"]) == (False, "gzip")
    assert len(packed.content) < len(plain.content)
    assert json.loads(gzip.decompress(packed.content)) == plain.json()
    assert packed.headers["ETag"] == f"W/{plain.headers['ETag']}"
    assert "Accept-Encoding" in plain.headers["Vary"]
    assert admin.patch(ORDERS, {"description": ""}, HTTP_IF_MATCH=packed.headers["ETag"]).status_code == 200
    download = admin.get(f"{LIST}?format=csv", HTTP_ACCEPT_ENCODING="gzip")
    assert "Content-Encoding" not in download.headers
    download.close()


@pytest.mark.parametrize("given", ["v1", '"1"', "", '"v1", "v2"', '"v' + "9" * 19 + '"', '"v-1"', '"é"', "\x00"])
def test_an_if_match_that_is_none_of_our_tags_is_refused(admin: APIClient, given: str) -> None:
    before = everything()
    is_problem(admin.patch(ORDERS, {"description": "b"}, HTTP_IF_MATCH=given), 400, "request.if_match_illegal")
    assert everything() == before


# --- filters -------------------------------------------------------------------------------------------------------------


def test_a_truth_value_that_is_none_is_refused_by_every_list(admin: APIClient) -> None:
    """A list that ignores a filter returns something else than was requested."""
    from tests.served.api.routes import ROUTES, address

    filters = [
        (address(route, {}), name)
        for route in ROUTES
        for name, given in getattr(getattr(route.view, "filterset_class", None), "base_filters", {}).items()
        if isinstance(given, django_filters.BooleanFilter)
    ]
    assert len(filters) > 5
    for path, name in filters:
        is_problem(admin.get(f"{path}?{name}=perhaps"), 400, "request.invalid", name)
        assert admin.get(f"{path}?{name}=true").status_code == 200


# --- Idempotency-Key -----------------------------------------------------------------------------------------------------


def keyed(client: APIClient, body: Any, key: str = "k1", path: str = LIST) -> Any:
    return client.post(path, body, HTTP_IDEMPOTENCY_KEY=key)


@pytest.mark.database
def test_a_post_is_done_once_and_answered_alike(admin: APIClient) -> None:
    first = keyed(admin, {"name": "new"})
    after = everything()
    again = keyed(admin, {"name": "new"})
    assert (again.status_code, again.json(), again.headers["ETag"]) == (201, first.json(), first.headers["ETag"])
    assert (again.headers["Idempotent-Replayed"], "Idempotent-Replayed" in first.headers) == ("true", False)
    assert everything() == after
    is_problem(keyed(admin, {"name": "other"}), 422, "idempotency.key_reused")
    is_problem(keyed(admin, {"name": "new"}, path=f"{LIST}?dry_run=true"), 422, "idempotency.key_reused")
    assert keyed(admin, {"name": "other"}, "k2").status_code == 201
    operator = browser(person("olga", Role.OPERATOR))
    assert keyed(operator, {"name": "third"}).status_code == 201, "another caller's key is another key"


@pytest.mark.database
def test_an_existing_name_is_a_final_outcome(admin: APIClient) -> None:
    first = keyed(admin, {"name": "orders"})
    is_problem(first, 409, "subject.exists")
    Subject.objects.all().delete()
    again = keyed(admin, {"name": "orders"})
    assert again.headers["Content-Type"] == "application/problem+json"
    assert (again.status_code, json.loads(again.content)) == (409, json.loads(first.content))


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "code"),
    [
        (LIST, {"name": "/"}, {}, 400, "subject.name_illegal"),
        ("/api/v1/subjects/none/archive/", {}, {}, 404, "subject.unknown"),
        ("/api/v1/subjects/orders/archive/", {}, {"HTTP_IF_MATCH": '"v99"'}, 412, "change.stale"),
        ("/api/v1/tokens/", {"name": "n", "scopes": ["read"], "expires_in_days": 1}, {}, 409, "token.too_many"),
    ],
    ids=["400", "404", "412", "409"],
)
def test_a_refusal_that_may_change_is_not_stored(
    admin: APIClient,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: Any,
    headers: dict[str, str],
    status: int,
    code: str,
) -> None:
    monkeypatch.setattr(tokens, "TOKENS_MAX", 0)
    is_problem(admin.post(path, body, HTTP_IDEMPOTENCY_KEY="k1", **headers), status, code)
    assert not IdempotencyKey.objects.exists()


NEW_TOKEN = {"name": "deploys", "scopes": ["read"], "expires_in_days": 1}


def prove(client: APIClient, seconds_ago: float) -> None:
    """Set when the session's password was given."""
    session = client.session
    session["account_authentication_methods"] = [{"method": "password", "at": time.time() - seconds_ago}]
    session.save()


def test_a_key_that_needed_reauthentication_works_afterwards(admin: APIClient) -> None:
    prove(admin, 1000)
    with CaptureQueriesContext(connection) as captured:
        is_problem(keyed(admin, NEW_TOKEN, path="/api/v1/tokens/"), 403, "access.reauthenticate")
    assert not claims(captured), "claimed after the re-authentication"
    prove(admin, 1)
    made = keyed(admin, NEW_TOKEN, path="/api/v1/tokens/")
    assert made.status_code == 201, made.content
    assert made.json()["token"]
    assert keyed(admin, NEW_TOKEN, path="/api/v1/tokens/").headers["Idempotent-Replayed"] == "true"
    prove(admin, 1000)
    is_problem(keyed(admin, NEW_TOKEN, path="/api/v1/tokens/"), 403, "access.reauthenticate")
    assert ApiToken.objects.count() == 1


def claims(captured: CaptureQueriesContext) -> list[str]:
    """Statements that claimed a key."""
    found = [query["sql"] for query in captured.captured_queries]
    return [sql for sql in found if sql.startswith("INSERT") and "idempotencykey" in sql]


GROUP = {"subject": "orders", "name": "billing"}
GROUPS = "/api/v1/consumer-groups/"


@pytest.mark.parametrize(
    ("path", "body"), [(GROUPS, GROUP), ("/api/v1/subjects/orders/archive/", {}), (LIST, {"name": "mine"})]
)
def test_a_replay_asks_for_the_right_on_the_subject_again(admin: APIClient, path: str, body: Any) -> None:
    Team.objects.create(name="sales")
    Team.objects.create(name="else")
    subjects.update_subject("orders", {"owner": "sales"}, actor=ACTOR)
    user = person("olga", Role.OPERATOR, ["sales"])
    operator = browser(user)
    name = body.get("name", "orders") if path == LIST else "orders"
    given = body | ({"owner": "sales"} if path == LIST else {})
    assert keyed(operator, given, path=path).status_code in (200, 201)
    assert keyed(operator, given, path=path).headers["Idempotent-Replayed"] == "true"
    Subject.objects.filter(name=name).update(owner=Team.objects.get(name="else"))
    is_problem(keyed(operator, given, path=path), 403, "access.denied")
    user.teams.add(Team.objects.get(name="else"))
    assert keyed(operator, given, path=path).headers["Idempotent-Replayed"] == "true"
    user.role = Role.VIEWER
    user.save()
    is_problem(keyed(operator, given, path=path), 403, "access.denied")


def test_a_key_is_claimed_after_the_right_on_the_subject_was_checked(admin: APIClient) -> None:
    Team.objects.create(name="sales")
    subjects.update_subject("orders", {"owner": "sales"}, actor=ACTOR)
    stranger = browser(person("otto", Role.OPERATOR))
    for path, body in ((GROUPS, GROUP), ("/api/v1/subjects/orders/archive/", {})):
        with CaptureQueriesContext(connection) as captured:
            is_problem(keyed(stranger, body, path=path), 403, "access.denied")
        assert not claims(captured)


@pytest.mark.parametrize("subject", ["\x00", 5, None, "x" * 10_000])
def test_a_key_with_a_subject_that_is_none_is_refused(admin: APIClient, subject: Any) -> None:
    answer = keyed(admin, {"subject": subject, "name": "billing"}, path=GROUPS)
    is_problem(answer, answer.status_code, json.loads(answer.content)["code"])
    assert answer.status_code in (400, 404)


@pytest.mark.database
def test_while_the_first_runs_the_second_is_409_and_a_dead_first_is_replaced(admin: APIClient) -> None:
    keyed(admin, {"name": "new"})
    Subject.objects.filter(name="new").delete()
    IdempotencyKey.objects.update(status=None, body=None)
    is_problem(keyed(admin, {"name": "new"}), 409, "idempotency.running")
    IdempotencyKey.objects.update(created_at=timezone.now() - idempotency.RUNNING_MAX - timedelta(seconds=1))
    assert keyed(admin, {"name": "new"}).status_code == 201
    IdempotencyKey.objects.update(created_at=timezone.now() - ANSWERS_KEPT - timedelta(seconds=1))
    is_problem(keyed(admin, {"name": "new"}), 409, "subject.exists")


@pytest.mark.parametrize("failure", [ValueError("secret place"), DatabaseError("secret place")], ids=["500", "503"])
def test_a_failure_of_ours_is_not_kept(admin: APIClient, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def fails(*given: Any, **options: Any) -> Any:
        raise failure

    with monkeypatch.context() as patch:
        patch.setattr(subjects, "create_subject", fails)
        answer = keyed(admin, {"name": "new"})
        body = json.loads(answer.content)
        is_problem(answer, answer.status_code, body["code"])
        assert answer.status_code >= 500
        assert str(failure) not in answer.content.decode()
    assert not IdempotencyKey.objects.exists()
    assert keyed(admin, {"name": "new"}).status_code == 201


def test_an_answer_that_can_not_be_kept_goes_out(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        def filter(self, **given: Any) -> Any:
            raise DatabaseError("away")

        def create(self, **given: Any) -> Any:
            return IdempotencyKey(pk=1, **given)

    monkeypatch.setattr(idempotency.IdempotencyKey, "objects", Away())
    assert keyed(admin, {"name": "new"}).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 101, "a\x7fb", "a\nb", "a b", "é"])
def test_an_illegal_key_is_refused(admin: APIClient, key: str) -> None:
    is_problem(keyed(admin, {"name": "new"}, key), 400, "idempotency.key_illegal")
    assert queries.subjects().count() == 1


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
@needs_two_writers
def test_of_two_with_one_key_at_once_one_is_done() -> None:
    user = person("root", Role.ADMIN)
    clients = [browser(user) for _ in range(4)]
    found = at_once(*(lambda c=client: keyed(c, {"name": "new"}) for client in clients))
    assert not [item for item in found if isinstance(item, Exception)], found
    assert {answer.status_code for answer in found} <= {201, 409}
    assert [answer for answer in found if answer.status_code == 201]
    assert all(
        json.loads(answer.content)["code"] == "idempotency.running" for answer in found if answer.status_code == 409
    )
    assert queries.audit_entries().filter(action="subject.create").count() == 1


# --- limits, ids, numbers ------------------------------------------------------------------------------------------------


@pytest.fixture
def three_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        PrincipalThrottle, "THROTTLE_RATES", {"principal": "3/min", "browse": "2/min", "download": "2/min"}
    )
    monkeypatch.setattr(PrincipalThrottle, "rests_until", 0.0)


@pytest.mark.usefixtures("three_a_minute")
def test_who_asks_too_often_is_told_when_to_ask_again(admin: APIClient) -> None:
    before = everything()
    for _ in range(3):
        assert admin.get(LIST).status_code == 200
    answer = keyed(admin, {"name": "new"})
    is_problem(answer, 429, "request.throttled")
    assert 1 <= int(answer.headers["Retry-After"]) <= 61
    assert everything() == before
    assert not IdempotencyKey.objects.exists()
    other = browser(person("olga", Role.OPERATOR))
    assert other.get(LIST).status_code == 200, "counted by who asks"
    for _ in range(3):
        is_problem(APIClient().get(LIST), 401, "request.not_authenticated")


@pytest.mark.usefixtures("three_a_minute")
def test_with_redis_away_nobody_is_refused_and_it_is_left_alone_for_a_while(
    admin: APIClient, settings: Any, redis_server: Server, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    ours = console_settings.CACHES["default"]
    settings.CACHES = {"default": {**ours, "LOCATION": [redis_server.url], "KEY_PREFIX": "limits"}}
    from django.core.cache import caches
    from rest_framework.throttling import SimpleRateThrottle

    monkeypatch.setattr(SimpleRateThrottle, "cache", caches["default"])
    for _ in range(3):
        assert admin.get(LIST).status_code == 200
    assert admin.get(LIST).status_code == 429
    with redis_server.stopped():
        for _ in range(5):
            assert admin.get(LIST).status_code == 200
        warned = [record for record in caplog.records if "rate limits are off" in record.getMessage()]
        assert len(warned) == 1, "one that hangs would hold up every request"


class Kept(logging.Handler):
    """Log records with the ids they have."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.addFilter(RequestIdFilter())

    def emit(self, record: logging.LogRecord) -> None:
        self.ids.append(getattr(record, "request_id", ""))


def test_a_request_has_one_id_in_answer_log_and_audit(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    given = "caller-chose-this.1"
    answer = admin.patch(ORDERS, {"description": "a"}, HTTP_X_REQUEST_ID=given)
    entry = queries.audit_entries().first()
    assert entry is not None
    assert (entry.request_id, entry.actor, entry.address) == (answer.headers["X-Request-Id"], "root", "127.0.0.1")
    assert (len(entry.request_id), entry.client_request_id) == (32, given), "the caller's stands beside ours"
    copied = admin.patch(ORDERS, {"description": "b"}, HTTP_X_REQUEST_ID=entry.request_id)
    later = queries.audit_entries().first()
    assert later is not None
    assert (later.request_id, later.client_request_id) == (copied.headers["X-Request-Id"], entry.request_id)
    assert later.request_id != entry.request_id, "no request looks like another one"
    assert admin.get("/api/v1/audit/?limit=1").json()["results"][0]["client_request_id"] == entry.request_id
    assert audit.verify().problem == ""
    for illegal in ("short", "x" * 65, "has blanks in it", "line\nend-of-it", "é-is-not-plain"):
        made_up = admin.get(ORDERS, HTTP_X_REQUEST_ID=illegal).headers["X-Request-Id"]
        assert made_up != illegal
        assert len(made_up) == 32
    kept = Kept()
    logging.getLogger("qmq.api").addHandler(kept)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(queries, "subjects", lambda: (_ for _ in ()).throw(DatabaseError("secret place")))
            body = is_problem(admin.get(ORDERS, HTTP_X_REQUEST_ID=given), 503, "database.away")
    finally:
        logging.getLogger("qmq.api").removeHandler(kept)
    assert kept.ids == [f"{body['request_id']} client={given}"]
    assert "secret place" not in body["detail"]


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


@pytest.mark.database
def test_what_may_be_larger_than_a_browsers_numbers_is_a_string(admin: APIClient) -> None:
    broker_group("g1", log_end=(1 << 62) + 1)
    row = admin.get("/api/v1/nodes/g1-node/").json()
    assert row["log_end"] == str((1 << 62) + 1)
    body = {"log_end": str(1 << 59), "reason": "disk swapped"}
    change = admin.post("/api/v1/nodes/g1-node/accept-log-loss/", body).json()
    assert change["after"] == {"log_end": str(1 << 59)}
    for path in ("subjects/orders/", "broker-groups/g1/", "broker-groups/", "subjects/", "nodes/", "jobs/"):
        page = admin.get(f"/api/v1/{path}").json()
        names = {name.split(".")[-1] for name, _ in numbers(page)}
        wrong = {
            name for name in names if any(word in name for word in ("sequence", "version", "epoch", "id", "log_end"))
        }
        assert not wrong, path


def test_answers_are_kept_by_nobody(admin: APIClient) -> None:
    assert admin.get(LIST).headers["Cache-Control"] == "no-store"
