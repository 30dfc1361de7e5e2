"""A signed-in session with a running console, over HTTP: what a browser would send."""

import json
from http.cookiejar import CookieJar
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener

from django.conf import settings

from qmq.errors import ConnectionLost, QmqError, SettingError

TIMEOUT_SECONDS = 30.0
SIGN_IN = "/_allauth/browser/v1"


class Session:
    """Asks the console at `url` (scheme, host and port)."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingError(f"{url!r} is not a console URL such as http://127.0.0.1:8000")
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._cookies = CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self._cookies))

    def sign_in(self, name: str, password: str) -> None:
        """Begin the session.

        Raises:
            QmqError: the console refuses it.
            ConnectionLost: it does not answer.
        """
        self.ask("GET", f"{SIGN_IN}/config")
        self.ask("POST", f"{SIGN_IN}/auth/login", {"username": name, "password": password})

    def get(self, path: str) -> Any:
        """What an address of the API says; raises as `ask`."""
        return self.ask("GET", f"/api/v1{path}")

    def change(self, method: str, path: str, body: Any = None, *, unless: str = "") -> Any:
        """A change by the API; None when it was refused with the code `unless`: so it was done before. Raises as `ask`."""
        try:
            return self.ask(method, f"/api/v1{path}", {} if body is None else body)
        except QmqError as error:
            if unless and error.code == unless:
                return None
            raise

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """One request; the JSON of its answer.

        Raises:
            QmqError: it was refused, with the console's words and code.
            ConnectionLost: nobody answers there.
        """
        csrf = next((cookie.value for cookie in self._cookies if cookie.name == settings.CSRF_COOKIE_NAME), "")
        request = Request(
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json", "X-CSRFToken": csrf or "", "Referer": f"{self.url}/"},
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise _refused(f"{method} {path}", error) from error
        except (URLError, OSError, ValueError) as error:
            raise ConnectionLost(f"the console at {self.url} can't be reached: {error}") from error


def _refused(what: str, error: HTTPError) -> QmqError:
    try:
        problem = json.load(error)
        return QmqError(f"{what}: {problem['detail']}", code=str(problem["code"]))
    except (ValueError, KeyError, TypeError, OSError):
        return QmqError(f"{what} was answered with {error.code} {error.reason}")
