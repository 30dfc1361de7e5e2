"""Forwarded addresses count behind configured proxies only."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from typing import Any

import pytest

from console import checks
from console.http.proxies import behind_proxies
from console.launcher.programs import Ports, programs
from tests.support.servers.ports import free_port
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually

FORWARDED = {"X-Forwarded-For": "8.8.8.8", "X-Forwarded-Proto": "https", "Forwarded": "for=8.8.8.8"}


def seen(proxies: list[str], client: str, headers: dict[str, str], kind: str = "http") -> tuple[str, str]:
    """The address and the scheme that the application sees of a request."""
    found: list[tuple[str, str]] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        found.append((scope["client"][0], scope["scheme"]))

    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scheme = "http" if kind == "http" else "ws"
    scope = {"type": kind, "client": (client, 50_000), "scheme": scheme, "headers": raw}
    asyncio.run(behind_proxies(application, proxies)(scope, None, None))
    return found[0]


@pytest.mark.parametrize(
    ("proxies", "client", "forwarded", "expected"),
    [
        ([], "127.0.0.1", "8.8.8.8", "127.0.0.1"),
        (["10.0.0.7"], "127.0.0.1", "8.8.8.8", "127.0.0.1"),
        (["10.0.0.7"], "10.0.0.7", "8.8.8.8", "8.8.8.8"),
        (["10.0.0.7"], "10.0.0.7", "1.1.1.1, 8.8.8.8", "8.8.8.8"),
        (["10.0.0.7", "10.1.0.0/16"], "10.0.0.7", "1.1.1.1, 8.8.8.8, 10.1.2.3", "8.8.8.8"),
        (["fd00::7"], "fd00::7", "2001:db8::1", "2001:db8::1"),
    ],
    ids=["none", "another", "one", "prepended", "chain", "ipv6"],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_the_address_is_the_last_one_that_is_no_proxys(
    proxies: list[str], client: str, forwarded: str, expected: str, kind: str
) -> None:
    headers = {"X-Forwarded-For": forwarded, "X-Forwarded-Proto": "https"}
    is_trusted = expected != client
    secure, plain = ("https", "http") if kind == "http" else ("wss", "ws")
    assert seen(proxies, client, headers, kind) == (expected, secure if is_trusted else plain)


def test_the_console_of_up_sees_the_connection_whatever_its_headers_say() -> None:
    """The options of `up`, with an application that answers what it sees."""
    ports = Ports.choose(free_port())
    (console,) = (program for program in programs("/nowhere", ports, "") if program.name == "console")
    command = [part.replace("console.asgi", "tests.support.servers.echo_client") for part in console.command]
    assert "tests.support.servers.echo_client:application" in command
    assert command[0] == sys.executable
    url = f"http://127.0.0.1:{ports.console}/"

    def asked() -> Any:
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=FORWARDED), timeout=10) as answer:
                return json.load(answer)
        except urllib.error.URLError:
            return None

    process = subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "FORWARDED_ALLOW_IPS": "*"})
    try:
        assert eventually(asked, what="an answer") == {"client": "127.0.0.1", "scheme": "http"}
    finally:
        process.terminate()
        process.wait()


@pytest.mark.parametrize("proxy", ["*", "1", "true", "proxy.example.org", "0.0.0.0/0", "::/0", "10.0.0.1/8"])
def test_e021_a_proxy_that_is_no_address(settings: Any, proxy: str) -> None:
    settings.BEHIND_PROXY = ["10.0.0.7", "10.1.0.0/16", "fd00::/8"]
    assert checks.proxies(None) == []
    settings.BEHIND_PROXY = ["10.0.0.7", proxy]
    (found,) = checks.proxies(None)
    assert found.id == "console.E021"
    assert repr(proxy) in found.msg
