"""F26, F34, F35, F36 of the fault table, on a delay node in this process; F33 and the kills are in test_kill.py.

Short by default; `make faults` (QMQ_FAULTS=full) takes the table's own numbers.
"""

import asyncio
import json
import os
import random
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from qmq.net.discovery import http_get, http_post_json
from qmq.protocol.delayed import DelayedTarget, Operation, Outcome
from tests.support.drivers.in_process import (
    Client,
    ShiftedClock,
    SmallSystem,
    connected,
    delayed,
    now_ms,
    small_system,
)
from tests.support.promises import judging
from tests.support.waiting import eventually_async

FULL = os.environ.get("QMQ_FAULTS") == "full"
HOUR = 3_600_000
DAY = 24 * HOUR


async def send_all(client: Client, dues: list[int], subject: str = "orders", first: int = 0) -> None:
    """Messages m<first>, m<first+1>, ... with these due times."""
    for at in range(0, len(dues), 500):
        part = [delayed(first + at + i, due, subject) for i, due in enumerate(dues[at : at + 500])]
        assert await client.send(*part) == {}


async def all_stored(system: SmallSystem, count: int, subject: str = "orders", within_s: float = 60.0) -> None:
    """Wait until the brokers hold so many."""

    def look() -> bool:
        stored = sum(
            b.store.subjects[subject].visible_end for b in system.brokers.values() if subject in b.store.subjects
        )
        return stored >= count

    await eventually_async(look, within_s, f"{count} messages of {subject}")


# --- F34 ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_f34_down_for_hours_or_a_month_all_overdue_come_oldest_first(tmp_path: Path) -> None:
    for name, days in (("hours", 3 / 24), ("month", 30)):
        clock, rng, count = ShiftedClock(), random.Random(34), 3_000
        # A batch that is tried again because the machine stood still for a while would come out of order.
        async with small_system(tmp_path / name, clock=clock, send_seconds=60.0) as system:
            begin = now_ms() + 60_000
            dues = [begin + rng.randrange(round(days * DAY)) for _ in range(count)]
            async with connected(system.delay) as client:
                await send_all(client, dues)
                await client.change(Operation.CANCEL, DelayedTarget("m7"), DelayedTarget("m11"))
            await system.delay.close()
            clock.offset_ms = round(days * DAY) + 2 * HOUR
            await system.start_delay()
            await all_stored(system, count - 2)
            stored = system.stored("orders")
            dues_stored = [item.time_ms for item in stored]
            early = [i for i in range(1, len(dues_stored)) if dues_stored[i] < dues_stored[i - 1]]
            assert not early, (
                f"oldest first; not so at {early[:10]} of {len(stored)}, {len(set(dues_stored))} different"
            )
            assert {item.message_id for item in stored} == {f"m{i}" for i in range(count)} - {"m7", "m11"}
            await eventually_async(lambda: system.delay.store.pending == 0)


async def test_past_hours_are_removed_when_nothing_is_left_in_them(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with small_system(tmp_path, clock=clock, keep_hours=1.0, checkpoint_seconds=1.0) as system:
        async with connected(system.delay) as client:
            await send_all(client, [now_ms() + 100, now_ms() + 5 * HOUR, now_ms() + 40 * DAY])
        await all_stored(system, 1)
        await system.delay.close()
        clock.offset_ms = 8 * HOUR
        await system.start_delay()
        await all_stored(system, 2)
        async with connected(system.delay) as client:
            # Nothing more is written: the removal of old hours alone makes a checkpoint due.
            disk, folder = system.delay.disk, str(tmp_path / "d1/schedule")

            def indexes() -> int:
                return sum(name.endswith(".index") for name in disk.list_dir(folder))

            assert indexes() == 3
            await eventually_async(lambda: indexes() == 1, 20, "the past hours' files are gone")
            assert system.delay.store.pending == 1
            assert len((await client.find("m2")).items) == 1


# --- F35 ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_f35_all_brokers_down_while_messages_fall_due(tmp_path: Path) -> None:
    count = 100_000 if FULL else 10_000
    async with small_system(tmp_path, send_seconds=60.0) as system, connected(system.delay) as client:
        port = system.brokers["g1"].server.address[1]
        await send_all(client, [now_ms()], "orders")
        await all_stored(system, 1)
        await system.brokers["g1"].close()
        rng, begin = random.Random(35), now_ms() + 6_000 + count // 10
        dues = [begin + rng.randrange(1_500) for _ in range(count)]
        await send_all(client, dues, first=1)
        await eventually_async(
            lambda: system.delay.serving.dispatcher.lanes.overdue == count, 60, "everything is overdue and held"
        )
        assert system.delay.serving.dispatcher.lanes.problems(20)[0]["waiting"] == count
        assert system.delay.serving.dispatcher.lanes.ready_bytes == 0, "they wait without their bodies"
        # What is overdue and was never on its way can still be cancelled.
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("m5"))
        assert change.outcome is Outcome.DONE
        await system.start_broker("g1", port)
        await eventually_async(lambda: system.brokers["g1"].store.subjects["orders"].visible_end > 1, 30)
        # Due at once: the backlog of a small run is stored within 40 ms.
        await send_all(client, [now_ms()] * 20, first=1_000_000)
        await all_stored(system, count + 20)
        stored = [item.message_id for item in system.stored("orders")][1:]
        backlog = [int(m[1:]) for m in stored if int(m[1:]) < 1_000_000]
        assert len(set(backlog)) == len(backlog) == count - 1
        assert [dues[n - 1] for n in backlog] == sorted(dues[n - 1] for n in backlog), "in due order"
        assert stored.index("m1000019") < len(stored) - 100, "fresh messages were not made to wait for the backlog"


async def test_one_subject_s_trouble_is_nobody_else_s(tmp_path: Path) -> None:
    async with small_system(tmp_path, groups=1) as system, connected(system.delay) as client:
        route = system.delay.serving.session.routes
        system.delay.serving.session.routes = lambda subject, kind: () if subject == "bad" else route(subject, kind)  # type: ignore[method-assign]
        await send_all(client, [now_ms()] * 5_000, "bad")
        await send_all(client, [now_ms() + 100] * 50, "good")
        await all_stored(system, 50, "good", 10)
        assert system.delay.serving.dispatcher.lanes.overdue == 5_000
        system.delay.serving.session.routes = route  # type: ignore[method-assign]
        await all_stored(system, 5_000, "bad", 10)


async def test_a_broker_that_fails_in_the_middle_is_worked_around(tmp_path: Path) -> None:
    async with small_system(tmp_path, groups=2) as system, connected(system.delay) as client:
        count = 4_000
        rng, begin = random.Random(3), now_ms() + 300
        await send_all(client, [begin + rng.randrange(1_500) for _ in range(count)])
        # One frame may hold hundreds of messages: that some are stored does not say that this group has got any.
        await eventually_async(lambda: len(_stored_of(system.brokers["g1"])) > 100, 10, "the group got its share")
        before = system.stored("orders")
        gone = system.brokers.pop("g1")
        await gone.close()
        kept = {item.message_id for item in before}
        await eventually_async(lambda: system.delay.store.pending == 0, 30, "everything went to the other group")
        there = {item.message_id for item in system.stored("orders")}
        system.brokers["g1"] = gone
        everything = there | kept | {item.message_id for item in _stored_of(gone)}
        assert everything == {f"m{i}" for i in range(count)}


def _stored_of(broker: object) -> list[object]:
    from broker_node.broker import Broker
    from qmq.protocol.messages import decode_raws

    assert isinstance(broker, Broker)
    subject = broker.store.subjects.get("orders")
    if subject is None:
        return []
    raws = broker.store.message_log.read_raws(subject.consume_log.read(0, subject.visible_end), cached_only=False)
    return [decode_raws(raw)[0] for raw in raws if raw is not None]


# --- F36 ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_f36_of_a_cancel_and_a_delivery_exactly_one_wins_and_both_are_told(tmp_path: Path) -> None:
    count = 100_000 if FULL else 8_000
    async with small_system(tmp_path, groups=1) as system, connected(system.delay) as client:
        rng = random.Random(36)
        span = count // 4  # ms: four thousand a second
        begin = now_ms() + 500 + count // 20
        dues = [begin + rng.randrange(span) for _ in range(count)]
        await send_all(client, dues)
        told: dict[str, Outcome] = {}

        async def cancel(chosen: list[int]) -> None:
            targets = [DelayedTarget(f"m{n}", "orders", dues[n]) for n in chosen]
            for change in await client.change(Operation.CANCEL, *targets):
                told[change.message_id] = change.outcome

        # Each cancel is sent around its message's due time, most a hair before or after, some well before: a slow machine
        # sends all of them later.
        at_ms = [due + (rng.randrange(-8, 9) if rng.random() < 0.7 else -rng.randrange(100, 400)) for due in dues]
        order = sorted(range(count), key=lambda n: at_ms[n])
        tasks = []
        for at in range(0, count, 20):
            chosen = order[at : at + 20]
            wait = (at_ms[chosen[0]] - now_ms()) / 1000
            if wait > 0:
                await asyncio.sleep(wait)
            tasks.append(asyncio.create_task(cancel(chosen)))
            while sum(not task.done() for task in tasks[-60:]) > 40:  # noqa: ASYNC110 - the node answers 64 at a time
                await asyncio.sleep(0.001)
        await asyncio.gather(*tasks)
        await eventually_async(lambda: system.delay.store.pending == 0, 60)
        stored = system.counts("orders")
        outcomes = {outcome: sum(o is outcome for o in told.values()) for outcome in set(told.values())}
        assert set(outcomes) == {Outcome.DONE, Outcome.TOO_LATE}, outcomes
        assert min(outcomes.values()) > count // 100, f"no real race: {outcomes}"
        for n in range(count):
            expected = 0 if told[f"m{n}"] is Outcome.DONE else 1
            assert stored[f"m{n}"] == expected, f"m{n}: {told[f'm{n}']}, stored {stored[f'm{n}']} times"


# --- F26 ------------------------------------------------------------------------------------------------------------


async def test_f26_a_forward_step_delivers_nothing_early_until_it_is_confirmed(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with small_system(tmp_path, clock=clock) as system, connected(system.delay) as client:
        await send_all(client, [now_ms() + 30 * 60_000, now_ms() + 700])
        clock.offset_ms = HOUR
        await all_stored(system, 1)
        assert [item.message_id for item in system.stored("orders")] == ["m1"], "on time by the clock it had, not early"
        await eventually_async(lambda: system.delay.data.trusted.held is not None)
        await send_all(client, [clock.wall_ms() + 500], first=2)  # a producer whose clock stepped, too
        url = "http://{}:{}".format(*system.delay.admin.address)
        status, body = await http_get(f"{url}/healthz", timeout_s=5)
        assert (status, json.loads(body)["status"]) == (200, "ok"), "a restart would not help"
        status, body = await http_get(f"{url}/readyz", timeout_s=5)
        assert (status, json.loads(body)["status"]) == (200, "ok"), "it serves by the clock it had"
        assert "ahead of the group's time" in json.loads(body)["clock"]
        assert await _post_text(f"{url}/clock/confirm", "x") == 415
        assert system.delay.data.trusted.held is not None
        await eventually_async(lambda: "clock" in system.delay.disk.list_dir(str(tmp_path / "d1")))
        status, body = await http_post_json(f"{url}/clock/confirm", b"{}", timeout_s=5)
        assert (status, json.loads(body)["confirmed"]) == (200, True)
        await all_stored(system, 3)
        assert system.delay.data.trusted.held is None
        assert system.delay.restrictions() == {}
        assert system.counts("orders") == {"m0": 1, "m1": 1, "m2": 1}
        assert "clock" not in system.delay.disk.list_dir(str(tmp_path / "d1"))


async def _post_text(url: str, text: str) -> int:
    """The status of a POST that is not JSON, which a page of another site could make a browser send."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"POST {parts.path} HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n\r\n"
    writer.write(f"{head}{text}".encode())
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1])


async def test_f26_a_step_forward_that_comes_back_is_as_if_it_never_was(tmp_path: Path) -> None:
    clock = ShiftedClock()
    async with small_system(tmp_path, clock=clock) as system, connected(system.delay) as client:
        await send_all(client, [now_ms() + 1_000 + i for i in range(50)])
        for offset in (HOUR, 0, 30_000, 0, HOUR, 0):
            clock.offset_ms = offset
            await asyncio.sleep(0.1)
        assert not system.stored("orders")
        await all_stored(system, 50)
        assert now_ms() >= max(item.time_ms for item in system.stored("orders"))
        assert set(system.counts("orders").values()) == {1}


async def test_f26_a_backward_step_lets_messages_wait_and_delivers_nothing_twice(tmp_path: Path) -> None:
    clock = ShiftedClock(HOUR)  # an hour ahead, and nobody knows
    async with small_system(tmp_path, clock=clock) as system, connected(system.delay) as client:
        await send_all(client, [clock.wall_ms()] * 20)
        await all_stored(system, 20)
        begin = clock.wall_ms()
        await send_all(client, [begin + 200 - HOUR, begin + 1_500], first=100)
        await all_stored(system, 21)  # the first was due by the clock as it was then
        clock.offset_ms = 0
        # Due by the corrected clock when m101 has been due by the wrong one for 100 ms.
        due = begin + 1_600 - HOUR
        await send_all(client, [due], first=200)
        await all_stored(system, 22)
        counts = system.counts("orders")
        with judging():
            assert now_ms() >= due, "early: delivered by the wrong clock"
            assert counts["m200"] == 1
            assert set(counts.values()) == {1}
            assert "m101" not in counts, "due by the wrong clock, not by the corrected one"
        (change,) = await client.change(Operation.DELIVER, DelayedTarget("m101"))
        assert change.outcome is Outcome.DONE
        await all_stored(system, 23)


async def test_damage_is_shown_and_makes_no_supervisor_restart_the_node(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system:
        assert system.delay.serving.describe()["unreadable_messages"] == 0
        system.delay.store.counters.lost += 2
        system.delay.store.bodies.unreadable += 1
        assert system.delay.serving.describe()["unreadable_messages"] == 3
        assert system.delay.health() == ""
