"""Reading the environment: each function says what to do when a value is missing or wrong."""

import base64
import binascii
import json
import os
import pwd
import re
import secrets
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from audit import payload_cipher
from runtime.contracts.retention import FactClass, read_fact_classes
from runtime.contracts.token_issuer import LONGEST_ISSUER, TrustedIssuer

LEAST_SECRET_CHARS = 32
LOCK_WAIT_S = 5
# After so long PostgreSQL ends a statement, or a transaction in which nothing happens.
TRANSACTION_S = 30
SIGNING_KEY_FILE = "signing_key"
PAYLOAD_KEY_FILE = "payload_key"
LEAST_WEBHOOK_SECRET_BYTES = 24


def words(name: str, *, default: str = "") -> list[str]:
    """The comma-separated words of the variable `name`."""
    return [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]


def number(name: str, *, default: int, least: int) -> int:
    """The whole number in the variable `name`; refuses anything under `least`."""
    raw = os.environ.get(name, str(default))
    if not raw.isascii() or not raw.isdigit() or int(raw) < least:
        raise ImproperlyConfigured(f"{name} must be a whole number of at least {least}, not {raw!r}.")
    return int(raw)


def target_urls() -> dict[str, str]:
    """Addresses that override a pack's targets: DIR_TARGET_BROKER_URL is that of the target `broker`."""
    pattern = re.compile(r"DIR_TARGET_([A-Z0-9_]+)_URL")
    found = ((pattern.fullmatch(name), url) for name, url in os.environ.items())
    return {match[1].lower(): url for match, url in found if match and url}


@dataclass(frozen=True, kw_only=True)
class ToolCommand:
    """An MCP server that is a command: its words, and the variables of ours that it is given by name."""

    words: tuple[str, ...]
    variables: tuple[str, ...] = ()


def tool_user() -> str:
    """The user that commands of DIR_TOOL_COMMANDS run as, from DIR_TOOL_USER; a name that there is."""
    name = os.environ.get("DIR_TOOL_USER", "")
    if name:
        try:
            pwd.getpwnam(name)
        except (KeyError, ValueError):
            raise ImproperlyConfigured(f"DIR_TOOL_USER: this machine has no user {name!r}.") from None
    return name


def tool_commands() -> dict[str, ToolCommand]:
    """MCP servers over stdio, from DIR_TOOL_COMMANDS: `{"clock": {"command": ["clock"], "env": ["TZ"]}}`.

    Only here, never by a page, a pack or the API: whoever names a command runs it. A variable of this
    installation itself is given to none.
    """
    text = os.environ.get("DIR_TOOL_COMMANDS", "")
    if not text:
        return {}
    wrong = 'DIR_TOOL_COMMANDS must be JSON such as {"clock": {"command": ["mcp-server-time"], "env": []}}'
    try:
        given = json.loads(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{wrong}: {error}") from None
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"{wrong}.")
    return {name: _tool_command(name, declared, wrong=wrong) for name, declared in given.items()}


def _tool_command(name: str, declared: object, *, wrong: str) -> ToolCommand:
    members = declared if isinstance(declared, dict) else {}
    words, variables = members.get("command"), members.get("env", [])
    is_form = bool(members) and members.keys() <= {"command", "env"} and bool(words)
    if not (is_form and _are_words(words) and _are_words(variables)):
        raise ImproperlyConfigured(f"{wrong}. {name!r} is not one.")
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", name):
        raise ImproperlyConfigured(f"{wrong}. {name!r} is no name of a target.")
    for variable in variables:
        if variable.startswith("DIR_") or variable in {"DATABASE_URL", "REDIS_URL"}:
            said = f"DIR_TOOL_COMMANDS: {name} may not be given {variable}, which is of this installation."
            raise ImproperlyConfigured(said)
    return ToolCommand(words=tuple(words or ()), variables=tuple(variables))


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) and "\x00" not in word for word in value)


def public_url() -> str:
    """The address at which people open the console, from DIR_PUBLIC_URL, without a slash at the end."""
    given = os.environ.get("DIR_PUBLIC_URL", "").rstrip("/")
    if given and urlsplit(given).scheme not in {"http", "https"}:
        raise ImproperlyConfigured(f"DIR_PUBLIC_URL must begin with http:// or https://, not {given!r}.")
    return given


def data_dir(base: Path) -> Path:
    """The folder that holds everything an embedded install writes."""
    folder = Path(os.environ.get("DIR_DATA") or base / "var").resolve()
    # Sessions stand in its database: who reads that is signed in as everybody.
    make_private(folder)
    return folder


def make_private(folder: Path) -> None:
    """Make a folder where it is missing, and those above it: each can be read by its owner alone."""
    if not folder.exists():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def list_readable_by_others(folder: Path) -> list[Path]:
    """The folder and what lies directly in it, where other users of this machine may read it."""
    found = [folder, *sorted(path for path in folder.iterdir() if path.is_file())]
    return [path for path in found if path.stat().st_mode & 0o077]


def keep_secret_file(path: Path, content: str) -> str:
    """Create `path` once with `content`, readable by its owner only; return what it holds.

    Two processes may start together: the exclusive create decides which of them wrote it.
    """
    draft = draft_secret_file(path, content)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text().strip()


def draft_secret_file(path: Path, content: str) -> Path:
    """Write `content` beside `path`, readable by its owner only; the caller moves it there."""
    make_private(path.parent)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_text(content)
    return draft


def secret_key(folder: Path) -> str:
    """Django's signing key: from DIR_SECRET_KEY, or (SQLite only) made once in the data folder."""
    given = os.environ.get("DIR_SECRET_KEY", "")
    if given:
        if len(given) < LEAST_SECRET_CHARS:
            raise ImproperlyConfigured(
                f"DIR_SECRET_KEY is too short: give at least {LEAST_SECRET_CHARS} random characters."
            )
        return given
    if _is_production():
        raise ImproperlyConfigured(
            "DIR_SECRET_KEY is missing: production needs one that all processes share. "
            "Make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"
        )
    return keep_secret_file(folder / "secret_key", secrets.token_urlsafe(48))


def signing_key(folder: Path) -> str:
    """The seed of the runtime's signatures: DIR_SIGNING_KEY, or made once in the data folder."""
    given = os.environ.get("DIR_SIGNING_KEY", "")
    if given:
        return given
    if _is_production():
        raise ImproperlyConfigured(
            "DIR_SIGNING_KEY is missing: production needs one that all processes share. Make one with: "
            "python3 -c 'import base64, secrets; print(base64.b64encode(secrets.token_bytes(32)).decode())'"
        )
    return keep_secret_file(folder / SIGNING_KEY_FILE, base64.b64encode(secrets.token_bytes(32)).decode())


def payload_key(folder: Path) -> str:
    """The key that wraps the keys of payloads: DIR_PAYLOAD_KEY, or made once in the data folder.

    Empty in production that was given none: payloads are stored in clear until one is given. `none` is a
    process that can open no payload and write none, such as a check on another machine.
    """
    given = os.environ.get("DIR_PAYLOAD_KEY", "")
    if not given and _is_production():
        return ""
    how = "python3 -c 'import base64, secrets; print(base64.b64encode(secrets.token_bytes(32)).decode())'"
    made = base64.b64encode(secrets.token_bytes(payload_cipher.KEY_BYTES)).decode()
    text = given or keep_secret_file(folder / PAYLOAD_KEY_FILE, made)
    if text != payload_cipher.NO_KEY and payload_cipher.read_secret(text) is None:
        where = "DIR_PAYLOAD_KEY" if given else f"The file {folder / PAYLOAD_KEY_FILE}"
        raise ImproperlyConfigured(
            f"{where} must hold the base64 form of 32 random bytes, or the word none. Make one with: {how}"
        )
    return text


def mark(folder: Path) -> str:
    """Where the mark of the ledger lies: DIR_MARK, else beside the data folder, or in it on PostgreSQL.

    Never with the database: whoever restores that must not restore the mark as well.
    """
    if os.environ.get("DATABASE_URL", "").startswith("postgres"):
        return os.environ.get("DIR_MARK", str(folder / "ledger.mark"))
    return os.environ.get("DIR_MARK", str(folder.with_name(f"{folder.name}.mark")))


def witnesses(*, allow: Collection[str]) -> list[str]:
    """Where checkpoints are sent, from DIR_WITNESS: absolute paths of folders, and webhook URLs.

    `allow` holds the words of DIR_EGRESS_ALLOW: only what it names may be called without TLS. An error names
    the position of a value, since a URL may hold a token.
    """
    found = []
    for number, word in enumerate(words("DIR_WITNESS"), start=1):
        try:
            parts = urlsplit(word)
            port = parts.port or 80
        except ValueError:
            raise ImproperlyConfigured(f"DIR_WITNESS: value {number} is not a valid URL.") from None
        host = (parts.hostname or "").lower()
        if parts.scheme in {"https", "http"}:
            if not host or parts.username is not None or parts.password is not None:
                raise ImproperlyConfigured(
                    f"DIR_WITNESS: value {number} must have a host, and no user name or password in it."
                )
            shown = f"[{host}]" if ":" in host else host
            is_allowed = {host, shown, f"{shown}:{port}"} & {each.lower() for each in allow}
            if parts.scheme == "http" and not is_allowed:
                raise ImproperlyConfigured(
                    f"DIR_WITNESS: value {number} must begin with https, or DIR_EGRESS_ALLOW name its host."
                )
            found.append(word)
            continue
        is_file_url = parts.scheme == "file" and host in {"", "localhost"}
        path = unquote(parts.path) if is_file_url else word
        if not path.startswith("/") or "\0" in path:
            raise ImproperlyConfigured(
                f"DIR_WITNESS: value {number} is neither an absolute path (/mnt/witness) nor an https URL."
            )
        found.append(str(Path(path)))
    return list(dict.fromkeys(found))


def token_issuers(*, allow: Collection[str]) -> dict[str, TrustedIssuer]:
    """The issuers of tokens that agents may authenticate with, by their names, from DIR_TOKEN_ISSUERS.

    `{"https://login.example": {"audience": "dir-console", "keys": "https://login.example/jwks.json"}}`;
    `keys` may be the absolute path of a file, and `max_age_s` is 3600 seconds unless it is given.
    """
    text = os.environ.get("DIR_TOKEN_ISSUERS", "")
    wrong = (
        'DIR_TOKEN_ISSUERS must be JSON such as {"https://login.example": {"audience": "dir-console", '
        '"keys": "https://login.example/jwks.json", "max_age_s": 3600}}'
    )
    try:
        given = json.loads(text) if text else {}
    except ValueError as error:
        raise ImproperlyConfigured(f"{wrong}: {error}") from None
    if not isinstance(given, dict):
        raise ImproperlyConfigured(f"{wrong}.")
    return {name: _token_issuer(name, declared, allow=allow, wrong=wrong) for name, declared in given.items()}


def _token_issuer(name: str, declared: object, *, allow: Collection[str], wrong: str) -> TrustedIssuer:
    members = {"max_age_s": 3600, **declared} if isinstance(declared, dict) else {}
    texts = [name, members.get("audience"), members.get("keys")]
    max_age_s = members.get("max_age_s")
    is_form = members.keys() == {"audience", "keys", "max_age_s"} and all(
        isinstance(text, str) and 0 < len(text) <= LONGEST_ISSUER for text in texts
    )
    if not is_form or isinstance(max_age_s, bool) or not isinstance(max_age_s, int) or max_age_s < 1:
        raise ImproperlyConfigured(f"{wrong}. {name!r} is not one.")
    keys_at = str(members["keys"])
    if not keys_at.startswith("/") and not _is_private_enough(keys_at, allow=allow):
        raise ImproperlyConfigured(
            f"DIR_TOKEN_ISSUERS: the keys of {name!r} must be an https URL without a user name, an http URL "
            "whose host DIR_EGRESS_ALLOW names, or the absolute path of a file."
        )
    return TrustedIssuer(issuer=name, audience=str(members["audience"]), keys_at=keys_at, max_age_s=max_age_s)


def _is_private_enough(url: str, *, allow: Collection[str]) -> bool:
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port or 80
    except ValueError:
        return False
    shown = f"[{host}]" if ":" in host else host
    is_allowed = bool({host, shown, f"{shown}:{port}"} & {each.lower() for each in allow})
    is_whole = bool(host) and parts.username is None and parts.password is None
    return is_whole and (parts.scheme == "https" or (parts.scheme == "http" and is_allowed))


def events_folder() -> str:
    """The folder for files of events, from DIR_EVENTS_FOLDER: an absolute path, or empty."""
    folder = os.environ.get("DIR_EVENTS_FOLDER", "")
    if folder and (not folder.startswith("/") or "\0" in folder):
        raise ImproperlyConfigured(
            "DIR_EVENTS_FOLDER must be an absolute path, such as /var/log/dir-console."
        )
    return folder


def fact_classes() -> tuple[FactClass, ...]:
    """How long versions of facts are kept, from words such as `price.=30` in DIR_FACT_RETENTION."""
    try:
        return read_fact_classes(words("DIR_FACT_RETENTION"))
    except ValueError as error:
        raise ImproperlyConfigured(f"DIR_FACT_RETENTION cannot be read: {error}.") from error


def witness_secret(places: Sequence[str]) -> str:
    """The secret that signs what webhooks of DIR_WITNESS get; without a webhook it may be missing."""
    secret = os.environ.get("DIR_WITNESS_SECRET", "")
    if all(place.startswith("/") for place in places):
        return secret
    try:
        decoded = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if len(decoded) < LEAST_WEBHOOK_SECRET_BYTES:
        raise ImproperlyConfigured(
            "DIR_WITNESS names a webhook, so DIR_WITNESS_SECRET must hold the secret that signs its "
            f"requests: base64 of at least {LEAST_WEBHOOK_SECRET_BYTES} random bytes. Make one with: "
            "python3 -c 'import base64, secrets; "
            'print("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())\''
        )
    return secret


def _is_production() -> bool:
    """Several processes on several hosts share one database: nothing may be made up locally."""
    return os.environ.get("DATABASE_URL", "").startswith("postgres") and bool(os.environ.get("REDIS_URL"))


def database(folder: Path) -> dict[str, Any]:
    """Django's database settings from DATABASE_URL (postgres or sqlite), else SQLite in the folder."""
    url = os.environ.get("DATABASE_URL", "")
    parts = urlsplit(url)
    if parts.scheme in {"postgres", "postgresql"}:
        return _postgres(url)
    if url and parts.scheme != "sqlite":
        raise ImproperlyConfigured(
            f"DATABASE_URL starts with {parts.scheme!r}: use postgres://user@host/name, or none for SQLite."
        )
    make_private(folder)
    path = Path(unquote(parts.path)) if url else folder / "console.sqlite3"
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "CONN_MAX_AGE": None,  # opening one takes longer than what most requests ask of it
        "OPTIONS": {
            # Another process (a copy, a command) may have the file for so long; then the caller gets a 503.
            "timeout": LOCK_WAIT_S,
            "transaction_mode": "IMMEDIATE",  # DEFERRED fails with "database is locked"
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        },
        # One file per process: several test runs may share a data folder.
        "TEST": {"NAME": str(path.with_name(f"test-{os.getpid()}.sqlite3"))},
    }


def _postgres(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    name = parts.path.lstrip("/")
    if not name:
        raise ImproperlyConfigured("DATABASE_URL names no database: use postgres://user@host:5432/name.")
    given = dict(parse_qsl(parts.query))
    # Rows are held for milliseconds; who waits for longer waits for something that has gone wrong. Options of
    # the address come after it: they add to it, and may set another time.
    ours = [f"-c lock_timeout={2 * LOCK_WAIT_S}s"]
    # A transaction that stands still holds its locks and the ledger's tree up: the server ends it. A
    # migration may take as long as it needs, and so may what reads one state of everything (`snapshot`).
    if "migrate" not in sys.argv[1:2]:
        names = ("statement_timeout", "idle_in_transaction_session_timeout")
        ours += [f"-c {name}={TRANSACTION_S}s" for name in names]
    given["options"] = " ".join([*ours, given.get("options", "")]).rstrip()
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(name),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 0,  # the pool keeps connections; a positive age leaks them under ASGI
        "OPTIONS": {
            **given,
            "prepare_threshold": 2,  # what comes for the second time is planned once and for all
            "pool": {"min_size": 1, "max_size": number("DIR_DB_POOL", default=16, least=2), "timeout": 10},
        },
    }
