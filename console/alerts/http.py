"""POST requests of JSON to addresses that were checked: what webhooks and chats share."""

import contextlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse

from django.conf import settings

from console.alerts.addresses import IllegalUrl, Target, parse_url, refusal
from console.alerts.connections import Answers, Deadline, connect
from console.alerts.models import AlertChannel
from console.alerts.sealing import CHANNELS
from console.host_addresses import Network, Resolver, networks_of, resolve, system_resolver
from qmq.clock import Clock, SystemClock
from qmq.errors import QmqError

SEND_SECONDS = 5.0
"""A whole attempt: name, connection, TLS, request, answer."""
ANSWER_BYTES_MAX = 16 << 10
"""Most bytes read of an answer; its head and those of interim ones have to be among them."""
ADDRESSES_TRIED_MAX = 2
LIMITED_SECONDS = 60.0
"""Pause after an answer that limits the rate and names no time."""
LIMITED_SECONDS_MAX = 1_800.0
"""Longest pause that an answer can ask for."""
_RESET_HEADERS = ("Retry-After", "x-ogw-ratelimit-reset")
"""Headers with the seconds to wait; the second one is Feishu's."""


class NotDelivered(QmqError):
    """The delivery failed; it can be retried."""

    code = "alert_channel.failed"


class RateLimited(NotDelivered):
    """The server asks for fewer messages.

    Args:
        seconds: the time for which nothing is to be sent to the channel, at most LIMITED_SECONDS_MAX.
    """

    code = "alert_channel.limited"

    def __init__(self, text: str, seconds: float) -> None:
        super().__init__(text)
        self.seconds = min(max(1.0, seconds), LIMITED_SECONDS_MAX)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a status of success."""

    text: str
    """Who answered, and with which status."""
    body: bytes
    """At most ANSWER_BYTES_MAX, less what the head takes; empty when it was not asked for."""


@dataclass(frozen=True, slots=True)
class HttpNotifier:
    """The base of notifiers that send by HTTP. The connection goes to the address that was checked, so that a name which
    changes its mind in between gains nothing; redirects are answers like any other that is no success.
    """

    resolver: Resolver = system_resolver
    clock: Clock = field(default_factory=SystemClock)
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    timeout_seconds: float = SEND_SECONDS

    def check(self, channel: AlertChannel) -> str:
        """Check that requests to the channel's host are allowed, without sending one. Raises NotDelivered."""
        deadline = Deadline(self.timeout_seconds, self.clock)
        target, _ = self._checked(str(CHANNELS.unseal(channel.sealed).get("url", "")), deadline)
        return f"requests to {target.origin} are allowed"

    def post(self, url: str, content: bytes, headers: dict[str, str], *, reads_body: bool = False) -> Answer:
        """Send JSON and return the answer.

        Raises:
            NotDelivered: the address is not allowed, nothing answered in time, or the answer is no success.
            RateLimited: the answer is 429.
        """
        deadline = Deadline(self.timeout_seconds, self.clock)
        target, addresses = self._checked(url, deadline)
        fixed = {
            "Host": target.authority,
            "User-Agent": "pyqmq",
            "Content-Type": "application/json",
            "Connection": "close",
        }
        response, body = self._exchange(target, addresses, headers | fixed, content, deadline, reads_body)
        status = response.status
        if 300 <= status < 400:
            raise NotDelivered(f"{target.origin} returned {status}; redirects are not followed")
        text = f"{target.origin} answered {status}"
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            raise RateLimited(f"{text}: it limits the rate of messages", self._pause_seconds(response))
        if not 200 <= status < 300:
            raise NotDelivered(f"{text}: {reason}" if (reason := shown(body)) else text)
        return Answer(text, body)

    def _checked(self, url: str, deadline: Deadline) -> tuple[Target, list[str]]:
        try:
            target = parse_url(url)
        except IllegalUrl as error:
            raise NotDelivered(f"URL: {error}") from error
        try:
            addresses = resolve(self.resolver, target.host, target.port, deadline.left())
        except OSError as error:
            raise NotDelivered(str(error)) from error
        allowed: tuple[Network, ...] = networks_of(settings.WEBHOOK_NETWORKS)
        for address in addresses:
            # One forbidden address forbids the host: which one is used must not be a matter of luck.
            if why := refusal(address, allowed):
                raise NotDelivered(f"{target.host}: {why}", code="alert_channel.address_forbidden")
        return target, addresses[:ADDRESSES_TRIED_MAX]

    def _exchange(
        self,
        target: Target,
        addresses: Sequence[str],
        headers: dict[str, str],
        content: bytes,
        deadline: Deadline,
        reads_body: bool,
    ) -> tuple[HTTPResponse, bytes]:
        """The answer to a POST, and its body if it is wanted."""
        try:
            with contextlib.ExitStack() as stack:
                connection = stack.enter_context(connect(addresses, target.port, deadline))
                if target.is_https:
                    connection.settimeout(deadline.left())
                    secured = self.tls().wrap_socket(connection, server_hostname=target.host)
                    connection = stack.enter_context(secured)
                connection.settimeout(deadline.left())
                request = HTTPConnection(target.host, target.port)
                request.sock = connection
                request.request("POST", target.path, content, headers)
                response = _final(Answers(connection, deadline, ANSWER_BYTES_MAX))
                return response, _body(response) if reads_body else b""
        except OSError as error:
            raise NotDelivered(f"{target.origin}: {error or type(error).__name__}") from error
        except (EOFError, HTTPException, ValueError) as error:
            raise NotDelivered(f"{target.origin}: the response is not valid HTTP") from error

    def _pause_seconds(self, response: HTTPResponse) -> float:
        """Seconds that an answer asks to wait: a number, or the time until a date."""
        text = next((found for name in _RESET_HEADERS if (found := response.getheader(name))), "").strip()
        if text.isascii() and text.isdigit():
            return float(text[:6])
        try:
            until = parsedate_to_datetime(text)
        except (ValueError, TypeError):
            return LIMITED_SECONDS
        return (until - datetime.fromtimestamp(self.clock.wall_ms() / 1000, UTC)).total_seconds()


def shown(body: bytes) -> str:
    """The beginning of an answer's body as one line of text."""
    return " ".join(body[:200].decode(errors="replace").split())


def _final(answers: Answers) -> HTTPResponse:
    """The first answer that is not interim, of which the head was read."""
    responses: list[HTTPResponse] = []  # one that is gone would close what the next one reads
    while True:
        response = HTTPResponse(answers, method="POST")  # type: ignore[arg-type]  # it takes whatever has makefile()
        responses.append(response)
        response.begin()
        if not 100 <= response.status < 200 or response.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return response


def _body(response: HTTPResponse) -> bytes:
    """The body up to its end, the end of the connection, or ANSWER_BYTES_MAX."""
    parts = []
    with contextlib.suppress(EOFError):
        while part := response.read1(ANSWER_BYTES_MAX):
            parts.append(part)
    return b"".join(parts)
