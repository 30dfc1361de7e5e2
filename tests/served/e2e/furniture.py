"""Something of each kind in a system, so that every page has something to show."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from qmq.sync import Consumer, Producer
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

SUBJECT = "shop.paid"
GROUP = "billing"
TEAM = "orders"
FIRST_ADMIN = "1"
"""Made with the tables."""
MESSAGES = 5


@dataclass(frozen=True, slots=True)
class Furniture:
    """What there is, for the addresses of its pages."""

    broker_group: str
    sequence: str
    """Of a message of SUBJECT."""
    delayed_id: str
    """A message that waits for a day."""

    def address(self, pattern: str) -> str:
        """A page of what is there: `/groups/{subject}/{group}`."""
        return pattern.format(
            subject=SUBJECT, group=GROUP, team=TEAM, user=FIRST_ADMIN, delayed=quote(self.delayed_id),
            broker_group=self.broker_group, sequence=self.sequence,
        )  # fmt: skip


def furnish(console: System) -> Furniture:
    """Messages, a consumer group that is behind, a dead letter of it, a delayed message, a channel and a silence of alerts."""
    url = console.meta_url
    with Producer(url) as producer:
        for number in range(MESSAGES):
            producer.send(SUBJECT, {"order": str(number)}, tags=["card"])
        delayed = producer.send(SUBJECT, {"order": "later"}, delay=timedelta(days=1))
    with Consumer(url, SUBJECT, GROUP, start="earliest", attempts_max=0) as consumer:
        (poison,) = consumer.pull(1, timeout=10)
        poison.retry()
        for delivery in consumer.pull(1, timeout=10):
            delivery.ack()

    def is_known() -> bool:
        letters = console.ask("GET", f"/dead-letters/{SUBJECT}/{GROUP}/")
        return letters.status == 200 and len(letters.body["results"]) == 1

    eventually(is_known, what="the dead letter is known", every_s=ASK_SECONDS)
    console.post("/alert-channels/", {"name": "on-call", "kind": "email", "addresses": ["on-call@example.com"]})
    ends_at = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    console.post("/silences/", {"target": f"{SUBJECT}/unused", "ends_at": ends_at, "reason": "furniture"})
    message = console.get(f"/subjects/{SUBJECT}/messages/")["results"][0]
    return Furniture(message["broker_group"], message["sequence"], delayed.message_id)
