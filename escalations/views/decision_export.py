"""Decisions as files: CSV for a spreadsheet, JSON for checking them elsewhere."""

import csv
import io
import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse

from audit.sealing import keys
from escalations.services.recorded_decisions import RecordedDecision
from escalations.views import decision_rows
from escalations.views.decision_filter import AskedFilter
from runtime.contracts import timestamps
from runtime.core import clock
from runtime.core.views import labels

FORMATS = ("csv", "json")
# One request answers for so many, at about a millisecond each; by rule, for those among so many.
MOST = 5_000
COLUMNS = (
    "decided_at",
    "person",
    "action",
    "solo",
    "taken_back",
    "first_of_two",
    "effect",
    "ran_effect",
    "agent_id",
    "policy_kind",
    "impact",
    "reason",
    "rules",
    "justification",
    "conditions",
    "opened_at",
    "seconds_taken",
    "outcome",
    "revision",
    "escalation_id",
    "dfid",
    "proposal_id",
    "intent_id",
    "evidence_hash",
    "statement_digest",
    "key_id",
    "signature",
    "matches_ledger",
    "erased",
    "mismatches",
)
# What a spreadsheet may take for the beginning of a formula, also after blanks and in full width.
_FORMULA = ("=", "+", "-", "@", "|", "%")


def answer(
    records: Sequence[RecordedDecision], asked: Mapping[str, str], *, form: str, rest_url: str = ""
) -> HttpResponse:
    """The file. `rest_url` is where the result goes on if it has more decisions than one file holds."""
    rows = [decision_rows.exported(record) for record in records]
    response = _csv(rows, rest_url) if form == "csv" else _json(rows, asked, rest_url)
    return _attached(response, form=form, rest_url=rest_url)


def with_evidence(records: Sequence[RecordedDecision], asked: Mapping[str, str]) -> HttpResponse:
    """A few decisions as JSON, each with the bytes of the evidence that it signed."""
    rows = [
        decision_rows.exported(record)
        | ({} if record.evidence is None else {"evidence": record.evidence.to_bytes().decode()})
        for record in records
    ]
    return _attached(_json(rows, asked, ""), form="json", rest_url="")


def _attached(response: HttpResponse, *, form: str, rest_url: str) -> HttpResponse:
    response["Content-Disposition"] = f'attachment; filename="decisions.{form}"'
    if rest_url:
        response["Link"] = f'<{rest_url}>; rel="next"'
    return response


def cell(value: Any) -> str:
    """A value as the text of a cell that no spreadsheet takes for a formula."""
    if isinstance(value, list):
        value = "; ".join(str(item) for item in value)
    text = labels.visible_lines(labels.plain_value(value)) if value is not None else ""
    begins = unicodedata.normalize("NFKC", text.lstrip()[:1])
    return f"'{text}" if begins.startswith(_FORMULA) else text


def _csv(rows: Sequence[dict[str, Any]], rest_url: str) -> HttpResponse:
    written = io.StringIO()
    table = csv.writer(written)
    table.writerow(COLUMNS)
    table.writerows([cell(row.get(name)) for name in COLUMNS] for row in rows)
    if rest_url:
        table.writerow([f"NOT COMPLETE: {len(rows)} decisions, the rest is at {rest_url}"])
    return HttpResponse(written.getvalue(), content_type="text/csv; charset=utf-8")


def _json(rows: Sequence[dict[str, Any]], asked: Mapping[str, str], rest_url: str) -> HttpResponse:
    document = {
        "exported_at": timestamps.iso(clock.now()),
        "filter": {name: value for name, value in asked.items() if value},
        "complete": not rest_url,
        "next": rest_url or None,
        "public_keys": keys.public_keys(tenant=settings.DIR_TENANT),
        "decisions": rows,
    }
    return HttpResponse(json.dumps(document, ensure_ascii=False, indent=1), content_type="application/json")


def refusal(asked: AskedFilter) -> HttpResponse:
    """For a filter that cannot be read: no file, since it would hold other decisions than those asked for."""
    return JsonResponse({"detail": " ".join(asked.wrong.values()), "wrong": dict(asked.wrong)}, status=400)
