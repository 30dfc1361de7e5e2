"""The shop's metadata in a running console: teams, subjects, groups, users, tokens, alerts. Doing it again changes nothing."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from examples.shop.session import Session
from examples.shop.shop import Pace, Shop

MAIL_DOMAIN = "shop.example"
TOKENS = (
    {"name": "deployments", "scopes": ["operate"], "expires_in_days": 90},
    {"name": "grafana", "scopes": ["read"], "expires_in_days": 365},
)
RULES: tuple[dict[str, Any], ...] = (
    {
        "name": "Fraud check falls behind", "kind": "lag", "target": "order.created/fraud-check",
        "threshold": 100, "clear_threshold": 20, "severity": "warning",
    },
    {
        "name": "Parcel tracking falls behind", "kind": "lag", "target": "parcel.moved/tracking",
        "threshold": 200, "clear_threshold": 50, "severity": "critical",
    },
    {
        "name": "Search index is stale", "kind": "time_lag", "target": "product.changed/search-index",
        "threshold": 60, "for_seconds": 10, "severity": "critical",
    },
    {
        "name": "Card payments end as dead letters", "kind": "dead_letters", "target": "payment.requested/*",
        "threshold": 5, "window_seconds": 600, "severity": "critical",
    },
    {"name": "Orders wait", "kind": "time_lag", "target": "order.*", "threshold": 300, "severity": "warning"},
    {"name": "Night shift: any lag", "kind": "lag", "target": "*", "threshold": 50_000, "severity": "warning", "is_enabled": False},
)  # fmt: skip
SILENCE = {
    "rule": "Search index is stale",
    "target": "product.changed/*",
    "reason": "The index is rebuilt until tonight",
}
SILENCE_HOURS = 8
CHANNEL = {
    "name": "on-call",
    "kind": "email",
    "addresses": [f"on-call@{MAIL_DOMAIN}"],
    "is_enabled": False,
}
PAUSE_REASON = "The ledger is closed for the month's end"


def make_metadata(session: Session, shop: Shop, now: datetime, hand_out: Callable[[str, str], str]) -> Iterator[str]:
    """Make what is missing; yields a line about each step.

    `hand_out(name, password)` is called for each new user and returns what the line may show of the password.

    Raises:
        QmqError: the console refuses a step.
    """
    plan = session.change("PUT", "/apply/", shop.document())
    changes = sum(step["action"] != "keep" for step in plan["steps"])
    yield f"teams, subjects, consumer groups: {changes} of {len(plan['steps'])} created or changed"
    for person in shop.people:
        yield from _make_user(session, person, hand_out)
    there = {row["name"] for row in session.get("/tokens/?is_live=true")["results"]}
    for token in TOKENS:
        if token["name"] not in there:
            session.change("POST", "/tokens/", token)
    for rule in RULES:
        session.change("POST", "/alert-rules/", rule, unless="alert_rule.exists")
    session.change("POST", "/alert-channels/", CHANNEL, unless="alert_channel.exists")
    _silence(session, now)
    yield f"{len(TOKENS)} tokens, {len(RULES)} alert rules, a channel, a silence"
    for subject, group in shop.groups():
        if group.pace is Pace.PAUSED:
            place = f"{quote(subject.name, safe='')}/{quote(group.name, safe='')}"
            session.change("POST", f"/consumer-groups/{place}/pause/", {"reason": PAUSE_REASON})
            yield f"consumer group {subject.name}/{group.name} is paused"


def _make_user(session: Session, person: dict[str, Any], hand_out: Callable[[str, str], str]) -> Iterator[str]:
    name = person["username"]
    made = session.change("POST", "/users/", {**person, "email": f"{name}@{MAIL_DOMAIN}"}, unless="user.exists")
    if made is not None:
        yield f"user {name}, {person['role']}, password {hand_out(name, made['password'])}"


def _silence(session: Session, now: datetime) -> None:
    active = session.get("/silences/?is_active=true")["results"]
    if any(row["rule"] == SILENCE["rule"] for row in active):
        return
    ends_at = (now.astimezone(UTC) + timedelta(hours=SILENCE_HOURS)).isoformat()
    session.change("POST", "/silences/", {**SILENCE, "ends_at": ends_at})
