"""SharedPages: one page built at a time, and given to all who ask within its time."""

import asyncio

import pytest

from qmq_node.admin.shared_page import ANSWERS_MAX, LIFETIME_MAX_SECONDS, SHARED_SECONDS, SharedPages
from tests.support.manual_clock import ManualClock


class Builds:
    """Counts pages built, and those under way at a time."""

    def __init__(self) -> None:
        self.count = self.under_way = self.most_under_way = 0

    async def __call__(self) -> bytes:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        for _ in range(3):
            await asyncio.sleep(0)
        self.under_way -= 1
        self.count += 1
        return b"%d" % self.count


async def test_requests_at_the_same_time_get_one_page() -> None:
    build, pages = Builds(), SharedPages(ManualClock())
    assert await asyncio.gather(*(pages.get("a", build) for _ in range(ANSWERS_MAX))) == [b"1"] * ANSWERS_MAX


async def test_a_page_answers_so_many_requests_and_further_ones_wait_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qmq_node.admin.shared_page.SHARED_SECONDS", 0.001)
    build, pages = Builds(), SharedPages(ManualClock())
    answers = await asyncio.gather(*(pages.get("a", build) for _ in range(2 * ANSWERS_MAX + 1)))
    assert answers == [b"1"] * ANSWERS_MAX + [b"2"] * ANSWERS_MAX + [b"3"]


async def test_a_page_that_took_long_answers_longer() -> None:
    clock = ManualClock()
    pages = SharedPages(clock, lifetime_factor=20.0)
    costs = iter([0.1, 60.0, 0.0])

    async def build() -> bytes:
        clock.advance(cost := next(costs))
        return b"%f" % cost

    assert await pages.get("a", build) == b"0.100000"
    clock.advance(1.9)
    assert await pages.get("a", build) == b"0.100000"
    clock.advance(0.2)
    assert await pages.get("a", build) == b"60.000000"
    clock.advance(LIFETIME_MAX_SECONDS + 0.1)
    assert await pages.get("a", build) == b"0.000000"


async def test_a_page_is_built_again_when_its_time_is_over() -> None:
    clock, build = ManualClock(), Builds()
    pages = SharedPages(clock)
    assert await pages.get("a", build) == b"1"
    clock.advance(SHARED_SECONDS - 0.1)
    assert await pages.get("a", build) == b"1"
    clock.advance(0.2)
    assert await pages.get("a", build) == b"2"


async def test_pages_of_different_keys_are_built_one_after_the_other() -> None:
    build, pages = Builds(), SharedPages(ManualClock())
    assert sorted(await asyncio.gather(*(pages.get(key, build) for key in "abcd"))) == [b"1", b"2", b"3", b"4"]
    assert build.most_under_way == 1


async def test_the_number_of_pages_kept_is_limited() -> None:
    build, pages = Builds(), SharedPages(ManualClock(), pages_max=3)
    for key in (1, 2, 3, 4, 4, 2, 1):
        await pages.get(key, build)
    # 1 was dropped for 4, and is built again at the end.
    assert build.count == 5


async def test_a_failure_or_a_cancelled_request_leaves_the_page_to_the_next() -> None:
    pages = SharedPages(ManualClock())

    async def fail() -> bytes:
        raise RuntimeError("unforeseen")

    with pytest.raises(RuntimeError, match="unforeseen"):
        await pages.get("a", fail)
    never = asyncio.Event()

    async def wait() -> bytes:
        await never.wait()
        return b""

    waiting = asyncio.ensure_future(pages.get("a", wait))
    following = asyncio.ensure_future(pages.get("a", Builds()))
    await asyncio.sleep(0)
    waiting.cancel()
    assert await following == b"1"
