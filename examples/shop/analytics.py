"""Two weeks of a made-up shop, published as a run of job `demo`, so that pages can say what they show is no measurement.

Nothing runs this by itself. It refuses where real runs of analytics have filled a table, and the first real run takes its rows
out again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.analytics import services
from console.analytics.models import DEMO_JOB, AnalyticsRun, TableState
from console.analytics.rows import Window
from console.analytics.steps import DAY_MS, Step
from console.jobs.summaries import SUMMARIES
from metaserver.errors import Conflict

DAYS = 14
SHOWN_MS = {Step.MINUTE: 3 * 3_600_000, Step.TEN_MINUTES: DAY_MS, Step.HOUR: DAYS * DAY_MS, Step.DAY: DAYS * DAY_MS}
"""How much of each step is published: what a page shows at it unless told otherwise."""
MESSAGE_BYTES = 900
CAUSES = ("TimeoutError", "PaymentDeclined", "JSONDecodeError", "consumer_left")
TAIL = {"p50_ms": 1.0, "p90_ms": 2.4, "p99_ms": 7.5, "p999_ms": 21.0, "max_ms": 48.0}
"""Percentiles of a latency over its median."""
SLOW = 6
"""Each so-many-th consumer group is too slow for its busy hours."""
YOUNG = 5
"""Each so-many-th consumer group is new, so the interval of its drain time is not known yet."""
SIZES = ("below_2_minutes", "below_20_minutes", "below_2_hours", "from_2_hours")
"""Classes of drain forecasts, by how many minutes of arrivals wait."""
DAY_SECONDS = DAY_MS / 1000
ODD = 7
"""Each so-many-th subject had hours unlike others, within the last day."""

COUNTS = ("messages", "bytes", "messages_min", "messages_max", "messages_last", "bytes_last")

Numbers = NDArray[np.float64]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Traffic:
    """A subject, who reads it and whose it is (empty: nobody's)."""

    subject: str
    groups: tuple[str, ...]
    team: str = ""


@dataclass(frozen=True, slots=True)
class _Series:
    """A minute's numbers, of a subject or of one of its groups."""

    traffic: Traffic
    group: str
    sent: Numbers
    acked: Numbers
    lag: Numbers
    time_lag_seconds: Numbers

    @property
    def key(self) -> Row:
        return {"subject": self.traffic.subject, "group": self.group}


def publish_demo(
    traffic: Sequence[Traffic], nodes: Sequence[tuple[str, str]], *, now: datetime | None = None, seed: int = 1
) -> AnalyticsRun:
    """Fill the summary tables of analytics for these subjects and nodes (broker group, node id); the same seed and time give the
    same rows.

    Raises:
        Conflict: a real run has filled one of them.
    """
    real = TableState.objects.exclude(run__job__in=(DEMO_JOB, SUMMARIES.name)).order_by("table").first()
    if real is not None:
        raise Conflict(f"{real.table} contains real data of job {real.run.job}. Simulated rows would be mixed with it.")
    now = (now or datetime.now(UTC)).replace(second=0, microsecond=0)
    begin = (now - timedelta(days=DAYS)).replace(hour=0, minute=0)
    run = services.start_run(DEMO_JOB, from_at=begin, to_at=now, inputs={"seed": seed})
    try:
        _Shop(traffic, nodes, begin, now, seed).publish(run)
    except Exception as error:
        services.fail_run(run, str(error))
        raise
    services.finish_run(run, watermark_at=now)
    return run


class _Cut:
    """Minutes cut into steps, from a moment on."""

    def __init__(self, at_ms: NDArray[np.int64], step: Step, first_ms: int = 0) -> None:
        self.step = step
        self._edges = np.flatnonzero((at_ms % step.ms == 0) & (at_ms >= first_ms))
        self._ends = np.append(self._edges[1:], len(at_ms))
        self.moments: list[int] = at_ms[self._edges].tolist()

    def max(self, values: Numbers) -> list[float]:
        return [float(value) for value in np.maximum.reduceat(values, self._edges)]

    def min(self, values: Numbers) -> list[float]:
        return [float(value) for value in np.minimum.reduceat(values, self._edges)]

    def sum(self, values: Numbers) -> list[float]:
        return [float(value) for value in np.add.reduceat(values, self._edges)]

    def mean(self, values: Numbers) -> list[float]:
        return [float(value) for value in np.add.reduceat(values, self._edges) / (self._ends - self._edges)]

    def last(self, values: Numbers) -> list[float]:
        return [float(value) for value in values[self._ends - 1]]

    def rows(self, key: Row, columns: Mapping[str, Sequence[float]]) -> Iterator[Row]:
        """A row for each step; counts are whole numbers."""
        are_whole = [name.endswith(COUNTS) for name in columns]
        for at, *values in zip(self.moments, *columns.values(), strict=True):
            numbers = (int(value) if whole else value for value, whole in zip(values, are_whole, strict=True))
            yield {"at_ms": at, **key, **dict(zip(columns, numbers, strict=True))}


class _Shop:
    def __init__(
        self, traffic: Sequence[Traffic], nodes: Sequence[tuple[str, str]], begin: datetime, now: datetime, seed: int
    ) -> None:
        self.random = np.random.default_rng(seed)
        self.begin_ms, self.end_ms = int(begin.timestamp() * 1000), int(now.timestamp() * 1000)
        self.at_ms = np.arange(self.begin_ms, self.end_ms, Step.MINUTE.ms)
        self.traffic, self.nodes = traffic, nodes
        self.sent = {item.subject: self._sent(number) for number, item in enumerate(traffic)}
        pairs = [(item, group) for item in traffic for group in item.groups]
        self.series = [self._series(item, group, number) for number, (item, group) in enumerate(pairs)]

    def publish(self, run: AnalyticsRun) -> None:
        """Every table of analytics, at each of its steps."""
        long = {Step.HOUR: DAY_MS, Step.DAY: DAYS * DAY_MS}
        for table, make, steps in (
            ("lag", self._lag, SHOWN_MS),
            ("subject_rates", self._subject_rates, SHOWN_MS),
            ("group_rates", self._group_rates, SHOWN_MS),
            ("latencies", self._latencies, SHOWN_MS),
            ("group_skew", self._group_skew, long),
            ("consumer_shares", self._consumer_shares, long),
            ("failures", self._failures, long),
            ("anomalies", self._anomalies, {Step.HOUR: DAYS * DAY_MS}),
            ("team_capacity", self._team_capacity, long),
            ("delayed_load", self._delayed_load, dict.fromkeys(long, 1)),
            ("drain_forecasts", self._drain_forecasts, {Step.HOUR: 1}),
            ("disk_forecasts", self._disk_forecasts, {Step.HOUR: DAY_MS}),
            ("forecast_scores", self._forecast_scores, long),
        ):
            for step, shown_ms in steps.items():
                first = max(self.begin_ms, self.end_ms - shown_ms)
                first -= first % step.ms
                rows = make(_Cut(self.at_ms, step, first))
                services.publish(run, table, rows, step=step, window=Window(first, self.end_ms))

    # --- what happened, minute by minute ---------------------------------------------------------------------------------

    def _sent(self, number: int) -> Numbers:
        """Messages a minute: more by day than by night, less on weekends, with noise."""
        hour = self.at_ms / Step.HOUR.ms % 24
        is_weekend = (self.at_ms // DAY_MS + 4) % 7 % 6 == 0
        rhythm = (1.2 - np.cos((hour - 3) / 24 * 2 * np.pi)) * np.where(is_weekend, 0.85, 1.0)
        sent = self.random.poisson(rhythm * self.random.lognormal(5, 1)).astype(np.float64)
        if number % ODD == 0:
            sent[-21 * 60 : -18 * 60] *= 3
        return sent

    def _series(self, item: Traffic, group: str, number: int) -> _Series:
        sent = self.sent[item.subject]
        share = 1.2 if number % SLOW == 0 else 3.0
        capacity = self.random.normal(share, 0.1, len(sent)) * sent.mean()
        # The queue's length is what came minus what could go, above its lowest so far.
        walk = np.cumsum(sent - capacity)
        lag = walk - np.minimum(np.minimum.accumulate(walk), 0)
        came = np.cumsum(sent)
        gone = came - lag
        oldest = np.searchsorted(came, gone, side="right")
        late = np.where(lag >= 1, (np.arange(len(sent)) - oldest + 1) * 60.0, 0.0)
        return _Series(item, group, sent, np.diff(gone, prepend=0.0), np.floor(lag), np.maximum(late, 0.0))

    # --- tables ------------------------------------------------------------------------------------------------------------

    def _lag(self, cut: _Cut) -> Iterator[Row]:
        for one in self.series:
            flying = np.minimum(one.lag, 20.0)
            columns = {}
            for name, values in (("backlog", one.lag - flying), ("in_flight", flying), ("lag", one.lag)):
                columns[f"{name}_messages_max"] = cut.max(values)
                columns[f"{name}_messages_mean"] = cut.mean(values)
                columns[f"{name}_messages_last"] = cut.last(values)
            columns["lag_messages_min"] = cut.min(one.lag)
            columns["time_lag_seconds_max"] = cut.max(one.time_lag_seconds)
            columns["time_lag_seconds_mean"] = cut.mean(one.time_lag_seconds)
            columns["time_lag_seconds_last"] = cut.last(one.time_lag_seconds)
            yield from cut.rows(one.key, columns)

    def _rates(self, name: str, unit: str, values: Numbers, cut: _Cut) -> dict[str, Sequence[float]]:
        return {
            f"{name}_{unit}": cut.sum(values),
            f"{name}_{unit}_per_second_max": cut.max(values / 60),
            f"{name}_{unit}_per_second_mean": cut.mean(values / 60),
        }

    def _sent_columns(self, sent: Numbers, cut: _Cut) -> dict[str, Sequence[float]]:
        return self._rates("sent", "messages", sent, cut) | self._rates("sent", "bytes", sent * MESSAGE_BYTES, cut)

    def _subject_rates(self, cut: _Cut) -> Iterator[Row]:
        for subject, sent in self.sent.items():
            yield from cut.rows({"subject": subject}, self._sent_columns(sent, cut))

    def _group_rates(self, cut: _Cut) -> Iterator[Row]:
        for one in self.series:
            acked = self._rates("acked", "messages", one.acked, cut)
            pulled = self._rates("pulled", "messages", one.acked, cut)
            yield from cut.rows(one.key, acked | pulled)

    def _latencies(self, cut: _Cut) -> Iterator[Row]:
        for one in self.series:
            messages = cut.sum(np.maximum(one.acked, 0))
            handling = [float(value) for value in self.random.normal(12, 1.5, len(messages)).clip(3)]
            waiting = cut.mean(one.time_lag_seconds)
            for kind, medians in (
                ("handling", handling),
                ("end_to_end", [took + 4 + late * 1000 for took, late in zip(handling, waiting, strict=True)]),
            ):
                columns = {name: [median * times for median in medians] for name, times in TAIL.items()}
                columns["mean_ms"] = [median * 1.4 for median in medians]
                key = {**one.key, "kind": kind}
                yield from (row for row in cut.rows(key, {"messages": messages, **columns}) if row["messages"])

    def _shares(self, one: _Series, cut: _Cut) -> Iterator[tuple[int, NDArray[np.int64]]]:
        random = np.random.default_rng(sum(map(ord, one.traffic.subject + one.group)))
        parts = random.dirichlet(np.full(int(random.integers(2, 6)), 8.0))
        for at, acked in zip(cut.moments, cut.sum(one.acked), strict=True):
            yield at, np.floor(parts * acked).astype(np.int64)

    def _group_skew(self, cut: _Cut) -> Iterator[Row]:
        for one in self.series:
            for at, acked in self._shares(one, cut):
                total, count = int(acked.sum()), len(acked)
                apart = np.abs(acked[:, None] - acked[None, :]).sum()
                yield {
                    "at_ms": at,
                    **one.key,
                    "consumers_count": count,
                    "acked_messages": total,
                    "max_mean_ratio": float(acked.max() * count / total) if total else None,
                    "gini_ratio": float(apart / (2 * count * total)) if total else None,
                }

    def _consumer_shares(self, cut: _Cut) -> Iterator[Row]:
        for one in self.series:
            for at, acked in self._shares(one, cut):
                total = int(acked.sum())
                for number, messages in enumerate(acked.tolist()):
                    share = messages / total if total else None
                    consumer = {
                        "consumer_id": f"{one.group}-{number}",
                        "acked_messages": messages,
                        "share_ratio": share,
                    }
                    yield {"at_ms": at, **one.key, **consumer}

    def _failures(self, cut: _Cut) -> Iterator[Row]:
        for number, one in enumerate(self.series):
            cause = CAUSES[number % len(CAUSES)]
            for kind, part, attempts in (("retry", 0.01, 1.3), ("dead_letter", 0.0005, 16.0)):
                failed = [float(np.floor(acked * part)) for acked in cut.sum(one.acked)]
                key = {**one.key, "kind": kind, "cause": cause, "attempts_mean": attempts, "attempts_max": 16}
                yield from (row for row in cut.rows(key, {"messages": failed}) if row["messages"])

    def _anomalies(self, cut: _Cut) -> Iterator[Row]:
        for subject, sent in self.sent.items():
            rates = np.array(cut.mean(sent / 60))
            before = 0.0
            for number in range(3 * 24, len(rates)):
                earlier = rates[number % 24 : number : 24][-7:]
                median = float(np.median(earlier))
                reach = 4 * max(1.4826 * float(np.median(np.abs(earlier - median))), 0.08 * median)
                score = (float(rates[number]) - median) / reach
                yield {
                    "at_ms": cut.moments[number],
                    "subject": subject,
                    "group": "",
                    "metric": "sent_messages_per_second",
                    "value": float(rates[number]),
                    "expected": median,
                    "expected_low": max(0.0, median - reach),
                    "expected_high": median + reach,
                    "score": score,
                    "about_messages": round(abs(float(rates[number]) - median) * 3600),
                    "is_flagged": min(score, before) > 1 or max(score, before) < -1,
                }
                before = score

    def _forecast_scores(self, cut: _Cut) -> Iterator[Row]:
        hours = cut.step.ms // Step.HOUR.ms
        lags, disks, subjects = len(self.series), len(self.nodes), len(self.sent)
        for scored, case_class, mean_cases, share, width in (
            ("drain_forecasts", "below_2_minutes", lags / 3, 0.81, 6.5),
            ("drain_forecasts", "below_20_minutes", lags / 6, 0.78, 9.0),
            ("drain_forecasts", "below_2_hours", lags / 12, 0.8, 10.5),
            ("drain_forecasts", "falling_below_2_hours", lags / 12, 0.66, 8.0),
            ("drain_forecasts", "falling_from_2_hours", 0.5, 0.8, 11.0),
            ("disk_forecasts", "all", disks / 6, 0.79, 0.02),
        ):
            for at in cut.moments:
                cases = int(self.random.poisson(mean_cases * hours))
                held, below, above = self.random.multinomial(cases, (share, (1 - share) / 2, (1 - share) / 2)).tolist()
                misses = {"below_count": below, "above_count": above}
                of = {"at_ms": at, "scored": scored, "case_class": case_class, "target_ratio": 0.8}
                if cases:
                    yield of | misses | {"cases_count": cases, "held_count": held, "width_ratio_median": width}
        for scored, cases, share in (
            ("anomalies", subjects * hours, 0.996),
            ("anomaly_flags", max(1, subjects // 20) * hours, 0.35),
        ):
            unknown = dict.fromkeys(("below_count", "above_count", "width_ratio_median", "target_ratio"))
            for at in cut.moments if subjects else ():
                held = int(self.random.binomial(cases, share))
                of = {"at_ms": at, "scored": scored, "case_class": "all", **unknown}
                yield of | {"cases_count": cases, "held_count": held}

    def _team_capacity(self, cut: _Cut) -> Iterator[Row]:
        for team in sorted({item.team for item in self.traffic}):
            owned = [self.sent[item.subject] for item in self.traffic if item.team == team]
            sent = np.sum(owned, axis=0)
            stored = np.cumsum(sent)
            columns = self._sent_columns(sent, cut)
            columns["stored_messages_last"] = cut.last(stored)
            columns["stored_bytes_last"] = cut.last(stored * MESSAGE_BYTES)
            yield from cut.rows({"team": team, "subjects_count": len(owned)}, columns)

    def _delayed_load(self, cut: _Cut) -> Iterator[Row]:
        first = self.end_ms - self.end_ms % cut.step.ms
        for item in self.traffic[::4]:
            busy = self.random.poisson(40 * cut.step.ms / Step.HOUR.ms, 60 * DAY_MS // cut.step.ms)
            for number, messages in enumerate(busy.tolist()):
                at = first + number * cut.step.ms
                load = {"pending_messages": messages, "pending_bytes": messages * MESSAGE_BYTES}
                yield {"at_ms": at, "subject": item.subject, **load}

    def _drain_forecasts(self, cut: _Cut) -> Iterator[Row]:
        for number, one in enumerate(self.series):
            lag = float(one.lag[-1])
            speed = float((one.acked - one.sent)[-180:].mean()) / 60
            waiting_minutes = lag / max(1.0, float(one.sent[-180:].mean()))
            size = sum(waiting_minutes >= minutes for minutes in (2, 20, 120))
            is_learning = lag > 0 and number % YOUNG == YOUNG - 1
            mid = (lag / speed if speed > 0 else np.inf) if lag else 0.0
            times = [None if mid * factor >= DAY_SECONDS else mid * factor for factor in (0.4, 1.0, 2.6)]
            row = self._forecast(cut, "drain", times, is_learning, "replay of the last 14 days")
            case_class = SIZES[size] if speed <= 0 else f"falling_{SIZES[size]}"
            yield row | one.key | {"lag_messages_last": int(lag), "case_class": case_class if lag else "none"}

    def _disk_forecasts(self, cut: _Cut) -> Iterator[Row]:
        growth = sum(float(sent.mean()) for sent in self.sent.values()) * MESSAGE_BYTES / 60
        for broker_group, node_id in self.nodes:
            total = 200 << 30
            used = int(total * self.random.uniform(0.3, 0.7))
            speeds = {"low": growth * 0.8, "mid": growth, "high": growth * 1.2}
            of = {"broker_group": broker_group, "node_id": node_id, "disk_total_bytes_last": total}
            of |= {f"growth_bytes_per_second_{bound}": speed for bound, speed in speeds.items()}
            for at in cut.moments:
                then = used - int(growth * (self.end_ms - at) / 1000)
                times = [(total - then) / speeds[bound] if growth else None for bound in ("high", "mid", "low")]
                row = self._forecast(cut, "full", times, False, "mean of yesterday's growth and last week's")
                yield row | of | {"at_ms": at, "disk_used_bytes_last": then}

    def _forecast(self, cut: _Cut, what: str, times: list[float | None], is_learning: bool, method: str) -> Row:
        """Early, likely and late time; one that is still learning has only the likely one."""
        outlook = "never" if times[0] is None else "possible" if times[2] is None else "expected"
        if is_learning:
            outlook, times = "unknown", [None, times[1], None]
        names = [f"{what}_seconds_{case}" for case in ("low", "mid", "high")]
        at = {"at_ms": (self.end_ms - 1) - (self.end_ms - 1) % cut.step.ms, "outlook": outlook}
        return {**at, "method": method, "interval_ratio": 0.8, **dict(zip(names, times, strict=True))}
