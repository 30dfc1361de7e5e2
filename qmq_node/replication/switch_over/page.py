"""The admin page by which an operator has another member lead the broker group."""

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from qmq_node.admin.server import BadRequest, JsonPost, Params
from qmq_node.replication.switch_over.switch_over import SwitchOverRejected, SwitchOverUnknown

PATH = "/switch-over"


def switch_over_posts(switch_over: Callable[[str], Awaitable[dict[str, Any]]]) -> dict[str, JsonPost]:
    """Return the page, by path.

    Args:
        switch_over: takes the node id of the next master, "" for any; returns the answer. Raises SwitchOverRejected or
            SwitchOverUnknown.
    """

    async def post(_: web.Request, params: Params) -> dict[str, Any]:
        try:
            return await switch_over(params.text("to", ""))
        except SwitchOverRejected as rejected:
            raise BadRequest(409, rejected.code, str(rejected)) from rejected
        except SwitchOverUnknown as unknown:
            raise BadRequest(503, unknown.code, str(unknown)) from unknown

    return {PATH: post}
