"""What workers and beat run: `celery -A console.celery`. Workers run jobs, beat says when; Redis carries their names."""

from celery import Celery
from celery.signals import beat_init, celeryd_init, worker_shutting_down

from console.jobs.queue import app
from qmq.private_files import restrict_umask


@app.on_after_finalize.connect
def _schedule(sender: Celery, **_: object) -> None:
    from console.jobs import jobs

    sender.conf.beat_schedule = jobs.schedule()


@celeryd_init.connect
@beat_init.connect
def _restrict_files(**_: object) -> None:
    restrict_umask()


@worker_shutting_down.connect
def _stop_jobs(**_: object) -> None:
    """A stopping worker waits for its jobs, but not half an hour for jobs that lose nothing when they are interrupted."""
    from console.analytics import process
    from console.jobs import outbox

    process.stop()
    outbox.stop()
