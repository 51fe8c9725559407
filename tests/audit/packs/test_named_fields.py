"""Whatever an entry names by digest, hash or commitment is in evidence packs, or is left out for a reason."""

from typing import Final

from audit.events import EVENTS, Kind
from audit.packs import sources, verify

_OF_SYSTEM: Final = "of no flow: a pack holds of other streams only when signing keys began"
_OF_RECORDS: Final = "the record is in the pack as an envelope, and its hash is checked there"
_OF_NO_FLOW: Final = (
    Kind.KIND_REGISTERED,
    Kind.KIND_ACTIVATED,
    Kind.KIND_DISCARDED,
    Kind.MANIFEST_REGISTERED,
    Kind.MANIFEST_ACTIVATED,
    Kind.MANIFEST_DISCARDED,
    Kind.PACK_LOADED,
    Kind.WORKFLOW_REGISTERED,
    Kind.RULESET_REGISTERED,
    Kind.RULESET_ACTIVATED,
    Kind.RULESET_DISCARDED,
    Kind.CALIBRATION_DRAFTED,
    Kind.CALIBRATION_ACTIVATED,
    Kind.CALIBRATION_DISCARDED,
    Kind.CALIBRATION_RETIRED,
    Kind.GUARD_CONFIGURED,
    Kind.INCIDENT_RULE_DRAFTED,
    Kind.INCIDENT_RULE_ACTIVATED,
    Kind.STRATEGY_RULE_PROPOSED,
    Kind.ARTIFACT_REGISTERED,
    Kind.MEMORY_WRITTEN,
    Kind.MEMORY_RELEASED,
    Kind.MEMORY_DISCARDED,
    Kind.ONTOLOGY_REGISTERED,
    Kind.ONTOLOGY_ACTIVATED,
    Kind.ONTOLOGY_DISCARDED,
    Kind.TOOL_FOUND,
    Kind.TOOL_PINNED,
)
_EXEMPT: Final = {
    (Kind.STEP_REPORTED, "digest"): "of what the agent says that it did; the bytes stay with the agent",
    (Kind.ESCALATION_DECIDED, "evidence_hash"): "that of its escalation's entry, which names the bytes",
    (Kind.ESCALATION_FIRST_DECIDED, "evidence_hash"): "that of its escalation's entry, which names the bytes",
    (Kind.INFORMATION_REQUESTED, "evidence_hash"): "that of its escalation's entry, which names the bytes",
    (Kind.TASK_ANSWERED, "task_hash"): "that of the task's opening, which names the bytes",
    (Kind.INTENT_RESUMED, "lifted_digest"): "findings that a person lifted: their decision says which",
    (Kind.INTENT_RETURNED, "lifted_digest"): "findings that a person lifted: their decision says which",
    (Kind.INTENT_DELAYED, "undo_digest"): "what a take-back would have restored, and nobody was told",
    (Kind.CALLBACK_OPENED, "token_hash"): "of a secret that only the target has",
    (Kind.CALLBACK_AWAITED, "location_hash"): "of a place at the target that may hold a secret",
    (Kind.ROW_MISMATCHED, "recorded_digest"): "of bytes that another entry names",
    (Kind.ROW_MISMATCHED, "found_digest"): "of bytes that nothing recorded",
    (Kind.RECORD_EMITTED, "record_hash"): _OF_RECORDS,
    (Kind.RECORD_SCORED, "record_hash"): _OF_RECORDS,
    (Kind.RECORD_FEEDBACK_GIVEN, "record_hash"): _OF_RECORDS,
    (Kind.REVIEW_FLAGGED, "guard_digest"): "of a soft guard's configuration; guards decide nothing",
    (Kind.FACT_WRITTEN, "digest"): "of a fact, which stands in the stream of its writer and in contexts",
    (
        Kind.MEMORY_READ,
        "digest",
    ): "of an item of memory that an agent read by the API; contexts hold what it saw",
    (Kind.REVIEW_REQUESTED, "digest"): "of an item of memory that the flow received; contexts hold it",
    (Kind.REQUEST_REFUSED, "detail_digest"): "of the sentence of a refusal, which is not stored",
    **dict.fromkeys(
        [
            *((kind, "digest") for kind in _OF_NO_FLOW),
            (Kind.CAPABILITY_ADVERTISED, "body_digest"),
            (Kind.NOTIFICATION_ROUTE_ADDED, "url_digest"),
            (Kind.NOTIFICATION_ROUTE_CHANGED, "url_digest"),
            (Kind.KEY_ISSUED, "secret_digest"),
            (Kind.PAYLOAD_KEY_DESTROYED, "commitments_digest"),
            (Kind.REPLAY_RUN_ENDED, "results_digest"),
            (Kind.REPLAY_RUN_ENDED, "findings_digest"),
            (Kind.EPOCH_RESTORED, "missing_digest"),
            (Kind.EPOCH_RESTORED, "missing_hash"),
            (Kind.EPOCH_BEGUN, "missing_hash"),
            (Kind.EPOCH_BEGUN, "statement_digest"),
        ],
        _OF_SYSTEM,
    ),
}


def test_every_digest_is_in_packs_or_left_out_for_a_reason() -> None:
    fields = {
        (kind, name)
        for kind, event in EVENTS.items()
        for name in event.model_fields
        if name == "digest" or name.endswith(("_digest", "_hash"))
    }
    named = {(kind, name) for kind, names in sources.NAMED.items() for name in names}
    assert fields - named == set(_EXEMPT)
    assert not named & set(_EXEMPT)


def test_every_commitment_is_opened_or_named_erased() -> None:
    """Those of a payload are found by the end of the field's name, so that no list can leave one out."""
    for event in EVENTS.values():
        for name in event.model_fields:
            if "commitment" in name and name not in {"commitment", "commitments_digest"}:
                assert name.endswith("_commitment"), (event.kind, name)


def test_the_verifier_asks_for_the_same_as_packs_hold() -> None:
    assert {str(kind): set(names) for kind, names in sources.NAMED.items()} == {
        kind: set(names) for kind, names in verify._DIGESTS.items()
    }
