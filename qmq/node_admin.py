"""Client of the admin pages of broker and delay nodes (docs/reference/admin.md). Standard library only.

Every answer is a JSON object, bounded in size; an unavailable one raises a `QmqError` whose `code` is the node's own.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from qmq.errors import ConnectionLost, QmqError, SettingError
from qmq.net.discovery import http_get, http_post_json
from qmq.net.http_auth import RequestSigner
from qmq.protocol.masking import NO_MASKS, Masks

ANSWER_BYTES_MAX = 32 << 20
"""Most bytes of one answer; a page of the message browser holds 4 MiB of messages before JSON escapes what is in them."""
TIMEOUT_SECONDS = 5.0
STATUS_NOT_SERVING = 503
"""What busy nodes answer with."""

_ADDRESS = re.compile(
    r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])"
    r":(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)


class NodeRefused(QmqError):
    """A node answered with an error: `code` is the node's own, `status` is HTTP's.

    `retriable` for 503: the node is busy, or a change's outcome is not known to it.
    """

    code = "node.refused"

    def __init__(self, message: str, *, code: str, status: int) -> None:
        super().__init__(message, code=code, retriable=status == STATUS_NOT_SERVING)
        self.status = status


@dataclass(eq=False, repr=False)
class NodeAdmin:
    """The admin pages of one node.

    Every method raises:
        ConnectionLost: no response in time, one that is not JSON, or a too large one (`net.answer_too_large`).
        NodeRefused: the node rejects the request.
    """

    admin_address: str
    """`host:port`, as nodes register it with the metaserver."""
    timeout_seconds: float = TIMEOUT_SECONDS
    """For a whole request."""
    bytes_max: int = ANSWER_BYTES_MAX
    """For an answer."""
    signer: RequestSigner | None = None
    """Signs requests with the node secret, for nodes that require it."""

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.admin_address):
            raise SettingError(f"{self.admin_address!r} is not an admin address of the form host:port")

    # --- any node --------------------------------------------------------------------------------------------------

    async def stats(
        self, subject: str | None = None, *, after: str = "", since: str = "", limit: int | None = None
    ) -> dict[str, Any]:
        """Numbers of the node; of a broker with one subject, with its subjects after a name, or with those that changed since a
        cursor, page by page."""
        query = {"subject": subject, "after": after or None, "since": since or None, "limit": limit}
        return await self._get("/stats", query)

    async def switch_over(self, to: str = "") -> dict[str, Any]:
        """Have a slave lead the master's broker group: node `to`, or "" for the one that has the most.

        NodeRefused: `switch_over.rejected`, nothing was changed; `change.unknown`, it may be changed later. It takes up to 10 s.
        """
        return await self._post("/switch-over", {"to": to})

    async def clients(self, *, subject: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """The producers and consumers that are connected to a broker, of all subjects or one; those with the highest rates if there
        are more than `limit`."""
        return await self._get("/clients", {"subject": subject, "limit": limit})

    # --- messages of a broker node ---------------------------------------------------------------------------------

    async def messages(
        self,
        subject: str,
        *,
        sequence: int | None = None,
        from_time: int | str | None = None,
        message_id: str | None = None,
        limit: int | None = None,
        masks: Masks = NO_MASKS,
    ) -> dict[str, Any]:
        """A page of messages from a sequence, a time (milliseconds, or ISO with its zone), or with an id."""
        query = {"sequence": sequence, "from_time": from_time, "message_id": message_id, "limit": limit}
        return await self._read(f"{_subject(subject)}/messages", query, masks)

    async def newest_messages(
        self,
        subject: str,
        *,
        until_sequence: int | None = None,
        to_time: int | str | None = None,
        limit: int | None = None,
        masks: Masks = NO_MASKS,
    ) -> dict[str, Any]:
        """A page of messages below a sequence or a time, the newest first; `next_sequence` is the next page's `until_sequence`."""
        query = {"order": "newest", "until_sequence": until_sequence, "to_time": to_time, "limit": limit}
        return await self._read(f"{_subject(subject)}/messages", query, masks)

    async def find(
        self, message_id: str, from_time: int | str, to_time: int | str, *, offset: int | None = None
    ) -> dict[str, Any]:
        """Subjects and sequences of messages with an id that were stored in a window of time; continue at `next_offset` until it is
        None."""
        query = {"message_id": message_id, "from_time": from_time, "to_time": to_time, "offset": offset}
        return await self._get("/messages", query)

    async def search(
        self,
        subject: str,
        *,
        filters: Sequence[str] = (),
        order: str = "newest",
        sequence: int | None = None,
        until_sequence: int | None = None,
        from_time: int | str | None = None,
        to_time: int | str | None = None,
        limit: int | None = None,
        masks: Masks = NO_MASKS,
        caller: str = "",
    ) -> dict[str, Any]:
        """A step of a search for messages that match all filters (docs/reference/filters.md) as they are shown, in a window.

        Until `next_sequence` is None, continue with it as `sequence`, or as `until_sequence` where the order is "newest" first.
        A node does one step at a time of a `caller`; the next one waits, and replaces one that waits already (NodeRefused
        `scan.replaced`).
        """
        body = {
            "filter": list(filters),
            "order": order,
            "sequence": sequence,
            "until_sequence": until_sequence,
            "from_time": from_time,
            "to_time": to_time,
            "limit": limit,
            "masks": masks.encode(),
            "caller": caller or None,
        }
        given = {key: value for key, value in body.items() if value is not None}
        return await self._post(f"{_subject(subject)}/search", given)

    async def trace(
        self,
        subject: str,
        sequence: int,
        *,
        group: str | None = None,
        after: str | None = None,
        masks: Masks = NO_MASKS,
    ) -> dict[str, Any]:
        """The delivery state of a message in each group, or in one."""
        return await self._read(
            f"{_subject(subject)}/messages/{sequence}/trace", {"group": group, "after": after}, masks
        )

    # --- messages of a delay node ----------------------------------------------------------------------------------

    async def delayed(
        self,
        *,
        subject: str = "",
        from_ms: int | None = None,
        to_ms: int | None = None,
        states: Sequence[str] = (),
        match: Mapping[str, str] | None = None,
        filter_text: str = "",
        limit: int | None = None,
        cursor: str = "",
        masks: Masks = NO_MASKS,
    ) -> dict[str, Any]:
        """A page of delayed messages by due time, of one subject or of all. Filter and `match` see them as they are shown.

        A page may be empty and not be the last: continue with `cursor` until it is None. A message's `cursor` continues behind it.
        """
        body = {
            "subject": subject,
            "from": from_ms,
            "to": to_ms,
            "states": ",".join(states),
            "match": match,
            "filter": filter_text,
            "limit": limit,
            "cursor": cursor,
            "masks": masks.encode(),
        }
        return await self._post("/delayed", {key: value for key, value in body.items() if value not in (None, "", {})})

    async def delayed_message(
        self, message_id: str, *, subject: str = "", due_ms: int | None = None, masks: Masks = NO_MASKS
    ) -> dict[str, Any]:
        """Every copy of a delayed message, in any state. The subject and the due time, if known, make it faster."""
        query = {"message_id": message_id, "subject": subject or None, "due_ms": due_ms}
        return await self._read("/delayed/message", query, masks)

    # --- groups of a broker node -----------------------------------------------------------------------------------

    async def group(
        self, subject: str, group: str, *, after: str | None = None, limit: int | None = None
    ) -> dict[str, Any]:
        """A consumer group: position, lag, members."""
        return await self._get(_group(subject, group), {"after": after, "limit": limit})

    async def reset_preview(self, subject: str, group: str, to: str, value: int | str | None = None) -> dict[str, Any]:
        """What `reset` would do; changes nothing."""
        return await self._get(f"{_group(subject, group)}/reset-preview", {"to": to, "value": value})

    async def reset(
        self, subject: str, group: str, to: str, value: int | str | None = None, *, broadcast: bool = False
    ) -> dict[str, Any]:
        """Set a group's position: "earliest", "latest", "time" or "sequence"; on disk when it returns.

        A group that does not exist is created, as a broadcast group if `broadcast`.
        """
        body = {"to": to, "broadcast": broadcast, **({"value": value} if value is not None else {})}
        return await self._post(f"{_group(subject, group)}/reset", body)

    async def forget(self, subject: str, group: str, *, force: bool = False) -> dict[str, Any]:
        """Remove a group; without `force` only one without members and lag (else NodeRefused `group.in_use`)."""
        return await self._post(f"{_group(subject, group)}/forget", {"force": force})

    # --- subjects of a broker node ---------------------------------------------------------------------------------

    async def drop_preview(self, subject: str) -> dict[str, Any]:
        """Why the subject can't be deleted as `reason`; None: it can. Changes nothing."""
        return await self._get(f"{_subject(subject)}/drop-preview", {})

    async def drop(self, subject: str) -> dict[str, Any]:
        """Delete a closed subject without messages and consumers, with its groups (else NodeRefused `subject.not_empty`)."""
        return await self._post(f"{_subject(subject)}/drop", {})

    async def _get(self, path: str, query: Mapping[str, object]) -> dict[str, Any]:
        # The parts of a path are quoted; a query may repeat a name.
        words = urlencode({key: value for key, value in query.items() if value is not None}, doseq=True)
        return await self._request(http_get, f"{path}{'?' if words else ''}{words}")

    async def _read(self, path: str, query: Mapping[str, object], masks: Masks) -> dict[str, Any]:
        """A page with contents of messages. A schema does not fit into an address."""
        values = {**query, "masks": masks.encode()}
        if masks.body_format is None:
            return await self._get(path, values)
        return await self._post(path, {key: value for key, value in values.items() if value is not None})

    async def _post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        return await self._request(http_post_json, path, json.dumps(body).encode())

    async def _request(
        self, send: Callable[..., Awaitable[tuple[int, bytes]]], path: str, *body: bytes
    ) -> dict[str, Any]:
        url = f"http://{self.admin_address}{path}"
        status, raw = await send(
            url, *body, timeout_s=self.timeout_seconds, bytes_max=self.bytes_max, signer=self.signer
        )
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            if status >= 400:
                raise NodeRefused(f"{url} answered {status}", code="node.refused", status=status)
            raise ConnectionLost(f"{url} answered {status}, and no JSON object", code="node.not_json")
        if status == 200:
            return answer
        text = str(answer.get("message") or f"{url} answered {status}")
        raise NodeRefused(text, code=str(answer.get("code") or "node.refused"), status=status)


def _subject(name: str) -> str:
    return f"/subjects/{quote(name, safe='')}"


def _group(subject: str, name: str) -> str:
    return f"{_subject(subject)}/groups/{quote(name, safe='')}"
