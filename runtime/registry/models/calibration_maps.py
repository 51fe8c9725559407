"""Maps from stated to observed confidence: what the gate compares where a manifest asks for it."""

from django.db import models
from django.db.models import Q

from runtime.contracts import states
from runtime.contracts.calibration import LEAST_PAIRS
from runtime.registry.models.versions import SwappedVersion


class CalibrationMap(SwappedVersion):
    """One map of an agent. At most one of a kind and impact is active.

    `version` counts the maps of the agent. A map is retired for good when its kind or the agent's model
    profile changes.
    """

    agent = models.ForeignKey(
        "runtime.Agent", on_delete=models.PROTECT, related_name="calibration_maps", db_index=False
    )
    version = models.PositiveIntegerField()
    policy_kind = models.CharField(max_length=128)
    impact = models.CharField(max_length=16, choices=states.Impact.pairs())
    pairs = models.PositiveIntegerField()
    retired_at = models.DateTimeField(null=True, blank=True)
    retired_by = models.CharField(max_length=160, blank=True, default="")

    class Meta:
        ordering = ("agent", "-version")
        constraints = (
            models.UniqueConstraint(fields=("agent", "version"), name="calibration_map_version_once"),
            models.UniqueConstraint(
                fields=("agent", "policy_kind", "impact"),
                condition=Q(active=True),
                name="calibration_map_one_active",
            ),
            models.CheckConstraint(
                condition=Q(impact__in=states.Impact.values()), name="calibration_map_impact_known"
            ),
            models.CheckConstraint(
                condition=Q(pairs__gte=LEAST_PAIRS), name="calibration_map_has_enough_pairs"
            ),
            models.CheckConstraint(
                condition=Q(active=False) | Q(activated_at__isnull=False, retired_at=None),
                name="calibration_map_active_was_activated",
            ),
            models.CheckConstraint(
                condition=Q(discarded_at=None) | Q(active=False, activated_at=None, retired_at=None),
                name="calibration_map_discarded_was_never_active",
            ),
            models.CheckConstraint(
                condition=Q(retired_at=None, retired_by="")
                | (Q(retired_at__isnull=False, activated_at__isnull=False) & ~Q(retired_by="")),
                name="calibration_map_retired_was_active",
            ),
        )

    def __str__(self) -> str:
        return f"map {self.version}"
