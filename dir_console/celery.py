"""The Celery app of the production topology: broker and schedule come from settings."""

import os

from celery import Celery
from kombu.transport import redis

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")

app = Celery("dir_console")
app.config_from_object("django.conf:settings", namespace="CELERY")
# Celery closes the database's whole pool around every task; each task here gives its connection back itself,
# so that the pool may live on in the child process (it is never shared: children close what they inherit).
app.conf.CELERY_DB_REUSE_MAX = 10_000
app.autodiscover_tasks(["runtime.workers"], related_name="celery_tasks")


class _QoS(redis.QoS):
    """Messages under way, whose connection may be gone by the time they are done.

    When Redis goes away, Celery 5.7 takes the connection apart and gives what is unacknowledged back over it;
    later the worker acknowledges it there. Either ended the worker with an AttributeError. Nothing need be
    given back: the rows are the truth, and the sweeper rings again for each that is due.
    """

    restore_at_shutdown = False

    def ack(self, delivery_tag: str) -> None:
        try:
            super().ack(delivery_tag)
        except AttributeError as error:
            raise ConnectionResetError("the connection that the message came by is gone") from error


redis.Channel.QoS = _QoS
