"""Delivery to a channel: an HTTP request to a checked address, or an email. Each is limited to SEND_SECONDS."""

import contextlib
import hmac
import json
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any, Protocol

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from console.alerts.addresses import IllegalUrl, Target, parse_url, refusal
from console.alerts.connections import Answers, Deadline, connect
from console.alerts.models import AlertChannel, ChannelKind
from console.alerts.sealing import CHANNELS
from console.host_addresses import Network, Resolver, networks_of, resolve, system_resolver
from qmq.clock import Clock, SystemClock
from qmq.errors import QmqError
from qmq.words import counted

SEND_SECONDS = 5.0
"""A whole attempt: name, connection, TLS, request, answer."""
ANSWER_BYTES_MAX = 16 << 10
"""Most bytes read of a webhook's answer; the heads of the answer and of interim ones have to be among them."""
ADDRESSES_TRIED_MAX = 2
SIGNATURE_HEADER = "X-QMQ-Signature"
"""`t=<seconds>,v1=<hex>`: HMAC-SHA256 with the channel's secret over `<seconds>.<body>`."""
DELIVERY_HEADER = "X-QMQ-Delivery"
"""The same for each attempt of one notification, so that receivers can detect repetitions."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class NotDelivered(QmqError):
    """The delivery failed; it can be retried."""

    code = "alert_channel.failed"


class Notifier(Protocol):
    """Delivers one notification to one channel."""

    def send(self, channel: AlertChannel, delivery: str, body: Mapping[str, Any]) -> str:
        """Send; what happened, in a few words. Raises NotDelivered."""
        ...


def text_of(body: Mapping[str, Any]) -> tuple[str, str]:
    """Return a notification as the subject and text of an email."""
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
    if alert.get("retries"):
        lines.append(f"Retries:   {alert['retries']} pending")
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
        message.connection = get_connection(timeout=SEND_SECONDS, clock=self.clock, resolver=self.resolver)
        try:
            message.send()
        except (OSError, ValueError) as error:  # smtplib's errors are OSErrors
            raise NotDelivered(f"mail server: {type(error).__name__}: {error}") from error
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
        sealed = CHANNELS.unseal(channel.sealed)
        deadline = Deadline(self.timeout_seconds, self.clock)
        target, addresses = self._checked(str(sealed.get("url", "")), deadline)
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        headers = self._headers(target, sealed, delivery, content)
        status = self._post(target, addresses, headers, content, deadline)
        if 300 <= status < 400:
            raise NotDelivered(f"{target.origin} returned {status}; redirects are not followed")
        answered = f"{target.origin} answered {status}"
        if not 200 <= status < 300:
            raise NotDelivered(answered)
        return answered

    def check(self, channel: AlertChannel) -> str:
        """Check that requests to the webhook's host are allowed, without sending one. Raises NotDelivered."""
        deadline = Deadline(self.timeout_seconds, self.clock)
        target, _ = self._checked(str(CHANNELS.unseal(channel.sealed).get("url", "")), deadline)
        return f"requests to {target.origin} are allowed"

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

    def _headers(self, target: Target, sealed: Mapping[str, Any], delivery: str, content: bytes) -> dict[str, str]:
        headers = {
            **{str(name): str(value) for name, value in sealed.get("headers", {}).items()},
            "Host": target.authority,
            "User-Agent": "pyqmq",
            "Content-Type": "application/json",
            "Connection": "close",
            DELIVERY_HEADER: delivery,
        }
        if sealed.get("secret"):
            at_seconds = self.clock.wall_ms() // 1000
            headers[SIGNATURE_HEADER] = signature(str(sealed["secret"]), at_seconds, content)
        return headers

    def _post(
        self, target: Target, addresses: Sequence[str], headers: dict[str, str], content: bytes, deadline: Deadline
    ) -> int:
        """The status of the answer to a POST."""
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
                return _final_status(Answers(connection, deadline, ANSWER_BYTES_MAX))
        except OSError as error:
            raise NotDelivered(f"{target.origin}: {error or type(error).__name__}") from error
        except (EOFError, HTTPException, ValueError) as error:
            raise NotDelivered(f"{target.origin}: the response is not valid HTTP") from error


def _final_status(answers: Answers) -> int:
    """The status of the first answer that is not interim. The head is all that is read of it."""
    responses: list[HTTPResponse] = []  # one that is gone would close what the next one reads
    while True:
        response = HTTPResponse(answers, method="POST")  # type: ignore[arg-type]  # it takes whatever has makefile()
        responses.append(response)
        response.begin()
        if not 100 <= response.status < 200 or response.status == HTTPStatus.SWITCHING_PROTOCOLS:
            return response.status


def notifiers() -> dict[str, Notifier]:
    """The notifier of each kind of channel."""
    return {ChannelKind.WEBHOOK: WebhookNotifier(), ChannelKind.EMAIL: EmailNotifier()}
