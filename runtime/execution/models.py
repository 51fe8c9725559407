"""The circuits of targets that have failed, tasks of people, and results that targets report later."""

from django.db import models
from django.db.models import F, Q

from runtime.contracts import states
from runtime.core.ids import new_id
from runtime.core.scoping import TenantManager
from runtime.flows.models import Intent

_CLOSED, _HALF_OPEN = states.CircuitState.CLOSED, states.CircuitState.HALF_OPEN


class Circuit(models.Model):
    """One circuit breaker, moved by compare-and-swap on `version`; `probe` names the claim that may try."""

    tenant = models.CharField(max_length=64, default="default")
    target = models.CharField(max_length=64)
    state = models.CharField(
        max_length=12, choices=states.CircuitState.pairs(), default=states.CircuitState.CLOSED
    )
    failures = models.PositiveIntegerField(default=0)
    openings = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True, blank=True)
    probe = models.CharField(max_length=80, blank=True, default="")
    changed_at = models.DateTimeField()
    version = models.PositiveBigIntegerField(default=0)

    objects = TenantManager()

    class Meta:
        ordering = ("target",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "target"), name="circuit_once_per_target"),
            models.CheckConstraint(
                condition=Q(state__in=states.CircuitState.values()), name="circuit_state_known"
            ),
            models.CheckConstraint(
                condition=Q(state=_CLOSED, retry_at__isnull=True)
                | (~Q(state=_CLOSED) & Q(retry_at__isnull=False)),
                name="circuit_waits_unless_closed",
            ),
            models.CheckConstraint(
                condition=(Q(state=_HALF_OPEN) & ~Q(probe="")) | (~Q(state=_HALF_OPEN) & Q(probe="")),
                name="circuit_probe_goes_with_half_open",
            ),
        )

    def __str__(self) -> str:
        return f"{self.target} {self.state}"


class HumanTask(models.Model):
    """A step that a person of `group` carries out, or undoes: one for each attempt.

    `body` are the canonical bytes of all that is shown, and `task_hash` their digest, which an answer signs.
    """

    task_id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    tenant = models.CharField(max_length=64, default="default")
    intent = models.ForeignKey(Intent, on_delete=models.PROTECT, related_name="human_tasks", db_index=False)
    number = models.PositiveSmallIntegerField()
    step = models.CharField(max_length=64)
    direction = models.CharField(max_length=12, choices=states.Direction.pairs())
    group = models.CharField(max_length=150)
    state = models.CharField(max_length=12, choices=states.TaskState.pairs(), default=states.TaskState.OPEN)
    body = models.BinaryField()
    task_hash = models.CharField(max_length=64)
    opened_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    # Of the one answer: the receipt, what was signed, and by whom.
    answer = models.BinaryField(default=b"")
    statement = models.BinaryField(default=b"")
    signature = models.BinaryField(default=b"")
    key_id = models.CharField(max_length=64, blank=True, default="")
    answered_by = models.CharField(max_length=160, blank=True, default="")
    ended_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("deadline_at", "task_id")
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=states.TaskState.values(), direction__in=states.Direction.values()),
                name="task_state_and_direction_known",
            ),
            models.UniqueConstraint(fields=("intent", "number"), name="task_once_per_attempt"),
            models.UniqueConstraint(
                fields=("intent",), condition=Q(state=states.TaskState.OPEN), name="task_one_open_per_intent"
            ),
            models.CheckConstraint(
                condition=Q(deadline_at__gt=F("opened_at")), name="task_deadline_after_it_opened"
            ),
            models.CheckConstraint(
                condition=Q(state=states.TaskState.OPEN, ended_at__isnull=True)
                | (~Q(state=states.TaskState.OPEN) & Q(ended_at__isnull=False, ended_at__gte=F("opened_at"))),
                name="task_ends_unless_open",
            ),
            models.CheckConstraint(
                condition=(Q(state=states.TaskState.ANSWERED) & ~Q(answered_by="") & ~Q(key_id=""))
                | (
                    ~Q(state=states.TaskState.ANSWERED)
                    & Q(answered_by="", key_id="", answer=b"", statement=b"", signature=b"")
                ),
                name="task_answer_goes_with_its_person",
            ),
        )
        indexes = (
            models.Index(
                fields=("tenant", "deadline_at"),
                condition=Q(state=states.TaskState.OPEN),
                name="task_open_by_deadline",
            ),
        )

    def __str__(self) -> str:
        return f"{self.step} {self.task_id}"


class TargetCallback(models.Model):
    """Where a target reports the result of a call that it has taken on: one for each attempt of such a step.

    The token in the address is known here by its SHA-256 alone. `report` and `percent` are those of the
    newest progress. A target that named a `location` is asked there for the result, next at `next_ask_at`.
    """

    tenant = models.CharField(max_length=64, default="default")
    intent = models.ForeignKey(Intent, on_delete=models.PROTECT, related_name="callbacks", db_index=False)
    number = models.PositiveSmallIntegerField()
    target = models.CharField(max_length=64)
    token_hash = models.CharField(max_length=64, unique=True)
    state = models.CharField(
        max_length=12, choices=states.CallbackState.pairs(), default=states.CallbackState.OPEN
    )
    opened_at = models.DateTimeField()
    deadline_at = models.DateTimeField()
    report = models.PositiveSmallIntegerField(default=0)
    percent = models.PositiveSmallIntegerField(null=True, blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    location = models.CharField(max_length=2000, default="", blank=True)
    next_ask_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        ordering = ("deadline_at", "pk")
        constraints = (
            models.CheckConstraint(
                condition=Q(state__in=states.CallbackState.values()), name="callback_state_known"
            ),
            models.UniqueConstraint(fields=("intent", "number"), name="callback_once_per_attempt"),
            models.CheckConstraint(
                condition=Q(deadline_at__gt=F("opened_at")), name="callback_deadline_after_it_opened"
            ),
            models.CheckConstraint(
                condition=Q(state=states.CallbackState.OPEN, ended_at__isnull=True)
                | (
                    ~Q(state=states.CallbackState.OPEN)
                    & Q(ended_at__isnull=False, ended_at__gte=F("opened_at"))
                ),
                name="callback_ends_unless_open",
            ),
            models.CheckConstraint(
                condition=Q(percent__isnull=True) | Q(percent__lte=100), name="callback_percent_of_a_hundred"
            ),
            models.CheckConstraint(
                condition=Q(reported_at__isnull=False)
                | (Q(report=0, percent__isnull=True) & ~Q(state=states.CallbackState.REPORTED)),
                name="callback_says_what_was_reported",
            ),
            models.CheckConstraint(
                condition=Q(next_ask_at__isnull=True)
                | (~Q(location="") & Q(state=states.CallbackState.OPEN)),
                name="callback_asked_at_a_place_while_open",
            ),
        )
        indexes = (
            models.Index(
                fields=("tenant", "deadline_at"),
                condition=Q(state=states.CallbackState.OPEN),
                name="callback_open_by_deadline",
            ),
            models.Index(
                fields=("tenant", "next_ask_at"),
                condition=Q(state=states.CallbackState.OPEN, next_ask_at__isnull=False),
                name="callback_asked_next",
            ),
        )

    def __str__(self) -> str:
        return f"{self.target} {self.intent_id} attempt {self.number}"
