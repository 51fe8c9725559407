"""Two public frameworks, requirement by requirement: what here serves it, and what does not.

In our own words. An organisation that runs the product has to do what is not covered, and more than this:
nothing here is legal advice.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Cover(StrEnum):
    """How far a requirement is served."""

    COVERED = "covered"
    PARTLY = "partly"
    NOT_COVERED = "not covered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """A requirement; `served_by` are items of a run, `pages` are pages of docs/, `how` says the rest."""

    ref: str
    asks: str
    cover: Cover
    how: str
    served_by: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The requirement as it is sent."""
        return {
            "ref": self.ref,
            "asks": self.asks,
            "cover": self.cover.value,
            "how": self.how,
            "served_by": list(self.served_by),
            "pages": list(self.pages),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """A framework, by its name, with all of its requirements that were looked at."""

    name: str
    about: str
    requirements: tuple[Requirement, ...]


def _covered(ref: str, asks: str, how: str, served_by: tuple[str, ...], *pages: str) -> Requirement:
    return Requirement(ref=ref, asks=asks, cover=Cover.COVERED, how=how, served_by=served_by, pages=pages)


def _partly(ref: str, asks: str, how: str, served_by: tuple[str, ...], *pages: str) -> Requirement:
    return Requirement(ref=ref, asks=asks, cover=Cover.PARTLY, how=how, served_by=served_by, pages=pages)


def _not(ref: str, asks: str, how: str) -> Requirement:
    return Requirement(ref=ref, asks=asks, cover=Cover.NOT_COVERED, how=how)


NIST: Final = Framework(
    name="NIST AI Risk Management Framework 1.0",
    about="The four functions with all of their categories.",
    requirements=(
        _partly(
            "GOVERN 1",
            "Policies, processes and practices for AI risks are in place, visible and carried out.",
            "What agents may do is written down as versions of manifests and policy kinds, which another "
            "admin must activate, and the gate carries them out. The organisation's own policy is not here.",
            ("invariant-1", "invariant-2", "dare-1"),
            "registry",
            "kinds",
        ),
        _partly(
            "GOVERN 2",
            "It is clear who is accountable, and people are trained and given the means.",
            "Roles, owners of agents, limits of authority, and who may not decide on what. Training is not "
            "here.",
            ("invariant-6",),
            "permissions",
            "escalations",
        ),
        _not(
            "GOVERN 3",
            "Diversity, equity, inclusion and accessibility have priority over the whole lifecycle.",
            "Pages follow WCAG 2.2 AA; nothing else here serves it.",
        ),
        _not(
            "GOVERN 4",
            "Teams have a culture that considers and communicates AI risk.",
            "A matter of the organisation.",
        ),
        _not(
            "GOVERN 5",
            "Those who are concerned with or affected by the system are heard.",
            "There is no way for people outside to give feedback.",
        ),
        _partly(
            "GOVERN 6",
            "Risks of software, data and services of third parties are governed.",
            "Targets are configured by name, called by the execution service alone, and cut off when they "
            "fail; dependencies are pinned by hash. Contracts and assessments of third parties are not here.",
            ("dare-2", "bypass-egress", "bypass-imports"),
            "execution",
            "routes",
        ),
        _partly(
            "MAP 1",
            "The context is established: purpose, users, laws, assumptions, tolerance of risk.",
            "Each agent has a mission and an owner, each kind a description, a risk tier, bounds and red "
            "lines.",
            (),
            "registry",
            "kinds",
        ),
        _partly(
            "MAP 2",
            "The system is categorised: its tasks, its methods, the limits of its knowledge.",
            "Tasks are kinds with categories. Of methods and knowledge only what a manifest states of the "
            "model is known.",
            ("readiness-1",),
            "kinds",
        ),
        _partly(
            "MAP 3",
            "Capabilities, intended use, benefits, costs, and processes for human oversight are understood.",
            "Human oversight is defined for each kind: approval mode, limits, who may decide. Benefits and "
            "costs are not assessed.",
            ("dare-5", "invariant-6"),
            "escalations",
        ),
        _not(
            "MAP 4",
            "Risks and benefits of all parts are mapped, those of third parties included.",
            "The product contains no model, and assesses none.",
        ),
        _not(
            "MAP 5",
            "Impacts on individuals, groups, society and the environment are described.",
            "The impact of a proposal is a category of its kind, not an assessment of those concerned.",
        ),
        _partly(
            "MEASURE 1",
            "Methods and metrics are chosen and applied.",
            "Metrics for monitoring, reports on records, replay health, and this run.",
            ("dare-3", "readiness-3"),
            "records",
            "operations",
        ),
        _partly(
            "MEASURE 2",
            "The system is evaluated for trustworthiness: valid, safe, secure, accountable, explained, "
            "private, fair.",
            "Accountability, explanation of decisions, security of the path to targets, and privacy of the "
            "record are tried here. Validity and fairness of models are not measured.",
            ("readiness-1", "readiness-2", "readiness-4", "dare-4", "bypass-egress"),
            "gate",
            "ledger",
        ),
        _partly(
            "MEASURE 3",
            "There are ways to track risks over time.",
            "Soft guards flag proposals for review, silent agents are noticed, denials are counted by rule.",
            ("readiness-5",),
            "guards",
            "watchdog",
        ),
        _partly(
            "MEASURE 4",
            "It is checked whether measuring works, with feedback of those concerned.",
            "The console shows which rules and agents ask people for nothing. People give feedback on "
            "records, and what they allow again and again is proposed as a rule, which somebody else "
            "activates. Whether the measures themselves are the right ones, nobody is asked.",
            ("readiness-6",),
            "escalations",
        ),
        _covered(
            "MANAGE 1",
            "Risks are prioritised, responded to and managed by their impact.",
            "What crosses a bound goes to people by impact and deadline; what nobody decides does not run.",
            ("invariant-5", "dare-5"),
            "escalations",
        ),
        _partly(
            "MANAGE 2",
            "Negative impacts are kept small, and the system can be superseded, disengaged or deactivated.",
            "Stop all, stop of an agent, and undo of what was done. The benefits are not managed.",
            ("invariant-2", "invariant-3"),
            "stopping",
            "execution",
        ),
        _partly(
            "MANAGE 3",
            "Risks of third parties are monitored and managed.",
            "Circuits, tests and routes of targets.",
            ("bypass-egress",),
            "routes",
        ),
        _partly(
            "MANAGE 4",
            "Response, recovery and communication are planned, documented and monitored.",
            "Incidents keep their whole trace, a restored backup runs nothing again, people are notified. "
            "Plans of the organisation are not here.",
            ("readiness-5", "invariant-4"),
            "operations",
            "notifications",
        ),
    ),
)
AI_ACT: Final = Framework(
    name="EU AI Act, articles 12 and 14",
    about="Record-keeping and human oversight of high-risk AI systems (Regulation (EU) 2024/1689).",
    requirements=(
        _covered(
            "Art. 12 (1)",
            "The system records events automatically over its lifetime.",
            "Every change and its entry are one transaction, and what cannot be recorded does not happen.",
            ("invariant-4", "dare-4", "triggers"),
            "ledger",
            "events",
        ),
        _partly(
            "Art. 12 (2) (a)",
            "Records let situations be identified in which the system may present a risk or was "
            "substantially modified.",
            "Denials, escalations, failures, and every version of the rules. A change of the model is known "
            "only as far as a manifest names it.",
            ("readiness-1", "readiness-5"),
            "records",
        ),
        _partly(
            "Art. 12 (2) (b)",
            "Records support monitoring after the system was placed on the market.",
            "Search, reports, the audit API and evidence packs. A plan for it is the provider's.",
            ("readiness-3", "dare-3"),
            "audit-api",
            "records",
        ),
        _covered(
            "Art. 12 (2) (c)",
            "Records let the deployer monitor how the system works.",
            "Timelines, queue, metrics and verification while the server is running.",
            ("dare-4", "readiness-2"),
            "operations",
            "replay",
        ),
        _not(
            "Art. 12 (3)",
            "For remote biometric identification: each use, the reference database, the matched input, who "
            "verified it.",
            "Not what the product is for.",
        ),
        _covered(
            "Art. 14 (1)",
            "People can oversee the system effectively while it is in use, with fitting interfaces.",
            "The desk: what will happen, which limit was exceeded, on which facts, until when.",
            ("dare-5", "invariant-6"),
            "desk",
            "escalations",
        ),
        _partly(
            "Art. 14 (2)",
            "Oversight aims to prevent or minimise risks to health, safety and fundamental rights.",
            "Bounds and red lines of a kind are enforced before anything runs. Which of them serve these "
            "rights is the provider's to say.",
            ("invariant-5",),
            "gate",
        ),
        _covered(
            "Art. 14 (3)",
            "Measures fit the risk, the autonomy and the context; they are built in, or named for the "
            "deployer.",
            "Approval mode, limits, two people, limits of authority, set for each kind and role.",
            ("dare-5", "dare-1"),
            "kinds",
            "escalations",
        ),
        _partly(
            "Art. 14 (4) (a)",
            "They understand what the system can and cannot do, and notice anomalies and failures.",
            "Soft guards, silent agents, circuits, drift of facts. What the model itself can do is not "
            "known here.",
            ("readiness-1",),
            "guards",
            "watchdog",
        ),
        _partly(
            "Art. 14 (4) (b)",
            "They stay aware of the tendency to rely on the output too much.",
            "People who decide fast or always alike are asked what they checked, and can pause; the agent's "
            "words are shown last, as a claim.",
            ("invariant-7",),
            "escalations",
        ),
        _partly(
            "Art. 14 (4) (c)",
            "They interpret the output correctly.",
            "The effect in a sentence, the expected changes, units, and the evidence with its age.",
            ("invariant-7",),
            "escalations",
            "desk",
        ),
        _covered(
            "Art. 14 (4) (d)",
            "They can decide not to use it, or disregard, override or reverse its output.",
            "Abort, modify, take back; steps that were done are undone where the target allows it.",
            ("dare-5", "invariant-6"),
            "escalations",
            "execution",
        ),
        _covered(
            "Art. 14 (4) (e)",
            "They can intervene, or interrupt the system by a stop button, so that it halts in a safe state.",
            "Stop all, on every page; no call starts after it.",
            ("invariant-2",),
            "stopping",
        ),
        _partly(
            "Art. 14 (5)",
            "For remote biometric identification: two competent people verify before anything is done.",
            "Two people can be required for a kind or an impact, and neither sees what the other chose. "
            "Their competence is not checked.",
            ("dare-5",),
            "escalations",
        ),
    ),
)
FRAMEWORKS: Final = (NIST, AI_ACT)


def plain() -> list[dict[str, Any]]:
    """Both frameworks as they are sent."""
    return [
        {
            "name": framework.name,
            "about": framework.about,
            "requirements": [each.plain() for each in framework.requirements],
        }
        for framework in FRAMEWORKS
    ]
