"""Analytics: every few minutes the jobs run as a process, one at a time, for as long as they may.

`QMQ_ANALYTICS_EVERY_SECONDS` says how often; at 0 there is no such loop. One call does all that is due: what nodes have stored and
minutes each time, hours and days when they are over.

Its tasks have a queue of their own, so that a call does not occupy a worker that other loops need.
"""

from importlib.util import find_spec

from django.conf import settings

from console.analytics.process import EXIT_BUSY, EXIT_UNAVAILABLE, memory_available_bytes, run
from console.tasks.loops import Context, Loop, register

LIMIT_SECONDS = 1_800.0
"""How long one call may take; what is left is due again in the next."""
HOLD_SECONDS = 60.0
"""A worker that was killed is replaced after this time; its jobs ended with it."""
RESERVE_SECONDS = 30.0
"""Time of a call that is left for stopping it."""
MEMORY_FREE_BYTES_MIN = 2 << 30
"""Less available memory, and nothing is started: a JVM and Python workers take 1.6 GB, and brokers come first."""


def analyse(context: Context) -> str:
    """Run all jobs; what the process said last.

    Raises:
        RuntimeError: it failed, or its time was over.
    """
    if find_spec("pyspark") is None:
        return "not run: PySpark is not installed (pip install 'pyqmq[analytics]')"
    free = memory_available_bytes()
    if free is not None and free < MEMORY_FREE_BYTES_MIN:
        return f"not run: {free >> 20} MiB of memory available, {MEMORY_FREE_BYTES_MIN >> 20} MiB required"
    arguments = ["all", "--scheduled", "--memory", settings.ANALYTICS_MEMORY, "--master", settings.ANALYTICS_MASTER]
    ended = run(arguments, seconds=max(1.0, context.seconds_left - RESERVE_SECONDS), meanwhile=context.extend_hold)
    if ended.code == 0:
        return ended.said[-1] if ended.said else "done"
    if ended.was_told:
        return "stopped with its worker; the remaining jobs run again"
    # The last line first: it says why, those before it are Java's as a rule, and the text is cut at its end.
    why = " | ".join(reversed(ended.complained or ended.said))
    if ended.code == EXIT_BUSY:
        return f"not run: {why}"
    if ended.code is None:
        raise RuntimeError(f"stopped after {LIMIT_SECONDS - RESERVE_SECONDS:g} s: {why}")
    kind = "can't be run" if ended.code == EXIT_UNAVAILABLE else f"exit code {ended.code}"
    raise RuntimeError(f"{kind}: {why}")


if settings.ANALYTICS_EVERY_SECONDS:
    ANALYTICS = register(
        Loop(
            "analytics",
            float(settings.ANALYTICS_EVERY_SECONDS),
            LIMIT_SECONDS,
            "runs the Spark jobs for the analytics pages",
            analyse,
            queue=settings.ANALYTICS_QUEUE,
            hold_seconds=HOLD_SECONDS,
        )
    )
