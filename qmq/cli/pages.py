"""Asking the JSON pages of metaserver and nodes."""

import asyncio
import json
from typing import Any
from urllib.parse import quote, urlencode

from qmq.errors import ConnectionLost, QmqError
from qmq.net.discovery import http_get

ASK_SECONDS = 5.0


def page_url(meta: str, path: str) -> str:
    """A page of the metaserver beside its address page."""
    return meta.rsplit("/meta/", 1)[0] + path


def ask(url: str) -> Any:
    """The JSON behind a URL.

    Raises:
        ConnectionLost: it can't be had.
        QmqError: the server answered with an error; its message is passed on.
    """
    status, body = asyncio.run(http_get(url, timeout_s=ASK_SECONDS))
    try:
        answer = json.loads(body)
    except ValueError as error:
        raise ConnectionLost(f"{url} answered {status}, and no JSON") from error
    if status != 200:
        text = answer.get("message", body.decode("utf-8", "replace")) if isinstance(answer, dict) else str(answer)
        raise QmqError(str(text), code=answer.get("code", "http.error") if isinstance(answer, dict) else "http.error")
    return answer


def cluster(meta: str) -> dict[str, Any]:
    """Broker groups as the metaserver knows them."""
    answer: dict[str, Any] = ask(page_url(meta, "/meta/cluster"))
    return answer


def subject_page(meta: str, subject: str) -> dict[str, Any]:
    """One subject's route."""
    answer: dict[str, Any] = ask(page_url(meta, f"/meta/subjects/{quote(subject, safe='')}"))
    return answer


def node_stats(admin_address: str, subject: str) -> dict[str, Any]:
    """A node's numbers of one subject."""
    answer: dict[str, Any] = ask(f"http://{admin_address}/stats?{urlencode({'subject': subject})}")
    return answer
