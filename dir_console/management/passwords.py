"""A password from stdin: never from the command line, where every process can read it."""

import sys

from django.core.management.base import CommandError


def from_stdin() -> str:
    """The first line of stdin without its end."""
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError(
            'No password was given on stdin. Pipe it in: printf %s "$PASSWORD" | manage.py ...'
        )
    return password
