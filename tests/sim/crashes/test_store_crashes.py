"""F4, F7, F8, F9, F10, F11, F12, F14, F15 of the fault table, on the broker's store over a disk in memory.

F8 and F10 are whole; the others are short by default, and `make faults` (QMQ_FAULTS=full) runs them whole. A failing
case prints its seed.
"""

import contextlib
import errno
import os
import random
from collections.abc import Callable
from functools import partial

import pytest

from broker_node.recovery.checkpoint import CHECKPOINT_NAME
from qmq.errors import LogError
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.store_driver import ROOT, StoreDriver
from tests.support.promises import Check, judging

FULL = os.environ.get("QMQ_FAULTS") == "full"
STEPS = 200


def run_until_crash(seed: int, crash_at: int | None, steps: int = STEPS) -> StoreDriver:
    """The scenario of a seed, ended at a disk operation."""
    driver = StoreDriver(MemoryDisk(), seed)
    driver.disk.crash_at = crash_at
    with contextlib.suppress(SimulatedCrash):
        driver.run(steps)
    return driver


def log_files(disk: MemoryDisk) -> list[str]:
    return sorted(path for path in disk.names if path.startswith(f"{ROOT}/log/"))


def finished(seed: int, steps: int = STEPS) -> StoreDriver:
    """A scenario that ended well, everything committed."""
    driver = run_until_crash(seed, None, steps)
    driver.commit()
    return driver


@pytest.mark.parametrize("seed", range(5 if FULL else 2))
def test_f4_a_kill_at_any_disk_operation_breaks_no_promise(seed: int) -> None:
    total = run_until_crash(seed, None).disk.steps
    stride = 1 if FULL else max(1, total // 60)
    assert total > 40
    for crash_at in range(1, total, stride):
        driver = run_until_crash(seed, crash_at)
        driver.check(driver.disk.after_kill())


@pytest.mark.parametrize("seed", range(4 if FULL else 2))
def test_f7_a_power_cut_at_any_disk_operation_keeps_everything_synced(seed: int) -> None:
    total = run_until_crash(seed, None).disk.steps
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, total), min(total - 1, 200 if FULL else 25)))
    for crash_at in cuts:
        driver = run_until_crash(seed, crash_at)
        driver.check(driver.disk.after_power_cut())


@pytest.mark.parametrize("seed", range(4 if FULL else 2))
def test_f7_after_a_kill_the_next_checkpoint_counts_on_nothing_that_a_power_cut_takes(seed: int) -> None:
    total = run_until_crash(seed, None).disk.steps
    for crash_at in range(1, total, 1 if FULL else max(1, total // 60)):
        driver = run_until_crash(seed, crash_at)
        driver.restart()
        driver.send("orders", 1)
        driver.commit()
        driver.checkpoint()
        driver.check(driver.disk.after_power_cut())


@pytest.mark.parametrize("part", range(10))
def test_f8_every_legal_state_after_a_power_cut_recovers(part: int) -> None:
    """1,000 states in each part."""
    states, seed = 0, 1_000 * part
    while states < 1_000:
        total = run_until_crash(seed, None, 60).disk.steps
        rng = random.Random(seed)
        for crash_at in sorted(rng.sample(range(1, total), min(total - 1, 20))):
            driver = run_until_crash(seed, crash_at, 60)
            for state in driver.disk.crash_states(10, seed):
                driver.check(state)
                states += 1
        seed += 1


def test_f9_a_log_cut_at_any_byte_of_its_last_commits_keeps_whole_commits_only() -> None:
    driver = StoreDriver(MemoryDisk(), 7, segment_bytes=128 * 1024)
    driver.run(60)
    ends = [driver.store.log.written_end]
    for _ in range(3):
        driver.send("orders", 2)
        driver.commit()
        ends.append(driver.store.log.written_end)
    (path,) = log_files(driver.disk)[-1:]
    content = bytes(driver.disk.names[path].content)
    fillings = {
        "zeros": lambda size: bytes(size),
        "random": lambda size: random.Random(size).randbytes(size),
        "an older commit": lambda size: (content[:4096] * (size // 4096 + 1))[:size],
    }
    before = driver.oracle.sent["orders"]
    everything = dict(before)
    for number, (name, fill) in enumerate(fillings.items()):
        # Else each filling at other bytes: together every seventh.
        places = range(ends[0], ends[-1]) if FULL else range(ends[0] + 7 * number, ends[-1], 7 * len(fillings))
        for at in places:
            disk = driver.disk.after_kill()
            for path_gone in [p for p in disk.names if f"/checkpoint/{CHECKPOINT_NAME}" in p]:
                del disk.names[path_gone]
            disk.names[path].content[at:] = fill(len(content) - at)
            # Nothing behind the cut says that it was synced: it looks like a torn tail, and whole commits are kept.
            store, _, _ = driver._open(disk)
            whole = max(end for end in ends if end <= at)
            assert store.log.written_end >= whole, (name, at)
            assert not store.log.stored.damaged, (name, at, store.log.stored.damaged)
            end = store.subjects["orders"].visible_end
            found = driver._read_all(store, "orders", 0, end, False)
            assert found == {s: m for s, m in everything.items() if s < end}, (name, at)


@pytest.mark.parametrize("part", range(10))
def test_f10_flipped_bits_are_never_served_and_never_shorten_the_log(part: int) -> None:
    """100 flips in each part."""
    rng = random.Random(10 + part)
    driver = finished(3)
    driver.send("orders", 3)
    driver.commit()
    log = driver.store.log
    synced = log.synced_end
    for number in range(100):
        disk = driver.disk.after_kill()
        if number % 2:
            for path in [p for p in disk.names if f"/checkpoint/{CHECKPOINT_NAME}" in p]:
                del disk.names[path]
        files = log_files(disk)
        path = rng.choice(files)
        base = int(path.rsplit("/", 1)[1])
        # The newest commit's own flip can't be told from a torn one, unless something behind it proves it synced.
        places = [c for c, byte in enumerate(disk.names[path].content[: max(0, synced - 2500 - base)]) if byte]
        if not places:
            continue
        place = rng.choice(places)
        disk.names[path].content[place] ^= 1 << rng.randrange(8)
        store = driver.check(disk, withheld_allowed=True)
        with judging(Check.WHOLE):
            assert store.log.written_end >= synced, f"the log was cut (flip {number} at {path} {place})"
        lost = 0
        for name, promised in driver.oracle.sent.items():
            found = driver._read_all(store, name, store.subjects[name].begin, store.subjects[name].visible_end, True)
            lost += len(set(promised.values()) - set(found.values()))
        assert lost <= 60, f"{lost} messages withheld for one flip at {path} {place}"


@pytest.mark.parametrize("what", ["checkpoint", "consume", "progress"])
@pytest.mark.parametrize("how", ["flip", "cut", "delete"])
def test_f11_damaged_derived_files_are_made_again_and_answer_the_same(what: str, how: str) -> None:
    rng = random.Random(11)
    for seed in range(20 if FULL else 4):
        driver = finished(seed)
        driver.checkpoint()
        driver.send("orders", 2)
        driver.commit()
        disk = driver.disk.after_kill()
        paths = sorted(p for p in disk.names if p.startswith(f"{ROOT}/{what}/") and disk.names[p].content)
        assert paths
        path = rng.choice(paths)
        content = disk.names[path].content
        if how == "flip":
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        elif how == "cut":
            del content[rng.randrange(len(content)) :]
        else:
            del disk.names[path]
        driver.check(disk, rebuilt_allowed=True)


def test_f12_an_old_copy_of_a_segment_or_a_missing_one_is_noticed() -> None:
    driver = StoreDriver(MemoryDisk(), 5)
    driver.run(100)
    driver.commit()
    yesterday = driver.disk.after_kill()
    old_path = log_files(yesterday)[-1]
    driver.run(300)
    driver.commit()
    driver.send("mail", 1)
    driver.commit()
    assert len(log_files(driver.disk)) >= 3
    swapped = driver.disk.after_kill()
    swapped.names[old_path].content[:] = yesterday.names[old_path].content
    assert driver.check(swapped, withheld_allowed=True).log.stored.damaged, "an old copy of a segment went unnoticed"
    missing = driver.disk.after_kill()
    del missing.names[log_files(missing)[1]]
    assert driver.check(missing, withheld_allowed=True).log.stored.damaged, "a missing segment went unnoticed"
    blocks = driver.disk.after_kill()
    content = blocks.names[log_files(blocks)[0]].content
    content[4096:8192], content[8192:12288] = content[8192:12288], content[4096:8192]
    for path in [p for p in blocks.names if "/checkpoint/" in p]:
        del blocks.names[path]
    assert driver.check(blocks, withheld_allowed=True).log.stored.damaged, "swapped blocks went unnoticed"


def is_failed(call: Callable[[], object]) -> bool:
    """Whether a log that failed refuses a call."""
    try:
        call()
    except LogError:
        return True
    return False


def _once(error: OSError) -> Callable[[str, str], OSError | None]:
    """Fail the log's next sync and no other."""
    failures = iter([error])
    return lambda what, path: next(failures, None) if what == "sync" and "/log/" in path else None


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EROFS])
def test_f14_a_failed_write_ends_the_log_and_the_next_start_keeps_whole_commits(error: int) -> None:
    for seed in range(20 if FULL else 5):
        driver = StoreDriver(MemoryDisk(), seed)
        driver.run(50)
        driver.commit()
        driver.send("orders", 3)
        driver.disk.fail = lambda what, path: (
            OSError(error, "injected") if what == "write" and "/log/" in path else None
        )
        with pytest.raises(OSError, match="injected"):
            driver.commit()
        driver.disk.fail = None
        with pytest.raises(LogError):
            driver.send("orders", 1)
        driver.check(driver.disk.after_kill())


def test_f15_after_one_failed_sync_nothing_is_acknowledged_any_more() -> None:
    for seed in range(20 if FULL else 5):
        driver = StoreDriver(MemoryDisk(), seed)
        driver.run(50)
        driver.commit()
        driver.disk.fail = _once(OSError(errno.EIO, "injected"))
        driver.send("orders", 3)
        with pytest.raises(OSError, match="injected"):
            driver.commit()
        # The next sync would succeed: it must not be asked.
        with judging(Check.FAIL_STOP):
            assert is_failed(driver.store.log.gather.take)
            assert is_failed(partial(driver.send, "orders", 1))
        driver.check(driver.disk.after_kill())
        driver.check(driver.disk.after_power_cut())
