"""Traces: the state of a message in each consumer group."""

from console.cluster import limits
from console.cluster.asking import Nodes, ask, brokers
from console.cluster.merging import Row
from console.cluster.messages import OLDEST, nodes_of, or_empty, whole_property, with_id
from metaserver.errors import NotFound
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.masking import Masks
from qmq.protocol.messages import KEY_ATTEMPT
from qmq.protocol.names import dead_letter_subject, retry_subject, split_subject

LINKS_MAX = 50


def trace(
    subject: str, broker_group: str, sequence: int, *, group: str | None = None, after: str | None = None, masks: Masks
) -> Row:
    """Trace a message: its state in each consumer group on its own broker group, and later attempts on all others (a consumer can
    return a failed message through any of them).

    Raises:
        NotFound: there is no such message.
        ConnectionLost: its broker group can't be reached.
    """
    home = nodes_of(subject, broker_group).one(broker_group)
    others = brokers()
    others = others.only(set(others.admins) - {broker_group})

    async def work() -> Row:
        try:
            answer = await home.trace(subject, sequence, group=group, after=after, masks=masks)
        except NodeRefused as error:
            if error.status != 404:
                raise
            raise NotFound(str(error), code=error.code) from error
        await _add_links(answer, broker_group, others, masks)
        return answer

    return ask(work)


async def _add_links(answer: Row, home: str, others: Nodes, masks: Masks) -> None:
    """Add later attempts that lie on other broker groups; what could not be looked through is said."""
    message = answer["message"]
    for standing in answer["groups"]:
        for link in (*standing["retries"], *standing["dead_letters"]):
            link["broker_group"] = home
    if message is None or "message_id" not in message or not answer["groups"]:
        return
    found = await others.answers(
        lambda name, admin: _links_on(admin, name, answer, message, masks), seconds=limits.SEARCH_SECONDS
    )
    for number, standing in enumerate(answer["groups"]):
        for links in found.values.values():
            retries, dead, why = links[number]
            standing["retries"] += retries
            standing["dead_letters"] += dead
            _say_incomplete(standing, why)
        for name, why in found.unreachable.items():
            _say_incomplete(standing, f"Broker group {name} could not be reached: {why}")
        since = standing["pulled_at_ms"] or 0
        # As the node itself decides it: a settled message with a later attempt was retried, whichever group stores that.
        if standing["state"] in (None, "acked", "retried"):
            for word, links in (("dead", standing["dead_letters"]), ("retried", standing["retries"])):
                if any(link["stored_at_ms"] >= since for link in links):
                    standing.update(state=word, known=True, why=None)
                    break
    answer["scope"] = "all broker groups" if not found.unreachable else "the reachable broker groups"


def _say_incomplete(standing: Row, why: str) -> None:
    if why:
        standing["links_complete"] = False
        standing["links_why"] = "; ".join(filter(None, (standing["links_why"], why)))


async def _links_on(
    admin: NodeAdmin, broker_group: str, answer: Row, message: Row, masks: Masks
) -> list[tuple[list[Row], list[Row], str]]:
    """Of each consumer group of a trace: retries and dead letters on this broker group, and why that may not be all.

    One question after the other: a node has few turns for searches.
    """
    real = split_subject(answer["subject"]).subject
    found = []
    for standing in answer["groups"]:
        links: list[list[Row]] = []
        why = ""
        for name in (retry_subject(real, standing["group"]), dead_letter_subject(real, standing["group"])):
            page = await or_empty(
                admin.search(
                    name, filters=[with_id(message["message_id"])], order=OLDEST, from_time=message["stored_at_ms"],
                    limit=LINKS_MAX, masks=masks,
                )
            )  # fmt: skip
            if page["next_sequence"] is not None:
                why = f"{name} on {broker_group} was searched only up to sequence {page['next_sequence']}"
            links.append([_link(name, broker_group, copy) for copy in page["messages"]])
        found.append((links[0], links[1], why))
    return found


def _link(subject: str, broker_group: str, copy: Row) -> Row:
    return {
        "subject": subject,
        "broker_group": broker_group,
        "sequence": copy["sequence"],
        "stored_at_ms": copy["stored_at_ms"],
        "attempt": whole_property(copy, KEY_ATTEMPT, 1),
    }
