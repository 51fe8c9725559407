"""The handshake (DIR paper, 2.3): negotiates versions and kinds, gives a session, resets nothing."""

from dataclasses import dataclass
from datetime import timedelta

import semver
from django.conf import settings

from audit import actors, events, ledger
from runtime.contracts import api_schemas
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.problem import Problem
from runtime.contracts.problem_codes import ProblemCode
from runtime.contracts.states import AgentStatus
from runtime.core import clock, ports, transactions
from runtime.epochs.queries import current_epoch
from runtime.kernel import versions
from runtime.registry.models import Agent, Key, PolicyKind, Session
from runtime.registry.queries import autonomy_levels, granted_kinds
from runtime.registry.services import credentials


@dataclass(frozen=True, kw_only=True)
class NegotiatedTerms:
    """What a handshake ended in."""

    protocol_version: str
    manifest_version: str
    kinds: tuple[PolicyKind, ...]


@transactions.retried
def open_session(
    *, key: Key, agent: Agent, request: api_schemas.HandshakeRequest
) -> api_schemas.HandshakeAnswer | Problem:
    """Open a session for the key's agent (just read with it), or return why not.

    Refusals: 403 UNAUTHORIZED (another agent's id or environment, no active manifest, a kind not granted),
    403 AGENT_RETIRED, 404 CAPABILITY_NOT_FOUND, 406 VERSION_UNSUPPORTED with what is supported.
    """
    agreed = _negotiate(key, agent, request)
    if isinstance(agreed, Problem):
        return agreed
    at = clock.now()
    token_id, secret_hash, text = credentials.new_secret(credentials.SESSION)
    session = Session.objects.create(
        token_id=token_id,
        secret_hash=secret_hash,
        key=key,
        agent=agent,
        manifest_version=agreed.manifest_version,
        protocol_version=agreed.protocol_version,
        instance_id=request.instance_id or "",
        environment=key.environment or request.environment or "",
        created_at=at,
        expires_at=at + timedelta(seconds=settings.DIR_SESSION_S),
    )
    Agent.objects.filter(pk=agent.pk).update(last_seen_at=at)
    opened = events.SessionOpened(
        agent_id=agent.agent_id,
        key_id=key.key_id,
        manifest_version=agreed.manifest_version,
        protocol_version=agreed.protocol_version,
        instance_id=session.instance_id,
        environment=session.environment,
    )
    ports.begin_agent_events(agent=agent)
    stream = actors.agent(agent.agent_id)
    ledger.append_to(tenant=agent.tenant, stream=stream, actor=stream, at=at, events=[opened])
    return api_schemas.HandshakeAnswer(
        session_token=text,
        expires_at=session.expires_at,
        protocol_version=agreed.protocol_version,
        runtime_version=api_schemas.RUNTIME_VERSION,
        agent_status=agent.status,
        autonomy=autonomy_levels.get_recorded(agent).level,
        epoch=current_epoch.in_force().number,
        policy_kinds=tuple(
            api_schemas.NegotiatedKind(
                kind=row.kind, version=row.version, schema_url=api_schemas.schema_url(row.kind, row.version)
            )
            for row in agreed.kinds
        ),
    )


def _negotiate(key: Key, agent: Agent, request: api_schemas.HandshakeRequest) -> NegotiatedTerms | Problem:
    if request.agent_id != agent.agent_id:
        return _refused(
            "The agent_id is not the one that this key was issued for. Send the agent_id of the key."
        )
    if agent.status == AgentStatus.RETIRED:
        return Problem(
            code=ProblemCode.AGENT_RETIRED, detail="This agent is retired. Ask its owner for another."
        )
    manifest = granted_kinds.manifest_of(agent)
    if manifest is None:
        return _refused("This agent has no active manifest. Ask an admin to activate one.")
    elsewhere = _refuse_environment(key, manifest, request.environment)
    if elsewhere is not None:
        return elsewhere
    # The version that both speak: the agent's own, or ours where the agent's minor version is newer.
    ours = semver.Version.parse(api_schemas.PROTOCOL_VERSION)
    try:
        wanted = semver.Version.parse(request.protocol_version, optional_minor_and_patch=True)
    except ValueError:
        wanted = None
    if wanted is None or wanted.major != ours.major:
        supported = f">={ours.major}.0.0 <{ours.major + 1}.0.0"
        return _unsupported("protocol", request.protocol_version, supported)
    protocol = str(min(wanted, ours))
    if not versions.compatible(asked=request.manifest_version, active=manifest.version):
        major = semver.Version.parse(manifest.version).major
        return _unsupported("manifest", request.manifest_version, f">={major}.0.0 <={manifest.version}")
    kinds = _kinds(agent, manifest, request.policy_kinds)
    if isinstance(kinds, Problem):
        return kinds
    return NegotiatedTerms(protocol_version=protocol, manifest_version=manifest.version, kinds=kinds)


def _refuse_environment(key: Key, manifest: ManifestDocument, stated: str | None) -> Problem | None:
    """Why this key is not for the environment that is stated, or the manifest not for the key's."""
    if key.environment and stated not in (None, key.environment):
        said = f"This key is for the environment {key.environment}."
        return _refused(f"{said} Leave environment out, or ask an admin for a key for {stated}.")
    if not credentials.fits_environment(key, manifest):
        allowed = ", ".join(manifest.environments)
        said = f"The manifest lets this agent work in {allowed} only."
        return _refused(f"{said} Ask an admin for a key that was issued for it.")
    return None


def _kinds(
    agent: Agent, manifest: ManifestDocument, asked: tuple[str, ...] | None
) -> tuple[PolicyKind, ...] | Problem:
    granted = frozenset(manifest.policy_kinds)
    wanted = frozenset(asked) if asked else granted
    active = granted_kinds.list_active(tenant=agent.tenant, names=wanted)
    if asked:
        unknown = sorted(wanted - {row.kind for row in active})
        if unknown:
            return Problem(
                code=ProblemCode.CAPABILITY_NOT_FOUND,
                detail=(
                    f"No active policy kind has the name {_shown(unknown[0])}. Remove it from the request."
                ),
            )
        foreign = sorted(wanted - granted)
        if foreign:
            return _refused(
                f"The active manifest does not grant {_shown(foreign[0])}. Remove it from the request."
            )
    return tuple(active)


def _refused(detail: str) -> Problem:
    return Problem(code=ProblemCode.UNAUTHORIZED, detail=detail)


def _unsupported(what: str, asked: str, supported: str) -> Problem:
    return Problem(
        code=ProblemCode.VERSION_UNSUPPORTED,
        detail=f"The {what} version {_shown(asked)} is not supported. Use one in the range {supported}.",
        supported=supported,
    )


def _shown(text: str) -> str:
    return ascii(text)
