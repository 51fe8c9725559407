"""Documents of rules remember the bytes that they were written as, and never those of another document."""

import copy
import json
import pickle

import pytest

from audit import canonical
from runtime.contracts.calibration import CalibrationDocument, Knot
from runtime.contracts.document import Contract
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.states import Impact
from runtime.kernel.gate.gate_input import PolicyBundle
from tests.support import gate_cases, underwriting, workflow_story


def written_anew(document: Contract) -> bytes:
    return canonical.encode(document.model_dump(mode="json"))


def test_is_written_once() -> None:
    kind = gate_cases.kind()
    body = kind.to_bytes()
    assert kind.to_bytes() is body
    assert body == written_anew(kind)
    assert kind.digest == canonical.digest(body)
    assert kind.plain is kind.plain
    assert kind.plain == kind.model_dump(mode="json")


def test_does_not_take_the_bytes_it_was_read_from_for_canonical_ones() -> None:
    kind = gate_cases.kind()
    read = KindDocument.from_bytes(json.dumps(kind.model_dump(mode="json"), indent=1).encode())
    assert read.to_bytes() == kind.to_bytes()


def test_a_copy_with_other_values_remembers_nothing() -> None:
    kind = gate_cases.kind()
    body, plain = kind.to_bytes(), kind.plain
    for is_deep in (False, True):
        changed = kind.model_copy(update={"title": "Something else"}, deep=is_deep)
        assert changed.to_bytes() == written_anew(changed) != body
        assert changed.plain == {**plain, "title": "Something else"}
    assert (kind.to_bytes(), kind.plain) == (body, plain)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_what_is_done_to_a_copy_shows_in_its_bytes(copied: object) -> None:
    manifest = gate_cases.manifest()
    body = manifest.to_bytes()
    other = copied(manifest)  # type: ignore[operator]
    assert other.to_bytes() == body
    other = copied(manifest)  # type: ignore[operator]
    other.__dict__["version"] = "9.9.9"
    assert other.to_bytes() == written_anew(other) != body


def test_is_the_same_document_whether_it_was_written_or_not() -> None:
    written, fresh = gate_cases.kind(), gate_cases.kind()
    body, _ = written.to_bytes(), written.plain
    assert written == fresh
    assert written.model_dump() == fresh.model_dump()
    assert dict(written) == dict(fresh)
    assert repr(written) == repr(fresh)
    assert pickle.loads(pickle.dumps(written)).to_bytes() == body  # noqa: S301  # our own bytes


def calibration() -> CalibrationDocument:
    return CalibrationDocument(
        agent_id="trader",
        version=3,
        policy_kind="ADJUST_POSITION",
        impact=Impact.LOW_IMPACT,
        kind_digest=gate_cases.kind().digest,
        model_profile=None,
        pairs=31,
        good=22,
        first_ms=1,
        last_ms=2,
        map=(Knot(stated=500_000, good=400_000),),
    )


def bundles() -> list[PolicyBundle]:
    rulesets = (underwriting.ruleset(), underwriting.ruleset(version="9.0.0"))
    return [
        gate_cases.rules(),
        gate_cases.rules(kind=None),
        gate_cases.rules(manifest=None, kind=None),
        gate_cases.rules(workflow=workflow_story.document()),
        gate_cases.rules(rulesets=rulesets),
        gate_cases.rules(calibrations=(calibration(),)),
        gate_cases.rules(rulesets=rulesets[:1], workflow=workflow_story.document(), manifest=None),
    ]


@pytest.mark.parametrize("bundle", bundles())
def test_a_bundle_is_put_together_from_its_documents(bundle: PolicyBundle) -> None:
    assert bundle.to_bytes() == written_anew(bundle)
    assert PolicyBundle.from_bytes(bundle.to_bytes()).to_bytes() == bundle.to_bytes()


def test_a_bundle_with_another_document_has_its_bytes() -> None:
    bundle = gate_cases.rules()
    body = bundle.to_bytes()
    strict = bundle.model_copy(update={"manifest": gate_cases.manifest(policy_kinds=())})
    assert strict.to_bytes() == written_anew(strict) != body
    assert bundle.to_bytes() == body
