"""Celery's tasks: one, which runs a control loop by its name."""

from celery import shared_task

from console.tasks import alerts, analytics, cleanups, heartbeats, loops, rebalance

__all__ = ["alerts", "analytics", "cleanups", "heartbeats", "loops", "rebalance", "run_loop"]


@shared_task(name="console.run_loop")
def run_loop(name: str) -> str:
    """Run a control loop unless another worker does, and return the result."""
    return loops.run(name).text
