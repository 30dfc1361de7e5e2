"""What producers and consumers of the stories do: real clients beside the browser, blocking."""

from typing import Any

from qmq.sync import Consumer, Delivery, Producer
from tests.support.servers.system import System
from tests.support.waiting import eventually


def producer(console: System) -> Producer:
    """A producer of the system; not started."""
    return Producer(console.meta_url, app="shop")


def consumer(console: System, subject: str, group: str, *, attempts_max: int = 32) -> Consumer:
    """The consumer `GROUP-1` of a group that begins at the oldest message; not started."""
    return Consumer(
        console.meta_url, subject, group, app="shop", consumer_id=f"{group}-1", start="earliest",
        attempts_max=attempts_max,
    )  # fmt: skip


def group_stats(console: System, subject: str, group: str) -> dict[str, dict[str, Any]]:
    """What each broker that knows the group says of it."""
    return {
        name: found
        for name in console.brokers
        for stats in console.admin(name, f"/stats?subject={subject}")["subjects"]
        for found in stats["groups"]
        if found["group"] == group
    }


def wait_until_caught_up(console: System, subject: str, group: str) -> None:
    """Acks are sent together a moment later: wait until the brokers know of all."""
    eventually(
        lambda: all(found["lag"] == 0 for found in group_stats(console, subject, group).values()),
        what=f"{group} is caught up",
    )  # fmt: skip


def receive(consumer: Consumer, messages: int) -> list[Delivery]:
    """The next deliveries, so many; not settled."""
    found: list[Delivery] = []

    def look() -> bool:
        found.extend(consumer.pull(messages - len(found), timeout=0.2))
        return len(found) == messages

    eventually(look, what=f"{messages} deliveries")
    return found


def receive_and_ack(consumer: Consumer, messages: int) -> list[Delivery]:
    """The next deliveries, so many, each acked."""
    found = receive(consumer, messages)
    for delivery in found:
        delivery.ack()
    return found
