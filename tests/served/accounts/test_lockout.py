"""Limits on failed passwords and codes: guessing is bounded, and strangers lock nobody out."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from allauth.core.internal import ratelimit
from allauth.mfa.totp.internal import auth as totp
from django.conf import settings as django_settings
from django.core import signing
from django.core.management import CommandError, call_command
from django.utils import timezone

from console.accounts import known, services
from console.accounts.models import KnownAddress, User
from console.accounts.roles import Role
from metaserver import queries
from tests.support.console.people import PASSWORD, TESTER, Page, browser, person

pytestmark = pytest.mark.django_db
HOME, OFFICE, ELSEWHERE = "198.51.100.7", "198.51.100.8", "203.0.113.9"
SECRET = "JBSWY3DPEHPK3PXP"
NEW_PASSWORD = "eight-yellow-bottles"


@pytest.fixture
def ada() -> User:
    return person("ada", Role.OPERATOR, email="ada@example.org")


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time that attempts are counted, codes made and cookies signed by."""
    found = SimpleNamespace(seconds=1_800_000_000.0)
    clock = SimpleNamespace(time=lambda: found.seconds, monotonic=time.monotonic)
    for module in (ratelimit, totp, signing):
        monkeypatch.setattr(module, "time", clock)
    return found


def at(address: str) -> Page:
    return Page(REMOTE_ADDR=address)


def moved(page: Page, address: str) -> Page:
    """The same browser at another address."""
    page.client.defaults["REMOTE_ADDR"] = address
    return page


def error(answer: Any) -> str:
    code: str = answer.json()["errors"][0]["code"]
    return code


def known_browser(address: str = HOME) -> Page:
    """A browser in which ada signed in and out."""
    page = at(address)
    assert page.sign_in().status_code == 200
    page.ask("DELETE", "auth/session")
    return page


def attack(guesses: int = 30) -> None:
    """Wrong passwords from as many addresses, until the account is locked for strangers."""
    for number in range(guesses):
        at(f"192.0.2.{number}").sign_in("wrong")
    assert error(at("192.0.2.200").sign_in()) == "too_many_login_attempts"


# --- passwords ----------------------------------------------------------------------------------------------------------


def test_strangers_do_not_lock_out_a_known_browser(ada: User) -> None:
    page = known_browser()
    attack()
    assert moved(page, ELSEWHERE).sign_in().status_code == 200


def test_strangers_do_not_lock_out_a_known_address(ada: User) -> None:
    known_browser()
    attack()
    assert at(HOME).sign_in().status_code == 200
    assert error(at(ELSEWHERE).sign_in()) == "too_many_login_attempts"


def test_strangers_do_not_lock_an_open_session(ada: User) -> None:
    page = at(HOME)
    page.sign_in()
    attack()
    assert moved(page, ELSEWHERE).ask("POST", "auth/reauthenticate", {"password": PASSWORD}).status_code == 200


@pytest.mark.parametrize("is_known_browser", [True, False], ids=["browser", "address"])
def test_a_known_place_has_a_limit_of_its_own(ada: User, now: SimpleNamespace, is_known_browser: bool) -> None:
    page = known_browser()
    other = known_browser(OFFICE)
    guess = moved(page, ELSEWHERE) if is_known_browser else at(HOME)
    for _ in range(10):
        assert error(guess.sign_in("wrong")) == "username_password_mismatch"
    assert error(guess.sign_in()) == "too_many_login_attempts"
    assert other.sign_in().status_code == 200
    assert at("192.0.2.1").sign_in().status_code == 200, "strangers have theirs"
    for _ in range(3):
        now.seconds += 61
        for _ in range(10):
            assert error(guess.sign_in("wrong")) == "username_password_mismatch"
    now.seconds += 61
    assert error(guess.sign_in()) == "too_many_login_attempts", "40 in a quarter of an hour"
    now.seconds += 900
    assert guess.sign_in().status_code == 200


def test_an_open_session_has_a_limit_of_its_own(ada: User) -> None:
    page, other = at(HOME), at(HOME)
    page.sign_in()
    other.sign_in()
    for _ in range(5):
        answer = page.ask("POST", "auth/reauthenticate", {"password": "wrong"})
        assert error(answer) == "incorrect_password"
    assert error(page.ask("POST", "auth/reauthenticate", {"password": PASSWORD})) == "too_many_login_attempts"
    assert other.ask("POST", "auth/reauthenticate", {"password": PASSWORD}).status_code == 200


def test_a_spray_from_one_address_meets_the_limit_of_the_address_but_not_a_known_browser(ada: User) -> None:
    page = known_browser()
    for number in range(20):
        at(HOME).sign_in("wrong", username=f"guess{number}")
    assert error(at(HOME).sign_in()) == "too_many_login_attempts"
    assert page.sign_in().status_code == 200


def test_an_ipv4_address_seen_on_a_dual_stack_socket_is_itself(ada: User) -> None:
    for number in range(20):
        at(f"::ffff:{HOME}").sign_in("wrong", username=f"guess{number}")
    assert error(at(HOME).sign_in()) == "too_many_login_attempts"
    assert at(f"::ffff:{OFFICE}").sign_in().status_code == 200
    assert KnownAddress.objects.get().address == OFFICE


# --- known browsers -----------------------------------------------------------------------------------------------------


def cookie_of(page: Page) -> Any:
    return page.client.cookies[django_settings.DEVICE_COOKIE_NAME]


def test_the_cookie_is_set_by_a_successful_sign_in_only(ada: User) -> None:
    page = at(HOME)
    assert page.sign_in("wrong").status_code == 400
    assert django_settings.DEVICE_COOKIE_NAME not in page.client.cookies
    page.sign_in()
    cookie = cookie_of(page)
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/")
    assert cookie["max-age"] == known.KNOWN_FOR.total_seconds()
    page.client.cookies.pop(django_settings.DEVICE_COOKIE_NAME)
    page.ask("GET", "/api/v1/me/")
    assert django_settings.DEVICE_COOKIE_NAME not in page.client.cookies


def test_the_password_alone_makes_nothing_known(ada: User) -> None:
    totp.TOTP.activate(ada, SECRET)
    page = at(HOME)
    assert page.sign_in().status_code == 401
    assert django_settings.DEVICE_COOKIE_NAME not in page.client.cookies
    assert not KnownAddress.objects.exists()


def test_a_cookie_of_another_user_or_a_forged_one_helps_nothing(ada: User) -> None:
    person("eve")
    eve = at(ELSEWHERE)
    eve.sign_in(username="eve")
    eve.ask("DELETE", "auth/session")
    page = known_browser()
    attack()
    assert error(moved(eve, "192.0.2.201").sign_in()) == "too_many_login_attempts"
    value = cookie_of(page).value
    for forged in (
        value[:-1] + ("A" if value[-1] != "A" else "B"),
        signing.dumps([ada.pk, "n", "m"]),
        "x",
        "[]",
        "1:2:3",
    ):
        fresh = at("192.0.2.202")
        fresh.client.cookies[django_settings.DEVICE_COOKIE_NAME] = forged
        assert error(fresh.sign_in()) == "too_many_login_attempts", forged


def test_a_browser_is_known_for_ninety_days(ada: User, now: SimpleNamespace) -> None:
    page = known_browser()
    KnownAddress.objects.update(seen_at=timezone.now() - known.KNOWN_FOR)
    now.seconds += known.KNOWN_FOR.total_seconds() + 1
    attack()
    assert error(page.sign_in()) == "too_many_login_attempts"


@pytest.mark.parametrize("is_reset", [True, False], ids=["reset", "changed"])
def test_a_new_password_makes_browsers_and_addresses_unknown(ada: User, is_reset: bool) -> None:
    thief = known_browser(ELSEWHERE)
    password = NEW_PASSWORD
    page = at(HOME)
    page.sign_in()
    if is_reset:
        password = str(services.reset_password("ada", actor=TESTER).secret)
    else:
        body = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
        assert page.ask("POST", "account/password/change", body).status_code == 200
        page.ask("DELETE", "auth/session")
    attack()
    assert error(thief.sign_in(password)) == "too_many_login_attempts"
    if not is_reset:
        assert moved(page, OFFICE).sign_in(password).status_code == 200, "the browser that changed it is known"
        assert at(HOME).sign_in(password).status_code == 200, "and its address"


@pytest.mark.database
def test_the_ten_newest_addresses_are_known(ada: User) -> None:
    for number in range(known.ADDRESSES_MAX + 2):
        at(f"198.51.100.{number}").sign_in()
    at("198.51.100.2").sign_in()
    found = KnownAddress.objects.order_by("-seen_at").values_list("address", flat=True)
    assert found[0] == "198.51.100.2"
    assert set(found) == {f"198.51.100.{number}" for number in range(2, known.ADDRESSES_MAX + 2)}


# --- codes --------------------------------------------------------------------------------------------------------------


def code(now: SimpleNamespace) -> str:
    return totp.format_hotp_value(totp.hotp_value(SECRET, int(now.seconds) // 30))


def give_code(page: Page, given: str) -> Any:
    assert page.sign_in().status_code == 401
    return page.ask("POST", "auth/2fa/authenticate", {"code": given})


def test_codes_are_limited_and_who_knows_the_password_locks_neither_a_known_browser_nor_a_session(
    ada: User, now: SimpleNamespace
) -> None:
    inside, page = at(HOME), known_browser()
    inside.sign_in()
    totp.TOTP.activate(ada, SECRET)
    for number in range(5):
        assert error(give_code(at(f"192.0.2.{number}"), "000000")) == "incorrect_code"
    assert error(give_code(at(ELSEWHERE), code(now))) == "too_many_login_attempts"
    answer = inside.ask("POST", "auth/2fa/reauthenticate", {"code": code(now)})
    assert answer.status_code == 200, answer.content
    now.seconds += 30
    assert give_code(moved(page, OFFICE), code(now)).status_code == 200
    for _ in range(5):
        assert error(inside.ask("POST", "auth/2fa/reauthenticate", {"code": "000000"})) == "incorrect_code"
    now.seconds += 1
    assert error(inside.ask("POST", "auth/2fa/reauthenticate", {"code": code(now)})) == "too_many_login_attempts"


def test_the_twenty_first_code_in_a_quarter_of_an_hour_is_refused(ada: User, now: SimpleNamespace) -> None:
    totp.TOTP.activate(ada, SECRET)
    for number in range(20):
        assert error(give_code(at(f"192.0.2.{number}"), "000000")) == "incorrect_code"
        now.seconds += 20
    assert error(give_code(at(ELSEWHERE), code(now))) == "too_many_login_attempts"


# --- ending a lock ------------------------------------------------------------------------------------------------------


def test_administrators_end_a_lock(ada: User, now: SimpleNamespace) -> None:
    admin = browser(person("root", Role.ADMIN))
    path = f"/api/v1/users/{ada.pk}/unlock/"
    assert browser(ada).post(path).status_code == 403
    assert admin.post(path).json()["is_change"] is False, "it was not locked"
    assert admin.post("/api/v1/users/999999/unlock/").status_code == 404
    attack()
    plan = admin.post(f"{path}?dry_run=true").json()
    assert (plan["before"], plan["after"]) == ({"is_locked": True}, {"is_locked": False})
    assert error(at(ELSEWHERE).sign_in()) == "too_many_login_attempts"
    assert admin.post(path, {"reason": "she called"}).json()["is_change"] is True
    assert at(ELSEWHERE).sign_in().status_code == 200
    entry = queries.audit_entries().get(action="user.unlock")
    assert (entry.actor, entry.target, entry.reason, entry.before) == ("root", "ada", "she called", {"is_locked": True})
    assert error(at("192.0.2.203").sign_in("wrong")) == "username_password_mismatch", "and guesses count anew"


def test_a_lock_of_codes_ends_too(ada: User, now: SimpleNamespace) -> None:
    totp.TOTP.activate(ada, SECRET)
    for number in range(6):
        give_code(at(f"192.0.2.{number}"), "000000")
    assert services.unlock_user(ada.pk, actor=TESTER).is_change
    assert give_code(at(ELSEWHERE), code(now)).status_code == 200


def test_an_address_over_its_limit_locks_no_account(ada: User) -> None:
    for number in range(20):
        at(HOME).sign_in("wrong", username=f"guess{number}")
    assert error(at(HOME).sign_in()) == "too_many_login_attempts"
    assert not services.unlock_user(ada.pk, actor=TESTER).is_change


@pytest.mark.database
def test_a_lock_ends_at_the_machine(ada: User, capsys: pytest.CaptureFixture[str]) -> None:
    attack()
    call_command("unlock_user", "ada", "--reason", "she came by")
    assert "User ada unlocked." in capsys.readouterr().out
    assert at(ELSEWHERE).sign_in().status_code == 200
    call_command("unlock_user", "ada")
    assert "ada was not locked" in capsys.readouterr().out
    with pytest.raises(CommandError, match="User 'nobody' not found"):
        call_command("unlock_user", "nobody")


def test_a_password_reset_ends_a_lock(ada: User) -> None:
    attack()
    made = services.reset_password("ada", actor=TESTER)
    assert at(ELSEWHERE).sign_in(str(made.secret)).status_code == 200
