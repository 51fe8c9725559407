"""Do params and constraints fit the policy kind's JSON Schema? (DIR paper, 6.2, first layer)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel import versions
from runtime.kernel.gate import findings
from runtime.kernel.gate.gate_input import Case

NAME = "schema"


def check(case: Case) -> Iterable[Finding]:
    """INVALID_SCHEMA with a JSON pointer in the message; without a known, safe kind the walk ends here."""
    kind = case.rules.kind
    asked = case.proposal.policy_version
    if kind is None:
        yield findings.fail(
            NAME, Reason.CAPABILITY_NOT_FOUND, f"No active policy kind is called {case.proposal.policy_kind}."
        )
        return
    if case.facts.unsafe is not None:
        said = f"{kind.kind} {kind.version} is not evaluated until a new version is in force"
        yield findings.fail(NAME, Reason.KIND_UNSAFE, f"{said}: {case.facts.unsafe}.")
        return
    if asked is not None and not versions.compatible(asked=asked, active=kind.version):
        yield findings.fail(
            NAME,
            Reason.VERSION_UNSUPPORTED,
            f"Version {asked} of {kind.kind} is not supported; {kind.version} is in force.",
        )
        return
    for part, violation in case.misfits:
        yield findings.fail(NAME, Reason.INVALID_SCHEMA, f"{part}{violation.pointer} {violation.message}")
