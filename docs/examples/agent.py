"""A first agent, standard library only: AGENT_ID=... AGENT_KEY=... python agent.py http://127.0.0.1:8000"""

import http.client
import json
import os
import sys
import uuid
from typing import Any
from urllib.parse import urlsplit

server = http.client.HTTPConnection(urlsplit(sys.argv[1]).netloc, timeout=60)


def call(method: str, path: str, token: str, body: Any = None, **headers: str) -> Any:
    """Send JSON, return JSON; a problem document ends the program with its own words."""
    headers |= {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    server.request(method, f"/api/v1{path}", json.dumps(body) if body is not None else None, headers)
    response = server.getresponse()
    answer = json.loads(response.read())
    if response.status >= 400:  # noqa: PLR2004
        sys.exit(f"{response.status} {answer['code']}: {answer['detail']}")
    return answer


hello = {"agent_id": os.environ["AGENT_ID"], "manifest_version": "1.1.0", "protocol_version": "1.0.0"}
token = call("POST", "/handshake", os.environ["AGENT_KEY"], hello)["session_token"]
dfid = call("POST", "/flows", token, {"trigger": "a first look around"})["dfid"]
context = call("POST", f"/flows/{dfid}/context", token, {})
proposal = {
    "policy_kind": "UPDATE_WATCHLIST",
    "params": {"symbol": "AAPL", "action": "ADD"},
    "execution_constraints": {"validity_window_sec": 60},
    "context_ref": context["context_ref"],
    "confidence": 0.9,
    "explain": "It moved more than the rest of the list today.",
}
# The same key sent again gets the same answer: repeat the call freely when a connection breaks.
verdict = call("POST", f"/flows/{dfid}/proposals", token, proposal, **{"Idempotency-Key": str(uuid.uuid4())})
print(verdict["verdict"], verdict["state"], [reason["message"] for reason in verdict["reasons"]])
after = 0
while verdict["verdict"] != "REJECT":
    feedback = call("GET", f"/flows/{dfid}/feedback?after={after}&wait=30", token)
    after = feedback["next"]
    for event in feedback["events"]:
        print(event["seq"], event["event_type"], json.dumps(event["data"]))
        if event["event_type"] in {"EXECUTION_OUTCOME", "FLOW_ABORTED", "FLOW_CLOSED"}:
            sys.exit()
