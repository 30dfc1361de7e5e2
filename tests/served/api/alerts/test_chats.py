"""Chats: what real HTTP servers receive and answer, in each server's format."""

import hmac
import json
from base64 import b64decode, b64encode
from datetime import timedelta
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from console.alerts.chats import CHATS, LISTED_MAX, ChatNotifier
from console.alerts.http import LIMITED_SECONDS_MAX, NotDelivered, RateLimited
from console.alerts.models import Alert, AlertChannel, AlertRule, Notification
from console.alerts.services import Delivered, deliver, delivery, evaluate
from console.alerts.services.channels import create_channel, try_channel
from console.alerts.services.rules import create_rule
from tests.served.api.alerts.receiver import ACTOR, Receiver, documented_body
from tests.served.api.alerts.system_state import at, group, snapshot
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.django_db
SECRET = "a secret of the robot"
ACCEPTED = {
    "slack": b"ok",
    "dingtalk": b'{"errcode":0,"errmsg":"ok"}',
    "feishu": b'{"code":0,"msg":"success","data":{}}',
    "wecom": b'{"errcode":0,"errmsg":"ok"}',
}
LIMITED = {
    "dingtalk": (b'{"errcode":130101,"errmsg":"send too fast, exceed 20 times per minute"}', 600),
    "feishu": (b'{"code":11232,"msg":"frequency limited"}', 60),
    "wecom": (b'{"errcode":45009,"errmsg":"api freq out of limit"}', 60),
}
EVERY = pytest.mark.parametrize("kind", list(ACCEPTED))


@pytest.fixture(autouse=True)
def only_ours() -> None:
    AlertRule.objects.update(is_enabled=False)


def chat(kind: str, url: str, **values: Any) -> AlertChannel:
    create_channel(kind, {"name": kind, "url": url, **values}, actor=ACTOR)
    return AlertChannel.objects.get(name=kind)


def fire(kind: str, groups: int = 1, lag: int = 101) -> None:
    """So many alerts at once, to be told to the chat."""
    values = {"name": "lag", "threshold": 100, "severity": "critical", "channels": [kind]}
    create_rule("lag", values, actor=ACTOR)
    evaluate(snapshot({f"orders/group-{number:02}": group(lag) for number in range(groups)}), at(0))


def send(channel: AlertChannel, *bodies: dict[str, Any], **options: Any) -> str:
    notifier = ChatNotifier(chat=CHATS[channel.kind], **options)
    return notifier.send(channel, "1", bodies or [documented_body()])


def texts(kind: str, body: Any) -> str:
    """All that people can read of a message."""
    if kind == "slack":
        return "\n".join(block.get("text", block.get("elements", [None])[0])["text"] for block in body["blocks"])
    if kind == "feishu":
        elements = [item.get("text") or item["elements"][0] for item in body["card"]["elements"]]
        return "\n".join(part["content"] for part in [body["card"]["header"]["title"], *elements])
    return str(body["markdown"]["content" if kind == "wecom" else "text"])


@EVERY
def test_an_alert_is_told_in_the_format_of_the_chat(receiver: Receiver, kind: str):
    receiver.body = ACCEPTED[kind]
    channel = chat(kind, receiver.url)
    fire(kind)
    assert deliver(at(1)) == Delivered(delivered=1)
    [(path, headers, _)] = receiver.requests
    [body] = receiver.bodies()
    assert (path, headers["Content-Type"]) == ("/hook?key=hidden", "application/json")
    shape = {
        "slack": {"text", "blocks"}, "dingtalk": {"msgtype", "markdown"}, "feishu": {"msg_type", "card"},
        "wecom": {"msgtype", "markdown"},
    }  # fmt: skip
    assert set(body) == shape[kind], "without a secret nothing is signed"
    said = texts(kind, body)
    assert "PyQMQ [FIRING] critical: lag: orders/group-00" in said
    assert "Value: 101 messages (threshold 100 messages)" in said.replace("> ", "")
    assert "Since: 2026-01-31 12:00:00 UTC" in said
    channel.refresh_from_db()
    assert (channel.last_success_at, channel.last_error) == (at(1), "")


@EVERY
def test_a_message_is_in_the_language_of_the_channel(receiver: Receiver, kind: str):
    receiver.body = ACCEPTED[kind]
    send(chat(kind, receiver.url, language="zh"), {**documented_body(), "event": "test"})
    said = texts(kind, receiver.bodies()[0])
    assert "PyQMQ [测试] 严重: Slow billing: orders/billing" in said
    assert "当前值: 101 条（阈值 100 条）" in said.replace("> ", "")


@EVERY
def test_alerts_of_one_tick_are_one_message(receiver: Receiver, kind: str):
    receiver.body = ACCEPTED[kind]
    chat(kind, receiver.url)
    fire(kind, groups=30)
    assert deliver(at(1)) == Delivered(delivered=30)
    [body] = receiver.bodies()
    said = texts(kind, body)
    assert "PyQMQ alerts: 30 firing" in said
    assert said.count("[FIRING]") == LISTED_MAX
    assert "… and 20 more. See the console." in said
    assert len(receiver.requests[0][2]) <= CHATS[kind].bytes_max
    assert {alert.notified_count for alert in Alert.objects.all()} == {1}
    assert deliver(at(100)) == Delivered()


def test_a_message_lists_as_much_as_the_chat_accepts(receiver: Receiver):
    receiver.body = ACCEPTED["wecom"]
    body = documented_body()
    long = {**body, "alert": {**body["alert"], "rule": "规" * 100, "target": "题" * 190}}
    send(chat("wecom", receiver.url), *[long] * 8)
    [(_, _, content)] = receiver.requests
    assert len(content) <= 4_096
    said = texts("wecom", json.loads(content))
    listed = said.count("[FIRING]")
    assert 0 < listed < 8
    assert f"… and {8 - listed} more" in said


def test_what_fires_stands_above_what_is_resolved_and_critical_above_warnings(receiver: Receiver):
    receiver.body = ACCEPTED["slack"]

    def body(event: str, severity: str, target: str) -> dict[str, Any]:
        alert = {**documented_body()["alert"], "severity": severity, "target": target}
        return {"event": event, "alert": alert}

    found = [body("resolved", "critical", "c"), body("firing", "warning", "b"), body("firing", "critical", "a")]
    send(chat("slack", receiver.url), *found)
    blocks = receiver.bodies()[0]["blocks"]
    assert blocks[0]["text"]["text"] == "PyQMQ alerts: 2 firing, 1 resolved"
    assert [block["text"]["text"].splitlines()[0][-2] for block in blocks[1:]] == ["a", "b", "c"]


def test_names_are_no_links_and_no_mentions(receiver: Receiver):
    body = documented_body()
    evil = {**body, "alert": {**body["alert"], "rule": "<!channel> [pay](http://x) `a` *b*\n# c"}}
    for kind in ACCEPTED:
        receiver.body = ACCEPTED[kind]
        send(chat(kind, receiver.url), evil, evil)
    slack, dingtalk, _, wecom = receiver.bodies()
    assert "&lt;!channel&gt;" in slack["blocks"][1]["text"]["text"]
    for said in (texts("dingtalk", dingtalk), texts("wecom", wecom)):
        assert "<" not in said
        assert "](" not in said
        assert "`" not in said
        assert "\n# c" not in said


# --- signatures -------------------------------------------------------------------------------------------------------


def test_dingtalk_is_signed_in_the_url(receiver: Receiver):
    receiver.body = ACCEPTED["dingtalk"]
    clock = ManualClock()
    send(chat("dingtalk", receiver.url, secret=SECRET), clock=clock)
    query = parse_qs(urlsplit(receiver.requests[0][0]).query)
    stamp = str(clock.wall_ms())
    expected = hmac.new(SECRET.encode(), f"{stamp}\n{SECRET}".encode(), sha256).digest()
    assert query == {"key": ["hidden"], "timestamp": [stamp], "sign": [b64encode(expected).decode()]}


def test_feishu_is_signed_in_the_body(receiver: Receiver):
    receiver.body = ACCEPTED["feishu"]
    clock = ManualClock()
    send(chat("feishu", receiver.url, secret=SECRET), clock=clock)
    [body] = receiver.bodies()
    stamp = str(clock.wall_ms() // 1000)
    expected = hmac.new(f"{stamp}\n{SECRET}".encode(), b"", sha256).digest()
    assert (body["timestamp"], b64decode(body["sign"])) == (stamp, expected)


# --- answers ----------------------------------------------------------------------------------------------------------

REFUSED = [
    ("slack", 403, b"invalid_token", "answered 403: invalid_token"),
    ("slack", 200, b'{"ok":false,"error":"no_text"}', "answered 200: no_text"),
    ("dingtalk", 200, b'{"errcode":310000,"errmsg":"sign not match"}', "error 310000: sign not match"),
    ("dingtalk", 200, b"<html>Sign in to the network</html>", "without an error code: <html>Sign in"),
    ("dingtalk", 200, b"", "without an error code"),
    ("dingtalk", 200, b'{"errcode":"0"}', "without an error code"),
    ("feishu", 200, b'{"code":19021,"msg":"sign match fail or timestamp is not within one hour"}', "error 19021: sign"),
    ("feishu", 200, b'{"StatusCode":9499,"StatusMessage":"Bad Request"}', "error 9499: Bad Request"),
    ("wecom", 200, b'{"errcode":93000,"errmsg":"invalid webhook url"}', "error 93000: invalid webhook url"),
    ("wecom", 200, b"[]", "without an error code"),
]


@pytest.mark.parametrize(("kind", "status", "answer", "text"), REFUSED)
def test_an_answer_that_is_no_success_is_shown(receiver: Receiver, kind: str, status: int, answer: bytes, text: str):
    receiver.status, receiver.body = status, answer
    channel = chat(kind, receiver.url)
    outcome = try_channel(str(channel.pk), now=at(0), actor=ACTOR)
    assert not outcome["is_told"]
    assert text in outcome["detail"]
    channel.refresh_from_db()
    assert text in channel.last_error
    assert channel.paused_until is None


@EVERY
def test_a_redirect_is_not_followed(receiver: Receiver, kind: str):
    receiver.status, receiver.headers = 302, {"Location": receiver.url}
    with pytest.raises(NotDelivered, match="returned 302; redirects are not followed"):
        send(chat(kind, receiver.url))
    assert len(receiver.requests) == 1


@EVERY
def test_a_server_that_does_not_answer_in_time_is_left(receiver: Receiver, kind: str):
    receiver.raw = b""
    with pytest.raises(NotDelivered, match="timed out"):
        send(chat(kind, receiver.url), timeout_seconds=0.3)


@EVERY
def test_a_server_that_sends_a_head_and_no_body_is_left(receiver: Receiver, kind: str):
    receiver.raw = b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n{"
    with pytest.raises(NotDelivered, match="timed out"):
        send(chat(kind, receiver.url), timeout_seconds=0.3)


@EVERY
def test_addresses_are_checked(receiver: Receiver, settings: Any, kind: str):
    settings.WEBHOOK_NETWORKS = []
    with pytest.raises(NotDelivered) as caught:
        send(chat(kind, receiver.url))
    assert caught.value.code == "alert_channel.address_forbidden"
    assert receiver.requests == []


# --- limits of rates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*ACCEPTED, "webhook"])
def test_429_pauses_the_channel_for_as_long_as_the_server_asks(receiver: Receiver, kind: str):
    receiver.status, receiver.headers = 429, {"Retry-After": "120"}
    chat(kind, receiver.url)
    fire(kind)
    assert deliver(at(1)) == Delivered(failed=1)
    channel, row = AlertChannel.objects.get(), Notification.objects.get()
    assert (channel.paused_until, row.next_at) == (at(121), at(121))
    assert channel.last_error.endswith("answered 429: it limits the rate of messages")
    # What comes meanwhile costs no attempt and no request.
    evaluate(snapshot({"orders/other": group(500), "orders/group-00": group(101)}), at(5))
    assert deliver(at(6)) == Delivered()
    assert deliver(at(120)) == Delivered()
    assert len(receiver.requests) == 1
    receiver.status, receiver.headers, receiver.body = 200, {}, ACCEPTED.get(kind, b"ok")
    assert deliver(at(121)) == Delivered(delivered=2)
    assert len(receiver.requests) == (3 if kind == "webhook" else 2)


@pytest.mark.parametrize("kind", list(LIMITED))
def test_an_error_code_that_limits_the_rate_pauses_the_channel(receiver: Receiver, kind: str):
    receiver.body, seconds = LIMITED[kind]
    chat(kind, receiver.url)
    fire(kind)
    assert deliver(at(1)) == Delivered(failed=1)
    assert AlertChannel.objects.get().paused_until == at(1 + seconds)
    receiver.body = ACCEPTED[kind]
    assert deliver(at(seconds)) == Delivered()
    assert deliver(at(1 + seconds)) == Delivered(delivered=1)


def test_a_test_of_a_channel_finds_the_limit_too(receiver: Receiver):
    receiver.body, seconds = LIMITED["dingtalk"]
    channel = chat("dingtalk", receiver.url)
    outcome = try_channel(str(channel.pk), now=at(0), actor=ACTOR)
    assert (outcome["is_told"], outcome["code"]) == (False, "alert_channel.limited")
    channel.refresh_from_db()
    assert channel.paused_until == at(seconds)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 60), ({"Retry-After": "soon"}, 60), ({"Retry-After": "-5"}, 60), ({"Retry-After": "0"}, 1),
        ({"Retry-After": "99999999"}, LIMITED_SECONDS_MAX), ({"x-ogw-ratelimit-reset": "52"}, 52),
        ({"Retry-After": "Thu, 01 Jan 1970 00:10:00 GMT"}, 300),
    ],
)  # fmt: skip
def test_how_long_a_pause_lasts(receiver: Receiver, headers: dict[str, str], seconds: float):
    receiver.status, receiver.headers = 429, headers
    with pytest.raises(RateLimited) as caught:
        send(chat("slack", receiver.url), clock=ManualClock(wall_ms=300_000))
    assert caught.value.seconds == seconds


def test_a_server_that_always_limits_is_given_up(receiver: Receiver):
    receiver.status = 429
    chat("slack", receiver.url)
    fire("slack")
    now = at(1)
    for _ in range(delivery.ATTEMPTS_MAX - 1):
        assert deliver(now) == Delivered(failed=1)
        now = Notification.objects.get().next_at
    assert deliver(now) == Delivered(given_up=1)
    assert len(receiver.requests) == delivery.ATTEMPTS_MAX
    assert deliver(now + timedelta(days=1)) == Delivered()
