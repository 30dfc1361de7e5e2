"""Analytics: every few minutes the jobs run as a process, one at a time, for as long as they may.

`QMQ_ANALYTICS_EVERY_SECONDS` says how often; at 0 there is no such job. One call does all that is due: what nodes have stored and
minutes each time, hours and days when they are over.

Its tasks have a queue of their own, so that a call does not occupy a worker that other jobs need.
"""

import json
import re
from collections.abc import Sequence
from importlib.util import find_spec

from django.conf import settings

from console.analytics.process import EXIT_BUSY, EXIT_UNAVAILABLE, memory_available_bytes, run
from console.jobs.job import TEXT_CHARS_MAX, Context, Job, JobFailed
from console.jobs.results import Part, Result, result

LIMIT_SECONDS = 1_800.0
"""How long one call may take; what is left is due again in the next."""
HOLD_SECONDS = 60.0
"""A worker that was killed is replaced after this time; its jobs ended with it."""
RESERVE_SECONDS = 30.0
"""Time of a call that is left for stopping it."""
MEMORY_FREE_BYTES_MIN = 2 << 30
"""Less available memory, and nothing is started: a JVM and Python workers take 1.6 GB, and brokers come first."""

KNOWN_CAUSES = {
    "Python worker failed to connect back": Part(
        "analytics.python_worker", "Spark's Python process did not start in time: the machine is busy."
    ),
    "java.lang.OutOfMemoryError": Part(
        "analytics.out_of_memory", "Spark ran out of memory: raise QMQ_ANALYTICS_MEMORY."
    ),
    "No space left on device": Part("analytics.disk_full", "The disk of the analytics data is full."),
}
"""By what Spark writes: what it means."""
_STACK = re.compile(r"at \S+\(|\.\.\. \d+ more|File \"")
"""Lines of stack traces of Java and Python."""


def analyse(context: Context) -> Result:
    """Run all jobs and return the result that the process reported.

    Raises:
        JobFailed: it failed, or its time was over.
    """
    if find_spec("pyspark") is None:
        return result(
            Part("analytics.not_installed", "not run: PySpark is not installed (pip install 'pyqmq[analytics]')")
        )
    free = memory_available_bytes()
    if free is not None and free < MEMORY_FREE_BYTES_MIN:
        values = {"available": free >> 20, "required": MEMORY_FREE_BYTES_MIN >> 20}
        text = "not run: {available} MiB of memory available, {required} MiB required"
        return result(Part("analytics.memory", text.format(**values), values))
    arguments = ["all", "--scheduled", "--memory", settings.ANALYTICS_MEMORY, "--master", settings.ANALYTICS_MASTER]
    ended = run(arguments, seconds=max(1.0, context.seconds_left - RESERVE_SECONDS), meanwhile=context.extend_hold)
    if ended.code == 0:
        return _reported(ended.output)
    if ended.was_stopped:
        return result(Part("analytics.stopped", "stopped with its worker; the remaining jobs run again"))
    lines = ended.errors or ended.output
    why = _cause(lines)
    if ended.code == EXIT_BUSY:
        return result(Part("analytics.busy", f"not run: {why.text}", {"error": why.text[:TEXT_CHARS_MAX]}))
    parts = [why]
    if ended.code is None:
        seconds = int(LIMIT_SECONDS - RESERVE_SECONDS)
        parts = [Part("analytics.too_long", f"stopped after {seconds} s", {"seconds": seconds}), why]
    elif ended.code == EXIT_UNAVAILABLE:
        parts = [Part("analytics.unavailable", "can't be run"), why]
    raise JobFailed(*parts, details="\n".join(lines))


def _cause(lines: Sequence[str]) -> Part:
    """Why a run failed: known causes by what Spark writes of them, else the last line that is no part of a stack."""
    text = "\n".join(lines)
    for mark, known in KNOWN_CAUSES.items():
        if mark in text:
            return known
    line = next((line for line in reversed(lines) if not _STACK.match(line)), "")
    if not line:
        return Part("analytics.silent", "the process wrote nothing")
    return Part("analytics.line", line, {"line": line[:TEXT_CHARS_MAX]})


def _reported(output: Sequence[str]) -> Result:
    """Return the result in the last line of the process: JSON with `text` and `parts`, see spark_analytics.jobs.__main__."""
    last = output[-1] if output else "done"
    try:
        found = json.loads(last)
    except ValueError:
        return Result(last)
    return Result(found["text"], found["parts"])


ANALYTICS = Job(
    "analytics",
    float(settings.ANALYTICS_EVERY_SECONDS),
    LIMIT_SECONDS,
    "runs the Spark jobs for the analytics pages",
    analyse,
    queue=settings.ANALYTICS_QUEUE,
    hold_seconds=HOLD_SECONDS,
)
