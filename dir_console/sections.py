"""The menu of the console."""

from collections.abc import Sequence
from dataclasses import dataclass

from dir_console import demo_control
from runtime.core.views import addresses
from runtime.core.views.kept import kept

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
    shown = menu()
    names = [name for _, entries in shown for _, name, _ in entries]
    return _groups(shown, frozenset(name for name in names if _is_current(name, path)))


def _is_current(name: str, path: str) -> bool:
    url = addresses.of_page(name)
    return path == url or (name != "overview" and path.startswith(url))


@kept(MOST_MENUS)
def _groups(shown: Menu, current: frozenset[str]) -> Sequence[Group]:
    made = []
    for title, entries in shown:
        items = tuple(
            Item(word, addresses.of_page(name), icon, name in current, name if name in COUNTING else "")
            for word, name, icon in entries
        )
        made.append(Group(title, items, any(item.counts for item in items)))
    return tuple(made)


def menu() -> Menu:
    """The groups of the menu; the demo's page is in it only where the demo runs."""
    return WITH_DEMO if demo_control.is_offered() else SECTIONS
