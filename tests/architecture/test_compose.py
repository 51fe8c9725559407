"""The production file: no secret in it, nothing runs as root, every part says when it is well."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from tests.architecture import tree

COMPOSE: dict[str, Any] = yaml.safe_load(tree.text(Path("docker-compose.yml")))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)
SECRET = re.compile(r"PASSWORD|SECRET|_KEY|TOKEN")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_secret_comes_from_outside(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        if value is None:
            continue  # handed on from the environment of docker compose
        if SECRET.search(variable):
            assert re.fullmatch(r"\$\{[A-Z_]+:\?[^}]+\}", value), f"{variable} has a value of its own"
        assert not re.search(r"://[^$/]*:(?!\$\{)[^$/@]*@", value), f"{variable} holds a password"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["user"].split(":")[0] not in {"0", "root"}
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate"}))
def test_a_service_that_stays_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", OURS)
def test_a_command_names_a_program_that_exists(name: str) -> None:
    program = SERVICES[name]["command"][0]
    venv = tree.ROOT / ".venv/bin" / program
    assert venv.exists() or shutil.which(program), program


def test_the_secrets_of_targets_reach_only_what_calls_them() -> None:
    assert [name for name in SERVICES if "env_file" in SERVICES[name]] == ["worker", "guards"]


def test_every_queue_has_workers_and_guards_share_none_with_intents() -> None:
    commands = [SERVICES[name]["command"] for name in ("worker", "guards", "notices", "sealer")]
    assert [words[words.index("--queues") + 1] for words in commands] == list(settings.CELERY_TASK_QUEUES)


def test_only_the_web_service_is_reachable_and_only_from_this_host() -> None:
    assert [name for name in SERVICES if SERVICES[name].get("ports")] == ["web"]
    assert SERVICES["web"]["ports"] == ["${DIR_PUBLISH:-127.0.0.1:8000}:8000"]


def test_named_volumes_are_declared() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])


def test_the_image_runs_as_its_own_user_and_checks_hashes() -> None:
    image = tree.text(Path("Dockerfile"))
    assert re.search(r"^USER console$", image, re.MULTILINE)
    assert "--require-hashes" in image
