"""Checkpoints that people kept, compared by the verifier alone: forks, other roots, gaps."""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from audit.models import Checkpoint
from audit.packs import verify
from audit.sealing import keys, proofs
from runtime.core import clock
from runtime.maintenance.services import sealing
from tests.support import api_client, exported_packs, kept_checkpoints, trading_desk
from tests.support.kept_checkpoints import HOUSE, Case, Files, chain, files, proof, signed

READABLE = [each for each in kept_checkpoints.read() if each.code != "UNREADABLE"]
KEY = base64.b64encode(HOUSE.public_key).decode()


def compared(folder: Path, shown: Files, *options: str, key: str = KEY) -> tuple[int, dict[str, Any]]:
    """What a stranger is told: the verifier as a file in an empty folder, the notes in another."""
    place = folder / "kept"
    place.mkdir(exist_ok=True)
    for name, text in shown.items():
        (place / name).write_text(text)
    given = (*options, *(("--key", key) if key else ()))
    return asked(folder, "--checkpoints", "kept", *given)


def asked(folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
    shutil.copy(verify.__file__, folder / "verify.py")
    command = [sys.executable, "-I", "verify.py", "--json", *options]
    done = subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    answer: dict[str, Any] = json.loads(done.stdout)
    assert answer["exit"] == done.returncode
    return done.returncode, answer


def codes(answer: Mapping[str, Any]) -> list[str]:
    return [finding["code"] for finding in answer["findings"]]


def test_a_chain_is_whole(tmp_path: Path) -> None:
    kept = chain()
    code, answer = compared(tmp_path, files(kept))
    assert (code, answer["findings"], answer["problem"]) == (0, [], "")
    assert "Each checkpoint is signed by a key that you gave." in answer["proved"]
    assert "No two checkpoints name the same one before them." in answer["proved"]
    [log] = answer["logs"]
    assert (log["checkpoints"], log["gaps"]) == (len(kept), [])
    assert (log["first"]["file"], log["last"]["size"]) == ("kept/kept-0.txt", kept[-1].size)
    assert "Anything after 'kept/kept-5.txt'." in answer["not_proved"]
    # The first says itself that it is.
    assert not any(each.startswith("What came before") for each in answer["not_proved"])


def test_every_case_is_in_the_table_once() -> None:
    assert [case.what for case in kept_checkpoints.read()] == list(kept_checkpoints.SHOWN)


@pytest.mark.parametrize("case", kept_checkpoints.read(), ids=lambda case: case.what)
def test_each_case_is_named_as_the_table_says(case: Case, tmp_path: Path) -> None:
    code, answer = compared(tmp_path, kept_checkpoints.SHOWN[case.what]())
    assert (codes(answer) or ["-"])[0] == case.code, answer
    assert code == case.exit


@pytest.mark.parametrize("case", READABLE, ids=lambda case: case.what)
def test_names_of_files_change_nothing(case: Case) -> None:
    shown = sorted(kept_checkpoints.SHOWN[case.what]().values(), key=lambda text: text[::-1])
    kept = [verify.Kept(f"{place}", verify.read_note(text.encode())) for place, text in enumerate(shown)]
    found = verify.compare(kept, verify.Brought(keys={HOUSE.key_id: HOUSE.public_key}))
    assert found.exit == case.exit
    assert case.code in [*(finding.code for finding in found.findings), "-"]


def test_a_finding_names_both_files(tmp_path: Path) -> None:
    _, answer = compared(tmp_path, kept_checkpoints.SHOWN["another successor shown to somebody else"]())
    first = answer["findings"][0]
    assert "theirs-0.txt" in first["member"]
    assert "'kept/kept-4.txt'" in first["detail"]
    assert not any("same one before" in sentence for sentence in answer["proved"])


def test_the_same_checkpoint_twice_is_one(tmp_path: Path) -> None:
    kept = chain()
    code, answer = compared(tmp_path, {**files(kept), "latest.txt": signed(kept[-1])})
    assert (code, answer["logs"][0]["checkpoints"]) == (0, len(kept))


def test_a_gap_is_told_and_closed_by_a_proof(tmp_path: Path) -> None:
    kept = chain()
    shown = files([*kept[:3], *kept[4:]])
    code, answer = compared(tmp_path, shown)
    [gap] = answer["logs"][0]["gaps"]
    assert (code, gap["from"], gap["to"], gap["is_proved"]) == (2, 3, 12, False)
    assert "proofs/consistency?from=3&to=12" in answer["problem"]
    (tmp_path / "proof.json").write_text(json.dumps(proof(3, 12)))
    code, answer = compared(tmp_path, shown, "--consistency", "proof.json")
    assert (code, answer["logs"][0]["gaps"][0]["is_proved"]) == (0, True)


def test_a_proof_of_another_log_is_a_finding(tmp_path: Path) -> None:
    kept = chain()
    later = chain(kept_checkpoints.SIZES[3:], before=kept[2], began=kept[3].time, changed=1)
    (tmp_path / "proof.json").write_text(json.dumps(proof(3, 12)))
    code, answer = compared(tmp_path, files([*kept[:3], *later[1:]]), "--consistency", "proof.json")
    assert (code, codes(answer)) == (1, ["LOG_FORKED"])


def test_two_gaps_take_two_proofs(tmp_path: Path) -> None:
    kept = chain()
    for smaller, larger in ((0, 3), (3, 7), (7, 20)):
        (tmp_path / f"{smaller}.json").write_text(json.dumps(proof(smaller, larger)))
    shown = files([kept[0], kept[2], kept[3], kept[5]])
    assert compared(tmp_path, shown, "--consistency", "7.json")[0] == 0
    shown = files([kept[1], kept[3], kept[5]])
    assert compared(tmp_path, shown, "--consistency", "7.json")[0] == 2
    assert compared(tmp_path, shown, "--consistency", "7.json", "--consistency", "3.json")[0] == 0


def test_a_missing_heartbeat_needs_no_proof(tmp_path: Path) -> None:
    """As a witness keeps them: of those over as many entries only the first and the newest."""
    kept = chain((3, 3, 3, 3, 5))
    code, answer = compared(tmp_path, files([kept[0], *kept[3:]]))
    assert (code, len(answer["logs"][0]["gaps"])) == (0, 1)


def test_without_a_key_agreement_proves_nothing_and_a_fork_is_a_fork(tmp_path: Path) -> None:
    code, answer = compared(tmp_path, files(chain()), key="")
    assert (code, answer["findings"]) == (2, [])
    assert "No signature was checked" in answer["problem"]
    shown = kept_checkpoints.SHOWN["another successor shown to somebody else"]()
    code, answer = compared(tmp_path, shown, key="")
    assert (code, codes(answer)[0]) == (1, "CHAIN_FORKED")
    assert "Who signed these checkpoints: no key was given." in answer["not_proved"]


def test_logs_of_other_origins_are_told_apart(tmp_path: Path) -> None:
    other = chain((2, 9), origin="dir-console/other", changed=1)
    code, answer = compared(tmp_path, {**files(chain()), **files(other, name="other")})
    assert (code, [log["checkpoints"] for log in answer["logs"]]) == (0, [2, 6])


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ({}, "There are no checkpoints in what you named."),
        (files(chain()[:1]), "There are not two different checkpoints"),
    ],
)
def test_less_than_two_cannot_be_judged(shown: Files, words: str, tmp_path: Path) -> None:
    code, answer = compared(tmp_path, shown)
    assert code == 2
    assert words in answer["problem"]


@pytest.mark.parametrize("said", ["{", "{}", '{"checkpoints": [1]}'])
def test_a_list_of_another_form_cannot_be_judged(said: str, tmp_path: Path) -> None:
    (tmp_path / "listed.json").write_text(said)
    assert asked(tmp_path, "--checkpoints", "listed.json", "--key", KEY)[0] == 2


def test_what_is_not_there_cannot_be_judged(tmp_path: Path) -> None:
    code, answer = asked(tmp_path, "--checkpoints", "nowhere.txt")
    assert (code, answer["problem"].split(":")[0]) == (2, "A file cannot be read")


def test_checkpoints_of_old_versions_are_compared_by_their_roots(tmp_path: Path) -> None:
    """They name none before them, so the next version's first one names what nobody can see is theirs."""
    kept = chain()
    old = [replace(each, previous=None) for each in kept[:3]]
    new = chain(kept_checkpoints.SIZES[3:], before=old[-1], began=kept[3].time)
    code, answer = compared(tmp_path, files([*old, *new]))
    assert (code, codes(answer)) == (0, [])
    assert any("old versions" in each for each in answer["not_proved"])


def test_people_are_told_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in files([*chain()[:3], *chain()[4:]]).items():
        (tmp_path / name).write_text(text)
    assert verify.main(["--checkpoints", str(tmp_path), "--key", KEY]) == 2
    said = capsys.readouterr().out
    assert said.startswith("This cannot be judged. Checkpoints are missing between ")
    assert "nothing shows that the log only grew meanwhile." in said
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name, text in kept_checkpoints.SHOWN["another successor shown to somebody else"]().items():
        (theirs / name).write_text(text)
    assert verify.main(["--checkpoints", str(theirs), "--key", KEY]) == 1
    assert capsys.readouterr().out.startswith("These checkpoints contradict each other. The first bad item: ")
    for name, text in files(chain()).items():
        (tmp_path / name).write_text(text)
    shutil.rmtree(theirs)
    assert verify.main(["--checkpoints", str(tmp_path), "--key", KEY]) == 0
    assert "These checkpoints do not contradict each other." in capsys.readouterr().out


def test_a_pack_is_not_checked_meanwhile(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        verify.main(["pack.zip", "--checkpoints", str(tmp_path)])
    assert ended.value.code == verify.EXIT_CANNOT_JUDGE
    assert "compares checkpoints alone" in capsys.readouterr().err


@pytest.mark.django_db
def test_what_a_ledger_has_signed_is_whole_with_the_checkpoint_of_a_pack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a real ledger: its own checkpoints, its keys, its proofs, and the one in a pack."""
    desk = trading_desk.open_desk()
    began = clock.now()
    dfids = []
    for minute in range(4):
        monkeypatch.setattr(clock, "now", lambda minute=minute: began + timedelta(minutes=minute))
        dfids.append(desk.open())
        sealing.seal_now()
    rows = list(Checkpoint.objects.order_by("id"))
    shown = {f"{row.size:012}-{row.pk}.txt": row.note for row in rows}
    known = [base64.b64encode(key.public_key).decode() for key in keys.known(tenant="default")]
    answered = {"keys": [{"public_key": key} for key in known]}
    (tmp_path / "keys.json").write_text(json.dumps(answered))
    assert compared(tmp_path, shown, key="keys.json")[0] == 0
    (tmp_path / "pack.zip").write_bytes(exported_packs.make(dfids[0]).archive)
    # Not the first of all, which is over nothing.
    ends = [f"kept/{sorted(shown)[1]}", "pack.zip"]
    code, answer = asked(tmp_path, "--checkpoints", *ends, "--key", "keys.json")
    [gap] = answer["logs"][0]["gaps"]
    assert (code, gap["is_proved"]) == (2, False)
    found = proofs.consistency(from_size=gap["from"], to_size=gap["to"])
    assert found is not None
    said = {"from": gap["from"], "to": gap["to"], "hashes": [each.hex() for each in found]}
    (tmp_path / "proof.json").write_text(json.dumps(said))
    listed = api_client.Caller(api_client.auditor_key()).get("/audit/checkpoints").content
    (tmp_path / "listed.json").write_bytes(listed)
    code, answer = asked(tmp_path, "--checkpoints", "listed.json", "pack.zip", "--key", "keys.json")
    assert (code, answer["logs"][0]["gaps"]) == (0, [])
    assert answer["logs"][0]["first"]["file"] == "listed.json#1"
    closed = asked(tmp_path, "--checkpoints", *ends, "--key", "keys.json", "--consistency", "proof.json")
    assert closed[0] == 0, closed


def test_a_proof_between_linked_checkpoints_is_checked_too(tmp_path: Path) -> None:
    wrong = {**proof(3, 7), "hashes": ["ab" * 32]}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    code, answer = compared(tmp_path, files(chain()), "--consistency", "wrong.json")
    assert (code, codes(answer)) == (1, ["LOG_FORKED"])
    (tmp_path / "other.json").write_text(json.dumps(proof(2, 5)))
    code, answer = compared(tmp_path, files(chain()), "--consistency", "other.json")
    assert code == 0
    assert not any("proof that you gave" in each for each in answer["proved"])


def test_one_that_names_none_beside_a_linked_chain_is_a_fork(tmp_path: Path) -> None:
    first, second = chain((10, 20))
    first = replace(first, previous=None)
    second = replace(second, previous=first.digest(), time=second.time + timedelta(minutes=5))
    beside = replace(chain((15,))[0], previous=None, time=second.time - timedelta(minutes=2))
    code, answer = compared(tmp_path, files([first, second, beside]))
    assert (code, codes(answer)) == (1, ["CHAIN_FORKED"])


def test_what_is_wrong_with_the_only_one_is_said(tmp_path: Path) -> None:
    for name, shown, code in (
        ("a", files(chain()[:1], by=kept_checkpoints.STRANGER), "CHECKPOINT_KEY"),
        ("b", {**files(chain()[:1]), "broken.txt": "nothing"}, "UNREADABLE"),
    ):
        (tmp_path / name).mkdir()
        found, answer = compared(tmp_path / name, shown)
        assert (found, codes(answer)) == (1, [code])


def test_a_file_that_cannot_be_read_hides_no_fork(tmp_path: Path) -> None:
    forked = kept_checkpoints.SHOWN["another successor shown to somebody else"]()
    (tmp_path / "listed.json").write_text("{")
    for name, text in forked.items():
        (tmp_path / name).write_text(text)
    code, answer = asked(tmp_path, "--checkpoints", "listed.json", *forked, "--key", KEY)
    assert (code, codes(answer)[0]) == (1, "CHAIN_FORKED")
    assert "'listed.json' cannot be read as checkpoints" in answer["problem"]


def test_a_fork_comes_before_many_files_that_are_no_checkpoints(tmp_path: Path) -> None:
    forked = kept_checkpoints.SHOWN["another successor shown to somebody else"]()
    many = {f"a-{number:03}.txt": "nothing" for number in range(verify.MOST_FINDINGS + 1)}
    code, answer = compared(tmp_path, {**many, **forked})
    assert (code, codes(answer)[0]) == (1, "CHAIN_FORKED")
