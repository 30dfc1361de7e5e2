"""The OpenAPI file: committed as generated, and kept by what the API really answers, whoever asks whatever.

Schemathesis makes requests out of the file, right ones and wrong ones, for every operation and every role: no answer is a
500, none has a status, a media type or a shape that the file does not name.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

import hypothesis
import pytest
import schemathesis
import schemathesis.openapi
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.db import transaction
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase
from pytest_django import DjangoDbBlocker
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.downloads import RunningDownloads
from api.schema import COMMON_STATUSES
from api.throttles import PrincipalThrottle
from console.accounts import tokens
from console.accounts.roles import RIGHTS_OF_SCOPE, Principal, Role, Scope
from metaserver import domain
from metaserver.choices import GroupKind, GroupState
from metaserver.services import broker_groups, groups, routes, subjects, teams
from qmq_node.replication.rules.membership import Membership
from tests.support.console.people import TESTER, person, without_redis
from tests.support.generated.openapi import OPENAPI, openapi_document
from tests.support.promises import PromiseBroken, judging
from tests.support.servers.system import System

EXAMPLES = 200 if os.environ.get("QMQ_FAULTS") == "full" else 8
"""Requests of each operation and role."""
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
SECRET = "nobody but its readers may see this"
"""The content of what only some roles may read."""

SCHEMA = schemathesis.openapi.from_path(str(OPENAPI))
OPERATIONS = {result.ok().label: result.ok() for result in SCHEMA.get_all_operations()}


def test_the_committed_file_is_what_the_code_says() -> None:
    made = io.StringIO()
    call_command("spectacular", "--fail-on-warn", "--validate", stdout=made)
    assert OPENAPI.read_text() == made.getvalue(), "run `make openapi` and commit the result"


def test_the_file_is_served_as_it_is_committed(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Generating it takes 0.3 s of a processor, and anyone may read it 600 times a minute."""
    generated: list[object] = []
    monkeypatch.setattr(SchemaGenerator, "get_schema", lambda *given, **options: generated.append(given))
    answer = client.get("/api/v1/openapi.yaml")
    assert (answer.status_code, answer.content, generated) == (200, OPENAPI.read_bytes(), [])
    tag = answer.headers["ETag"]
    assert client.get("/api/v1/openapi.yaml", headers={"If-None-Match": tag}).status_code == 304
    assert client.post("/api/v1/openapi.yaml").status_code == 405


def test_every_operation_lists_the_errors_of_the_layers_before_its_view() -> None:
    """The HTTP server (console.http.protocol), admission (console.http.admission), content negotiation, and unexpected errors."""
    document = openapi_document()
    for methods in document["paths"].values():
        for operation in methods.values():
            assert operation["responses"]["default"] == {"$ref": "#/components/responses/Error"}
    described = document["components"]["responses"]["Error"]["description"]
    assert all(f"{status}: " in described for status in (401, 406, 408, 413, 429, 431, 500, 503))


def test_if_match_is_a_parameter_of_the_changes_that_compare_it() -> None:
    expecting, changes = set(), set()
    for methods in openapi_document()["paths"].values():
        for method, operation in methods.items():
            if method in ("post", "put", "patch", "delete"):
                changes.add((method, operation["operationId"]))
            if any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", ())):
                expecting.add((method, operation["operationId"]))
    assert {name for method, name in expecting if method == "post"} == {
        "alerts_acknowledge", "broker_groups_approve", "broker_groups_drain", "broker_groups_read_only",
        "broker_groups_members_remove", "broker_groups_members_replace", "broker_groups_promote", "broker_groups_remove_lost",
        "broker_groups_set_copies", "broker_groups_switch_over",
        "broker_groups_writable", "consumer_groups_pause", "consumer_groups_reset", "consumer_groups_resume",
        "outbox_rows_discard", "outbox_rows_resend", "subjects_archive", "subjects_restore",
    }  # fmt: skip
    assert {name for method, name in changes - expecting if method != "post"} == {
        "apply", "me_end_session", "me_end_sessions", "tokens_revoke",
    }  # fmt: skip


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A metaserver, a broker node and a delay node."""
    system = System(tmp_path_factory.mktemp("nodes"), groups=1)
    system.add_delay("d1")
    try:
        system.start()
        yield system
    finally:
        system.stop()


def know(system: System) -> None:
    """Write the nodes into this process's database, as their metaserver does into its own."""
    for name, kind, role in (("g1", GroupKind.BROKER, 0), ("d1", GroupKind.DELAY, 5)):
        port, admin = system.ports[name]
        node_id = f"{name}-a"
        group = domain.BrokerGroup(kind, GroupState.READ_WRITE, Membership(name, (), node_id, (node_id,), 1, 0, ""))
        broker_groups.save_group(group, actor=TESTER, reason="for a test")
        node = domain.Node(node_id, name, role, f"127.0.0.1:{port}", f"127.0.0.1:{admin}", "test", 0)
        broker_groups.save_node(node)
    for subject in ("orders", "free"):
        routes.save_route(domain.Route(subject, ("g1",), 1, 1), actor=TESTER, reason="for a test")


@pytest.fixture(scope="module")
def tokens_of_roles(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, nodes: System
) -> Iterator[dict[str, str]]:
    """A token by role, and a few things to ask about, in one transaction for all operations."""
    with django_db_blocker.unblock(), without_redis(), transaction.atomic():
        know(nodes)
        teams.create_team("shop", actor=TESTER)
        subjects.update_subject("orders", {"owner": "shop"}, actor=TESTER)
        groups.create_group("orders", "billing", {}, actor=TESTER)
        yield {role: _token(role) for role in Role}
        transaction.set_rollback(True)


def _token(role: Role) -> str:
    owner = person(f"a-{role}", role)
    return tokens.create_token(owner, "a program", _scopes(role), tokens.LIFETIME_MAX, actor=TESTER)[1]


@pytest.fixture
def callers(
    tokens_of_roles: dict[str, str], db: None, nodes: System, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> Iterator[dict[str, dict[str, str]]]:
    """Headers by role, and those of an anonymous caller. `db` rolls back what the requests of an operation changed."""
    settings.META_URL = nodes.meta_url
    monkeypatch.setattr(PrincipalThrottle, "get_rate", lambda self: None)
    found: dict[str, dict[str, str]] = {"anonymous": {}}
    found |= {role: {"Authorization": f"Bearer {token}"} for role, token in tokens_of_roles.items()}
    with without_redis():
        yield found


def _scopes(role: Role) -> list[str]:
    """Every scope that a token of this role may have."""
    held = Principal("x", role)
    return [scope.value for scope in Scope if all(held.has(right) for right in RIGHTS_OF_SCOPE[scope])]


def read_whole(application: WSGIApplication) -> WSGIApplication:
    """Read each answer to its end and close it, as a server does: a download counts as running until then."""

    def call(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        with contextlib.closing(application(environ, start_response)) as answer:
            return list(answer)

    return call


@pytest.mark.parametrize("label", sorted(OPERATIONS))
def test_every_answer_is_in_the_file_and_none_is_a_500(
    label: str, callers: dict[str, dict[str, str]], running: RunningDownloads
) -> None:
    application = read_whole(get_wsgi_application())

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=OPERATIONS[label].as_strategy())
    def ask(case: Any) -> None:
        for headers in callers.values():
            # Over WSGI, the client does not decompress.
            response = case.call(app=application, headers={**headers, "Accept-Encoding": "identity"})
            if response.status_code >= 500:
                raise PromiseBroken(f"{label}: {response.status_code} {response.text}")
            with judging():
                assert headers or response.status_code in (400, 401, 404, 405, 415), "allowed without signing in"
                own = OPERATIONS[label].definition.raw["responses"]
                assert str(response.status_code) in own or response.status_code in COMMON_STATUSES, "not in the file"
            case.validate_response(response, checks=CHECKS, headers=headers)

    ask()
    assert len(running) == 0
