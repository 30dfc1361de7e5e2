"""Signing in at allauth's JSON addresses, as a browser's page does it: with cookies and the CSRF token."""

import io
import json
import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest
from allauth.core.internal import ratelimit
from allauth.mfa.totp.internal import auth as totp
from django.conf import settings as django_settings
from django.test import Client

from console.accounts.models import User, UserSession
from console.accounts.roles import Role
from metaserver import queries
from tests.support.console.people import PASSWORD, SIGN_IN, Page, person

pytestmark = pytest.mark.django_db
ELSEWHERE = {"REMOTE_ADDR": "198.51.100.7"}


@pytest.fixture
def ada() -> User:
    return person("ada", Role.OPERATOR, email="ada@example.org")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time that one-time codes are made and checked by."""
    now = SimpleNamespace(seconds=1_800_000_000)
    monkeypatch.setattr(totp, "time", SimpleNamespace(time=lambda: now.seconds))
    return now


def code(secret: str, clock: SimpleNamespace) -> str:
    return totp.format_hotp_value(totp.hotp_value(secret, clock.seconds // 30))


def enrol(page: Page, clock: SimpleNamespace) -> str:
    """Set up an authenticator app; its secret."""
    assert page.ask("POST", "auth/reauthenticate", {"password": PASSWORD}).status_code == 200
    offered = page.ask("GET", "account/authenticators/totp")
    assert offered.status_code == 404, offered.content
    secret: str = offered.json()["meta"]["secret"]
    assert "issuer=PyQMQ" in offered.json()["meta"]["totp_url"]
    made = page.ask("POST", "account/authenticators/totp", {"code": code(secret, clock)})
    assert made.status_code == 200, made.content
    return secret


@pytest.mark.database
def test_by_name_or_address_with_the_password(ada: User) -> None:
    for name in ({"username": "ada"}, {"username": "ADA"}, {"email": "Ada@example.org"}):
        page = Page()
        answer = page.sign_in(**name)
        assert answer.status_code == 200, answer.content
        me = page.ask("GET", "/api/v1/me/").json()
        assert (me["username"], me["role"], me["proved_recently"]) == ("ada", "operator", True)
        assert "change_accounts" not in me["rights"]
        assert "send" in me["rights"]


def test_a_wrong_password_and_an_unknown_name_are_answered_alike(ada: User) -> None:
    wrong, unknown = Page().sign_in("wrong"), Page().sign_in(username="nobody")
    assert wrong.status_code == unknown.status_code == 400
    assert wrong.json() == unknown.json()
    assert not UserSession.objects.exists()


def test_guessing_at_an_account_stops_after_five_in_a_minute_by_whatever_name_and_from_anywhere(ada: User) -> None:
    for attempt in range(5):
        name = {"username": "ada"} if attempt % 2 else {"email": "ada@example.org"}
        answer = Page(REMOTE_ADDR=f"198.51.100.{attempt}").sign_in("wrong", **name)
        assert answer.json()["errors"][0]["code"] != "too_many_login_attempts"
    for name in ({"username": "ada"}, {"email": "ada@example.org"}, {"username": "ada@example.org"}):
        answer = Page(**ELSEWHERE).sign_in(PASSWORD, **name)
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["code"] == "too_many_login_attempts"
    person("bob")
    assert Page(**ELSEWHERE).sign_in(username="bob").status_code == 200


def test_a_new_host_header_is_no_new_chance(ada: User) -> None:
    for attempt in range(5):
        answer = Page(HTTP_HOST=f"localhost:{8000 + attempt}").sign_in("wrong")
        assert answer.json()["errors"][0]["code"] == "username_password_mismatch"
    assert Page(HTTP_HOST="127.0.0.1:9").sign_in().json()["errors"][0]["code"] == "too_many_login_attempts"


def test_guessing_from_an_address_stops_after_twenty_in_a_minute(ada: User) -> None:
    for attempt in range(20):
        answer = Page(**ELSEWHERE).sign_in("wrong", username=f"guess{attempt}")
        assert answer.json()["errors"][0]["code"] != "too_many_login_attempts"
    assert Page(**ELSEWHERE).sign_in().json()["errors"][0]["code"] == "too_many_login_attempts"
    assert Page(REMOTE_ADDR="203.0.113.9").sign_in().status_code == 200


def test_the_twenty_first_guess_in_a_quarter_of_an_hour_is_refused_however_slowly(
    ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = SimpleNamespace(seconds=1_800_000_000.0)
    monkeypatch.setattr(ratelimit, "time", SimpleNamespace(time=lambda: now.seconds, monotonic=time.monotonic))
    for attempt in range(20):
        answer = Page(REMOTE_ADDR=f"198.51.100.{attempt}").sign_in("wrong")
        assert answer.json()["errors"][0]["code"] == "username_password_mismatch", attempt
        now.seconds += 20  # three a minute: fewer than the limit of five
    answer = Page(REMOTE_ADDR="203.0.113.9").sign_in()
    assert answer.status_code == 400, "the right password ends it"
    assert answer.json()["errors"][0]["code"] == "too_many_login_attempts"
    now.seconds += 900
    assert Page(REMOTE_ADDR="203.0.113.9").sign_in().status_code == 200


def test_one_time_codes_from_setting_them_up_to_signing_in(
    ada: User, clock: SimpleNamespace, django_capture_on_commit_callbacks: Any
) -> None:
    page = Page()
    page.sign_in()
    with django_capture_on_commit_callbacks(execute=True):
        secret = enrol(page, clock)
    assert page.ask("GET", "/api/v1/me/").json()["has_second_factor"] is True

    clock.seconds += 30
    fresh = Page()
    answer = fresh.sign_in()
    assert answer.status_code == 401
    assert any(flow["id"] == "mfa_authenticate" for flow in answer.json()["data"]["flows"])
    assert fresh.ask("GET", "/api/v1/me/").status_code == 401, "the password alone signs nobody in"
    assert fresh.ask("POST", "auth/2fa/authenticate", {"code": "000000"}).status_code == 400
    given = code(secret, clock)
    assert fresh.ask("POST", "auth/2fa/authenticate", {"code": given}).status_code == 200
    assert fresh.ask("GET", "/api/v1/me/").status_code == 200

    actions = list(queries.audit_entries().filter(target="ada").values_list("action", flat=True))
    assert actions.count("user.second_factor_add") == 2, "the app and the recovery codes"


@pytest.mark.database
def test_a_code_that_was_used_is_refused(ada: User, clock: SimpleNamespace) -> None:
    page = Page()
    page.sign_in()
    secret = enrol(page, clock)
    clock.seconds += 30
    used = code(secret, clock)
    for expected in (200, 400):
        fresh = Page()
        fresh.sign_in()
        assert fresh.ask("POST", "auth/2fa/authenticate", {"code": used}).status_code == expected
    clock.seconds += 30
    assert fresh.ask("POST", "auth/2fa/authenticate", {"code": used}).status_code == 400
    assert fresh.ask("POST", "auth/2fa/authenticate", {"code": code(secret, clock)}).status_code == 200


def test_the_code_that_activated_the_app_is_used(
    ada: User, clock: SimpleNamespace, django_capture_on_commit_callbacks: Any
) -> None:
    page = Page()
    page.sign_in()
    with django_capture_on_commit_callbacks(execute=True):
        secret = enrol(page, clock)
    fresh = Page()
    assert fresh.sign_in().status_code == 401
    assert fresh.ask("POST", "auth/2fa/authenticate", {"code": code(secret, clock)}).status_code == 400
    assert page.ask("POST", "auth/2fa/reauthenticate", {"code": code(secret, clock)}).status_code == 400
    clock.seconds += 30
    assert fresh.ask("POST", "auth/2fa/authenticate", {"code": code(secret, clock)}).status_code == 200


@pytest.mark.database
def test_a_recovery_code_works_once(ada: User, clock: SimpleNamespace) -> None:
    page = Page()
    page.sign_in()
    enrol(page, clock)
    codes = page.ask("GET", "account/authenticators/recovery-codes").json()["data"]["unused_codes"]
    assert len(codes) == 10
    for expected in (200, 400):
        fresh = Page()
        fresh.sign_in()
        assert fresh.ask("POST", "auth/2fa/authenticate", {"code": codes[0]}).status_code == expected


def test_the_secret_of_codes_is_sealed_and_opens_with_an_older_key(
    ada: User, clock: SimpleNamespace, settings: Any
) -> None:
    from allauth.mfa.models import Authenticator
    from allauth.mfa.utils import decrypt

    page = Page()
    page.sign_in()
    secret = enrol(page, clock)
    kept = Authenticator.objects.get(user=ada, type="totp").data["secret"]
    assert secret not in kept
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key, thirty-two characters and more"
    assert decrypt(kept) == secret
    settings.SECRET_KEY_FALLBACKS = []
    from django.core.exceptions import PermissionDenied

    with pytest.raises(PermissionDenied):
        decrypt(kept)


def test_setting_up_codes_takes_the_password_again(ada: User, clock: SimpleNamespace) -> None:
    page = Page()
    page.sign_in()
    secret = page.ask("GET", "account/authenticators/totp").json()["meta"]["secret"]
    answer = page.ask("POST", "account/authenticators/totp", {"code": code(secret, clock)})
    assert answer.status_code == 401
    assert any(flow["id"] == "reauthenticate" for flow in answer.json()["data"]["flows"])


@pytest.mark.parametrize(
    ("demanded", "role", "is_held_up"),
    [
        ("off", Role.ADMIN, False),
        ("admins", Role.OPERATOR, False),
        ("admins", Role.ADMIN, True),
        ("all", Role.VIEWER, True),
    ],
)
def test_a_demanded_second_factor_holds_up_whoever_lacks_it(
    demanded: str, role: Role, is_held_up: bool, settings: Any, clock: SimpleNamespace
) -> None:
    settings.MFA_REQUIRED = demanded
    person("ada", role)
    page = Page()
    page.sign_in()
    me = page.ask("GET", "/api/v1/me/").json()
    assert me["lacks_second_factor"] is is_held_up
    answer = page.ask("GET", "/api/v1/subjects/")
    assert answer.status_code == (403 if is_held_up else 200)
    if is_held_up:
        assert "Two-factor authentication is required" in answer.json()["detail"]
        enrol(page, clock)
        assert page.ask("GET", "/api/v1/subjects/").status_code == 200


def test_changing_the_password_ends_the_other_sessions_and_is_audited(ada: User) -> None:
    here, there = Page(), Page()
    here.sign_in()
    there.sign_in()
    short = {"current_password": PASSWORD, "new_password": "eleven-char"}
    assert here.ask("POST", "account/password/change", short).status_code == 400
    common = {"current_password": PASSWORD, "new_password": "qwertyuiop123"}
    assert here.ask("POST", "account/password/change", common).status_code == 400
    body = {"current_password": "wrong", "new_password": "a-quite-new-one-77"}
    assert here.ask("POST", "account/password/change", body).status_code == 400
    answer = here.ask("POST", "account/password/change", {**body, "current_password": PASSWORD})
    assert answer.status_code == 200, answer.content
    assert here.ask("GET", "/api/v1/me/").status_code == 200
    assert there.ask("GET", "/api/v1/me/").status_code == 401
    entry = queries.audit_entries().get(action="user.password")
    assert (entry.actor, entry.target, entry.after) == ("ada", "ada", {"sessions_ended": 1})
    ada.refresh_from_db()
    assert ada.password.startswith("argon2")


def test_signing_out_ends_the_session(ada: User) -> None:
    page = Page()
    page.sign_in()
    assert UserSession.objects.count() == 1
    assert page.ask("DELETE", "auth/session").status_code == 401
    assert page.ask("GET", "/api/v1/me/").status_code == 401
    assert UserSession.objects.count() == 0


@pytest.mark.parametrize(
    "path",
    [
        "/_allauth/browser/v1/auth/signup",
        "/_allauth/browser/v1/auth/provider/signup",
        "/_allauth/browser/v1/auth/provider/token",
        "/_allauth/browser/v1/auth/password/request",
        "/_allauth/browser/v1/account/email",
        "/_allauth/browser/v1/account/phone",
        "/_allauth/app/v1/auth/login",
        "/accounts/signup/",
        "/accounts/login/",
        "/accounts/password/reset/",
        "/accounts/2fa/",
    ],
)
def test_doors_that_are_not_used_are_shut(path: str) -> None:
    for method in ("GET", "POST"):
        answer = Client(raise_request_exception=False).generic(method, path, "{}", content_type="application/json")
        assert answer.status_code == 404, f"{method} {path}"


def test_nobody_signs_up(ada: User) -> None:
    from allauth.account.adapter import get_adapter
    from django.test import RequestFactory

    assert not get_adapter().is_open_for_signup(RequestFactory().get("/"))


def test_another_sites_page_can_neither_sign_in_nor_change(ada: User) -> None:
    page = Page()
    page.sign_in()
    body = json.dumps({"first_name": "Eve"})
    # The cookies come along, the token does not.
    answer = page.client.patch("/api/v1/me/", body, content_type="application/json")
    assert answer.status_code == 403
    assert "CSRF" in answer.json()["detail"]
    ada.refresh_from_db()
    assert ada.first_name == ""

    login = json.dumps({"username": "ada", "password": PASSWORD})
    victim = Client(enforce_csrf_checks=True)
    answer = victim.post(f"{SIGN_IN}/auth/login", login, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "access.csrf")
    assert UserSession.objects.count() == 1

    token = page.client.cookies[django_settings.CSRF_COOKIE_NAME].value
    foreign = {"X-CSRFToken": token, "Origin": "https://evil.example"}
    answer = page.client.patch("/api/v1/me/", body, content_type="application/json", headers=foreign)
    assert (answer.status_code, answer.json()["code"]) == (403, "access.csrf")
    assert "QMQ_TRUSTED_ORIGINS" in answer.json()["detail"]
    answer = victim.post(f"{SIGN_IN}/auth/login", login, content_type="application/json", headers=foreign)
    assert (answer.status_code, answer.json()["code"]) == (403, "access.csrf")
    assert "QMQ_TRUSTED_ORIGINS" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_json_in_the_clothes_of_a_form_is_refused(ada: User, kind: str) -> None:
    page = Page()
    token = page.client.cookies[django_settings.CSRF_COOKIE_NAME].value
    login = json.dumps({"username": "ada", "password": PASSWORD})
    answer = page.client.generic("POST", f"{SIGN_IN}/auth/login", login, kind, headers={"X-CSRFToken": token})
    assert answer.status_code == 415
    page.sign_in()
    token = page.client.cookies[django_settings.CSRF_COOKIE_NAME].value
    answer = page.client.generic("PATCH", "/api/v1/me/", "{}", kind, headers={"X-CSRFToken": token})
    assert answer.status_code == 415


def test_a_name_with_line_ends_makes_one_log_line(ada: User) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    plain = dict(django_settings.LOGGING["formatters"]["plain"])
    from console.http.requests import OneLineFormatter, RequestIdFilter

    assert plain["class"] == "console.http.requests.OneLineFormatter"
    handler.setFormatter(OneLineFormatter(plain["format"]))
    handler.addFilter(RequestIdFilter())
    logger = logging.getLogger("qmq")
    logger.addHandler(handler)
    forged = "2026-11-21 12:00:00 WARNING qmq.accounts [-] admin signed in"
    try:
        Page().sign_in("wrong", username=f"eve\r\n{forged}")
        logging.getLogger("qmq.test").warning("asked by %s", f"eve\r\n{forged}")
        logging.getLogger("qmq.test").warning(f"asked by eve\u2028{forged}")
    finally:
        logger.removeHandler(handler)
    lines = written.getvalue().splitlines()
    assert len(lines) == 3
    assert not any(line.startswith("2026-11-21 12:00:00") for line in lines)
    assert "\\r\\n2026-11-21 12:00:00" in lines[1]
