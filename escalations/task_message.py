"""What a notice of a task says, in the forms of `notice_message`. Makes no queries.

What is to be done comes from the policy kind, what the step is part of from the agent: it is shown so that it
leads nowhere.
"""

from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.urls import reverse

from audit import canonical
from escalations import notice_message
from escalations.notice_message import LONGEST_EFFECT, Message, inert
from runtime.contracts import timestamps
from runtime.execution.models import HumanTask

LONGEST_INSTRUCTIONS: Final = 1000
_UNTRUSTED: Final = "The stored task does not match the ledger. Open its page."


def of_task(*, row: HumanTask, is_recorded: bool, at: datetime) -> Message:
    """The notice that a task opened; `row` with its intent, flow and agent.

    `is_recorded`: the row is what its entry says. Otherwise it tells nothing of what the row holds.
    """
    shown: dict[str, Any] = canonical.decode(bytes(row.body)) if is_recorded else {}
    effect = str(shown.get("effect", _UNTRUSTED))[:LONGEST_EFFECT]
    instructions = str(shown.get("instructions", ""))[:LONGEST_INSTRUCTIONS]
    agent_id = row.intent.flow.agent.agent_id
    url = f"{settings.DIR_PUBLIC_URL}{reverse('task', args=[row.pk])}"
    data = {
        "task_id": str(row.pk),
        "dfid": str(row.intent.flow_id),
        "agent_id": agent_id,
        "policy_kind": row.intent.flow.policy_kind,
        "group": row.group,
        "step": row.step,
        "instructions": instructions,
        "effect": effect,
        "deadline_at": timestamps.iso(row.deadline_at),
        "url": url,
    }
    lines = [
        inert(instructions) or inert(effect),
        "",
        f"Part of: {inert(effect)}",
        f"Asked: {inert(row.group)}",
        f"Agent: {inert(agent_id)}",
        f"Deadline: {row.deadline_at:%Y-%m-%d %H:%M:%S} UTC",
        "",
        url,
        "The link opens the page. Nothing is answered by it.",
    ]
    return Message(
        title=inert(f"A step for {row.group}: {row.step} of {agent_id}"),
        text="\n".join(lines),
        body=notice_message.json_body("task.opened", at, data),
    )
