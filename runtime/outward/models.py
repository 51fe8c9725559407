"""Receivers of events, each with its position in the ledger's tree."""

from django.db import models
from django.db.models import Q

from runtime.contracts import receiver as contract
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager

_ACTIVE, _PAUSED = contract.ReceiverState.ACTIVE, contract.ReceiverState.PAUSED


class Receiver(models.Model):
    """One receiver: where it is, which events it gets, and how far it has come.

    It has got every event that it wants before the leaf `next_leaf`. Nobody sends to it before `next_at`,
    which a sender moves ahead while it sends: the position moves only for who still holds that time.
    `tries` are the failures since it last took something.
    """

    receiver_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=contract.LONGEST_NAME)
    kind = models.CharField(max_length=12, choices=contract.ReceiverKind.pairs())
    format = models.CharField(max_length=12, choices=contract.EventFormat.pairs())
    # Separated by spaces; `wants` gives them one by one.
    patterns = models.TextField()
    place = models.CharField(max_length=contract.LONGEST_PLACE)
    secret_env = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(max_length=8, choices=contract.ReceiverState.pairs(), default=_ACTIVE)
    paused_why = models.CharField(max_length=500, blank=True, default="")
    added_by = models.CharField(max_length=160)
    added_at = models.DateTimeField()
    next_leaf = models.BigIntegerField()
    next_at = models.DateTimeField()
    taken_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveIntegerField(default=0)
    failing_since = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=contract.LONGEST_ERROR, blank=True, default="")

    objects = TenantManager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name"), name="receiver_name_once"),
            models.CheckConstraint(
                condition=Q(
                    *(
                        Q(kind=kind, format__in=[form.value for form in forms])
                        for kind, forms in contract.FORMATS.items()
                    ),
                    _connector=Q.OR,
                ),
                name="receiver_format_goes_with_its_kind",
            ),
            models.CheckConstraint(
                condition=~Q(name="") & ~Q(patterns="") & ~Q(place=""), name="receiver_says_what_and_where"
            ),
            models.CheckConstraint(
                condition=~Q(kind=contract.ReceiverKind.WEBHOOK) | ~Q(secret_env=""),
                name="receiver_webhook_is_signed",
            ),
            models.CheckConstraint(
                condition=Q(state=_ACTIVE, paused_why="") | (Q(state=_PAUSED) & ~Q(paused_why="")),
                name="receiver_paused_says_why",
            ),
            models.CheckConstraint(condition=Q(next_leaf__gte=0), name="receiver_position_from_zero"),
            models.CheckConstraint(
                condition=Q(tries=0, failing_since__isnull=True, error="")
                | (Q(tries__gte=1, failing_since__isnull=False) & ~Q(error="")),
                name="receiver_failing_says_why",
            ),
        )
        indexes = (models.Index(fields=("next_at",), condition=Q(state=_ACTIVE), name="receiver_due"),)

    def __str__(self) -> str:
        return f"{self.name} at leaf {self.next_leaf}"

    @property
    def wants(self) -> list[str]:
        """The patterns of `runtime.contracts.receiver`."""
        return self.patterns.split()
