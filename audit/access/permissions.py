"""Who may see which page: roles are Django groups, and every view says aloud whom it admits.

A view without one of the three decorators has no `required_roles`; the URL map test refuses it.
"""

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Final, Protocol, cast
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import resolve_url

from audit import actors, statements
from audit.access import roles
from audit.access.roles import Permission, Role

DEFAULT_TENANT = "default"
_HELD = "_roles_of_this_request"

View = Callable[..., HttpResponseBase]


class GuardedView(Protocol):
    """A decorated view. `required_roles`: any one of these admits; None means open to everyone."""

    required_roles: frozenset[Role] | None

    def __call__(self, request: HttpRequest, /, *args: Any, **kwargs: Any) -> HttpResponseBase: ...


def roles_of(
    user: AbstractBaseUser | AnonymousUser | None, *, groups: Collection[str] | None = None
) -> frozenset[Role]:
    """The roles of a user as the database has them now; none for anonymous and deactivated users.

    `groups` are the names of the user's groups, where they have just been read.
    """
    if user is None or not user.is_authenticated or not user.is_active:
        return frozenset()
    names = _ROLES.rows(user_pk=user.pk) if groups is None else groups
    return frozenset(role for role in Role if role in names)


def _roles(*, user_pk: int) -> QuerySet[Group, str]:
    return Group.objects.filter(user=user_pk, name__in=list(Role)).values_list("name", flat=True)


_ROLES: Final = statements.Read(_roles)


def tenant_of(user: AbstractBaseUser | AnonymousUser) -> str:
    """The tenant whose rows the user sees. One installation serves one tenant so far."""
    return DEFAULT_TENANT


def actor_of(user: AbstractBaseUser | AnonymousUser) -> str:
    """The user as the ledger names whoever acts."""
    return actors.user(user.pk)


def held_by(user: AbstractBaseUser | AnonymousUser) -> frozenset[Role]:
    """The roles that the guard of this request has read; of another user, those that the database has now."""
    held: frozenset[Role] | None = getattr(user, _HELD, None)
    return roles_of(user) if held is None else held


def may(user: AbstractBaseUser | AnonymousUser, permission: Permission) -> bool:
    """Whether the user may do it, by `held_by`."""
    return roles.allows(held_by(user), permission)


def require(permission: Permission) -> Callable[[View], GuardedView]:
    """Admit users who have the permission; anonymous ones are sent to sign in, the rest get 403."""
    return _guard(roles.HOLDERS[permission])


def signed_in(view: View) -> GuardedView:
    """Admit any signed-in user who holds at least one role."""
    return _guard(frozenset(Role))(view)


def public(view: View) -> GuardedView:
    """Admit everyone."""
    guarded = cast(GuardedView, view)
    guarded.required_roles = None
    return guarded


def _guard(admitted: frozenset[Role]) -> Callable[[View], GuardedView]:
    def decorate(view: View) -> GuardedView:
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _to_sign_in(request)
            held = roles_of(request.user)
            if not admitted & held:
                raise PermissionDenied
            # A page asks for them several times, and the user of a request is read anew for each.
            setattr(request.user, _HELD, held)
            return view(request, *args, **kwargs)

        result = cast(GuardedView, guarded)
        result.required_roles = admitted
        return result

    return decorate


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """A redirect for pages; for htmx a 401 with HX-Redirect, or the form would be swapped into the page."""
    swapped = "HX-Request" in request.headers
    if swapped:
        back = _page_around(request.headers.get("HX-Current-URL", "/"))
    elif request.method in ("GET", "HEAD"):
        back = request.get_full_path()
    else:
        # The page of this site whose form was sent; the overview where the browser does not say.
        sent_from = request.headers.get("Referer", "")
        is_ours = sent_from.startswith(f"{request.scheme}://{request.get_host()}/")
        back = _page_around(sent_from) if is_ours else "/"
    target = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': back}, safe='/')}"
    if swapped:
        return HttpResponse(status=401, headers={"HX-Redirect": target})
    return HttpResponseRedirect(target)


def _page_around(address: str) -> str:
    """The page that holds the fragment, as a path of this site: the header is the browser's word only."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return "/"
    return "/" + parts.path.lstrip("/") + (f"?{parts.query}" if parts.query else "")
