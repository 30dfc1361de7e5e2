"""A second factor from being set up to the day the phone is lost."""

from collections.abc import Callable

from playwright.sync_api import expect

from tests.served.e2e.account_page import AccountPage
from tests.served.e2e.pages import SignInPage
from tests.support.console import totp
from tests.support.console.browser import Visit
from tests.support.console.people import PASSWORD

RECOVERY_CODES = 10
LOGIN = "/_allauth/browser/v1/auth/login"
AUTHENTICATE = "/_allauth/browser/v1/auth/2fa/authenticate"
SESSION = "/_allauth/browser/v1/auth/session"
APP = "/_allauth/browser/v1/account/authenticators/totp"


def test_from_setting_it_up_to_a_lost_phone(new_visit: Callable[..., Visit]) -> None:
    visit = new_visit(user="faye")
    account = AccountPage(visit).open()
    visit.expects(404, APP)  # there is no app yet: with that allauth tells the secret of a new one
    secret = account.begin_second_factor(PASSWORD)
    first = totp.code(secret)
    account.turn_on(first)
    codes, kept = account.keep_codes()
    assert len(set(codes)) == RECOVERY_CODES
    assert all(code in kept.splitlines() for code in codes), kept
    expect(account.codes_left).to_have_text(_left(account, RECOVERY_CODES))
    visit.allows(401, SESSION)
    account.sign_out("faye")

    # The next code of the app is half a minute away; the recovery code comes before it.
    _pass_password(visit).give_recovery_code(codes[0])
    account.is_shown("faye")
    expect(account.open().codes_left).to_have_text(_left(account, RECOVERY_CODES - 1))

    another = new_visit()
    sign_in = _pass_password(another)
    another.expects(400, AUTHENTICATE)
    sign_in.give_recovery_code(codes[0])
    expect(sign_in.problem).to_contain_text(sign_in.text("sign_in:error.incorrect_code"))

    visit.allows(401, SESSION)
    account.sign_out("faye")
    _pass_password(visit).give_code(totp.code(secret, after=first))
    account.is_shown("faye")


def _left(account: AccountPage, unused: int) -> str:
    return account.text("account:codes.left", count=str(unused), total=str(RECOVERY_CODES))


def _pass_password(visit: Visit) -> SignInPage:
    """The sign-in page, as far as its question for the second factor."""
    sign_in = SignInPage(visit).open()
    visit.expects(401, LOGIN)
    sign_in.give("faye", PASSWORD)
    expect(sign_in.heading).to_have_text(sign_in.text("sign_in:code.title"))
    return sign_in
