"""The timeline: lanes, waits, cursors, stored entries, and words for every kind of entry."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings

from audit import canonical, presenters
from audit.access.roles import Role
from audit.events import Kind
from audit.models import LedgerEntry
from runtime.contracts import states
from runtime.core.views import labels
from runtime.flows.queries.activity import Bucket
from runtime.flows.views import charts, duration_bar, timeline
from runtime.kernel.version_diff import Change
from tests.support import demo_scenes
from tests.web.test_pages import sign_in, text_of

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_shows_every_entry_of_the_flow_in_its_lane() -> None:
    scene = demo_scenes.build()
    page = text_of(sign_in(Role.AUDITOR), f"/flows/{scene.flows[3]}/")
    rows = LedgerEntry.objects.filter(stream=scene.flows[3])
    assert len(re.findall(r'id="e\d+"', page)) == rows.count()
    for words in ("Proposal submitted", "Verdict given", "Escalation opened", "Waiting for a person"):
        assert words in page
    assert f"/escalations/{scene.escalations[0]}/" in page


def test_gives_only_what_came_after_the_cursor() -> None:
    scene = demo_scenes.build()
    client, path = sign_in(Role.AUDITOR), f"/flows/{scene.flows[3]}/entries/"
    last = LedgerEntry.objects.filter(stream=scene.flows[3]).latest("seq").seq
    assert text_of(client, f"{path}?after={last}").strip() == ""
    assert re.findall(r'id="e(\d+)"', text_of(client, f"{path}?after={last - 2}")) == [
        str(last - 1),
        str(last),
    ]


def test_shows_an_entry_as_it_is_stored() -> None:
    scene = demo_scenes.build()
    row = LedgerEntry.objects.filter(stream=scene.flows[0]).earliest("seq")
    client = sign_in(Role.AUDITOR)
    raw = text_of(client, f"/flows/{scene.flows[0]}/entries/{row.seq}/")
    assert bytes(row.hash).hex() in raw
    assert bytes(row.prev_hash).hex() in raw
    assert client.get(f"/flows/{scene.flows[0]}/entries/9999/").status_code == 404


def test_pages_of_a_long_timeline_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = demo_scenes.build()
    monkeypatch.setattr("runtime.flows.queries.flow_search.ENTRIES", 4)
    client, path, seen = sign_in(Role.AUDITOR), f"/flows/{scene.flows[3]}/", []
    base = path
    while path:
        page = text_of(client, path)
        seen += re.findall(r'id="e(\d+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = f"{base}{following[1]}" if following else ""
    assert len(seen) == len(set(seen)) == LedgerEntry.objects.filter(stream=scene.flows[3]).count()


def test_every_kind_has_a_lane() -> None:
    for kind in Kind:
        assert timeline.lane_of(kind, {}) in presenters.LANES.values()
    assert timeline.lane_of("thing:of_tomorrow", {}) is presenters.LANES[presenters.Lane.CONTEXT]
    assert presenters.present("thing:of_tomorrow").title


def test_every_lane_has_its_column_in_the_style_sheet() -> None:
    columns = [lane.column for lane in presenters.LANES.values()]
    assert set(presenters.LANES) == set(presenters.Lane) - {presenters.Lane.SYSTEM}
    assert columns == list(range(1, len(columns) + 1))
    style = (settings.BASE_DIR / "static/css/timeline.css").read_text()
    assert {int(number) for number in re.findall(r"\.lane-(\d+)", style)} == set(columns)
    assert set(re.findall(r"repeat\((\d+), var\(--lane\)", style)) == {str(len(columns))}


def test_an_abort_is_a_decision_only_where_a_person_had_it() -> None:
    def lane(from_state: str) -> presenters.LaneShown:
        return timeline.lane_of(Kind.FLOW_MOVED, {"from_state": from_state, "to_state": "ABORTED"})

    assert lane("ESCALATED") is presenters.LANES[presenters.Lane.DECISION]
    assert lane("COMPENSATING") is presenters.LANES[presenters.Lane.EXECUTION]
    assert lane("VALIDATING") is presenters.LANES[presenters.Lane.VALIDATION]


def test_a_person_is_named_and_waited_for_while_evidence_is_revised() -> None:
    def entry(*, kind: Kind, actor: str, s: int) -> LedgerEntry:
        told = {"author": actor, "policy_kind": "K", "policy_version": "1.0.0", "valid_until": "soon"}
        stored = canonical.encode({"payload": told})
        return LedgerEntry(kind=kind, actor=actor, body=stored, at=NOON + timedelta(seconds=s), seq=s)

    made = timeline.lines(
        [
            entry(kind=Kind.PROPOSAL_SUBMITTED, actor="agent:a", s=1),
            entry(kind=Kind.ESCALATION_WITHDRAWN, actor="system", s=60),
            entry(kind=Kind.PROPOSAL_SUBMITTED, actor="user:7", s=120),
            entry(kind=Kind.INTENT_BLOCKED, actor="system", s=180),
            entry(kind=Kind.TASK_OVERDUE, actor="system", s=240),
            entry(kind=Kind.CALLBACK_OVERDUE, actor="system", s=300),
        ],
        names={"user:7": "olga"},
        begun_at=NOON,
    )
    assert [line.wait_for for line in made] == [
        "",
        "a person",
        "a person",
        "the runtime",
        "a person",
        "the target",
    ]
    assert made[2].summary.startswith("olga proposes K")


def test_every_state_has_a_badge() -> None:
    assert set(labels.FLOW_STATES) == set(states.FlowState)
    assert set(labels.AGENT_STATUSES) == set(states.AgentStatus)
    assert set(labels.MANIFEST_STATES) == set(states.ManifestState)
    assert set(labels.KIND_STATES) == set(states.KindState)
    assert set(labels.RESERVATIONS) == set(states.ReservationState)
    assert set(labels.CHANGES) == set(Change)
    assert set(labels.VERDICTS) == set(states.Decision)
    assert set(labels.OUTCOMES) == set(states.OutcomeStatus)
    assert set(labels.IMPACTS) == set(states.Impact)
    assert labels.badge(labels.IMPACTS, "NEW").word == "NEW"


def test_numbers_are_grouped_and_other_values_stand() -> None:
    assert labels.number("1234567") == "1,234,567"
    assert labels.number(-1500) == "-1,500"
    assert labels.number("0.72") == "0.72"
    assert labels.number("9" * 400) == "9" * 400
    assert labels.plain_value({"b": 1, "a": None}) == '{"a":null,"b":1}'
    assert [labels.plain_value(value) for value in (None, True, False)] == ["none", "yes", "no"]


def test_actors_are_named_for_people() -> None:
    names = {"user:7": "olga"}
    assert labels.actor_words("user:7", names) == "olga"
    assert labels.actor_words("user:8", names) == "user 8"
    assert labels.actor_words("agent:a", names) == "a"
    assert labels.actor_words("feed:prices", names) == "feed prices"
    assert labels.actor_words("system", names) == "Runtime"


def test_the_strip_adds_up_and_shows_the_smallest() -> None:
    scene = demo_scenes.build()
    rows = list(LedgerEntry.objects.filter(stream=scene.flows[3]).order_by("seq"))
    made = timeline.lines(rows, names={}, begun_at=rows[0].at)
    stretches = duration_bar.stretches(made, until=rows[-1].at + timedelta(hours=1), waiting_for="a person")
    assert round(sum(stretch.width for stretch in stretches)) == duration_bar.WHOLE
    assert stretches[-1].wait
    assert stretches[-1].name == "Waiting for a person"
    assert duration_bar.totals(stretches)[-1].took_words.startswith(("1 h", "59 min"))
    assert duration_bar.stretches([], until=None, waiting_for="") == []


def test_the_chart_stacks_to_a_round_number() -> None:
    bucket = Bucket(begins_at=NOON, accepted=3, escalated=1, rejected=3)
    chart = charts.throughput([bucket, Bucket(begins_at=NOON, accepted=0, escalated=0, rejected=0)])
    assert chart.top == 10
    assert [part[0] for part in chart.bars[0].parts] == ["accept", "escalate", "reject"]
    assert chart.bars[1].parts == []
    assert charts.throughput([]).top == 2
    assert charts.bars([("A", 4), ("B", 1)])[1].width == 25
