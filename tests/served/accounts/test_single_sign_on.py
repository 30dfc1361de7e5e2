"""Signing in at an identity provider: the whole way, over HTTP, with a real provider's shape of answers."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.conf import settings as django_settings
from django.test import Client

from console.accounts.models import User
from console.accounts.roles import Role
from metaserver import queries
from tests.support.console.identity_provider import IdentityProvider
from tests.support.console.people import PASSWORD, person

pytestmark = pytest.mark.django_db


@pytest.fixture
def provider(settings: Any) -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        app = {
            "provider_id": "sso", "name": "Example", "client_id": "qmq", "secret": "s",
            "settings": {"server_url": running.issuer},
        }  # fmt: skip
        settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": [app]}}
        running.claims = {"sub": "42", "preferred_username": "ada", "email": "ada@example.org", "email_verified": True}
        yield running


def sign_in(provider: IdentityProvider, client: Client | None = None, process: str = "login") -> tuple[Client, Any]:
    """Go to the provider and come back; the browser, and the answer it comes back to."""
    client = client or Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.get("/_allauth/browser/v1/config")
    form = {
        "provider": "sso", "process": process, "callback_url": "/",
        "csrfmiddlewaretoken": client.cookies[django_settings.CSRF_COOKIE_NAME].value,
    }  # fmt: skip
    away = client.post("/_allauth/browser/v1/auth/provider/redirect", form)
    assert away.status_code == 302, away.content
    assert away.headers["Location"].startswith(f"{provider.issuer}/authorize?")
    asked = {key: values[0] for key, values in parse_qs(urlsplit(away.headers["Location"]).query).items()}
    assert (asked["client_id"], asked["code_challenge_method"]) == ("qmq", "S256")
    provider.code_challenge, provider.nonce = asked["code_challenge"], asked.get("nonce")
    back = client.get("/accounts/oidc/sso/login/callback/", {"code": "granted", "state": asked["state"]})
    return client, back


def test_the_console_offers_it(provider: IdentityProvider) -> None:
    config = Client().get("/_allauth/browser/v1/config").json()["data"]
    assert [(entry["id"], entry["name"]) for entry in config["socialaccount"]["providers"]] == [("sso", "Example")]


def test_who_comes_first_time_becomes_a_viewer_without_a_password(provider: IdentityProvider) -> None:
    client, back = sign_in(provider)
    assert (back.status_code, back.headers["Location"]) == (302, "/")
    user = User.objects.get()
    assert (user.username, user.email, user.role) == ("ada", "ada@example.org", "viewer")
    assert not user.has_usable_password()
    me = client.get("/api/v1/me/").json()
    assert (me["role"], me["has_password"]) == ("viewer", False)
    entry = queries.audit_entries().get(action="user.create")
    assert (entry.actor, entry.target) == ("single sign-on", "ada")
    # Again: the same user, whose role here is not touched without a map.
    User.objects.update(role=Role.OPERATOR)
    sign_in(provider)
    assert User.objects.get().role == "operator"


def test_the_claim_says_the_role_each_time(provider: IdentityProvider, settings: Any) -> None:
    settings.OIDC_ROLE_CLAIM = "groups"
    settings.OIDC_ROLES = {"qmq-ops": "operator", "qmq-admins": "admin"}
    person("root", Role.ADMIN)
    for groups, role in ((["qmq-ops"], "operator"), (["x", "qmq-ops", "qmq-admins"], "admin"), ([], "viewer")):
        provider.claims["groups"] = groups
        client, _ = sign_in(provider)
        assert client.get("/api/v1/me/").json()["role"] == role
    actions = queries.audit_entries().filter(actor="single sign-on").values_list("action", flat=True)
    assert sorted(actions) == ["user.create", "user.role", "user.role"]


def test_the_claim_does_not_take_the_last_administrator_away(provider: IdentityProvider, settings: Any) -> None:
    settings.OIDC_ROLE_CLAIM, settings.OIDC_ROLES = "groups", {"qmq-admins": "admin"}
    provider.claims["groups"] = ["qmq-admins"]
    sign_in(provider)
    provider.claims["groups"] = []
    client, _ = sign_in(provider)
    assert client.get("/api/v1/me/").json()["role"] == "admin"


def test_nobody_becomes_a_local_user_by_having_the_address(provider: IdentityProvider) -> None:
    person("root", Role.ADMIN, email="ada@example.org")
    client, back = sign_in(provider)
    assert (back.status_code, urlsplit(back.headers["Location"]).query) == (
        302,
        "error=permission_denied&error_process=login",
    )
    assert client.get("/api/v1/me/").status_code == 401
    assert User.objects.count() == 1


@pytest.mark.parametrize("name", ["root", "ROOT", "a b", "metaserver", "x@example.org", ""])
def test_a_name_that_is_taken_or_none_becomes_another(provider: IdentityProvider, name: str) -> None:
    person("root", Role.ADMIN)
    provider.claims["preferred_username"] = name
    client, _ = sign_in(provider)
    me = client.get("/api/v1/me/").json()
    assert me["role"] == "viewer"
    assert me["username"] not in ("root", "metaserver", "")
    assert "@" not in me["username"]
    assert " " not in me["username"]


def test_a_disabled_user_does_not_come_in_by_the_provider(provider: IdentityProvider) -> None:
    sign_in(provider)
    User.objects.update(is_active=False)
    client, _ = sign_in(provider)
    assert client.get("/api/v1/me/").status_code == 401


def test_an_answer_nobody_asked_for_is_refused(provider: IdentityProvider) -> None:
    client = Client(raise_request_exception=False)
    back = client.get("/accounts/oidc/sso/login/callback/", {"code": "granted", "state": "made-up"})
    assert back.status_code in (302, 401)
    assert client.get("/api/v1/me/").status_code == 401
    assert not User.objects.exists()


def test_who_signs_in_there_gets_no_password_here(provider: IdentityProvider) -> None:
    client, _ = sign_in(provider)
    token = client.cookies[django_settings.CSRF_COOKIE_NAME].value
    answer = client.post(
        "/_allauth/browser/v1/account/password/change",
        {"new_password": "a-quite-new-one-77"},
        content_type="application/json",
        headers={"X-CSRFToken": token},
    )
    assert answer.status_code in (401, 403)
    assert not User.objects.get().has_usable_password()


def test_allauths_own_page_before_the_provider_is_not_served(provider: IdentityProvider) -> None:
    answer = Client(raise_request_exception=False).get("/accounts/oidc/sso/login/")
    assert (answer.status_code, answer.json()["code"]) == (404, "request.not_found")


def test_a_provider_that_does_not_answer_leads_back_to_where_to_sign_in(
    provider: IdentityProvider, settings: Any
) -> None:
    app = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"][0]
    app["settings"]["server_url"] = "http://127.0.0.1:9"
    client = Client(raise_request_exception=False)
    form = {"provider": "sso", "process": "login", "callback_url": "/"}
    answer = client.post("/_allauth/browser/v1/auth/provider/redirect", form)
    assert (answer.status_code, answer.headers["Location"]) == (302, "/sign-in?error=provider_away")


def test_a_signed_in_user_takes_the_identity_as_a_second_way_in(provider: IdentityProvider) -> None:
    root = person("root", Role.ADMIN, email="ada@example.org")
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(root)
    client.get("/_allauth/browser/v1/config")

    _, back = sign_in(provider, client, "connect")
    assert "error=reauthentication_required" in back.headers["Location"]
    token = client.cookies[django_settings.CSRF_COOKIE_NAME].value
    proved = client.post(
        "/_allauth/browser/v1/auth/reauthenticate",
        {"password": PASSWORD},
        content_type="application/json",
        headers={"X-CSRFToken": token},
    )
    assert proved.status_code == 200
    _, back = sign_in(provider, client, "connect")
    assert back.headers["Location"] == "/"
    entry = queries.audit_entries().get(action="user.connect")
    assert (entry.actor, entry.after) == ("root", {"provider": "sso", "uid": "42"})

    fresh, _ = sign_in(provider)
    assert fresh.get("/api/v1/me/").json()["username"] == "root"
    assert User.objects.count() == 1


def test_a_page_is_told_where_to_go_for_its_policy_lets_no_form_lead_away(provider: IdentityProvider) -> None:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.get("/_allauth/browser/v1/config")
    token = client.cookies[django_settings.CSRF_COOKIE_NAME].value
    form = {"provider": "sso", "process": "login", "callback_url": "/sign-in?back=sso&next=%2Fgroups"}
    headers = {"Accept": "application/json"}
    address = "/_allauth/browser/v1/auth/provider/redirect"
    assert client.post(address, form, headers=headers).status_code == 403, "without the CSRF token"
    told = client.post(address, form, headers={**headers, "X-CSRFToken": token})
    assert (told.status_code, told.headers["Cache-Control"]) == (200, "no-store")
    assert told.json()["location"].startswith(f"{provider.issuer}/authorize?")
    elsewhere = client.post(
        address, {**form, "callback_url": "https://evil.example/"}, headers={**headers, "X-CSRFToken": token}
    )
    back = urlsplit(elsewhere.json()["location"])
    assert (back.path, back.query) == ("/sign-in", "error=unknown&error_process=login")


def test_after_the_provider_the_second_factor_is_asked_for(provider: IdentityProvider) -> None:
    from allauth.mfa.models import Authenticator

    sign_in(provider)
    Authenticator.objects.create(user=User.objects.get(), type="totp", data={"secret": "-"})
    client, back = sign_in(provider)
    assert back.headers["Location"] == "/"
    assert client.get("/api/v1/me/").status_code == 401
    session = client.get("/_allauth/browser/v1/auth/session")
    pending = [flow["id"] for flow in session.json()["data"]["flows"] if flow.get("is_pending")]
    assert (session.status_code, pending) == (401, ["mfa_authenticate"])
