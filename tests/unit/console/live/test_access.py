"""Which pages may open websockets."""

from typing import Any

import pytest

from console.live.access import Credential, is_origin_allowed

COOKIE = Credential(session_key="key")
TOKEN = Credential(token="qmq_token")


def is_allowed(origin: str | None, host: str = "localhost:8000", scheme: str = "ws") -> bool:
    return is_origin_allowed(origin, COOKIE, {"scheme": scheme}, host)


@pytest.fixture(autouse=True)
def _hosts(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["localhost", "console.example", "[::1]"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://console.example:8443", "https://*.trusted.example"]


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("http://localhost:8000", "localhost:8000", "ws"),
        ("http://localhost", "localhost", "ws"),
        ("http://localhost", "localhost:80", "ws"),
        ("http://LOCALHOST:8000", "localhost:8000", "ws"),
        ("http://[::1]:8000", "[::1]:8000", "ws"),
        ("https://console.example", "console.example", "wss"),
        ("https://console.example:8443", "localhost:8000", "ws"),
        ("https://a.trusted.example", "localhost:8000", "ws"),
    ],
)
def test_pages_of_this_console_and_trusted_ones_may(origin: str, host: str, scheme: str) -> None:
    assert is_allowed(origin, host, scheme)


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("http://localhost:4444", "localhost:8000", "ws"),
        ("http://localhost", "localhost:8000", "ws"),
        ("https://localhost:8000", "localhost:8000", "ws"),
        ("http://console.example", "console.example", "wss"),
        ("http://console.example:8000", "localhost:8000", "ws"),
        ("http://evil.example", "evil.example", "ws"),
        ("http://console.example:8443", "localhost:8000", "ws"),
        ("https://trusted.example", "localhost:8000", "ws"),
        ("https://nottrusted.example", "localhost:8000", "ws"),
        ("https://a.trusted.example:444", "localhost:8000", "ws"),
        ("http://user@localhost:8000", "localhost:8000", "ws"),
        ("http://localhost:8000/path", "localhost:8000", "ws"),
        ("http://localhost:port", "localhost:8000", "ws"),
        ("file://localhost", "localhost:8000", "ws"),
        ("null", "localhost:8000", "ws"),
        ("", "", "ws"),
    ],
)
def test_pages_of_other_schemes_hosts_and_ports_may_not(origin: str, host: str, scheme: str) -> None:
    assert not is_allowed(origin, host, scheme)


def test_a_client_without_an_origin_needs_a_token() -> None:
    assert is_origin_allowed(None, TOKEN, {"scheme": "ws"}, "localhost")
    assert not is_origin_allowed(None, COOKIE, {"scheme": "ws"}, "localhost")
