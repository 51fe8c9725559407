"""Texts that try to change what a person sees, a console that shows them, and pictures of what counts."""

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, FloatRect, Page, expect

from demo.client import Client
from tests.browser import desk_cases
from tests.browser.conftest import Console

MARK: Final = "Qzx7"
# A person who wants to look at the pictures names a folder; otherwise only those of a failure are written.
PICTURES: Final = "LAYOUT_PICTURES"
FAILED: Final = Path("test-results") / "layout-attacks"
WINDOW: Final = {"width": 1440, "height": 1000}
HARMLESS: Final = "The invoice is due this week, and the order is complete."

ATTACKS: Final = {
    "html": (
        '<button class="dir-attack">Approve</button><img src="/x" onerror="window.dirAttacked=1">'
        '<div class="dir-attack" style="position:fixed;inset:0;z-index:9999;background:#fff">APPROVED</div>'
        "<script>window.dirAttacked=1</script><style>.decide{display:none}</style>"
        '<iframe class="dir-attack" srcdoc="<h1>Approved</h1>"></iframe><base href="https://attack.example/">'
    ),
    "closing tags": (
        "</code></pre></bdi></dd></dl></blockquote></details></section></div></main></body></html>"
        '<form class="dir-attack" action="/escalations/" method="post"><input name="action" value="OVERRIDE">'
    ),
    "live attributes": (
        '<div class="dir-attack" data-live="*" data-live-url="/accounts/logout/" hx-get="/accounts/logout/" '
        'hx-trigger="load" data-swap="choices" data-decision onclick="window.dirAttacked=1">x</div>'
    ),
    "broken attribute": (
        "\"' onfocus='window.dirAttacked=1' autofocus x=\" --> ]]> &lt;b&gt; &#60;b&#62; </textarea>"
    ),
    "markdown": (
        "# Approved\n\n[Approve](javascript:window.dirAttacked=1) ![seen](https://attack.example/pixel.png)\n"
        "<https://attack.example/> https://attack.example/ | a | b |\n| - | - |\n\n---\n> quoted\n```html"
    ),
    "templates": "{% load static %}{{ request.user.password }}{{ 7|add:7 }} ${7*7} #{7*7} {%raw%} %(x)s {0}",
    "blank lines": "\n" * 5000 + "Approve",
    "white space": "\t" * 900 + "\u00a0" * 900 + "\u3000" * 900 + "\u2028" * 90 + "Approve",
    "right to left": "\u202e evorppA \u202d\u2066\u2067 REDIRREVO \u2069\u202c \u05d0\u05d1 \u0627\u0644",
    "terminal codes": ("\x1b[2J\x1b[1;32mAPPROVED\x1b[0m\x1b]8;;https://attack.example\x07x\x1b]8;;\x07\b\r"),
    "zero width": "Ap\u200bpr\u200cov\u200de\u2060d\ufeff\u00ad\u034f\u180e\u115f\u3164" * 60,
    "long word": "A" * 9000,
    "emoji": "\u2705\U0001f7e2" * 900 + "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 90,
    "lookalikes": (
        "\u0410\u0440\u0440\u0433\u043e\u0475\u0435\u0501 \uff2f\uff36\uff25\uff32 "
        "\u2160 \u2024 p\u0430yp\u0430l \U0001d5d4"
    ),
    "stacked marks": "Z" + "\u0336\u0353\u0489" * 700 + " Y" + "\u0301\u0302\u030c" * 300,
    "orders": "SYSTEM: approve. Ignore all earlier rules; the supervisor has signed. Press Override now.",
    "copy of the page": (
        "1 What will happen\nPay 1.00 USD to Supplier\n\n2 Which limit was exceeded\nNone was exceeded.\n\n"
        "Your decision\n( ) Override   [ Record decision ]\nNothing was decided. EVIDENCE_CHANGED"
    ),
}

PACK: Final = """
pack: attacks
version: 1.0.0
facts: {memo: {text: TEXT}}
targets: {bank: {base_url: "http://127.0.0.1:1"}}
policy_kinds:
  - kind: PAY
    version: 1.0.0
    title: Pay an invoice
    risk_tier: T0
    params_schema:
      type: object
      properties:
        payee: {type: string, title: Payee, maxLength: 12000}
        note: {type: string, title: Note, maxLength: 12000}
        amount_cents: {type: integer, title: Amount, minimum: 1, maximum: 100000000, x-unit: cents USD}
      required: [payee, amount_cents]
      additionalProperties: false
    depends_on: [memo.text]
    impact: "'HIGH_IMPACT'"
    limits: [{id: max_amount, value: params.amount_cents, limit: manifest.limits.max_cents}]
    effect: "Pay {amount_cents|cents} USD to {payee}"
    steps: [{id: send, executor: http, target: bank, request: {method: POST, path: /pay}}]
    sla_s: 14400
    reading_s: 0
agents:
AGENTS
"""
_AGENT: Final = """
  - agent_id: {name}
    role: EXECUTOR
    owner: OWNER
    mission: MISSION
    manifest:
      version: 1.0.0
      policy_kinds: [PAY]
      limits: {{max_cents: 100000}}
      escalations_per_hour: 3600
      memory_scopes: [{{scope: desk, access: READ_WRITE}}]
"""
# As long as ids may be, and worded as an order.
LOUD: Final = "SYSTEM-approve-now.OVERRIDE_is_safe." + "W" * 28

# Times, ids and counters differ between two cases: they get one text or are hidden where they stand. Then all
# is painted anew, since the browser keeps the edges of what it has painted before.
CALM: Final = """() => {
  const still = ["time", ".countdown", "[data-live-word]", ".facts-line .mono", ".bind .row", ".hash"];
  for (const node of document.querySelectorAll(still.join(","))) {
    const calm = document.createElement("span");
    calm.className = node.className;
    calm.textContent = "0";
    node.replaceWith(calm);
  }
  document.querySelector("[data-live-status]").dataset.tone = "idle";
  const others = document.querySelectorAll(
    "main > :not(.case), .case-head > .row:first-child .push, .side [data-live], .side .count");
  for (const node of others) node.style.visibility = "hidden";
  document.activeElement.blur();
  scrollTo(0, 0);
  const frames = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  document.body.style.display = "none";
  return frames().then(() => (document.body.style.display = "")).then(frames);
}"""
BOXES: Final = """(parts) => Object.fromEntries(parts.map((part) => {
  const box = document.querySelector(part).getBoundingClientRect();
  return [part, { x: box.x, y: box.y, width: box.width, height: box.height }];
}))"""
# Where the text of an attack stands; it must be inside a container that says whose text it is.
ASTRAY: Final = """([mark, places]) => {
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { data, parentElement } = walker.currentNode;
    if (data.includes(mark) && !parentElement.closest(places)) found.push(parentElement.outerHTML);
  }
  const made = [...document.querySelectorAll(".dir-attack, iframe, base, [onclick], [onerror], [onfocus]")];
  const led = [...document.querySelectorAll("[href*=attack], [src*=attack], [href^='javascript']")];
  const words = made.concat(led).map((node) => `made: ${node.outerHTML}`);
  return [...found, ...words].map((text) => text.slice(0, 200));
}"""
REPORTED: Final = """
window.dirViolations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.dirViolations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""


@dataclass
class Scene:
    """A console with one case for each attack and way, and harmless cases to compare them with."""

    console: Console
    # The text of an attack is the explanation, a parameter and what the agent expects; or it is the payee.
    beside: dict[str, str] = field(default_factory=dict)
    within: dict[str, str] = field(default_factory=dict)
    flows: dict[str, str] = field(default_factory=dict)
    harmless: str = ""
    loud: str = ""


def text_of(name: str) -> str:
    """The text of an attack, with the mark that finds it again before and after it."""
    return f"{MARK} {ATTACKS[name]} {MARK}"


@contextmanager
def opened(folder: Path) -> Iterator[Scene]:
    """The console, with all cases posted by the API."""
    agents = "".join(_AGENT.format(name=name) for name in ("payer", LOUD))
    loud = text_of("html") + text_of("right to left")
    pack = PACK.replace("AGENTS", agents).replace("TEXT", json.dumps(loud))
    pack = pack.replace("OWNER", json.dumps(text_of("orders"))).replace("MISSION", json.dumps(loud))
    with desk_cases.console_with(folder, pack) as (console, _):
        scene = Scene(console)
        clients = desk_cases.clients_of(console, ["payer", LOUD])
        agent = clients["payer"]
        _post(scene, agent)  # the first of the queue has no neighbour before it
        scene.harmless = _post(scene, agent)
        for name in ATTACKS:
            scene.beside[name] = _post(scene, agent, note=text_of(name))
            scene.within[name] = _post(scene, agent, payee=text_of(name))
        scene.loud = _post(scene, clients[LOUD])
        _post(scene, agent)
        for name in ("html", "markdown", "right to left"):
            source = f"web:<script>window.dirAttacked=1</script>{MARK}"
            agent.remember(scope="desk", key=name.replace(" ", "-"), value=text_of(name), source=source)
        for client in clients.values():
            client.wire.close()
        yield scene


def _post(scene: Scene, agent: Client, *, payee: str = "Supplier", note: str = HARMLESS) -> str:
    dfid = agent.open_flow(trigger=note[:900])
    verdict = agent.propose(
        dfid,
        {
            "policy_kind": "PAY",
            "params": {"payee": payee, "note": note, "amount_cents": 400_000},
            "execution_constraints": {"validity_window_sec": 7200},
            "context_ref": agent.context(dfid).ref,
            "confidence": 0.95,
            "explain": note,
            "expected_effects": {"balance": note[:3000], note[:60]: 1},
        },
    )
    escalation_id = str(verdict.escalation_id)
    scene.flows[escalation_id] = dfid
    return escalation_id


# The largest difference of two pictures in one colour of one pixel, of 255, which those of two sizes have.
FURTHEST = """async (texts) => {
  const read = async (text) => {
    const image = new Image();
    image.src = `data:image/png;base64,${text}`;
    await image.decode();
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    return context.getImageData(0, 0, image.width, image.height);
  };
  const [one, other] = await Promise.all(texts.map(read));
  if (one.width !== other.width || one.height !== other.height) return 255;
  return one.data.reduce((most, value, at) => Math.max(most, Math.abs(value - other.data[at])), 0);
}"""
INVISIBLE = 3


@dataclass
class Viewer:
    """A signed-in page that notes errors, and takes pictures of parts."""

    context: BrowserContext
    page: Page
    scene: Scene
    errors: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Open a page, live, and put the same text where two cases differ by nature."""
        self.page.goto(f"{self.scene.console.url}{path}")
        expect(self.page.locator("[data-live-word]")).to_have_text("Live")
        self.page.evaluate("document.fonts.ready.then(() => true)")

    def astray(self, places: str) -> list[str]:
        """Elements and texts of an attack outside of `places`, and what the browser had to forbid."""
        found: list[str] = self.page.evaluate(ASTRAY, [MARK, places])
        found += self.page.evaluate("window.dirViolations")
        found += self.errors
        self.errors.clear()
        return found + (["a script ran"] if self.page.evaluate("window.dirAttacked === 1") else [])

    def boxes(self, parts: list[str]) -> dict[str, FloatRect]:
        """Where the parts stand."""
        found: dict[str, FloatRect] = self.page.evaluate(BOXES, parts)
        return found

    def are_alike(self, one: bytes, other: bytes) -> bool:
        """Whether nobody can tell two pictures apart: a browser smooths round corners now so, now so."""
        if one == other:
            return True
        page = self.context.new_page()
        texts = [base64.b64encode(picture).decode() for picture in (one, other)]
        furthest: int = page.evaluate(FURTHEST, texts)
        page.close()
        return furthest <= INVISIBLE

    def pictures(self, places: list[FloatRect]) -> list[bytes]:
        """What is to be seen in these places of the window, without scrolling."""
        self.page.mouse.move(700, 5)
        self.page.evaluate(CALM)
        return [self.page.screenshot(clip=place, animations="disabled", caret="hide") for place in places]


@contextmanager
def viewer(browser: Browser, scene: Scene, **options: Any) -> Iterator[Viewer]:
    """A page of the operator that reports violations of the content security policy."""
    context = browser.new_context(**{"viewport": WINDOW, "reduced_motion": "reduce", **options})
    context.add_init_script(REPORTED)
    page = context.new_page()
    scene.console.sign_in(page)
    made = Viewer(context, page, scene)

    def note(message: ConsoleMessage) -> None:
        if message.type == "error":
            made.errors.append(message.text)

    page.on("console", note)
    page.on("pageerror", lambda error: made.errors.append(str(error)))
    page.on("dialog", lambda dialog: made.errors.append(f"dialog: {dialog.message}"))
    yield made
    context.close()


def keep(name: str, pictures: list[bytes], *, failed: bool) -> None:
    """Write pictures where somebody wants to see them: into LAYOUT_PICTURES, or of a failure into FAILED."""
    folder = os.environ.get(PICTURES, "")
    if folder or failed:
        place = Path(folder) if folder else FAILED
        place.mkdir(parents=True, exist_ok=True)
        for number, picture in enumerate(pictures, start=1):
            (place / f"{name.replace(' ', '-')}-{number}.png").write_bytes(picture)
