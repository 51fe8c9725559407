"""Whether a person has put the tour of the console away; it comes back from the help page."""

from django.contrib.auth.models import User

from runtime.core import clock, transactions
from runtime.registry.models import HiddenTour


@transactions.retried
def hide(*, user: User) -> None:
    """Hide the tour from this person, in every browser, until they ask for it again."""
    HiddenTour.objects.get_or_create(user=user, defaults={"hidden_at": clock.now()})


@transactions.retried
def show(*, user: User) -> None:
    """Show the tour to this person again."""
    HiddenTour.objects.filter(user=user).delete()
