"""Parts of the decision page that are the same for everybody, each drawn once."""

from django import template
from django.template.loader import render_to_string

from escalations.views.decision_form import ActionChoice
from escalations.views.evidence_page import FactRow
from runtime.core.views.kept import kept

register = template.Library()

MOST_CHOICES = 512
MOST_FACTS = 2048
MOST_CHECKED = 256


@register.simple_tag
@kept(MOST_CHOICES)
def choice(choice: ActionChoice) -> str:
    """One action of the form: what it says hangs on the kind of escalation, not on which one it is."""
    return render_to_string("escalations/_choice.html", {"choice": choice})


@register.simple_tag
@kept(MOST_CHECKED)
def passed_checks(names: tuple[str, ...]) -> str:
    """The checks that were passed: nearly all that a kind has, so most of its escalations say the same."""
    return render_to_string("escalations/_passed.html", {"names": names})


@register.simple_tag
@kept(MOST_FACTS)
def fact_cells(fact: FactRow) -> str:
    """The cells of a fact that no time changes; the same version of a fact is shown by many escalations."""
    return render_to_string("escalations/_fact_cells.html", {"fact": fact})
