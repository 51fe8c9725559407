"""The product's settings with one app more, which writes down when each transaction was committed."""

from dir_console import settings
from dir_console.settings import *  # noqa: F403  # they are names to Django, not to this module

INSTALLED_APPS = [*settings.INSTALLED_APPS, "bench.commit_clock.CommitClock"]
