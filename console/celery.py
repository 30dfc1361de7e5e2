"""The Celery app: workers run the control loops, beat says when. Redis carries no more than the word to run."""

import os

from celery import Celery
from celery.signals import beat_init, celeryd_init, worker_shutting_down

from qmq.private_files import restrict_umask

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Celery runs Django's checks when a worker or beat starts, and ignores their results; `manage.py check` reports them. The checks
# import the URL configuration and so the REST API, which costs each process 0.4 s of processor time and 30 MiB.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
app = Celery("console")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["console"])


@app.on_after_finalize.connect
def _schedule(sender: Celery, **_: object) -> None:
    from console.tasks import loops

    sender.conf.beat_schedule = loops.schedule()


@celeryd_init.connect
@beat_init.connect
def _restrict_files(**_: object) -> None:
    restrict_umask()


@worker_shutting_down.connect
def _stop_jobs(**_: object) -> None:
    """A stopping worker waits for its loops, but not half an hour for jobs that lose nothing when they are interrupted."""
    from console.analytics import process

    process.stop()
