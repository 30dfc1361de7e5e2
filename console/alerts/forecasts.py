"""The values of rules about forecasts and anomalies, from rows of the newest hour of summary tables. Pure.

A value is missing, with the reason, where the hour is too old (`newest.outdated`), or where forecasts of its class have not proved
that they hold (`newest.doubt`). Rows are those of the tables, or tuples with the columns in DRAIN, DISK and ANOMALY.
"""

from collections.abc import Iterable, Iterator, Mapping

from console.alerts.readings import Reading, storable
from console.alerts.rules import Kind
from console.analytics.models import Anomaly, CaseClass, DiskForecast, DrainForecast, Outlook
from console.analytics.models.summaries import Metric
from console.analytics.newest import doubt, outdated
from console.analytics.queries import Score
from console.analytics.steps import DAY_MS, Step
from qmq.protocol.reasons import NO_REASON, Code, Reason, joined

DRAIN = ("subject", "group", "at_ms", "case_class", "lag_messages_last", "drain_seconds_mid")
DISK = (
    "node_id", "at_ms", "outlook", "disk_used_bytes_last", "disk_total_bytes_last", "growth_bytes_per_second_high",
)  # fmt: skip
ANOMALY = ("subject", "group", "at_ms", "metric", "value", "expected_low", "expected_high", "is_flagged")
DAY_SECONDS = DAY_MS / 1000
NOT_WITHIN_A_DAY = DAY_SECONDS
"""Drain time of a lag that is not forecast to be zero within a day."""
_UNUSUAL: Mapping[str, tuple[Code, int]] = {
    Metric.SENT: (Code.UNUSUAL_SENT, Step.HOUR.seconds),
    Metric.ACKED: (Code.UNUSUAL_ACKED, Step.HOUR.seconds),
    Metric.LAG: (Code.UNUSUAL_LAG, 1),
    Metric.TIME_LAG: (Code.UNUSUAL_TIME_LAG, 1),
    Metric.END_TO_END_P99: (Code.UNUSUAL_LATENCY, 1),
    Metric.FAILURES: (Code.UNUSUAL_FAILURES, 1),
}
"""Metric -> the sentence about it, and what its values are multiplied by there: rates are shown as messages of the hour."""


def of_drains(rows: Iterable[DrainForecast], scores: Mapping[str, Score], now_ms: int) -> Iterator[Reading]:
    """Seconds until the lag of consumer groups is zero. A group without lag is drained, whatever is known of forecasts."""
    for row in rows:
        reason, value = outdated(row.at_ms, now_ms), 0.0
        if row.lag_messages_last != 0:
            reason = reason or _no_drain(row) or doubt(scores.get(row.case_class))
            value = NOT_WITHIN_A_DAY if row.drain_seconds_mid is None else row.drain_seconds_mid
        yield _reading(Kind.DRAIN_TIME, group_target(row.subject, row.group), value, reason, row.subject)


def _no_drain(row: DrainForecast) -> str:
    if row.lag_messages_last is None:
        return "not measured"
    return "nothing is forecast yet" if row.case_class == CaseClass.NONE else ""


def of_disks(rows: Iterable[DiskForecast], scores: Mapping[str, Score], now_ms: int) -> Iterator[Reading]:
    """Percent of disks that is used a day from now, from 0 to 100, by the upper end of the growth."""
    of_forecasts = doubt(scores.get(CaseClass.ALL))
    for row in rows:
        value = _percent_in_a_day(row)
        reason = outdated(row.at_ms, now_ms) or ("nothing is forecast yet" if value is None else of_forecasts)
        yield _reading(Kind.DISK_IN_A_DAY, row.node_id, value, reason)


def _percent_in_a_day(row: DiskForecast) -> float | None:
    used, total, growth = row.disk_used_bytes_last, row.disk_total_bytes_last, row.growth_bytes_per_second_high
    if used is None or not total or row.outlook == Outlook.UNKNOWN:
        return None
    # Without an upper end the disk may grow by any amount.
    then = total if growth is None else used + growth * DAY_SECONDS
    return 100.0 * min(max(then / total, 0.0), 1.0)


def of_anomalies(rows: Iterable[Anomaly], now_ms: int) -> Iterator[Reading]:
    """Whether any metric of a consumer group, or of a subject itself, is flagged: one problem is one alert."""
    found: dict[tuple[str, str], list[Anomaly]] = {}
    for row in rows:
        found.setdefault((row.subject, row.group), []).append(row)
    for (subject, group), of_target in found.items():
        flagged = sorted((row for row in of_target if row.is_flagged), key=lambda row: row.metric)
        reason, why = outdated(of_target[0].at_ms, now_ms), joined([_why(row) for row in flagged])
        yield _reading(Kind.ANOMALY, group_target(subject, group), float(bool(flagged)), reason, subject, why)


def _why(row: Anomaly) -> Reason:
    code, factor = _UNUSUAL[row.metric]
    numbers = {"value": row.value, "low": row.expected_low, "high": row.expected_high}
    return Reason.of(code, **{name: _rounded((number or 0.0) * factor) for name, number in numbers.items()})


def _rounded(number: float) -> float:
    """A number of a sentence; only small ones have a decimal."""
    is_whole = number >= 10 or number == int(number)
    return round(number) if is_whole else round(number, 1)


def group_target(subject: str, group: str) -> str:
    """The target of a consumer group; without a group, that of the subject itself."""
    return storable(f"{subject}/{group}" if group else subject)


def _reading(
    kind: Kind, target: str, value: float | None, reason: str, subject: str = "", why: Reason = NO_REASON
) -> Reading:
    return Reading(kind, storable(target), None if reason else value, reason, subject, why=why)
