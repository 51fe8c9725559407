"""How entries about soft guards, and about what people are asked to review, are shown."""

from collections.abc import Mapping
from typing import Final

from audit import sentences
from audit.events import Kind
from audit.lanes import Lane, Presenter
from audit.sentences import says

PRESENTERS: Final[Mapping[Kind, Presenter]] = {
    Kind.GUARD_CONFIGURED: Presenter(
        "shield", Lane.SYSTEM, "Soft guard configured", says("{guard_id}, a {guard} guard.")
    ),
    Kind.GUARD_SWITCHED: Presenter("shield", Lane.SYSTEM, "Soft guard switched", sentences.switched),
    Kind.GUARD_FAILED: Presenter(
        "help", Lane.VALIDATION, "Soft guard failed", says("{guard_id}, {tries} tries: {why}.")
    ),
    Kind.REVIEW_REQUESTED: Presenter(
        "high",
        Lane.VALIDATION,
        "Marked for review",
        says("It received memory {scope}/{key} version {version}: {reason}."),
    ),
    Kind.REVIEW_ROUTED: Presenter(
        "high",
        Lane.VALIDATION,
        "Marked for review",
        says("After {instruction}: {reason} The router {router} would have demanded {next}."),
    ),
    Kind.REVIEW_FLAGGED: Presenter("high", Lane.VALIDATION, "Flagged for review", sentences.flagged),
    Kind.REVIEW_CLOSED: Presenter("user", Lane.DECISION, "Review closed", sentences.review_closed),
}
