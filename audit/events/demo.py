"""What a person makes go wrong in the demo on purpose, so that the record tells it from a real failure."""

from audit.events.base import Event, Kind, Text


class DemoScenarioStarted(Event):
    """The demo took it on; it ends by itself after `lasts_s` seconds. `symbol` is whose price moves."""

    kind = Kind.DEMO_SCENARIO_STARTED
    scenario: Text
    lasts_s: int
    symbol: Text = ""


class DemoScenarioEnded(Event):
    """A person ended it before its time; that it ended by itself is not recorded."""

    kind = Kind.DEMO_SCENARIO_ENDED
    scenario: Text
