"""The product's settings with one address: the bare view that the gate is measured against."""

from dir_console.settings import *  # noqa: F403  # they are names to Django, not to this module

ROOT_URLCONF = "bench.baseline_view"
MIDDLEWARE = ["allauth.account.middleware.AccountMiddleware"]  # its app refuses to start without
