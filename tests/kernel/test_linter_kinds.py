"""A whole kind, checked before it is stored: every field, each problem with its place."""

from typing import Any

import pytest

from audit import canonical
from runtime.contracts.policy_kind import KindDocument
from runtime.kernel.rules import kind_linter, linter, shapes

GOOD: dict[str, Any] = {
    "kind": "TRADE",
    "version": "1.0.0",
    "title": "Trade",
    "risk_tier": "T1",
    "params_schema": {
        "type": "object",
        "properties": {"symbol": {"type": "string"}, "n": {"type": "integer"}},
    },
    "constraints_schema": {"type": "object", "properties": {"bps": {"type": "integer"}}},
    "outputs_schema": {"type": "object"},
    "depends_on": [
        {"fact": "price.${params.symbol}", "unless": "current <= seen + constraints.bps"},
        "market.state",
    ],
    "impact": "params.n > 1 ? 'HIGH_IMPACT' : 'LOW_IMPACT'",
    "limits": [{"id": "most", "value": "params.n", "limit": "manifest.limits.most"}],
    "rules": [{"id": "R_OPEN", "require": "context.facts.market.state == 'OPEN'"}],
    "constraints": [{"id": "cheap", "require": "context.facts.price[params.symbol] < 10"}],
    "predicts": [
        {
            "fact": "position.${params.symbol}",
            "value": "context.facts.position[params.symbol] + 1",
            "unless": "current <= seen + 1",
        }
    ],
    "red_lines": [{"id": "L_NEVER", "forbid": "params.n > 1000"}, "Never on a holiday."],
    "required_evidence": [
        {"fact": "price.${params.symbol}", "max_age_s": 60},
        {"step": "self_check"},
        "a_note",
    ],
    "claims": [{"resource": "cash", "amount": "params.n"}],
    "figures": [{"param": "n", "value": "context.facts.price[params.symbol]"}],
    "effect": "Trade {n} {symbol}",
    "subjects": ["symbol:${params.symbol}"],
    "steps": [
        {
            "id": "order",
            "target": "broker",
            "request": {"path": "/orders/${params.symbol}?n=${params.n}", "body": "{'id': intent.intent_id}"},
            "compensate": {
                "path": "/orders/${intent.intent_id}",
                "method": "DELETE",
                "body": "{'undoes': key}",
            },
            "probe": {"path": "/orders/by-key/${key}"},
            "writes": [{"fact": "order.${receipt.id}", "value": "receipt.price"}],
        },
        {"id": "note", "executor": "simulated"},
        {"id": "spare", "executor": "simulated"},
    ],
    "routes": [
        {"when": "outcome.error_category == 'TARGET_BUSY'", "action": "FALL_BACK", "step": "spare"},
        {"when": "receipt.status == 'PART'", "action": "RE_ENGAGE", "advice": "Ask for the rest"},
    ],
}


def lint(**changes: Any) -> list[tuple[str, str]]:
    kind = KindDocument.from_bytes(canonical.encode({**GOOD, **changes}))
    return [(".".join(map(str, one.place)), one.message) for one in kind_linter.lint_kind(kind)]


def step(**changes: Any) -> dict[str, Any]:
    return {"steps": [{"id": "order", "target": "broker", "request": {"path": "/x"}, **changes}]}


def test_a_good_kind_passes() -> None:
    assert lint() == []
    assert lint(outputs_schema=None) == []


@pytest.mark.parametrize(
    ("changes", "place", "words"),
    [
        ({"params_schema": {"type": "thing"}}, "params_schema", "not usable"),
        ({"constraints_schema": {}}, "constraints_schema", "must have type object"),
        ({"outputs_schema": {"type": "array"}}, "outputs_schema", "must have type object"),
        ({"impact": "nobody"}, "impact", "the name nobody"),
        ({"limits": [{"id": "x", "value": "params.no", "limit": "1"}]}, "limits.0.value", "params.no is not"),
        (
            {"limits": [{"id": "x", "value": "1", "limit": "manifest.no"}]},
            "limits.0.limit",
            "manifest.no is not",
        ),
        ({"rules": [{"id": "x", "require": "1 +"}]}, "rules.0.require", "cannot be read as CEL"),
        ({"rules": [{"id": "x", "require": "seen == 1"}]}, "rules.0.require", "the name seen"),
        (
            {"rules": [{"id": "x", "require": "context.facts.cash.x > 1"}]},
            "rules.0.require",
            "context.facts.cash",
        ),
        (
            {"rules": [{"id": "EXPIRED", "require": "true"}]},
            "rules.0.id",
            "a reserved reason code of the runtime",
        ),
        ({"rules": [{"id": "x", "require": "true"}] * 2}, "rules.1.id", "is used twice"),
        ({"constraints": [{"id": "x", "require": "no"}]}, "constraints.0.require", "the name no "),
        ({"depends_on": ["market"]}, "depends_on.0.fact", "a fact has two segments"),
        ({"depends_on": ["a.b.c"]}, "depends_on.0.fact", "a fact has two segments"),
        ({"depends_on": ["price.${agent.role}"]}, "depends_on.0.fact", "the name agent"),
        ({"depends_on": ["price.${"]}, "depends_on.0.fact", "is empty or not closed"),
        (
            {"depends_on": [{"fact": "a.b", "unless": "time.hour > 1"}]},
            "depends_on.0.unless",
            "the name time",
        ),
        ({"predicts": [{"fact": "a.b", "value": "no"}]}, "predicts.0.value", "the name no "),
        ({"figures": [{"param": "m", "value": "1"}]}, "figures.0.param", "m is not a parameter of the kind"),
        ({"figures": [{"param": "n", "value": "1"}] * 2}, "figures.1.param", "the figure n is given twice"),
        ({"figures": [{"param": "n", "value": "figures.n"}]}, "figures.0.value", "the name figures"),
        (
            {"figures": [{"param": "symbol", "value": "1"}]},
            "figures.0.param",
            "the schema must give symbol the type integer or number",
        ),
        ({"figures": [], "impact": "figures.n"}, "impact", "figures.n is not a field of the figures"),
        ({"predicts": [{"fact": "a", "value": "1"}]}, "predicts.0.fact", "a fact has two segments"),
        ({"claims": [{"resource": "x", "amount": "no"}]}, "claims.0.amount", "the name no "),
        ({"effect": "{who}"}, "effect", "names who"),
        ({"cooling_s": 30}, "cooling_s", "only a decision of impact CRITICAL cools down"),
        ({"scorecard": {}}, "scorecard", "at least one target or minimum"),
        (
            {"scorecard": {"minimum": {"latency": "1"}}},
            "scorecard.minimum.latency",
            "declare targets.wall_clock_s",
        ),
        (
            {"scorecard": {"minimum": {"cost": "1"}, "targets": {"wall_clock_s": 9}}},
            "scorecard.minimum.cost",
            "declare targets.cost_usd or targets.tokens",
        ),
        ({"subjects": ["${no}"]}, "subjects.0", "the name no "),
        ({"routes": [{"when": "no", "action": "CLOSE"}]}, "routes.0.when", "the name no "),
        (
            {"routes": [{"when": "outcome.why == ''", "action": "CLOSE"}]},
            "routes.0.when",
            "outcome.why is not known",
        ),
        (
            {"rules": [{"id": "R", "require": "outcome.attempts < 2"}]},
            "rules.0.require",
            "the name outcome",
        ),
        ({"routes": [{"when": "true", "action": "FALL_BACK"}]}, "routes.0", "FALL_BACK must name the step"),
        (
            {"routes": [{"when": "true", "action": "FALL_BACK", "step": "nobody"}]},
            "routes.0.step",
            "the kind has no step nobody",
        ),
        (
            {"routes": [{"when": "true", "action": "CLOSE", "step": "note"}]},
            "routes.0.step",
            "only FALL_BACK can name a step",
        ),
        ({"routes": [{"when": "true", "action": "RE_ENGAGE"}]}, "routes.0", "RE_ENGAGE must give"),
        (
            {"routes": [{"when": "true", "action": "FALL_BACK", "step": "order"}]},
            "steps.0",
            "the first step always runs",
        ),
        (step(request={"path": "/a/../b"}), "steps.0.request.path", "a path starts with /"),
        (step(request={"path": "/${"}), "steps.0.request.path", "not closed"),
        (step(request={"path": "/x", "body": "{'a': no}"}), "steps.0.request.body", "the name no "),
        (step(request={"path": "/${receipt.id}"}), "steps.0.request.path", "the name receipt"),
        (step(compensate={"path": "//x"}), "steps.0.compensate.path", "a path starts with /"),
        (step(compensate={"path": "/x", "body": "no"}), "steps.0.compensate.body", "the name no "),
        # A compensation is made at ACCEPT, before there is a receipt.
        (step(compensate={"path": "/${receipt.id}"}), "steps.0.compensate.path", "the name receipt"),
        (step(request={"path": "/${key}"}), "steps.0.request.path", "the name key"),
        (step(probe={"path": "/${no}/${key}"}), "steps.0.probe.path", "the name no "),
        (step(probe={"path": "/${"}), "steps.0.probe.path", "not closed"),
        (step(probe={"path": "/orders"}), "steps.0.probe.path", "its path must contain ${key}"),
        (step() | {"on_unknown": "probe"}, "steps.0", "with on_unknown probe an http step needs a probe"),
        ({"steps": GOOD["steps"][1:] * 2}, "steps.0", "a step before the last one needs a compensate"),
        ({"steps": [{"id": f"s{n}", "executor": "simulated"} for n in range(11)]}, "steps", "at most 10"),
        (step(writes=[{"fact": "x", "value": "1"}]), "steps.0.writes.0.fact", "a fact has two segments"),
        (step(writes=[{"fact": "x.y", "value": "no"}]), "steps.0.writes.0.value", "the name no "),
        ({"redact": [{"id": "a", "field": "x"}] * 2}, "redact.0.id", "the id a is used twice"),
        (
            {"redact": [{"id": "a", "field": "x"}], "steps": [], "routes": []},
            "redact.0",
            "without steps there is no receipt",
        ),
        (
            {"redact": [{"id": "a", "field": "status"}]},
            "routes.1.when",
            "receipt.status is never seen: the redaction rule a replaces it",
        ),
        (
            {"redact": [{"id": "a", "field": "lines.*.price"}]}
            | step(
                writes=[{"fact": "x.y", "value": "receipt['lines'][0].price + receipt[params.name].price"}]
            ),
            "steps.0.writes.0.value",
            "receipt.lines.0.price is never seen",
        ),
        (
            {
                "redact": [{"id": "a", "pattern": "iban"}, {"id": "b", "field": "*"}],
                "allowed_outcomes": ["ok"],
                "outcome": "steps.order.status == 'FILLED' && size(steps) > 0 && receipt == {} ? 'ok' : ''",
            },
            "outcome",
            "receipt.status is never seen: the redaction rule b",
        ),
    ],
)
def test_says_where_and_what_is_wrong(changes: dict[str, Any], place: str, words: str) -> None:
    found = lint(**changes)
    assert any(one == place and words in message for one, message in found), found


def test_only_what_can_be_asked_needs_a_probe() -> None:
    probed = {**step(probe={"path": "/orders/${key}"})["steps"][0], "compensate": {"path": "/x"}}
    steps = [probed, {"id": "note", "executor": "simulated"}]
    assert lint(steps=steps, routes=[], on_unknown="probe") == []


BOUNDS: dict[str, Any] = {
    "type": "object",
    "properties": {"bps": {"type": "integer"}, "state": {"type": "string"}},
}


@pytest.mark.parametrize(
    ("changes", "unread"),
    [
        ({}, ["state"]),
        ({"rules": [{"id": "R", "require": "constraints.state == 'OPEN'"}]}, []),
        ({"rules": [{"id": "R", "require": "constraints['state'] == 'OPEN'"}]}, []),
        ({"rules": [{"id": "R", "require": "!has(constraints.state)"}]}, []),
        ({"impact": "params.symbol == 'constraints.state' ? 'HIGH_IMPACT' : 'LOW_IMPACT'"}, ["state"]),
        ({"depends_on": ["price.${params.symbol}", "market.state"]}, ["bps", "state"]),
        ({"steps": [{"id": "a", "target": "b", "request": {"path": "/${constraints.state}"}}]}, []),
        (
            {
                "steps": [
                    {"id": "a", "target": "b", "request": {"path": "/", "body": "{'all': constraints}"}}
                ],
            },
            [],
        ),
        ({"subjects": ["${constraints.state}"]}, ["state"]),
    ],
)
def test_a_bound_that_no_expression_reads_is_refused(changes: dict[str, Any], unread: list[str]) -> None:
    found = lint(**{"constraints_schema": BOUNDS, "routes": [], **changes})
    assert [place for place, _ in found if place.startswith("constraints_schema")] == [
        f"constraints_schema.properties.{name}" for name in unread
    ]


def test_the_window_is_kept_by_the_gate_itself() -> None:
    window = {"validity_window_sec": {"type": "number"}, **BOUNDS["properties"]}
    rules = [{"id": "R", "require": "constraints.state == 'OPEN'"}]
    assert lint(constraints_schema={"type": "object", "properties": window}, rules=rules) == []


def test_what_says_less_than_it_seems_to_is_no_danger_to_the_house() -> None:
    kind = KindDocument.from_bytes(canonical.encode({**GOOD, "constraints_schema": BOUNDS}))
    (problem,) = kind_linter.lint_kind(kind)
    assert problem.gravity is kind_linter.Gravity.UNSOUND
    assert problem.message == (
        "no expression reads constraints.state: agents could set this constraint and nothing would enforce it"
    )


def test_broken_schemas_are_told_alone() -> None:
    assert [place for place, _ in lint(params_schema={"type": "thing"})] == ["params_schema", "params_schema"]


def test_a_list_of_many_forms_needs_a_bound() -> None:
    forms = {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}
    properties = {**GOOD["params_schema"]["properties"], "forms": forms}
    (found,) = lint(params_schema={"type": "object", "properties": properties})
    assert found[0] == "params_schema"
    assert "add maxItems" in found[1]


def test_everything_is_told_at_once_in_order() -> None:
    found = lint(impact="no", effect="{who}", rules=[{"id": "x", "require": "no"}])
    assert [place for place, _ in found] == ["impact", "rules.0.require", "effect"]


def test_knows_which_limits_are_read_without_asking() -> None:
    kind = KindDocument.from_bytes(
        canonical.encode(
            {
                **GOOD,
                "rules": [
                    {"id": "a", "require": "!has(manifest.limits.soft) || manifest.limits.soft > 1"},
                    {"id": "b", "require": "params.n in manifest.limits.list || size(manifest.limits) > 0"},
                ],
            }
        )
    )
    assert kind_linter.limits_read(kind) == {"most", "list"}
    assert kind_linter.fact_namespaces(kind) == {"price", "market", "position"}


def test_all_expressions_of_a_kind_are_bounded_together() -> None:
    numbers = {"type": "array", "maxItems": 130, "items": {"type": "integer"}}
    schema = {
        "type": "object",
        "properties": {"symbol": {"enum": ["A"]}, "n": {"type": "integer"}, "numbers": numbers},
    }
    nested = "params.numbers.all(x, params.numbers.exists(y, x == y))"
    changes: dict[str, Any] = {"params_schema": schema, "depends_on": ["price.x", "market.state"]}
    few = [{"id": f"R{n}", "require": nested} for n in range(3)]
    many = [{"id": f"R{n}", "require": nested} for n in range(40)]
    assert not any(place.startswith("rules") for place, _ in lint(**changes, rules=few))
    (said,) = [(place, words) for place, words in lint(**changes, rules=many) if place.startswith("rules")]
    assert said[0] == "rules.0.require"
    assert "the expressions of the kind together may take" in said[1]


def test_each_source_is_read_once_and_each_schema_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {f"f{n}": {"type": "object", "properties": {"x": {"type": "integer"}}} for n in range(20)}
    schema = {"type": "object", "properties": fields}
    reads = [f"params.f{n}.x > {n}" for n in range(20)]
    read, weighed = list[object](), list[object]()
    lint_one, alternatives = linter.lint, shapes._alternatives

    def lint_and_note(source: str, *, names: frozenset[str], **named: Any) -> linter.Linted:
        read.append((source, names))
        return lint_one(source, names=names, **named)

    def note(part: Any, *rest: Any) -> Any:
        weighed.append(part)
        return alternatives(part, *rest)

    monkeypatch.setattr(linter, "lint", lint_and_note)
    monkeypatch.setattr(shapes, "_alternatives", note)
    rules = [{"id": f"R_{n}", "require": " && ".join(reads)} for n in range(10)]
    assert lint(params_schema={**GOOD["params_schema"], **schema}, rules=rules) != []
    assert len(read) == len(set(read))
    # All fields once as parts of the whole, and once each by themselves with what is in them.
    assert len(weighed) < 5 * len(fields)


@pytest.mark.parametrize(
    ("changes", "place", "said"),
    [
        ({"outcome": "'done'"}, ("outcome",), "allowed_outcomes must list"),
        ({"outputs": {"id": "receipt.id"}, "outputs_schema": None}, ("outputs",), "need an outputs_schema"),
        ({"outputs": {"id": "receipt.id"}, "steps": []}, ("outputs",), "there is no receipt to ask"),
        ({"outcome": "'done'", "allowed_outcomes": ["done"], "steps": []}, ("outcome",), "no receipt to ask"),
        ({"outputs": {"id": "recipt.id"}}, ("outputs", "id"), "recipt"),
        ({"outcome": "outcome.status", "allowed_outcomes": ["a"]}, ("outcome",), "outcome"),
    ],
)
def test_an_outcome_of_its_own_needs_receipts_and_what_they_may_come_to(
    changes: dict[str, Any], place: tuple[str, ...], said: str
) -> None:
    document = KindDocument.from_bytes(canonical.encode({**GOOD, **changes}))
    found = [(problem.place, problem.message) for problem in kind_linter.lint_kind(document)]
    assert any(at == place and said in message for at, message in found), found


def test_an_outcome_may_read_all_receipts_and_the_facts_of_the_verdict() -> None:
    asked = {
        "outcome": "steps.order.id == receipt.id && context.facts.market.state == 'OPEN' ? 'done' : 'late'",
        "allowed_outcomes": ["done", "late"],
        "outputs": {"n": "params.n"},
    }
    document = KindDocument.from_bytes(canonical.encode({**GOOD, **asked}))
    assert kind_linter.lint_kind(document) == ()
