"""The last hour of many series at once: a part of each frame instead of a read for each series."""

import struct
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from console.snapshot.bus import connect_blocking
from console.snapshot.history import (
    ARRIVAL_SECONDS,
    SECTIONS,
    SERIES_MAX,
    STEP_SECONDS,
    STEPS,
    VALUE_BYTES,
    frame_key,
    slots_and_generation,
)

SERIES_READ_MAX = 2_000
"""Series that one call reads."""
FRAMES_AT_ONCE = 30
"""Frames in one answer of Redis: 12 MB for a section of 20,000 groups."""

Row = tuple[float, ...]
"""The values of a series at a step, in the order of the section's fields; NaN: not measured."""


@dataclass(frozen=True, slots=True)
class Histories:
    """Values by series and step, from `begin_ms` on, STEP_SECONDS apart."""

    begin_ms: int
    series: dict[str, list[Row | None]]
    """None where there is no frame, or the series was not in it."""


def read_histories(
    url: str, section: str, names: Iterable[str] | None, clock: Callable[[], float] = time.time
) -> Histories:
    """Return the last hour of these series; unknown ones are left out.

    Args:
        names: at most SERIES_READ_MAX; None: all of a section that has no more.

    Raises:
        redis.RedisError, OSError: Redis is unavailable.
    """
    wanted = None if names is None else list(names)
    assert (SERIES_MAX[section] if wanted is None else len(wanted)) <= SERIES_READ_MAX
    last = int(clock() - ARRIVAL_SECONDS) // STEP_SECONDS
    steps = range(last - STEPS + 1, last + 1)
    begin_ms = steps[0] * STEP_SECONDS * 1000
    client: Any
    with connect_blocking(url) as client:
        slots, generation = slots_and_generation(client, section, wanted)
        if not slots:
            return Histories(begin_ms, {})
        width = VALUE_BYTES * len(SECTIONS[section])
        low, high = min(slots.values()), max(slots.values())
        found: dict[str, list[Row | None]] = {name: [] for name in slots}
        for begin in range(0, STEPS, FRAMES_AT_ONCE):
            pipeline = client.pipeline(transaction=False)
            for step in steps[begin : begin + FRAMES_AT_ONCE]:
                pipeline.getrange(frame_key(section, generation, step), low * width, (high + 1) * width - 1)
            _add(found, slots, low, width, pipeline.execute())
    return Histories(begin_ms, found)


def _add(
    found: dict[str, list[Row | None]], slots: dict[str, int], low: int, width: int, parts: Sequence[bytes]
) -> None:
    unpack = struct.Struct(f"<{width // VALUE_BYTES}f").unpack_from
    for part in parts:
        end = len(part) - width
        for name, slot in slots.items():
            at = (slot - low) * width
            found[name].append(unpack(part, at) if at <= end else None)
