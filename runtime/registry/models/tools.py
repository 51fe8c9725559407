"""MCP servers and their tools, as they were seen and as an admin pinned them."""

from django.db import models
from django.db.models import F, Q

from runtime.contracts.states import ToolState
from runtime.core.scoping import TenantManager


class ToolServer(models.Model):
    """An MCP server that was looked at or switched: a target, or a command of this installation.

    Nothing of one that is not `enabled` is called. `trouble` is why the last look failed; empty where it did
    not. `due_at` is when it is looked at next.
    """

    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=64)
    enabled = models.BooleanField(default=True)
    switched_at = models.DateTimeField(null=True, blank=True)
    switched_by = models.CharField(max_length=160, blank=True, default="")
    switch_reason = models.CharField(max_length=500, blank=True, default="")
    checked_at = models.DateTimeField(null=True, blank=True)
    trouble = models.CharField(max_length=300, blank=True, default="")
    due_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name"), name="tool_server_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(switched_at__isnull=True, switched_by="", switch_reason="", enabled=True)
                | (Q(switched_at__isnull=False) & ~Q(switched_by="") & ~Q(switch_reason="")),
                name="tool_server_switched_by_a_person",
            ),
        )

    def __str__(self) -> str:
        return self.name


class UpstreamTool(models.Model):
    """A tool of an MCP server. `pinned` and `found` are canonical descriptions (`contracts.tool`) or empty.

    `found` is what was seen last: of a tool that is not pinned, or of one that has changed since.
    """

    tenant = models.CharField(max_length=64, default="default")
    server = models.CharField(max_length=64)
    name = models.CharField(max_length=128)
    state = models.CharField(max_length=12, choices=ToolState.pairs())
    pinned = models.BinaryField(default=b"")
    pinned_digest = models.CharField(max_length=64, blank=True, default="")
    found = models.BinaryField(default=b"")
    found_digest = models.CharField(max_length=64, blank=True, default="")
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=160)
    reason = models.CharField(max_length=500, blank=True, default="")

    objects = TenantManager()

    class Meta:
        ordering = ("server", "name")
        constraints = (
            models.UniqueConstraint(fields=("tenant", "server", "name"), name="tool_once_per_server"),
            models.CheckConstraint(condition=Q(state__in=ToolState.values()), name="tool_state_known"),
            models.CheckConstraint(
                condition=(Q(state=ToolState.FOUND, pinned_digest="") & ~Q(found_digest=""))
                | (Q(state=ToolState.PINNED, found_digest=F("pinned_digest")) & ~Q(pinned_digest=""))
                | (
                    Q(state=ToolState.CHANGED)
                    & ~Q(pinned_digest="")
                    & ~Q(found_digest="")
                    & ~Q(found_digest=F("pinned_digest"))
                )
                | (Q(state=ToolState.VANISHED, found_digest="") & ~Q(pinned_digest="")),
                name="tool_digests_go_with_its_state",
            ),
            models.CheckConstraint(
                condition=Q(reason="") | Q(state=ToolState.PINNED), name="tool_reason_is_of_a_pin"
            ),
        )

    def __str__(self) -> str:
        return f"{self.server} {self.name}"
