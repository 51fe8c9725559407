"""Incidents with their links, notes, actions and post-mortems, and the rules that open them.

The words of notes, actions and post-mortems are not here but in a `Payload` of the ledger, under
`commitment`: erasing one there leaves no copy.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Length
from django.db.models.lookups import Exact

from runtime.contracts import incident as contract
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Flow

_ONLY = 1
_DIGITS = 64


class IncidentRuleRow(models.Model):
    """One version of a rule. `body` is the canonical JSON of `runtime.contracts.incident.IncidentRule`.

    It counts entries from the leaf `from_leaf` on: what was before its activation is none of its business.
    """

    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=contract.LONGEST_NAME)
    version = models.PositiveIntegerField()
    state = models.CharField(
        max_length=8, choices=contract.RuleState.pairs(), default=contract.RuleState.DRAFT
    )
    body = models.BinaryField()
    digest = models.CharField(max_length=_DIGITS)
    drafted_by = models.CharField(max_length=160)
    drafted_at = models.DateTimeField()
    activated_by = models.CharField(max_length=160, blank=True, default="")
    activated_at = models.DateTimeField(null=True, blank=True)
    from_leaf = models.BigIntegerField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name", "version"), name="incident_rule_version_once"),
            models.UniqueConstraint(
                fields=("tenant", "name"),
                condition=Q(state=contract.RuleState.ACTIVE),
                name="incident_rule_active_once",
            ),
            models.CheckConstraint(
                condition=Q(state=contract.RuleState.DRAFT, activated_at__isnull=True, ended_at__isnull=True)
                | Q(
                    state=contract.RuleState.ACTIVE,
                    activated_at__isnull=False,
                    from_leaf__isnull=False,
                    ended_at__isnull=True,
                )
                | Q(state=contract.RuleState.OFF, ended_at__isnull=False),
                name="incident_rule_times_go_with_its_state",
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class RuleCursor(models.Model):
    """The next leaf of the tree that rules look at. Who walks on locks this row, so there is one walker."""

    only = models.PositiveSmallIntegerField(primary_key=True, default=_ONLY, editable=False)
    next_leaf = models.BigIntegerField()

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(only=_ONLY), name="rule_cursor_is_one"),
            models.CheckConstraint(condition=Q(next_leaf__gte=0), name="rule_cursor_not_negative"),
        )

    def __str__(self) -> str:
        return f"{self.next_leaf}"


class RuleSighting(models.Model):
    """An entry that matched a rule and has opened nothing yet; gone once it did, or is too old to count."""

    rule = models.ForeignKey(
        IncidentRuleRow, on_delete=models.PROTECT, related_name="sightings", db_index=False
    )
    group_key = models.CharField(max_length=160, blank=True, default="")
    leaf = models.BigIntegerField()
    entry_id = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=("rule", "leaf"), name="sighting_once"),)
        indexes = (
            models.Index(fields=("rule", "group_key", "at"), name="sighting_counted"),
            models.Index(fields=("rule", "at"), name="sighting_by_time"),
        )

    def __str__(self) -> str:
        return f"leaf {self.leaf} for {self.rule_id}"


class Incident(models.Model):
    """An incident as it stands now. Never deleted.

    `group_key` and `crossing` (a leaf of the tree) say which of a rule's countings opened it.
    """

    incident_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    title = models.CharField(max_length=contract.LONGEST_TITLE)
    severity = models.CharField(max_length=4, choices=contract.Severity.pairs())
    state = models.CharField(
        max_length=12, choices=contract.IncidentState.pairs(), default=contract.IncidentState.OPEN
    )
    lead = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    opened_by = models.CharField(max_length=160)
    opened_at = models.DateTimeField()
    mitigated_at = models.DateTimeField(null=True, blank=True)
    resolved_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    rule = models.ForeignKey(
        IncidentRuleRow, null=True, blank=True, on_delete=models.PROTECT, related_name="incidents"
    )
    rule_name = models.CharField(max_length=contract.LONGEST_NAME, blank=True, default="")
    group_key = models.CharField(max_length=160, blank=True, default="")
    crossing = models.BigIntegerField(null=True, blank=True)
    sightings = models.PositiveBigIntegerField(default=0)

    objects = TenantManager()

    class Meta:
        ordering = ("-incident_id",)
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=contract.IncidentState.values()), name="incident_state_known"
            ),
            models.CheckConstraint(
                condition=Q(severity__in=contract.Severity.values()), name="incident_severity_known"
            ),
            models.CheckConstraint(condition=~Q(title=""), name="incident_has_a_title"),
            models.CheckConstraint(
                condition=Q(state=contract.IncidentState.CLOSED, closed_at__isnull=False)
                | (~Q(state=contract.IncidentState.CLOSED) & Q(closed_at__isnull=True)),
                name="incident_closed_at_goes_with_its_state",
            ),
            models.CheckConstraint(
                condition=~Q(state__in=(contract.IncidentState.RESOLVED, contract.IncidentState.CLOSED))
                | Q(resolved_at__isnull=False),
                name="incident_resolved_at_goes_with_its_state",
            ),
            models.CheckConstraint(
                condition=~Q(state=contract.IncidentState.MITIGATED) | Q(mitigated_at__isnull=False),
                name="incident_mitigated_at_goes_with_its_state",
            ),
            models.CheckConstraint(
                condition=Q(rule__isnull=True, rule_name="", group_key="", crossing__isnull=True, sightings=0)
                | (Q(rule__isnull=False, crossing__isnull=False, sightings__gte=1) & ~Q(rule_name="")),
                name="incident_of_a_rule_says_which",
            ),
            models.UniqueConstraint(
                fields=("tenant", "rule_name", "group_key"),
                condition=Q(rule__isnull=False, state__in=contract.LIVE),
                name="incident_one_live_per_rule",
            ),
            models.UniqueConstraint(
                fields=("rule", "group_key", "crossing"),
                condition=Q(rule__isnull=False),
                name="incident_once_per_crossing",
            ),
        )
        indexes = (
            models.Index(fields=("tenant", "state", "-incident_id"), name="incident_by_state"),
            models.Index(fields=("tenant", "severity", "-incident_id"), name="incident_by_severity"),
        )

    def __str__(self) -> str:
        return f"{self.severity} {self.title}"


class IncidentLink(models.Model):
    """What an incident links. `flow` is the flow of a flow, a record or an escalation, and keeps it.

    One that was wrong is not deleted: `removed_at` says since when it counts no longer.
    """

    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="links")
    kind = models.CharField(max_length=12, choices=contract.LinkKind.pairs())
    ref = models.CharField(max_length=contract.LONGEST_REF)
    flow = models.ForeignKey(Flow, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    linked_by = models.CharField(max_length=160)
    linked_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("incident", "kind", "ref"),
                condition=Q(removed_at__isnull=True),
                name="incident_link_once",
            ),
            models.CheckConstraint(
                condition=Q(kind__in=contract.OF_A_FLOW, flow__isnull=False)
                | (~Q(kind__in=contract.OF_A_FLOW) & Q(kind__in=contract.LinkKind.values(), flow=None)),
                name="incident_link_has_the_flow_of_its_kind",
            ),
            models.CheckConstraint(condition=~Q(ref=""), name="incident_link_names_something"),
        )
        indexes = (
            models.Index(
                fields=("flow",),
                condition=Q(removed_at__isnull=True, flow__isnull=False),
                name="incident_link_keeps",
            ),
            models.Index(fields=("kind", "ref"), name="incident_link_of"),
        )

    def __str__(self) -> str:
        return f"{self.kind} {self.ref}"


class IncidentNote(models.Model):
    """A note, never changed: a later one corrects it."""

    note_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="notes")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    commitment = models.CharField(max_length=_DIGITS, unique=True)
    written_at = models.DateTimeField()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=Exact(Length("commitment"), _DIGITS), name="incident_note_commitment_length"
            ),
        )

    def __str__(self) -> str:
        return f"note {self.note_id}"


class IncidentAction(models.Model):
    """Something to do because of an incident, so that it does not come back."""

    action_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="actions")
    commitment = models.CharField(max_length=_DIGITS, unique=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    due_on = models.DateField()
    added_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True, blank=True)
    done_by = models.CharField(max_length=160, blank=True, default="")

    class Meta:
        ordering = ("due_on", "action_id")
        constraints = (
            models.CheckConstraint(
                condition=Q(done_at__isnull=True, done_by="") | (Q(done_at__isnull=False) & ~Q(done_by="")),
                name="incident_action_done_by_somebody",
            ),
            models.CheckConstraint(
                condition=Exact(Length("commitment"), _DIGITS), name="incident_action_commitment_length"
            ),
        )

    def __str__(self) -> str:
        return f"action {self.action_id}"


class PostMortem(models.Model):
    """One version of a post-mortem; the words are canonical JSON behind the commitment."""

    incident = models.ForeignKey(
        Incident, on_delete=models.PROTECT, related_name="post_mortems", db_index=False
    )
    version = models.PositiveIntegerField()
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    commitment = models.CharField(max_length=_DIGITS, unique=True)
    saved_at = models.DateTimeField()
    signed_at = models.DateTimeField(null=True, blank=True)
    signed_by = models.CharField(max_length=160, blank=True, default="")

    class Meta:
        ordering = ("-version",)
        constraints = (
            models.UniqueConstraint(fields=("incident", "version"), name="post_mortem_version_once"),
            models.UniqueConstraint(
                fields=("incident",), condition=Q(signed_at__isnull=False), name="post_mortem_signed_once"
            ),
            models.CheckConstraint(
                condition=Q(signed_at__isnull=True, signed_by="")
                | (Q(signed_at__isnull=False) & ~Q(signed_by="")),
                name="post_mortem_signed_by_somebody",
            ),
            models.CheckConstraint(
                condition=Exact(Length("commitment"), _DIGITS), name="post_mortem_commitment_length"
            ),
        )

    def __str__(self) -> str:
        return f"post-mortem {self.version} of {self.incident_id}"
