"""Agents in the registry: registered without rights, updated later; every change with who made it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.contrib.auth.models import Group, User
from pydantic import TypeAdapter, ValidationError

from audit import actors, events, ledger
from runtime.contracts.manifest import AgentId
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentRole
from runtime.core import clock, transactions
from runtime.registry.models import Agent
from runtime.registry.services import agents, ownership

LONGEST_OWNER = 200
LONGEST_MISSION = 2000
_AGENT_ID: TypeAdapter[str] = TypeAdapter(AgentId)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The profile of an agent: who is responsible for it, what it is for, and when it is reviewed next."""

    owner: str
    mission: str
    review_on: date | None

    @property
    def review_text(self) -> str | None:
        """The review date as an entry holds it."""
        return None if self.review_on is None else self.review_on.isoformat()


def profile_of(agent: Agent) -> Profile:
    """The profile as it is stored."""
    return Profile(owner=agent.owner, mission=agent.mission, review_on=agent.review_on)


def create(
    *, tenant: str, agent_id: str, role: AgentRole, profile: Profile, at: datetime
) -> tuple[Agent, events.AgentRegistered]:
    """Store an agent that may propose nothing yet, in the caller's transaction; with the entry to append."""
    agent = Agent.objects.create(
        tenant=tenant,
        agent_id=agent_id,
        role=role.value,
        owner=profile.owner,
        mission=profile.mission,
        review_on=profile.review_on,
        created_at=at,
    )
    return agent, events.AgentRegistered(agent_id=agent_id, role=role, owner=profile.owner)


def register(*, tenant: str, agent_id: str, role: str, profile: Profile, actor: str) -> Agent | Problem:
    """A new agent without a manifest; 409 where the id is taken, 422 with a violation for each field."""
    wrong = []
    try:
        _AGENT_ID.validate_python(agent_id, strict=True)
    except ValidationError:
        said = "An id is up to 64 letters, digits, dots, - and _, and begins with a letter or a digit."
        wrong.append(Violation(pointer="agent_id", message=said))
    if role not in AgentRole.values():
        wrong.append(Violation(pointer="role", message="Choose one of the listed roles."))
    wrong += _profile_violations(profile, before=None)
    if wrong:
        return _unfit("The agent was not registered.", wrong)

    def work() -> Agent | Problem:
        if Agent.objects.of(tenant).filter(agent_id=agent_id).exists():
            said = f"An agent already has the id {agent_id}. Choose another id."
            return Problem(code=ProblemCode.AGENT_EXISTS, detail=said)
        at = clock.now()
        agent, registered = create(
            tenant=tenant, agent_id=agent_id, role=AgentRole(role), profile=profile, at=at
        )
        _append(agent, actor, at, registered)
        return agent

    return transactions.retry_on_conflict(work)


@transactions.retried
def edit(*, tenant: str, agent_id: str, seen: Profile, wanted: Profile, actor: str) -> Agent | Problem:
    """Update an agent's profile. `seen` is what the editor saw: 409 where someone else has changed it since.

    Another owner waits for another admin where there is one; everything else is changed at once.
    """
    agent = agents.lock_by_name(tenant=tenant, agent_id=agent_id)
    if isinstance(agent, Problem):
        return agent
    before = profile_of(agent)
    if wrong := list(_profile_violations(wanted, before=before)):
        return _unfit("Nothing was changed.", wrong)
    if before == wanted:
        return agent
    if before != seen:
        said = "Someone else changed this agent. Review it again before you change it."
        return Problem(code=ProblemCode.AGENT_MOVED, detail=said)
    at = ledger.time_of_next(tenant=tenant, stream=actors.agent(agent_id), at=clock.now())
    added: Sequence[events.Event] | Problem = ()
    if wanted.owner != before.owner:
        added = ownership.ask(agent=agent, owner=wanted.owner, actor=actor, at=at)
    if isinstance(added, Problem):
        return added
    agent.mission, agent.review_on = wanted.mission, wanted.review_on
    agent.save(update_fields=["mission", "review_on"])
    after = profile_of(agent)
    if after != before:  # else another owner was asked for, and nothing else
        edited = events.AgentEdited(
            agent_id=agent.agent_id,
            owner_before=before.owner,
            owner_after=after.owner,
            mission_before=before.mission,
            mission_after=after.mission,
            review_before=before.review_text,
            review_after=after.review_text,
        )
        added = (*added, edited)
    _append(agent, actor, at, *added)
    return agent


def _profile_violations(wanted: Profile, *, before: Profile | None) -> list[Violation]:
    """What is wrong with a profile. An owner that stays is not looked up: a pack may have named anybody."""
    found = []
    stays = before is not None and before.owner == wanted.owner
    if not stays and not _is_owner(wanted.owner):
        said = "No active user and no group has this name. Choose one from the list."
        found.append(Violation(pointer="owner", message=said))
    if not 0 < len(wanted.mission) <= LONGEST_MISSION or "\x00" in wanted.mission:
        said = f"Describe in at most {LONGEST_MISSION} characters what the agent is for."
        found.append(Violation(pointer="mission", message=said))
    return found


def _is_owner(name: str) -> bool:
    if not 0 < len(name) <= LONGEST_OWNER or "\x00" in name:
        return False
    if User.objects.filter(username=name, is_active=True).exists():
        return True
    return Group.objects.filter(name=name).exists()


def _unfit(detail: str, violations: list[Violation]) -> Problem:
    return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail, violations=tuple(violations))


def _append(agent: Agent, actor: str, at: datetime, *added: events.Event) -> None:
    stream = actors.agent(agent.agent_id)
    ledger.append_to(tenant=agent.tenant, stream=stream, actor=actor, at=at, events=added)
