"""Channels: make, change, delete, try. What is secret goes in and never out."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Unpack

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from console.alerts.addresses import URL_CHARS_MAX, URL_PATTERN, IllegalUrl, parse_url
from console.alerts.http import HttpNotifier, NotDelivered, RateLimited
from console.alerts.models import Alert, AlertChannel, ChannelKind
from console.alerts.notifiers import DELIVERY_HEADER, SIGNATURE_HEADER, Notifier, notifiers
from console.alerts.rules import Event
from console.alerts.sealing import CHANNELS
from console.alerts.services.notifications import body_of
from console.alerts.wording import Language
from console.resource_fields import NAME, with_id
from console.sealing import SealBroken
from metaserver.errors import Conflict
from metaserver.services import audit
from metaserver.services.changes import Change, Request, VersionedRequest, changing
from metaserver.services.fields import Choice, Flag, Text, Texts, TextsByName
from metaserver.services.notes import NoteCode
from metaserver.services.resources import Edit, Resource
from qmq.protocol.reasons import Reason
from qmq.words import counted

CHANNELS_MAX = 100
_SEALED = frozenset({"url", "secret", "headers"})
_OF_KIND = {
    ChannelKind.WEBHOOK: frozenset({"url", "secret", "headers"}),
    ChannelKind.EMAIL: frozenset({"addresses", "language"}),
    ChannelKind.SLACK: frozenset({"url", "language"}),
    ChannelKind.DINGTALK: frozenset({"url", "secret", "language"}),
    ChannelKind.FEISHU: frozenset({"url", "secret", "language"}),
    ChannelKind.WECOM: frozenset({"url", "language"}),
}
"""Fields of each kind besides name and state."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9-]{1,60}")
_OURS = frozenset(
    name.lower()
    for name in (
        "Host", "User-Agent", "Content-Type", "Content-Length", "Content-Encoding", "Connection", "Transfer-Encoding",
        "Upgrade", "Expect", "TE", "Trailer", DELIVERY_HEADER, SIGNATURE_HEADER,
    )
)  # fmt: skip


def described(row: AlertChannel) -> dict[str, Any]:
    """A channel as audit entries show it: `secrets` changes when they do, and says nothing of them."""
    return {
        "name": row.name,
        "kind": row.kind,
        "origin": row.origin,
        "addresses": row.addresses,
        "headers": row.header_names,
        "has_secret": row.has_secret,
        "language": row.language,
        "secrets": CHANNELS.fingerprint(row.sealed),
        "is_enabled": row.is_enabled,
    }


def _url_problem(value: str) -> str:
    try:
        parse_url(value)
    except IllegalUrl as error:
        return str(error)
    return ""


def _headers_problem(headers: Mapping[str, str]) -> str:
    if len({name.lower() for name in headers}) < len(headers):
        return "must not contain a name twice"
    for name, text in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _OURS:
            return f"{name[:60]!r} can't be set"
        if not text.isascii():
            return f"{name}: must be ASCII"
    return ""


def _address_problem(address: str) -> str:
    try:
        validate_email(address)
    except ValidationError:
        return "is not a valid email address"
    return ""


ALERT_CHANNEL: Resource[AlertChannel] = Resource(
    kind="alert_channel",
    noun="alert channel",
    fields={
        "name": NAME,
        "is_enabled": Flag(),
        "url": Text(chars_min=1, chars_max=URL_CHARS_MAX, pattern=URL_PATTERN, check=_url_problem),
        "secret": Text(
            nullable=True,
            chars_min=16,
            chars_max=200,
            is_line=True,
            is_trimmed=False,
            help="of webhooks, DingTalk and Feishu: signs each message (HMAC-SHA256); null: no signature",
        ),
        "headers": TextsByName(item=Text(chars_max=500, is_line=True), items_max=20, check=_headers_problem),
        "addresses": Texts(
            item=Text(chars_min=1, chars_max=254, check=_address_problem), items_min=1, items_max=20, is_set=False
        ),
        "language": Choice(values=[language.value for language in Language]),
    },
    described=described,
    about=lambda row: f"alert channel {row.name}",
    target=lambda row: str(row.pk),
)
KIND = Choice(values=[kind.value for kind in ChannelKind])
"""Given once, when the channel is made."""


def create_channel(kind: str, values: Mapping[str, Any], **request: Unpack[Request]) -> Change:
    """Create a channel: an email channel requires `addresses`, any other one `url`.

    Raises:
        ChangeRefused: a value is not allowed, or there are CHANNELS_MAX channels.
        Conflict: there is a channel of this name.
    """
    needed = ("name", "addresses" if kind == ChannelKind.EMAIL else "url")
    wrong = {key: "is required" for key in needed if key not in values}
    ALERT_CHANNEL.refuse({"kind": text} if (text := KIND.problem(kind)) else wrong)
    with ALERT_CHANNEL.creating(AlertChannel(kind=kind), values["name"], **request) as edit:
        if AlertChannel.objects.count() >= CHANNELS_MAX:
            raise ALERT_CHANNEL.too_many(CHANNELS_MAX)
        _set(edit, values)
    return edit.change


def update_channel(channel: str, values: Mapping[str, Any], **request: Unpack[VersionedRequest]) -> Change:
    """Change what `values` names and nothing else; a `secret` of None takes it away, `headers` are replaced as a whole.

    A new `url` takes secret and headers along only when it has the same scheme, host and port: otherwise someone who may change
    the channel could have them sent to a server of their own.

    Raises:
        NotFound, Stale, ChangeRefused, Conflict.
    """
    with ALERT_CHANNEL.editing(lambda: locked(channel), **request) as edit:
        if _set(edit, values):
            edit.notes = (Reason.of(NoteCode.ORIGIN_DIFFERS),)
    return edit.change


def delete_channel(channel: str, **request: Unpack[VersionedRequest]) -> Change:
    """Delete a channel that no rule uses.

    Raises:
        Conflict: rules use it.
        NotFound, Stale.
    """
    with ALERT_CHANNEL.editing(lambda: locked(channel), action="delete", **request) as edit:
        used = list(edit.row.rules.values_list("name", flat=True)[:5])
        if used:
            raise Conflict(
                f"Channel {edit.row.name} is used by rules: {', '.join(used)}. Remove it from them first.",
                code="alert_channel.used",
            )
        edit.delete()
    return edit.change


def try_channel(
    channel: str, *, now: datetime, using: Mapping[str, Notifier] | None = None, **request: Unpack[Request]
) -> dict[str, Any]:
    """Send a test notification now and return the result. A dry run only checks whether requests to the host are allowed.

    Raises:
        NotFound.
    """
    row = ALERT_CHANNEL.one(with_id(AlertChannel.objects.all(), channel), channel)
    dry_run = request.get("dry_run", False)
    notifier = (using or notifiers())[row.kind]
    try:
        if not dry_run:
            happened = notifier.send(row, f"test-{row.pk}-{int(now.timestamp())}", [_test_body(row, now)])
        elif isinstance(notifier, HttpNotifier):
            happened = notifier.check(row)
        else:
            happened = f"would be sent to {counted(len(row.addresses), 'address', 'addresses')}"
        is_delivered, code = True, ""
    except (NotDelivered, SealBroken) as error:
        is_delivered, happened, code = False, str(error), error.code
        if isinstance(error, RateLimited):
            pause(row, now, error.seconds)
    if not dry_run:
        with changing(dry_run=False):
            note_outcome(row, now, "" if is_delivered else happened)
            after = {"is_told": is_delivered, "detail": happened[:500]}
            about = f"alert channel {row.name}"
            reason = request.get("reason", "")
            audit.record(actor=request["actor"], action="alert_channel.test", target=about, reason=reason, after=after)
    return {"target": str(row.pk), "dry_run": dry_run, "is_told": is_delivered, "code": code, "detail": happened}


def note_outcome(row: AlertChannel, now: datetime, error: str) -> None:
    """Remember how the newest attempt went ("": well)."""
    mine = AlertChannel.objects.filter(pk=row.pk)
    if error:
        mine.update(last_failure_at=now, last_error=error[:500])
    else:
        mine.update(last_success_at=now, last_error="")


def pause(row: AlertChannel, now: datetime, seconds: float) -> None:
    """Send nothing to the channel for a time."""
    AlertChannel.objects.filter(pk=row.pk).update(paused_until=now + timedelta(seconds=seconds))


def locked(channel: str) -> AlertChannel:
    """A channel's row, locked until the transaction ends. Raises NotFound."""
    return ALERT_CHANNEL.locked(with_id(AlertChannel.objects.all(), channel), channel)


def _test_body(row: AlertChannel, now: datetime) -> dict[str, Any]:
    """The body of a test, with the fields of a real notification."""
    alert = Alert(
        pk=0, rule_name="Test of the channel", kind="test", severity="warning", target=row.name, last_value=0.0,
        threshold=0.0, since=now, fired_at=now,
    )  # fmt: skip
    return body_of(alert, Event.FIRING) | {"event": "test"}


def _set(edit: Edit[AlertChannel], values: Mapping[str, Any]) -> bool:
    """Set the row's fields; whether secrets were dropped because the URL's origin changed."""
    row, sealed = edit.row, dict[str, Any]()

    def setter(key: str, value: Any) -> str:
        if key not in _OF_KIND[ChannelKind(row.kind)]:
            return f"not applicable to channels of kind {row.kind}"
        if key in _SEALED:
            sealed[key] = value
        else:
            setattr(row, key, value)
        return ""

    edit.set(values, {key: partial(setter, key) for key in ("addresses", "language", *_SEALED)})
    if AlertChannel.objects.filter(name=row.name).exclude(pk=row.pk).exists():
        raise ALERT_CHANNEL.exists(row.name)
    return _set_sealed(row, sealed) if sealed else False


def _set_sealed(row: AlertChannel, given: Mapping[str, Any]) -> bool:
    try:
        sealed = CHANNELS.unseal(row.sealed)
    except SealBroken:
        if "url" not in given:
            raise
        sealed = {}
    dropped = False
    if "url" in given:
        origin = parse_url(given["url"]).origin
        if row.origin and origin != row.origin:
            dropped = any(sealed.get(key) and key not in given for key in ("secret", "headers"))
            sealed = {}
        row.origin = origin
    sealed |= given
    row.has_secret = bool(sealed.get("secret"))
    row.header_names = sorted(sealed.get("headers") or {})
    row.sealed = CHANNELS.seal(sealed)
    return dropped
