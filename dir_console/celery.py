"""The Celery app of the production topology: broker and schedule come from settings."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")

app = Celery("dir_console")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Celery closes the database's whole pool around every task; each task here gives its connection back itself,
# so that the pool may live on in the child process (it is never shared: children close what they inherit).
app.conf.CELERY_DB_REUSE_MAX = 10_000
app.autodiscover_tasks(["runtime.tasks"], related_name="jobs")
