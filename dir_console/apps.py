"""The wiring app: settings, addresses, commands."""

from django.apps import AppConfig


class DirConsoleConfig(AppConfig):
    name = "dir_console"
    verbose_name = "DIR Console"
