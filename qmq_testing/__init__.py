"""Tests of applications against real nodes: a metaserver, a broker and a delay node in the test's own process.

With pytest, the plugin brings the fixtures `qmq_server` and `qmq_time` (`qmq_testing.plugin`). Without it:

    with Server() as server:
        run_my_application(server.url)
        assert [message.properties for message in server.wait_for("order.paid")] == [{"order": "17"}]

Names load on first use: as a pytest plugin this package is imported in every run, and most runs need none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qmq_testing.deliveries import ManualDelivery as ManualDelivery
    from qmq_testing.deliveries import delivery as delivery
    from qmq_testing.messages import StoredMessage as StoredMessage
    from qmq_testing.server import AsyncServer as AsyncServer
    from qmq_testing.server import AsyncTime as AsyncTime
    from qmq_testing.server import Server as Server
    from qmq_testing.server import ServerTime as ServerTime
    from qmq_testing.settings import ServerSettings as ServerSettings

_HOME = {
    "AsyncServer": "qmq_testing.server",
    "AsyncTime": "qmq_testing.server",
    "ManualDelivery": "qmq_testing.deliveries",
    "Server": "qmq_testing.server",
    "ServerSettings": "qmq_testing.settings",
    "ServerTime": "qmq_testing.server",
    "StoredMessage": "qmq_testing.messages",
    "delivery": "qmq_testing.deliveries",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Import the module of a public name."""
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'qmq_testing' has no attribute {name!r}")
