"""A view of the queue that a person saved under a name."""

from django.conf import settings
from django.db import models
from django.db.models import Q

MOST_VIEWS = 20
NAME_CHARS = 40
QUERY_CHARS = 2000


class SavedView(models.Model):
    """One person's name for a filter of the queue; `query` is the query string of its address.

    `position` counts from 1, and is what keeps a person from saving more than `MOST_VIEWS`.
    """

    tenant = models.CharField(max_length=64, default="default")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    position = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=NAME_CHARS)
    query = models.CharField(max_length=QUERY_CHARS)

    class Meta:
        ordering = ("user", "position")
        constraints = (
            models.UniqueConstraint(fields=("user", "name"), name="saved_view_name_once_per_person"),
            models.UniqueConstraint(fields=("user", "position"), name="saved_view_position_once_per_person"),
            models.CheckConstraint(
                condition=Q(position__gte=1, position__lte=MOST_VIEWS), name="saved_view_most_per_person"
            ),
            models.CheckConstraint(
                condition=~Q(name="") & ~Q(query=""), name="saved_view_has_name_and_query"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} of user {self.user_id}"
