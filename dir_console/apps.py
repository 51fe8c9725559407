"""The wiring app: settings, addresses, commands."""

from importlib import import_module

from django.apps import AppConfig


class DirConsoleConfig(AppConfig):
    """Loads the Celery app, so that a command can ring the doorbell too, and keeps tokens out of the logs."""

    name = "dir_console"
    verbose_name = "DIR Console"

    def ready(self) -> None:
        import_module("dir_console.celery")
        import_module("dir_console.secret_addresses").hide()
