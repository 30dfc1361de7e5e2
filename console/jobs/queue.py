"""The Celery app that carries the names of jobs to workers, through Redis."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
# Celery runs Django's checks when a worker or beat starts, and ignores their results; `manage.py check` reports them. The checks
# import the URL configuration and so the REST API, which costs each process 0.4 s of processor time and 30 MiB.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")
app = Celery("console")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["console.jobs"], related_name="jobs")
