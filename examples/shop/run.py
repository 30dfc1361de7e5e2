"""The demo's messages from the first to the last: history, delayed ones, then traffic until it is stopped."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from examples.shop.senders import Senders
from examples.shop.session import Session
from examples.shop.shop import Shop
from examples.shop.workers import Incident, Workers
from qmq.client.delayed import DelayedReceipt
from qmq.errors import QmqError

CANCELLED_MESSAGES = 3
MOVED_MESSAGES = 2
QUIET_SECONDS = 8.0
"""With `once`: the groups are done when nothing came for so long; longer than brokers hold a retry back (5 s)."""
LOOK_SECONDS = 1.0
ONCE_SECONDS_MAX = 90.0
"""With `once`: the longest that groups are waited for."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the command was told."""

    meta_url: str
    rate: float
    """Messages a second."""
    seconds: float | None
    """How long; None: until it is stopped."""
    is_once: bool
    """Load, let the groups work it off, and end."""
    seed: int
    incident: Incident | None = None


async def run(
    session: Session, shop: Shop, options: Options, now: datetime, counts: Counter[str], report: Callable[[str], None]
) -> None:
    """Send and receive in the system that `session` is signed in to, until it is cancelled or what `options` ask for is done.

    Args:
        counts: where messages are counted: sent, failed, received, retried.
        tell: takes lines for whoever watches; one that begins with a carriage return replaces the last one.

    Raises:
        QmqError: the console refuses something or no longer answers, or the system takes no messages.
    """
    _check_takes_messages(session)

    def progress() -> None:
        report("\r" + ", ".join(f"{counts[word]:,} {word}" for word in ("sent", "received", "retried", "failed")))

    async with Senders(options.meta_url, shop, counts, seed=options.seed) as senders:
        receipts = await senders.schedule(now)
        report(f"delayed messages: {len(receipts):,} sent")
        await asyncio.to_thread(_change_some, session, receipts)
        # Consumers come last: so many at once that the metaserver closes other connections without a proof.
        async with Workers(options.meta_url, shop, counts, rate=options.rate, seed=options.seed) as workers:
            await senders.send_history()
            if options.is_once:
                await _quiet(counts, progress)
                return
            if options.incident is not None:
                workers.plan(options.incident)
            await senders.send_for(options.rate, options.seconds, progress)


def _check_takes_messages(session: Session) -> None:
    """Raises QmqError where nothing could be sent: a demo that waits for a better time helps nobody."""
    groups = session.get("/broker-groups/")["results"]
    for kind in ("broker", "delay"):
        if not any(group["kind"] == kind and group["state"] == "read_write" for group in groups):
            states = ", ".join(f"{group['name']} {group['state']}" for group in groups) or "there is none"
            raise QmqError(f"no {kind} group accepts messages ({states}); check the nodes' logs")


def _change_some(session: Session, receipts: list[DelayedReceipt]) -> None:
    """Cancel and move a few of the last ones, as an operator would."""
    last = receipts[-CANCELLED_MESSAGES - MOVED_MESSAGES :]
    for number, receipt in enumerate(last):
        path = "/delayed-messages"
        known = {"message_id": receipt.message_id, "subject": receipt.subject, "was_due_at": receipt.due_at.isoformat()}
        if number < CANCELLED_MESSAGES:
            session.change("POST", f"{path}/cancel/", {**known, "reason": "The customer left"})
        else:
            moved = {**known, "delay_seconds": 86_400, "reason": "The customer asked for tomorrow"}
            session.change("POST", f"{path}/reschedule/", moved)


async def _quiet(counts: Counter[str], progress: Callable[[], None]) -> None:
    """Return when the groups that keep up have worked everything off."""
    loop = asyncio.get_running_loop()
    begin = changed_at = loop.time()
    seen = -1
    while loop.time() - changed_at < QUIET_SECONDS and loop.time() - begin < ONCE_SECONDS_MAX:
        if counts["at_pace"] != seen:
            seen, changed_at = counts["at_pace"], loop.time()
            progress()
        await asyncio.sleep(LOOK_SECONDS)
