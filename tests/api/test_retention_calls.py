"""`GET /state/retention/{entity}`: what is kept for how long, told to auditors."""

from pytest_django.fixtures import Settings

from runtime.contracts.retention import read_fact_classes
from tests.support import api_client


def test_classes_in_force_are_told_to_auditors(trader: api_client.Caller, settings: Settings) -> None:
    settings.DIR_FACT_RETENTION = read_fact_classes(["price.=30", "*=365"])
    settings.DIR_RETENTION_DAYS = 90
    auditor = api_client.Caller(api_client.auditor_key())
    facts = auditor.get("/state/retention/facts").ok()
    assert facts == {
        "entity": "facts",
        "classes": [
            {"name": "price.", "days": 30, "set_by": "DIR_FACT_RETENTION"},
            {"name": "*", "days": 365, "set_by": "DIR_FACT_RETENTION"},
        ],
    }
    flows = auditor.get("/state/retention/flows").ok()["classes"]
    assert {"name": api_client.KIND, "days": 90, "set_by": "DIR_RETENTION_DAYS"} in flows
    assert flows[0]["name"] == "*"
    auditor.get("/state/retention/people").problem(422, "INVALID_REQUEST")
    trader.get("/state/retention/facts").problem(403, "UNAUTHORIZED")
    auditor.put("/state/retention/facts", {"days": 1}).problem(405, "METHOD_NOT_ALLOWED")
