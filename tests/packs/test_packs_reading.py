"""Reading a pack file: strict YAML, and every problem with its line and field."""

import pytest

from runtime.registry.services import document_checks, document_reading
from runtime.registry.services.document_reading import Read

pytestmark = pytest.mark.once

SMALL = """\
pack: demo
version: 1.0.0
policy_kinds:
  - kind: TRADE
    version: 1.0.0
    title: Trade
    risk_tier: T1
    params_schema: {type: object, properties: {n: {type: integer}}}
    effect: Trade {n}
"""

IDLE = """\
    subjects: [s]
    outputs_schema: {type: object}
    allowed_outcomes: [done]
    required_evidence: [e]
    approval_mode: one
    gate_id: g
    red_lines: [never]
    routes: [{when: 'true', action: CLOSE}]
    claims: [{resource: x, amount: '1'}]
    on_unknown: resend
    category: c
    rules: [{id: R, require: 'true', version: 1.0.0, severity: LOW, mandatory: false, priority: 3}]
    limits: [{id: l, value: '1', limit: manifest.limits.most}]
    steps:
      - {id: a, executor: simulated, compensate: {path: /x}, writes: [{fact: a.b, value: '1'}]}
resources: [{name: x, capacity: 1, unit: u}]
agents:
  - agent_id: a
    role: STRATEGIST
    owner: o
    mission: m
    manifest:
      version: 1.0.0
      policy_kinds: [TRADE]
      compute: {tokens: 1}
      hours: {days: [MON]}
      memory_scopes: [x]
      may_delegate_to: [b]
      silent_after_s: 60
      model_profile: p
      prompt_bundle_hash: h
      evaluator_suite: s
  - {agent_id: b, role: EXECUTOR, owner: o, mission: m, manifest: {version: 1.0.0, policy_kinds: []}}
"""


def read(text: str) -> Read:
    found = document_reading.read(text=text, name="demo.yaml")
    assert isinstance(found, Read), found
    return found


def refused(text: str) -> list[str]:
    found = document_reading.read(text=text, name="demo.yaml")
    assert isinstance(found, tuple), found
    return list(found)


def checked(text: str, *kinds: str) -> list[str]:
    found = read(text)
    linted = [document_checks.lint(kind) for kind in found.pack.policy_kinds]
    wrong = document_checks.problems(found.pack, targets={}, kinds=kinds, linted=linted, workflows=())
    return [found.source.words(one) for one in wrong]


def test_reads_a_pack_and_where_its_fields_are() -> None:
    found = read(SMALL)
    assert found.pack.policy_kinds[0].kind == "TRADE"
    assert found.source.lines["policy_kinds", 0, "effect"] == 9
    assert checked(SMALL) == []


@pytest.mark.parametrize(
    "word", ["yes", "no", "on", "off", "2026-01-02", "12:30", "0x10", "1_000", "007", "Null", "True", ".inf"]
)
def test_what_yaml_would_guess_stays_text(word: str) -> None:
    assert read(f"pack: demo\nversion: 1.0.0\nfacts: {{a: {{b: {word}}}}}\n").pack.facts["a"]["b"] == word


def test_plain_values_are_json_values() -> None:
    members = "b: 1, c: -1.5, d: true, e: null, f: ~, g: , h: '1', i: 2e2"
    text = f"pack: demo\nversion: 1.0.0\nfacts: {{a: {{{members}}}}}\n"
    assert read(text).pack.facts["a"] == {
        "b": 1,
        "c": -1.5,
        "d": True,
        "e": None,
        "f": None,
        "g": None,
        "h": "1",
        "i": 200,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "demo.yaml:1: the file is empty"),
        ("pack: [\n", "this is not YAML"),
        ("pack: demo\n\tversion: 1", "demo.yaml:2: this is not YAML"),
        ("pack: demo\npack: demo\n", "demo.yaml:2 pack: this field is given twice"),
        ("pack: demo\nfacts:\n  <<: {a: 1}\n", "demo.yaml:3 facts: merge keys are not supported"),
        ("pack: !!python/object:os.system x\n", "demo.yaml:1 pack: the tag"),
        ("pack: !!set {x}\n", "demo.yaml:1 pack: the tag"),
        ("pack: !!timestamp 2026-01-01\n", "demo.yaml:1 pack: the tag"),
        ("pack: !mine [x]\n", "demo.yaml:1 pack: the tag"),
        ("? [a]\n: b\n", "demo.yaml:1: a field name must be plain text"),
        ("pack: 9007199254740993\n", "demo.yaml:1 pack: this number or text cannot be represented in JSON"),
        (f"pack: {'9' * 5000}\n", "cannot be represented in JSON"),
        ("pack: 1e999\n", "cannot be represented in JSON"),
        ('pack: "\\ud800"\n', "cannot be represented in JSON"),
        ("x" * 1_000_001, "longer than 1000000 characters"),
        ("[" * 2000 + "]" * 2000, "nested too deep"),
        ("a: " + "{a: " * 70 + "1" + "}" * 70, "too deep ones"),
        ("pack: \x00", "this is not YAML"),
        ("a: *nobody\n", "this is not YAML"),
        ("- 1\n", "demo.yaml:1: must be a map"),
    ],
)
def test_refuses_what_is_not_a_plain_document(text: str, words: str) -> None:
    (found,) = refused(text)
    assert words in found


def test_a_bomb_of_aliases_is_refused() -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    (found,) = refused("\n".join(levels))
    assert "too many values" in found


def test_an_alias_to_itself_is_refused() -> None:
    assert "too deep" in refused("a: &a [*a]\n")[0]


def test_every_problem_is_told_with_line_and_field() -> None:
    text = SMALL.replace("    title: Trade\n", "    colour: red\n").replace("risk_tier: T1", "risk_tier: T9")
    assert refused(text + "agents: x\nunknown: 1\n") == [
        "demo.yaml:4 policy_kinds[0].title: is required",
        "demo.yaml:7 policy_kinds[0].risk_tier: must be 'T0', 'T1', 'T2' or 'T3'",
        "demo.yaml:6 policy_kinds[0].colour: is not a known field",
        "demo.yaml:10 agents: must be a list",
        "demo.yaml:11 unknown: is not a known field",
    ]


def test_problems_of_values_say_what_they_must_be() -> None:
    text = """\
pack: demo
version: 1.0
facts: {price: 3}
agents:
  - agent_id: a
    role: STRATEGIST
    owner: o
    mission: ""
    manifest: {version: 1.0.0, policy_kinds: [], limits: {max: 1.5, odd name: {}}, max_intent_retries: x}
"""
    found = refused(text)
    assert "demo.yaml:2 version: must be a valid string" in found
    assert "demo.yaml:3 facts.price: must be a map" in found
    assert "demo.yaml:8 agents[0].mission: must have at least 1 character" in found
    assert any("limits.max: a limit is an integer in minor units" in one for one in found)
    assert any("demo.yaml:9 agents[0].manifest.limits['odd name']: " in one for one in found)
    assert len([one for one in found if "odd name" in one]) == 1


def test_lints_every_kind() -> None:
    text = SMALL + "    rules:\n      - id: R\n        require: params.no > 1\n"
    assert checked(text) == [
        "demo.yaml:12 policy_kinds[0].rules[0].require: params.no is not a field of the params schema"
    ]


def agent(kinds: str, agent_id: str = "a") -> str:
    manifest = f"{{version: 1.0.0, policy_kinds: [{kinds}]}}"
    return f"{{agent_id: {agent_id}, role: EXECUTOR, owner: o, mission: m, manifest: {manifest}}}"


def test_checks_what_the_pack_refers_to() -> None:
    kind = SMALL[SMALL.index("  - kind") :]
    text = (
        SMALL
        + "    claims: [{resource: cash, amount: '1'}]\n"
        + "    steps: [{id: a, target: nowhere, request: {path: /x}}]\n"
        + kind
        + "agents:\n"
        + f"  - &a {agent('TRADE, LOST')}\n"
        + "  - *a\n"
        + "resources: [{name: x, capacity: 1, unit: u}, {name: x, capacity: 1, unit: u}]\n"
    )
    assert [one.split(" ", 1)[1] for one in checked(text)] == [
        "policy_kinds[0].steps[0].target: there is no target named nowhere",
        "policy_kinds[0].claims[0].resource: there is no resource named cash",
        "agents[0].manifest.policy_kinds[1]: the policy kind LOST is neither in the pack nor registered",
        "agents[1].manifest.policy_kinds[1]: the policy kind LOST is neither in the pack nor registered",
        "policy_kinds[1].kind: TRADE is already in this pack",
        "agents[1].agent_id: a is already in this pack",
        "resources[1].name: x is already in this pack",
    ]


def test_what_exists_already_may_be_referred_to() -> None:
    text = f"pack: demo\nversion: 1.0.0\nagents:\n  - {agent('OLD')}\n"
    assert checked(text, "OLD") == []


def test_warns_of_everything_that_is_not_enforced_yet() -> None:
    text = SMALL + IDLE
    assert checked(text) == []
    pack = read(text).pack
    found = [*document_checks.not_enforced(pack), *document_checks.warnings(pack)]
    of_kind = (
        "outputs_schema, rules.version, rules.priority, rules.severity, rules.mandatory, category, "
        "allowed_outcomes, required_evidence, approval_mode, red_lines"
    )
    assert found == [
        f"TRADE: recorded, not enforced: {of_kind}",
        "a: recorded, not enforced: model_profile, prompt_bundle_hash",
        "a: TRADE reads manifest.limits.most, which is not set; its proposals will be refused",
    ]
