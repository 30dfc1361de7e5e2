"""Background jobs. Importing any of them makes all known."""

from celery import shared_task

from console.jobs import alerts, analytics, cleanups, heartbeats, rebalance
from console.jobs import jobs as loops

__all__ = ["alerts", "analytics", "cleanups", "heartbeats", "loops", "rebalance", "run_loop"]


@shared_task(name="console.run_loop")
def run_loop(name: str) -> str:
    """Run a control loop unless another worker does, and return the result."""
    return loops.run(name).text
