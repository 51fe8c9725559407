"""The reasoning graph: addressed by content, signed, checked by a stranger, refused where tampered."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import rfc8785
from django.conf import settings
from django.test import Client

from audit import canonical
from audit.access.roles import Role
from audit.events import Kind
from audit.models import LedgerEntry
from audit.reasoning import signed
from audit.reasoning.graph import Sort
from runtime.flows.models import Proposal
from runtime.maintenance.services import sealing
from tests.support import factories, guard_rounds, ledger_tampering, recorded_flows, worlds
from tests.support.recorded_flows import Recorded
from tests.web.test_pages import code_in, sign_in, text_of


def build() -> Recorded:
    made = recorded_flows.build()
    sealing.seal_now()
    return made


world = worlds.shared(build)
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("world")]


@pytest.fixture
def reader() -> Client:
    return sign_in(Role.AUDITOR, name="aud")


def ask(client: Client, dfid: object, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/api/v1/audit/flows/{dfid}/reasoning", query)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def address(value: Any) -> str:
    return hashlib.sha256(rfc8785.dumps(value)).hexdigest()


def test_every_node_has_the_digest_of_its_content_and_the_root_covers_all(
    world: Recorded, reader: Client
) -> None:
    found = ask(reader, world.flows["overridden"])
    assert {name: address(node) for name, node in found["nodes"].items()} == {
        name: name for name in found["nodes"]
    }
    assert set(found["graph"]["nodes"]) == set(found["nodes"])
    assert address(found["graph"]) == found["root"]
    for edge in found["graph"]["edges"]:
        assert found["nodes"][edge["source"]]["sort"] != Sort.SYNTHESIS
        assert found["nodes"][edge["target"]]["sort"] == Sort.SYNTHESIS
    sorts = {node["sort"] for node in found["nodes"].values()}
    assert {"context", "rule", "synthesis"} <= sorts
    assert len(found["graph"]["edges"]) == len(found["nodes"]) - 1


def test_the_nodes_are_those_of_the_contract(world: Recorded, reader: Client) -> None:
    dfid = world.flows["rejected"]
    structure = reader.get(f"/api/v1/audit/contracts/reasoning_trace/{dfid}").json()["structure"]
    ids = [node["node_id"] for name in structure if name.endswith("_nodes") for node in structure[name]]
    found = ask(reader, dfid)
    assert sorted(ids) == sorted(node["node_id"] for node in found["nodes"].values())
    assert len(structure["edges"]) == len(found["graph"]["edges"])


def test_the_synthesis_names_what_was_judged(world: Recorded, reader: Client) -> None:
    dfid = world.flows["rejected"]
    (verdict,) = (row.payload for row in LedgerEntry.objects.filter(stream=dfid, kind=Kind.VERDICT_GIVEN))
    nodes = ask(reader, dfid)["nodes"].values()
    (synthesis,) = (node for node in nodes if node["sort"] == "synthesis")
    assert synthesis["verdict"] == "REJECT"
    assert synthesis["input_digest"] == verdict["input_digest"]
    assert synthesis["proposal_digest"] == Proposal.objects.get(flow=dfid).digest


def test_what_an_agent_states_is_marked_as_a_claim(world: Recorded, reader: Client) -> None:
    dfid = world.flows["accepted"]
    nodes = ask(reader, dfid)["nodes"].values()
    claims = {node["sort"]: node["unverified_claims"] for node in nodes}
    assert claims["confidence"] == ["confidence"]
    assert claims["rule"] == claims["context"] == []
    page = text_of(reader, f"/flows/{dfid}/reasoning/")
    assert page.count("unverified claim by the agent: confidence") == 1


def test_a_strangers_program_checks_it(world: Recorded, reader: Client, tmp_path: Path) -> None:
    docs = (settings.BASE_DIR / "docs/explorer.md").read_text(encoding="utf-8")
    program = re.search(r"```python\n(.+?)```", docs, re.DOTALL)
    assert program
    (tmp_path / "check.py").write_text(program[1], encoding="utf-8")
    (tmp_path / "keys.json").write_bytes(reader.get("/api/v1/audit/keys").content)
    found = ask(reader, world.flows["overridden"])

    def check(document: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        (tmp_path / "held.json").write_text(json.dumps(document), encoding="utf-8")
        command = [sys.executable, "check.py", "held.json", "keys.json"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    whole = check(found)
    assert whole.returncode == 0, whole.stderr
    assert found["root"] in whole.stdout
    for change in (changed_node, changed_edge, changed_root, changed_payload):
        forged: dict[str, Any] = json.loads(json.dumps(found))
        change(forged)
        assert check(forged).returncode == 1, change


def changed_node(document: dict[str, Any]) -> None:
    next(iter(document["nodes"].values()))["node_id"] = "context:other"


def changed_edge(document: dict[str, Any]) -> None:
    """With a root that fits again, since whoever forges can compute one."""
    document["graph"]["edges"].pop()
    document["root"] = address(document["graph"])


def changed_root(document: dict[str, Any]) -> None:
    document["root"] = "0" * 64


def changed_payload(document: dict[str, Any]) -> None:
    payload = json.loads(base64.b64decode(document["signature"]["payload"]))
    payload["decision_id"] = str(uuid4())
    document["signature"]["payload"] = base64.b64encode(rfc8785.dumps(payload)).decode()


def test_the_same_graph_is_answered_byte_for_byte(world: Recorded, reader: Client) -> None:
    path = f"/api/v1/audit/flows/{world.flows['accepted']}/reasoning"
    first, again = reader.get(path).content, reader.get(path).content
    download = reader.get(f"/flows/{world.flows['accepted']}/reasoning/?download=1")
    assert first == again == download.content
    assert "attachment" in download["Content-Disposition"]
    assert canonical.encode(json.loads(first)) == first


def test_an_older_decision_has_its_own_graph(world: Recorded, reader: Client) -> None:
    dfid = world.flows["overridden"]
    proposals = Proposal.objects.filter(flow=dfid).order_by("pk")
    graphs = {ask(reader, dfid, decision=str(row.pk))["graph"]["decision_id"] for row in proposals}
    assert graphs == {str(row.pk) for row in proposals}
    answer = reader.get(f"/api/v1/audit/flows/{dfid}/reasoning", {"decision": str(uuid4())})
    assert answer.status_code == 404


def test_a_flow_without_a_verdict_or_of_nobody_has_none(world: Recorded, reader: Client) -> None:
    cancelled = world.flows["cancelled"]
    assert reader.get(f"/api/v1/audit/flows/{cancelled}/reasoning").status_code == 404
    assert "No reasoning to show" in text_of(reader, f"/flows/{cancelled}/reasoning/")
    unknown = uuid4()
    assert reader.get(f"/api/v1/audit/flows/{unknown}/reasoning").status_code == 404
    assert reader.get(f"/flows/{unknown}/reasoning/").status_code == 404


def test_a_changed_entry_is_not_signed(world: Recorded, reader: Client) -> None:
    dfid = world.flows["another agent's"]
    row = LedgerEntry.objects.get(stream=dfid, kind=Kind.VERDICT_GIVEN)
    sql = "UPDATE audit_ledgerentry SET body = %s WHERE id = %s"
    ledger_tampering.quietly(sql, [bytes(row.body).replace(b"ACCEPT", b"REJECT"), row.pk])
    answer = reader.get(f"/api/v1/audit/flows/{dfid}/reasoning")
    assert (answer.status_code, answer.json()["code"]) == (409, "TAMPERED")
    page = reader.get(f"/flows/{dfid}/reasoning/")
    assert page.status_code == 409
    assert b"does not match the ledger" in page.content
    assert b"<svg class" not in page.content.split(b"<main", 1)[1].replace(b'<svg class="icon', b"")


def test_the_drawing_and_the_table_show_the_same_nodes(world: Recorded, reader: Client) -> None:
    for name in ("accepted", "rejected", "overridden"):
        page = text_of(reader, f"/flows/{world.flows[name]}/reasoning/")
        found = ask(reader, world.flows[name])
        assert re.findall(r'data-node="([0-9a-f]{64})"', page) == found["graph"]["nodes"]
        assert page.count('class="node-box"') == len(found["nodes"])
        assert page.count('class="edge"') == len(found["graph"]["edges"])
        assert "Signature verified" in page
        assert code_in(page) == []


def test_a_guards_flag_is_a_consultation(world: Recorded) -> None:
    guard_rounds.configure()
    desk = factories.desk(agent_id="guarded")
    guard_rounds.propose(desk)
    guard_rounds.run_all()
    flagged = LedgerEntry.objects.filter(kind=Kind.REVIEW_FLAGGED).first()
    assert flagged is not None
    found = signed.of_flow(tenant="default", dfid=Proposal.objects.latest("pk").flow_id)
    assert found is not None
    names = [node.name for node in found.graph.nodes if node.sort is Sort.CONSULTATION]
    assert names == [flagged.payload["review_id"]]


@pytest.mark.parametrize("role", list(Role))
def test_each_role_reads_it(world: Recorded, role: Role) -> None:
    client, path = sign_in(role), f"/flows/{world.flows['accepted']}/reasoning/"
    assert "Graph" in text_of(client, path)
    assert client.post(path).status_code == 405
    assert path in text_of(client, f"/flows/{world.flows['accepted']}/")
    assert Client().get(path)["Location"].startswith("/accounts/login/?next=")
    assert Client().get(f"/api/v1/audit/flows/{world.flows['accepted']}/reasoning").status_code == 401
