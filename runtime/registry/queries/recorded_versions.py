"""Versions of documents, such as manifests and kinds, compared with the ledger entries about them."""

from functools import lru_cache
from typing import Any

from audit import actors, canonical, cells, queries
from audit.events import Kind
from runtime.core import mismatches
from runtime.registry.models import Agent, Manifest, PolicyKind, Ruleset, Workflow
from runtime.registry.models.calibration_maps import CalibrationMap
from runtime.registry.models.ontologies import Ontology

_MOST_CONFIRMED = 10_000


def compare_manifest(
    agent: Agent, row: Manifest, *, by: Kind = Kind.MANIFEST_ACTIVATED
) -> mismatches.Mismatch | None:
    """Whether a manifest is the one that was activated. Asks the ledger once per process and version.

    A draft has an entry of another kind: `by` MANIFEST_REGISTERED.
    """
    return _compare_version("manifest.body", _place_of_manifest(agent, row, by), "agent_id", row.body)


def compare_kind(row: PolicyKind, *, by: Kind = Kind.KIND_ACTIVATED) -> mismatches.Mismatch | None:
    """Whether a policy kind is the one that was activated. Asks the ledger once per process and version.

    A draft has an entry of another kind: `by` KIND_REGISTERED.
    """
    return _compare_version("policykind.body", _place_of_kind(row, by), "policy_kind", row.body)


def compare_drafted_manifest(agent: Agent, row: Manifest) -> mismatches.Mismatch | None:
    """Whether a manifest is what its author saved, and by whom: asked before it is activated."""
    drafted = Kind.MANIFEST_REGISTERED
    place = _place_of_manifest(agent, row, drafted)
    author = _compare_author("manifest.created_by", place, "agent_id", row.created_by)
    return compare_manifest(agent, row, by=drafted) or author


def compare_drafted_kind(row: PolicyKind) -> mismatches.Mismatch | None:
    """Whether a kind is what its author saved, and by whom: asked before it is activated."""
    drafted = Kind.KIND_REGISTERED
    author = _compare_author(
        "policykind.created_by", _place_of_kind(row, drafted), "policy_kind", row.created_by
    )
    return compare_kind(row, by=drafted) or author


def compare_ruleset(row: Ruleset, *, by: Kind = Kind.RULESET_ACTIVATED) -> mismatches.Mismatch | None:
    """Whether a ruleset is the one that was activated. Asks the ledger once per process and version.

    A draft has an entry of another kind: `by` RULESET_REGISTERED.
    """
    return _compare_version("ruleset.body", _place_of_ruleset(row, by), "ruleset", row.body)


def compare_drafted_ruleset(row: Ruleset) -> mismatches.Mismatch | None:
    """Whether a ruleset is what its author saved, and by whom: asked before it is activated."""
    drafted = Kind.RULESET_REGISTERED
    author = _compare_author("ruleset.created_by", _place_of_ruleset(row, drafted), "ruleset", row.created_by)
    return compare_ruleset(row, by=drafted) or author


def compare_ontology(row: Ontology, *, by: Kind = Kind.ONTOLOGY_ACTIVATED) -> mismatches.Mismatch | None:
    """Whether a version of the ontology is the one that was activated. Asks once per process and version.

    A draft has an entry of another kind: `by` ONTOLOGY_REGISTERED.
    """
    return _compare_version("ontology.body", _place_of_ontology(row, by), "ontology", row.body)


def compare_drafted_ontology(row: Ontology) -> mismatches.Mismatch | None:
    """Whether an ontology is what was registered, and by whom: asked before it is activated."""
    drafted = Kind.ONTOLOGY_REGISTERED
    author = _compare_author(
        "ontology.created_by", _place_of_ontology(row, drafted), "ontology", row.created_by
    )
    return compare_ontology(row, by=drafted) or author


def compare_workflow(row: Workflow) -> mismatches.Mismatch | None:
    """Whether a workflow is the one that was registered. Asks the ledger once per process and version."""
    place = (row.tenant, actors.SYSTEM, Kind.WORKFLOW_REGISTERED, row.workflow, row.version)
    return _compare_version("workflow.body", place, "workflow", row.body)


def compare_calibration(
    agent: Agent, row: CalibrationMap, *, by: Kind = Kind.CALIBRATION_ACTIVATED
) -> mismatches.Mismatch | None:
    """Whether a calibration map is the one that was activated. Asks the ledger once per process and map.

    A draft has an entry of another kind: `by` CALIBRATION_DRAFTED.
    """
    return _compare_version("calibrationmap.body", _place_of_map(agent, row, by), "agent_id", row.body)


def compare_drafted_calibration(agent: Agent, row: CalibrationMap) -> mismatches.Mismatch | None:
    """Whether a calibration map is what was drafted, and by whom: asked before it is activated."""
    drafted = Kind.CALIBRATION_DRAFTED
    place = _place_of_map(agent, row, drafted)
    author = _compare_author("calibrationmap.created_by", place, "agent_id", row.created_by)
    return compare_calibration(agent, row, by=drafted) or author


def _place_of_map(agent: Agent, row: CalibrationMap, kind: Kind) -> tuple[str, str, Kind, str, str]:
    return agent.tenant, actors.agent(agent.agent_id), kind, agent.agent_id, str(row.version)


def _place_of_manifest(agent: Agent, row: Manifest, kind: Kind) -> tuple[str, str, Kind, str, str]:
    return agent.tenant, actors.agent(agent.agent_id), kind, agent.agent_id, row.version


def _place_of_kind(row: PolicyKind, kind: Kind) -> tuple[str, str, Kind, str, str]:
    return row.tenant, actors.SYSTEM, kind, row.kind, row.version


def _place_of_ruleset(row: Ruleset, kind: Kind) -> tuple[str, str, Kind, str, str]:
    return row.tenant, actors.SYSTEM, kind, row.ruleset, row.version


def _place_of_ontology(row: Ontology, kind: Kind) -> tuple[str, str, Kind, str, str]:
    return row.tenant, actors.SYSTEM, kind, "ontology", row.version


def _compare_author(
    column: str, place: tuple[str, str, Kind, str, str], named: str, author: str
) -> mismatches.Mismatch | None:
    tenant, stream, kind, name, version = place
    acts = queries.list_acts(tenant=tenant, stream=stream, kinds=(kind,))
    authors = [actor for actor, said in acts if said[named] == name and said["version"] == version]
    if authors[:1] == [author]:
        return None
    return mismatches.of_values(column, f"{name} {version}", authors[0] if authors else "", author)


# Entries never change, so what was confirmed once stays confirmed; what was not is asked for again.
_confirmed: set[tuple[Any, ...]] = set()


@lru_cache(maxsize=256)
def _digest(body: bytes) -> str:
    """The digest of a version, of which the same are read again and again."""
    return canonical.digest(body)


def _compare_version(
    row: str, place: tuple[str, str, Kind, str, str], named: str, body: object
) -> mismatches.Mismatch | None:
    held = cells.bytes_of(body)
    found = "" if held is None else _digest(held)
    if (*place, found) in _confirmed:
        return None
    tenant, stream, kind, name, version = place
    recorded = [
        said["digest"]
        for _, said in queries.list_payloads(tenant=tenant, stream=stream, kinds=(kind,))
        if said[named] == name and said["version"] == version
    ]
    mismatch = mismatches.compare_digests(
        row, f"{name} {version}", recorded[0] if recorded else mismatches.NOT_RECORDED, found
    )
    if mismatch is not None:
        return mismatch
    if len(_confirmed) >= _MOST_CONFIRMED:
        _confirmed.clear()
    _confirmed.add((*place, found))
    return None
