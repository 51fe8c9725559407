"""A signed-in person with a browser's manners: cookies, a form's token, POST and redirect."""

import re
import secrets
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar

from bench.environment import Stand, manage


class Person:
    """An admin of a running console, or somebody of another role."""

    def __init__(self, ground: Stand, base_url: str, *, role: str = "admin") -> None:
        self._base_url, password = base_url, secrets.token_urlsafe(16)
        name = f"bench-{role}"
        manage(ground, "add_user", name, "--role", role, "--password-stdin", typed=password)
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies))
        self._token = self._form_token("/accounts/login/")
        self.post("/accounts/login/", login=name, password=password)
        self._token = self._form_token("/")

    def post(self, path: str, **fields: str) -> None:
        """Send a form, and read the page that it leads to. A refusal raises HTTPError."""
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": self._token, **fields}).encode()
        with self._opener.open(self._base_url + path, data=body, timeout=30) as answer:
            answer.read()

    def press(self, path: str, **fields: str) -> None:
        """Send a form and hear only that it was taken: the answer itself, not the page it leads to."""

        class Stay(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *args: object) -> None:
                return None

        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._cookies), Stay())
        body = urllib.parse.urlencode({"csrfmiddlewaretoken": self._token, **fields}).encode()
        try:
            opener.open(self._base_url + path, data=body, timeout=30).close()
        except urllib.error.HTTPError as answer:
            if answer.code != 302:
                raise

    def read(self, path: str) -> str:
        """A page."""
        with self._opener.open(self._base_url + path, timeout=30) as answer:
            page: str = answer.read().decode()
        return page

    def _form_token(self, path: str) -> str:
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', self.read(path))
        if found is None:
            raise RuntimeError(f"{path} has no form")
        return found[1]
