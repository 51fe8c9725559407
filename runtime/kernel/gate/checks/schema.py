"""Do params and constraints fit the policy kind's JSON Schema? (DIR paper, 6.2, first layer)"""

from collections.abc import Iterable

from runtime.contracts.reasons import Reason
from runtime.contracts.verdict import Finding
from runtime.kernel import schemas, versions
from runtime.kernel.gate import findings
from runtime.kernel.gate.case import Case

NAME = "schema"


def check(case: Case) -> Iterable[Finding]:
    """INVALID_SCHEMA with a JSON pointer in the message; without a known kind the walk ends here."""
    kind = case.rules.kind
    asked = case.proposal.policy_version
    if kind is None:
        yield findings.fail(
            NAME, Reason.CAPABILITY_NOT_FOUND, f"No active policy kind is called {case.proposal.policy_kind}."
        )
        return
    if asked is not None and not versions.compatible(asked=asked, active=kind.version):
        yield findings.fail(
            NAME,
            Reason.VERSION_UNSUPPORTED,
            f"Version {asked} of {kind.kind} is not supported; {kind.version} is in force.",
        )
        return
    places = (
        ("/params", kind.params_schema, case.proposal.params),
        ("/execution_constraints", kind.constraints_schema, case.proposal.execution_constraints),
    )
    for prefix, json_schema, value in places:
        for violation in schemas.violations(json_schema, value):
            yield findings.fail(
                NAME, Reason.INVALID_SCHEMA, f"{prefix}{violation.pointer} {violation.message}"
            )
