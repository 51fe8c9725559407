"""`manage.py lint_pack`: workflows, and all else that loading a pack would refuse. It writes nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from runtime.packs.services import packs
from runtime.registry.models import Pack
from tests.support.ruleset_cases import FEATURES, row, table
from tests.support.workflow_story import RESEARCH, SEQUENCE

pytestmark = pytest.mark.django_db
DOCS = Path(__file__).parents[2] / "docs"


def _file(folder: Path, **fields: Any) -> Path:
    # JSON is YAML.
    file = folder / "pack.yaml"
    file.write_text(json.dumps({"pack": "p", "version": "1.0.0", **fields}))
    return file


def _linted(file: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, str]]]:
    code = 0
    try:
        call_command("lint_pack", str(file), "--json")
    except SystemExit as ended:
        code = int(str(ended.code))
    return code, json.loads(capsys.readouterr().out)["findings"]


def test_a_forbidden_path_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = [*RESEARCH["edges"], ["GENERATE", "PROPOSE"]]
    file = _file(tmp_path, workflows=[{**RESEARCH, "edges": edges, "checkers": [SEQUENCE]}])
    code, (found,) = _linted(file, capsys)
    assert code == 1
    assert (found["code"], found["severity"]) == ("FORBIDDEN_PATH", "error")
    assert found["where"] == "pack.yaml:1 workflows[0].checkers[0]"
    assert "GENERATE > PROPOSE" in found["message"]


def test_a_warning_is_shown_and_is_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    router = {"router": "value", "on": "VERIFY", "key": "output.x", "equals": 1, "to": "PROPOSE"}
    routers = [{**router, "id": "one"}, {**router, "id": "two"}]
    file = _file(tmp_path, workflows=[{**RESEARCH, "routers": routers}])
    code, (found,) = _linted(file, capsys)
    assert (code, found["code"], found["severity"]) == (0, "AMBIGUOUS_ROUTERS", "warning")
    call_command("lint_pack", str(file))
    assert capsys.readouterr().out.startswith("warning AMBIGUOUS_ROUTERS pack.yaml:1 workflows[0].routers[1]")


def test_whatever_a_load_would_refuse_is_found_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = {"base_url": "http://x", "secret_env": "no name"}
    code, found = _linted(_file(tmp_path, targets={"t": target}), capsys)
    assert (code, [one["code"] for one in found]) == (1, ["PACK_REFUSED"])
    guards = [{"id": "g", "guard": "LEXICAL", "policy_kinds": ["NONE"]}]
    code, found = _linted(_file(tmp_path, guards=guards), capsys)
    assert (code, [one["code"] for one in found]) == (1, ["PACK_REFUSED"])
    assert not Pack.objects.exists()


def test_a_pack_is_linted_before_there_is_any_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection.introspection, "table_names", list)
    monkeypatch.delattr(packs, "_in_use")
    assert _linted(_file(tmp_path, workflows=[RESEARCH]), capsys) == (0, [])
    guards = [{"id": "g", "guard": "LEXICAL", "policy_kinds": ["NONE"]}]
    code, found = _linted(_file(tmp_path, guards=guards), capsys)
    assert (code, [one["code"] for one in found]) == (1, ["PACK_REFUSED"])


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("lint_pack", str(tmp_path / "none.yaml"))


def test_the_example_of_the_documentation_is_clean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (DOCS / "workflows.md").read_text()
    file = tmp_path / "pack.yaml"
    file.write_text(page.split("```yaml\n")[1].split("```")[0])
    call_command("lint_pack", str(file))
    assert capsys.readouterr().out == "pack.yaml: no findings\n"


@pytest.mark.parametrize("has_tables", [True, False])
def test_what_a_linter_says_of_a_ruleset_is_shown_with_its_place(
    has_tables: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_tables:
        monkeypatch.setattr(connection.introspection, "table_names", list)
    overlapping = table(row("A", "< 5"), row("B", "[4..9]"))
    rulesets = [{"ruleset": "cases", "version": "1.0.0", "features": FEATURES, "tables": [overlapping]}]
    code, (overlap, gap) = _linted(_file(tmp_path, rulesets=rulesets), capsys)
    assert code == 0
    assert (overlap["code"], overlap["severity"]) == ("OVERLAP", "warning")
    assert overlap["where"] == "pack.yaml:1 rulesets[0].tables[0].rules[1]"
    assert (gap["code"], gap["severity"]) == ("GAP", "info")
    rulesets[0]["tables"] = [table(row("A", "<"))]
    code, (wrong, *more) = _linted(_file(tmp_path, rulesets=rulesets), capsys)
    assert (code, wrong["code"], wrong["severity"]) == (1, "BAD_CELL", "error")
    assert "PACK_REFUSED" not in {one["code"] for one in more}
