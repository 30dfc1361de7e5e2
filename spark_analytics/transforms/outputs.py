"""Schemas of what the summary tables take: `step_ms`, how much time a row stands for, `at_ms`, when that begins, and the columns of
the console's table of the same name. Units stand last in a column's name; null is what could not be measured."""

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_STRING, _LONG, _DOUBLE = StringType(), LongType(), DoubleType()


def _schema(key: str, **columns: DataType) -> StructType:
    """`step_ms`, `at_ms`, the key's names (text) and the columns."""
    fields = [StructField("step_ms", _LONG, False), StructField("at_ms", _LONG, False)]
    fields += [StructField(name, _STRING, False) for name in key.split()]
    return StructType(fields + [StructField(name, kind, True) for name, kind in columns.items()])


def _spread(what: str, unit: str) -> dict[str, DataType]:
    return {f"{what}_{unit}_per_second_max": _DOUBLE, f"{what}_{unit}_per_second_mean": _DOUBLE}


_SENT: dict[str, DataType] = {
    "sent_messages": _LONG,
    "sent_bytes": _LONG,
    **_spread("sent", "messages"),
    **_spread("sent", "bytes"),
}
_FORECAST: dict[str, DataType] = {"outlook": _STRING, "method": _STRING, "interval_ratio": _DOUBLE}

LAG = _schema(
    "subject group",
    backlog_messages_max=_LONG,
    backlog_messages_mean=_DOUBLE,
    backlog_messages_last=_LONG,
    in_flight_messages_max=_LONG,
    in_flight_messages_mean=_DOUBLE,
    in_flight_messages_last=_LONG,
    lag_messages_min=_LONG,
    lag_messages_max=_LONG,
    lag_messages_mean=_DOUBLE,
    lag_messages_last=_LONG,
    time_lag_seconds_max=_DOUBLE,
    time_lag_seconds_mean=_DOUBLE,
    time_lag_seconds_last=_DOUBLE,
)
SUBJECT_RATES = _schema("subject", **_SENT)
GROUP_RATES = _schema(
    "subject group",
    pulled_messages=_LONG,
    acked_messages=_LONG,
    **_spread("pulled", "messages"),
    **_spread("acked", "messages"),
)
LATENCIES = _schema(
    "subject group kind",
    messages=_LONG,
    mean_ms=_DOUBLE,
    p50_ms=_DOUBLE,
    p90_ms=_DOUBLE,
    p99_ms=_DOUBLE,
    p999_ms=_DOUBLE,
    max_ms=_DOUBLE,
)
GROUP_SKEW = _schema(
    "subject group", consumers_count=_LONG, acked_messages=_LONG, max_mean_ratio=_DOUBLE, gini_ratio=_DOUBLE
)
CONSUMER_SHARES = _schema("subject group consumer_id", acked_messages=_LONG, share_ratio=_DOUBLE)
FAILURES = _schema("subject group kind cause", messages=_LONG, attempts_mean=_DOUBLE, attempts_max=_LONG)
DELAYED_LOAD = _schema("subject", pending_messages=_LONG, pending_bytes=_LONG)
DRAIN_FORECASTS = _schema(
    "subject group",
    **_FORECAST,
    case_class=_STRING,
    lag_messages_last=_LONG,
    drain_seconds_low=_DOUBLE,
    drain_seconds_mid=_DOUBLE,
    drain_seconds_high=_DOUBLE,
)
DISK_FORECASTS = _schema(
    "broker_group node_id",
    **_FORECAST,
    disk_used_bytes_last=_LONG,
    disk_total_bytes_last=_LONG,
    growth_bytes_per_second_low=_DOUBLE,
    growth_bytes_per_second_mid=_DOUBLE,
    growth_bytes_per_second_high=_DOUBLE,
    full_seconds_low=_DOUBLE,
    full_seconds_mid=_DOUBLE,
    full_seconds_high=_DOUBLE,
)
ANOMALIES = _schema(
    "subject group metric",
    value=_DOUBLE,
    expected=_DOUBLE,
    expected_low=_DOUBLE,
    expected_high=_DOUBLE,
    score=_DOUBLE,
    about_messages=_LONG,
    is_flagged=BooleanType(),
)
FORECAST_SCORES = _schema(
    "scored case_class",
    cases_count=_LONG,
    held_count=_LONG,
    below_count=_LONG,
    above_count=_LONG,
    width_ratio_median=_DOUBLE,
    target_ratio=_DOUBLE,
)
TEAM_CAPACITY = _schema("team", subjects_count=_LONG, **_SENT, stored_messages_last=_LONG, stored_bytes_last=_LONG)

SCHEMAS: dict[str, StructType] = {
    "lag": LAG,
    "subject_rates": SUBJECT_RATES,
    "group_rates": GROUP_RATES,
    "latencies": LATENCIES,
    "group_skew": GROUP_SKEW,
    "consumer_shares": CONSUMER_SHARES,
    "failures": FAILURES,
    "delayed_load": DELAYED_LOAD,
    "drain_forecasts": DRAIN_FORECASTS,
    "disk_forecasts": DISK_FORECASTS,
    "anomalies": ANOMALIES,
    "forecast_scores": FORECAST_SCORES,
    "team_capacity": TEAM_CAPACITY,
}
"""Summary table -> what its transform answers."""
