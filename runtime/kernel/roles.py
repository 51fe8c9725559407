"""What an agent's role lets its manifest hold: a MONITOR changes nothing, and only a STRATEGIST delegates."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import AgentRole


@dataclass(frozen=True, slots=True)
class Misfit:
    """A field of a manifest that its agent's role does not allow, and a plain sentence."""

    place: tuple[str | int, ...]
    message: str


def misfits(
    role: AgentRole, manifest: ManifestDocument, kinds: Mapping[str, KindDocument]
) -> Iterator[Misfit]:
    """Everything in a manifest that its agent's role does not allow; `kinds` are those that are known."""
    for at, name in enumerate(manifest.policy_kinds):
        if name in kinds and not may_hold(role, kinds[name]):
            said = f"{name} has steps, which change the world: a MONITOR only watches"
            yield Misfit(("policy_kinds", at), said)
    if manifest.may_delegate_to and not may_delegate(role):
        article = "an" if role is AgentRole.EXECUTOR else "a"
        said = f"only a STRATEGIST delegates; this agent is {article} {role.value}"
        yield Misfit(("may_delegate_to",), said)


def may_hold(role: AgentRole, kind: KindDocument) -> bool:
    """Whether an agent of this role may propose the kind."""
    return role is not AgentRole.MONITOR or not kind.steps


def may_delegate(role: AgentRole) -> bool:
    """Whether other agents may open flows under those of an agent of this role."""
    return role is AgentRole.STRATEGIST
