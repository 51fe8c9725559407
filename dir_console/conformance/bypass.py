"""No bypass path: what can leave the server, tried in a child process and read from the source."""

from typing import Final

from dir_console.conformance import imports
from dir_console.conformance.items import Answer, Check, Finding, Group, counted, judged
from dir_console.conformance.sample import Sample

_REFUSED: Final = ("EGRESS_REFUSED", "NAME_UNRESOLVED")
_LIMIT: Final = (
    "The operating system lets this process connect. What code of a dependency, or an operator with a shell "
    "or with the database, could do is not limited from here: that takes a network policy around the server."
)


def check_refused_address(sample: Sample) -> Finding:
    """The execution service calls nobody whom the settings do not allow, however the address is written."""
    egress = sample.trial()["egress"]
    tries, allowed = egress["tries"], egress["allowed"]
    wrong = [
        f"A {each['way']} to {each['address']} came to {each['result']}, with "
        f"{counted(each['arrived'], 'connection')}."
        for each in tries
        if each["arrived"] or each["result"] not in _REFUSED
    ]
    if allowed["arrived"] != 1:
        wrong.append(f"Even when it is allowed, the call does not arrive ({allowed['result']}).")
    arrived = sum(each["arrived"] for each in tries)
    return judged(
        tried=f"Listened on {egress['host']} in a child process, and let the execution service call it: "
        f"{counted(len(tries), 'call')} in {len({each['address'] for each in tries})} spellings, with this "
        "installation's DIR_EGRESS_ALLOW, which does not name it; then once with the address allowed.",
        seen=f"{counted(arrived, 'connection')} for {counted(len(tries), 'refused call')}; with the address "
        f"allowed: {counted(allowed['arrived'], 'connection')}.",
        wrong=wrong,
    )


def check_imports(sample: Sample) -> Finding:
    """No other part of the product has what it takes to call outside."""
    found = sample.imports
    ways, intruders = imports.list_ways_out(found), imports.list_intruders(found)
    files = len({each.by for each in found})
    wrong = [f"{each.by}, line {each.line}, imports {each.module}." for each in ways]
    wrong += [f"{each.by}, line {each.line}, reaches into {each.module}." for each in intruders]
    others = "; ".join(f"{name} {why}" for name, (_, why) in imports.ALLOWED.items())
    return judged(
        tried=f"Read every import of {counted(files, 'file')} of the product, {len(found)} in all, for "
        "modules that open connections or start programs, and for imports of the adapters from outside the "
        "execution service.",
        seen=f"{counted(len(ways), 'import')} outside the adapters of the execution service and the parts "
        f"that are named; {counted(len(intruders), 'import')} of the adapters from elsewhere. Named: "
        f"{others}.",
        wrong=wrong,
    )


def check_judging_calls_nobody(sample: Sample) -> Finding:
    """To judge a proposal calls nobody."""
    judge = sample.trial().get("judge")
    tried = "Judged one stored proposal again in the child process, with every socket refused."
    if judge is None:
        return Finding(
            answer=Answer.NOT_APPLICABLE,
            tried=tried,
            seen="There is no verdict in the sample.",
            why="No proposal was judged in a flow that has ended.",
        )
    wrong = [f"While it was judged: {event}." for event in judge["events"]]
    if not judge["is_equal"]:
        wrong.append("The verdict is not, byte for byte, the one that is stored.")
    seen = f"{counted(len(judge['events']), 'attempt')} to open a socket or to start a program; "
    seen += "the same bytes as stored." if judge["is_equal"] else "other bytes than stored."
    return judged(tried=tried, seen=seen, wrong=wrong)


def check_the_system(sample: Sample) -> Finding:
    """What the checks above cannot promise: the operating system does not keep this process from
    connecting."""
    past = sample.trial()["egress"]["past"]
    tried = "Opened a connection to the same listener in the child process without the execution service."
    seen = f"{counted(past, 'connection')} arrived."
    short = [_LIMIT] if past else []
    return judged(tried=tried, seen=seen, wrong=[], short=short)


CHECKS: Final = (
    Check(
        id="bypass-egress",
        group=Group.BYPASS,
        paper="DARE, conformance check 2, network",
        asks="A call to an address that is not allowed is refused before anything is connected.",
        tries="Listens on a loopback address in a child process and lets the execution service call it in "
        "several spellings, with the settings of this installation; then with the address allowed, to see "
        "that the listener notices.",
        run=check_refused_address,
        tests=(
            "tests/execution/test_egress.py::test_refuses_an_address_that_is_not_public",
            "tests/execution/test_egress.py::test_another_spelling_of_the_loopback_address_is_refused",
        ),
    ),
    Check(
        id="bypass-imports",
        group=Group.BYPASS,
        paper="DARE, conformance check 2, SDK",
        asks="Only the execution service has the means to call a target.",
        tries="Reads the imports of every file of the product for modules that open connections or start "
        "programs.",
        run=check_imports,
        tests=("tests/architecture/test_environment.py::test_the_environment_is_read_in_wiring_only",),
    ),
    Check(
        id="bypass-judge",
        group=Group.BYPASS,
        paper="DARE, conformance check 2, SDK",
        asks="Judging a proposal calls nobody.",
        tries="Judges one stored proposal again in the child process, with every socket refused, and "
        "compares the bytes.",
        run=check_judging_calls_nobody,
        tests=("tests/architecture/test_purity.py::test_pure_packages_call_nothing_that_varies",),
    ),
    Check(
        id="bypass-system",
        group=Group.BYPASS,
        paper="DARE, conformance check 2, network",
        asks="The system around the server lets no other connection out.",
        tries="Opens a connection in the child process without the execution service. It arrives where no "
        "network policy refuses it, so on most installations this is answered with partly.",
        run=check_the_system,
    ),
)
