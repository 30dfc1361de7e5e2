"""The Celery app: workers run the control loops, beat says when. Redis carries no more than the word to run."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
app = Celery("console")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["console"])


@app.on_after_finalize.connect
def _schedule(sender: Celery, **_: object) -> None:
    from console.tasks import loops

    sender.conf.beat_schedule = loops.schedule()
