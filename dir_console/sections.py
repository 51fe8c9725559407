"""The menu of the console."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.urls import get_script_prefix, reverse

from dir_console import demo_control

MOST_MENUS = 256
# A title with the word, the name of the address and the icon of each page under it.
Menu = tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...]
# The items beside which something is counted.
COUNTING = frozenset({"escalations", "reviews", "inbox"})

SECTIONS: Menu = (
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
WITH_DEMO: Menu = (*SECTIONS, ("Demo", (("Demo scenarios", "demo", "play"),)))
HELP: tuple[tuple[str, str, str], ...] = (("Help", "help", "help"), ("Glossary", "glossary", "help"))


@dataclass(frozen=True, slots=True)
class Item:
    """One page of the menu; `counts` is its name where something is counted beside it, or else empty."""

    word: str
    url: str
    icon: str
    current: bool
    counts: str


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """The pages under one title; `is_counted`: something is counted beside one of them.

    Each is made once (`_groups`), so it is known by itself: comparing all of its pages would cost more.
    """

    title: str
    items: tuple[Item, ...]
    is_counted: bool


def groups(path: str) -> Sequence[Group]:
    """The menu of the page at this path."""
    prefix, shown = get_script_prefix(), menu()
    current = [
        name
        for name, url in _addresses(shown, prefix)
        if path == url or (name != "overview" and path.startswith(url))
    ]
    return _groups(shown, prefix, frozenset(current))


@lru_cache(maxsize=MOST_MENUS)
def _groups(shown: Menu, prefix: str, current: frozenset[str]) -> Sequence[Group]:
    address = dict(_addresses(shown, prefix))
    made = []
    for title, entries in shown:
        items = tuple(
            Item(word, address[name], icon, name in current, name if name in COUNTING else "")
            for word, name, icon in entries
        )
        made.append(Group(title, items, any(item.counts for item in items)))
    return tuple(made)


@lru_cache(maxsize=MOST_MENUS)
def _addresses(shown: Menu, prefix: str) -> Sequence[tuple[str, str]]:
    """The pages by name with their addresses, for a place under which the console is served (`prefix`)."""
    return [(name, reverse(name)) for _, entries in shown for _, name, _ in entries]


def menu() -> Menu:
    """The groups of the menu; the demo's page is in it only where the demo runs."""
    return WITH_DEMO if demo_control.is_offered() else SECTIONS
