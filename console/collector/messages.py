"""What a cycle publishes: a message for each feed that has subscribers. Pure."""

from console.snapshot.feeds import feed_of, restrict
from console.snapshot.state import Delta, Entry, divided, encode


def messages_of(change: Delta, head: Entry, listened: list[str]) -> list[tuple[str, str]]:
    """Return (feed, text) for the feeds with subscribers; the heartbeat last."""
    found = []
    of_subject: dict[str, Delta] | None = None
    for name in listened:
        feed = feed_of(name)
        if feed is None:
            continue
        part = change
        if feed.subject is not None:
            of_subject = _by_subject(change) if of_subject is None else of_subject
            part = of_subject.get(feed.subject, {})
        found.append((name, encode({"type": "delta", **head, "delta": restrict(part, feed)})))
    found.append(("beat", encode({"type": "beat", **head})))
    return found


def _by_subject(change: Delta) -> dict[str, Delta]:
    """The lag sections of a delta by subject, because a feed contains one subject."""
    lag: Delta = {section: change[section] for section in ("subjects", "groups") if section in change}
    return divided(lag, lambda _, key: key.partition("\n")[0])
