"""DaemonThreads: a limited pool whose threads end with the process."""

import threading

import pytest

from qmq.client.threads import DaemonThreads


def test_as_many_threads_as_the_limit_run_at_the_same_time_and_idle_ones_are_used_again() -> None:
    pool, barrier = DaemonThreads(3, "pool"), threading.Barrier(4)
    names: set[str] = set()

    def work() -> None:
        names.add(threading.current_thread().name)
        assert threading.current_thread().daemon
        barrier.wait()

    futures = [pool.submit(work) for _ in range(6)]
    for _ in range(2):
        barrier.wait()
    for future in futures:
        future.result()
    assert names == {"pool_0", "pool_1", "pool_2"}
    assert [pool.submit(pow, 2, exponent).result() for exponent in range(20)] == [2**n for n in range(20)]
    assert len(pool._started) == 3
    pool.shutdown()
    assert not any(thread.is_alive() for thread in pool._started)
    with pytest.raises(RuntimeError, match="shut down"):
        pool.submit(int)


def test_errors_reach_the_caller_and_the_thread_works_on() -> None:
    pool = DaemonThreads(1, "pool")
    with pytest.raises(ValueError, match="invalid literal"):
        pool.submit(int, "x").result()
    assert isinstance(pool.submit(exit).exception(), SystemExit)
    assert pool.submit(int, "3").result() == 3
    pool.shutdown()


def test_work_that_no_thread_has_begun_is_cancelled_at_the_end() -> None:
    pool, release = DaemonThreads(1, "pool"), threading.Event()
    first, second = pool.submit(release.wait), pool.submit(int)
    while not first.running():
        release.wait(0.001)
    pool.shutdown(wait=False, cancel_futures=True)
    assert second.cancelled()
    release.set()
    assert first.result()


def test_without_a_new_thread_the_others_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that ends can start no thread; the one that the pool has looks names up then."""
    pool, release = DaemonThreads(2, "pool"), threading.Event()
    first = pool.submit(release.wait)

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        second = pool.submit(int, "3")
        with pytest.raises(RuntimeError, match="interpreter shutdown"):
            DaemonThreads(1, "empty").submit(int)
    release.set()
    assert first.result()
    assert second.result() == 3
    pool.shutdown()
