"""Drafts made of precedents: a StrategyRule is a draft like any other, with an entry of what it rests on.

Nothing comes into force here. The draft is tried on past proposals on its own page, and another person
activates it; what became of it is the state of that version.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from audit import actors, ledger, queries
from audit.events import Kind, StrategyRuleProposed
from escalations import precedents
from escalations.precedents import LIMITS, Change, Precedent
from escalations.services import precedent_cases
from runtime.contracts.kind_types import OnFail
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import KindState, ManifestState
from runtime.core import clock, transactions
from runtime.core.ids import new_id
from runtime.kernel import versions
from runtime.registry.models import Agent
from runtime.registry.queries import granted_kinds, kind_versions, manifest_versions, version_states
from runtime.registry.services import agents, document_writing, kinds, manifests

# An entry names the newest ones; the precedent itself may rest on more.
MOST_RECORDS: Final = 50
_OF_MANIFEST: Final = re.compile(r"manifest\.limits\.([A-Za-z_][A-Za-z0-9_]*)")
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_MOVED: Final = "The cases are no longer those that were shown. Look at them again, then draft."


class Place(StrEnum):
    """The document that a change is drafted in."""

    MANIFEST = "manifest"
    POLICY_KIND = "policy_kind"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draftable:
    """A change that can be drafted: in which document (`name` is that agent or kind), from what to what."""

    place: Place
    name: str
    field: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A precedent, and the change that would follow it."""

    precedent: Precedent
    change: Draftable


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRule:
    """A draft that was made of a precedent. `state` is that of its version today, "" if that is gone."""

    at: datetime
    actor: str
    said: Mapping[str, Any]
    state: str


def list_offers(*, tenant: str) -> list[Offer]:
    """The precedents of the last 90 days that today's rules do not follow yet."""
    found = precedents.find(precedent_cases.list_cases(tenant=tenant, now=clock.now()))
    offers = ((each, change_of(tenant, each)) for each in found)
    return [Offer(precedent=each, change=change) for each, change in offers if change is not None]


def get_offer(*, tenant: str, digest: str) -> Offer | None:
    """The one with this digest; None where the cases or the rules have changed since it was shown."""
    return next((offer for offer in list_offers(tenant=tenant) if offer.precedent.digest == digest), None)


def list_proposed(*, tenant: str) -> list[StrategyRule]:
    """What was drafted of precedents, the newest first."""
    told = queries.list_acts_of_kind(tenant=tenant, kind=Kind.STRATEGY_RULE_PROPOSED)
    return [
        StrategyRule(at=at, actor=actor, said=said, state=_state_of(tenant, said))
        for at, actor, said in reversed(told)
    ]


def propose(*, tenant: str, digest: str, actor: str) -> StrategyRuleProposed | Problem:
    """Draft what the precedent that was shown proposes; 409 where it is no longer the one that was shown.

    A form sent twice, or by two people, drafts once: the earlier entry is returned while its draft waits.
    """
    # A thousand cases are read here, during which no one else could write.
    offer = get_offer(tenant=tenant, digest=digest)
    if offer is None:
        return Problem(code=ProblemCode.PRECEDENT_MOVED, detail=_MOVED)
    return _propose(tenant=tenant, offer=offer, actor=actor)


@transactions.retried
def _propose(*, tenant: str, offer: Offer, actor: str) -> StrategyRuleProposed | Problem:
    locked = _lock(tenant, offer.change)
    if locked is not None:
        return locked
    earlier = _open_draft(tenant, offer.precedent.digest)
    if earlier is not None:
        return earlier
    if change_of(tenant, offer.precedent) != offer.change:
        return Problem(code=ProblemCode.PRECEDENT_MOVED, detail=_MOVED)
    drafted = _draft(tenant, offer, actor)
    if isinstance(drafted, Problem):
        return drafted
    found, change = offer.precedent, offer.change
    event = StrategyRuleProposed(
        rule_id=str(new_id()),
        change=found.change.value,
        decision_key=found.kind,
        finding=found.rule,
        document=change.place.value,
        name=change.name,
        version=drafted,
        value_before=change.before,
        value_after=change.after,
        cases=len(found.cases),
        people=found.people,
        record_ids=found.record_ids[-MOST_RECORDS:],
        digest=found.digest,
    )
    stream = actors.agent(change.name) if change.place is Place.MANIFEST else actors.SYSTEM
    ledger.append_to(tenant=tenant, stream=stream, actor=actor, at=clock.now(), events=[event])
    return event


def change_of(tenant: str, found: Precedent) -> Draftable | None:
    """The change that follows a precedent; None where today's rules follow it, or cannot be changed so."""
    row = kind_versions.get_active(tenant=tenant, kind=found.kind)
    if row is None:
        return None
    kind = kind_versions.contract_of(row)
    if found.change is Change.REJECT_AT_ONCE:
        return _reject(kind, found)
    source = next((limit.limit.strip() for limit in kind.limits if limit.id == found.rule), "")
    if named := _OF_MANIFEST.fullmatch(source):
        return _raise_in_manifest(tenant, found, named[1])
    if _NUMBER.fullmatch(source):
        place = f"limits.{found.rule}.limit"
        return _raised(Place.POLICY_KIND, found.kind, place, before=int(source), up_to=found.up_to)
    return None


def _reject(kind: KindDocument, found: Precedent) -> Draftable | None:
    if found.check == LIMITS:
        asked = [limit.on_exceed for limit in kind.limits if limit.id == found.rule]
        field = f"limits.{found.rule}.on_exceed"
    else:
        asked = [rule.on_fail for rule in kind.rules if rule.id == found.rule]
        field = f"rules.{found.rule}.on_fail"
    if asked != [OnFail.ESCALATE]:
        return None
    return Draftable(
        place=Place.POLICY_KIND,
        name=found.kind,
        field=field,
        before=OnFail.ESCALATE.value,
        after=OnFail.REJECT.value,
    )


def _raise_in_manifest(tenant: str, found: Precedent, name: str) -> Draftable | None:
    agent = Agent.objects.of(tenant).filter(agent_id=found.agent_id).first()
    manifest = None if agent is None else granted_kinds.manifest_of(agent)
    before = None if manifest is None else manifest.limits.get(name)
    if not isinstance(before, int) or isinstance(before, bool):
        return None
    return _raised(Place.MANIFEST, found.agent_id, f"limits.{name}", before=before, up_to=found.up_to)


def _raised(place: Place, name: str, field: str, *, before: int, up_to: int | None) -> Draftable | None:
    if up_to is None or up_to <= before:
        return None
    return Draftable(place=place, name=name, field=field, before=str(before), after=str(up_to))


def _lock(tenant: str, change: Draftable) -> Problem | None:
    if change.place is Place.MANIFEST:
        agent = agents.lock_by_name(tenant=tenant, agent_id=change.name)
        return agent if isinstance(agent, Problem) else None
    kind_versions.lock_versions(tenant=tenant, kind=change.name)
    return None


def _draft(tenant: str, offer: Offer, actor: str) -> str | Problem:
    """Save the next version with the one change; its number, or why not."""
    change = offer.change
    _, name, *rest = change.field.split(".")
    if change.place is Place.MANIFEST:
        agent = Agent.objects.of(tenant).get(agent_id=change.name)
        active = granted_kinds.manifest_of(agent)
        if active is None:
            return Problem(code=ProblemCode.PRECEDENT_MOVED, detail=_MOVED)
        following = versions.following(manifest_versions.list_names(agent=agent))
        limits = {**active.limits, name: int(change.after)}
        text = document_writing.as_yaml(active.model_copy(update={"version": following, "limits": limits}))
        saved = manifests.draft(tenant=tenant, agent_id=change.name, text=text, actor=actor)
        return saved if isinstance(saved, Problem) else saved.version
    row = kind_versions.get_active(tenant=tenant, kind=change.name)
    if row is None:
        return Problem(code=ProblemCode.PRECEDENT_MOVED, detail=_MOVED)
    kind = kind_versions.contract_of(row)
    following = versions.following(kind_versions.list_version_names(tenant=tenant, kind=change.name))
    update: dict[str, Any] = {"version": following, **_changed(kind, change.field, name, rest, change.after)}
    text = document_writing.as_yaml(kind.model_copy(update=update))
    drafted = kinds.draft(tenant=tenant, text=text, actor=actor, kind=change.name)
    return drafted if isinstance(drafted, Problem) else drafted.version


def _changed(kind: KindDocument, field: str, name: str, rest: list[str], after: str) -> dict[str, Any]:
    """The list of the kind in which one item has another value."""
    held, (member,) = field.partition(".")[0], rest
    value = OnFail(after) if member in ("on_exceed", "on_fail") else after
    return {
        held: tuple(
            item.model_copy(update={member: value}) if item.id == name else item
            for item in getattr(kind, held)
        )
    }


def _open_draft(tenant: str, digest: str) -> StrategyRuleProposed | None:
    """What was drafted of the same precedent before, while that draft waits."""
    told = queries.list_payloads_of_kind(tenant=tenant, kind=Kind.STRATEGY_RULE_PROPOSED)
    same = (said for _, said in told if said["digest"] == digest)
    waiting = next((said for said in same if _state_of(tenant, said) == KindState.DRAFT), None)
    return None if waiting is None else StrategyRuleProposed.model_validate(waiting)


def _state_of(tenant: str, said: Mapping[str, Any]) -> str:
    """The state of the version today; DRAFT, ACTIVE, SUPERSEDED and DISCARDED for both documents."""
    if said["document"] == Place.POLICY_KIND:
        kind = kind_versions.get_version(tenant=tenant, kind=said["name"], version=said["version"])
        return "" if kind is None else version_states.state_of(kind).value
    agent = Agent.objects.of(tenant).filter(agent_id=said["name"]).first()
    row = None if agent is None else manifest_versions.get_version(agent=agent, version=said["version"])
    if agent is None or row is None:
        return ""
    state: ManifestState = manifest_versions.state_of(row, active_id=agent.active_manifest_id)
    return state.value
