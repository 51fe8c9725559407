"""What was read of a draft's text, whatever document it is a draft of."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from runtime.contracts.document import Contract
from runtime.contracts.lint_severity import LintSeverity
from runtime.contracts.problem import Problem, Violation
from runtime.contracts.problem_codes import ProblemCode

Document = TypeVar("Document", bound=Contract)


@dataclass(frozen=True, slots=True)
class LintMessage:
    """One thing about a draft's text: its line, its field as people write it, and a plain sentence.

    `place` is the field as the document has it, so that a form can show the sentence there.
    """

    line: int
    field: str
    message: str
    severity: LintSeverity
    place: tuple[str | int, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether it keeps the draft from being saved."""
        return self.severity is LintSeverity.ERROR


@dataclass(frozen=True, kw_only=True)
class LintResult(Generic[Document]):
    """A draft's text as it was read; `contract` is None where it is no such document at all."""

    contract: Document | None
    remarks: tuple[LintMessage, ...]

    @property
    def is_sound(self) -> bool:
        """Whether it may be saved."""
        return self.contract is not None and not any(remark.is_wrong for remark in self.remarks)

    def refusal(self, *, code: ProblemCode) -> Problem:
        """Why it is not saved, each wrong field with its sentence."""
        return Problem(
            code=code,
            detail="The draft was not saved. Correct the problems listed and save it again.",
            violations=tuple(
                Violation(pointer=remark.field, message=remark.message)
                for remark in self.remarks
                if remark.is_wrong
            ),
        )
