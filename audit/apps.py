"""The audit app: entries, live hints, roles."""

from django.apps import AppConfig
from django.core import checks
from django.db.models.signals import post_migrate


class AuditConfig(AppConfig):
    name = "audit"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from audit import payload_keys
        from audit.verification import triggers

        # The one signal of the project, and a lifecycle hook rather than business flow: Django's SQLite
        # table remake drops triggers without a word, so each migrate puts them back.
        post_migrate.connect(triggers.install_after_migrate, sender=self)
        checks.register(triggers.check_installed, checks.Tags.database)
        checks.register(payload_keys.check_given, checks.Tags.security)
