"""Escalations, their frozen evidence, and the decisions on them."""

from escalations.models.decision import Decision
from escalations.models.escalation import Escalation, Evidence

__all__ = ["Decision", "Escalation", "Evidence"]
