"""Tenant-scoped reads: every root row has a tenant, and nothing crosses by default."""

from typing import TypeVar

from django.db import models

Row = TypeVar("Row", bound=models.Model)


class TenantManager(models.Manager[Row]):
    """Reads that begin with the tenant."""

    def of(self, tenant: str) -> models.QuerySet[Row]:
        """Only the rows of `tenant`."""
        return self.filter(tenant=tenant)
