"""/apply/: documents in JSON and YAML, and the YAML that is an attack."""

import time
from typing import Any

import pytest
import yaml
from rest_framework.test import APIClient

from api.base import REASON_CHARS_MAX
from api.views.provisioning import DEPTH_MAX, DOCUMENT_BYTES_MAX
from console.accounts.roles import Role
from metaserver import queries
from metaserver.services import subjects, teams
from tests.support.console.metadata import ACTOR, everything
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
PATH = "/api/v1/apply/"
DOCUMENT = """
teams:
  - name: shop
    description: sells
subjects:
  - name: orders
    owner: shop
    retention_hours: 12
    tags: [a, b]
    consumer_groups:
      - billing
      - {name: audit, description: "für die Prüfer"}
  - name: old
    archived: true
"""
PARSE_SECONDS_MAX = 10.0


@pytest.fixture
def admin(db: None) -> APIClient:
    return browser(person("root", Role.ADMIN))


def apply(client: APIClient, text: str | bytes, query: str = "", kind: str = "application/yaml") -> Any:
    return client.generic("PUT", PATH + query, text, content_type=kind)


def test_the_reason_goes_to_the_audit_log(admin: APIClient) -> None:
    assert apply(admin, "teams: [shop]", "?reason=the+new+shop").status_code == 200
    assert apply(admin, "teams: [mill]").status_code == 200
    reasons = {entry.target: entry.reason for entry in queries.audit_entries().filter(action="team.create")}
    assert reasons == {"shop": "the new shop", "mill": "provisioning"}
    answer = apply(admin, "teams: [fair]", "?reason=" + "x" * (REASON_CHARS_MAX + 1))
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["reason"])


@pytest.mark.database
def test_yaml_is_planned_applied_and_then_nothing(admin: APIClient) -> None:
    before = everything()
    planned = apply(admin, DOCUMENT, "?dry_run=true")
    assert planned.status_code == 200, planned.content
    assert everything() == before
    done = apply(admin, DOCUMENT).json()
    assert done == planned.json() | {"dry_run": False}
    assert done["is_change"] is True
    assert [step["action"] for step in done["steps"]] == ["create"] * 5 + ["archive"]
    there = everything()
    again = apply(admin, DOCUMENT).json()
    assert (again["is_change"], {step["action"] for step in again["steps"]}) == (False, {"keep"})
    assert everything() == there
    as_json = admin.put(
        PATH, {"subjects": [{"name": "orders", "retention_hours": 12.0, "consumer_groups": ["billing"]}]}
    )
    assert (as_json.json()["is_change"], as_json.json()["drift"]) == (False, ["orders/audit"])


@pytest.mark.parametrize(
    "text",
    [
        "a: &x [1]\nb: *x", "subjects: &a [*a]", "x: !!python/object/apply:os.system [ls]", "!!python/name:os.system",
        "x: !unknown 1", "[" * (DEPTH_MAX + 1), "{a: " * (DEPTH_MAX + 1), "[" * 50_000, "- " * 3000, "subjects: [",
        "a: b: c", "\tx: 1", b"\xff\xfe\x00", b"\x00", 'subjects: ["a\\0"]', 'subjects: ["\\ud800"]',
        "subjects: [a]\nsubjects: [b]",
        "subjects: [{name: a, name: b}]", "? {a: 1}\n: 2", "? [a]\n: 2", "---\na: 1\n---\nb: 2", "x: " + "9" * 5000,
        "a: &a [x,x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]", "%YAML 9.9\n---\na: 1", "<<: {subjects: [a]}\n<<: {teams: [b]}",
    ],
    ids=lambda text: repr(text[:24]),
)  # fmt: skip
def test_yaml_that_can_not_be_or_must_not_be_read(admin: APIClient, text: str | bytes) -> None:
    before = everything()
    answer = apply(admin, text)
    assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json"), answer.content[
        :300
    ]
    assert len(answer.content) < 2000
    assert everything() == before


@pytest.mark.parametrize(
    "text",
    ["subjects: [2026-01-01]", "subjects: [{name: a, tags: [2026-01-01]}]", "subjects: [{name: a, retention_hours: .nan}]",
     "subjects: [{name: a, retention_hours: .inf}]", "subjects: [{name: !!binary aGk=}]", "subjects: !!set {a, b}",
     "subjects: [{name: a, description: 5}]", "5: a", "2026-01-01: a", "subjects: [{name: a, archived: 1}]", "just text", "5",
     "- a", "2026-01-01", "subjects: [{name: a, messages_per_second: 1e3}]"],
)  # fmt: skip
def test_yaml_of_other_types_is_refused_with_the_place(admin: APIClient, text: str) -> None:
    before = everything()
    answer = apply(admin, text)
    assert answer.status_code == 400, answer.content
    assert answer.json()["code"] in ("apply.invalid", "subject.invalid", "request.invalid", "request.unknown_field")
    assert everything() == before


@pytest.mark.parametrize(
    "number",
    ["1" + ":1" * 200_000, "1" + ":1" * 200_000 + ".5", "1" * 4_000, "0x" + "f" * 100_000, "!!int '1" + ":1" * 50_000 + "'",
     "1_" * 60 + "1", "1." + "0" * 200 + "e+1"],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_long_numbers_are_not_converted(admin: APIClient, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    """The time to convert a number in base 60 grows with the square of its length. Work is counted as characters converted."""
    converted: list[int] = []
    for name in ("construct_yaml_int", "construct_yaml_float"):
        real = getattr(yaml.SafeLoader, name)

        def counted(loader: Any, node: Any, real: Any = real) -> Any:
            converted.append(len(node.value))
            return real(loader, node)

        monkeypatch.setattr(yaml.constructor.SafeConstructor, name, counted)
    answer = apply(admin, f"subjects: {number}")
    assert answer.status_code == 400
    assert "a number of" in answer.json()["detail"]
    assert converted == []
    assert apply(admin, "subjects: [{name: a, retention_hours: 72}]").status_code == 200
    assert converted == [2], "the count sees conversions"


def test_the_largest_document_is_read_in_time_and_a_larger_one_is_413(admin: APIClient) -> None:
    line = "- {name: subject, tags: [a, b, c, d, e, f]}\n"
    text = "teams: []\nsubjects:\n" + line * ((DOCUMENT_BYTES_MAX - 100) // len(line))
    began = time.thread_time()
    answer = apply(admin, text)
    assert time.thread_time() - began < PARSE_SECONDS_MAX
    assert (answer.status_code, "contains 'subject' twice" in answer.json()["detail"]) == (400, True)
    answer = apply(admin, "#".ljust(DOCUMENT_BYTES_MAX + 1))
    assert (answer.status_code, answer.json()["code"]) == (413, "request.too_large")
    answer = apply(admin, "a=b", kind="text/plain")
    assert (answer.status_code, answer.json()["code"]) == (415, "request.unsupported_media_type")


def test_nobody_applies_what_he_may_not_change(admin: APIClient) -> None:
    for team in ("shop", "stock"):
        teams.create_team(team, actor=ACTOR)
    subjects.create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    subjects.create_subject("parts", {"owner": "stock"}, actor=ACTOR)
    operator = browser(person("olga", Role.OPERATOR, ["shop"]))
    before = everything()
    for document in (
        {"teams": ["new"]},
        {"subjects": ["orders", "parts"]},
        {"subjects": [{"name": "orders", "owner": "stock"}]},
        {"subjects": [{"name": "new", "owner": "stock"}]},
        {"subjects": [{"name": "parts", "consumer_groups": ["g"]}]},
    ):
        for query in ("", "?dry_run=true"):
            answer = operator.put(PATH + query, document)
            assert (answer.status_code, answer.json()["code"]) == (403, "access.denied"), document
    assert everything() == before
    assert operator.put(PATH, {"subjects": [{"name": "orders", "tags": ["a"]}, "free"]}).status_code == 200
    viewer = browser(person("vera", Role.VIEWER))
    assert viewer.put(PATH, {}).status_code == 403


def test_a_refusal_says_where(admin: APIClient) -> None:
    answer = apply(admin, "subjects: [{name: a, retention_hours: 0}]")
    assert answer.json()["code"] == "subject.invalid"
    assert list(answer.json()["fields"]) == ["subject a"]


def test_unknown_fields_of_the_document_are_named_with_all_other_problems(admin: APIClient) -> None:
    answer = apply(admin, "subjets: []\nsubjects: [{name: a, tags: 5}, {name: b, retention: 5}]")
    assert (answer.status_code, answer.json()["code"]) == (400, "apply.invalid")
    fields = answer.json()["fields"]
    assert list(fields) == ["the document", "subjects, number 2", "subject a"]
    assert fields["the document"] == "has the unknown key 'subjets'; did you mean 'subjects'?"
