"""Escalations, their evidence, the questions and decisions on them, who is told, and saved views."""

from escalations.models.escalation import Decision, EffectStatement, Escalation, Evidence
from escalations.models.note import Note, NoteMention
from escalations.models.notification import Notice, NotificationRoute
from escalations.models.question import Question
from escalations.models.saved_view import SavedView

__all__ = [
    "Decision",
    "EffectStatement",
    "Escalation",
    "Evidence",
    "Note",
    "NoteMention",
    "Notice",
    "NotificationRoute",
    "Question",
    "SavedView",
]
