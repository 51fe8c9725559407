"""What rules and the recommender said in a flow: advice that stands beside the verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.contracts.flow import Entry, Flow, Judged, NotThereError, Wanted
from audit.events import Kind

# Stored with the words, so that nobody can guess them by their digest; sent to nobody.
_SALT = "salt"


@dataclass(frozen=True, slots=True)
class Output:
    """A rule output, by its entry."""

    flow: Flow
    entry: Entry

    @property
    def id(self) -> str:
        """The id of the rule output."""
        return str(self.entry.payload["rule_output_id"])

    @property
    def document(self) -> Mapping[str, Any]:
        """What the ruleset said. Raises NotThereError where it cannot be shown."""
        return _plain(self.flow.document(self.entry.payload["output_digest"], "rule output"))


@dataclass(frozen=True, slots=True)
class Package:
    """A decision package, by its entry."""

    flow: Flow
    entry: Entry

    @property
    def id(self) -> str:
        """The id of the decision package."""
        return str(self.entry.payload["decision_id"])

    @property
    def document(self) -> Mapping[str, Any]:
        """The recommendation. Raises NotThereError where it cannot be shown."""
        return _plain(self.flow.document(self.entry.payload["package_digest"], "decision package"))

    @property
    def asked(self) -> Mapping[str, Any] | None:
        """What it was made from: objectives, options and what was known of them; None where it was erased."""
        return self.flow.find(self.entry.payload["input_digest"])

    @property
    def output(self) -> Output | None:
        """The rule output that it was built on; None without one."""
        built_on = self.entry.payload.get("rule_output_id")
        return next((each for each in list_outputs(self.flow) if each.id == built_on), None)

    @property
    def followed_by(self) -> list[str]:
        """The ids of the proposals that name it, oldest first."""
        return [each.proposal_id for each in self.flow.judgements if each.decision_id == self.id]


def list_outputs(flow: Flow) -> Sequence[Output]:
    """The rule outputs of a flow, oldest first."""
    return [Output(flow, entry) for entry in flow.of(Kind.RULES_EVALUATED)]


def list_packages(flow: Flow) -> Sequence[Package]:
    """The decision packages of a flow, oldest first."""
    return [Package(flow, entry) for entry in flow.of(Kind.DECISION_RECOMMENDED)]


def find_output(flow: Flow, wanted: Wanted) -> Output | None:
    """The rule output of this id, the one that the package of this id was built on, or the newest.

    None where the flow has none, and for the id of something else. Raises NotThereError for a package that
    was built on none.
    """
    outputs = list_outputs(flow)
    if not wanted.id:
        return outputs[-1] if outputs else None
    for package in list_packages(flow):
        if package.id == wanted.id:
            if package.output is None:
                raise NotThereError("This decision package was built on no rule output.")
            return package.output
    return next((each for each in outputs if each.id == wanted.id), None)


def find_package(flow: Flow, wanted: Wanted) -> Package | None:
    """The decision package of this id, the newest one built on the rule output of this id, or the newest.

    None where the flow has none, and for the id of something else. Raises NotThereError for a rule output
    that no package was built on.
    """
    packages = list_packages(flow)
    if not wanted.id:
        return packages[-1] if packages else None
    if any(each.id == wanted.id for each in list_outputs(flow)):
        built = [each for each in packages if each.entry.payload.get("rule_output_id") == wanted.id]
        if not built:
            raise NotThereError("No decision package was built on this rule output.")
        return built[-1]
    return next((each for each in packages if each.id == wanted.id), None)


def named_by(judged: Judged) -> Package | None:
    """The decision package that a proposal names; None for a proposal that names none."""
    named = judged.decision_id
    return next((each for each in list_packages(judged.flow) if each.id == named), None) if named else None


def list_objectives(flow: Flow, context_ref: str) -> list[str] | None:
    """What options were weighed by on a context, each objective once; None where nothing was."""
    names = list[str]()
    for package in list_packages(flow):
        asked = package.asked or {}
        if asked.get("context_id") == context_ref:
            names += [objective["id"] for objective in asked["objectives"]]
    return list(dict.fromkeys(names)) or None


def weights_of(package: Package | None) -> list[dict[str, Any]] | None:
    """The objectives with their weights, as the agent stated them; None where there is nothing to show."""
    asked = package.asked if package else None
    return (
        [{"objective": each["id"], "weight": each["weight"]} for each in asked["objectives"]]
        if asked
        else None
    )


def utilities_of(package: Package | None) -> list[dict[str, Any]] | None:
    """The utilities of each option, as the agent stated them; None where there is nothing to show."""
    asked = package.asked if package else None
    return (
        [{"option": each["id"], "utilities": each["utilities"]} for each in asked["options"]]
        if asked
        else None
    )


def consultations_of(package: Package | None) -> list[dict[str, Any]]:
    """Who was consulted before a package, and what they said: claims; nobody where there is no package."""
    return list(package.document["consultations"]) if package else []


def consultation_nodes(package: Package) -> Iterator[dict[str, Any]]:
    """The consultations of a package; the question and what was left out of it are in its conversation."""
    for consulted in consultations_of(package):
        yield {
            "node_id": f"consultation:{consulted['consultation_id']}",
            "provider": consulted["provider"],
            "prompts": None,
            "redactions": ["utilities", "confidence"],
            "consensus": str(
                consulted["consensus_metrics"]["choice"] or consulted["consensus_metrics"]["state"]
            ),
        }


def rule_nodes(output: Output) -> Iterator[dict[str, Any]]:
    """The rules of a ruleset that matched, and its guardrails that were triggered, each once."""
    said = output.document
    fired = [
        (match["rule_id"], match["rule_version"], match["justification"]) for match in said["matches"]
    ] + [
        (guard["invariant_id"], said["ruleset_version"], guard["detail"])
        for guard in said["guardrails_triggered"]
    ]
    for rule_id, (version, reason) in {name: (version, reason) for name, version, reason in fired}.items():
        yield {
            "node_id": f"rule:{output.id}/{rule_id}",
            "rule_id": rule_id,
            "rule_version": version,
            "fired": True,
            "reason": reason,
        }


def _plain(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != _SALT}
