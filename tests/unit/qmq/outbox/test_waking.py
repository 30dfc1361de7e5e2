"""Calls in another thread: order, a forked child, and a process that can start no thread."""

import os
import threading

import pytest

from qmq.outbox.waking import Waking
from tests.support.waiting import eventually


def test_calls_run_in_their_order_in_one_other_thread() -> None:
    waking = Waking()
    ran: list[tuple[int, int]] = []
    for number in range(100):
        waking.put(lambda number=number: ran.append((number, threading.get_ident())))  # type: ignore[misc]
    eventually(lambda: len(ran) == 100)
    assert [number for number, _ in ran] == list(range(100))
    [thread] = {thread for _, thread in ran}
    assert thread != threading.get_ident()


def test_a_call_runs_at_once_if_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    ran: list[int] = []
    Waking().put(lambda: ran.append(threading.get_ident()))
    assert ran == [threading.get_ident()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_starts_a_thread_of_its_own() -> None:
    waking = Waking()
    ran = threading.Event()
    waking.put(ran.set)
    assert ran.wait(60)
    child = os.fork()
    if child == 0:
        waking.forked()
        again = threading.Event()
        waking.put(again.set)
        os._exit(0 if again.wait(60) else 1)
    assert os.waitpid(child, 0)[1] == 0
