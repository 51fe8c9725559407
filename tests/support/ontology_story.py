"""An ontology with a version that was replaced, written by the services."""

from runtime.packs.services import packs

PACK = """
pack: words
version: {version}
ontology:
  schema_version: {version}
  facts:
    - {{path: "{path}", schema: {{type: {kind}}}, unit: cents, tags: [kept], max_age_s: 60}}
"""


def write(*, path: str = "words.*") -> None:
    """Two versions for facts of a path, of which the second is active, and a draft."""
    for version, kind, activate in (
        ("1.0.0", "integer", True),
        ("1.1.0", "number", True),
        ("2.0.0", "string", False),
    ):
        text = PACK.format(version=version, kind=kind, path=path)
        loaded = packs.load(text=text, source="words.yaml", activate=activate, actor="system")
        assert isinstance(loaded, packs.Loaded), loaded
