"""The menu of the console."""

from dataclasses import dataclass
from functools import lru_cache

from django.urls import get_script_prefix, reverse

from dir_console import demo_control

MOST_ADDRESSES = 256
# The items beside which something is counted.
COUNTING = frozenset({"escalations", "reviews", "inbox"})

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


@dataclass(frozen=True, slots=True)
class Item:
    """One page of the menu; `counts` is its name where something is counted beside it, or else empty."""

    word: str
    url: str
    icon: str
    current: bool
    counts: str


@dataclass(frozen=True, slots=True)
class Group:
    """The pages under one title."""

    title: str
    items: tuple[Item, ...]


def groups(path: str) -> list[Group]:
    """The menu of the page at this path."""
    prefix = get_script_prefix()
    return [
        Group(title, tuple(_item(*entry, path=path, prefix=prefix) for entry in entries))
        for title, entries in menu()
    ]


def _item(word: str, name: str, icon: str, *, path: str, prefix: str) -> Item:
    url = _address(name, prefix)
    is_current = path == url or (name != "overview" and path.startswith(url))
    return Item(word, url, icon, is_current, name if name in COUNTING else "")


@lru_cache(maxsize=MOST_ADDRESSES)
def _address(name: str, prefix: str) -> str:
    """The address of a page, written once for each place under which the console is served (`prefix`)."""
    return reverse(name)


def menu() -> list[tuple[str, tuple[tuple[str, str, str], ...]]]:
    """The groups of the menu; the demo's page is in it only where the demo runs."""
    demo = [("Demo", (DEMO,))] if demo_control.is_offered() else []
    return [*SECTIONS, *demo]
