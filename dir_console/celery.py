"""The Celery app of the production topology: broker and schedule come from settings."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")

app = Celery("dir_console")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["runtime.tasks"], related_name="jobs")
