"""A delay node between real sockets: accepted, found, changed, delivered; in this process."""

import asyncio
from pathlib import Path

from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.delayed import ChangeDelayedRequest, DelayedTarget, ListDelayedRequest, Operation, Outcome
from qmq.protocol.extensions import Refusal
from qmq.protocol.messages import KEY_SCHEDULE
from tests.support.drivers.in_process import (
    ShiftedClock,
    SmallSystem,
    connected,
    delayed,
    message,
    now_ms,
    small_system,
)
from tests.support.waiting import eventually_async

HOUR = 3_600_000
DAY = 24 * HOUR
LATENESS_MS = 30
"""Later than this no message arrives: messages due within 4 ms share a batch, which is synced by both nodes on simulated disks."""


async def arrived(system: SmallSystem, count: int, subject: str = "orders", within_s: float = 10.0) -> list[str]:
    """Message ids on the brokers, once there are so many."""

    def look() -> list[str]:
        ids = [item.message_id for item in system.stored(subject)]
        return ids if len(ids) >= count else []

    return await eventually_async(look, within_s, f"{count} messages of {subject}")


async def test_messages_are_delivered_when_due_as_they_came_and_never_early(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        due = now_ms() + 400
        sent = [delayed(i, due + 40 * i) for i in range(10)]
        assert await client.send(*sent) == {}
        seen: dict[str, int] = {}
        while len(seen) < 10:
            for item in system.stored("orders"):
                seen.setdefault(item.message_id, now_ms())
            await asyncio.sleep(0.001)
        for item in sent:
            assert item.time_ms <= seen[item.message_id] < item.time_ms + LATENESS_MS
        assert system.stored("orders") == sent, "byte for byte, in the order of due times"
        await eventually_async(lambda: system.delay.store.pending == 0)


async def test_what_is_overdue_or_undated_goes_at_once(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        past = delayed(1, now_ms() - HOUR)
        # T9: routed here as delayed, but no longer flagged as such; what counts is the property.
        soon = delayed(2, now_ms() + 300)
        unflagged = type(soon)(soon.subject, "unflagged", soon.properties, (), 0, soon.created_at_ms, now_ms())
        plain = message(3)
        assert await client.send(past, unflagged, plain) == {}
        assert sorted(await arrived(system, 2)) == ["m1", "m3"]
        assert now_ms() < past.time_ms + HOUR + LATENESS_MS
        assert sorted(await arrived(system, 3)) == ["m1", "m3", "unflagged"]
        assert soon.time_ms <= now_ms() < soon.time_ms + LATENESS_MS


async def test_too_far_is_refused_and_the_others_of_the_batch_are_taken(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        far, never = delayed(2, now_ms() + 731 * DAY), delayed(4, (1 << 63) - 1)
        failures = await client.send(delayed(1, now_ms() + 729 * DAY), far, delayed(3, now_ms() + DAY), never)
        assert {key: f.result for key, f in failures.items()} == {"m2": SendResult.BLOCK, "m4": SendResult.BLOCK}
        assert failures["m2"].remark.startswith("delay.too_far")
        assert system.delay.store.pending == 2


async def test_find_cancel_reschedule_deliver_each_twice(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        due = now_ms() + DAY
        await client.send(*[delayed(i, due + i) for i in range(6)], delayed(7, now_ms() + 400 * DAY))
        page = await client.find("m1")
        assert [(i.message.message_id, i.due_ms, i.state) for i in page.items] == [("m1", due + 1, "pending")]
        assert (await client.find("nobody")).items == ()
        assert (await client.find("m1", subject="other")).items == ()

        target = DelayedTarget("m1", "orders", due + 1)
        for expected in (Outcome.DONE, Outcome.UNCHANGED):
            (change,) = await client.change(Operation.CANCEL, target)
            assert (change.outcome, change.state) == (expected, "cancelled")
        (change,) = await client.change(Operation.RESCHEDULE, target, due_ms=due)
        assert (change.outcome, change.state) == (Outcome.TOO_LATE, "cancelled")

        later = now_ms() + 2 * DAY
        hint = DelayedTarget("m2", due_ms=due + 2)  # as the producer knew it; the message is found where it moved to
        for expected in (Outcome.DONE, Outcome.UNCHANGED):
            (change,) = await client.change(Operation.RESCHEDULE, hint, due_ms=later)
            assert (change.outcome, change.state, change.due_ms) == (expected, "pending", later)
        moved = [i for i in (await client.find("m2", due_ms=due + 2)).items if i.state == "pending"]
        assert moved[0].message.time_ms == later
        assert moved[0].message.properties[KEY_SCHEDULE] == str(later)

        (change,) = await client.change(Operation.DELIVER, DelayedTarget("m3"))
        assert change.outcome is Outcome.DONE
        assert await arrived(system, 1) == ["m3"]
        (change,) = await client.change(Operation.DELIVER, DelayedTarget("m3"))
        assert change.outcome is Outcome.UNCHANGED
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("m3", due_ms=due + 3))
        assert change.outcome is Outcome.TOO_LATE
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("nobody"))
        assert change.outcome is Outcome.NOT_FOUND
        # A far hour, that nobody has loaded.
        (change,) = await client.change(Operation.CANCEL, DelayedTarget("m7"))
        assert change.outcome is Outcome.DONE
        assert system.delay.store.pending == 4


async def test_a_reschedule_can_t_be_too_far_or_nonsense(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        await client.send(delayed(1, now_ms() + DAY))
        for due_ms, code in ((now_ms() + 731 * DAY, "delay.too_far"), (-5, "delay.bad_query")):
            request = ChangeDelayedRequest(Operation.RESCHEDULE, due_ms, (DelayedTarget("m1"),))
            frame = await client.raw(Command.CHANGE_DELAYED, request.encode())
            assert frame.code == ResponseCode.PARAM_ERROR
            assert Refusal.decode(frame.body).code == code
        assert system.delay.store.pending == 1


async def test_lists_page_in_due_order_and_match_properties(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        due = (now_ms() + DAY) // HOUR * HOUR
        await client.send(*[delayed(i, due + (i * 37 % 50) * 10 * 60_000, colour=f"c{i % 3}") for i in range(50)])
        await client.send(*[delayed(100 + i, due, "other") for i in range(5)])
        query = ListDelayedRequest("orders", due, due + DAY, limit=7)
        ids: list[str] = []
        dues: list[int] = []
        while True:
            page = await client.listed(query)
            ids += [item.message.message_id for item in page.items]
            dues += [item.due_ms for item in page.items]
            if not page.cursor:
                break
            query = ListDelayedRequest("orders", due, due + DAY, limit=7, cursor=page.cursor)
        assert sorted(ids, key=lambda text: int(text[1:])) == [f"m{i}" for i in range(50)]
        assert dues == sorted(dues)
        red = await client.listed(ListDelayedRequest("orders", due, due + DAY, match={"colour": "c1"}, limit=100))
        assert len(red.items) == 17
        in_between = await client.listed(ListDelayedRequest("orders", due + HOUR, due + 2 * HOUR, limit=100))
        assert len(in_between.items) == 6
        assert all(due + HOUR <= item.due_ms < due + 2 * HOUR for item in in_between.items)

        assert sum((await client.calendar("orders", due, due + DAY)).values()) == 50
        assert (await client.calendar("other", due, due + DAY)) == {due: 5}
        assert sum((await client.calendar("", 0, due + DAY)).values()) == 55

        everything = ListDelayedRequest("orders", 0, due + DAY, match={"colour": "c1"}, limit=10)
        counted = await client.cancel_matching(everything, dry_run=True)
        assert (counted.matched, counted.cancelled) == (10, 0)
        cancelled, cursor = 0, ""
        while True:
            step = await client.cancel_matching(
                ListDelayedRequest("orders", 0, due + DAY, match={"colour": "c1"}, limit=10, cursor=cursor), False
            )
            cancelled, cursor = cancelled + step.cancelled, step.cursor
            if not cursor:
                break
        assert cancelled == 17
        assert sum((await client.calendar("orders", due, due + DAY)).values()) == 33
        left = await client.listed(ListDelayedRequest("orders", 0, due + DAY, states=("cancelled",), limit=100))
        assert len(left.items) == 17


async def test_everything_is_still_known_after_a_restart(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system:
        due = now_ms() + DAY
        async with connected(system.delay) as client:
            await client.send(*[delayed(i, due) for i in range(4)], delayed(9, now_ms() + 10 * 60_000))
            await client.change(Operation.CANCEL, DelayedTarget("m1"))
            await client.change(Operation.RESCHEDULE, DelayedTarget("m2"), due_ms=due + DAY)
            await client.change(Operation.DELIVER, DelayedTarget("m3"))
            await arrived(system, 1)
        await system.delay.close()
        files = system.delay.disk.list_dir(str(tmp_path / "d1/schedule"))
        assert {name.rpartition(".")[2] for name in files} == {"data", "index"}
        await system.start_delay()
        async with connected(system.delay) as client:
            await eventually_async(lambda: system.delay.store.pending == 3)
            states = {i: [item.state for item in (await client.find(f"m{i}")).items] for i in (0, 1, 2, 3, 9)}
            assert states[0] == ["pending"]
            assert states[1] == ["cancelled"]
            assert sorted(states[2]) == ["moved", "pending"]
            assert sorted(states[3]) == ["delivered", "moved"]
            assert states[9] == ["pending"]
            (change,) = await client.change(Operation.DELIVER, DelayedTarget("m9"))
            assert change.outcome is Outcome.DONE
            await arrived(system, 2)


async def test_bad_requests_get_clear_answers_and_hurt_nobody(tmp_path: Path) -> None:
    async with small_system(tmp_path) as system, connected(system.delay) as client:
        assert (await client.raw(Command.PULL_MESSAGE, b"")).code == ResponseCode.UNKNOWN_CODE
        assert (await client.raw(Command.SEND_MESSAGE, b"rubbish")).code == ResponseCode.BROKER_ERROR
        assert (await client.raw(Command.LIST_DELAYED, b"\0\x09")).code == ResponseCode.BROKER_ERROR
        for query, word in (
            (ListDelayedRequest("orders", 5, 1), "after"),
            (ListDelayedRequest("orders", 0, 1 << 60), "to is"),
            (ListDelayedRequest("orders", 0, 1, states=("asleep",)), "asleep"),
            (ListDelayedRequest("orders", 0, 1, cursor="x"), "cursor"),
        ):
            frame = await client.raw(Command.LIST_DELAYED, query.encode())
            assert frame.code == ResponseCode.PARAM_ERROR
            assert word in Refusal.decode(frame.body).message
        assert await client.send(delayed(1, now_ms())) == {}
        await arrived(system, 1)


async def test_a_node_without_brokers_keeps_everything(tmp_path: Path) -> None:
    async with small_system(tmp_path, groups=0) as system, connected(system.delay) as client:
        await client.send(*[delayed(i, now_ms()) for i in range(20)])
        await eventually_async(lambda: system.delay.serving.dispatcher.lanes.overdue == 20)
        assert system.delay.serving.dispatcher.lanes.problems(20)[0]["waiting"] == 20
        await system.start_broker("g1")
        await arrived(system, 20)
        assert set((system.counts("orders")).values()) == {1}


async def test_an_hour_is_loaded_before_it_begins_and_delivered_across_its_border(tmp_path: Path) -> None:
    clock = ShiftedClock()
    clock.offset_ms = HOUR - now_ms() % HOUR - 4_000  # four seconds to the full hour
    border = (clock.wall_ms() // HOUR + 1) * HOUR
    async with small_system(tmp_path, clock=clock, load_ahead_minutes=0.02) as system:
        dues = [border - 300 + 40 * i for i in range(20)]
        async with connected(system.delay) as client:
            assert await client.send(*[delayed(i, due) for i, due in enumerate(dues)]) == {}
            assert system.delay.store.wheel.count == sum(due < border for due in dues), "the next hour is far"
            await client.change(Operation.CANCEL, DelayedTarget("m19", due_ms=dues[19]))
            seen: dict[str, int] = {}

            def look() -> bool:
                for item in system.stored("orders"):
                    seen.setdefault(item.message_id, clock.wall_ms())
                return len(seen) == 19

            await eventually_async(look, every_s=0.001)
            late = [seen[f"m{i}"] - due for i, due in enumerate(dues[:19])]
            assert min(late) >= 0
            assert max(late) < LATENESS_MS, "loaded in time"
            await eventually_async(lambda: system.delay.store.pending == 0)
            assert [item.message_id for item in system.stored("orders")] == [f"m{i}" for i in range(19)]
