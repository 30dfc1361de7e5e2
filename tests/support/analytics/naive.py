"""What the analytics jobs should say of a simulated day, worked out from its record message by message, and slowly.

Nothing of `spark_analytics` is used here: each figure follows its definition in docs/analytics.md, in plain Python.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache
from heapq import heappop, heappush
from math import ceil, expm1, log1p
from operator import itemgetter
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

from qmq.protocol.names import split_subject
from tests.support.analytics.simulated_day import (
    DAY_MS,
    Begin,
    Day,
    Delivery,
    Message,
    Sample,
    Standing,
    samples_of,
)

Key = tuple[Any, ...]
Rows = dict[Key, dict[str, Any]]
MINUTE_MS = 60_000
HOUR_MS = 3_600_000


@cache
def original(subject: str) -> str:
    return split_subject(subject).subject


class _Part:
    """A group on a subject of a broker group."""

    def __init__(self) -> None:
        self.broker_group = self.subject = ""
        self.messages: list[Message] = []
        self.standings: list[Standing] = []
        self.begins: list[Begin] = []
        self.deliveries: list[Delivery] = []


def _parts(day: Day) -> dict[tuple[str, str], list[_Part]]:
    """(original subject, group) -> the places where it is."""
    found: dict[tuple[str, str, str], _Part] = defaultdict(_Part)
    messages: dict[tuple[str, str], list[Message]] = defaultdict(list)
    for message in day.record.messages:
        messages[message.broker_group, message.subject].append(message)
    for standing in day.record.standings:
        found[standing.broker_group, standing.subject, standing.group].standings.append(standing)
    for delivery in day.record.deliveries:
        message = delivery.message
        found[message.broker_group, message.subject, delivery.group].deliveries.append(delivery)
    for (broker_group, subject), stored in messages.items():
        name = split_subject(subject)
        if name.kind == "retry":
            # The group is there from the first message on, at the first message, until it says otherwise.
            first = Standing(broker_group, subject, name.group, stored[0].stored_ms, 0)
            found[broker_group, subject, name.group].standings.insert(0, first)
    result: dict[tuple[str, str], list[_Part]] = defaultdict(list)
    for (broker_group, subject, group), part in found.items():
        part.broker_group, part.subject = broker_group, subject
        part.messages = messages[broker_group, subject]
        part.begins = [b for b in day.record.begins if (b.broker_group, b.subject) == (broker_group, subject)]
        result[original(subject), group].append(part)
    return result


State = tuple[int, int, int]
"""Backlog and in flight in messages, time lag in seconds."""


def _states(part: _Part, first_ms: int) -> list[State | None]:
    """The state at the end of each second of the day; None where the group does not exist."""
    # When, what, the sequence or position, and the delivery's number; what happened at once stays in this order.
    happened: list[tuple[int, str, int, int]] = [(m.stored_ms, "stored", m.sequence, 0) for m in part.messages]
    happened += [(s.at_ms, "stands", s.position, 0) for s in part.standings]
    happened += [(b.at_ms, "begins", b.begin, 0) for b in part.begins]
    for number, delivery in enumerate(part.deliveries):
        happened.append((delivery.handed_ms, "handed", delivery.message.sequence, number))
        if delivery.ended_ms is not None:
            happened.append((delivery.ended_ms, "ended", 0, number))
    happened.sort(key=itemgetter(0))
    stored = position = begin = holds = 0
    exists = False
    held: list[tuple[int, int]] = []
    over: set[int] = set()
    states: list[State | None] = []
    at = 0
    seconds = DAY_MS // 1000
    while len(states) < seconds:
        next_ms = happened[at][0] if at < len(happened) else first_ms + DAY_MS
        quiet = min(seconds, (next_ms - first_ms) // 1000) - len(states)
        if quiet > 0:
            before = states[-1] if states else None
            if before is None or before[0] + before[1] == 0:
                states += [before] * quiet
            else:
                backlog, flying, late = before
                states += [(backlog, flying, late + more) for more in range(1, quiet + 1)]
            continue
        end_ms = first_ms + (len(states) + 1) * 1000
        while at < len(happened) and happened[at][0] < end_ms:
            _, what, value, number = happened[at]
            match what:
                case "stored":
                    stored += 1
                case "stands":
                    position, exists = value, value >= 0
                case "begins":
                    begin = value
                case "handed":
                    holds += 1
                    heappush(held, (value, number))
                case "ended":
                    holds -= 1
                    over.add(number)
            at += 1
        if not exists:
            states.append(None)
            continue
        while held and held[0][1] in over:
            heappop(held)
        kept_from = max(position, begin)
        backlog = max(0, stored - kept_from)
        oldest = min([kept_from] * (backlog > 0) + [sequence for sequence, _ in held[:1]], default=None)
        # What is held of messages that are gone is as old as the first one that is kept.
        late = 0 if oldest is None else end_ms // 1000 - part.messages[max(oldest, begin)].stored_ms // 1000
        states.append((backlog, holds, late))
    return states


def _forgotten(part: _Part, first_ms: int) -> list[tuple[int, int]]:
    """Seconds of the day [begin, end) at whose ends a group was forgotten there."""
    found = []
    for number, standing in enumerate(part.standings):
        if standing.position < 0:
            later = part.standings[number + 1 :]
            ends = (later[0].at_ms if later else first_ms + DAY_MS) - first_ms
            found.append(((standing.at_ms - first_ms) // 1000, ends // 1000))
    return found


def _sum(states: list[State]) -> State | None:
    """Counts together, and the longest time."""
    if len(states) < 2:
        return states[0] if states else None
    backlogs, flying, late = zip(*states, strict=True)
    return sum(backlogs), sum(flying), max(late)


def lag(day: Day, steps: Iterable[int]) -> Rows:
    rows: Rows = {}
    for (subject, group), parts in _parts(day).items():
        of_parts = [_states(part, day.first_ms) for part in parts]
        for part, states in zip(parts, of_parts, strict=True):
            if split_subject(part.subject).kind == "retry":
                # What waits in the retry subject of a group that was forgotten belongs to no group.
                of_original = next(
                    (p for p in parts if (p.broker_group, p.subject) == (part.broker_group, subject)), None
                )
                for begin, end in _forgotten(of_original, day.first_ms) if of_original else ():
                    states[begin:end] = [None] * len(states[begin:end])
        if len(of_parts) == 1:
            [together] = of_parts
        else:
            together = [
                _sum([state for state in states if state is not None]) for states in zip(*of_parts, strict=True)
            ]
        for step_ms in steps:
            length = step_ms // 1000
            for begin in range(0, len(together), length):
                there = [state for state in together[begin : begin + length] if state is not None]
                if not there:
                    continue
                series = {
                    "backlog_messages": [state[0] for state in there],
                    "in_flight_messages": [state[1] for state in there],
                    "lag_messages": [state[0] + state[1] for state in there],
                    "time_lag_seconds": [state[2] for state in there],
                }
                row: dict[str, Any] = {"lag_messages_min": min(series["lag_messages"])}
                for name, values in series.items():
                    row |= {
                        f"{name}_max": max(values),
                        f"{name}_mean": sum(values) / len(values),
                        f"{name}_last": values[-1],
                    }
                rows[step_ms, day.first_ms + begin * 1000, subject, group] = row
    return rows


def _step(ms: int, step_ms: int) -> int:
    return ms - ms % step_ms


def _rates(minutes: dict[tuple[Any, ...], dict[int, int]], what: str, steps: Iterable[int]) -> Rows:
    """From counts by key and minute: the count, the busiest minute's and the mean rate a second of each step."""
    rows: Rows = {}
    for key, counts in minutes.items():
        for step_ms in steps:
            of_step: dict[int, list[int]] = defaultdict(list)
            for minute, n in counts.items():
                of_step[_step(minute, step_ms)].append(n)
            for at_ms, values in of_step.items():
                rows[(step_ms, at_ms, *key)] = {
                    what: sum(values),
                    f"{what}_per_second_max": max(values) / 60,
                    f"{what}_per_second_mean": sum(values) / (step_ms // 1000),
                }
    return rows


def _joined(*parts: Rows) -> Rows:
    """Rows with the columns of all parts; where one has none, it counts 0."""
    names = [list(next(iter(part.values()))) for part in parts]
    return {
        key: {
            name: value
            for part, own in zip(parts, names, strict=True)
            for name, value in part.get(key, dict.fromkeys(own, 0)).items()
        }
        for key in set().union(*parts)
    }


def _minutes(pairs: Iterable[tuple[Key, int, int]]) -> dict[Key, dict[int, int]]:
    counts: dict[Key, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for key, ms, n in pairs:
        counts[key][_step(ms, MINUTE_MS)] += n
    return counts


def subject_rates(day: Day, steps: Iterable[int]) -> Rows:
    real = [m for m in day.record.messages if split_subject(m.subject).kind == "real"]
    return _joined(
        _rates(_minutes(((m.subject,), m.stored_ms, 1) for m in real), "sent_messages", steps),
        _rates(_minutes(((m.subject,), m.stored_ms, m.size) for m in real), "sent_bytes", steps),
    )


def group_rates(day: Day, steps: Iterable[int]) -> Rows:
    handed = (((original(d.message.subject), d.group), d.handed_ms, 1) for d in day.record.deliveries)
    return _joined(
        _rates(_minutes(handed), "pulled_messages", steps),
        _rates(
            _minutes(((original(d.message.subject), d.group), d.ended_ms, 1) for d in _acked(day)),
            "acked_messages",
            steps,
        ),
    )


def _acked(day: Day) -> list[Any]:
    return [delivery for delivery in day.record.deliveries if delivery.how == "ack"]


def latencies(day: Day, steps: Iterable[int]) -> dict[Key, list[int]]:
    """All latencies in ms of each step, ascending."""
    found: dict[Key, list[int]] = defaultdict(list)
    for delivery in _acked(day):
        series = (original(delivery.message.subject), delivery.group)
        for step_ms in steps:
            at = (step_ms, _step(delivery.ended_ms, step_ms))
            found[(*at, *series, "end_to_end")].append(delivery.ended_ms - delivery.message.stored_ms)
            found[(*at, *series, "handling")].append(delivery.ended_ms - delivery.handed_ms)
    return {key: sorted(values) for key, values in found.items()}


def percentile(ascending: list[int], ratio: float) -> int:
    """The value of rank ceil(ratio x n)."""
    return ascending[max(1, ceil(round(ratio * len(ascending), 9))) - 1]


def _by_consumer(day: Day, steps: Iterable[int], name_of: Callable[[str], str]) -> dict[Key, dict[str, list[int]]]:
    """Step, series -> consumer -> messages handed out and acked."""
    found: dict[Key, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for delivery in day.record.deliveries:
        series = (original(delivery.message.subject), delivery.group)
        for step_ms in steps:
            handed = found[(step_ms, _step(delivery.handed_ms, step_ms), *series)]
            handed[name_of(delivery.consumer)][0] += 1
            if delivery.how == "ack" and delivery.ended_ms is not None:
                acked = found[(step_ms, _step(delivery.ended_ms, step_ms), *series)]
                acked[name_of(delivery.consumer)][1] += 1
    return found


def group_skew(day: Day, steps: Iterable[int], name_of: Callable[[str], str]) -> Rows:
    rows: Rows = {}
    for key, consumers in _by_consumer(day, steps, name_of).items():
        acked = [counts[1] for counts in consumers.values() if counts[0]]
        if not acked:
            continue
        total, n = sum(acked), len(acked)
        apart = sum(abs(a - b) for a in acked for b in acked)
        rows[key] = {
            "consumers_count": n,
            "acked_messages": total,
            "max_mean_ratio": max(acked) * n / total if total else None,
            "gini_ratio": apart / (2 * n * total) if total else None,
        }
    return rows


def consumer_shares(day: Day, steps: Iterable[int], name_of: Callable[[str], str]) -> Rows:
    rows: Rows = {}
    for key, consumers in _by_consumer(day, steps, name_of).items():
        total = sum(counts[1] for counts in consumers.values())
        for consumer, counts in consumers.items():
            share = counts[1] / total if total else None
            rows[(*key, consumer)] = {"acked_messages": counts[1], "share_ratio": share}
    return rows


def failures(day: Day, steps: Iterable[int]) -> Rows:
    found: dict[Key, list[int]] = defaultdict(list)
    for message in day.record.messages:
        name = split_subject(message.subject)
        if name.kind == "real":
            continue
        kind = {"retry": "retry", "dead": "dead_letter"}[name.kind]
        for step_ms in steps:
            key = (step_ms, _step(message.stored_ms, step_ms), name.subject, name.group, kind, message.cause)
            found[key].append(message.attempt - 1)
    return {
        key: {"messages": len(n), "attempts_mean": sum(n) / len(n), "attempts_max": max(n)} for key, n in found.items()
    }


def delayed_load(day: Day, steps: Iterable[int]) -> Rows:
    found: Rows = defaultdict(lambda: {"pending_messages": 0, "pending_bytes": 0})
    for item in day.record.scheduled:
        if item.state == "pending":
            for step_ms in steps:
                row = found[step_ms, _step(item.due_ms, step_ms), item.subject]
                row["pending_messages"] += 1
                row["pending_bytes"] += item.size
    return dict(found)


def team_capacity(day: Day, owners: dict[str, str], steps: Iterable[int], *, is_by_hour: bool = False) -> Rows:
    """`is_by_hour`: of an hour in which something is kept and something is not, bytes are in proportion to the messages."""
    teams: dict[str, set[str]] = defaultdict(set)
    for subject, team in owners.items():
        teams[team].add(subject)
    teams[""] |= {original(message.subject) for message in day.record.messages} - owners.keys()
    samples = samples_of(day)
    rows: Rows = {}
    for team, subjects in teams.items():
        own = [m for m in day.record.messages if original(m.subject) in subjects]
        sent = (
            _joined(
                _rates(_minutes(((team,), m.stored_ms, 1) for m in own), "sent_messages", steps),
                _rates(_minutes(((team,), m.stored_ms, m.size) for m in own), "sent_bytes", steps),
            )
            if own
            else {}
        )
        of_hours = _by_hour(day, own)
        for step_ms in steps:
            for at_ms in range(day.first_ms, day.first_ms + DAY_MS, step_ms):
                seen = [s for s in samples if original(s.subject) in subjects and at_ms <= s.at_ms < at_ms + step_ms]
                # A subject without an owner is known where it got messages or was sampled.
                known = subjects if team else {original(each.subject) for each in seen}
                known = known | {original(m.subject) for m in own if at_ms <= m.stored_ms < at_ms + step_ms}
                if not known:
                    continue
                last = list({(s.broker_group, s.subject): s for s in seen}.values())
                rows[step_ms, at_ms, team] = {
                    "subjects_count": len(known),
                    **dict.fromkeys(_SENT, 0),
                    **sent.get((step_ms, at_ms, team), {}),
                    "stored_messages_last": sum(s.end - s.begin for s in last) if last else None,
                    "stored_bytes_last": sum(of_hours(s) if is_by_hour else s.stored_bytes for s in last)
                    if last
                    else None,
                }
    return rows


_SENT = [f"sent_{unit}{end}" for unit in ("messages", "bytes") for end in ("", "_per_second_max", "_per_second_mean")]


def _by_hour(day: Day, messages: list[Message]) -> Callable[[Sample], int]:
    """The bytes of a sample, of each hour of a log the part that its messages are."""
    logs = {(log.broker_group, log.subject, log.begin) for log in day.record.logs}
    hours: dict[tuple[str, str], dict[tuple[int, int], list[Message]]] = defaultdict(lambda: defaultdict(list))
    for m in messages:
        place = (m.broker_group, m.subject)
        log = sum(1 for *of, begin in logs if tuple(of) == place and begin <= m.sequence)
        hours[place][m.stored_ms // HOUR_MS, log].append(m)

    def size_of(sample: Sample) -> int:
        size = 0.0
        for part in hours[sample.broker_group, sample.subject].values():
            first, end = part[0].sequence, part[-1].sequence + 1
            kept = max(0, min(end, sample.end) - max(first, sample.begin))
            size += sum(m.size for m in part) * kept / (end - first)
        return int(size + 0.5)

    return size_of


Expected = tuple[float, float, float, float, bool]
"""Of an hour: the expected value, its low and high end, the score, and whether it is flagged."""
WEEK_HOURS = 168


def anomalies(values: dict[int, float], hours: Iterable[int], zone: ZoneInfo) -> dict[int, Expected]:
    """What a series' hours (ms since the epoch) are judged as; one that is not judged is left out.

    Args:
        values: what there was in each hour, of rates a message count.
    """
    local_values: dict[datetime, float] = {}
    for at_ms in sorted(values):
        # Of two hours that clocks have twice, the later one counts.
        local_values[_local(at_ms, zone)] = log1p(values[at_ms])

    @cache
    def expected(at_ms: int) -> float | None:
        local = _local(at_ms, zone)
        weeks, days = (
            [local_values[at] for n in range(1, most + 1) if (at := local - n * apart) in local_values]
            for most, apart in ((8, timedelta(weeks=1)), (7, timedelta(days=1)))
        )
        if len(weeks) >= 4:
            return median(weeks)
        if len(weeks) + len(days) < 3:
            return None
        if not weeks or not days:
            return median(weeks or days)
        return len(weeks) / 4 * median(weeks) + (1 - len(weeks) / 4) * median(days)

    def error(at_ms: int) -> float | None:
        wanted = expected(at_ms)
        return None if wanted is None or at_ms not in values else log1p(values[at_ms]) - wanted

    @cache
    def ends(at_ms: int) -> tuple[float, float] | None:
        """The least and the greatest error of the four weeks before that is not among the outer ones."""
        before = [error(at_ms - n * HOUR_MS) for n in range(1, 4 * WEEK_HOURS + 1)]
        known = sorted(each for each in before if each is not None)
        if len(known) < WEEK_HOURS:
            return None
        outer = int(0.01 * (len(known) + 1))
        return known[outer - 1], known[-outer]

    def direction(at_ms: int) -> int:
        off, bounds = error(at_ms), ends(at_ms)
        return 0 if off is None or bounds is None else (off > bounds[1]) - (off < bounds[0])

    found = {}
    for at_ms in hours:
        off, wanted, bounds = error(at_ms), expected(at_ms), ends(at_ms)
        if off is None or wanted is None or bounds is None:
            continue
        half = (bounds[1] - bounds[0]) / 2
        low, high = max(0.0, expm1(wanted + bounds[0])), expm1(wanted + bounds[1])
        is_flagged = direction(at_ms) != 0 and direction(at_ms) == direction(at_ms - HOUR_MS)
        found[at_ms] = (expm1(wanted), low, high, off / half if half else 0.0, is_flagged)
    return found


def _local(at_ms: int, zone: ZoneInfo) -> datetime:
    """An hour by the clocks of a zone."""
    return datetime.fromtimestamp(at_ms / 1000, zone).replace(tzinfo=None, fold=0)
