"""What people do at the doors of the console leaves an entry each; strangers leave one a minute."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.db import OperationalError
from django.db.models import F
from django.test import Client

from audit.access.roles import Role
from audit.models import LedgerEntry
from audit.verification.verify import Whole, verify_database
from dir_console import views
from escalations.models import Escalation
from runtime.core import clock
from runtime.maintenance.services import sweeper
from runtime.registry.models import FailedSignin
from runtime.registry.services import signins, users
from tests.support import demo_scenes

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"
OTHER = "another long password"


@pytest.fixture(autouse=True)
def _no_limits_left_over() -> Iterator[None]:
    cache.clear()
    yield
    assert isinstance(verify_database(), Whole)


@pytest.fixture
def ann() -> User:
    return add("ann", Role.OPERATOR)


@pytest.fixture
def within_one_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """No minute ends meanwhile."""
    at = clock.now()
    monkeypatch.setattr(clock, "now", lambda: at)


def add(name: str, *roles: Role) -> User:
    made = users.add(tenant="default", name=name, password=PASSWORD, roles=roles, actor="system")
    assert isinstance(made, User), made
    return made


def sign_in(client: Client, name: str = "ann", password: str = PASSWORD) -> int:
    return client.post("/accounts/login/", {"login": name, "password": password}).status_code


def inside(name: str = "ann") -> Client:
    client = Client()
    assert sign_in(client, name) == 302
    return client


class Book:
    """The entries since it was opened: how many of each kind."""

    def __init__(self) -> None:
        self.after = LedgerEntry.objects.count()

    def kinds(self) -> Counter[str]:
        rows = LedgerEntry.objects.order_by("pk").values_list("kind", flat=True)
        return Counter(rows[self.after :])


def newest() -> LedgerEntry:
    row = LedgerEntry.objects.order_by("pk").last()
    assert row is not None
    return row


def test_signing_in_and_out(ann: User) -> None:
    book = Book()
    client = inside()
    assert book.kinds() == {"user:signed_in": 1}
    assert (newest().stream, newest().actor) == ("signin", f"user:{ann.pk}")
    assert client.post("/accounts/logout/").status_code == 302
    assert book.kinds() == {"user:signed_in": 1, "user:signed_out": 1}
    assert client.post("/accounts/logout/").status_code == 302
    assert book.kinds()["user:signed_out"] == 1


def test_another_password_by_the_page_and_by_the_command(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client, book = inside(), Book()
    wanted = {"oldpassword": PASSWORD, "password1": OTHER, "password2": OTHER}
    assert client.post("/accounts/password/change/", wanted).status_code == 302
    assert book.kinds() == {"user:password_changed": 1}
    assert (newest().stream, newest().actor) == (f"user:{ann.pk}", f"user:{ann.pk}")
    assert User.objects.get().check_password(OTHER)

    monkeypatch.setattr("sys.stdin", StringIO(f"{PASSWORD}\n"))
    call_command("set_password", "ann", "--password-stdin", stderr=StringIO())
    assert book.kinds() == {"user:password_changed": 2}
    assert (newest().stream, newest().actor) == (f"user:{ann.pk}", "system")
    assert newest().payload == {"user_id": ann.pk, "by_invite": False}


def test_a_password_that_is_not_confirmed(ann: User) -> None:
    client, book = inside(), Book()
    for _ in range(6):
        assert client.post("/accounts/reauthenticate/", {"password": "wrong"}).status_code == 200
    assert book.kinds() == {"user:confirmation_failed": 6}
    assert newest().payload == {"user_id": ann.pk, "locked": True}
    assert newest().actor == f"user:{ann.pk}"
    assert not FailedSignin.objects.exists()


@pytest.mark.usefixtures("within_one_minute")
def test_failed_sign_ins_are_one_entry_a_minute_and_keep_no_name_that_nobody_has(ann: User) -> None:
    book = Book()
    for _ in range(7):
        sign_in(Client(), "ann", "wrong")
    for name in ("hunter2", "hunter2", "b\x00b"):
        sign_in(Client(), name, "wrong")
    assert sweeper.sweep().signins == 0
    assert book.kinds() == {}
    assert FailedSignin.objects.filter(user=ann).count() == 1

    FailedSignin.objects.update(minute=F("minute") - timedelta(minutes=2))
    assert sweeper.sweep().signins == 1
    assert sweeper.sweep().signins == 0
    assert book.kinds() == {"signin:failed": 1}
    told = newest().payload
    assert (told["failed"], told["locked"], told["others"]) == (7, 2, 0)
    assert told["names"][0] == {"name": f"user:{ann.pk}", "failed": 5, "locked": 2}
    assert (told["names"][1]["failed"], told["names"][1]["name"][:5]) == (2, "name:")
    assert b"hunter2" not in bytes(newest().body)
    assert not FailedSignin.objects.exists()


@pytest.mark.usefixtures("within_one_minute")
def test_many_names_in_a_minute_make_neither_many_rows_nor_a_long_entry() -> None:
    for number in range(signins.MOST_NAMES + 10):
        signins.count_failure(name=f"name-{number}", is_locked=False)
    signins.count_failure(name="name-3", is_locked=False)
    assert FailedSignin.objects.count() == signins.MOST_NAMES + 1
    FailedSignin.objects.update(minute=F("minute") - timedelta(minutes=2))
    sweeper.sweep()
    told = newest().payload
    assert told["failed"] == signins.MOST_NAMES + 11
    assert len(told["names"]) == signins.NAMES_TOLD
    assert told["names"][0]["failed"] == 2
    assert told["others"] == told["failed"] - signins.NAMES_TOLD - 1


@pytest.mark.usefixtures("within_one_minute")
def test_names_that_nobody_has_hide_no_person(ann: User) -> None:
    for number in range(signins.MOST_NAMES + 10):
        for _ in range(2):
            signins.count_failure(name=f"name-{number}", is_locked=False)
    for name in ("ann", "ANN", " Ann "):
        signins.count_failure(name=name, is_locked=False)
    assert FailedSignin.objects.get(user=ann).failed == 3
    assert FailedSignin.objects.filter(user=None).count() == signins.MOST_NAMES + 1
    FailedSignin.objects.update(minute=F("minute") - timedelta(minutes=2))
    sweeper.sweep()
    assert newest().payload["names"][0] == {"name": f"user:{ann.pk}", "failed": 3, "locked": 0}


def test_a_refused_page_that_cannot_be_recorded_is_not_available(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, book = inside(), Book()

    def fail(**_: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(views, "record_refusal", fail)
    answer = client.get("/register-agent/")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert book.kinds() == {}


def test_a_page_that_is_not_for_the_role(ann: User) -> None:
    client, book = inside(), Book()
    assert client.get("/register-agent/").status_code == 403
    assert client.post("/kinds/new/", {}).status_code == 403
    assert book.kinds() == {"request:refused": 2}
    assert (newest().stream, newest().payload["code"]) == (f"user:{ann.pk}", "ROLE_MISSING")
    assert newest().payload["path"] == "/kinds/new/"
    assert Client().get("/register-agent/").status_code == 302
    assert book.kinds() == {"request:refused": 2}


@pytest.fixture
def case(ann: User) -> Escalation:
    demo_scenes.load_pack()
    said = demo_scenes.propose(
        demo_scenes.session_of("ambitious-trader"),
        "ADJUST_POSITION",
        demo_scenes.order("BUY", 10, "NVDA", 121_400),
    )
    return Escalation.objects.get(pk=said["escalation_id"])


def test_a_decision_that_cannot_be_read(case: Escalation) -> None:
    client, book = inside(), Book()
    assert client.post(f"/escalations/{case.pk}/decision/", {"action": "SING"}).status_code == 400
    assert book.kinds() == {"request:refused": 1}
    assert newest().payload["path"] == f"/escalations/{case.pk}/decision/"


def test_the_gates_answer_to_a_what_if(case: Escalation, ann: User) -> None:
    client, book = inside(), Book()
    bound = {"evidence_hash": case.evidence_hash, "version": str(case.version), "impact": case.impact}
    asked = {"action": "OVERRIDE", "justification": "", **bound}
    assert client.post(f"/escalations/{case.pk}/dry-run/", asked).status_code == 200
    assert book.kinds() == {"whatif:answered": 1}
    assert newest().stream == f"user:{ann.pk}"
    assert newest().payload == {
        "escalation_id": str(case.pk),
        "action": "OVERRIDE",
        "verdict": "ACCEPT",
        "codes": [],
    }
    assert client.post(f"/escalations/{case.pk}/dry-run/", {"action": "SING"}).status_code == 400
    assert book.kinds() == {"whatif:answered": 1, "request:refused": 1}


def test_a_claim_that_is_renewed(case: Escalation) -> None:
    client, book = inside(), Book()
    for _ in range(2):
        assert client.post(f"/escalations/{case.pk}/claim/").status_code == 302
    assert book.kinds() == {"escalation:claimed": 2}
    assert newest().payload["renewed"] is True
