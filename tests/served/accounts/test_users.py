"""Users, teams and tokens: services and what the API makes of them."""

import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import TOTP
from django.core.management import CommandError, call_command
from django.db import connection, connections
from django.utils import timezone

from console.accounts import services, tokens
from console.accounts.models import ApiToken, User
from console.accounts.roles import Role, Scope
from console.management.commands.up import show_first_admin
from console.management.passwords import hand_out
from console.models import IdempotencyKey
from metaserver import queries
from metaserver.errors import ChangeRefused, Conflict, NotFound, Stale
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from tests.support.console.people import PASSWORD, TESTER, browser, machine, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def root() -> User:
    return person("root", Role.ADMIN)


# --- users ------------------------------------------------------------------------------------------------------------


def test_a_user_is_made_with_a_password_shown_once(root: User) -> None:
    create_team("shop", actor=TESTER)
    admin = browser(root)
    body = {"username": "ada", "role": "operator", "teams": ["shop"], "email": "Ada@Example.org", "reason": "new here"}
    plan = admin.post("/api/v1/users/?dry_run=true", body)
    assert plan.status_code == 200
    assert (plan.json()["password"], plan.json()["id"]) == (None, None)
    assert not User.objects.filter(username="ada").exists()

    made = admin.post("/api/v1/users/", body, headers={"Idempotency-Key": "make-ada"})
    assert made.status_code == 201
    password = made.json()["password"]
    assert len(password) >= 20
    user = User.objects.get(username="ada")
    assert user.check_password(password)
    assert made.json()["id"] == str(user.pk)
    assert made.json()["after"] == plan.json()["after"]
    again = admin.post("/api/v1/users/", body, headers={"Idempotency-Key": "make-ada"})
    assert (again.status_code, again.json()["password"]) == (201, None)
    assert password not in str(list(IdempotencyKey.objects.values()))
    assert password not in str(list(queries.audit_entries().values()))
    assert "password" not in str(list(queries.audit_entries().values()))

    row = admin.get(f"/api/v1/users/{user.pk}/").json()
    assert (row["teams"], row["email"], row["role"]) == (["shop"], "ada@example.org", "operator")
    assert (row["sessions"], row["tokens"], row["has_password"]) == (0, 0, True)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"role": "king"}, "role"),
        ({"teams": ["nowhere"]}, "teams"),
        ({"email": "no address"}, "email"),
        ({"first_name": "a\nb"}, "first_name"),
        ({"is_superuser": True}, "is_superuser"),
        ({"is_active": 1}, "is_active"),
    ],
)
def test_values_that_are_none_are_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ChangeRefused) as refused:
        services.create_user("ada", values, actor=TESTER)
    assert list(refused.value.fields) == [field]
    assert not User.objects.exists()


@pytest.mark.parametrize("name", ["", "Ada", "a@b", "a b", "x" * 61, "-a", "metaserver", "a\nb", "ａ"])
def test_names_that_could_be_taken_for_something_else_are_refused(name: str) -> None:
    with pytest.raises(ChangeRefused):
        services.create_user(name, {}, actor=TESTER)


@pytest.mark.parametrize("password", ["eleven-char", "qwertyuiop123", "x" * 201, "adalovelace-ada"])
def test_weak_passwords_are_refused(password: str) -> None:
    with pytest.raises(ChangeRefused):
        services.create_user("adalovelace", {}, password=password, actor=TESTER)


@pytest.mark.database
def test_names_and_addresses_are_one_users() -> None:
    person("ada", email="ada@example.org")
    for values in ({}, {"email": "ada@example.org"}):
        with pytest.raises(Conflict) as refused:
            services.create_user("ada", values, actor=TESTER)
        assert refused.value.code == "user.exists"
    with pytest.raises(Conflict) as refused:
        services.create_user("eve", {"email": "ADA@example.org"}, actor=TESTER)
    assert refused.value.code == "user.email_taken"


@pytest.mark.database
def test_a_change_of_what_somebody_else_changed_is_refused(root: User) -> None:
    user = person("ada")
    admin = browser(root)
    tag = admin.get(f"/api/v1/users/{user.pk}/").headers["ETag"]
    where = f"/api/v1/users/{user.pk}/"
    assert admin.patch(where, {"language": "zh"}, headers={"If-Match": tag}).status_code == 200
    assert admin.patch(where, {"language": "en"}, headers={"If-Match": tag}).status_code == 412
    with pytest.raises(Stale):
        services.update_user(user.pk, {"language": "en"}, actor=TESTER, expected_version=1)


@pytest.mark.database
def test_a_dry_run_changes_nothing_and_says_what_would() -> None:
    user = person("ada")
    before = queries.audit_entries().count()
    change = services.update_user(user.pk, {"role": "operator"}, actor=TESTER, dry_run=True)
    assert change.is_change
    assert change.after is not None
    assert change.after["role"] == "operator"
    user.refresh_from_db()
    assert (user.role, user.version) == ("viewer", 1)
    assert queries.audit_entries().count() == before


@pytest.mark.database
@pytest.mark.parametrize("values", [{"role": "operator"}, {"is_active": False}])
def test_the_last_active_administrator_stays(root: User, values: dict[str, Any]) -> None:
    gone = person("gone", Role.ADMIN)
    services.update_user(gone.pk, {"is_active": False}, actor=TESTER)
    with pytest.raises(Conflict) as refused:
        services.update_user(root.pk, values, actor=TESTER)
    assert refused.value.code == "user.last_admin"
    answer = browser(root).patch(f"/api/v1/users/{root.pk}/", values)
    assert answer.status_code == 409
    person("second", Role.ADMIN)
    services.update_user(root.pk, values, actor=TESTER)


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(
    "connection.vendor == 'sqlite'", reason="SQLite lets one writer in at a time; its test database is one connection's"
)
def test_of_two_administrators_who_demote_each_other_at_once_one_stays() -> None:
    people = [person("one", Role.ADMIN), person("two", Role.ADMIN)]
    start = threading.Barrier(2)
    refused: list[Exception] = []

    def demote(user: User) -> None:
        start.wait()
        try:
            services.update_user(user.pk, {"role": "viewer"}, actor=TESTER)
        except Conflict as error:
            refused.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=demote, args=(user,)) for user in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert User.objects.filter(role=Role.ADMIN).count() == 1
    assert connection.vendor != "sqlite"


@pytest.mark.database
def test_lists_are_filtered_and_take_as_many_queries_for_many_as_for_few(
    root: User, django_assert_max_num_queries: Any
) -> None:
    create_team("shop", actor=TESTER)
    for number in range(5):
        person(f"user{number}", Role.OPERATOR, ["shop"])
    admin = browser(root)
    with django_assert_max_num_queries(7):
        assert len(admin.get("/api/v1/users/").json()["results"]) == 6
    assert [row["username"] for row in admin.get("/api/v1/users/?role=admin").json()["results"]] == ["root"]
    assert len(admin.get("/api/v1/users/?team=shop&search=user1").json()["results"]) == 1
    page = admin.get("/api/v1/users/?limit=4&ordering=-username").json()
    assert [row["username"] for row in page["results"]] == ["user4", "user3", "user2", "user1"]
    rest = admin.get(f"/api/v1/users/?limit=4&ordering=-username&cursor={page['next']}").json()
    assert [row["username"] for row in rest["results"]] == ["user0", "root"]


def test_one_changes_ones_own_name_and_nothing_that_matters() -> None:
    user = person("ada")
    client = browser(user)
    for field, value in {"role": "admin", "teams": [], "is_active": False}.items():
        answer = client.patch("/api/v1/me/", {"first_name": "Eve", field: value})
        assert (answer.status_code, answer.json()["code"]) == (400, "request.unknown_field")
    assert client.patch("/api/v1/me/", {"first_name": "Ada"}).status_code == 200
    user.refresh_from_db()
    assert (user.first_name, user.role, user.is_active) == ("Ada", "viewer", True)


# --- first start ------------------------------------------------------------------------------------------------------


def test_the_first_administrator_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    password = services.ensure_first_admin()
    assert password is not None
    admin = User.objects.get()
    assert (admin.username, admin.role, admin.check_password(password)) == ("admin", "admin", True)
    assert services.ensure_first_admin() is None
    # Of two that start at once, the second one saw no user either.
    monkeypatch.setattr(type(User.objects.all()), "exists", lambda _: False)
    assert services.ensure_first_admin() is None
    monkeypatch.undo()
    assert User.objects.get().check_password(password)
    assert queries.audit_entries().filter(action="user.create").count() == 1


def test_a_terminal_shows_the_first_password_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_first_admin()
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if "password   " in line)
    assert User.objects.get().check_password(line.split()[-1])
    assert "shown only once" in said
    assert not settings.DATA_DIR.exists()
    show_first_admin()
    assert capsys.readouterr().out == ""


def test_a_log_gets_no_first_password_but_the_file_that_has_it(
    capsys: pytest.CaptureFixture[str], settings: Any, tmp_path: Path
) -> None:
    settings.DATA_DIR = tmp_path / "data"
    show_first_admin()
    said = capsys.readouterr().out
    file = settings.DATA_DIR / "initial_passwords"
    name, password = file.read_text().split()
    assert User.objects.get(username=name).check_password(password)
    assert password not in said
    assert f"password   in {file}\n" in said
    assert "Delete the file" in said
    assert (file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777) == (0o700, 0o600)


def test_a_file_of_passwords_has_the_last_one_of_each_user(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as out:
        for name, password in (("admin", "one"), ("demo", "two"), ("demo.er", "three"), ("demo", "four")):
            assert hand_out(name, password, out=out, data_dir=tmp_path) == f"in {tmp_path}/initial_passwords"
    assert (tmp_path / "initial_passwords").read_text() == "admin one\ndemo.er three\ndemo four\n"


def test_who_is_locked_out_gets_a_new_password_at_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    user = person("ada")
    window = browser(user)
    call_command("reset_password", "ada", "--reason", "forgot it")
    password = capsys.readouterr().out.split()[-1]
    user.refresh_from_db()
    assert user.check_password(password)
    assert not user.check_password(PASSWORD)
    assert window.get("/api/v1/me/").status_code == 401
    entry = queries.audit_entries().get(action="user.reset_password")
    assert (entry.actor, entry.target, entry.reason) == ("system", "ada", "forgot it")
    assert password not in str(entry.after)
    with pytest.raises(CommandError):
        call_command("reset_password", "nobody")


# --- teams ------------------------------------------------------------------------------------------------------------


@pytest.mark.database
def test_teams_and_who_is_in_them(root: User) -> None:
    ada, bob = person("ada"), person("bob")
    admin = browser(root)
    assert admin.post("/api/v1/teams/", {"name": "shop", "description": "sells"}).status_code == 201
    assert admin.post("/api/v1/teams/", {"name": "shop"}).status_code == 409
    where = "/api/v1/teams/shop/members/"
    assert admin.put(where, {"members": ["ada", "bob"]}).status_code == 200
    assert [row["username"] for row in admin.get(where).json()["results"]] == ["ada", "bob"]
    assert admin.put(where, {"members": ["ada", "nobody"]}).status_code == 400
    plan = admin.put(f"{where}?dry_run=true", {"members": ["ada"]}).json()
    assert (plan["before"], plan["after"]) == ({"members": ["ada", "bob"]}, {"members": ["ada"]})
    assert bob.teams.count() == 1
    assert admin.put(where, {"members": ["ada"]}).status_code == 200
    assert (ada.teams.count(), bob.teams.count()) == (1, 0)
    bob.refresh_from_db()
    assert bob.version == 3, "in and out again"
    row = admin.get("/api/v1/teams/").json()["results"][0]
    assert (row["members"], row["subjects"]) == (1, 0)
    create_subject("orders", {"owner": "shop"}, actor=TESTER)
    assert admin.delete("/api/v1/teams/shop/").json()["code"] == "team.owns"
    with pytest.raises(NotFound):
        services.set_members("nowhere", [], actor=TESTER)
    with pytest.raises(ChangeRefused):
        services.set_members("shop", [f"u{n}" for n in range(services.MEMBERS_MAX + 1)], actor=TESTER)


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_works_until_it_is_revoked(root: User) -> None:
    ada = person("ada", Role.OPERATOR)
    client = browser(ada)
    body = {"name": "deploys", "scopes": ["operate"], "expires_in_days": 30}
    assert client.post("/api/v1/tokens/?dry_run=true", body).json()["token"] is None
    made = client.post("/api/v1/tokens/", body, headers={"Idempotency-Key": "one"})
    assert made.status_code == 201
    token = made.json()["token"]
    assert client.post("/api/v1/tokens/", body, headers={"Idempotency-Key": "one"}).json()["token"] is None
    kept = str(list(ApiToken.objects.values())) + str(list(queries.audit_entries().values()))
    assert token not in kept + str(list(IdempotencyKey.objects.values()))

    from rest_framework.test import APIClient

    program = APIClient()
    program.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert program.post("/api/v1/subjects/", {"name": "orders"}).status_code == 201
    assert queries.audit_entries().get(action="subject.create").actor == f"ada (token {token[:12]})"
    assert program.post("/api/v1/tokens/", body).status_code == 403, "a token makes no tokens"
    row = client.get("/api/v1/tokens/").json()["results"][0]
    assert (row["prefix"], row["is_live"], row["scopes"]) == (token[:12], True, ["operate"])
    assert row["last_used_at"] is not None

    stranger = browser(person("eve", Role.OPERATOR))
    assert stranger.delete(f"/api/v1/tokens/{row['id']}/").status_code == 404
    assert stranger.get("/api/v1/tokens/?owner=ada").status_code == 403
    assert len(browser(root).get("/api/v1/tokens/?owner=ada&is_live=true").json()["results"]) == 1
    assert browser(root).delete(f"/api/v1/tokens/{row['id']}/").status_code == 200
    assert program.get("/api/v1/subjects/").status_code == 401
    assert client.get("/api/v1/tokens/").json()["results"][0]["is_live"] is False


def test_an_account_that_lacks_a_required_second_factor_creates_no_token(root: User, settings: Any) -> None:
    settings.MFA_REQUIRED = "all"
    body = {"name": "deploys", "scopes": ["read"], "expires_in_days": 365}
    for path in ("/api/v1/tokens/?dry_run=true", "/api/v1/tokens/"):
        answer = browser(root).post(path, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "token.second_factor_missing")
    with pytest.raises(CommandError, match="two-factor authentication"):
        call_command("make_token", "root", "--name", "deploys")
    assert not ApiToken.objects.exists()
    TOTP.activate(root, "JBSWY3DPEHPK3PXP")
    assert browser(root).post("/api/v1/tokens/", body).status_code == 201


def test_a_token_of_an_account_that_lacks_a_required_second_factor_is_refused(root: User, settings: Any) -> None:
    program = machine(root, Scope.ADMIN, Scope.MESSAGES)
    viewer = machine(person("vera"), Scope.READ)
    settings.MFA_REQUIRED = "admins"
    for method, path in (("get", "/api/v1/audit/"), ("get", "/api/v1/subjects/"), ("post", "/api/v1/subjects/")):
        answer = getattr(program, method)(path)
        assert (answer.status_code, answer.json()["code"]) == (403, "access.denied"), path
        assert "Two-factor authentication is required" in answer.json()["detail"]
    assert viewer.get("/api/v1/subjects/").status_code == 200, "only administrators need one"
    second_factor = TOTP.activate(root, "JBSWY3DPEHPK3PXP").instance
    assert program.get("/api/v1/audit/").status_code == 200
    second_factor.delete()
    assert program.get("/api/v1/audit/").status_code == 403, "removed again"


def test_a_token_ends_when_it_was_said_to(root: User) -> None:
    program = machine(root, Scope.READ)
    assert program.get("/api/v1/subjects/").status_code == 200
    ApiToken.objects.update(expires_at=timezone.now())
    answer = program.get("/api/v1/subjects/")
    assert (answer.status_code, answer.json()["code"]) == (401, "token.invalid")


def test_a_scope_bounds_what_the_owner_may(root: User) -> None:
    reads = machine(root, Scope.READ)
    assert reads.get("/api/v1/subjects/").status_code == 200
    assert reads.post("/api/v1/subjects/", {"name": "orders"}).status_code == 403
    assert reads.get("/api/v1/audit/").status_code == 403
    everything = machine(root, Scope.ADMIN)
    assert everything.get("/api/v1/audit/").status_code == 200
    assert everything.get("/api/v1/users/").status_code == 403, "no token changes accounts"


def test_a_token_has_a_year_at_most_and_no_more_than_its_owner() -> None:
    ada = person("ada")
    for name, scopes, lifetime, field in (
        ("n", ["read"], tokens.LIFETIME_MAX + timedelta(seconds=1), "expires_in_days"),
        ("n", ["read"], timedelta(0), "expires_in_days"),
        ("n", ["everything"], timedelta(days=1), "scopes"),
        ("n", [], timedelta(days=1), "scopes"),
        ("n", ["admin"], timedelta(days=1), "scopes"),
        ("a\nb", ["read"], timedelta(days=1), "name"),
    ):
        with pytest.raises(ChangeRefused) as refused:
            tokens.create_token(ada, name, scopes, lifetime, actor=TESTER)
        assert list(refused.value.fields) == [field]
    client = browser(ada)
    body = {"name": "n", "scopes": ["read"], "expires_in_days": 366}
    assert client.post("/api/v1/tokens/", body).status_code == 400
    assert client.post("/api/v1/tokens/", {**body, "expires_in_days": 365}).status_code == 201


def test_nobody_hoards_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    ada = person("ada")
    monkeypatch.setattr(tokens, "TOKENS_MAX", 2)
    for _ in range(2):
        tokens.create_token(ada, "n", ["read"], timedelta(days=1), actor=TESTER)
    with pytest.raises(Conflict):
        tokens.create_token(ada, "n", ["read"], timedelta(days=1), actor=TESTER)
    tokens.revoke_token(ApiToken.objects.filter(owner=ada)[0].pk, actor=TESTER)
    tokens.create_token(ada, "n", ["read"], timedelta(days=1), actor=TESTER)
