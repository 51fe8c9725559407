"""Sign-in: people are added by a person with the command `add_user`, never by a form that anyone can open."""

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedSignupAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """No open sign-up."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
