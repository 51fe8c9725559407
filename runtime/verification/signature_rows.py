"""Signatures of proposals, for `verify_ledger`: what is kept was signed by a key of the agent's manifests.

The bytes of manifests have a check of their own.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from audit import canonical, cells, queries
from audit.chain import ChainBreak
from audit.events import Kind
from audit.verification import row_checks
from audit.verification.row_checks import Entry, Found
from runtime.contracts import signed_proposal
from runtime.core import agent_signatures
from runtime.flows.models import Flow, Proposal
from runtime.registry.models import Manifest
from runtime.registry.queries import stored_documents
from runtime.verification.flow_entries import Entries, entries_of


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
        params = _params_of([entry.payload["proposal_id"] for entry in signed])
        for tenant in {entry.tenant for entry in signed}:
            keys = _keys_of(tenant, set(agents.values()))
            here = [entry for entry in signed if entry.tenant == tenant]
            bodies = queries.list_bodies(
                tenant=tenant, commitments=[entry.payload["signature_commitment"] for entry in here]
            )
            for entry in here:
                body = bodies.get(entry.payload["signature_commitment"])
                if body:
                    agent_id = agents.get(UUID(entry.stream), "")
                    key = keys.get((agent_id, entry.payload.get("signed_by", "")))
                    found.same(
                        entry, "proposal.signature", "a signature of it", _said(entry, body, key, params)
                    )
        return found.breaks


def _said(entry: Entry, body: bytes, key: str | None, params: Mapping[str, object]) -> str:
    """In words, what the kept bytes are."""
    try:
        signed, signature = signed_proposal.taken_apart(body)
        about = canonical.decode(signed)["proposal"]
        named = (about["policy_kind"], about["params"])
    except (ValueError, KeyError, TypeError):
        return "no signed proposal"
    if key is None:
        return "by a key that no manifest of the agent has"
    if agent_signatures.signing_key_of(signed, signature, public_key=key) is None:
        return "not signed by the key that is named"
    said = entry.payload
    if named != (said["policy_kind"], params.get(said["proposal_id"], named[1])):
        return "a signature of another proposal"
    return "a signature of it"


def _params_of(proposals: Iterable[str]) -> dict[str, object]:
    """The parameters by proposal; without those whose words were erased."""
    rows = Proposal.objects.filter(pk__in=list(proposals)).values_list("pk", "body")
    found = {}
    for pk, cell in rows:
        body = cells.bytes_of(cell)
        if body:
            found[str(pk)] = canonical.decode(body).get("params")
    return found


def _keys_of(tenant: str, agent_ids: Iterable[str]) -> dict[tuple[str, str], str]:
    """The public keys that manifests of the agents have had, by agent and name of the key."""
    rows = Manifest.objects.filter(agent__tenant=tenant, agent__agent_id__in=list(agent_ids))
    keys = {}
    for agent_id, cell in rows.values_list("agent__agent_id", "body"):
        public_key = stored_documents.manifest_of(bytes(cell)).proposal_key
        if public_key is not None:
            keys[agent_id, agent_signatures.key_id_of(public_key)] = public_key
    return keys
