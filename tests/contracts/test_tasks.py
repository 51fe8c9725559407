"""The bodies of calls about tasks: small documents, and links to what has a name."""

from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from runtime.contracts import task_schemas
from runtime.contracts.task_schemas import LinkTarget


def test_a_context_and_an_event_are_small() -> None:
    fits: dict[str, JsonValue] = {"notes": "x" * (task_schemas.MAX_CONTEXT_BYTES - 12)}
    assert task_schemas.TaskPatch.model_validate_json('{"context": {"a": null}}').context == {"a": None}
    assert task_schemas.TaskRequest(trigger="x", seed_context=fits).seed_context == fits
    with pytest.raises(ValidationError):
        task_schemas.TaskRequest(trigger="x", seed_context={**fits, "more": "x"})
    assert task_schemas.TaskEventRequest(event_type="seen", data=[1]).data == [1]
    with pytest.raises(ValidationError):
        task_schemas.TaskEventRequest(event_type="seen", data="x" * task_schemas.MAX_EVENT_BYTES)


@pytest.mark.parametrize(
    "body", [{"to": "PERSON", "ref": "x"}, {"to": "FACT", "ref": "a b"}, {"to": "FACT"}, {"ref": "x"}]
)
def test_a_link_says_what_it_leads_to(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        task_schemas.TaskLinkRequest.model_validate_json(str(body).replace("'", '"'))
    link = task_schemas.TaskLinkRequest.model_validate_json('{"to": "FACT", "ref": "price.AAPL"}')
    assert (link.to, link.version) == (LinkTarget.FACT, None)
