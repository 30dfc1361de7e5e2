"""The last hour of key numbers, one point in ten seconds, in Redis, so that a page opens with a filled chart.

Every STEP_SECONDS the collector stores a *frame* for each section: 32-bit floats, a fixed row of fields for each series, NaN for
what was not measured. A series (a consumer group, say) keeps its row, its *slot*, in all frames; a hash says which. A frame expires
after SPAN_SECONDS, and a slot is given to another series only when no frame is left that has the old one in it. So a beat
costs one SET a section, a chart reads a few bytes of each frame, and nothing grows.
"""

import math
import struct
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from console.snapshot.bus import PREFIX, connect, connect_blocking
from console.snapshot.state import KIND_BROKER, Entry, State
from console.times import rfc3339

STEP_SECONDS = 10
SPAN_SECONDS = 3_600
STEPS = SPAN_SECONDS // STEP_SECONDS
ARRIVAL_SECONDS = 2
"""A frame is looked for when its step is this old: until then it may not be there yet."""
VALUE_BYTES = 4

SYSTEM = "system"
_OF_A_NODE = (
    "send_rate", "send_bytes_rate", "pull_rate", "disk_used_bytes", "connections", "pending", "overdue",
    "delivered_per_second", "lateness_p99_seconds",
)  # fmt: skip
SECTIONS: dict[str, tuple[str, ...]] = {
    "subjects": ("send_rate", "send_bytes_rate", "stored_messages"),
    "groups": ("backlog", "in_flight", "time_lag_seconds", "pull_rate", "ack_rate", "consumers_online"),
    "broker_groups": _OF_A_NODE,
    "nodes": _OF_A_NODE,
    SYSTEM: ("send_rate", "pull_rate", "ack_rate", "backlog", "in_flight", "time_lag_seconds", "pending"),
}
"""Fields of each section's series. `lag` is not stored: it is backlog and in flight."""
SERIES_MAX = {"subjects": 10_000, "groups": 20_000, "broker_groups": 500, "nodes": 1_000, SYSTEM: 1}
"""Series of each section that are kept; of those past it nothing is, and answers say so."""
BYTES_MAX = sum(STEPS * VALUE_BYTES * SERIES_MAX[section] * len(fields) for section, fields in SECTIONS.items())
"""All frames of a system that is as large: 235 MB."""
_SUMMED = {
    "send_rate": "subjects",
    "pull_rate": "groups",
    "ack_rate": "groups",
    "backlog": "groups",
    "in_flight": "groups",
}
_NEVER = math.nan
_VALUE_MAX = 1e38
"""What 32 bits hold, and a little less."""
_FULL_KEY = f"{PREFIX}history:full"
"""By section: how many series got no slot."""
_GENERATION = ""
"""The field of a hash of slots that says which frames go with it. No series has this name."""


def slots_key(section: str) -> str:
    """The hash of a section's slots by series."""
    return f"{PREFIX}history:{section}:slots"


def frame_key(section: str, generation: str, step: int) -> str:
    """The frame of a section at a step: wall clock seconds divided by STEP_SECONDS."""
    return f"{PREFIX}history:{section}:{generation}:{step}"


def entries_of(state: State) -> dict[str, Mapping[str, Entry]]:
    """By section: the entries whose numbers are kept, by the name of the series. Pure."""
    nodes = {name: _with_disk(entry) for name, entry in state["nodes"].items()}
    masters = {entry["broker_group"]: entry for entry in nodes.values() if entry["is_master"]}
    return {
        "subjects": state["subjects"],
        "groups": state["groups"],
        "broker_groups": masters,
        "nodes": nodes,
        SYSTEM: {SYSTEM: _system(state)},
    }


def _with_disk(entry: Entry) -> Entry:
    free, total = entry.get("disk_free_bytes"), entry.get("disk_total_bytes")
    return {**entry, "disk_used_bytes": None if free is None or total is None else total - free}


def _system(state: State) -> Entry:
    """Sums over everything; None where a part is unknown."""
    found: Entry = {}
    for name, section in _SUMMED.items():
        found[name] = _sum(entry.get(name) for entry in state[section].values())
    lags: list[Any] = [entry.get("time_lag_seconds") for entry in state["groups"].values()]
    found["time_lag_seconds"] = None if None in lags else max(lags, default=0.0)
    delay = (entry for entry in state["nodes"].values() if entry["kind"] != KIND_BROKER and entry["is_master"])
    found["pending"] = _sum(entry.get("pending") for entry in delay)
    return found


def _sum(values: Iterable[Any]) -> Any:
    found = list(values)
    return None if None in found else sum(found)


class Slots:
    """Which series of a section has which slot. Pure.

    Args:
        known: as stored, {series: slot}.
        generation: of the frames that these slots are in.
        step: now; those known count as seen at it.
        most: slots there are.
    """

    def __init__(self, known: Mapping[str, int], generation: str, step: int, most: int) -> None:
        self.slots = dict(known)
        self.generation = generation
        self.left_out = 0
        """Series that got no slot the last time."""
        self._seen = dict.fromkeys(known, step)
        self._most = most
        taken = set(known.values())
        self._end = max(taken, default=-1) + 1
        self._free = [slot for slot in range(self._end) if slot not in taken]

    def place(self, names: Iterable[str], step: int) -> tuple[dict[str, int], list[str]]:
        """Give each of these series a slot; (those that are new, those that are gone for so long that theirs is free)."""
        gone = [name for name, seen in self._seen.items() if step - seen > STEPS]
        for name in gone:
            self._free.append(self.slots.pop(name))
            del self._seen[name]
        new: dict[str, int] = {}
        self.left_out = 0
        for name in names:
            if name not in self.slots:
                if not self._free and self._end >= self._most:
                    self.left_out += 1
                    continue
                if not self._free:
                    self._free.append(self._end)
                    self._end += 1
                new[name] = self.slots[name] = self._free.pop()
            self._seen[name] = step
        return new, gone

    def frame(self, entries: Mapping[str, Entry], fields: tuple[str, ...]) -> bytes:
        """The numbers of these series, each in its slot."""
        width = len(fields)
        values = [_NEVER] * (self._end * width)
        for name, entry in entries.items():
            slot = self.slots.get(name)
            if slot is not None:
                row: list[Any] = [entry.get(field) for field in fields]
                values[slot * width : (slot + 1) * width] = [
                    float(value) if type(value) in (int, float) and abs(value) < _VALUE_MAX else _NEVER for value in row
                ]
        return struct.pack(f"<{len(values)}f", *values)


class HistoryWriter:
    """Operations of the active collector. They raise redis.RedisError or OSError when Redis is unavailable."""

    def __init__(self, url: str) -> None:
        self._client: Any = connect(url)
        self._step = -1
        self._slots: dict[str, Slots] = {}

    async def note(self, state: State, at_ms: int) -> bool:
        """Store a frame of each section when a step has passed since the last; whether it did."""
        step = at_ms // (STEP_SECONDS * 1000)
        if step == self._step:
            return False
        self._step = step
        if not self._slots:
            self._slots = await self._stored(step)
        pipeline = self._client.pipeline(transaction=False)
        for section, entries in entries_of(state).items():
            slots = self._slots[section]
            new, gone = slots.place(entries, step)
            if gone:
                pipeline.hdel(slots_key(section), *gone)
            if new:
                pipeline.hset(slots_key(section), mapping=new)
            pipeline.hset(slots_key(section), _GENERATION, slots.generation)
            pipeline.expire(slots_key(section), 2 * SPAN_SECONDS)
            frame = slots.frame(entries, SECTIONS[section])
            pipeline.set(frame_key(section, slots.generation, step), frame, ex=SPAN_SECONDS)
        pipeline.hset(_FULL_KEY, mapping={section: slots.left_out for section, slots in self._slots.items()})
        pipeline.expire(_FULL_KEY, SPAN_SECONDS)
        for section in self._slots:
            pipeline.hlen(slots_key(section))
        expected = [len(slots.slots) + 1 for slots in self._slots.values()]
        before, self._slots = self._slots, {}  # what Redis has is not known until it answers
        if (await pipeline.execute())[-len(expected) :] == expected:
            self._slots = before
        else:
            # Redis was emptied: the frames from before must not be read with new slots.
            await self._client.delete(*map(slots_key, before))
        return True

    async def _stored(self, step: int) -> dict[str, Slots]:
        found = {}
        for section in SECTIONS:
            slots, generation = _all_slots(await self._client.hgetall(slots_key(section)))
            found[section] = Slots(slots, generation or uuid.uuid4().hex[:8], step, SERIES_MAX[section])
        return found

    def forget(self) -> None:
        """Read the slots again before the next frame: another collector may have acted meanwhile."""
        self._slots = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


# --- reading ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class History:
    """The last hour of a series: `at` are times, `fields` have a number or None for each; `reason`: why all are None."""

    at: list[str]
    fields: dict[str, list[float | None]]
    reason: str | None = None


def read_history(
    url: str, section: str, name: str, clock: Callable[[], float] = time.time, *, every: int = 1
) -> History:
    """Return the last hour of a series, or each `every`-th of its points; an unavailable one is unknown, with the reason."""
    last = int(clock() - ARRIVAL_SECONDS) // STEP_SECONDS
    steps = range(last, last - STEPS, -every)[::-1]
    at = [rfc3339(step * STEP_SECONDS * 1000) for step in steps]
    client: Any
    try:
        with connect_blocking(url) as client:
            slots, generation = slots_and_generation(client, section, [name])
            if not slots:
                return _unknown(at, section, _why(section, client.hget(_FULL_KEY, section)))
            width = VALUE_BYTES * len(SECTIONS[section])
            begin = slots[name] * width
            pipeline = client.pipeline(transaction=False)
            for step in steps:
                pipeline.getrange(frame_key(section, generation, step), begin, begin + width - 1)
            rows = [_row(part, width) for part in pipeline.execute()]
    except (redis.RedisError, OSError) as error:
        return _unknown(at, section, f"Redis is not responding: {error}")
    columns = {field: [row[number] for row in rows] for number, field in enumerate(SECTIONS[section])}
    return History(at, _with_lag(columns))


def slots_and_generation(client: Any, section: str, names: Sequence[str] | None) -> tuple[dict[str, int], str]:
    """The slots of those of these series (None: of all) that have one, and the name of the frames that they are in."""
    if names is None:
        return _all_slots(client.hgetall(slots_key(section)))
    *slots, generation = client.hmget(slots_key(section), *names, _GENERATION)
    if generation is None:
        return {}, ""
    known = {name: int(slot) for name, slot in zip(names, slots, strict=True) if slot is not None}
    return known, generation.decode()


def _all_slots(stored: dict[bytes, bytes]) -> tuple[dict[str, int], str]:
    """The slots in a stored hash, and the name of the frames; nothing without the latter."""
    generation = stored.pop(_GENERATION.encode(), None)
    if generation is None:
        return {}, ""
    return {name.decode(): int(slot) for name, slot in stored.items()}, generation.decode()


def _why(section: str, full: Any) -> str:
    if full is not None and int(full) > 0:
        return f"only {SERIES_MAX[section]} {section} have a history; this is one of {int(full)} others"
    return "no measurements in the last hour"


def _unknown(at: list[str], section: str, reason: str) -> History:
    return History(at, _with_lag({field: [None] * len(at) for field in SECTIONS[section]}), reason)


def _row(part: bytes, width: int) -> list[float | None]:
    count = width // VALUE_BYTES
    if len(part) != width:
        return [None] * count
    # 32 bits hold seven digits: further ones would be noise.
    return [None if math.isnan(value) else float(f"{value:.7g}") for value in struct.unpack(f"<{count}f", part)]


def _with_lag(columns: dict[str, list[float | None]]) -> dict[str, list[float | None]]:
    if "backlog" in columns:
        pairs = zip(columns["backlog"], columns["in_flight"], strict=True)
        columns["lag"] = [None if one is None or other is None else one + other for one, other in pairs]
    return columns
