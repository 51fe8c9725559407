"""How serious a finding of a linter is, whatever document it is about."""

from enum import StrEnum


class LintSeverity(StrEnum):
    """An error keeps a document from being stored; a warning needs a look, and information needs none."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
