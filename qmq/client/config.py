"""Limits of what a producer or consumer holds in memory and sends at a time."""

from dataclasses import dataclass

from qmq.protocol.frames import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what a producer or consumer holds in memory and sends at a time."""

    queue_messages: int = 10_000
    """Unsent messages of a producer. `send` waits above it, `send_soon` raises QueueFull."""
    queue_bytes: int = 64 << 20
    """Bytes of these messages."""
    batch_messages: int = 500
    """Messages per batch."""
    batch_bytes: int = 1 << 20
    """Bytes per batch; a larger message is sent alone."""
    batches_in_flight: int = 16
    """Batches of a producer that are sent and not answered yet; at most half of them to one broker group if another one can have
    more."""
    prefetch_messages: int = 4_000
    """Messages pulled and neither acknowledged nor retried yet, across all broker groups. No pull is sent while more messages than
    one asks for are queued ahead of the application."""
    prefetch_bytes: int = 64 << 20
    """Bytes of these messages. Above it, no pull is sent; responses to pulls that were sent before may exceed it."""
    pull_messages: int = 2_000
    """Most messages per pull. The first asks for 100; the number doubles while the application waits for messages, and is halved,
    to 100 at least, when it takes longer than a second for those of a pull."""
    pull_bytes: int = 32 << 20
    """Intended size of a response to a pull. From brokers that do not limit their responses, fewer large messages are requested."""
    answer_bytes: int = FRAME_BYTES_MAX
    """A larger response closes the connection, and half as many messages are requested. A single larger message fails the
    consumer."""


DEFAULT_LIMITS = Limits()
