"""Loading packs: all or nothing, once, and never over what has happened since."""

from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.utils import timezone

from audit import canonical
from audit.models import LedgerEntry
from runtime.contracts.policy_kind import KindDocument
from runtime.contracts.problem import Problem
from runtime.core import transactions
from runtime.guards.models import Guard
from runtime.packs.services import packs
from runtime.packs.services.packs import Loaded, PackRefused
from runtime.registry.models import Agent, Manifest, Pack, PolicyKind, Target
from runtime.registry.services import kinds, manifests
from runtime.state.models import Fact, FactVersion
from tests.support import factories

pytestmark = pytest.mark.django_db
DEMO = Path(__file__).parents[2] / "demo" / "paper-brokerage.yaml"
TEXT = """\
pack: small
version: 1.0.0
facts: {market: {state: OPEN}, price: {AAPL: 100}}
targets: {broker: {base_url: "http://127.0.0.1:9410", secret_env: BROKER_SECRET}}
policy_kinds:
  - kind: TRADE
    version: 1.0.0
    title: Trade
    risk_tier: T1
    params_schema: {type: object, properties: {n: {type: integer}}}
    effect: Trade {n}
    steps: [{id: order, target: broker, request: {path: /orders}}]
agents:
  - agent_id: trader
    role: EXECUTOR
    owner: desk
    mission: Trade.
    manifest: {version: 1.0.0, policy_kinds: [TRADE]}
"""


def load(text: str = TEXT, *, activate: bool = True) -> Loaded:
    found = packs.load(text=text, source="small.yaml", activate=activate, actor="system")
    assert isinstance(found, Loaded), found
    return found


def refused(text: str) -> tuple[str, ...]:
    found = packs.load(text=text, source="small.yaml", activate=True, actor="system")
    assert isinstance(found, PackRefused), found
    return found.problems


def kinds_of(stream: str) -> list[str]:
    return list(LedgerEntry.objects.filter(stream=stream).order_by("seq").values_list("kind", flat=True))


def test_registers_everything_and_records_it() -> None:
    found = load(activate=False)
    assert found.changed
    group = "group desk, without members"
    assert found.registered == ("TRADE 1.0.0", "agent trader", group, "manifest trader 1.0.0")
    assert found.activated == ()
    assert kinds_of("system") == [
        "target:configured",
        "fact:written",
        "fact:written",
        "kind:registered",
        "group:added",
        "pack:loaded",
    ]
    assert kinds_of("agent:trader") == ["agent:registered", "manifest:registered"]
    agent = Agent.objects.get()
    assert (agent.status, agent.owner, agent.active_manifest) == ("ACTIVE", "desk", None)
    row = PolicyKind.objects.get()
    assert KindDocument.from_bytes(bytes(row.body)).digest == row.digest == canonical.digest(bytes(row.body))
    assert not row.active
    fact = Fact.objects.get(path="price.AAPL")
    assert (fact.version, bytes(fact.value), fact.writer) == (1, b"100", "system")
    assert FactVersion.objects.filter(path="price.AAPL", version=1).count() == 1


def test_activates_kinds_and_manifests_and_records_it() -> None:
    found = load()
    assert found.activated == ("TRADE 1.0.0", "manifest trader 1.0.0")
    assert PolicyKind.objects.get().active
    agent = Agent.objects.select_related("active_manifest").get()
    assert agent.active_manifest is not None
    assert agent.active_manifest.version == "1.0.0"
    assert kinds_of("system")[-2:] == ["kind:activated", "pack:loaded"]
    assert kinds_of("agent:trader")[-1] == "manifest:activated"


def test_an_owner_whom_people_know_is_left_as_it_is() -> None:
    factories.user("desk")
    load()
    assert not Group.objects.filter(name="desk").exists()
    assert "group:added" not in kinds_of("system")


def test_an_owner_who_was_changed_since_makes_no_group() -> None:
    load()
    Group.objects.all().delete()
    Agent.objects.update(owner="somebody")
    assert load().registered == ()
    assert not Group.objects.exists()


def test_the_same_bytes_change_nothing() -> None:
    load()
    before = LedgerEntry.objects.count()
    again = load()
    assert not again.changed
    assert again.registered == again.activated == ()
    assert LedgerEntry.objects.count() == before
    assert Pack.objects.count() == 1


def test_a_registered_pack_can_be_activated_later() -> None:
    load(activate=False)
    assert load().activated == ("TRADE 1.0.0", "manifest trader 1.0.0")


def test_a_changed_kind_or_manifest_needs_a_new_version() -> None:
    load()
    before = LedgerEntry.objects.count()
    changed = TEXT.replace("title: Trade", "title: Trade more").replace(
        "[TRADE]}", "[TRADE], max_intent_retries: 2}"
    )
    said = "is registered with other content; give the change a new version"
    assert refused(changed) == (
        f"small.yaml:7 policy_kinds[0].version: TRADE 1.0.0 {said}",
        f"small.yaml:18 agents[0].manifest.version: manifest 1.0.0 {said}",
    )
    assert LedgerEntry.objects.count() == before
    assert PolicyKind.objects.get().title == "Trade"


def test_a_new_version_takes_over() -> None:
    load()
    found = load(TEXT.replace("1.0.0", "1.1.0").replace("title: Trade", "title: Trade more"))
    assert found.activated == ("TRADE 1.1.0", "manifest trader 1.1.0")
    assert list(PolicyKind.objects.filter(active=True).values_list("version", flat=True)) == ["1.1.0"]
    assert PolicyKind.objects.count() == 2


def test_an_older_pack_does_not_come_back_by_itself() -> None:
    load()
    load(TEXT.replace("1.0.0", "1.1.0"))
    found = load()
    assert not found.changed
    assert found.activated == ()
    said = "was active before and has been superseded: left as it is; give it a new version"
    assert found.warnings == (f"TRADE 1.0.0 {said}", f"manifest trader 1.0.0 {said}")


def test_facts_status_and_budget_are_left_as_they_are() -> None:
    load()
    Fact.objects.filter(path="price.AAPL").update(version=7, value=b"333")
    Agent.objects.update(status="SUSPENDED", escalation_millitokens=5, bucket_at=timezone.now())
    found = load(
        TEXT.replace("1.0.0", "1.1.0")
        .replace("owner: desk", "owner: other")
        .replace("AAPL: 100", "AAPL: 1, X: 2")
    )
    assert "trader is registered with another role, owner or mission: left as it is" in found.warnings
    agent = Agent.objects.get()
    assert (agent.status, agent.escalation_millitokens, agent.owner) == ("SUSPENDED", 5, "desk")
    assert bytes(Fact.objects.get(path="price.AAPL").value) == b"333"
    assert bytes(Fact.objects.get(path="price.X").value) == b"2"


def test_targets_are_settings_that_a_load_may_change() -> None:
    load()
    found = load(
        TEXT.replace('"http://127.0.0.1:9410", secret_env: BROKER_SECRET', '"http://127.0.0.1:9999"')
    )
    assert found.changed
    target = Target.objects.get()
    assert (target.base_url, target.secret_env) == ("http://127.0.0.1:9999", "")
    assert kinds_of("system")[-2:] == ["target:configured", "pack:loaded"]
    assert PolicyKind.objects.count() == 1


def test_a_kind_with_several_steps_needs_what_undoes_them() -> None:
    plain = "[{id: order, target: broker, request: {path: /orders}}]"
    steps = "[{id: a, executor: simulated}, {id: b, executor: simulated}]"
    assert "a step before the last one needs a compensate" in refused(TEXT.replace(plain, steps))[0]
    undone = steps.replace("simulated}", "simulated, compensate: {path: /undo}}", 1)
    assert "TRADE 1.0.0" in load(TEXT.replace(plain, undone)).activated
    assert PolicyKind.objects.get().active


def test_a_kind_that_was_discarded_in_the_console_stays_so() -> None:
    load(activate=False)
    done = kinds.discard(tenant="default", kind="TRADE", version="1.0.0", reason="Not yet.", actor="user:1")
    assert not isinstance(done, Problem)
    found = load()
    assert "TRADE 1.0.0 was discarded: left as it is; give it a new version" in found.warnings
    assert not PolicyKind.objects.get().active


def test_a_refused_pack_leaves_nothing_behind() -> None:
    assert refused(TEXT.replace("Trade {n}", "Trade {who}")) == (
        "small.yaml:11 policy_kinds[0].effect: the effect names who, which is not a parameter of the kind",
    )
    assert "this is not YAML" in refused("pack: [")[0]
    assert not Pack.objects.exists()
    assert not LedgerEntry.objects.exists()


def test_tenants_do_not_meet() -> None:
    load()
    found = packs.load(text=TEXT, source="x", activate=True, actor="system", tenant="other")
    assert isinstance(found, Loaded)
    assert found.registered
    assert PolicyKind.objects.filter(active=True).count() == 2


def test_the_demo_pack_loads_whole_and_twice() -> None:
    text = DEMO.read_text()
    found = load(text)
    assert all("recorded, not enforced: " in warning for warning in found.warnings)
    assert len(found.activated) == 15
    assert Manifest.objects.count() == 11
    assert not load(text).changed


def test_the_command_tells_what_it_did(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(TEXT.replace("policy_kinds: [TRADE]", "policy_kinds: [TRADE], model_profile: small"))
    out, err = StringIO(), StringIO()
    call_command("load_pack", str(file), "--activate", stdout=out, stderr=err)
    assert "registered TRADE 1.0.0" in out.getvalue()
    assert "activated manifest trader 1.0.0" in out.getvalue()
    assert "small 1.0.0: loaded" in out.getvalue()
    assert "warning: trader: recorded, not enforced: model_profile" in err.getvalue()
    again = StringIO()
    call_command("load_pack", str(file), stdout=again, stderr=err)
    assert again.getvalue().strip() == "small 1.0.0: unchanged"


def test_the_command_names_every_problem_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(TEXT.replace("risk_tier: T1", "risk_tier: T9"))
    with pytest.raises(CommandError, match=r"small\.yaml:9 policy_kinds\[0\]\.risk_tier"):
        call_command("load_pack", str(file))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("load_pack", str(file))
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("load_pack", str(tmp_path / "none.yaml"))
    file.write_text(TEXT)
    monkeypatch.setattr(transactions, "TRIES", 0)
    with pytest.raises(CommandError, match="busy"):
        call_command("load_pack", str(file))


def test_a_draft_that_was_discarded_in_the_console_does_not_come_into_force() -> None:
    load(activate=False)
    discarded = manifests.discard(
        tenant="default", agent_id="trader", version="1.0.0", reason="not yet", actor="user:1"
    )
    assert isinstance(discarded, Manifest)
    found = load()
    assert "manifest trader 1.0.0 was discarded: left as it is; give it a new version" in found.warnings
    assert Agent.objects.get().active_manifest is None


GUARDS = """\
guards:
  - {id: explain-fits, guard: lexical, policy_kinds: [TRADE]}
  - {id: second-look, guard: webhook, target: broker, emergency_stop: true}
"""


def test_guards_are_configured_and_recorded_once() -> None:
    load(TEXT + GUARDS)
    assert list(Guard.objects.values_list("guard_id", "kind", "enabled")) == [
        ("explain-fits", "lexical", True),
        ("second-look", "webhook", True),
    ]
    assert kinds_of("system").count("guard:configured") == 2
    assert not load(TEXT + GUARDS).changed


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("target: nobody", "guards[1].target: there is no target named nobody"),
        (
            "target: broker, policy_kinds: [NONE]",
            "guards[1].policy_kinds[0]: the policy kind NONE is neither",
        ),
        ("target: broker, limit: 3", "guards[1].limit: is not a known field"),
    ],
)
def test_a_guard_that_cannot_work_is_refused(wrong: str, words: str) -> None:
    problems = refused(TEXT + GUARDS.replace("target: broker", wrong))
    assert any(words in problem for problem in problems), problems
    assert not Guard.objects.exists()


def test_two_guards_of_one_id_are_refused() -> None:
    problems = refused(TEXT + GUARDS.replace("second-look", "explain-fits"))
    assert any("is already in this pack" in problem for problem in problems)


def test_an_emergency_stop_that_no_lexical_guard_reaches_is_told() -> None:
    found = load(TEXT + "guards: [{id: explain-fits, guard: lexical, emergency_stop: true}]\n")
    assert any("never stops an agent at 0.99" in warning for warning in found.warnings)
