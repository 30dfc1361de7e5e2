"""What one window leaves to the next, so that a run reads its window only."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_analytics.transforms.frames import GROUP_STATE, STORED_SECONDS, is_in, retrying_group, selected
from spark_analytics.transforms.windows import SECOND_MS, Window

_GROUP = ("broker_group", "subject", "group")


def group_state(progress: DataFrame, state: DataFrame, runs: DataFrame, *, window: Window) -> DataFrame:
    """Where groups are at the window's end: GROUP_STATE.

    Args:
        progress: entries of the window.
        state: GROUP_STATE at the window's beginning.
        runs: RUNS of the same progress, state and window.
    """
    moved = (
        progress.where(is_in(F.unix_millis("at"), window))
        .groupBy(*_GROUP)
        .agg(F.max_by("next_sequence", "position").alias("moved_to"), F.max("is_broadcast").alias("is_broadcast_now"))
    )
    known = state.where(F.col("next_sequence").isNotNull()).select(*_GROUP, "is_broadcast", "next_sequence")
    places = known.join(moved, list(_GROUP), "full_outer").select(
        *_GROUP,
        F.coalesce("is_broadcast_now", "is_broadcast").alias("is_broadcast"),
        F.coalesce("moved_to", "next_sequence").alias("next_sequence"),
    )
    held = runs.where(F.col("ended_ms").isNull()).withColumn("next_sequence", F.lit(None).cast("long"))
    together = places.unionByName(held.drop("ended_ms", "ended_by"), allowMissingColumns=True)
    return selected(together, GROUP_STATE)


def stored_tail(stored: DataFrame, state: DataFrame, *, window: Window, ranges: DataFrame | None = None) -> DataFrame:
    """The seconds before the window's end that lag still needs after it: STORED_SECONDS.

    Of each subject the last second, and all that hold a message which a group has not acked; of a retry subject that its group
    has never pulled, all. So it grows with the time that the slowest group is behind, at most a row a second and subject; with
    `ranges` not beyond what retention keeps.

    Args:
        stored: STORED_SECONDS of the window, with the tail at its beginning (`stored.merged_seconds`).
        state: GROUP_STATE at the window's end.
        ranges: RANGES; samples behind the window's end are left out.
    """
    is_there = F.coalesce("next_sequence", F.lit(0)) >= 0
    needed = (
        state.where(is_there)
        .groupBy("broker_group", "subject")
        .agg(
            F.min(F.coalesce("next_sequence", "begin")).alias("needed_from"),
            F.collect_set("group").alias("groups"),
        )
    )
    before = stored.where(F.col("second") < window.to_ms // SECOND_MS)
    last = before.groupBy("broker_group", "subject").agg(F.max("second").alias("last_second"))
    retrying = retrying_group(F.col("subject"))
    is_untouched = retrying.isNotNull() & ~F.coalesce(F.array_contains("groups", retrying), F.lit(False))
    is_kept = F.lit(True)
    if ranges is not None:
        begins = (
            ranges.where(F.col("at_ms") < window.to_ms)
            .groupBy("broker_group", "subject")
            .agg(F.max("begin").alias("kept_from"))
        )
        before = before.join(begins, ["broker_group", "subject"], "left")
        is_kept = F.col("end_sequence") > F.coalesce("kept_from", F.lit(0))
    is_needed = F.coalesce(F.col("end_sequence") > F.col("needed_from"), F.lit(False)) | F.coalesce(
        is_untouched, F.lit(False)
    )
    found = (
        before.join(needed, ["broker_group", "subject"], "left")
        .join(last, ["broker_group", "subject"], "inner")
        .where((is_needed & is_kept) | (F.col("second") == F.col("last_second")))
    )
    return selected(found, STORED_SECONDS)


def set_below(progress: DataFrame, stored: DataFrame, *, window: Window) -> DataFrame:
    """Where the window sets a group below what is known of store times: broker_group, subject, sequence.

    A group that begins at the earliest message, or is set back far, needs seconds that no group needed before it. Without them its
    time lag is null until it has passed what is not known; with these subjects' earlier seconds it is not.

    Args:
        progress: entries of the window.
        stored: STORED_SECONDS before the window: `stored_tail`.
    """
    is_start = (F.col("kind") == "start") & is_in(F.unix_millis("at"), window)
    place = ["broker_group", "subject"]
    lowest = progress.where(is_start).groupBy(*place).agg(F.min("next_sequence").alias("sequence"))
    known = stored.groupBy(*place).agg(F.min("first_sequence").alias("known_from"))
    return lowest.join(known, place, "inner").where(F.col("sequence") < F.col("known_from")).select(*place, "sequence")
