"""`manage.py topic_intake`: take proposals from the topics of agents at Redis, until it is stopped."""

import signal
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from dir_console.celery import app as celery_app  # workers are woken through it
from dir_console.topics import broker
from dir_console.topics.intake import TopicIntake

__all__ = ["celery_app"]


class Command(BaseCommand):
    """Any number may run at once; one that is killed costs nothing but time."""

    help = "Take proposals from the topics of agents (Redis Streams) and answer them there."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--alive-file", type=Path, metavar="FILE", help="a file that is touched in each round"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.EMBEDDED:
            raise CommandError(
                "The topic intake is off in embedded mode, which has no Redis: agents call the API over "
                "HTTP. It is a part of production, where REDIS_URL and DATABASE_URL are set."
            )
        with broker.connect() as client:
            try:
                trouble = broker.Broker(client, consumer="").trouble()
            except redis.RedisError as error:
                trouble = f"it cannot be reached yet ({type(error).__name__})"
            if trouble is not None:
                self.stderr.write(f"The broker of topics: {trouble}.", style_func=str)
            intake = TopicIntake(client, alive_file=options["alive_file"])
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: intake.stop())
            self.stderr.write("The topic intake is running.", style_func=str)
            intake.run()
        self.stderr.write("The topic intake has stopped.", style_func=str)
