"""For how long something has waited without progress."""

from qmq_node.replication.master.progress import Progress


def test_nothing_waits_before_something_is_expected_and_after_it_was_reached() -> None:
    progress = Progress(100)
    assert progress.waited_seconds(5.0) == 0.0
    progress.expect(100, 5.0)
    assert progress.waited_seconds(9.0) == 0.0
    progress.expect(200, 10.0)
    assert progress.waited_seconds(12.0) == 2.0
    progress.reach(200, 12.0)
    assert progress.waited_seconds(20.0) == 0.0


def test_each_progress_begins_the_wait_anew_and_what_is_expected_further_does_not() -> None:
    progress = Progress()
    progress.expect(100, 0.0)
    progress.expect(300, 1.0)
    assert progress.waited_seconds(2.0) == 2.0
    progress.reach(100, 2.0)
    assert progress.waited_seconds(2.5) == 0.5


def test_what_was_reached_before_is_no_progress() -> None:
    progress = Progress()
    progress.expect(300, 0.0)
    progress.reach(200, 1.0)
    progress.reach(200, 2.0)
    progress.reach(0, 2.0)
    assert progress.waited_seconds(3.0) == 2.0


def test_time_in_which_the_process_stood_still_does_not_count() -> None:
    progress = Progress()
    progress.skip(50.0, 50.0)
    progress.expect(1, 60.0)
    progress.skip(9.0, 70.0)
    assert progress.waited_seconds(70.0) == 1.0
    # It began to wait after the pause.
    progress.skip(9.0, 70.0)
    assert progress.waited_seconds(71.0) == 1.0
