"""Sends that are answered with the same commit."""

from broker_node.broker import Broker
from qmq.protocol.frames import FrameReader, encode_request
from tests.sim.broker.connections import FakeConnection
from tests.support.drivers.feeding import feed


def give(broker: Broker, connection: FakeConnection, code: int, body: bytes) -> None:
    """Have the broker handle a request of a connection now."""
    (frame,) = feed(FrameReader(), encode_request(code, 1, body))
    broker.handlers.handle(connection, frame)  # type: ignore[arg-type]
