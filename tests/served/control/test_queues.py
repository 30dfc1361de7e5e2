"""Words to run a job, on queues of Redis: who serves them, and what becomes of old ones."""

from collections.abc import Callable

import redis
from celery import Celery

from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

OLD = 5
WORD_BYTES_MAX = 1_500
"""docs/analytics.md says 1 KB of a word that nobody takes."""


def test_a_worker_of_all_queues_that_comes_late_throws_old_words_away_and_takes_the_last(
    make_plane: Callable[..., System],
) -> None:
    plane = make_plane(groups=0)
    plane.prepare()
    url = plane.environment["QMQ_REDIS_URL"]
    with Celery("tests", broker=url) as beat, redis.Redis.from_url(url) as stored:
        for number in range(OLD + 1):
            beat.send_task("console.run_job", ["cleanups"], queue="analytics", expires=0.001 if number < OLD else 600.0)
        words = stored.lrange("analytics", 0, -1)
        assert len(words) == OLD + 1
        assert max(map(len, words)) < WORD_BYTES_MAX
        plane.console.start()
        (worker,) = plane.workers
        worker.start(wait=False)
        eventually(
            lambda: plane.job("cleanups")["succeeded_at"],
            what="the last message has run the job",
            every_s=ASK_SECONDS,
        )
        assert stored.llen("analytics") == 0
    eventually(lambda: worker.log().count("succeeded in"), what="the task is logged as succeeded")
    assert worker.log().count("Discarding revoked task") == OLD
    assert worker.log().count("succeeded in") == 1


def test_a_job_that_is_run_now_over_rest_runs_in_a_worker(make_plane: Callable[..., System]) -> None:
    plane = make_plane(groups=0)
    plane.prepare()
    plane.console.start()
    (worker,) = plane.workers
    worker.start(wait=False)
    assert plane.job("cleanups")["succeeded_at"] is None, "no beat runs"
    plane.post("/jobs/cleanups/run/", {"reason": "test"})
    eventually(lambda: plane.job("cleanups")["succeeded_at"], what="the job has run", every_s=ASK_SECONDS)
