"""Background jobs: one acts at a time, the dead are replaced, failures are noted, what is late is seen."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from kombu.exceptions import OperationalError

from console.celery import app
from console.jobs import jobs
from console.jobs.job import Context, Job
from console.jobs.results import Result
from console.models import BackgroundJob
from metaserver.errors import Conflict, NotFound
from metaserver.services.changes import Actor
from tests.support.console.metadata import last_audit
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)
ACTOR = Actor("tests")


@pytest.fixture
def ran() -> Iterator[list[str]]:
    """A job named `probe` whose runs are counted here."""
    done: list[str] = []

    def run(context: Context) -> Result:
        done.append(context.actor.name)
        context.state["runs"] = context.state.get("runs", 0) + 1
        return Result(f"run {context.state['runs']}", [{"code": "probe.run", "values": {"count": len(done)}}])

    jobs.JOBS["probe"] = Job("probe", 0.0, 30.0, "for tests", run)
    yield done
    del jobs.JOBS["probe"]


def row() -> BackgroundJob:
    return BackgroundJob.objects.get(name="probe")


@pytest.mark.database
def test_a_run_is_noted_and_remembers_what_it_kept(ran: list[str]) -> None:
    assert jobs.run("probe").ran
    assert jobs.run("probe").text == "run 2"
    stored = row()
    assert (stored.runs, stored.failures, stored.result, stored.held_until) == (2, 0, "run 2", None)
    assert stored.result_parts == [{"code": "probe.run", "values": {"count": 2}}]
    assert stored.succeeded_at is not None
    assert ran == ["job probe", "job probe"]


@pytest.mark.database
def test_one_acts_at_a_time_however_many_ask(ran: list[str]) -> None:
    inside, most, release = threading.Semaphore(0), [], threading.Event()
    guard = threading.Lock()

    def slow(context: Context) -> Result:
        assert guard.acquire(blocking=False), "two act at once"
        most.append(context.actor.name)
        inside.release()
        release.wait(20)
        guard.release()
        return Result("done")

    jobs.JOBS["probe"] = Job("probe", 0.0, 30.0, "for tests", slow)
    BackgroundJob.objects.create(name="probe")
    outcomes: list[bool] = []

    def worker(number: int) -> None:
        try:
            outcomes.append(jobs.run("probe", holder=f"worker {number}").ran)
        finally:
            connection.close()

    first = threading.Thread(target=worker, args=(0,))
    first.start()
    assert inside.acquire(timeout=20)
    others = [threading.Thread(target=worker, args=(number,)) for number in range(1, 8)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join(20)
    release.set()
    first.join(20)
    assert sorted(outcomes) == [False] * 7 + [True]
    assert len(most) == 1


@pytest.mark.database
def test_two_beats_do_not_double_the_pace(ran: list[str]) -> None:
    jobs.JOBS["probe"] = Job("probe", 60.0, 30.0, "for tests", jobs.JOBS["probe"].run)
    assert jobs.run("probe").ran
    assert not jobs.run("probe").ran
    # The second beat may be half an interval behind the first, and a bit.
    BackgroundJob.objects.update(started_at=timezone.now() - timedelta(seconds=35))
    assert not jobs.run("probe").ran
    BackgroundJob.objects.update(started_at=timezone.now() - timedelta(seconds=41))
    assert jobs.run("probe").ran


@pytest.mark.database
def test_a_holder_that_died_is_replaced_when_its_time_is_over(ran: list[str]) -> None:
    now = timezone.now()
    BackgroundJob.objects.create(name="probe", holder="dead", held_until=now + timedelta(seconds=20))
    assert not jobs.run("probe").ran
    BackgroundJob.objects.update(held_until=now - timedelta(seconds=1))
    assert jobs.run("probe").ran


@pytest.mark.database
def test_a_run_keeps_its_turn_as_long_as_it_says_so(ran: list[str]) -> None:
    others: list[bool] = []

    def long(context: Context) -> Result:
        taken_until = row().held_until
        assert taken_until is not None
        assert taken_until <= timezone.now() + timedelta(seconds=0.5), "a turn, not the whole limit"
        eventually(lambda: context.extend_hold() or timezone.now() > taken_until, what="its first turn is over")
        others.append(jobs.run("probe", holder="other").ran)
        kept_until = row().held_until
        eventually(lambda: kept_until is not None and timezone.now() > kept_until, what="its last turn is over")
        jobs.JOBS["probe"] = replace(jobs.JOBS["probe"], run=lambda context: Result("replaced"))
        others.append(jobs.run("probe", holder="other").ran)
        context.extend_hold()
        return Result("too late")

    jobs.JOBS["probe"] = Job("probe", 0.0, 30.0, "for tests", long, hold_seconds=0.5)
    assert jobs.run("probe").ran
    assert others == [False, True]
    assert (row().result, row().held_until) == ("replaced", None), "a turn that is lost is not taken back"


@pytest.mark.database
def test_a_turn_taken_by_a_clock_that_ran_ahead_blocks_nobody(ran: list[str]) -> None:
    ahead = timezone.now() + timedelta(hours=1)
    BackgroundJob.objects.create(name="probe", holder="ahead", held_until=ahead, started_at=ahead)
    assert jobs.run("probe").ran


def test_a_failure_is_noted_and_keeps_the_state_of_the_run_before(ran: list[str]) -> None:
    assert jobs.run("probe").ran
    good = jobs.JOBS["probe"].run

    def fails(context: Context) -> Result:
        context.state["runs"] = 99
        raise ValueError("no luck")

    jobs.JOBS["probe"] = Job("probe", 0.0, 30.0, "for tests", fails)
    assert jobs.run("probe").text == "ValueError: no luck"
    stored = row()
    assert (stored.failures, stored.error, stored.state) == (1, "ValueError: no luck", {"runs": 1})
    assert stored.held_until is None
    jobs.JOBS["probe"] = Job("probe", 0.0, 30.0, "for tests", good)
    assert jobs.run("probe").text == "run 2"
    assert row().error == ""


@pytest.mark.database
def test_a_run_that_lost_its_turn_does_not_write_over_its_follower(ran: list[str]) -> None:
    def overtaken(context: Context) -> Result:
        BackgroundJob.objects.update(holder="follower", started_at=timezone.now() + timedelta(seconds=1))
        return Result("too late")

    jobs.JOBS["probe"] = Job("probe", 0.0, 30.0, "for tests", overtaken)
    assert jobs.run("probe").ran
    assert (row().holder, row().result) == ("follower", "")


@pytest.mark.database
def test_switched_off_it_rests_and_each_switch_is_audited(ran: list[str]) -> None:
    assert jobs.set_enabled("probe", False, actor=ACTOR, dry_run=True).is_change
    assert jobs.run("probe").ran, "a dry run switches nothing"
    assert jobs.set_enabled("probe", False, actor=ACTOR, reason="holidays").is_change
    assert not jobs.set_enabled("probe", False, actor=ACTOR).is_change
    assert not jobs.run("probe").ran
    assert jobs.set_enabled("probe", True, actor=ACTOR).is_change
    assert jobs.run("probe").ran
    with pytest.raises(NotFound):
        jobs.set_enabled("nothing", True, actor=ACTOR)


def test_run_now_makes_it_due_and_asks_a_worker(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(app, "send_task", lambda *arguments, **_: asked.append(arguments))
    jobs.JOBS["probe"] = replace(jobs.JOBS["probe"], every_seconds=3600.0)
    assert jobs.run("probe").ran
    assert not jobs.run("probe").ran, "its time has not come"
    assert jobs.run_now("probe", actor=ACTOR, dry_run=True).is_change
    assert (asked, jobs.run("probe").ran) == ([], False)
    jobs.run_now("probe", actor=ACTOR, reason="look")
    assert asked == [("console.run_job", ["probe"])]
    assert (last_audit().action, last_audit().reason) == ("job.run", "look")
    assert jobs.run("probe").ran


def test_run_now_without_redis_leaves_it_due(ran: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("Redis is away")

    monkeypatch.setattr(app, "send_task", fail)
    jobs.JOBS["probe"] = replace(jobs.JOBS["probe"], every_seconds=3600.0)
    assert jobs.run("probe").ran
    assert jobs.run_now("probe", actor=ACTOR).is_change
    assert jobs.run("probe").ran


def test_run_now_is_refused_for_what_runs_is_disabled_or_unknown(ran: list[str]) -> None:
    BackgroundJob.objects.create(name="probe", held_until=timezone.now() + timedelta(seconds=9))
    with pytest.raises(Conflict, match="already running"):
        jobs.run_now("probe", actor=ACTOR)
    BackgroundJob.objects.update(held_until=None, is_enabled=False)
    with pytest.raises(Conflict, match="is disabled"):
        jobs.run_now("probe", actor=ACTOR)
    with pytest.raises(NotFound, match="not found"):
        jobs.run_now("none", actor=ACTOR)


@pytest.mark.database
def test_a_loop_is_late_when_it_has_not_succeeded_for_three_intervals(
    ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    monkeypatch.setattr(jobs, "_STARTED_AT", now)

    def is_late() -> bool:
        return next(state for state in jobs.states(now) if state.job.name == "probe").is_late

    jobs.JOBS["probe"] = Job("probe", 10.0, 30.0, "for tests", jobs.JOBS["probe"].run)
    assert not is_late(), "it never ran, and had no time to"
    now += timedelta(hours=1)
    assert is_late(), "it never ran"
    BackgroundJob.objects.create(name="probe", succeeded_at=now - timedelta(seconds=29))
    assert not is_late()
    BackgroundJob.objects.update(succeeded_at=now - timedelta(seconds=31))
    assert is_late()
    BackgroundJob.objects.update(is_enabled=False)
    assert not is_late(), "it rests because somebody said so"
    jobs.JOBS["probe"] = replace(jobs.JOBS["probe"], lasts_seconds=60.0)
    BackgroundJob.objects.update(is_enabled=True, succeeded_at=now - timedelta(seconds=179))
    assert not is_late(), "its runs last a minute"
    assert jobs.job_intervals()["probe"] == 60.0
    BackgroundJob.objects.update(succeeded_at=now - timedelta(seconds=181))
    assert is_late()


def test_every_loop_is_scheduled_and_a_word_nobody_took_is_thrown_away(ran: list[str]) -> None:
    schedule = jobs.schedule()
    assert {"heartbeats", "rebalance", "moves", "cleanups"} <= set(schedule)
    for name, entry in schedule.items():
        assert entry["args"] == [name]
        assert entry["options"]["expires"] >= 2
        assert entry["options"]["soft_time_limit"] <= entry["options"]["time_limit"]


def test_the_loops_that_take_long_have_queues_of_their_own() -> None:
    queues = {name: entry["options"]["queue"] for name, entry in jobs.schedule().items()}
    assert {name: queue for name, queue in queues.items() if queue != "qmq"} == {
        "analytics": "analytics",
        "outbox": "outbox",
    }


def test_a_worker_that_is_told_of_no_queue_serves_all() -> None:
    assert {job.queue for job in jobs.JOBS.values()} <= set(app.amqp.queues.consume_from)
