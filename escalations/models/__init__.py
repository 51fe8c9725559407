"""Escalations, their frozen evidence, and the questions and decisions on them."""

from escalations.models.escalation import Decision, EffectStatement, Escalation, Evidence
from escalations.models.question import Question

__all__ = ["Decision", "EffectStatement", "Escalation", "Evidence", "Question"]
