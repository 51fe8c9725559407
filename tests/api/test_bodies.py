"""What is not I-JSON in UTF-8 does not come in, and says where it is wrong."""

import gzip
import json
import time
from typing import Any

import pytest

from runtime.contracts.problem import ProblemError
from runtime.kernel import ijson
from tests.support import api_client

# Seconds of CPU. A tenth of one is usual; work that grows with the square of the body takes minutes.
FAR_TOO_LONG_S = 5
NOT_JSON: list[tuple[str, bytes]] = [
    ("white space", b" "),
    ("two values", b"{} {}"),
    ("trailing comma", b'{"trigger":"x",}'),
    ("single quotes", b"{'trigger':'x'}"),
    ("leading zero", b'{"trigger":"x","n":01}'),
    ("control character", b'{"trigger":"a\nb"}'),
    ("utf-16", '{"trigger":"x"}'.encode("utf-16")),
    ("utf-16 without mark", '{"trigger":"x"}'.encode("utf-16-le")),
    ("utf-32", '{"trigger":"x"}'.encode("utf-32")),
    ("latin-1", '{"trigger":"é"}'.encode("latin-1")),
    ("byte order mark", b'\xef\xbb\xbf{"trigger":"x"}'),
    ("surrogate as utf-8", b'{"trigger":"\xed\xa0\x80"}'),
    ("overlong utf-8", b'{"trigger":"\xc0\xaf"}'),
    ("a hundred thousand brackets", b"[" * 100_000),
]
NOT_I_JSON: list[tuple[bytes, str]] = [
    (b'{"trigger":"x","trigger":"y"}', ""),
    (b'{"trigger":{"a":[{"b":1,"b":1}]}}', "/trigger/a/0"),
    (b'{"trigger":{"a":NaN}}', "/trigger/a"),
    (b'{"trigger":{"a":[-Infinity]}}', "/trigger/a/0"),
    (b'{"trigger":{"a":1e400}}', "/trigger/a"),
    (b'{"trigger":{"a":[[[-1e400]]]}}', "/trigger/a/0/0/0"),
    (b'{"trigger":{"a":9007199254740992}}', "/trigger/a"),
    (b'{"trigger":{"a":-9007199254740992}}', "/trigger/a"),
    (b'{"trigger":{"a":9007199254740992.0}}', "/trigger/a"),
    (b'{"trigger":{"a":9223372036854775808}}', "/trigger/a"),
    (b'{"trigger":{"a":' + b"9" * 5000 + b"}}", "/trigger/a"),
    (b'{"trigger":{"a":1e-400}}', "/trigger/a"),
    (b'{"trigger":"\\ud800"}', "/trigger"),
    (b'{"trigger":"\\udc00\\ud800"}', "/trigger"),
    (b'{"\\ud800":1}', ""),
    (b'{"trigger":"a\\u0000b"}', "/trigger"),
    (b'{"trigger":"\xef\xb7\x90"}', "/trigger"),
    (b'{"trigger":"\xf4\x8f\xbf\xbf"}', "/trigger"),
    (b'{"trigger":{"a/b~":[NaN]}}', "/trigger/a~1b~0/0"),
    (b'{"trigger":' + b"[" * 32 + b"]" * 32 + b"}", "/trigger" + "/0" * 31),
    (b'{"trigger":[' + b"0," * 30_000 + b"0]}", "/trigger"),
]


@pytest.mark.parametrize(("name", "raw"), NOT_JSON, ids=[name for name, _ in NOT_JSON])
def test_refuses_what_is_not_json_in_utf_8(trader: api_client.Caller, name: str, raw: bytes) -> None:
    problem = trader.call("POST", "/flows", raw=raw).problem(400, "INVALID_JSON")
    assert problem["retriable"] is False


@pytest.mark.parametrize(
    ("raw", "pointer"), NOT_I_JSON, ids=[raw[:40].decode("latin-1") for raw, _ in NOT_I_JSON]
)
def test_refuses_what_is_not_i_json_and_says_where(
    trader: api_client.Caller, raw: bytes, pointer: str
) -> None:
    problem = trader.call("POST", "/flows", raw=raw).problem(400, "INVALID_JSON")
    assert [violation["pointer"] for violation in problem["violations"]] == [pointer]


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/xml", "", "application/jsonx", "multipart/form-data"]
)
def test_refuses_a_body_that_is_declared_as_something_else(
    trader: api_client.Caller, content_type: str
) -> None:
    answer = trader.call("POST", "/flows", {"trigger": "x"}, headers={"Content-Type": content_type})
    answer.problem(415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("charset", ["utf-8", "UTF-8", '"utf-8"'])
def test_takes_a_body_that_is_declared_as_utf_8(trader: api_client.Caller, charset: str) -> None:
    content_type = f"application/json; charset={charset}"
    trader.call("POST", "/flows", {"trigger": "x"}, headers={"Content-Type": content_type}).ok(201)


def test_refuses_a_body_that_is_declared_as_utf_16(trader: api_client.Caller) -> None:
    headers = {"Content-Type": "application/json; charset=utf-16"}
    trader.call("POST", "/flows", {"trigger": "x"}, headers=headers).problem(400, "INVALID_JSON")


def test_refuses_a_compressed_body(trader: api_client.Caller) -> None:
    raw = gzip.compress(b'{"trigger":"' + b"x" * 10_000_000 + b'"}')
    answer = trader.call("POST", "/flows", raw=raw, headers={"Content-Encoding": "gzip"})
    answer.problem(415, "UNSUPPORTED_MEDIA_TYPE")


def test_refuses_a_body_over_a_million_bytes(trader: api_client.Caller) -> None:
    raw = b'{"trigger":"x"}' + b" " * 1_000_000
    trader.call("POST", "/flows", raw=raw).problem(413, "BODY_TOO_LARGE")
    with pytest.raises(ProblemError) as caught:
        ijson.parse(raw)
    assert caught.value.problem.status == 413


def test_takes_ten_thousand_keys_and_answers_in_time(trader: api_client.Caller) -> None:
    trigger = {f"key{number}": number for number in range(10_000)}
    began = time.thread_time()
    trader.post("/flows", {"trigger": trigger}).ok(201)
    assert time.thread_time() - began < FAR_TOO_LONG_S


@pytest.mark.parametrize(
    "raw",
    [
        b"{" + b'"a":1,' * 140_000 + b'"a":1}',
        b"[" + b"{}," * 330_000 + b"{}]",
        b"9" * 900_000,
        b"1e" + b"9" * 900_000,
    ],
)
def test_refuses_large_nonsense_in_time(raw: bytes) -> None:
    began = time.thread_time()
    with pytest.raises(ProblemError):
        ijson.parse(raw)
    assert time.thread_time() - began < FAR_TOO_LONG_S


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        (b'{"b": 100.0, "a": -0.0}', b'{"a":0,"b":100}'),
        (b"[1E2, 0.5, 9007199254740991, -9007199254740991]", b"[100,0.5,9007199254740991,-9007199254740991]"),
        (b'"\\ud83d\\ude00"', b'"\xf0\x9f\x98\x80"'),
        (b" null\n", b"null"),
        (b"0e-5", b"0"),
        (b"[" * 32 + b"]" * 32, b"[" * 32 + b"]" * 32),
    ],
)
def test_gives_the_canonical_bytes(raw: bytes, canonical: bytes) -> None:
    assert ijson.parse(raw).canonical == canonical


ENVELOPES: list[tuple[Any, list[tuple[str, str]]]] = [
    ({}, [("/trigger", "is required")]),
    ({"trigger": "x", "tenant": "b"}, [("/tenant", "is not a known field")]),
    ({"trigger": 5}, [("/trigger", "must be a string, or must be an object")]),
    ({"trigger": ""}, [("/trigger", "must have at least 1 characters, or must be an object")]),
    ({"trigger": "x" * 2001}, [("/trigger", "must have at most 2000 characters, or must be an object")]),
    ({"trigger": "x", "parent_dfid": 7}, [("/parent_dfid", "must be a string")]),
    ([], [("", "must be an object")]),
    ("x", [("", "must be an object")]),
    (None, [("", "must be an object")]),
]


@pytest.mark.parametrize(("body", "violations"), ENVELOPES)
def test_names_every_field_that_is_wrong(
    trader: api_client.Caller, body: Any, violations: list[tuple[str, str]]
) -> None:
    answer = trader.call("POST", "/flows", raw=json.dumps(body).encode())
    problem = answer.problem(422, "INVALID_REQUEST")
    assert [(item["pointer"], item["message"]) for item in problem["violations"]] == violations


def test_never_echoes_what_was_sent(trader: api_client.Caller) -> None:
    answer = trader.post("/flows", {"trigger": {"secret": "x"}, "s" * 5000: "very-secret"})
    assert b"very-secret" not in answer.content
    assert len(answer.content) < 1000
