"""Agents and their manifests: who may propose what (DIR paper, 2.3)."""

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from audit.quick_rows import QuickRow
from runtime.contracts import states
from runtime.core.scoping import TenantManager
from runtime.registry.models.keys import Key as Key  # beside their agents for all others
from runtime.registry.models.keys import Session as Session
from runtime.registry.models.versions import DocumentVersion, SwappedVersion


class Agent(QuickRow):
    """A registered agent. Its row is the lock for everything that counts across its flows."""

    tenant = models.CharField(max_length=64, default="default")
    agent_id = models.CharField(max_length=128)
    role = models.CharField(max_length=16, choices=states.AgentRole.pairs())
    owner = models.CharField(max_length=200)
    mission = models.TextField(blank=True, default="")
    status = models.CharField(
        max_length=16, choices=states.AgentStatus.pairs(), default=states.AgentStatus.ACTIVE
    )
    status_reason = models.CharField(max_length=200, blank=True, default="")
    # What it was before a half-changed world locked it; empty while nothing does.
    locked_from = models.CharField(max_length=16, blank=True, default="")
    locked_from_reason = models.CharField(max_length=200, blank=True, default="")
    stopped_at = models.DateTimeField(null=True, blank=True)
    stopped_by = models.CharField(max_length=160, blank=True, default="")
    stop_reason = models.CharField(max_length=500, blank=True, default="")
    active_manifest = models.ForeignKey(
        "runtime.Manifest", null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    # Escalation bucket, in thousandths of a token, so that a refill of three an hour is whole numbers.
    escalation_millitokens = models.PositiveIntegerField(default=0)
    bucket_at = models.DateTimeField(null=True, blank=True)
    # How much it may do by itself. A copy for lists and workers: the gate and the claim ask the ledger.
    autonomy = models.CharField(
        max_length=16, choices=states.AutonomyLevel.pairs(), default=states.AutonomyLevel.AUTONOMOUS
    )
    autonomy_score = models.PositiveSmallIntegerField(default=0)
    autonomy_at = models.DateTimeField(null=True, blank=True)
    autonomy_by = models.CharField(max_length=160, blank=True, default="")
    autonomy_reason = models.CharField(max_length=500, blank=True, default="")
    # When a person last raised it: what was counted until then does not count again.
    autonomy_counts_from = models.DateTimeField(null=True, blank=True)
    review_on = models.DateField(null=True, blank=True)
    last_seen_at = models.DateTimeField(null=True, blank=True)
    # When a person last said that the silence watchdog shall count anew.
    watched_from = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        ordering = ("agent_id",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "agent_id"), name="agent_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(status__in=states.AgentStatus.values()), name="agent_status_known"
            ),
            models.CheckConstraint(condition=Q(role__in=states.AgentRole.values()), name="agent_role_known"),
            models.CheckConstraint(
                condition=Q(autonomy__in=states.AutonomyLevel.values()), name="agent_autonomy_known"
            ),
            models.CheckConstraint(
                condition=Q(
                    autonomy=states.AutonomyLevel.AUTONOMOUS,
                    autonomy_score=0,
                    autonomy_at__isnull=True,
                    autonomy_by="",
                    autonomy_reason="",
                    autonomy_counts_from__isnull=True,
                )
                | (Q(autonomy_at__isnull=False, autonomy_score__lte=100) & ~Q(autonomy_by="")),
                name="agent_autonomy_changed_by_somebody",
            ),
            models.CheckConstraint(
                condition=Q(autonomy_counts_from__isnull=True)
                | Q(autonomy_at__isnull=False, autonomy_counts_from__lte=F("autonomy_at")),
                name="agent_autonomy_counts_from_a_change",
            ),
        )

    def __str__(self) -> str:
        return self.agent_id


class Manifest(DocumentVersion):
    """One version of what an agent may do."""

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="manifests", db_index=False)
    version = models.CharField(max_length=64)

    class Meta:
        ordering = ("agent", "-id")
        constraints = (
            models.UniqueConstraint(fields=("agent", "version"), name="manifest_version_once"),
            models.CheckConstraint(
                condition=Q(activated_at__isnull=True) | Q(discarded_at__isnull=True),
                name="manifest_activated_or_discarded",
            ),
        )
        indexes = (models.Index(fields=("digest",), name="manifest_by_digest"),)

    def __str__(self) -> str:
        return f"{self.agent} {self.version}"


class Membership(models.Model):
    """An active user's time in a group. Django's own table knows only who is in it now."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    group = models.CharField(max_length=150)
    since = models.DateTimeField()
    until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("user", "group"), condition=Q(until__isnull=True), name="membership_open_once"
            ),
            models.CheckConstraint(
                condition=Q(until__isnull=True) | Q(until__gte=F("since")),
                name="membership_ends_after_it_began",
            ),
        )

    def __str__(self) -> str:
        return f"{self.user_id} in {self.group}"


class AuthorityLimitRow(models.Model):
    """Up to which amount, or which impact, a person or a role may decide.

    `holder` is `user:7` or `role:operator`; empty `policy_kind` means all kinds. `amount` is a whole number
    in `unit`, which is empty for amounts without a unit; without an amount, `impact` is the heaviest allowed.
    """

    tenant = models.CharField(max_length=64, default="default")
    holder = models.CharField(max_length=160)
    policy_kind = models.CharField(max_length=128, blank=True, default="")
    unit = models.CharField(max_length=32, blank=True, default="")
    amount = models.BigIntegerField(null=True, blank=True)
    impact = models.CharField(max_length=16, blank=True, default="", choices=states.Impact.pairs())
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=160)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("tenant", "holder", "policy_kind", "unit"),
                condition=Q(amount__isnull=False),
                name="authority_limit_one_of_a_unit",
            ),
            models.UniqueConstraint(
                fields=("tenant", "holder", "policy_kind"),
                condition=Q(amount__isnull=True),
                name="authority_limit_one_of_impact",
            ),
            models.CheckConstraint(
                condition=Q(amount__isnull=False, amount__gte=0, impact="")
                | Q(amount__isnull=True, unit="", impact__in=states.Impact.values()),
                name="authority_limit_of_an_amount_or_of_impact",
            ),
            models.CheckConstraint(
                condition=Q(holder__startswith="user:") | Q(holder__startswith="role:"),
                name="authority_limit_of_a_person_or_a_role",
            ),
        )

    def __str__(self) -> str:
        return f"{self.holder} on {self.policy_kind or 'all kinds'}"


class FailedSignin(models.Model):
    """Failed sign-ins of one minute with one name, until they are one entry. The name itself is not kept.

    `name_hash` is keyed, and empty for all names beyond the first hundred of a minute.
    """

    minute = models.DateTimeField()
    name_hash = models.CharField(max_length=64, blank=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+"
    )
    failed = models.PositiveIntegerField(default=0)
    locked = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("minute", "name_hash"), name="failed_signin_once_a_minute"),
        )

    def __str__(self) -> str:
        return f"{self.minute} {self.name_hash[:8]}"


class HiddenTour(models.Model):
    """A person who has put the tour away; without a row it is shown. It says nothing of what was done."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.PROTECT, related_name="+"
    )
    hidden_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.user_id)


class OwnerChange(models.Model):
    """Another owner of an agent: asked for, and then agreed to or dropped.

    `solo` where the only admin there is did both. Who was the owner, and who changed it, are bound for days.
    """

    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="owner_changes", db_index=False)
    owner_before = models.CharField(max_length=200)
    owner_after = models.CharField(max_length=200)
    asked_by = models.CharField(max_length=160)
    asked_at = models.DateTimeField()
    agreed_by = models.CharField(max_length=160, blank=True, default="")
    agreed_at = models.DateTimeField(null=True, blank=True)
    dropped_by = models.CharField(max_length=160, blank=True, default="")
    dropped_at = models.DateTimeField(null=True, blank=True)
    solo = models.BooleanField(default=False)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("agent",),
                condition=Q(agreed_at__isnull=True, dropped_at__isnull=True),
                name="owner_change_one_open_per_agent",
            ),
            models.CheckConstraint(
                condition=Q(agreed_at__isnull=True) | Q(dropped_at__isnull=True),
                name="owner_change_agreed_or_dropped",
            ),
            models.CheckConstraint(
                condition=Q(agreed_at__isnull=True, agreed_by="")
                | Q(agreed_at__isnull=False, solo=True, agreed_by=F("asked_by"))
                | (Q(agreed_at__isnull=False, solo=False) & ~Q(agreed_by__in=("", F("asked_by")))),
                name="owner_change_agreed_by_another_unless_solo",
            ),
            models.CheckConstraint(
                condition=Q(dropped_at__isnull=True, dropped_by="")
                | (Q(dropped_at__isnull=False) & ~Q(dropped_by="")),
                name="owner_change_dropped_by_somebody",
            ),
            models.CheckConstraint(
                condition=~Q(owner_before=F("owner_after")), name="owner_change_changes_the_owner"
            ),
        )
        indexes = (models.Index(fields=("agent", "agreed_at"), name="owner_change_by_agent"),)

    def __str__(self) -> str:
        return f"{self.owner_before} to {self.owner_after}"


class Pack(models.Model):
    """One loaded pack file."""

    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    loaded_at = models.DateTimeField()
    loaded_by = models.CharField(max_length=160)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name", "version", "digest"), name="pack_once"),
        )

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class PolicyKind(SwappedVersion):
    """One version of a policy kind. At most one version of a kind is active."""

    tenant = models.CharField(max_length=64, default="default")
    kind = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    title = models.CharField(max_length=200)
    risk_tier = models.CharField(max_length=2)

    objects = TenantManager()

    class Meta:
        ordering = ("kind", "-id")
        constraints = (
            models.UniqueConstraint(fields=("tenant", "kind", "version"), name="policy_kind_version_once"),
            models.UniqueConstraint(
                fields=("tenant", "kind"), condition=Q(active=True), name="policy_kind_one_active_version"
            ),
            models.CheckConstraint(
                condition=Q(discarded_at=None) | Q(active=False, activated_at=None),
                name="policy_kind_discarded_was_never_in_force",
            ),
        )
        indexes = (models.Index(fields=("digest",), name="policy_kind_by_digest"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.version}"


class Ruleset(SwappedVersion):
    """One version of a ruleset. At most one version of a ruleset is active.

    A policy kind names a version by itself, so that what it enforces changes only with the kind.
    """

    tenant = models.CharField(max_length=64, default="default")
    ruleset = models.CharField(max_length=64)
    version = models.CharField(max_length=64)

    objects = TenantManager()

    class Meta:
        ordering = ("ruleset", "-id")
        constraints = (
            models.UniqueConstraint(fields=("tenant", "ruleset", "version"), name="ruleset_version_once"),
            models.UniqueConstraint(
                fields=("tenant", "ruleset"), condition=Q(active=True), name="ruleset_one_active_version"
            ),
            models.CheckConstraint(
                condition=Q(discarded_at=None) | Q(active=False, activated_at=None),
                name="ruleset_discarded_was_never_active",
            ),
        )
        indexes = (models.Index(fields=("digest",), name="ruleset_by_digest"),)

    def __str__(self) -> str:
        return f"{self.ruleset}@{self.version}"


class Bundle(QuickRow):
    """Manifest and policy kind of a verdict, content-addressed: so the verdict can be replayed."""

    digest = models.CharField(max_length=64, primary_key=True)
    body = models.BinaryField()
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.digest


class Target(models.Model):
    """Where an executor sends its calls: a deployment setting, outside a kind's hash."""

    tenant = models.CharField(max_length=64, default="default")
    name = models.CharField(max_length=64)
    base_url = models.CharField(max_length=500)
    secret_env = models.CharField(max_length=128, blank=True, default="")
    # Canonical JSON: the statuses, in order, that mean: not done, and will not be.
    refuses = models.BinaryField(default=b"[]")
    # Whether it does once what is sent twice under one `Idempotency-Key`.
    honours_keys = models.BooleanField(default=False)
    # A path that answers 2xx while the target can work; empty where it has none.
    health = models.CharField(max_length=500, blank=True, default="")
    # Where people look a call up: an https address with one `{key}`; empty where there is none.
    deep_link = models.CharField(max_length=500, blank=True, default="")
    # Whether it is an MCP server, whose tools steps call.
    is_mcp = models.BooleanField(default=False)
    configured_at = models.DateTimeField()

    objects = TenantManager()

    class Meta:
        ordering = ("name",)
        constraints = (
            models.UniqueConstraint(fields=("tenant", "name"), name="target_once_per_tenant"),
            models.CheckConstraint(
                condition=Q(deep_link="") | Q(deep_link__startswith="https://", deep_link__contains="{key}"),
                name="target_deep_link_is_https",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Stop(models.Model):
    """The kill switch of a tenant. The row's presence with no `lifted_at` means: nothing may be called."""

    tenant = models.CharField(max_length=64, default="default")
    reason = models.CharField(max_length=500)
    stopped_by = models.CharField(max_length=160)
    stopped_at = models.DateTimeField()
    lifted_by = models.CharField(max_length=160, blank=True, default="")
    lifted_at = models.DateTimeField(null=True, blank=True)

    objects = TenantManager()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=("tenant",), condition=Q(lifted_at__isnull=True), name="stop_one_in_force_per_tenant"
            ),
        )

    def __str__(self) -> str:
        return f"stop of {self.tenant}"


class Workflow(models.Model):
    """One immutable, hashed version of a workflow."""

    tenant = models.CharField(max_length=64, default="default")
    workflow = models.CharField(max_length=128)
    version = models.CharField(max_length=64)
    body = models.BinaryField()
    digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=160)

    objects = TenantManager()

    class Meta:
        ordering = ("workflow", "id")
        constraints = (
            models.UniqueConstraint(fields=("tenant", "workflow", "version"), name="workflow_version_once"),
        )

    def __str__(self) -> str:
        return f"{self.workflow}@{self.version}"
