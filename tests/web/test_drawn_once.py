"""What pages keep once it was written is the same as if it were written anew, and never another page's."""

from datetime import UTC, datetime, timedelta

import pytest
from django.template import engines
from django.urls import NoReverseMatch, reverse, set_script_prefix

from dir_console import sections
from dir_console.templatetags import components
from runtime.core.views import addresses


def draw(template: str, **context: object) -> str:
    return engines["django"].from_string(template).render(context)


def test_an_address_is_that_of_django() -> None:
    for _ in range(2):
        assert draw("{% url 'agent' name %}", name="a b&c") == reverse("agent", args=["a b&c"]).replace(
            "&", "&amp;"
        )
        assert draw("{% url 'agent' name as there %}{{ there }}", name="x") == reverse("agent", args=["x"])
        assert draw("{% url 'agent' agent_id=name %}", name="x") == reverse("agent", args=["x"])


def test_an_address_that_is_not_there_fails_or_is_empty() -> None:
    with pytest.raises(NoReverseMatch):
        draw("{% url 'no-such-page' %}")
    assert draw("{% url 'no-such-page' as there %}[{{ there }}]") == "[]"


def test_an_address_belongs_to_the_place_where_the_console_is_served() -> None:
    assert addresses.of_page("escalations") == "/escalations/"
    set_script_prefix("/below/")
    try:
        assert addresses.of_page("escalations") == "/below/escalations/"
        assert sections.groups("/below/escalations/")[0].items[2].current
        assert "/below/glossary/" in draw("{% term 'Agent' %}{% terms 'Agent' %}")
    finally:
        set_script_prefix("/")
    assert "/below/" not in draw("{% term 'Agent' %}{% terms 'Agent' %}")


def test_equal_values_of_other_types_are_other_addresses() -> None:
    assert addresses.of_page("help-page", 1) != addresses.of_page("help-page", True)


def test_an_icon_of_the_template_is_the_icon_of_a_value() -> None:
    assert draw("{% icon 'check' 's' %}") == draw("{% icon name size %}", name="check", size="s")
    assert draw("{% icon 'check' as kept %}[{{ kept }}]") == f"[{components.icon('check')}]"
    assert draw("{% icon 'check'|upper %}") == components.icon("CHECK")
    assert draw("{% static 'favicon.svg' %}") == draw("{% static path %}", path="favicon.svg")


def test_the_menu_is_drawn_anew_when_a_count_or_the_page_changes() -> None:
    (first, *_), (other, *_) = sections.groups("/inbox/"), sections.groups("/escalations/")
    assert first is sections.groups("/inbox/")[0]
    assert components.menu_group(first, 1) != components.menu_group(other, 1)
    assert "3<span" in components.menu_group(first, 1, None, 0, 3)
    assert "4<span" in components.menu_group(first, 1, None, 0, 4)


def test_only_the_words_of_a_moment_are_written_anew() -> None:
    at = datetime.now(UTC) - timedelta(seconds=100)
    drawn = components.show_time(at, "ago")
    assert f'datetime="{at.isoformat()}"' in drawn
    assert drawn.endswith(">1 min ago</time>")
