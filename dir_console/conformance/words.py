"""What the page of docs/ says around the items."""

from typing import Final

from dir_console.conformance.ledger import ENTRIES
from dir_console.conformance.sample import MOST, SIZE

ABOUT: Final = (
    "A conformance run tries what the papers behind the product ask for, on this installation and now: the "
    "five conformance checks of DARE, the six readiness questions of ContextOS, the invariants of the "
    "runtime, and that no path leads past the checks. Each item says what was tried and what came out."
)
RUNNING: Final = f"""\
```sh
manage.py conformance              # exit code 1 if any answer is no
manage.py conformance --json       # the whole report
manage.py conformance --sample 100 # on the newest 100 ended flows; {SIZE} without it, {MOST} at most
```

`/conformance/` shows the last run with its time, and *Run now* begins another: everybody who may read the
ledger may run it. A run takes some seconds, and writes no row and no entry; the page keeps its result in the
cache for a week. It can run while the server is running.

| answer | means |
|---|---|
| `yes` | what was tried came out as asked |
| `partly` | nothing is wrong with what was tried, but more is asked for; `why` says what |
| `no` | something is wrong, or the check failed; `why` names it |
| `not_applicable` | there is nothing yet to try it on |

Each item has `id`, `source` (the paper and what it asks, in our words), `answer`, `tried`, `seen`, `why`,
`tests` and `seconds`. `ready` is true if all six readiness questions are answered with yes."""
LIMITS: Final = f"""\
## What a run does not show

- It looks at a sample: the newest ended flows, the newest {ENTRIES} entries. `manage.py verify_ledger` and
  `manage.py replay --all` look at everything.
- It is the installation that answers. Whoever changed its code can change the answers, so what matters to a
  stranger is checked elsewhere: [evidence packs, and checkpoints that were kept](ledger.md#evidence-packs).
- *No bypass path* is about the product's own code and its execution service. The operating system lets the
  server process connect, so a dependency, an operator with a shell, or somebody with the credentials of the
  database or of a target, can reach a target without it. A network policy around the server closes this; none
  is set from here.
- What is imported by its name at run time, as the parts that the settings name are, is not followed.
- An address that is public needs no permission in `DIR_EGRESS_ALLOW`: whom an agent can cause to be called is
  decided by the targets of the [packs](packs.md) and by what an admin activates.
- Calls that change nothing at a target have no verdict: a person's question about a call in doubt, a webhook
  of a [soft guard](guards.md), a test of a target. Notices go to people. All use the same guarded way out.
- What happens in crashes, races and attacks is not tried on a running installation. The tests that are named
  do that."""
