"""Keys and session tokens: `<kind>_<id>.<secret>`, of which only SHA-256(secret) is stored.

An agent may also be bound to a subject of an issuer of tokens: a key without a secret.
"""

import hashlib
import hmac
import logging
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import QuerySet

from audit import canonical, events, ledger, queries, statements
from audit.events import Kind
from runtime.contracts import api_schemas
from runtime.contracts.kind_types import ENVIRONMENT
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus
from runtime.contracts.token_issuer import LONGEST_SUBJECT
from runtime.core import clock, transactions
from runtime.epochs.services import epochs
from runtime.kernel import silence
from runtime.registry.models import Agent, Key, Session
from runtime.registry.queries import granted_kinds
from runtime.registry.services import issued_tokens

AGENT, FEED, AUDITOR, SESSION = "agk", "fdk", "auk", "ses"
BOUND = "oik"  # names a binding; no text of this kind is ever a credential
TOUCH_AFTER = timedelta(minutes=1)  # a key's "last used" is exact to a minute, so that reads do not write
_FORM = re.compile(r"(agk|fdk|auk|ses)_([0-9a-f]{16})\.([A-Za-z0-9_-]{43})", re.ASCII)
_ENVIRONMENT = re.compile(ENVIRONMENT, re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class IssuedKey:
    """A new key. `text` is shown once and can never be read again."""

    key_id: str
    text: str = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Credential:
    """A credential as it was sent, taken apart."""

    kind: str
    public_id: str
    secret: str = field(repr=False)


def read(text: str) -> Credential | None:
    """The parts of a credential; None where the text has not the form of one."""
    found = _FORM.fullmatch(text)
    return Credential(kind=found[1], public_id=f"{found[1]}_{found[2]}", secret=found[3]) if found else None


@transactions.retried
def issue_agent_key(*, tenant: str, agent_id: str, actor: str, environment: str = "") -> IssuedKey | Problem:
    """A new key of an agent, for one `environment` (`prod`) or any; a Problem for none such, or retired."""
    agent = _agent_for_key(tenant, agent_id, environment)
    if isinstance(agent, Problem):
        return agent
    key, issued = _new_key(AGENT, tenant)
    key.agent, key.environment = agent, environment
    key.save()
    _record(key, actor, _issued(key))
    return issued


@transactions.retried
def bind_token(
    *, tenant: str, agent_id: str, issuer: str, subject: str, actor: str, environment: str = ""
) -> Key | Problem:
    """Let tokens of a trusted issuer for this subject open sessions of the agent, until it is revoked.

    422 for an issuer that the deployment does not trust, and for a subject that is bound already.
    """
    agent = _agent_for_key(tenant, agent_id, environment)
    if isinstance(agent, Problem):
        return agent
    if issuer not in settings.DIR_TOKEN_ISSUERS:
        detail = "DIR_TOKEN_ISSUERS names no such issuer. Name one as its tokens do (iss)."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    if not 0 < len(subject) <= LONGEST_SUBJECT or not subject.isprintable() or subject != subject.strip():
        detail = f"A subject is the `sub` of the tokens: 1 to {LONGEST_SUBJECT} printable characters."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    bound = Key.objects.filter(issuer=issuer, subject=subject, revoked_at__isnull=True).first()
    if bound is not None:
        detail = f"This subject is bound already. Revoke {bound.key_id} first."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    key = Key(
        tenant=tenant,
        key_id=f"{BOUND}_{secrets.token_hex(8)}",
        issuer=issuer,
        subject=subject,
        agent=agent,
        environment=environment,
        created_at=clock.now(),
    )
    key.save()
    _record(key, actor, _issued(key))
    return key


def issue_feed_key(*, tenant: str, feed: str, prefix: str, actor: str) -> IssuedKey | Problem:
    """A new key that may write the facts whose paths start with `prefix` (such as `price.`)."""
    if not _NAME.fullmatch(feed):
        return _no_name()
    if (
        not re.fullmatch(api_schemas.FACT_PREFIX, prefix, re.ASCII)
        or len(prefix) > api_schemas.MAX_FACT_PATH_CHARS
    ):
        return Problem(
            code=ProblemCode.INVALID_REQUEST,
            detail="A prefix is a namespace with its dot, such as `price.`, or longer.",
        )

    def work() -> IssuedKey | Problem:
        if epochs.refuse_while_recovering() is not None:
            return _no_key()
        key, issued = _new_key(FEED, tenant)
        key.feed, key.fact_prefix = feed, prefix
        key.save()
        _record(key, actor, _issued(key))
        return issued

    return transactions.retry_on_conflict(work)


@transactions.retried
def issue_auditor_key(*, tenant: str, auditor: str, actor: str) -> IssuedKey | Problem:
    """A new key that may read the audit API and do nothing else."""
    if not _NAME.fullmatch(auditor):
        return _no_name()
    if epochs.refuse_while_recovering() is not None:
        return _no_key()
    key, issued = _new_key(AUDITOR, tenant)
    key.auditor = auditor
    key.save()
    _record(key, actor, _issued(key))
    return issued


@transactions.retried
def revoke_key(*, key_id: str, actor: str) -> Key | Problem:
    """Revoke a key; its sessions die with it at once. Revoking twice changes nothing."""
    key = Key.objects.select_for_update().filter(key_id=key_id).first()
    if key is None:
        return Problem(code=ProblemCode.NOT_FOUND, detail=f"No key has the id {key_id}.")
    if key.revoked_at is None:
        key.revoked_at = clock.now()
        key.save(update_fields=["revoked_at"])
        _record(key, actor, events.KeyRevoked(key_id=key_id))
    return key


def agent_key(text: str) -> Key | None:
    """The agent key of this text; None for anything else. A retired agent's key is still known."""
    return _key(text, AGENT)


def agent_credential(text: str) -> Key | None:
    """What lets an agent open a session: its key, or the binding of a token. None for anything else."""
    return agent_key(text) or _bound_to(issued_tokens.verify(text))


def feed_key(text: str) -> Key | None:
    """The feed key of this text; None for anything else."""
    return _key(text, FEED)


def auditor_key(text: str) -> Key | None:
    """The auditor's key of this text; None for anything else."""
    return _key(text, AUDITOR)


def any_key(text: str) -> Key | None:
    """The key of this text, whoever holds it; None for anything else."""
    given = read(text)
    return None if given is None or given.kind == SESSION else _key(text, given.kind)


def session(text: str) -> Session | None:
    """The session of this token; None when it ended, its key was revoked or its agent retired."""
    given = read(text)
    if given is None or given.kind != SESSION:
        return None
    found = _SESSION.first(token_id=given.public_id)
    if found is None or not _fits(given.secret, found.secret_hash):
        return None
    now = clock.now()
    if found.expires_at <= now or found.key.revoked_at or found.agent.status == AgentStatus.RETIRED:
        return None
    _see(found.agent, now)
    return found


def fits_environment(key: Key, manifest: ManifestDocument | None) -> bool:
    """Whether the manifest lets its agent work where the key is used; without `environments`, everywhere."""
    return manifest is None or not manifest.environments or key.environment in manifest.environments


def new_secret(kind: str) -> tuple[str, str, str]:
    """Public id, secret hash and whole text of a new credential."""
    public_id, secret = f"{kind}_{secrets.token_hex(8)}", secrets.token_urlsafe(32)
    return public_id, _hash(secret), f"{public_id}.{secret}"


def _key(text: str, kind: str) -> Key | None:
    given = read(text)
    if given is None or given.kind != kind:
        return None
    key = Key.objects.select_related("agent__active_manifest").filter(key_id=given.public_id).first()
    if key is None or not _fits(given.secret, key.secret_hash) or key.revoked_at is not None:
        return None
    return _used(key)


def _bound_to(token: issued_tokens.IssuedToken | None) -> Key | None:
    """The binding of a token's subject, where the ledger says the same of it."""
    if token is None:
        return None
    rows = Key.objects.select_related("agent__active_manifest")
    key = rows.filter(issuer=token.issuer, subject=token.subject, revoked_at__isnull=True).first()
    if key is None or key.agent is None:
        return None
    if not _is_recorded(key):
        _log.error("the binding %s is not what the ledger recorded, and is not obeyed", key.key_id)
        return None
    return _used(key)


def _is_recorded(key: Key) -> bool:
    kinds = [Kind.KEY_ISSUED, Kind.KEY_REVOKED]
    entries = queries.list_payloads(tenant=key.tenant, stream=key.holder, kinds=kinds)
    # As JSON has it: an entry leaves out what is absent.
    recorded = [(kind, payload) for kind, payload in entries if payload["key_id"] == key.key_id]
    return recorded == [(Kind.KEY_ISSUED, _issued(key).payload())]


def _used(key: Key) -> Key:
    now = clock.now()
    if key.last_used_at is None or abs(now - key.last_used_at) > TOUCH_AFTER:
        Key.objects.filter(pk=key.pk, revoked_at__isnull=True).update(last_used_at=now)
    if key.agent is not None:
        _see(key.agent, now)
    return key


def _agent_for_key(tenant: str, agent_id: str, environment: str) -> Agent | Problem:
    """The agent that is to get a key for an environment, or why it gets none."""
    if epochs.refuse_while_recovering() is not None:
        return _no_key()
    if environment and not _ENVIRONMENT.fullmatch(environment):
        detail = "Name an environment by small letters, digits and hyphens, such as prod."
        return Problem(code=ProblemCode.INVALID_REQUEST, detail=detail)
    agent = Agent.objects.of(tenant).filter(agent_id=agent_id).first()
    if agent is None:
        return Problem(
            code=ProblemCode.NOT_FOUND, detail=f"No agent has the id {agent_id}. Load its pack first."
        )
    if agent.status == AgentStatus.RETIRED:
        return Problem(
            code=ProblemCode.AGENT_RETIRED,
            status=409,
            detail=f"{agent_id} is retired and cannot get a new key.",
        )
    return agent


def _session(*, token_id: str) -> QuerySet[Session]:
    return Session.objects.select_related("key", "agent__active_manifest").filter(token_id=token_id)


_SESSION: Final = statements.Read(_session)


def _see(agent: Agent, now: datetime) -> None:
    """Note that an agent has called, as exactly as its silence is counted, and if a clock was set back."""
    manifest = granted_kinds.manifest_of(agent)
    exact_to_s = silence.exact_to_s(None if manifest is None else manifest.silent_after_s)
    if agent.last_seen_at is None or abs(now - agent.last_seen_at) >= timedelta(seconds=exact_to_s):
        Agent.objects.filter(pk=agent.pk).update(last_seen_at=now)


def _no_name() -> Problem:
    return Problem(
        code=ProblemCode.INVALID_REQUEST,
        detail="The name of a feed or an auditor is up to 64 letters, digits, - and _.",
    )


def _no_key() -> Problem:
    return Problem(
        code=ProblemCode.RECOVERY,
        detail=(
            "The database was restored from a backup: no key can be issued until an admin starts a new epoch."
        ),
    )


def _new_key(kind: str, tenant: str) -> tuple[Key, IssuedKey]:
    key_id, secret_hash, text = new_secret(kind)
    key = Key(tenant=tenant, key_id=key_id, secret_hash=secret_hash, created_at=clock.now())
    return key, IssuedKey(key_id=key_id, text=text)


def _issued(key: Key) -> events.KeyIssued:
    return events.KeyIssued(
        key_id=key.key_id,
        subject=key.holder,
        secret_digest=canonical.digest(key.secret_hash.encode()),
        fact_prefix=key.fact_prefix,
        environment=key.environment or None,
        token_issuer=key.issuer or None,
        token_subject=key.subject or None,
    )


def _record(key: Key, actor: str, event: events.Event) -> None:
    ledger.append_to(tenant=key.tenant, stream=key.holder, actor=actor, at=clock.now(), events=[event])


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _fits(secret: str, secret_hash: str) -> bool:
    return hmac.compare_digest(_hash(secret), secret_hash)
