"""Who may lead an incident or owe an action: active people who may work on incidents."""

from django.contrib.auth import get_user_model

from audit.access.roles import HOLDERS, Permission


def list_people() -> list[tuple[int, str]]:
    """Primary key and username, by name."""
    groups = [role.value for role in HOLDERS[Permission.WORK_INCIDENTS]]
    rows = get_user_model().objects.filter(is_active=True, groups__name__in=groups)
    return list(rows.order_by("username").values_list("pk", "username").distinct())
