"""Tenant-scoped reads: every root row has a tenant, and nothing crosses by default."""

from typing import Self, TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


class TenantQuerySet(models.QuerySet[Row]):
    """A queryset that is narrowed to one tenant before it is used."""

    def of(self, tenant: str) -> Self:
        """Only the rows of `tenant`."""
        return self.filter(tenant=tenant)


TenantManager = models.Manager.from_queryset(TenantQuerySet)
