"""The way into the console."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import expect

from tests.served.e2e.pages import Inside, SignInPage
from tests.served.e2e.visits import TOTP_SECRET
from tests.support.console import totp
from tests.support.console.browser import DESKTOP, PHONE, Look, Visit
from tests.support.console.people import PASSWORD

CHINESE = replace(DESKTOP, locale="zh-CN")
START = "/subjects"
LOGIN = "/_allauth/browser/v1/auth/login"


@pytest.mark.parametrize(
    ("look", "language", "user"),
    [(DESKTOP, "en", "vera"), (CHINESE, "zh", "ling"), (PHONE, "en", "olga")],
    ids=["desktop", "chinese", "phone"],
)
def test_with_the_password_to_where_one_wanted_to_go(
    new_visit: Callable[..., Visit], look: Look, language: str, user: str
) -> None:
    visit = new_visit(look)
    sign_in = SignInPage(visit, language).open("/subjects?search=order")
    sign_in.fits_its_width()
    visit.axe_clean()
    sign_in.give(user, PASSWORD)
    inside = Inside(visit, language)
    inside.is_shown(user)
    expect(visit.page).to_have_url(re.compile(r"/subjects\?search=order$"))
    expect(inside.heading).to_have_text(inside.text("nav.subjects"))


def test_a_wrong_password_is_said_and_the_right_one_still_works(new_visit: Callable[..., Visit]) -> None:
    visit = new_visit()
    sign_in = SignInPage(visit).open(START)
    visit.expects(400, LOGIN)
    sign_in.give("vera", "not-her-password")
    expect(sign_in.problem).to_contain_text(sign_in.text("sign_in:error.username_password_mismatch"))
    sign_in.give("vera", PASSWORD)
    Inside(visit).is_shown("vera")


def test_with_a_one_time_code(new_visit: Callable[..., Visit]) -> None:
    visit = new_visit()
    sign_in = SignInPage(visit).open(START)
    visit.expects(401, LOGIN)
    sign_in.give("tom", PASSWORD)
    visit.expects(400, "/_allauth/browser/v1/auth/2fa/authenticate")
    sign_in.give_code("000000")
    expect(sign_in.problem).to_contain_text(sign_in.text("sign_in:error.incorrect_code"))
    visit.axe_clean()
    sign_in.give_code(totp.code(TOTP_SECRET))
    Inside(visit).is_shown("tom")


def test_the_language_is_chosen_before_signing_in_and_kept(new_visit: Callable[..., Visit]) -> None:
    visit = new_visit()
    sign_in = SignInPage(visit).open(START)
    sign_in.choose_language("zh")
    expect(sign_in.heading).to_have_text(sign_in.text("sign_in:title"))
    expect(visit.page.locator("html")).to_have_attribute("lang", "zh-CN")
    sign_in.give("olga", PASSWORD)
    Inside(visit, "zh").is_shown("olga")


def test_signing_out_ends_the_session(new_visit: Callable[..., Visit]) -> None:
    visit = new_visit(user="olga")
    visit.open("/subjects")
    inside = Inside(visit)
    inside.is_shown("olga")
    visit.allows(401, "/_allauth/browser/v1/auth/session")
    visit.allows(401, "/api/v1/me/")  # also of a page that is still open
    inside.sign_out("olga")
    expect(inside.heading).to_have_text(inside.text("sign_in:title"))
    visit.open("/subjects")
    expect(inside.heading).to_have_text(inside.text("sign_in:title"))
