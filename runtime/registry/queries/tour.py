"""Who has put the tour of the console away."""

from runtime.registry.models import HiddenTour


def is_hidden(*, user_pk: int) -> bool:
    """Whether this person does not want to see the tour."""
    return HiddenTour.objects.filter(pk=user_pk).exists()
