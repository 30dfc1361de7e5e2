"""Asking the JSON pages of metaserver and nodes."""

import asyncio
import json
import os
import time
from functools import cache
from typing import Any
from urllib.parse import urlencode

from qmq.errors import ConnectionLost, QmqError
from qmq.net.discovery import STATUS_NOT_FOUND, all_lost, http_get, meta_urls, page_beside, pages_missing
from qmq.net.http_auth import RequestSigner
from qmq.net.node_secret import FILE_NAME, NodeSecret

ASK_SECONDS = 5.0
CLUSTER_PAGE = "/meta/cluster"


@cache
def _signer() -> RequestSigner | None:
    """Signs with the node secret of the environment, or of the system that `make up` runs in this folder; None without one."""
    data_dir = os.environ.get("QMQ_DATA_DIR", "var")
    secret = NodeSecret.from_environment(os.environ, os.path.join(data_dir, FILE_NAME))
    return RequestSigner(secret) if secret is not None else None


def fetch(url: str, *, timeout_s: float = ASK_SECONDS) -> dict[str, Any]:
    """The JSON object behind a URL. Raises ConnectionLost, SettingError, or QmqError with the message of the server."""
    status, body = asyncio.run(http_get(url, timeout_s=timeout_s, signer=_signer()))
    try:
        answer = dict(json.loads(body))
    except (TypeError, ValueError) as error:
        if status == STATUS_NOT_FOUND:
            raise pages_missing(url) from error
        raise ConnectionLost(f"{url} returned {status} and no JSON") from error
    if status != 200:
        text = answer.get("message", body.decode("utf-8", "replace"))
        raise QmqError(str(text), code=answer.get("code", "http.error"))
    return answer


def fetch_metaserver_page(meta: str, path: str) -> dict[str, Any]:
    """A page of the first metaserver that answers, of one or several separated by commas.

    Raises ConnectionLost with what to check, or QmqError with the metaserver's message.
    """
    problems = []
    for url in meta_urls(meta):
        try:
            return fetch(page_beside(url, path))
        except ConnectionLost as error:
            problems.append(error)
    raise with_advice(all_lost(problems)) from problems[-1]


def with_advice(error: ConnectionLost) -> ConnectionLost:
    """The error of a request to the metaserver, with what to check."""
    text = f"{error}. Check that the metaserver is running and that --meta or QMQ_META is its address."
    return ConnectionLost(text, code=error.code) if error.code == "net.unreachable" else error


def node_stats(admin_address: str, subject: str, *, deadline: float) -> dict[str, Any]:
    """A node's numbers of one subject, until a `deadline` on the clock of `time.monotonic`."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ConnectionLost("not queried: the time limit was reached")
    url = f"http://{admin_address}/stats?{urlencode({'subject': subject})}"
    return fetch(url, timeout_s=min(ASK_SECONDS, left))
