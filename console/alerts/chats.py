"""Chats: Slack, DingTalk, Feishu and WeCom, by the web address of a robot in a group.

All notifications of a channel that are due make one message: these servers accept few messages (`Chat` says how many), and people
read one message more easily than twenty. Except for Slack they answer 200 whatever happens; the body says whether the message was
accepted.
"""

import hmac
import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, ClassVar
from urllib.parse import quote_plus

from console.alerts.http import LIMITED_SECONDS, Answer, HttpNotifier, NotDelivered, RateLimited, shown
from console.alerts.models import AlertChannel, ChannelKind
from console.alerts.sealing import CHANNELS
from console.alerts.wording import Wording, words_of

BATCH_MAX = 100
"""Notifications that one message reports."""
LISTED_MAX = 10
"""Notifications that a message lists; the others are counted."""
TEXT_CHARS_MAX = 200
"""Characters shown of a name or value."""
ERROR_CHARS_MAX = 200

Item = tuple[str, Sequence[tuple[str, str]]]
"""A notification: its title and its facts."""


@dataclass(frozen=True, slots=True)
class Text:
    """What a message says."""

    heading: str
    items: Sequence[Item]
    more: str
    """How many notifications are not listed; "": all are."""
    is_critical: bool
    is_resolved: bool
    """Whether all of them are resolutions."""


@dataclass(frozen=True, slots=True)
class Chat:
    """How a chat server takes messages, and how it answers."""

    written: Callable[[Text], dict[str, Any]]
    """The request's body."""
    bytes_max: int
    """Maximum size of the request's body."""
    signed: Callable[[str, dict[str, Any], str, int], tuple[str, dict[str, Any]]] | None = None
    """(URL, body, secret, milliseconds) -> (URL, body) with a signature; None: the server knows none."""
    code_fields: tuple[str, ...] = ()
    """Fields of the answer with an error code, 0 for success; empty: the status says it."""
    limited_codes: frozenset[int] = frozenset()
    """Codes of answers that limit the rate."""
    limited_seconds: float = LIMITED_SECONDS
    """For how long such a limit holds."""


@dataclass(frozen=True, slots=True)
class ChatNotifier(HttpNotifier):
    """Sends notifications to a chat."""

    batch_max: ClassVar[int] = BATCH_MAX
    chat: Chat = field(kw_only=True)

    def send(self, channel: AlertChannel, delivery: str, bodies: Sequence[Mapping[str, Any]]) -> str:
        sealed, words = CHANNELS.unseal(channel.sealed), words_of(channel.language)
        url, secret = str(sealed.get("url", "")), sealed.get("secret")
        for listed in range(min(len(bodies), LISTED_MAX), -1, -1):
            content = self.chat.written(text_of(bodies, listed, words))
            address = url
            if secret and self.chat.signed is not None:
                address, content = self.chat.signed(url, content, str(secret), self.clock.wall_ms())
            data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
            if len(data) <= self.chat.bytes_max:
                break
        answer = self.post(address, data, {}, reads_body=True)
        self._check(answer)
        return answer.text

    def _check(self, answer: Answer) -> None:
        """Raises NotDelivered when the body says that the message was not accepted."""
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if not self.chat.code_fields:
            if isinstance(found, dict) and found.get("ok") is False:
                raise NotDelivered(f"{answer.text}: {str(found.get('error'))[:ERROR_CHARS_MAX]}")
            return
        codes = [found[name] for name in self.chat.code_fields if name in found] if isinstance(found, dict) else []
        if not codes or type(codes[0]) is not int:
            raise NotDelivered(f"{answer.text} without an error code: {shown(answer.body)}")
        if codes[0] == 0:
            return
        why = next((found[name] for name in ("errmsg", "msg", "StatusMessage") if name in found), "")
        text = f"{answer.text}, error {codes[0]}: {' '.join(str(why).split())[:ERROR_CHARS_MAX]}"
        if codes[0] in self.chat.limited_codes:
            raise RateLimited(text, self.chat.limited_seconds)
        raise NotDelivered(text)


def text_of(bodies: Sequence[Mapping[str, Any]], listed: int, words: Wording) -> Text:
    """Notifications as a message that lists the first ones, those that fire and critical ones before others. Pure."""
    ordered = sorted(bodies, key=lambda body: (body["event"] == "resolved", body["alert"]["severity"] != "critical"))
    items: list[Item] = []
    for body in ordered[:listed]:
        # The title has rule and target already.
        items.append((_line(words.title(body)), [(label, _line(text)) for label, text in words.facts(body)[2:]]))
    left = len(bodies) - len(items)
    return Text(
        _line(words.heading(bodies)),
        items,
        words.more.format(left) if left else "",
        any(body["alert"]["severity"] == "critical" and body["event"] != "resolved" for body in bodies),
        all(body["event"] == "resolved" for body in bodies),
    )


def _line(text: str) -> str:
    """A text of others as one line of limited length."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= TEXT_CHARS_MAX else f"{line[: TEXT_CHARS_MAX - 1]}…"


# --- Slack ------------------------------------------------------------------------------------------------------------


def _slack(text: Text) -> dict[str, Any]:
    """Incoming webhook with blocks; `text` is what notifications on a phone show. A header has at most 150 characters.

    https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks, https://docs.slack.dev/reference/block-kit/blocks
    """
    header = {"type": "header", "text": {"type": "plain_text", "text": text.heading[:150], "emoji": False}}
    blocks: list[dict[str, Any]] = [header]
    for title, facts in text.items:
        lines = [*([f"*{_slack_text(title)}*"] if len(text.items) > 1 or text.more else [])]
        lines += [f"{_slack_text(label)}: {_slack_text(fact)}" for label, fact in facts]
        blocks.append(
            {"type": "section", "text": {"type": "mrkdwn", "text": "\n".join(lines)[:3_000], "verbatim": True}}
        )
    if text.more:
        blocks.append({"type": "context", "elements": [{"type": "plain_text", "text": text.more}]})
    return {"text": _slack_text(text.heading), "blocks": blocks}


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# --- DingTalk ---------------------------------------------------------------------------------------------------------


def _dingtalk(text: Text) -> dict[str, Any]:
    """Custom robot, message type markdown; `title` is what the list of conversations shows. 20 messages a minute; a robot that
    sends more is blocked for 10 minutes (130101).

    https://open.dingtalk.com/document/orgapp/custom-robot-access
    """
    return {"msgtype": "markdown", "markdown": {"title": text.heading, "text": _markdown(text, "\n\n")}}


def _dingtalk_signed(url: str, body: dict[str, Any], secret: str, now_ms: int) -> tuple[str, dict[str, Any]]:
    """HMAC-SHA256 with the secret over `<milliseconds>\\n<secret>`, in the URL.

    https://open.dingtalk.com/document/robots/customize-robot-security-settings
    """
    digest = hmac.new(secret.encode(), f"{now_ms}\n{secret}".encode(), sha256).digest()
    mark = "&" if "?" in url else "?"
    return f"{url}{mark}timestamp={now_ms}&sign={quote_plus(b64encode(digest))}", body


# --- Feishu -----------------------------------------------------------------------------------------------------------


def _feishu(text: Text) -> dict[str, Any]:
    """Custom bot with a card, whose texts are plain. 100 messages a minute, 5 a second (11232), 20 KB.

    https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot
    """
    color = "green" if text.is_resolved else "red" if text.is_critical else "orange"
    elements: list[dict[str, Any]] = []
    for title, facts in text.items:
        lines = [*([title] if len(text.items) > 1 or text.more else []), *(f"{name}: {fact}" for name, fact in facts)]
        elements.append({"tag": "div", "text": {"tag": "plain_text", "content": "\n".join(lines)}})
    if text.more:
        elements.append({"tag": "note", "elements": [{"tag": "plain_text", "content": text.more}]})
    header = {"template": color, "title": {"tag": "plain_text", "content": text.heading}}
    return {"msg_type": "interactive", "card": {"header": header, "elements": elements}}


def _feishu_signed(url: str, body: dict[str, Any], secret: str, now_ms: int) -> tuple[str, dict[str, Any]]:
    """HMAC-SHA256 over nothing, with `<seconds>\\n<secret>` as key, in the body.

    https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot, "signature verification"
    """
    stamp = str(now_ms // 1000)
    digest = hmac.new(f"{stamp}\n{secret}".encode(), b"", sha256).digest()
    return url, {"timestamp": stamp, "sign": b64encode(digest).decode(), **body}


# --- WeCom ------------------------------------------------------------------------------------------------------------


def _wecom(text: Text) -> dict[str, Any]:
    """Group robot, message type markdown with at most 4,096 bytes of text. 20 messages a minute (45009). No signature.

    https://developer.work.weixin.qq.com/document/path/91770
    """
    return {"msgtype": "markdown", "markdown": {"content": _markdown(text, "\n")}}


def _markdown(text: Text, line_end: str) -> str:
    """Headings, bold text and quotes: what both dialects have."""
    lines = [f"### {_plain(text.heading)}"]
    for title, facts in text.items:
        if len(text.items) > 1 or text.more:
            lines.append(f"**{_plain(title)}**")
        lines += [f"> {label}: {_plain(fact)}" for label, fact in facts]
    return line_end.join([*lines, text.more] if text.more else lines)


_SIGNS = str.maketrans({"`": "'", "*": "\u2217", "<": "\u2039", ">": "\u203a"})


def _plain(text: str) -> str:
    """Text of others, of which nothing becomes a link, a mention or a format."""
    return text.translate(_SIGNS).replace("](", "] (")


_WECOM_BYTES_MAX = 4_096
CHATS: dict[str, Chat] = {
    ChannelKind.SLACK: Chat(_slack, bytes_max=40_000),
    ChannelKind.DINGTALK: Chat(
        _dingtalk,
        bytes_max=20_000,
        signed=_dingtalk_signed,
        code_fields=("errcode",),
        limited_codes=frozenset({130101}),
        limited_seconds=600.0,
    ),
    ChannelKind.FEISHU: Chat(
        _feishu,
        bytes_max=20_000,
        signed=_feishu_signed,
        code_fields=("code", "StatusCode"),
        limited_codes=frozenset({11232, 99991400}),
    ),
    ChannelKind.WECOM: Chat(
        _wecom, bytes_max=_WECOM_BYTES_MAX, code_fields=("errcode",), limited_codes=frozenset({45009})
    ),
}
"""By kind of channel."""
