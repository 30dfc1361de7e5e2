"""What the lake keeps of each table: its columns, by which moment, in which order inside a file, and for how many
days."""

from dataclasses import dataclass, replace

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_analytics.forecasts.conformal import CALIBRATION
from spark_analytics.schemas import DEAD_LETTERS, INDEX, NODES, PROGRESS, RETRIES
from spark_analytics.transforms.forecasts import GROUP_MINUTES
from spark_analytics.transforms.frames import GROUP_STATE, STORED_SECONDS
from spark_analytics.transforms.outputs import SCHEMAS
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS

_AT = StructField("at", TimestampType(), False)
SILVER_SECONDS = StructType([_AT, *(field for field in STORED_SECONDS.fields if field.name != "second")])
"""What was stored in a subject of a broker group in a second, as far as one batch brought it: rows of one second add up."""
SAMPLED_RANGES = StructType(
    [
        StructField("sampled_at", TimestampType(), False),
        StructField("broker_group", StringType(), False),
        StructField("subject", StringType(), False),
        StructField("begin", LongType(), False),
        StructField("end", LongType(), False),
    ]
)
"""What a subject kept on a broker group at a moment: consume sequences [begin, end)."""

GROUP_HOURS = StructType([_AT, *(field for field in GROUP_MINUTES.fields if field.name != "hour_ms")])
FORECAST_CASES = StructType(
    [
        _AT,
        StructField("scored", StringType(), False),
        StructField("key", ArrayType(StringType()), False),
        StructField("case_class", StringType(), False),
        StructField("low", DoubleType(), True),
        StructField("mid", DoubleType(), False),
        StructField("high", DoubleType(), True),
        StructField("truth", DoubleType(), False),
        StructField("score", DoubleType(), False),
        StructField("is_below", BooleanType(), True),
        StructField("is_above", BooleanType(), True),
        StructField("width_ratio", DoubleType(), True),
    ]
)
"""A forecast that came due at the end of the hour that begins `at`: what was forecast (seconds until drained, or bytes by which a
disk grows within a day; infinite: no end, or not within a day; null: there was no interval), what happened, how far off the point
was as `forecasts.conformal` measures it, which end was missed, and how wide the interval was."""
CALIBRATIONS = StructType([_AT, *from_arrow_schema(CALIBRATION).fields])
"""What forecasts had learned at a moment, a row for each series."""


@dataclass(frozen=True, slots=True)
class LakeTable:
    """A table of the lake."""

    name: str
    schema: StructType
    moment: str
    """The column whose hour or day (UTC) says in which folder a row is."""
    order: tuple[str, ...]
    """How a compacted file is sorted: what is read together lies together."""
    keep_days: int
    is_streamed: bool = True
    """A stream of the nodes fills it; others are written by jobs, or are the silver of one."""
    part_ms: int = HOUR_MS
    """How much time the rows of a folder are of: an hour or a day (UTC)."""
    silver: str = ""
    """The table that counts its rows by second; "": none. What comes to one comes to the other."""

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition columns."""
        return ("date", "hour") if self.part_ms == HOUR_MS else ("date",)

    @property
    def folder(self) -> str:
        """The folder of an hour or day, as a format of `strftime`."""
        return "date=%Y-%m-%d/hour=%H" if self.part_ms == HOUR_MS else "date=%Y-%m-%d"


TABLES = {
    table.name: table
    for table in (
        LakeTable("index", INDEX, "stored_at", ("subject", "broker_group", "sequence"), 15, silver="stored_seconds"),
        LakeTable("stored_seconds", SILVER_SECONDS, "at", ("subject", "broker_group", "at"), 35, is_streamed=False),
        LakeTable("progress", PROGRESS, "at", ("subject", "group", "broker_group", "position"), 15),
        LakeTable("retries", RETRIES, "stored_at", ("subject", "group", "broker_group", "sequence"), 35),
        LakeTable("dead_letters", DEAD_LETTERS, "stored_at", ("subject", "group", "broker_group", "sequence"), 35),
        LakeTable("nodes", NODES, "measured_at", ("broker_group", "node_id", "measured_at"), 35, is_streamed=False),
        LakeTable(
            "ranges", SAMPLED_RANGES, "sampled_at", ("subject", "broker_group", "sampled_at"), 35, is_streamed=False
        ),
        LakeTable(
            "group_state",
            StructType([_AT, *GROUP_STATE.fields]),
            "at",
            ("subject", "group", "broker_group"),
            35,
            is_streamed=False,
        ),
        LakeTable(
            "stored_tail",
            StructType([_AT, *STORED_SECONDS.fields]),
            "at",
            ("subject", "broker_group", "second"),
            35,
            is_streamed=False,
        ),
        LakeTable("group_minutes", GROUP_HOURS, "at", ("subject", "group", "at"), 17, is_streamed=False),
        LakeTable("forecast_cases", FORECAST_CASES, "at", ("scored", "case_class", "at"), 62, is_streamed=False),
        LakeTable("calibration", CALIBRATIONS, "at", ("kind", "at"), 35, is_streamed=False, part_ms=DAY_MS),
    )
}
GOLD = "gold_"
"""What the names of tables begin with that have all rows of a summary table: `at` in place of its `at_ms`."""
MINUTES = "_minutes"
"""What the names of those end with that have the minutes and ten minutes; the others have the hours and days."""
WITH_MINUTES = ("lag", "subject_rates", "group_rates", "latencies")
"""Summary tables that have minutes and ten minutes."""
GOLD_DAYS = 400
GOLD_MINUTES_DAYS = 15
for _name, _schema in SCHEMAS.items():
    _columns = [field for field in _schema.fields if field.name not in ("step_ms", "at_ms")]
    _key = tuple(field.name for field in _columns if not field.nullable)
    _gold = LakeTable(
        GOLD + _name,
        StructType([_AT, _schema["step_ms"], *_columns]),
        "at",
        ("step_ms", *_key, "at"),
        GOLD_DAYS,
        is_streamed=False,
        part_ms=DAY_MS,
    )
    TABLES[_gold.name] = _gold
    if _name in WITH_MINUTES:
        _minutes = replace(_gold, name=_gold.name + MINUTES, keep_days=GOLD_MINUTES_DAYS, part_ms=HOUR_MS)
        TABLES[_minutes.name] = _minutes
STREAMED = tuple(table.name for table in TABLES.values() if table.is_streamed)
