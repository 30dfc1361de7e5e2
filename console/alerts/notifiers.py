"""Delivery to a channel: an HTTP request to a checked address, or an email. Each is limited to SEND_SECONDS."""

import hmac
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, ClassVar, Protocol

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from console.alerts.chats import CHATS, ChatNotifier
from console.alerts.http import SEND_SECONDS, HttpNotifier, NotDelivered
from console.alerts.models import AlertChannel, ChannelKind
from console.alerts.sealing import CHANNELS
from console.alerts.wording import Wording, words_of
from console.host_addresses import Resolver, system_resolver
from qmq.clock import Clock, SystemClock
from qmq.words import counted

SIGNATURE_HEADER = "X-QMQ-Signature"
"""`t=<seconds>,v1=<hex>`: HMAC-SHA256 with the channel's secret over `<seconds>.<body>`."""
DELIVERY_HEADER = "X-QMQ-Delivery"
"""The same for each attempt of one notification, so that receivers can detect repetitions."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class Notifier(Protocol):
    """Delivers notifications to one channel."""

    batch_max: ClassVar[int]
    """Most notifications that one message contains."""

    def send(self, channel: AlertChannel, delivery: str, bodies: Sequence[Mapping[str, Any]]) -> str:
        """Send 1 to `batch_max` notifications as one message; what happened, in a few words. Raises NotDelivered."""
        ...


def text_of(body: Mapping[str, Any], words: Wording) -> tuple[str, str]:
    """Return a notification as the subject and text of an email."""
    title = _CONTROL.sub(" ", words.title(body))[:200]
    return title, "".join(f"{label + ':':<10} {text}\n" for label, text in words.facts(body))


def signature(secret: str, at_seconds: int, body: bytes) -> str:
    """The value of the signature header."""
    digest = hmac.new(secret.encode(), b"%d." % at_seconds + body, sha256).hexdigest()
    return f"t={at_seconds},v1={digest}"


@dataclass(frozen=True, slots=True)
class EmailNotifier:
    """By Django's mail back end (console.alerts.mail), which ends the delivery as a whole in SEND_SECONDS."""

    batch_max: ClassVar[int] = 1
    resolver: Resolver = system_resolver
    clock: Clock = field(default_factory=SystemClock)

    def send(self, channel: AlertChannel, delivery: str, bodies: Sequence[Mapping[str, Any]]) -> str:
        title, text = text_of(bodies[0], words_of(channel.language))
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
class WebhookNotifier(HttpNotifier):
    """By a POST of JSON, of whose answer only the status counts."""

    batch_max: ClassVar[int] = 1

    def send(self, channel: AlertChannel, delivery: str, bodies: Sequence[Mapping[str, Any]]) -> str:
        sealed = CHANNELS.unseal(channel.sealed)
        content = json.dumps(bodies[0], ensure_ascii=False, separators=(",", ":")).encode()
        headers = {str(name): str(value) for name, value in sealed.get("headers", {}).items()}
        headers[DELIVERY_HEADER] = delivery
        if sealed.get("secret"):
            headers[SIGNATURE_HEADER] = signature(str(sealed["secret"]), self.clock.wall_ms() // 1000, content)
        return self.post(str(sealed.get("url", "")), content, headers).text


def notifiers() -> dict[str, Notifier]:
    """The notifier of each kind of channel."""
    found: dict[str, Notifier] = {ChannelKind.WEBHOOK: WebhookNotifier(), ChannelKind.EMAIL: EmailNotifier()}
    found.update({kind: ChatNotifier(chat=chat) for kind, chat in CHATS.items()})
    return found
