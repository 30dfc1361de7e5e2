"""Visits of the console in a browser."""

from playwright.sync_api import Browser

from tests.support.console.browser import DESKTOP, Look, Visit, visit
from tests.support.console.people import PASSWORD

TOTP_SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


class Visits:
    """The visits of one test."""

    def __init__(self, browser: Browser, url: str) -> None:
        self._browser = browser
        self._url = url
        self.made: list[Visit] = []

    def __call__(self, look: Look = DESKTOP, *, user: str = "") -> Visit:
        """A new visit, signed in when a user is named."""
        self.made.append(visit(self._browser, self._url, look))
        if user:
            self.made[-1].sign_in(user, PASSWORD)
        return self.made[-1]

    def close(self) -> None:
        """Close all."""
        for one in self.made:
            one.close()
