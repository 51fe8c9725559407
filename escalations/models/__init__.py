"""Escalations, their frozen evidence, and the questions and decisions on them."""

from escalations.models.decision import Decision
from escalations.models.escalation import Escalation, Evidence
from escalations.models.question import Question
from escalations.models.statement import EffectStatement

__all__ = ["Decision", "EffectStatement", "Escalation", "Evidence", "Question"]
