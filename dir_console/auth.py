"""Sign-in: an admin invites people, or a shell adds them (`add_user`); no form that anyone can open does.

Wrong passwords are counted for one name from one address, so that a stranger closes the way in for nobody
else: not for the name elsewhere, not for other names at the same address. A browser in which the name has
signed in before is counted by itself, and so gets in beside a stranger at its own address too.

A password takes half a second to check: few are checked at once, and known browsers have their own line.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from allauth.account.adapter import DefaultAccountAdapter
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core import signing
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import salted_hmac

from audit import actors, events
from dir_console import addresses
from dir_console.crowds import Crowd
from runtime.core import transactions
from runtime.registry.services import signins

DEVICE_COOKIE: Final = "dir_device"
DEVICE_AGE_S: Final = 180 * 24 * 3600
# A browser that several people share remembers the last few of them.
NAMES_PER_DEVICE: Final = 8
_SALT: Final = "dir_console.auth.device"
# With two at once, the last of a line waits for about three seconds.
STRANGERS: Final = Crowd(at_once=2, waiting=10)
KNOWN: Final = Crowd(at_once=2, waiting=10)


@dataclass(frozen=True, slots=True)
class Device:
    """A browser in which people have signed in before: its own id, and a keyed hash of each name."""

    device_id: str
    names: tuple[str, ...] = ()

    def knows(self, name: str) -> bool:
        """Whether `name` has signed in here."""
        return _hash_of(name) in self.names

    def after(self, name: str) -> "Device":
        """The same browser, once `name` has signed in."""
        others = tuple(known for known in self.names if known != _hash_of(name))
        return Device(self.device_id, (_hash_of(name), *others)[:NAMES_PER_DEVICE])


class ConsoleAccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """No open sign-up, and limits that keep nobody out but who guesses."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """Where the browser is, seen through as many proxies as DIR_PROXY_DEPTH says."""
        return address_of(request)

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        """What wrong passwords are counted by: the name with the known browser, else with the address."""
        name = str(credentials.get("username", ""))
        device = device_of(request)
        if device.knows(name):
            return f"{_hash_of(name)}:device:{device.device_id}"
        if _is_signed_in_as(request, name):
            # Somebody gives their password again, in a browser that lost its cookie.
            return f"{_hash_of(name)}:session:{request.session.session_key}"
        return f"{_hash_of(name)}:address:{addresses.network_of(address_of(request))}"

    def authenticate(self, request: HttpRequest, **credentials: Any) -> AbstractBaseUser | None:
        """Checked, counted and recorded in turn: strangers can fill their own line only."""
        name = str(credentials.get("username", ""))
        is_known = device_of(request).knows(name) or _is_signed_in_as(request, name)
        with (KNOWN if is_known else STRANGERS).turn():
            found: AbstractBaseUser | None = super().authenticate(request, **credentials)
        return found

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            _record_failure(request, credentials, is_locked=True)
            raise

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        super().authentication_failed(request, **credentials)
        _record_failure(request, credentials, is_locked=False)

    def login(self, request: HttpRequest, user: AbstractBaseUser) -> None:
        """Recorded before anybody is in."""
        signins.record(events.UserSignedIn(user_id=user.pk), user_pk=user.pk)
        super().login(request, user)

    def logout(self, request: HttpRequest) -> None:
        pk = request.user.pk
        super().logout(request)
        if pk is not None:
            signins.record(events.UserSignedOut(user_id=pk), user_pk=pk)

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        """With its entry, or not at all."""

        def work() -> None:
            super(ConsoleAccountAdapter, self).set_password(user, password)
            changed = events.UserPasswordChanged(user_id=user.pk)
            signins.record(changed, user_pk=user.pk, stream=actors.user(user.pk))

        transactions.retry_on_conflict(work)

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **named: Any) -> HttpResponse:
        """Remember the browser beside what allauth does."""
        response: HttpResponse = super().post_login(request, user, **named)
        device = device_of(request).after(user.get_username())
        response.set_cookie(
            DEVICE_COOKIE,
            signing.dumps([device.device_id, *device.names], salt=_SALT),
            max_age=DEVICE_AGE_S,
            path="/accounts/",
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
        return response


def _record_failure(request: HttpRequest, credentials: Mapping[str, Any], *, is_locked: bool) -> None:
    """Somebody who is signed in and confirms their password is named; strangers are only counted."""
    user = getattr(request, "user", None)
    if user is not None and user.is_authenticated:
        failed = events.UserConfirmationFailed(user_id=user.pk, locked=is_locked)
        signins.record(failed, user_pk=user.pk)
    else:
        signins.count_failure(name=str(credentials.get("username", "")), is_locked=is_locked)


def _is_signed_in_as(request: HttpRequest, name: str) -> bool:
    user = getattr(request, "user", None)
    return user is not None and user.is_authenticated and _hash_of(user.get_username()) == _hash_of(name)


def device_of(request: HttpRequest) -> Device:
    """The browser as its signed cookie names it; a new one without a cookie of ours."""
    try:
        device_id, *names = signing.loads(
            request.COOKIES.get(DEVICE_COOKIE, ""), salt=_SALT, max_age=DEVICE_AGE_S
        )
    except signing.BadSignature:
        return Device(secrets.token_urlsafe(16))
    return Device(device_id, tuple(names))


def address_of(request: HttpRequest) -> str:
    """The client's address. Only what the deployment's own proxies wrote into X-Forwarded-For is believed.

    Each proxy adds the address it was called from at the end; what stands before that the client may invent.
    """
    seen = [part.strip() for part in request.headers.get("x-forwarded-for", "").split(",") if part.strip()]
    depth = settings.DIR_PROXY_DEPTH
    if 0 < depth <= len(seen):
        return _without_port(seen[-depth])
    return str(request.META.get("REMOTE_ADDR", ""))


def _without_port(text: str) -> str:
    """Some proxies write `192.0.2.1:4711` or `[2001:db8::1]:4711`; the port is a new one each time."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text


def _hash_of(name: str) -> str:
    """A name as it stands in counters and cookies: what people type there is sometimes a password."""
    return salted_hmac(_SALT, name.strip().lower(), algorithm="sha256").hexdigest()[:32]
