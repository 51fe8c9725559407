"""One agent at its desk, one person who decides."""

import pytest
from django.contrib.auth.models import User

from tests.support import factories


@pytest.fixture
def desk(db: None) -> factories.Desk:
    return factories.desk()


@pytest.fixture
def olivia(db: None) -> User:
    return factories.user("olivia")
