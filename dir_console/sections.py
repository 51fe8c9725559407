"""The menu of the console."""

from dir_console import demo_control

# The word, the name of the address and the icon of each page.
SECTIONS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "Operate",
        (
            ("Overview", "overview", "overview"),
            ("Inbox", "inbox", "check"),
            ("Escalations", "escalations", "inbox"),
            ("Tasks", "tasks", "user"),
            ("Shift", "shift", "clock"),
            ("Flows", "flows", "flow"),
            ("Reviews", "reviews", "high"),
            ("Incidents", "incidents", "critical"),
            ("Conversations", "conversations", "send"),
        ),
    ),
    (
        "Govern",
        (
            ("Agents", "agents", "agent"),
            ("Budgets", "budgets", "budget"),
            ("World", "world", "layers"),
            ("Memory", "memory", "layers"),
            ("Capabilities", "capabilities", "bolt"),
            ("Policy kinds", "kinds", "kind"),
            ("Rulesets", "rulesets", "record"),
            ("Workflows", "workflows", "flow"),
            ("Noise", "noise", "thought"),
            ("Precedents", "precedents", "layers"),
            ("Targets", "targets", "bolt"),
            ("Tools", "tools", "kind"),
            ("Retention", "retention", "lock"),
            ("Payload keys", "payload-keys", "shield"),
            ("People", "people", "user"),
            ("Notifications", "notifications", "send"),
            ("Sending events out", "receivers", "refer"),
        ),
    ),
    (
        "Audit",
        (
            ("Explore", "explore", "search"),
            ("Decision specs", "specs", "kind"),
            ("Decisions", "decisions", "record"),
            ("Records", "records", "shield"),
            ("Decision metrics", "decision-metrics", "budget"),
            ("Ledger", "ledger", "ledger"),
            ("Replay", "replay-runs", "undo"),
            ("Conformance", "conformance", "check"),
        ),
    ),
)
DEMO: tuple[str, str, str] = ("Demo scenarios", "demo", "play")
HELP: tuple[tuple[str, str, str], ...] = (("Help", "help", "help"), ("Glossary", "glossary", "help"))


def menu() -> list[tuple[str, tuple[tuple[str, str, str], ...]]]:
    """The groups of the menu; the demo's page is in it only where the demo runs."""
    demo = [("Demo", (DEMO,))] if demo_control.is_offered() else []
    return [*SECTIONS, *demo]
