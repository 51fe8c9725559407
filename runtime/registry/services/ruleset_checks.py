"""What is wrong with the rulesets of a pack, and with kinds that name rulesets."""

from collections.abc import Iterator, Mapping

from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.pack import PackDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.ruleset import RulesetDocument
from runtime.kernel.rules import kind_linter
from runtime.kernel.rules import linter as expression_linter
from runtime.kernel.rules.scope import JUDGED
from runtime.kernel.rulesets import linter
from runtime.registry.queries import ruleset_versions
from runtime.registry.services.document_reading import DocumentProblem


def problems(pack: PackDocument, *, tenant: str) -> Iterator[DocumentProblem]:
    """Everything that keeps a pack with rulesets from being loaded."""
    names = [ruleset.name for ruleset in pack.rulesets]
    for at, ruleset in enumerate(pack.rulesets):
        for finding in linter.errors(ruleset):
            yield DocumentProblem(("rulesets", at, *finding.place), finding.message)
        if names.index(ruleset.name) != at:
            said = f"{ruleset.name} is already in this pack"
            yield DocumentProblem(("rulesets", at, "version"), said)
    named = {name for kind in pack.policy_kinds for name in kind.rulesets}
    known = {
        **ruleset_versions.list_documents(tenant=tenant, names=named),
        **{ruleset.name: ruleset for ruleset in pack.rulesets},
    }
    for at, kind in enumerate(pack.policy_kinds):
        for problem in kind_problems(kind, known):
            yield DocumentProblem(("policy_kinds", at, *problem.place), problem.message)


def lint(pack: PackDocument) -> Iterator[tuple[DocumentProblem, linter.RulesetFinding]]:
    """What the linter finds in the pack's rulesets, each with its place in the pack."""
    for at, ruleset in enumerate(pack.rulesets):
        for finding in linter.lint(ruleset):
            yield DocumentProblem(("rulesets", at, *finding.place), finding.message), finding


def warnings(pack: PackDocument) -> Iterator[str]:
    """What the authors of the rulesets should know."""
    for ruleset in pack.rulesets:
        for finding in linter.lint(ruleset):
            if finding.severity is LintSeverity.WARNING:
                yield f"{ruleset.name}: {finding.where}: {finding.message}"


def kind_problems(kind: KindDocument, known: Mapping[str, RulesetDocument]) -> Iterator[DocumentProblem]:
    """What is wrong with the rulesets that a kind names; places begin at the kind.

    The gate reads every feature itself, so each of them needs a `value`, over the kind's own names.
    """
    for at, name in enumerate(kind.rulesets):
        place = ("rulesets", at)
        ruleset = known.get(name)
        if ruleset is None:
            yield DocumentProblem(place, f"there is no ruleset {name}, neither in the pack nor registered")
            continue
        for feature, spec in ruleset.features.items():
            if spec.value is None:
                said = f"the feature {feature} of {name} has no value, which the gate needs to read it"
                yield DocumentProblem(place, said)
                continue
            if spec.max_age_s is not None:
                said = (
                    f"the gate does not know how old the feature {feature} of {name} is: leave out "
                    "max_age_s, and name its fact in required_evidence of the kind"
                )
                yield DocumentProblem(place, said)
            linted = expression_linter.lint(
                spec.value,
                names=JUDGED,
                params_schema=kind.params_schema,
                constraints_schema=kind.constraints_schema,
                namespaces=kind_linter.fact_namespaces(kind),
                figures=frozenset(figure.param for figure in kind.figures),
                most=linter.MAX_WORK,
            )
            for sentence in linted.found:
                yield DocumentProblem(place, f"the feature {feature} of {name}: {sentence}")
