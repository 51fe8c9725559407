"""Signatures of proposals, for `verify_ledger`: what is kept was signed by a key of the agent's manifests.

The bytes of manifests have a check of their own.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final
from uuid import UUID

from audit import canonical, cells, queries
from audit.chain import ChainBreak
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found
from runtime.contracts import signed_proposal
from runtime.core import agent_signatures
from runtime.flows.models import Flow
from runtime.registry.models import Manifest
from runtime.registry.queries import stored_documents
from runtime.verification.flow_entries import Entries, Payloads, entries_of

_GOOD: Final = "a signature of it"


class SignatureCheck(row_checks.FlowRows):
    """What each entry says of a signature, against what is kept behind its commitment."""

    kinds = frozenset({Kind.PROPOSAL_SUBMITTED, Kind.FLOW_ERASED})

    def compare(self, flows: Mapping[UUID, Entries]) -> Iterable[ChainBreak]:
        """All findings of some flows. What was erased, or is not what was committed to, is not looked at."""
        found = Found(erased=row_checks.erased_in(flows))
        signed = [
            entry
            for entry in entries_of(flows, Kind.PROPOSAL_SUBMITTED)
            if entry.payload.get("signature_commitment")
        ]
        if not signed:
            return found.breaks
        agents = dict(Flow.objects.filter(dfid__in=flows).values_list("dfid", "agent__agent_id"))
        committed = Payloads(flows)
        for tenant in {entry.tenant for entry in signed}:
            keys = _keys_of(tenant, set(agents.values()))
            here = [entry for entry in signed if entry.tenant == tenant]
            bodies = queries.list_bodies(
                tenant=tenant, commitments=[entry.payload["signature_commitment"] for entry in here]
            )
            for entry in here:
                body = bodies.get(entry.payload["signature_commitment"])
                if body:
                    said = _said(entry, body, keys, agents.get(UUID(entry.stream), ""), committed)
                    found.same(entry, "proposal.signature", _GOOD, said)
        return found.breaks


def _said(
    entry: Entry, body: bytes, keys: Mapping[tuple[str, str], str], agent_id: str, committed: Payloads
) -> str:
    """In words, what the kept bytes are."""
    try:
        signed, signature = signed_proposal.taken_apart(body)
        said = canonical.decode(signed)
        signer, kind, params = said["agent_id"], said["proposal"]["policy_kind"], said["proposal"]["params"]
    except (ValueError, KeyError, TypeError):
        return "no signed proposal"
    key = keys.get((agent_id, entry.payload.get("signed_by", "")))
    if key is None:
        return "by a key that no manifest of the agent has"
    if agent_signatures.signing_key_of(signed, signature, public_key=key) is None:
        return "not signed by the key that is named"
    is_other = committed.is_other(entry, "params_commitment", canonical.encode(params))
    if is_other or (signer, kind) != (agent_id, entry.payload["policy_kind"]):
        return "a signature of another proposal"
    return _GOOD


def _keys_of(tenant: str, agent_ids: Iterable[str]) -> dict[tuple[str, str], str]:
    """The public keys that manifests of the agents have had, by agent and name of the key.

    A manifest that cannot be read has none: that it cannot is a finding of the check of its row.
    """
    rows = Manifest.objects.filter(agent__tenant=tenant, agent__agent_id__in=list(agent_ids))
    keys = {}
    for agent_id, cell in rows.values_list("agent__agent_id", "body"):
        with suppress(ValueError):
            public_key = stored_documents.manifest_of(cells.bytes_of(cell) or b"").proposal_key
            if public_key is not None:
                keys[agent_id, agent_signatures.key_id_of(public_key)] = public_key
    return keys
