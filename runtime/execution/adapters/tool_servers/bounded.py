"""Run as a script: set the limits of this process, and become the command that is named behind them.

`bounded.py CPU_SECONDS USER COMMAND [WORD...]`; an empty USER leaves it as it is. It imports nothing of the
product: it runs in a clean interpreter.
"""

import os
import pwd
import resource
import sys

_MEMORY = 2 * 1024**3  # of data; address space alone is no measure, since some runtimes reserve it by the way
_FILE = 64 * 1024**2
_FILES = 256


def main() -> None:
    """Limit and replace this process."""
    cpu_s = int(sys.argv[1])
    limits = (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_DATA, _MEMORY),
        (resource.RLIMIT_FSIZE, _FILE),
        (resource.RLIMIT_NOFILE, _FILES),
    )
    for which, most in limits:
        _, hard = resource.getrlimit(which)
        lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(which, (lowest, lowest))
    os.umask(0o077)
    if sys.argv[2]:
        user = pwd.getpwnam(sys.argv[2])
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    _become(sys.argv[3:])


def _become(words: list[str]) -> None:
    """Execute a command. `os.execvp` would import a module, which the user need not be able to read."""
    word = words[0]
    folders = [""] if "/" in word else os.environ.get("PATH", os.defpath).split(":")
    for folder in folders:
        try:
            os.execv(f"{folder}/{word}" if folder else word, words)  # noqa: S606  # words of the deployment
        except OSError:
            continue
    sys.exit(f"{word} cannot be executed")


if __name__ == "__main__":
    main()
