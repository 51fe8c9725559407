"""The manifest, the service worker and the offline notice: headers, and nothing else is kept."""

import json
import re

import pytest
from django.contrib.staticfiles import finders
from django.test import Client

from dir_console import app_files

pytestmark = pytest.mark.django_db


def test_manifest_names_icons_that_exist(client: Client) -> None:
    answer = client.get("/manifest.webmanifest")
    assert answer["Content-Type"] == "application/manifest+json"
    assert answer["Cache-Control"] == "no-cache"
    content = json.loads(answer.content)
    assert (content["name"], content["start_url"], content["display"]) == (
        "DIR Console",
        "/escalations/",
        "standalone",
    )
    assert {icon["sizes"] for icon in content["icons"]} == {"any", "192x192", "512x512"}
    assert {icon["sizes"] for icon in content["icons"] if icon.get("purpose") == "maskable"} == {
        "192x192",
        "512x512",
    }
    for icon in content["icons"]:
        assert finders.find(icon["src"].removeprefix("/static/")), icon


def test_worker_is_a_script_at_the_root_that_is_asked_for_again_each_time(client: Client) -> None:
    answer = client.get("/service-worker.js")
    assert answer["Content-Type"].startswith("text/javascript")
    assert answer["Cache-Control"] == "no-cache"
    assert "worker-src 'self'" in answer["Content-Security-Policy"]


def test_worker_keeps_the_notice_and_its_files_only(client: Client) -> None:
    text = client.get("/service-worker.js").content.decode()
    found = re.search(r"const FILES = (\[.*?\]);", text)
    assert found is not None
    first, *files = json.loads(found[1])
    assert first == "/offline/"
    assert files == [f"/static/{name}" for name in app_files.NOTICE_FILES]
    notice = client.get(first).content.decode()
    used = set(re.findall(r'(?:href|src)="(/static/[^"#]+)', notice))
    assert used == set(files), "the notice looks the same without a server"


def test_a_changed_file_gives_the_kept_notice_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    before = app_files._version()
    monkeypatch.setattr(app_files, "NOTICE_FILES", (*app_files.NOTICE_FILES, "css/queue.css"))
    app_files._version.cache_clear()
    try:
        assert app_files._version() != before
    finally:
        app_files._version.cache_clear()


def test_notice_needs_no_session_and_says_that_nothing_is_current(client: Client) -> None:
    answer = client.get("/offline/")
    assert answer.status_code == 200
    assert "Nothing shown here is current. Nothing can be decided." in answer.content.decode()
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("address", ["/manifest.webmanifest", "/service-worker.js", "/offline/"])
def test_a_post_is_refused(client: Client, address: str) -> None:
    assert client.post(address).status_code == 405


def test_policy_opens_two_doors_to_the_console_itself_and_no_other(client: Client) -> None:
    policy = client.get("/accounts/login/")["Content-Security-Policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert (parts["worker-src"], parts["manifest-src"]) == ("'self'", "'self'")
    assert {name: value for name, value in parts.items() if value not in {"'self'", "'none'"}} == {
        "img-src": "'self' data:"
    }
