"""Two weeks that never were: the made-up summaries of console.analytics, for the shop's subjects. Pages say that they are."""

from examples.shop.analytics import Traffic, publish_demo
from examples.shop.session import Session
from examples.shop.shop import Shop
from metaserver.errors import Conflict


def publish_history(session: Session, shop: Shop, *, seed: int) -> str:
    """Fill the summary tables, unless a real run has filled one; a line about it. Raises QmqError: nodes can't be listed."""
    nodes = [(node["broker_group"], node["node_id"]) for node in session.get("/nodes/")["results"]]
    traffic = [
        Traffic(subject.name, tuple(group.name for group in subject.groups), subject.settings["owner"])
        for subject in shop.subjects
    ]
    try:
        run = publish_demo(traffic, nodes, seed=seed)
    except Conflict as error:
        return f"no simulated history: {error}"
    return f"two weeks of simulated history, marked as job {run.job}"
