"""A server that others wrote, as it comes from the package index: `mcp-server-time`, behind the runtime.

It is installed into a folder of its own, since the product does not need it. Over stdio it runs as it is
meant to; over HTTP its own server object is served by the official SDK.
"""

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from audit import canonical
from audit.verification import findings
from dir_console.env import ToolCommand
from escalations.contracts import Action
from escalations.models import Escalation
from runtime.contracts.states import ToolState
from runtime.execution.services import attempting
from runtime.execution.services.attempting import AttemptStatus
from runtime.flows.models import Intent, Outcome
from runtime.registry.models import PolicyKind
from runtime.registry.models.tools import UpstreamTool
from runtime.registry.services import kinds
from tests.support import factories, tool_servers

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
WANTED = ("mcp-server-time==2026.10.19", "tzlocal==5.3.1", "tzdata==2025.2")
ASKED = {"source_timezone": "Europe/Berlin", "time": "12:00", "target_timezone": "Asia/Tokyo"}
PACK = """
pack: clock
version: 1.0.0
agents:
  - agent_id: writer
    role: EXECUTOR
    owner: desk
    mission: Convert times
    manifest: {version: 1.0.0, policy_kinds: [CLOCK_CONVERT_TIME], limits: {}, escalations_per_hour: 9}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the server's packages."""
    folder = tmp_path_factory.mktemp("server")
    words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *WANTED]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    # Without an index pip finds no version at all; that this one is not among those it found is a fault.
    if done.returncode != 0 and "from versions: none" in done.stderr:
        pytest.skip(f"the package index is unreachable: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return folder


def test_its_tools_are_imported_drafted_activated_decided_and_called(
    installed: Path, settings: Settings
) -> None:
    start = f"import sys; sys.path.insert(0, {str(installed)!r}); from mcp_server_time import main; main()"
    settings.DIR_TOOL_COMMANDS = {"clock": ToolCommand(words=(sys.executable, "-c", start))}
    said = StringIO()
    call_command("import_tools", "clock", stdout=said)
    assert "convert_time: pinned, drafted CLOCK_CONVERT_TIME 1.0.0" in said.getvalue()
    assert set(UpstreamTool.objects.values_list("state", flat=True)) == {ToolState.PINNED}
    draft = PolicyKind.objects.get(kind="CLOCK_CONVERT_TIME")
    assert not draft.active
    ada = factories.user("ada", "admin")
    done = kinds.activate(
        tenant="default",
        kind=draft.kind,
        version="1.0.0",
        seen_active="",
        reason="Looked at",
        actor=f"user:{ada.pk}",
    )
    assert isinstance(done, PolicyKind), done
    tool_servers.load(PACK)
    verdict = tool_servers.propose(tool_servers.session(), ASKED, kind=draft.kind)
    # A person decides on each call, whoever asks.
    assert verdict["verdict"] == "ESCALATE", verdict
    open_one = Escalation.objects.get(flow_id=verdict["dfid"])
    factories.decide(open_one, factories.user("olivia"), Action.OVERRIDE)
    intent = Intent.objects.get(flow_id=verdict["dfid"])
    result = attempting.attempt(intent.pk, owner="a-worker")
    assert result.status is AttemptStatus.SUCCEEDED, result
    receipt = canonical.decode(bytes(Outcome.objects.get(pk=intent.pk).receipt or b""))
    assert "Asia/Tokyo" in json.dumps(receipt)
    # People of tests have no entries.
    assert [one for one in findings.verify_all().findings if not one.stream.startswith("user:")] == []


SERVE = """
import sys; sys.path.insert(0, sys.argv[1])
import socket, uvicorn
from mcp_server_time.server import create_server
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = create_server("UTC").streamable_http_app()
uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])
"""


def test_the_same_server_is_spoken_to_over_http(installed: Path, settings: Settings) -> None:
    settings.DIR_EGRESS_ALLOW = ["127.0.0.1"]
    words = [sys.executable, "-c", SERVE, str(installed)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            port = int(serving.stdout.readline())
            text = PACK.replace("policy_kinds: [CLOCK_CONVERT_TIME]", "policy_kinds: []")
            target = f'targets: {{clock: {{base_url: "http://127.0.0.1:{port}/mcp", protocol: mcp}}}}\n'
            tool_servers.load(text + target)
            call_command("import_tools", "clock", stdout=StringIO())
            assert set(UpstreamTool.objects.values_list("name", flat=True)) == {
                "get_current_time",
                "convert_time",
            }
            assert PolicyKind.objects.filter(kind="CLOCK_GET_CURRENT_TIME").exists()
        finally:
            serving.kill()
