"""Ownership: one function resolves it, services apply it under the lock, and websockets ask it like the API."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from rest_framework.test import APIClient

from console.accounts.roles import Role, Scope
from console.live.consumers import LiveApp
from metaserver import queries
from metaserver.errors import NotAllowed, NotFound
from metaserver.models import ConsumerGroup, Subject, Team
from metaserver.services import apply, groups, subjects
from metaserver.services.changes import Actor, lock
from metaserver.services.groups import create_group
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from tests.support.console.people import TESTER, machine, person
from tests.support.console.websockets import opened

API = "/api/v1"
SHADOWS = ("%RETRY%orders%billing", "%DEAD_RETRY%orders%billing")
UNKNOWN = (
    "nothing",
    "Orders",
    "%RETRY%nothing%billing",
    "%RETRY%orders",
    "%DEAD_RETRY%",
    "%RETRY%or%ders%billing",
    # Names that split like a retry subject of `orders`, but belong to another subject or to none.
    "%RETRY%%orders%billing",
    "%RETRY%orders%%billing",
    "%RETRY%orders%billing%",
    "%RETRY_%orders%billing",
    "%DEAD_RETRYorders%orders%billing",
)


@pytest.fixture(autouse=True)
def teams(db: None) -> None:
    create_team("shop", actor=TESTER)
    create_team("warehouse", actor=TESTER)
    create_subject("orders", {"owner": "shop"}, actor=TESTER)
    create_subject("free", {}, actor=TESTER)
    create_group("orders", "billing", {}, actor=TESTER)


@pytest.fixture
def own() -> APIClient:
    return machine(person("olga", Role.OPERATOR, ["shop"]), Scope.OPERATE)


def test_retry_and_dead_letter_subjects_have_their_real_subjects_owner() -> None:
    for name in ("orders", *SHADOWS):
        assert queries.owner_of(name) == "shop", name
    assert queries.owner_of("free") is None
    assert queries.owner_of("%RETRY%free%billing") is None
    for name in UNKNOWN:
        with pytest.raises(NotFound) as missing:
            queries.owner_of(name)
        assert missing.value.code == "subject.unknown"
    names = ("orders", "free", *SHADOWS, *UNKNOWN)
    assert queries.owners_of(names) == {"orders": "shop", "free": None} | dict.fromkeys(SHADOWS, "shop")


@pytest.mark.django_db(transaction=True)  # looking up accounts closes a connection in a transaction
def test_a_tail_asks_for_the_owner_as_the_api_does() -> None:
    """S1: an operator, or a `messages` token, of another team sees neither the subject nor its retries."""
    allowed, refused, missing = None, 4403, 4404
    callers = {
        "own": machine(person("olga", Role.OPERATOR, ["shop"]), Scope.MESSAGES),
        "other": machine(person("otto", Role.OPERATOR, ["warehouse"]), Scope.MESSAGES),
        "viewer": machine(person("vera", Role.VIEWER), Scope.READ),
        "admin": machine(person("ada", Role.ADMIN), Scope.ADMIN),
    }
    expected: dict[str, dict[str, int | None]] = {
        "free": {"own": allowed, "other": allowed, "viewer": refused, "admin": allowed},
        **{
            name: {"own": allowed, "other": refused, "viewer": refused, "admin": allowed}
            for name in ("orders", *SHADOWS)
        },
        **{name: {"own": missing, "other": missing, "viewer": refused, "admin": missing} for name in UNKNOWN if name},
    }

    async def ask() -> dict[str, dict[str, int | None]]:
        app = LiveApp()
        found: dict[str, dict[str, int | None]] = {}
        for subject in expected:
            found[subject] = {}
            for name, client in callers.items():
                headers = [("authorization", client._credentials["HTTP_AUTHORIZATION"])]
                path = f"/ws/tail/?subject={subject.replace('%', '%25')}"
                async with opened(app, path, headers) as socket:
                    found[subject][name] = await socket.verdict()
        return found

    assert async_to_sync(ask)() == expected


def _hand_over() -> None:
    Subject.objects.filter(name="orders").update(owner=Team.objects.get(name="warehouse"))


def _handed_over(real: Callable[..., Any]) -> Callable[..., Any]:
    """Hand the subject over just before its row is locked."""

    def locked(rows: Any) -> Any:
        _hand_over()
        return real(rows)

    return locked


CHANGES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "subject": ("patch", "subjects/orders/", {"description": "mine"}),
    "give away": ("patch", "subjects/orders/", {"owner": "shop"}),
    "archive": ("post", "subjects/orders/archive/", {}),
    "restore": ("post", "subjects/orders/restore/", {}),
    "new group": ("post", "consumer-groups/", {"subject": "orders", "name": "more"}),
    "group": ("patch", "consumer-groups/orders/billing/", {"description": "mine"}),
    "pause": ("post", "consumer-groups/orders/billing/pause/", {}),
    "resume": ("post", "consumer-groups/orders/billing/resume/", {}),
    "forget": ("delete", "consumer-groups/orders/billing/", {}),
}


@pytest.mark.database
@pytest.mark.parametrize("name", CHANGES)
def test_a_subject_that_was_handed_over_in_between_is_left_alone(
    name: str, own: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S13: the owner counts that the row has under its lock, not the one it had when the request came."""
    method, path, body = CHANGES[name]
    for query in ("?dry_run=true", ""):
        with monkeypatch.context() as patch:
            patch.setattr("metaserver.services.resources.lock", _handed_over(lock))
            answer = getattr(own, method)(f"{API}/{path}{query}", body)
        assert (answer.status_code, answer.json()["code"]) == (403, "access.denied"), answer.json()
        assert "warehouse" in answer.json()["detail"]
        Subject.objects.filter(name="orders").update(owner=Team.objects.get(name="shop"))
    row = Subject.objects.get(name="orders")
    assert (row.archived_at, row.description) == (None, "")
    assert set(ConsumerGroup.objects.values_list("name", flat=True)) == {"billing"}


@pytest.mark.database
def test_a_document_counts_with_the_owner_under_the_lock(own: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = apply._lock

    def handed_over(asked: Any) -> Any:
        _hand_over()
        return lock(asked)

    monkeypatch.setattr(apply, "_lock", handed_over)
    document = {"subjects": [{"name": "orders", "description": "mine", "consumer_groups": ["more"]}]}
    answer = own.put(f"{API}/apply/", document)
    assert (answer.status_code, answer.json()["code"]) == (403, "access.denied"), answer.json()
    assert Subject.objects.get(name="orders").description == ""


def test_services_check_owners_themselves() -> None:
    """A view that forgets to ask changes nothing of other teams."""
    foreign = Actor("otto", teams=frozenset({"warehouse"}))
    for change in (
        lambda: subjects.update_subject("orders", {"description": "x"}, actor=foreign),
        lambda: subjects.update_subject("orders", {"owner": "warehouse"}, actor=foreign),
        lambda: subjects.update_subject("free", {"owner": "shop"}, actor=foreign),
        lambda: subjects.create_subject("new", {"owner": "shop"}, actor=foreign),
        lambda: subjects.set_archived("orders", True, actor=foreign),
        lambda: subjects.authorize("%RETRY%orders%billing", foreign),
        lambda: groups.create_group("orders", "g", {}, actor=foreign),
        lambda: groups.update_group("orders", "billing", {"description": "x"}, actor=foreign),
        lambda: groups.set_paused("orders", "billing", True, actor=foreign),
        lambda: groups.delete_group("orders", "billing", actor=foreign),
        lambda: apply.apply({"subjects": [{"name": "orders"}]}, actor=foreign),
        lambda: apply.apply({"subjects": [{"name": "new", "owner": "shop"}]}, actor=foreign),
    ):
        before = queries.audit_entries().count()
        with pytest.raises(NotAllowed):
            change()  # type: ignore[no-untyped-call]
        assert queries.audit_entries().count() == before
    subjects.update_subject("free", {"description": "x"}, actor=foreign)
    subjects.update_subject("free", {"owner": "warehouse"}, actor=foreign)
    assert queries.audit_entries().filter(action="subject.update", actor="otto").count() == 2, (
        "taking a subject is audited"
    )
