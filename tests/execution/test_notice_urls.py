"""What apprise says of a failure is shown without any piece of the URL that could be a secret."""

import pytest

from runtime.execution.adapters.notices import apprise_child


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("Failed at /hooks/T0pSecret", "slack://T0pSecret/x"),
        ("bad login user:s3cr3t-word", "mailto://user:s3cr3t-word@example.com"),
        ("bad password 'pa$$ word#1'", "mailto://user:pa%24%24%20word%231@example.com"),
        ("no channel T0pSecret,\nT0pSecret", "discord://1234/T0pSecret?x=1"),
    ],
)
def test_pieces_of_the_url_are_left_out(text: str, url: str) -> None:
    shown = apprise_child.redacted(text, url)
    for secret in ("T0pSecret", "s3cr3t", "pa$$ word#1"):
        assert secret not in shown
    assert "***" in shown
    assert shown.isprintable()


def test_the_text_is_bounded() -> None:
    assert len(apprise_child.redacted("a " * 500, "slack://x")) <= apprise_child.LONGEST_WHY
