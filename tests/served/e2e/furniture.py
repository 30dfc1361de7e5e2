"""Something of each kind in a system, so that every page has something to show."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from qmq.outbox.rows import Status
from qmq.sync import Consumer, Producer
from tests.support.console.business import Business, content, in_folder
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
    outbox: str
    """A registered database, which is disabled: no worker is occupied by it."""

    def address(self, pattern: str) -> str:
        """A page of what is there: `/groups/{subject}/{group}`."""
        return pattern.format(
            subject=SUBJECT, group=GROUP, team=TEAM, user=FIRST_ADMIN, delayed=quote(self.delayed_id),
            broker_group=self.broker_group, sequence=self.sequence, outbox=self.outbox,
        )  # fmt: skip


def furnish(console: System) -> Furniture:
    """Messages, a consumer group that is behind, a dead letter of it, a delayed message, an outbox, a channel and a silence of
    alerts.
    """
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
    business = outbox_of(console, "furniture")
    business.insert(content(SUBJECT, "refused"), status=Status.REFUSED, errors=1)
    business.insert("{}", status=Status.INVALID, errors=1)
    outbox = console.post("/outbox/databases/", business.values(name="furniture", is_enabled=False))["target"]
    return Furniture(message["broker_group"], message["sequence"], delayed.message_id, outbox)


def outbox_of(console: System, name: str) -> Business:
    """A database with an empty outbox that a system may use; not registered."""
    found = in_folder(Path(console.environment["QMQ_OUTBOX_SQLITE_FOLDER"]), f"{name}.sqlite3")
    found.make_tables()
    return found
