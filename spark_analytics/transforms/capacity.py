"""What each team's subjects take."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import Window as Frame
from pyspark.sql import functions as F

from spark_analytics.transforms.frames import RANGES, at_steps, is_in, original_subject, selected
from spark_analytics.transforms.outputs import TEAM_CAPACITY
from spark_analytics.transforms.rates import sent_minutes, spread
from spark_analytics.transforms.windows import LONG_STEPS, Window, check_steps

_PLACE = ("broker_group", "subject")


def kept_ranges(samples: DataFrame, stored: DataFrame) -> DataFrame:
    """Samples of what subjects keep, with the bytes of it: RANGES.

    Bytes are those of the stored rows in the range, a row that lies in it in part by its part; where there are not rows of all of
    it, by the mean size of those that there are; null where there is none. Where rows overlap, because a wall clock stepped back,
    a place in several of them counts in part in the one that ends first, and not in the others.

    Each end of a range is looked up once in the sums of all that a subject stored up to there, so the work grows with the samples
    and the rows, not with their product.

    Args:
        samples: broker_group, subject, sampled_at, and consume sequences begin and end.
        stored: broker_group, subject, bytes, first_sequence, end_sequence, such as STORED_SECONDS.
    """
    ends = samples.select(*_PLACE, F.explode(F.array("begin", "end")).alias("at")).distinct()
    row = F.struct("first_sequence", "end_sequence", "bytes").alias("row")
    places = stored.select(*_PLACE, F.col("end_sequence").alias("at"), row).unionByName(ends, allowMissingColumns=True)
    # Two windows that only grow: one that shrinks is walked through again for each row.
    by_place = Frame.partitionBy(*_PLACE)
    upto = by_place.orderBy("at").rangeBetween(Frame.unboundedPreceding, 0)
    behind = by_place.orderBy(F.col("at").desc()).rangeBetween(Frame.unboundedPreceding, -1)
    length = F.col("row.end_sequence") - F.col("row.first_sequence")
    summed = places.select(
        *_PLACE,
        "at",
        "row",
        F.coalesce(F.sum(length).over(upto), F.lit(0)).alias("whole"),
        F.coalesce(F.sum("row.bytes").over(upto), F.lit(0)).alias("whole_bytes"),
        F.last("row", ignorenulls=True).over(behind).alias("next"),
    ).where(F.col("row").isNull())
    part = F.coalesce(F.greatest(F.lit(0), F.col("at") - F.col("next.first_sequence")), F.lit(0))
    part_bytes = F.coalesce(
        F.col("next.bytes") * part / (F.col("next.end_sequence") - F.col("next.first_sequence")), F.lit(0)
    )
    found = summed.select(
        *_PLACE, "at", (F.col("whole") + part).alias("counted"), (F.col("whole_bytes") + part_bytes).alias("bytes")
    )
    begins = found.select(*_PLACE, F.col("at").alias("begin"), F.struct("counted", "bytes").alias("low"))
    behinds = found.select(*_PLACE, F.col("at").alias("end"), F.struct("counted", "bytes").alias("high"))
    both = samples.join(begins, [*_PLACE, "begin"], "left").join(behinds, [*_PLACE, "end"], "left")
    messages, counted = F.col("end") - F.col("begin"), F.col("high.counted") - F.col("low.counted")
    counted_bytes = F.col("high.bytes") - F.col("low.bytes")
    stored_bytes = F.when(messages == 0, F.lit(0)).when(counted > 0, F.round(counted_bytes * messages / counted))
    made = both.select(
        *_PLACE,
        F.unix_millis("sampled_at").alias("at_ms"),
        "begin",
        "end",
        stored_bytes.cast("long").alias("stored_bytes"),
    )
    return selected(made, RANGES)


def team_capacity(
    stored: DataFrame, owners: DataFrame, ranges: DataFrame, *, window: Window, steps: Sequence[int] = LONG_STEPS
) -> DataFrame:
    """What teams' subjects take by step, with owners as they are when the run is made: `outputs.TEAM_CAPACITY`.

    A row for each team and step, zeros included. A subject's retry and dead-letter subjects count to it, for their messages
    take room as well, but not as subjects of their own. Subjects that `owners` does not know have no owner (an empty team), and
    counted in the steps in which they got messages or were sampled. Rates are as in `rates.subject_rates`, the busiest minute
    being the team's. `stored_*_last` is what its subjects keep by the last sample of each in the step, over broker groups; null
    when a step has no sample.

    Args:
        stored: STORED_SECONDS; those outside of the window are left out.
        owners: OWNERS, each subject once.
        ranges: RANGES.
        window: whole steps, not beyond the watermark.
    """
    check_steps(window, steps)
    inside = stored.where(is_in(F.col("second") * 1000, window)).withColumn(
        "subject", original_subject(F.col("subject"))
    )
    samples = at_steps(
        ranges.where(is_in(F.col("at_ms"), window)).withColumnRenamed("at_ms", "sample_ms"), steps, "sample_ms"
    ).withColumn("original", original_subject(F.col("subject")))
    of_seconds = at_steps(inside.withColumn("second_ms", F.col("second") * 1000), steps, "second_ms")
    named = of_seconds.select("step_ms", "at_ms", "subject").union(samples.select("step_ms", "at_ms", "original"))
    unowned = (
        named.distinct()
        .join(owners, ["subject"], "left_anti")
        .select(F.lit("").alias("team"), F.lit(1).cast("long").alias("subjects_count"), "step_ms", "at_ms")
    )
    moments = F.explode(F.sequence(F.lit(window.from_ms), F.lit(window.to_ms - 1), F.lit(min(steps))))
    teams = owners.groupBy("team").agg(F.count("*").alias("subjects_count")).withColumn("moment_ms", moments)
    owned_rows = at_steps(teams, steps, "moment_ms").drop("moment_ms").distinct()
    key = ["step_ms", "at_ms", "team"]
    rows = owned_rows.unionByName(unowned).groupBy(*key).agg(F.sum("subjects_count").alias("subjects_count"))
    owned = inside.join(owners, ["subject"], "left").withColumn("team", F.coalesce("team", F.lit("")))
    of_step = at_steps(sent_minutes(owned, "team", window), steps, "minute_ms")
    sent = of_step.groupBy("step_ms", "at_ms", "team").agg(*spread("sent_messages"), *spread("sent_bytes"))
    last = (
        samples.groupBy("step_ms", "at_ms", *_PLACE, "original")
        .agg(
            F.max_by(F.struct((F.col("end") - F.col("begin")).alias("messages"), "stored_bytes"), "sample_ms").alias(
                "last"
            )
        )
        .join(owners.withColumnRenamed("subject", "original"), ["original"], "left")
        .groupBy("step_ms", "at_ms", F.coalesce("team", F.lit("")).alias("team"))
        .agg(
            F.sum("last.messages").alias("stored_messages_last"), F.sum("last.stored_bytes").alias("stored_bytes_last")
        )
    )
    found = rows.join(sent, key, "left").join(last, key, "left")
    zeros: dict[str, bool | float | int | str] = {name: 0 for name in sent.columns if name not in key}
    return selected(found.na.fill(zeros), TEAM_CAPACITY)
