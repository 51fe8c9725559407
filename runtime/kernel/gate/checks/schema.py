"""Do params and constraints fit the policy kind's JSON Schema? (DIR paper, 6.2, first layer)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel import schemas, versions
from runtime.kernel.gate import findings
from runtime.kernel.gate.case import Case, GateVersion
from runtime.kernel.rules import declared

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
    for violation in schemas.violations(kind.params_schema, case.proposal.params):
        yield _misfit("/params", violation)
    for violation in _constraints(case):
        yield _misfit("/execution_constraints", violation)


def _constraints(case: Case) -> Iterable[schemas.SchemaViolation]:
    json_schema, bounds = case.kind.constraints_schema, case.proposal.execution_constraints
    found = schemas.violations(json_schema, bounds)
    if not case.gate.has(GateVersion.V1_1):
        return found
    return sorted({*found, *declared.undeclared(json_schema, bounds)})[: schemas.MAX_VIOLATIONS]


def _misfit(prefix: str, violation: schemas.SchemaViolation) -> Finding:
    return findings.fail(NAME, Reason.INVALID_SCHEMA, f"{prefix}{violation.pointer} {violation.message}")
