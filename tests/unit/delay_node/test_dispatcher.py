"""Which messages leave first when one subject has a large backlog; with a store, brokers and a clock that are plain objects."""

import asyncio
import logging
from array import array
from collections.abc import Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from delay_node import dispatcher as module
from delay_node import due_lanes
from delay_node.batches import BatchSender
from delay_node.dispatcher import Dispatcher
from delay_node.due_lanes import DueLanes
from delay_node.lanes import Lane
from delay_node.records import HOUR_MS, RecordKind, State, hour_of, number_of
from delay_node.schedule_log import Entry
from delay_node.store import Subjects
from delay_node.wheel import Wheel, key_of
from qmq.protocol.codes import BrokerGroupState, ResponseCode
from qmq.protocol.commands import BrokerGroupRoute
from qmq.supervisor import Supervisor
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

HOUR = 480_000
NOW_MS = HOUR * HOUR_MS + 1_800_000
BUSY, QUIET = 0, 1


class PlainStore:
    """Messages of one hour: number -> (due time, subject)."""

    def __init__(self, messages: Sequence[tuple[int, int]], size: int = 40) -> None:
        self.messages = list(messages)
        self.size = size
        self.subjects = Subjects([f"s{number}" for number in range(1 + max(subject for _, subject in messages))])
        self.bodies = self
        self.states = bytearray(len(messages))
        self.hours = {HOUR: SimpleNamespace(states=self.states)}
        self.wheel = Wheel()
        seconds: dict[int, array[int]] = {}
        for number, (due_ms, _) in enumerate(messages):
            seconds.setdefault(due_ms // 1000, array("Q")).append(key_of(due_ms, number))
        for second, keys in seconds.items():
            self.wheel.add_second(second, keys)

    def state(self, ref: int) -> State:
        return State(self.states[number_of(ref)])

    async def read(self, refs: Sequence[int], bytes_max: int = 8 << 20) -> list[Entry]:
        found = []
        for ref in refs:
            due_ms, subject = self.messages[number_of(ref)]
            bytes_max -= self.size
            found.append(Entry(ref, due_ms, subject, ref.to_bytes(self.size, "big") if bytes_max >= 0 else None,
                               is_unread=bytes_max < 0))  # fmt: skip
        return found

    def act(self, kind: RecordKind, refs: Sequence[int], at_ms: int) -> int:
        for ref in refs:
            self.states[number_of(ref)] = kind
        return 0

    def release(self, refs: Sequence[int]) -> None:
        for ref in refs:
            self.states[number_of(ref)] = State.PENDING


class PlainBrokers:
    """Broker groups that store everything at once; the order in which subjects' messages came."""

    def __init__(self, store: PlainStore, groups: int = 1) -> None:
        self.store = store
        self.frames: list[list[int]] = []
        """Numbers of the messages, frame by frame."""
        self.places: list[str] = []
        self.routes_known = tuple(
            BrokerGroupRoute(f"g{i}", f"h{i}:1", 0, BrokerGroupState.READ_WRITE) for i in range(groups)
        )
        self.last_error = ""

    def routes(self, subject: str, client_type: int) -> tuple[BrokerGroupRoute, ...]:
        return self.routes_known

    def register(self, subject: str, client_type: int) -> None: ...
    def refresh(self, subject: str, client_type: int) -> None: ...

    async def get(self, address: str) -> Any:
        async def call(code: int, body: bytes, *, timeout_s: float) -> Any:
            size = self.store.size
            refs = [int.from_bytes(body[at : at + size], "big") for at in range(0, len(body), size)]
            assert {hour_of(ref) for ref in refs} == {HOUR}
            self.frames.append([number_of(ref) for ref in refs])
            self.places.append(address)
            return SimpleNamespace(code=ResponseCode.SUCCESS, body=b"")

        return SimpleNamespace(call=call)

    def subjects(self) -> list[int]:
        """The subject of each message, in the order of arrival."""
        return [self.store.messages[number][1] for frame in self.frames for number in frame]


async def deliver_all(
    store: PlainStore, brokers: PlainBrokers, *, after_outage: bool = False, rng: Random | None = None
) -> None:
    """Run a Dispatcher until each message has left. `after_outage`: first all wait in their lanes without a broker group."""
    committer: Any = SimpleNamespace(synced=lambda offset: asyncio.sleep(0), kick=lambda: None)
    clock: Any = SimpleNamespace(now_ms=lambda: NOW_MS)
    ticks = ManualClock()
    supervisor = Supervisor(ticks, logger=logging.getLogger("qmq.delay"), on_failure=lambda name, error: None)
    lanes = DueLanes(store.subjects, brokers, rng or Random(1))  # type: ignore[arg-type]
    sender = BatchSender(
        store, committer, clock, brokers, supervisor, lanes,  # type: ignore[arg-type]
        observe=lambda seconds: None, send_seconds=5.0,
    )  # fmt: skip
    dispatcher = Dispatcher(store, clock, lanes, sender)  # type: ignore[arg-type]
    known, brokers.routes_known = brokers.routes_known, () if after_outage else brokers.routes_known
    running = asyncio.create_task(dispatcher.run())
    if after_outage:
        await eventually_async(lambda: running.done() or dispatcher.lanes.overdue == len(store.states))
        brokers.routes_known = known
        for subject in store.subjects.names:
            dispatcher.routes_changed(subject, 1)
    await eventually_async(lambda: running.done() or store.states.count(State.DELIVERED) == len(store.states))
    assert not running.done(), running.exception()
    await dispatcher.stop(1)
    await running
    assert supervisor.failing() == {}
    assert dispatcher.lanes.overdue == 0
    assert dispatcher.lanes.ready_bytes == 0, "what was counted in was counted out"
    assert not dispatcher.lanes.by_subject, "lanes without messages are removed"


BACKLOG = 40_000
OVERDUE_MS = NOW_MS - 600_000


@pytest.mark.slow
@pytest.mark.parametrize("due_ms", [OVERDUE_MS, NOW_MS - 10], ids=["overdue", "fresh"])
async def test_a_backlog_of_one_subject_delays_no_other(due_ms: int) -> None:
    busy = [(OVERDUE_MS + i // 100, BUSY) for i in range(BACKLOG)]
    store = PlainStore([*busy, *[(due_ms, QUIET)] * 10])
    brokers = PlainBrokers(store)
    await deliver_all(store, brokers)
    order = brokers.subjects()
    last = max(at for at, subject in enumerate(order) if subject == QUIET)
    assert last < 5 * module.FETCH_MESSAGES, f"the other subject's last message left after {last} of {len(order)}"


@pytest.mark.slow
async def test_a_backlog_after_an_outage_of_the_brokers_delays_no_other_subject() -> None:
    store = PlainStore([*[(OVERDUE_MS + i // 100, BUSY) for i in range(BACKLOG)], *[(NOW_MS - 5_000, QUIET)] * 10])
    brokers = PlainBrokers(store)
    await deliver_all(store, brokers, after_outage=True)
    order = brokers.subjects()
    last = max(at for at, subject in enumerate(order) if subject == QUIET)
    assert last < 2 * module.FETCH_MESSAGES, f"the other subject's last message left after {last} of {len(order)}"


async def test_a_backlog_of_large_messages_leaves_memory_to_other_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane's messages fill READY_BYTES_MAX, and the wheel has more of them than fit, again after each frame."""
    monkeypatch.setattr(module, "READY_BYTES_MAX", 4 << 20)
    busy = [(OVERDUE_MS + i, BUSY) for i in range(400)]
    store = PlainStore([*busy, *[(OVERDUE_MS + 60, QUIET)] * 10], size=200_000)
    brokers = PlainBrokers(store)
    await deliver_all(store, brokers)
    order = brokers.subjects()
    assert max(at for at, subject in enumerate(order) if subject == QUIET) < 200


@pytest.mark.slow
async def test_many_subjects_with_a_backlog_are_served_in_turn() -> None:
    lanes, each = 40, 500
    store = PlainStore([(OVERDUE_MS + i, i % lanes) for i in range(lanes * each)])
    brokers = PlainBrokers(store)
    await deliver_all(store, brokers)
    got = [0] * lanes
    for subject in brokers.subjects()[: lanes * each // 2]:
        got[subject] += 1
    assert min(got) >= each // 4
    assert max(got) <= each


async def test_one_subject_uses_all_its_broker_groups_and_fills_its_frames() -> None:
    store = PlainStore([(OVERDUE_MS, BUSY)] * 20_000)
    brokers = PlainBrokers(store, groups=2)
    await deliver_all(store, brokers)
    assert sorted(number for frame in brokers.frames for number in frame) == list(range(20_000))
    assert len(brokers.frames) <= 20_000 // 500 + 4
    assert abs(brokers.places.count("h0:1") - brokers.places.count("h1:1")) <= 4


async def test_a_subject_with_few_messages_takes_turns_at_its_broker_groups() -> None:
    store = PlainStore([(OVERDUE_MS, subject) for subject in range(40) for _ in range(30)])
    brokers = PlainBrokers(store, groups=2)
    await deliver_all(store, brokers)
    assert set(brokers.places) == {"h0:1", "h1:1"}


async def test_a_subject_with_a_message_now_and_then_uses_all_its_broker_groups() -> None:
    """Its lane is removed each time, and a new one begins."""
    rng, places = Random(7), []
    for _ in range(40):
        store = PlainStore([(OVERDUE_MS, QUIET)])
        brokers = PlainBrokers(store, groups=2)
        await deliver_all(store, brokers, rng=rng)
        places += brokers.places
    assert 10 <= places.count("h0:1") <= 30


@pytest.mark.slow
async def test_one_lane_never_holds_all_frames_of_a_broker_group() -> None:
    store = PlainStore([*[(OVERDUE_MS, BUSY)] * 20_000, *[(OVERDUE_MS + 500, QUIET)] * 10])
    brokers = PlainBrokers(store)
    held: asyncio.Queue[asyncio.Event] = asyncio.Queue()
    get = brokers.get

    async def stalled(address: str) -> Any:
        caller = await get(address)

        async def call(code: int, body: bytes, *, timeout_s: float) -> Any:
            frame = await caller.call(code, body, timeout_s=timeout_s)
            release = asyncio.Event()
            held.put_nowait(release)
            await release.wait()
            return frame

        return SimpleNamespace(call=call)

    brokers.get = stalled  # type: ignore[method-assign]
    delivering = asyncio.create_task(deliver_all(store, brokers))
    # No frame is answered before the other subject's messages are out.
    await eventually_async(lambda: delivering.done() or QUIET in brokers.subjects())
    assert QUIET in brokers.subjects()
    assert held.qsize() <= due_lanes.FRAMES_IN_FLIGHT
    while not delivering.done():
        while not held.empty():
            held.get_nowait().set()
        await asyncio.sleep(0)
    await delivering


@pytest.mark.slow
async def test_a_backlog_of_one_subject_delays_none_of_10_000_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the work of the passes follows the messages: lanes without any cost nothing."""
    quiet = 10_000
    enqueued = 0
    enqueue = DueLanes.enqueue

    def counted(self: DueLanes, lane: Lane, now: float) -> None:
        nonlocal enqueued
        enqueued += 1
        enqueue(self, lane, now)

    monkeypatch.setattr(DueLanes, "enqueue", counted)
    busy = [(OVERDUE_MS + i // 100, BUSY) for i in range(BACKLOG)]
    store = PlainStore([*busy, *[(NOW_MS - 10, 1 + i) for i in range(quiet)]])
    brokers = PlainBrokers(store)
    await deliver_all(store, brokers)
    order = brokers.subjects()
    last = max(at for at, subject in enumerate(order) if subject != BUSY)
    assert last < 2 * quiet + 5 * module.FETCH_MESSAGES, f"the last other message left after {last} of {len(order)}"
    assert enqueued < 4 * len(order)


async def test_lanes_that_wait_for_brokers_are_resumed_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_lanes, "RESUMED_MAX", 7)
    session: Any = PlainBrokers(PlainStore([(0, 0)]))
    lanes = DueLanes(Subjects([f"s{n}" for n in range(50)]), session, Random(1))
    for subject in range(50):
        lane = lanes.lane(subject)
        lanes.add(lane, Entry(subject, NOW_MS, subject, b"x"), is_late=False)
        lanes.park(lane, 1.0, "no broker group")
    assert lanes.overdue == 50
    assert len(lanes.problems(20)) == 20
    passes = 1
    while lanes.resume(2.0):
        assert sum(not lane.is_parked for lane in lanes.by_subject.values()) == 7 * passes
        passes += 1
    assert passes == 8
    assert lanes.problems(20) == []


async def test_problems_look_at_a_limited_number_of_parked_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(due_lanes, "PROBLEM_LANES_MAX", 3)
    session: Any = PlainBrokers(PlainStore([(0, 0)]))
    lanes = DueLanes(Subjects([f"s{n}" for n in range(5)]), session, Random(1))
    for subject in range(5):
        lanes.add(lanes.lane(subject), Entry(subject, NOW_MS, subject, b"x"), is_late=False)
        lanes.park(lanes.lane(subject), 1.0, "no broker group")
    assert [problem["subject"] for problem in lanes.problems(20)] == ["s0", "s1", "s2"]


async def test_overdue_messages_of_many_subjects_are_read_for_a_part_of_their_lanes_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REFILLED_LANES_MAX", 2)
    store = PlainStore([(OVERDUE_MS, subject) for subject in range(7)])
    refilled: list[int] = []
    read_late = Dispatcher._read_late

    async def watched(self: Dispatcher, chosen: list[tuple[Lane, list[tuple[int, int]]]]) -> list[Lane]:
        refilled.append(len(chosen))
        return await read_late(self, chosen)

    monkeypatch.setattr(Dispatcher, "_read_late", watched)
    await deliver_all(store, PlainBrokers(store), after_outage=True)
    assert (sum(refilled), max(refilled)) == (7, 2)


@pytest.mark.parametrize(("messages", "most"), [(1, 1), (1_000, 4)])
async def test_other_work_has_its_turn_while_frames_are_formed(
    messages: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SLICE_MESSAGES", messages)
    store = PlainStore([(NOW_MS - 10, 0)] * 2_000)
    brokers = PlainBrokers(store, groups=4)
    rounds, begun = 0, []

    async def other_work() -> None:
        nonlocal rounds
        while True:
            await asyncio.sleep(0)
            rounds += 1

    start = module.BatchSender.start
    monkeypatch.setattr(module.BatchSender, "start", lambda *args: begun.append(rounds) or start(*args))
    other = asyncio.create_task(other_work())
    await deliver_all(store, brokers)
    other.cancel()
    assert len(begun) >= 4
    assert max(map(begun.count, begun)) <= most
    assert most == 1 or max(map(begun.count, begun)) > 1
