"""Roles, and the decorators that say whom a view admits."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory

from audit.access import permissions, roles
from audit.access.roles import Permission, Role
from tests.architecture import tree
from tests.support.live_people import person

pytestmark = pytest.mark.django_db


def page(request: HttpRequest, number: int = 0) -> HttpResponse:
    """A page."""
    return HttpResponse(f"page {number}")


def asked(user: Any, *, method: str = "GET", path: str = "/flows/?state=OPEN", **headers: str) -> HttpRequest:
    request = RequestFactory(headers=headers).generic(method, path)
    request.user = user
    return request


def test_each_role_has_its_group() -> None:
    assert set(Group.objects.values_list("name", flat=True)) >= set(Role)


def test_roles_add_up_and_other_groups_are_none() -> None:
    user = person("ada", Role.OPERATOR, Role.ADMIN)
    user.groups.add(Group.objects.create(name="traders"))
    assert permissions.roles_of(user) == {Role.OPERATOR, Role.ADMIN}


@pytest.mark.parametrize("user", [None, AnonymousUser()])
def test_nobody_holds_no_role(user: Any) -> None:
    assert permissions.roles_of(user) == frozenset()


def test_the_deactivated_hold_no_role() -> None:
    user = person("ada", Role.OPERATOR)
    user.is_active = False
    assert permissions.roles_of(user) == frozenset()


def test_a_superuser_holds_no_role_by_that() -> None:
    user = person("root")
    user.is_superuser = True
    user.save()
    assert permissions.roles_of(user) == frozenset()


@pytest.mark.parametrize(
    ("held", "admitted"),
    [((Role.OPERATOR,), True), ((Role.SENIOR,), True), ((Role.AUDITOR,), False), ((), False)],
)
def test_any_role_that_has_the_permission_admits(held: tuple[Role, ...], admitted: bool) -> None:
    view = permissions.require(Permission.DECIDE)(page)
    request = asked(person("ada", *held))
    if admitted:
        assert view(request, number=7).status_code == 200
    else:
        with pytest.raises(PermissionDenied):
            view(request)


def test_any_role_admits_where_being_signed_in_is_enough() -> None:
    view = permissions.signed_in(page)
    assert view(asked(person("ada", Role.AUDITOR))).status_code == 200
    with pytest.raises(PermissionDenied):
        view(asked(person("eve")))


def test_everyone_is_admitted_to_what_is_public() -> None:
    assert permissions.public(page)(asked(AnonymousUser())).status_code == 200


def test_somebody_has_each_permission_and_a_view_asks_for_it() -> None:
    assert set(roles.HOLDERS) == set(roles.MEANINGS) == set(Permission)
    assert all(roles.HOLDERS.values())
    asked_for = "".join(tree.text(path) for path in tree.sources(*tree.APPS) if path.name != "roles.py")
    assert not [permission for permission in Permission if f"Permission.{permission}" not in asked_for]


def test_an_auditor_reads_and_starts_replays_which_change_nothing() -> None:
    allowed = [permission for permission in Permission if roles.allows([Role.AUDITOR], permission)]
    assert allowed == [Permission.RUN_REPLAYS]


def test_a_view_says_whom_it_admits_and_keeps_its_name() -> None:
    view = permissions.require(Permission.MANAGE_REGISTRY)(page)
    assert view.required_roles == frozenset({Role.ADMIN})
    assert getattr(view, "__name__", "") == "page"
    assert permissions.signed_in(page).required_roles == frozenset(Role)
    assert permissions.public(lambda request: HttpResponse()).required_roles is None


def test_the_anonymous_are_sent_to_sign_in_and_back() -> None:
    response = permissions.signed_in(page)(asked(AnonymousUser()))
    assert response.status_code == 302
    assert response.headers["Location"] == "/accounts/login/?next=/flows/%3Fstate%3DOPEN"


def test_after_an_anonymous_post_they_come_back_to_the_start() -> None:
    response = permissions.signed_in(page)(asked(AnonymousUser(), method="POST"))
    assert response.headers["Location"] == "/accounts/login/?next=/"


@pytest.mark.parametrize(
    ("current", "back"),
    [
        ({"HX-Current-URL": "http://testserver/flows/?q=1"}, "/flows/%3Fq%3D1"),
        ({"HX-Current-URL": "http://testserver/flows/"}, "/flows/"),
        ({"HX-Current-URL": "http://evil.example//evil.example/x"}, "/evil.example/x"),
        ({"HX-Current-URL": "http://["}, "/"),
        ({}, "/"),
    ],
)
def test_htmx_is_told_to_leave_the_page_for_sign_in(current: dict[str, str], back: str) -> None:
    headers = {"HX-Request": "true", **current}
    response = permissions.signed_in(page)(asked(AnonymousUser(), path="/flows/_rows/", **headers))
    assert response.status_code == 401
    assert response.headers["HX-Redirect"] == f"/accounts/login/?next={back}"


def test_there_is_one_tenant_so_far() -> None:
    assert permissions.tenant_of(person("ada")) == "default"
