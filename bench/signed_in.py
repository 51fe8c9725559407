"""Sessions of many people of a stand, made without a password each: a password check takes half a second.

Run as `python -m bench.signed_in COUNT ROLE` in the environment of the stand; prints session keys as JSON.
"""

import json
import os
import subprocess
import sys
import time

from bench.environment import ROOT, Stand

AHEAD_S = 3600


def sessions(stand: Stand, count: int, *, role: str) -> list[str]:
    """Session keys of `count` new people of one role, whose password counts as given."""
    command = [sys.executable, "-m", "bench.signed_in", str(count), role]
    done = subprocess.run(command, cwd=ROOT, env=stand.environ, check=True, stdout=subprocess.PIPE, text=True)
    keys: list[str] = json.loads(done.stdout)
    return keys


def _sign_in(count: int, role: str) -> list[str]:
    from django.contrib.auth.models import Group, User
    from django.test import Client

    keys = []
    for number in range(count):
        user = User.objects.create_user(f"bench-{role}-{number}")
        user.groups.set(Group.objects.filter(name=role))
        browser = Client()
        browser.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
        session = browser.session
        # What a sign-in leaves behind. Decisions at high impact ask for one of the last five minutes, and the
        # bench takes longer: it is dated ahead.
        session["account_authentication_methods"] = [{"method": "password", "at": time.time() + AHEAD_S}]
        session["account_authentication_methods_user"] = str(user.pk)
        session.save()
        keys.append(str(session.session_key))
    return keys


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dir_console.settings")
    import django

    django.setup()
    print(json.dumps(_sign_in(int(sys.argv[1]), sys.argv[2])))
