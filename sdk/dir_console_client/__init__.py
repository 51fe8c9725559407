"""A client of DIR Console for agents: propose an action, and learn what became of it.

with Client("http://127.0.0.1:8000", agent_id="clerk", key=os.environ["DIR_AGENT_KEY"]) as console:
    result = console.act("ISSUE_REFUND", {"order": "o-17", "cents": 4200}, explain="It arrived broken.")
    print(result.words())
"""

from dir_console_client.client import AsyncClient, Client
from dir_console_client.errors import ConsoleError, Refused, SafeMode
from dir_console_client.models import (
    Consultation,
    Context,
    Event,
    Message,
    Provider,
    Question,
    Reason,
    Result,
    Sent,
    Status,
    Task,
    TaskChange,
    Verdict,
)

__all__ = [
    "AsyncClient",
    "Client",
    "ConsoleError",
    "Consultation",
    "Context",
    "Event",
    "Message",
    "Provider",
    "Question",
    "Reason",
    "Refused",
    "Result",
    "SafeMode",
    "Sent",
    "Status",
    "Task",
    "TaskChange",
    "Verdict",
]
