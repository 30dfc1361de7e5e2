"""Tell a channel: an HTTP request to an address that was checked, or an e-mail. Each ends in SEND_SECONDS."""

import hmac
import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Protocol

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from console.alerts.addresses import IllegalUrl, Network, Target, networks_of, parse_url, refusal
from console.alerts.models import AlertChannel, ChannelKind
from console.alerts.sealing import unseal
from qmq.clock import Clock, SystemClock
from qmq.errors import QmqError
from qmq.words import counted

SEND_SECONDS = 5.0
"""A whole attempt: name, connection, TLS, request, answer."""
ANSWER_BYTES_MAX = 16 << 10
"""Most bytes read of a webhook's answer; its head has to be among them."""
ADDRESSES_TRIED_MAX = 2
RESOLVERS_MAX = 8
"""Name look-ups at a time; a stuck one ends when the system's resolver gives up."""
SIGNATURE_HEADER = "X-QMQ-Signature"
"""`t=<seconds>,v1=<hex>`: HMAC-SHA256 with the channel's secret over `<seconds>.<body>`."""
DELIVERY_HEADER = "X-QMQ-Delivery"
"""The same for each attempt of one notification: receivers tell repetitions by it."""
_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: |\r)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_resolving = threading.BoundedSemaphore(RESOLVERS_MAX)


class NotTold(QmqError):
    """The channel was not told; it may be tried again."""

    code = "alert_channel.failed"


Resolver = Callable[[str, int], Sequence[str]]
"""Host and port to addresses; raises OSError."""


class Notifier(Protocol):
    """Tells one channel one thing."""

    def send(self, channel: AlertChannel, delivery: str, body: Mapping[str, Any]) -> str:
        """Send; what happened, in a few words. Raises NotTold."""
        ...


def system_resolver(host: str, port: int) -> list[str]:
    """The system's addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def resolve(resolver: Resolver, host: str, port: int, seconds: float) -> list[str]:
    """The addresses of a host, resolved in a thread: the system's resolver knows no deadline.

    Raises:
        OSError: there are none, or not in time; the text says which.
    """
    found: list[str] = []
    failed: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            found.extend(resolver(host, port))
        except (OSError, UnicodeError) as error:
            failed.append(error)
        finally:
            _resolving.release()

    if not _resolving.acquire(blocking=False):
        raise OSError(f"{RESOLVERS_MAX} DNS lookups are already pending")
    thread = threading.Thread(target=ask, name="qmq-resolve", daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        _resolving.release()
        raise OSError(f"can't start a thread for the DNS lookup: {error}") from error
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"{host}: the DNS lookup timed out")
    if failed:
        raise OSError(f"{host}: {failed[0]}") from failed[0]
    if not found:
        raise OSError(f"{host}: the host name has no address")
    return found


def text_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """A notification as the subject and text of an e-mail."""
    alert = body["alert"]
    word = str(body["event"]).upper()
    title = _CONTROL.sub(" ", f"[{word}] {alert['severity']}: {alert['rule']}: {alert['target']}")[:200]
    lines = [
        f"Rule:      {alert['rule']} ({alert['kind']}, above {alert['threshold']:g})",
        f"Target:    {alert['target']}",
        f"Owner:     {alert['owner'] or '-'}",
        f"Value:     {'not measurable' if alert['value'] is None else format(alert['value'], 'g')}",
        f"Since:     {alert['since']}",
    ]
    if alert["resolved_at"]:
        lines.append(f"Resolved:  {alert['resolved_at']} ({alert['resolution']})")
    return title, "\n".join(lines) + "\n"


def signature(secret: str, at_seconds: int, body: bytes) -> str:
    """The value of the signature header."""
    digest = hmac.new(secret.encode(), b"%d." % at_seconds + body, sha256).hexdigest()
    return f"t={at_seconds},v1={digest}"


@dataclass(frozen=True, slots=True)
class EmailNotifier:
    """By Django's mail back end (console.alerts.mail), which ends the delivery as a whole in SEND_SECONDS."""

    resolver: Resolver = system_resolver
    clock: Clock = field(default_factory=SystemClock)

    def send(self, channel: AlertChannel, delivery: str, body: Mapping[str, Any]) -> str:
        title, text = text_of(body)
        # Django would make a Message-ID with the host's full name, which it asks DNS for without a deadline.
        domain = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip("> ") or "localhost"
        headers = {DELIVERY_HEADER: delivery, "Message-ID": f"<qmq-{delivery}@{domain}>"}
        message = EmailMessage(title, text, to=list(channel.addresses), headers=headers)
        message.connection = get_connection(
            timeout=SEND_SECONDS, clock=self.clock, resolver=partial(resolve, self.resolver)
        )
        try:
            message.send()
        except (OSError, ValueError) as error:  # smtplib's errors are OSErrors
            raise NotTold(f"mail server: {type(error).__name__}: {error}") from error
        return f"accepted by the mail server for {counted(len(channel.addresses), 'address', 'addresses')}"


@dataclass(frozen=True, slots=True)
class WebhookNotifier:
    """By a POST of JSON. The connection goes to the address that was checked, so that a name which changes its mind in
    between gains nothing; redirects are answers like any other that is no success."""

    resolver: Resolver = system_resolver
    clock: Clock = field(default_factory=SystemClock)
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    timeout_seconds: float = SEND_SECONDS

    def send(self, channel: AlertChannel, delivery: str, body: Mapping[str, Any]) -> str:
        sealed = unseal(channel.sealed)
        deadline = self.clock.monotonic() + self.timeout_seconds
        target, addresses = self._checked(str(sealed.get("url", "")), deadline)
        request = self._request(target, sealed, delivery, body)
        status = self._post(target, addresses, request, deadline)
        if 300 <= status < 400:
            raise NotTold(f"{target.origin} returned {status}; redirects are not followed")
        if not 200 <= status < 300:
            raise NotTold(f"{target.origin} answered {status}")
        return f"{target.origin} answered {status}"

    def check(self, channel: AlertChannel) -> str:
        """Whether the webhook's host may be asked at all, without asking it. Raises NotTold."""
        deadline = self.clock.monotonic() + self.timeout_seconds
        target, _ = self._checked(str(unseal(channel.sealed).get("url", "")), deadline)
        return f"requests to {target.origin} are allowed"

    def _checked(self, url: str, deadline: float) -> tuple[Target, list[str]]:
        try:
            target = parse_url(url)
        except IllegalUrl as error:
            raise NotTold(f"URL: {error}") from error
        try:
            addresses = resolve(self.resolver, target.host, target.port, max(0.0, deadline - self.clock.monotonic()))
        except OSError as error:
            raise NotTold(str(error)) from error
        allowed: tuple[Network, ...] = networks_of(settings.WEBHOOK_NETWORKS)
        for address in addresses:
            # One forbidden address forbids the host: which one is used must not be a matter of luck.
            if why := refusal(address, allowed):
                raise NotTold(f"{target.host}: {why}", code="alert_channel.address_forbidden")
        return target, addresses[:ADDRESSES_TRIED_MAX]

    def _request(self, target: Target, sealed: Mapping[str, Any], delivery: str, body: Mapping[str, Any]) -> bytes:
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        at_seconds = self.clock.wall_ms() // 1000
        headers = {
            **{str(name): str(value) for name, value in sealed.get("headers", {}).items()},
            "Host": target.authority,
            "User-Agent": "pyqmq",
            "Content-Type": "application/json",
            "Content-Length": str(len(content)),
            "Connection": "close",
            DELIVERY_HEADER: delivery,
        }
        if sealed.get("secret"):
            headers[SIGNATURE_HEADER] = signature(str(sealed["secret"]), at_seconds, content)
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {target.path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + content

    def _post(self, target: Target, addresses: Sequence[str], request: bytes, deadline: float) -> int:
        """Send to the first address that takes the connection; the answer's status."""
        refused: OSError | None = None
        for address in addresses:
            try:
                connection = socket.create_connection((address, target.port), self._left(deadline))
            except OSError as error:
                refused = error
                continue
            try:
                return self._ask(connection, target, request, deadline)
            except (OSError, ssl.CertificateError) as error:
                raise NotTold(f"{target.origin}: {error or type(error).__name__}") from error
        raise NotTold(f"{target.origin}: {refused or 'no connection'}") from refused

    def _ask(self, connection: socket.socket, target: Target, request: bytes, deadline: float) -> int:
        with connection as plain:
            plain.settimeout(self._left(deadline))
            if not target.is_https:
                return self._exchange(plain, target, request, deadline)
            with self.tls().wrap_socket(plain, server_hostname=target.host) as secured:
                return self._exchange(secured, target, request, deadline)

    def _exchange(self, connection: socket.socket, target: Target, request: bytes, deadline: float) -> int:
        connection.settimeout(self._left(deadline))
        connection.sendall(request)
        answer = b""
        # The head is all that is looked at; what the body says is nobody's business here.
        while b"\r\n\r\n" not in answer and len(answer) < ANSWER_BYTES_MAX:
            connection.settimeout(self._left(deadline))
            piece = connection.recv(min(4096, ANSWER_BYTES_MAX - len(answer)))
            if not piece:
                break
            answer += piece
        found = _STATUS.match(answer)
        if found is None or b"\r\n\r\n" not in answer:
            raise NotTold(f"{target.origin}: the response is not valid HTTP")
        return int(found.group(1))

    def _left(self, deadline: float) -> float:
        left = deadline - self.clock.monotonic()
        if left <= 0:
            raise TimeoutError(f"timed out after {self.timeout_seconds:g} s")
        return left


def notifiers() -> dict[str, Notifier]:
    """The notifier of each kind of channel."""
    return {ChannelKind.WEBHOOK: WebhookNotifier(), ChannelKind.EMAIL: EmailNotifier()}
