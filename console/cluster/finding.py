"""Finds a message by its ID alone: in all subjects, around the time of creation that the ID contains.

Each broker group scans the part of its log that was written in a few windows of time, the likeliest first, in bounded steps.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import product

from console.cluster.asking import Page, brokers
from console.cluster.merging import Row
from console.cluster.messages import SCAN_BUSY, or_empty
from console.cursors import decode_cursor, encode_cursor
from metaserver.errors import ChangeRefused
from qmq.node_admin import NodeAdmin
from qmq.protocol.masking import Masks

ID_UNTIMED = "message.id_untimed"
NEAR = timedelta(seconds=-5), timedelta(seconds=60)
"""Searched first: around the time of creation, by clocks that differ a little."""
WIDE = (timedelta(seconds=60), timedelta(minutes=10)), (timedelta(minutes=-2), timedelta(seconds=-5))
"""Searched then: messages that were stored late, and clocks that differ more."""
_TIMED = re.compile(r"([0-9]{6}\.[0-9]{6})\.([0-9a-zA-Z_.:-]{1,86})")
_OWN = re.compile(r"[0-9a-f]{16}\.[0-9]+")
"""What follows the time in IDs of this project's client, which are in UTC; the official client's are in its machine's zone."""

Window = tuple[int, int]
"""From, to: milliseconds, the end excluded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found(Page[Row]):
    """What one step found, each with its `subject`, and how far the search is."""

    progress: float
    """0..1, of the broker groups that can be reached."""
    windows: Sequence[Window]
    """All that is searched, in the order in which it is."""


def created_at(message_id: str, zone: tzinfo) -> list[datetime]:
    """When a message can have been created, by its ID.

    Args:
        zone: of the producer's machine, for IDs of the official client; UTC is returned too.

    Raises:
        ChangeRefused: the ID does not begin with a time.
    """
    found = _TIMED.fullmatch(message_id)
    try:
        stamp = datetime.strptime(found[1], "%y%m%d.%H%M%S").replace(tzinfo=UTC) if found else None
    except ValueError:
        stamp = None
    if found is None or stamp is None:
        what = "does not begin with a time (yyMMdd.HHmmss.); specify around, the time when the message was stored"
        raise ChangeRefused(f"Message ID {message_id[:100]!r} {what}.", code=ID_UNTIMED, fields={"message_id": what})
    zones = (UTC,) if _OWN.fullmatch(found[2]) else (UTC, zone)
    # A local time that clocks show twice can be both.
    times = (stamp.replace(tzinfo=one, fold=fold).astimezone(UTC) for one, fold in product(zones, (0, 1)))
    return list(dict.fromkeys(times))


def windows_around(times: Sequence[datetime]) -> list[Window]:
    """The windows that are searched for messages created at one of these times, the likeliest first."""
    spans = [(time, span) for span in (NEAR, *WIDE) for time in times]
    return [(_ms(time + begin), _ms(time + end)) for time, (begin, end) in spans]


def _ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


def find(
    message_id: str,
    times: Sequence[datetime],
    *,
    cursor: str | None = None,
    masks_of: Callable[[Collection[str]], Mapping[str, Masks]],
) -> Found:
    """One bounded step of a search for messages with an ID that were created at one of these times, in all subjects.

    Args:
        masks_of: what is masked of the messages of each subject that exists.

    Raises:
        ChangeRefused: the cursor does not belong to this search.
        CallTimeout: no node answered in time.
    """
    windows = windows_around(times)
    query = ("find", message_id, windows)
    # By broker group: its window, and where in the log it continues there.
    places: dict[str, tuple[int, int | None]] = {} if cursor is None else decode_cursor(cursor, query)
    nodes = brokers()
    open_ = [group for group in nodes.admins if places.get(group, (0, None))[0] < len(windows)]

    def question(group: str, admin: NodeAdmin) -> Awaitable[Row]:
        window, offset = places.get(group, (0, None))
        return admin.find(message_id, *windows[window], offset=offset)

    answers = nodes.only(open_).ask(question)
    masks = masks_of({place["subject"] for answer in answers.values.values() for place in answer["messages"]})

    async def read(group: str, admin: NodeAdmin) -> list[Row]:
        at = [place for place in answers.values[group]["messages"] if place["subject"] in masks]
        return [row for place in at for row in await _read(admin, group, place, message_id, masks[place["subject"]])]

    contents = nodes.only(answers.values).ask(read)
    answers.unreachable.update(contents.unreachable)
    found: list[Row] = []
    done = dict.fromkeys(nodes.admins, 1.0)
    for group, rows in contents.values.items():
        answer = answers.values[group]
        window, offset = places.get(group, (0, None))[0], answer["next_offset"]
        places[group] = (window + 1, None) if offset is None else (window, offset)
        done[group] = min(1.0, (window + answer["progress"]) / len(windows))
        found += rows
    is_busy = SCAN_BUSY in answers.codes.values()
    has_more = is_busy or any(places[group][0] < len(windows) for group in contents.values)
    reached = [progress for group, progress in done.items() if group not in answers.unreachable]
    found.sort(key=lambda row: (row["stored_at_ms"], row["broker_group"], row["sequence"]))
    return Found(
        found,
        encode_cursor(query, places) if has_more else None,
        answers.unreachable,
        progress=(sum(reached) / len(reached) if reached else 0.0) if has_more else 1.0,
        windows=windows,
    )


async def _read(admin: NodeAdmin, group: str, place: Row, message_id: str, masks: Masks) -> list[Row]:
    """The message at a place, unless retention deleted it."""
    subject, sequence = place["subject"], place["sequence"]
    page = await or_empty(admin.messages(subject, sequence=sequence, limit=1, masks=masks))
    return [
        {**row, "subject": subject, "broker_group": group}
        for row in page["messages"]
        if row["sequence"] == sequence and row.get("message_id") == message_id
    ]
