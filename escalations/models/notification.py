"""Where people are told of escalations, incidents and tasks (routes), and what (notices: the outbox)."""

from typing import Any

from django.db import models
from django.db.models import F, Q

from escalations import contracts
from escalations.models.escalation import Escalation
from runtime.contracts import states
from runtime.contracts.incident import Severity
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.execution.models import HumanTask
from runtime.incidents.models import Incident

IS_DELETED = Q(deleted_at__isnull=False)


class NotificationRoute(models.Model):
    """One address outside, and which escalations, incidents and tasks are announced there on which occasions.

    Family, impact, agent and policy kind narrow the escalations, the severity the incidents, and `task_group`
    the tasks.

    `address` holds the URL and the signing secret, encrypted (`services.notices.sealing`); `scheme` and
    `host` are what may be shown of it. A deleted route keeps its row for its notices, without an address.
    """

    route_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=80)
    scheme = models.CharField(max_length=16)
    host = models.CharField(max_length=253, blank=True, default="")
    address = models.BinaryField()
    url_digest = models.CharField(max_length=64)
    # Whom it is for, as a label: an agent, a person or a group.
    audience = models.CharField(max_length=150, blank=True, default="")
    on_opened = models.BooleanField(default=True)
    on_half_time = models.BooleanField(default=False)
    on_handed_up = models.BooleanField(default=False)
    on_closed = models.BooleanField(default=False)
    on_incident_opened = models.BooleanField(default=False)
    on_incident_raised = models.BooleanField(default=False)
    on_incident_closed = models.BooleanField(default=False)
    on_task_opened = models.BooleanField(default=False)
    for_decision = models.BooleanField(default=True)
    for_operational = models.BooleanField(default=True)
    for_agent = models.BooleanField(default=True)
    # Routes from before there were interrupts are not told of them until an admin says so.
    for_interrupt = models.BooleanField(default=False)
    least_impact = models.CharField(
        max_length=16, choices=states.Impact.pairs(), default=states.Impact.LOW_IMPACT
    )
    agent_id = models.CharField(max_length=128, blank=True, default="")
    policy_kind = models.CharField(max_length=128, blank=True, default="")
    least_severity = models.CharField(max_length=4, choices=Severity.pairs(), default=Severity.SEV4)
    # The group that a task asks; empty: any.
    task_group = models.CharField(max_length=150, blank=True, default="")
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_to = models.TimeField(null=True, blank=True)
    quiet_zone = models.CharField(max_length=64, blank=True, default="")
    # Escalations of this impact and above are announced in quiet hours too; empty: none are.
    quiet_exempt = models.CharField(max_length=16, blank=True, choices=states.Impact.pairs(), default="")
    # The same for incidents of this severity and worse.
    quiet_exempt_severity = models.CharField(max_length=4, blank=True, choices=Severity.pairs(), default="")
    enabled = models.BooleanField(default=True)
    # What became due before it is not announced: a route that is switched on does not tell of the past.
    enabled_at = models.DateTimeField()
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("name", "route_id")
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "name"), condition=~IS_DELETED, name="notification_route_name_once"
            ),
            models.CheckConstraint(
                condition=Q(on_opened=True)
                | Q(on_half_time=True)
                | Q(on_handed_up=True)
                | Q(on_closed=True)
                | Q(on_incident_opened=True)
                | Q(on_incident_raised=True)
                | Q(on_incident_closed=True)
                | Q(on_task_opened=True),
                name="notification_route_has_an_occasion",
            ),
            models.CheckConstraint(
                condition=Q(for_decision=True)
                | Q(for_operational=True)
                | Q(for_agent=True)
                | Q(for_interrupt=True),
                name="notification_route_has_a_family",
            ),
            models.CheckConstraint(
                condition=Q(
                    quiet_from__isnull=True,
                    quiet_to__isnull=True,
                    quiet_zone="",
                    quiet_exempt="",
                    quiet_exempt_severity="",
                )
                | (
                    Q(quiet_from__isnull=False, quiet_to__isnull=False)
                    & ~Q(quiet_zone="")
                    & ~Q(quiet_from=F("quiet_to"))
                ),
                name="notification_route_quiet_hours_are_whole",
            ),
            models.CheckConstraint(
                condition=Q(
                    least_severity__in=Severity.values(), quiet_exempt_severity__in=["", *Severity.values()]
                ),
                name="notification_route_severities_known",
            ),
            models.CheckConstraint(
                condition=~IS_DELETED | Q(enabled=False, address=b""),
                name="notification_route_deleted_keeps_no_address",
            ),
        )

    def __str__(self) -> str:
        return self.name

    def recorded(self) -> dict[str, Any]:
        """What the entry has that sets the route. Of the address the scheme, the host and a keyed digest."""
        return {
            "name": self.name,
            "scheme": self.scheme,
            "host": self.host,
            "url_digest": self.url_digest,
            "audience": self.audience,
            "occasions": [occasion.value for occasion in self.occasions],
            "families": [family.value for family in self.families],
            "least_impact": self.least_impact,
            "agent_id": self.agent_id,
            "policy_kind": self.policy_kind,
            "quiet_hours": self.quiet_hours,
            "quiet_exempt": self.quiet_exempt,
            "least_severity": self.least_severity,
            "quiet_exempt_severity": self.quiet_exempt_severity,
            "task_group": self.task_group,
        }

    @property
    def quiet_hours(self) -> str:
        """The quiet hours in one text; empty where there are none."""
        if self.quiet_from is None or self.quiet_to is None:
            return ""
        return f"{self.quiet_from.isoformat()}-{self.quiet_to.isoformat()} {self.quiet_zone}"

    @property
    def occasions(self) -> tuple[contracts.Occasion, ...]:
        """The occasions on which it is told."""
        wanted = {
            contracts.Occasion.OPENED: self.on_opened,
            contracts.Occasion.HALF_TIME: self.on_half_time,
            contracts.Occasion.HANDED_UP: self.on_handed_up,
            contracts.Occasion.CLOSED: self.on_closed,
            contracts.Occasion.INCIDENT_OPENED: self.on_incident_opened,
            contracts.Occasion.INCIDENT_RAISED: self.on_incident_raised,
            contracts.Occasion.INCIDENT_CLOSED: self.on_incident_closed,
            contracts.Occasion.TASK_OPENED: self.on_task_opened,
        }
        return tuple(occasion for occasion, is_wanted in wanted.items() if is_wanted)

    @property
    def families(self) -> tuple[contracts.Family, ...]:
        """The families of escalations that it is told of."""
        wanted = {
            contracts.Family.DECISION: self.for_decision,
            contracts.Family.OPERATIONAL: self.for_operational,
            contracts.Family.AGENT: self.for_agent,
            contracts.Family.INTERRUPT: self.for_interrupt,
        }
        return tuple(family for family, is_wanted in wanted.items() if is_wanted)


class Notice(models.Model):
    """One notice to one route: a row of the outbox, written with what causes it and sent later.

    It is of an escalation, an incident or a task, or a test. `severity` is what an incident was raised to.
    `next_at` is also the lease: who takes a notice moves it past the longest try, so that a notice whose
    sender died becomes due again by itself. Its id is the receiver's sign of a repetition.
    """

    notice_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    route = models.ForeignKey(
        NotificationRoute, on_delete=models.PROTECT, related_name="notices", db_index=False
    )
    escalation = models.ForeignKey(
        Escalation, null=True, blank=True, on_delete=models.PROTECT, related_name="notices"
    )
    incident = models.ForeignKey(
        Incident, null=True, blank=True, on_delete=models.PROTECT, related_name="notices"
    )
    task = models.ForeignKey(
        HumanTask, null=True, blank=True, on_delete=models.PROTECT, related_name="notices"
    )
    occasion = models.CharField(max_length=16, choices=contracts.Occasion.pairs())
    severity = models.CharField(max_length=4, blank=True, choices=Severity.pairs(), default="")
    state = models.CharField(
        max_length=8, choices=contracts.NoticeState.pairs(), default=contracts.NoticeState.PENDING
    )
    tries = models.PositiveSmallIntegerField(default=0)
    queued_at = models.DateTimeField()
    next_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        ordering = ("-notice_id",)
        constraints = (
            models.UniqueConstraint(
                fields=("route", "escalation", "occasion"), name="notice_once_per_route_and_occasion"
            ),
            models.UniqueConstraint(
                fields=("route", "incident", "occasion"),
                condition=Q(
                    occasion__in=(contracts.Occasion.INCIDENT_OPENED, contracts.Occasion.INCIDENT_CLOSED)
                ),
                name="notice_once_per_incident",
            ),
            models.UniqueConstraint(fields=("route", "task", "occasion"), name="notice_once_per_task"),
            # It can be raised more than once. A severity that nobody could be told of is announced anew.
            models.UniqueConstraint(
                fields=("route", "incident", "severity"),
                condition=Q(
                    occasion=contracts.Occasion.INCIDENT_RAISED,
                    state__in=(contracts.NoticeState.PENDING, contracts.NoticeState.SENT),
                ),
                name="notice_once_per_severity",
            ),
            models.CheckConstraint(
                condition=Q(
                    occasion=contracts.Occasion.TEST,
                    escalation__isnull=True,
                    incident__isnull=True,
                    task__isnull=True,
                    severity="",
                )
                | Q(
                    occasion__in=contracts.OF_ESCALATIONS,
                    escalation__isnull=False,
                    incident__isnull=True,
                    task__isnull=True,
                    severity="",
                )
                | Q(
                    occasion=contracts.Occasion.TASK_OPENED,
                    escalation__isnull=True,
                    incident__isnull=True,
                    task__isnull=False,
                    severity="",
                )
                | Q(
                    occasion__in=(contracts.Occasion.INCIDENT_OPENED, contracts.Occasion.INCIDENT_CLOSED),
                    escalation__isnull=True,
                    incident__isnull=False,
                    task__isnull=True,
                    severity="",
                )
                | Q(
                    occasion=contracts.Occasion.INCIDENT_RAISED,
                    escalation__isnull=True,
                    incident__isnull=False,
                    task__isnull=True,
                    severity__in=Severity.values(),
                ),
                name="notice_is_of_one_thing",
            ),
            models.CheckConstraint(
                condition=Q(state=contracts.NoticeState.PENDING, ended_at__isnull=True)
                | (~Q(state=contracts.NoticeState.PENDING) & Q(ended_at__isnull=False)),
                name="notice_ended_at_goes_with_its_state",
            ),
        )
        indexes = (
            models.Index(
                fields=("next_at",),
                condition=Q(state=contracts.NoticeState.PENDING),
                name="notice_due",
            ),
        )

    def __str__(self) -> str:
        return f"{self.occasion} to {self.route_id}"

    @property
    def about(self) -> Escalation | Incident | HumanTask | None:
        """What it tells of; None for a test."""
        return self.escalation or self.incident or self.task
