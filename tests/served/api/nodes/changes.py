"""Changes that nodes make of themselves."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from qmq.node_admin import NodeAdmin


def when_nodes_change(monkeypatch: pytest.MonkeyPatch, name: str, before: Callable[[], object]) -> list[str]:
    """Call `before` in a thread each time a node is about to be changed; the list grows by the node's address."""
    original, asked, one_at_a_time = getattr(NodeAdmin, name), [], threading.Lock()

    def guarded() -> None:
        with one_at_a_time:
            before()

    async def call(node: NodeAdmin, *args: Any, **options: Any) -> Any:
        asked.append(node.admin_address)
        await asyncio.to_thread(guarded)
        return await original(node, *args, **options)

    monkeypatch.setattr(NodeAdmin, name, call)
    return asked
