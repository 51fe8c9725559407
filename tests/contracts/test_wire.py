"""Small readers of the wire forms."""

from uuid import UUID

import pytest

from runtime.contracts import api_schemas

ID = "01890000-0000-7000-8000-000000000000"


def test_an_id_is_read_in_its_one_usual_form() -> None:
    assert api_schemas.uuid_of(ID) == UUID(ID)


@pytest.mark.parametrize(
    "text", ["", "x", ID.replace("-", ""), f"{{{ID}}}", f" {ID}", ID.replace("0", chr(0x660))]
)
def test_other_texts_are_no_id(text: str) -> None:
    assert api_schemas.uuid_of(text) is None


def test_the_tag_of_a_version_is_a_quoted_number() -> None:
    assert api_schemas.etag_of_version(12) == '"12"'
