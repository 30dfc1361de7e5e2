"""Channels: make, change, delete, try. What is secret goes in and never out."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import validate_email

from console.alerts.addresses import IllegalUrl, parse_url
from console.alerts.models import AlertChannel, ChannelKind
from console.alerts.notifiers import DELIVERY_HEADER, SIGNATURE_HEADER, Notifier, NotTold, WebhookNotifier, notifiers
from console.alerts.sealing import SealBroken, fingerprint, seal, unseal
from console.alerts.services import values as check
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, ChangeRefused, Conflict, NotFound, changing, check_version
from qmq.errors import QmqError
from qmq.words import counted

CHANNELS_MAX = 100
ADDRESSES_MAX = 20
HEADERS_MAX = 20
HEADER_CHARS_MAX = 500
SECRET_CHARS_MIN = 16
SECRET_CHARS_MAX = 200
FIELDS = ("name", "is_enabled", "url", "secret", "headers", "addresses")
"""What an administrator may set; `kind` once, when the channel is made."""
_OF_WEBHOOKS = frozenset({"url", "secret", "headers"})
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
    try:
        sealed = fingerprint(unseal(row.sealed)) if row.sealed else None
    except SealBroken:
        sealed = "unreadable"
    return {
        "name": row.name,
        "kind": row.kind,
        "origin": row.origin,
        "addresses": row.addresses,
        "headers": row.header_names,
        "has_secret": row.has_secret,
        "secrets": sealed,
        "is_enabled": row.is_enabled,
    }


def create_channel(
    kind: str, values: Mapping[str, Any], *, actor: Actor, reason: str = "", dry_run: bool = False
) -> Change:
    """Make a channel: a webhook needs a `url`, an e-mail channel `addresses`.

    Raises:
        ChangeRefused: a value is not allowed, or there are CHANNELS_MAX channels.
        Conflict: there is a channel of this name.
    """
    wrong = {} if kind in set(ChannelKind) else {"kind": f"must be one of {', '.join(ChannelKind)}"}
    wrong |= {
        key: "needed" for key in ("name", "url" if kind == ChannelKind.WEBHOOK else "addresses") if key not in values
    }
    check.refuse("alert_channel", wrong)
    with changing(dry_run=dry_run):
        if AlertChannel.objects.count() >= CHANNELS_MAX:
            raise ChangeRefused(
                f"There are already {CHANNELS_MAX} channels, the maximum. Delete one first.",
                code="alert_channel.too_many",
            )
        row = AlertChannel(kind=kind)
        _set(row, values)
        row.save()
        after = described(row)
        about = f"alert channel {row.name}"
        audit.record(actor=actor, action="alert_channel.create", target=about, reason=reason, after=after)
        return Change(str(row.pk), None, after, row.version)


def update_channel(
    channel: str,
    values: Mapping[str, Any],
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Change what `values` names and nothing else; a `secret` of None takes it away, `headers` are replaced as a whole.

    A new `url` takes secret and headers along only when it has the same scheme, host and port: else whoever may change
    the channel could have them sent to himself.

    Raises:
        NotFound, Stale, ChangeRefused, Conflict.
    """
    with changing(dry_run=dry_run):
        row = locked(channel)
        check_version(f"alert channel {row.name}", row.version, expected_version)
        before = described(row)
        dropped = _set(row, values)
        after = described(row)
        if before != after:
            row.version += 1
            row.save()
            about = f"alert channel {row.name}"
            audit.record(
                actor=actor, action="alert_channel.update", target=about, reason=reason, before=before, after=after
            )
        notes = (
            ("The URL has a different origin, so the secret and headers are removed unless entered again.",)
            if dropped
            else ()
        )
        return Change(str(row.pk), before, after, row.version, notes)


def delete_channel(
    channel: str, *, actor: Actor, reason: str = "", expected_version: int | None = None, dry_run: bool = False
) -> Change:
    """Delete a channel that no rule uses.

    Raises:
        Conflict: rules use it.
        NotFound, Stale.
    """
    with changing(dry_run=dry_run):
        row = locked(channel)
        check_version(f"alert channel {row.name}", row.version, expected_version)
        used = list(row.rules.values_list("name", flat=True)[:5])
        if used:
            raise Conflict(
                f"Channel {row.name} is used by rules: {', '.join(used)}. Remove it from them first.",
                code="alert_channel.used",
            )
        before, pk, about = described(row), str(row.pk), f"alert channel {row.name}"
        row.delete()
        audit.record(actor=actor, action="alert_channel.delete", target=about, reason=reason, before=before)
        return Change(pk, before, None)


def try_channel(
    channel: str,
    *,
    now: datetime,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
    using: Mapping[str, Notifier] | None = None,
) -> dict[str, Any]:
    """Send a test notification now; what happened. A dry run only looks whether the webhook's host may be asked.

    Raises:
        NotFound.
    """
    row = AlertChannel.objects.filter(pk=check.row_id("alert_channel", channel)).first()
    if row is None:
        raise _unknown(channel)
    notifier = (using or notifiers())[row.kind]
    try:
        if not dry_run:
            happened = notifier.send(row, f"test-{row.pk}-{int(now.timestamp())}", _test_body(row, now))
        elif isinstance(notifier, WebhookNotifier):
            happened = notifier.check(row)
        else:
            happened = f"would be sent to {counted(len(row.addresses), 'address', 'addresses')}"
        told, code = True, ""
    except (NotTold, SealBroken) as error:
        told, happened, code = False, str(error), error.code
    if not dry_run:
        with changing(dry_run=False):
            note_outcome(row, now, "" if told else happened)
            after = {"is_told": told, "detail": happened[:500]}
            about = f"alert channel {row.name}"
            audit.record(actor=actor, action="alert_channel.test", target=about, reason=reason, after=after)
    return {"target": str(row.pk), "dry_run": dry_run, "is_told": told, "code": code, "detail": happened}


def note_outcome(row: AlertChannel, now: datetime, error: str) -> None:
    """Remember how the newest attempt went ("": well)."""
    mine = AlertChannel.objects.filter(pk=row.pk)
    if error:
        mine.update(last_failure_at=now, last_error=error[:500])
    else:
        mine.update(last_success_at=now, last_error="")


def locked(channel: str) -> AlertChannel:
    """A channel's row, locked until the transaction ends. Raises NotFound."""
    row = AlertChannel.objects.select_for_update().filter(pk=check.row_id("alert_channel", channel)).first()
    if row is None:
        raise _unknown(channel)
    return row


def _unknown(channel: str) -> QmqError:
    return NotFound(f"Alert channel {channel} not found.", code="alert_channel.unknown")


def _test_body(row: AlertChannel, now: datetime) -> dict[str, Any]:
    alert = {
        "id": "0", "rule": "Test of the channel", "kind": "test", "severity": "warning", "target": row.name,
        "owner": None, "value": 0.0, "threshold": 0.0, "since": now.isoformat(), "fired_at": now.isoformat(),
        "resolved_at": None, "resolution": None,
    }  # fmt: skip
    return {"event": "test", "alert": alert, "sent_by": "pyqmq"}


def _set(row: AlertChannel, values: Mapping[str, Any]) -> bool:
    """Set the row's fields; whether secrets were dropped because the URL's origin changed."""
    wrong: dict[str, str] = {}
    for key, value in values.items():
        if key not in FIELDS:
            wrong[key] = f"unknown; allowed: {', '.join(FIELDS)}"
        elif (key in _OF_WEBHOOKS) != (row.kind == ChannelKind.WEBHOOK) and key in _OF_WEBHOOKS | {"addresses"}:
            wrong[key] = f"not applicable to channels of kind {row.kind}"
        elif text := _CHECKS[key](value):
            wrong[key] = text
    check.refuse("alert_channel", wrong)
    for key in ("name", "is_enabled"):
        if key in values:
            setattr(row, key, values[key])
    if "addresses" in values:
        row.addresses = list(dict.fromkeys(values["addresses"]))
    if AlertChannel.objects.filter(name=row.name).exclude(pk=row.pk).exists():
        raise Conflict(f"Alert channel {row.name!r} already exists. Choose another name.", code="alert_channel.exists")
    given = {key: values[key] for key in _OF_WEBHOOKS if key in values}
    return _set_sealed(row, given) if given else False


def _set_sealed(row: AlertChannel, given: Mapping[str, Any]) -> bool:
    try:
        sealed = unseal(row.sealed)
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
    row.sealed = seal(sealed)
    return dropped


def _url_problem(value: Any) -> str:
    if not isinstance(value, str):
        return "is required"
    try:
        parse_url(value)
    except IllegalUrl as error:
        return str(error)
    return ""


def _secret_problem(value: Any) -> str:
    return "" if value is None else check.text_problem(value, SECRET_CHARS_MAX, SECRET_CHARS_MIN)


def _headers_problem(value: Any) -> str:
    if not isinstance(value, dict) or len(value) > HEADERS_MAX:
        return f"must be at most {HEADERS_MAX} names with values"
    if len({str(name).lower() for name in value}) < len(value):
        return "must not contain a name twice"
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER_NAME.fullmatch(name) or name.lower() in _OURS:
            return f"{str(name)[:60]!r} can't be set"
        if problem := check.text_problem(text, HEADER_CHARS_MAX):
            return f"{name}: {problem}"
        if not text.isascii():
            return f"{name}: must be ASCII"
    return ""


def _addresses_problem(value: Any) -> str:
    if not isinstance(value, list) or not 1 <= len(value) <= ADDRESSES_MAX:
        return f"must be 1 to {ADDRESSES_MAX} email addresses"
    for address in value:
        try:
            validate_email(address)
        except ValidationError:
            return f"{str(address)[:80]!r} is not a valid email address"
    return ""


_CHECKS: dict[str, Callable[[Any], str]] = {
    "name": check.name_problem,
    "is_enabled": check.flag_problem,
    "url": _url_problem,
    "secret": _secret_problem,
    "headers": _headers_problem,
    "addresses": _addresses_problem,
}
