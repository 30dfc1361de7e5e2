"""What is due when."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.transforms.frames import at_steps, selected
from spark_analytics.transforms.outputs import DELAYED_LOAD
from spark_analytics.transforms.windows import LONG_STEPS

PENDING = "pending"


def delayed_load(delayed: DataFrame, *, steps: Sequence[int] = LONG_STEPS) -> DataFrame:
    """Pending delayed messages by subject and the step they are due in: `outputs.DELAYED_LOAD`.

    Looks ahead, so it has no window: what is pending when the delay nodes are read, overdue ones included at the time they were
    due; `pending_bytes` as stored. A subject that the delay node can't name any more is left out. Nothing due in a step: no
    row.

    Args:
        delayed: the input table, each message from one node only.
    """
    pending = delayed.where((F.col("state") == PENDING) & F.col("subject").isNotNull()).select(
        "subject", "size", F.unix_millis("due_at").alias("due_ms")
    )
    found = (
        at_steps(pending, steps, "due_ms")
        .groupBy("step_ms", "at_ms", "subject")
        .agg(F.count("*").alias("pending_messages"), F.sum("size").alias("pending_bytes"))
    )
    return selected(found, DELAYED_LOAD)
