"""Pauses that double while failures go on."""

from qmq_node.replication.rules.growing_pause import GrowingPause


def test_a_pause_doubles_up_to_the_longest() -> None:
    pause, now, seconds = GrowingPause(10.0, 60.0), 100.0, []
    assert pause.remaining(now) == 0
    for _ in range(5):
        pause.failed(now)
        seconds.append(pause.remaining(now))
        now += seconds[-1]
        assert pause.remaining(now) == 0
    assert seconds == [10, 20, 40, 60, 60]
    assert pause.failures == 5


def test_it_begins_anew_when_nothing_failed_for_the_longest_pause() -> None:
    pause = GrowingPause(10.0, 60.0)
    pause.failed(0.0)
    pause.failed(10.0 + 60.0)
    assert pause.remaining(70.0) == 20
    pause.failed(90.0 + 60.1)
    assert (pause.remaining(150.1), pause.failures) == (10, 1)


def test_it_can_be_renewed_while_it_lasts() -> None:
    pause = GrowingPause(10.0, 60.0)
    pause.renew(0.0)
    assert pause.remaining(0.0) == 0, "nothing has failed"
    pause.failed(0.0)
    pause.renew(9.0)
    assert pause.remaining(9.0) == 10
    pause.renew(19.0)
    assert pause.remaining(19.0) == 0, "it has ended"
