"""Versions of the ontology: which facts there are, and what is declared of them."""

from django.db import models
from django.db.models import Q

from runtime.core.scoping import TenantManager
from runtime.registry.models.versions import SwappedVersion


class Ontology(SwappedVersion):
    """One version of a tenant's ontology, at most one of them active. `version` is its `schema_version`."""

    tenant = models.CharField(max_length=64, default="default")
    version = models.CharField(max_length=64)

    objects = TenantManager()

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "version"), name="ontology_version_once"),
            models.UniqueConstraint(
                fields=("tenant",), condition=Q(active=True), name="ontology_one_active_version"
            ),
            models.CheckConstraint(
                condition=Q(discarded_at=None) | Q(active=False, activated_at=None),
                name="ontology_discarded_was_never_active",
            ),
        )

    def __str__(self) -> str:
        return f"ontology {self.version}"
