"""Stored manifests, kinds, rulesets and other documents as contracts, each read once per body."""

from functools import lru_cache

from runtime.contracts.calibration import CalibrationDocument
from runtime.contracts.manifest import ManifestDocument
from runtime.contracts.ontology import OntologyDocument
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.ruleset import RulesetDocument
from runtime.contracts.workflow import WorkflowDocument


@lru_cache(maxsize=256)
def manifest_of(body: bytes) -> ManifestDocument:
    """The manifest of its stored bytes, read once."""
    return ManifestDocument.from_bytes(body)


@lru_cache(maxsize=1024)
def kind_of(body: bytes) -> KindDocument:
    """The policy kind of its stored bytes, read once."""
    return KindDocument.from_bytes(body)


@lru_cache(maxsize=256)
def ruleset_of(body: bytes) -> RulesetDocument:
    """The ruleset of its stored bytes, read once."""
    return RulesetDocument.from_bytes(body)


@lru_cache(maxsize=1024)
def calibration_of(body: bytes) -> CalibrationDocument:
    """The calibration map of its stored bytes, read once."""
    return CalibrationDocument.from_bytes(body)


@lru_cache(maxsize=256)
def workflow_of(body: bytes) -> WorkflowDocument:
    """The workflow of its stored bytes, read once."""
    return WorkflowDocument.from_bytes(body)


@lru_cache(maxsize=64)
def ontology_of(body: bytes) -> OntologyDocument:
    """The ontology of its stored bytes, read once."""
    return OntologyDocument.from_bytes(body)
