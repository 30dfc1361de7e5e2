"""Every operation of the API and every websocket, with a valid request, by every kind of caller: roles, scopes and ownership.

The operations are those of api/openapi.yaml: one that has no request in CASES fails here. Everything that has an owner belongs to
team shop. Changes are dry runs, so that the calls do not depend on each other.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from asgiref.sync import async_to_sync
from django.urls import resolve
from django.utils import timezone
from rest_framework.test import APIClient

from api.throttles import PrincipalThrottle
from console.accounts.models import ApiToken, User
from console.accounts.principals import principal_of
from console.accounts.roles import OF_A_SUBJECT, Principal, Right, Role, Scope
from console.alerts.models import Alert, AlertChannel, AlertRule, Silence
from console.analytics import services as analytics
from console.live.consumers import LiveApp
from console.live.sockets import KINDS, request_of
from console.models import SavedFilter
from console.outbox.models import OutboxDatabase
from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.domain import may_change
from metaserver.services import broker_groups, groups, subjects, teams
from qmq import Producer
from qmq.outbox.rows import Status
from qmq_node.replication.rules.membership import Membership
from tests.served.api.nodes.cases import (
    CASES,
    DEAD,
    FOREIGN,
    RETRY,
    TEAM,
    Case,
)
from tests.served.api.nodes.people import give
from tests.support.console.business import content, in_folder
from tests.support.console.people import TESTER, browser, machine, person
from tests.support.console.websockets import opened
from tests.support.promises import PromiseBroken
from tests.support.servers.processes import PROJECT
from tests.support.servers.threaded_system import ThreadedSystem

SECRET = "what-only-readers-of-shop-may-see"
OWNED = OF_A_SUBJECT | {Right.CHANGE_ALERTS}
"""Rights whose use here is on something of team shop."""
METHODS = ("get", "post", "put", "patch", "delete")


WEBSOCKETS: dict[str, tuple[str, ...]] = {
    "lag": ("", "subject=orders", "subject=orders&group=billing"),
    "nodes": ("",),
    "events": ("",),
    "tail": ("subject=orders", *(f"subject={name}".replace("%", "%25") for name in (RETRY, DEAD))),
}


def operations() -> dict[str, tuple[str, str]]:
    """Method and path of every operation of the OpenAPI file, by its id."""
    document = yaml.safe_load((Path(PROJECT) / "api/openapi.yaml").read_text())
    return {
        description["operationId"]: (method, path)
        for path, methods in document["paths"].items()
        for method, description in methods.items()
        if method in METHODS
    }


def test_every_operation_and_websocket_has_a_valid_request() -> None:
    assert set(CASES) == set(operations()), (
        "each operation of api/openapi.yaml needs a valid request in CASES, and no other"
    )
    assert all(CASES.values())
    assert set(WEBSOCKETS) == set(KINDS), "each kind of websocket needs a valid request in WEBSOCKETS"
    document = yaml.safe_load((Path(PROJECT) / "api/openapi.yaml").read_text())
    shapes = document["components"]["schemas"]
    for name, (method, path) in operations().items():
        request = document["paths"][path][method].get("requestBody")
        if request is None:
            continue
        shape = shapes[request["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]]
        for case in CASES[name]:
            if case.body is None:
                assert not shape.get("required"), f"{name}: a body is needed"
                continue
            assert set(shape.get("required", ())) <= set(case.body) <= set(shape["properties"]), name


@dataclass(frozen=True)
class Caller:
    name: str
    client: APIClient
    principal: Principal | None

    def may(self, right: Right) -> bool:
        """What the table of rights says about something of team shop."""
        assert self.principal is not None
        return self.principal.has(right) and (right not in OWNED or may_change(TEAM, self.principal.bound_to))

    def headers(self) -> list[tuple[str, str]]:
        """What the caller's websockets show."""
        token = self.client._credentials.get("HTTP_AUTHORIZATION")
        if token is not None:
            return [("authorization", token)]
        cookies = "; ".join(f"{name}={morsel.value}" for name, morsel in self.client.cookies.items())
        return [("cookie", cookies), ("origin", "http://localhost"), ("host", "localhost")]


@pytest.fixture
def world(cluster: ThreadedSystem, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> dict[str, str]:
    """Something of team shop for every operation; what paths name, by argument."""
    monkeypatch.setattr(PrincipalThrottle, "get_rate", lambda self: None)
    cluster.send("orders", 6, secret=SECRET)
    give("orders", TEAM)
    for name in (FOREIGN, "empty"):
        teams.create_team(name, actor=TESTER)
    cluster.consume("orders", "billing", 2)
    groups.create_group("orders", "billing", {}, actor=TESTER)
    cluster.make_dead("orders", "dead", 2)
    cluster.consume("orders", "tried", 2, settle="retry")

    async def delay() -> None:
        due = datetime.now(UTC) + timedelta(hours=5)
        async with Producer(cluster.meta_url, app="test") as producer:
            await producer.send("orders", {"a": "b", "secret": SECRET}, due=due, message_id="d-orders")
            await producer.send(RETRY, {"a": "b", "secret": SECRET}, due=due, message_id="d-retry")

    cluster.do(delay)
    broker_groups.save_group(
        domain.BrokerGroup(GroupKind.BROKER, GroupState.OFFLINE, Membership("spare", (), "", (), 1, 0, "")),
        actor=TESTER,
        reason="test",
    )
    broker_groups.save_group(
        domain.BrokerGroup(
            GroupKind.BROKER,
            GroupState.OFFLINE,
            Membership("waiting", (), "", (), 1, 0, ""),
            operator_state=OperatorState.UNAPPROVED,
        ),
        actor=TESTER,
        reason="test",
    )
    subjects.create_subject("archived", {"owner": TEAM}, actor=TESTER)
    subjects.set_archived("archived", True, actor=TESTER)
    now = timezone.now()
    words: dict[str, Any] = {"kind": "lag", "threshold": 5.0, "severity": "warning"}
    of_orders = AlertRule.objects.create(name="of orders", target="orders", clear_threshold=1, owner=TEAM, **words)
    of_team = AlertRule.objects.create(name="of shop", clear_threshold=1, owner=TEAM, **words)
    alert = Alert.objects.create(
        rule=of_orders, rule_name="of orders", target="orders/billing", owner=TEAM, state="firing", since=now, fired_at=now,
        last_seen_at=now, value=6, open_key="k", place=1, **words,
    )  # fmt: skip
    business = in_folder(tmp_path)
    business.make_tables()
    business.insert(content("orders", "m-outbox", secret=SECRET), status=Status.REFUSED)
    settings.OUTBOX_SQLITE_FOLDER = str(tmp_path)
    database = OutboxDatabase.objects.create(**business.values(owner=TEAM))
    span = {"starts_at": now, "ends_at": now + timedelta(hours=1), "reason": "x", "created_by": "x"}
    return {
        "subject": "orders",
        "group": "billing",
        "name": "g1",
        "spare": "spare",
        "waiting": "waiting",
        "archived": "archived",
        "job": "cleanups",
        "database": str(database.pk),
        "row_id": "1",
        "table": "lag",
        "team": TEAM,
        "empty_team": "empty",
        "node_id": "g1-a",
        "channel": str(AlertChannel.objects.create(name="mail", kind="email", addresses=["a@example.com"]).pk),
        "unused_channel": str(AlertChannel.objects.create(name="unused", kind="email").pk),
        "rule": str(of_orders.pk),
        "team_rule": str(of_team.pk),
        "builtin_rule": str(AlertRule.objects.filter(builtin__isnull=False)[0].pk),
        "alert": str(alert.pk),
        "silence": str(Silence.objects.create(target="orders", owner=TEAM, is_system=False, **span).pk),
        "system_silence": str(Silence.objects.create(**span).pk),
        "run_id": str(analytics.start_run("lag", from_at=now - timedelta(hours=1), to_at=now).pk),
    }


def _with(user: User, scope: Scope) -> Principal:
    of_session = principal_of(user)
    return Principal(of_session.name, of_session.role, of_session.teams, frozenset({scope}))


@pytest.fixture
def callers(world: dict[str, str]) -> list[Caller]:
    """One of every kind. The world gets what belongs to the own operator, and where messages are stored."""
    people = {
        "viewer": person("vera", Role.VIEWER, [TEAM]),
        "own operator": person("olga", Role.OPERATOR, [TEAM]),
        "foreign operator": person("otto", Role.OPERATOR, [FOREIGN]),
        "admin": person("ada", Role.ADMIN),
    }
    found = [Caller("anonymous", APIClient(raise_request_exception=False), None)]
    found += [Caller(name, browser(user), principal_of(user)) for name, user in people.items()]
    for name, scope in (
        ("own operator", Scope.MESSAGES),
        ("foreign operator", Scope.MESSAGES),
        ("foreign operator", Scope.OPERATE),
        ("admin", Scope.ADMIN),
    ):
        found.append(Caller(f"{name}'s token {scope}", machine(people[name], scope), _with(people[name], scope)))
    world["user_id"] = str(person("bystander").pk)
    olga = next(caller for caller in found if caller.name == "own operator")
    mine = {"subject": "orders", "username": people["own operator"].username}
    world["filter_id"] = str(SavedFilter.objects.create(**mine, name="mine", filter="x").pk)
    world["token_id"] = str(ApiToken.objects.get(owner=people["own operator"]).pk)
    for kind, subject in (("", "orders"), ("retry", RETRY), ("dead", DEAD)):
        [row, *_] = olga.client.get(f"/api/v1/subjects/{subject.replace('%', '%25')}/messages/").json()["results"]
        names = (f"{kind}_group", f"{kind}_sequence") if kind else ("broker_group", "sequence")
        world |= dict(zip(names, (row["broker_group"], row["sequence"]), strict=True))
    world["session_id"] = olga.client.get("/api/v1/me/sessions/").json()["results"][0]["id"]
    return found


def _address(path: str, case: Case, world: dict[str, str]) -> str:
    def value(found: "re.Match[str]") -> str:
        name = case.arguments.get(found[1], found[1])
        return world.get(name, name).replace("%", "%25")

    where = re.sub(r"{(\w+)}", value, path)
    return where + (f"?{case.query}" if case.query else "")


def _expected(caller: Caller, right: Right, case: Case) -> int:
    if caller.principal is None:
        return 401
    if not caller.may(case.right or right):
        return 403
    if case.only is not None and caller.name not in case.only:
        return 404
    return case.status


def test_every_caller_may_what_the_tables_say(world: dict[str, str], callers: list[Caller]) -> None:
    wrong: list[str] = []
    entries = queries.audit_entries().exclude(action="message.read").count()
    readers: dict[str, set[str]] = defaultdict(set)
    for name, (method, path) in operations().items():
        for case in CASES[name]:
            where = _address(path, case, world)
            right = resolve(where.partition("?")[0].replace("%25", "%")).func.cls.rights[method.upper()]  # type: ignore[attr-defined]
            if method != "get":
                where += ("&" if case.query else "?") + "dry_run=true"
            for caller in callers:
                answer = getattr(caller.client, method)(where, case.body)
                expected = _expected(caller, right, case)
                shown = SECRET in answer.content.decode()
                may_see = caller.principal is not None and caller.may(Right.READ_MESSAGES)
                text = f"{name}: {method} {where} {case.body} by {caller.name}"
                if answer.status_code != expected:
                    wrong.append(f"{text}: {answer.status_code} instead of {expected}: {answer.content[:300]!r}")
                elif shown and not may_see:
                    wrong.append(f"{text}: messages of team {TEAM} are shown")
                elif case.shows and expected == 200 and may_see and not shown:
                    wrong.append(f"{text}: readers don't see what the request is for")
                elif shown:
                    readers[name].add(caller.name)
    if wrong:
        raise PromiseBroken("\n".join(wrong))
    assert set(readers) == {name for name, cases in CASES.items() if any(case.shows for case in cases)}
    assert queries.audit_entries().exclude(action="message.read").count() == entries, (
        "dry runs and refusals change nothing"
    )


def _queries(operation: dict[str, Any], shared: dict[str, Any]) -> Iterator[str]:
    """Query strings that an operation has to reject: unknown names, repeated parameters, unknown values."""
    yield "dryrun=true"
    yield "unheard_of=1"
    for parameter in operation.get("parameters", ()):
        found = shared[parameter["$ref"].rpartition("/")[2]] if "$ref" in parameter else parameter
        schema = found["schema"]
        if found["in"] != "query":
            continue
        if schema["type"] != "array":
            yield f"{found['name']}=true&{found['name']}=false"
        schema = schema.get("items", schema)
        if "enum" in schema or schema["type"] in ("boolean", "integer") or schema.get("format") == "date-time":
            yield f"{found['name']}=unheard-of"


def _bodies(schema: dict[str, Any], shapes: dict[str, Any], valid: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A valid body with an unknown field: in itself, and in each object in it."""
    yield {**valid, "unheard_of": 1}
    for name, inner in schema["properties"].items():
        for part in (inner, *inner.get("allOf", ()), *inner.get("oneOf", ())):
            if "$ref" in part and "properties" in (shape := shapes[part["$ref"].rpartition("/")[2]]):
                assert shape["additionalProperties"] is False, name
                yield {**valid, name: {"unheard_of": 1}}


def test_unknown_input_is_rejected_by_every_operation_and_changes_nothing(
    world: dict[str, str], callers: list[Caller]
) -> None:
    """Without dry_run: a misspelled `dryrun` must not become a change."""
    document = yaml.safe_load((Path(PROJECT) / "api/openapi.yaml").read_text())
    shapes, shared = document["components"]["schemas"], document["components"]["parameters"]
    admin, olga = (next(caller for caller in callers if caller.name == name) for name in ("admin", "own operator"))
    before = queries.audit_entries().count()
    wrong, codes = [], set()

    def refused(caller: Caller, method: str, where: str, body: dict[str, Any] | None) -> None:
        answer = getattr(caller.client, method)(where, body)
        if answer.status_code != 400 or not answer.json()["fields"]:
            wrong.append(f"{method} {where} {body}: {answer.status_code} {answer.content[:200]!r}")
        else:
            codes.add(answer.json()["code"])

    for name, (method, path) in operations().items():
        case = CASES[name][0]
        caller = olga if case.only else admin
        operation = document["paths"][path][method]
        where = _address(path, case, world)
        for query in _queries(operation, shared):
            refused(caller, method, f"{where}{'&' if case.query else '?'}{query}", case.body)
        if method != "get":
            schema = shapes[
                operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
            ]
            assert schema["additionalProperties"] is False, f"{name}: the file allows unknown fields"
            for body in _bodies(schema, shapes, case.body or {}):
                refused(caller, method, where, body)
    if wrong:
        raise PromiseBroken("\n".join(wrong))
    assert codes == {
        "request.invalid", "request.unknown_field", "request.unknown_parameter", "request.repeated_parameter",
        # A document's own problems, of which unknown fields are some.
        "apply.invalid",
    }  # fmt: skip
    assert queries.audit_entries().count() == before, "nothing was changed"


def test_what_is_nearly_right_is_named(world: dict[str, str], callers: list[Caller]) -> None:
    admin = next(caller for caller in callers if caller.name == "admin").client
    answer = admin.post("/api/v1/subjects/", {"name": "x.y", "retention": 3, "zzz": 1}).json()
    assert answer["code"] == "request.unknown_field"
    assert answer["fields"]["retention"] == "unknown field; did you mean 'retention_hours'?"
    assert answer["fields"]["zzz"].startswith("unknown field; known: ")
    assert "name" in answer["fields"]["zzz"]
    answer = admin.get("/api/v1/subjects/?serch=foo").json()
    assert answer["detail"] == "'serch': unknown parameter; did you mean 'search'?"
    nested = admin.patch("/api/v1/me/", {"preferences": {"them": "dark"}}).json()
    assert nested["fields"] == {"preferences.them": "unknown field; did you mean 'theme'?"}
    many = admin.post("/api/v1/subjects/", {"name": "x.y"} | {f"zzz{number}": 1 for number in range(23)}).json()
    assert (len(many["fields"]), many["detail"][-11:]) == (20, "And 3 more.")


def test_websockets_follow_the_same_tables(world: dict[str, str], callers: list[Caller]) -> None:
    expected: dict[tuple[str, str, str], int | None] = {}
    for kind, requests in WEBSOCKETS.items():
        for query in requests:
            right = request_of(f"/ws/{kind}/", query.encode()).right
            for caller in callers:
                code = 4401 if caller.principal is None else None if caller.may(right) else 4403
                expected[(kind, query, caller.name)] = code

    async def ask() -> dict[tuple[str, str, str], int | None]:
        found: dict[tuple[str, str, str], int | None] = {}
        app = LiveApp()
        for kind, query, name in expected:
            caller = next(caller for caller in callers if caller.name == name)
            async with opened(app, f"/ws/{kind}/?{query}", caller.headers()) as socket:
                found[(kind, query, name)] = await socket.verdict()
        return found

    assert async_to_sync(ask)() == expected
