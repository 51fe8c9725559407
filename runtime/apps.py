"""The decision runtime."""

from django.apps import AppConfig
from django.core import checks


class RuntimeConfig(AppConfig):
    name = "runtime"
    verbose_name = "Decision runtime"

    def ready(self) -> None:
        from runtime.registry.queries import kind_checks

        checks.register(kind_checks.check_active, checks.Tags.database)
