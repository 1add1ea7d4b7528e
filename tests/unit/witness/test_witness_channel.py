from __future__ import annotations

import json

import pytest

from dbcheck.agent import wire
from dbcheck.agent import witness as agent
from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import WitnessError
from dbcheck.remote.channel import Channel
from dbcheck.witness.witness import REFUSALS, open_channel
from tests.kit.channels import Script, reply
from tests.kit.refusals import refused


def test_noise_before_the_hello_is_skipped() -> None:
    hello = b"Welcome to host!\n" + wire.HELLO
    parts = [hello[at : at + 3] for at in range(0, len(hello), 3)]
    channel = open_channel(Script(*parts, reply(wire.RESULT, b"[1]")), "here")
    assert channel.request(agent.RUNS) == [1]


@pytest.mark.parametrize(
    ("script", "refusal", "words", "hint"),
    [
        pytest.param(
            Script(words="warning\nsh: 1: exec: python3: not found\n"),
            ErrorId.PYTHON_MISSING,
            "ended: sh: 1: exec: python3: not found",
            "Python 3.8 or newer",
            id="no python3",
        ),
        pytest.param(
            Script(words="this is Python 3.6.15"),
            ErrorId.PYTHON_MISSING,
            "3.6.15",
            "Python 3.8",
            id="too old",
        ),
        pytest.param(Script(), ErrorId.AGENT_ENDED, "here", "Check", id="no word"),
        pytest.param(
            Script(b"x" * 70_000),
            ErrorId.AGENT_REPLY_INVALID,
            "here",
            "shell",
            id="noise",
        ),
        pytest.param(
            Script(hangs=True),
            ErrorId.HOST_NOT_ANSWERING,
            "here",
            "network",
            id="silence",
        ),
    ],
)
def test_what_is_no_agent_is_told_apart(
    script: Script, refusal: ErrorId, words: str, hint: str
) -> None:
    with refused(refusal, WitnessError, naming=words) as caught:
        open_channel(script, "here")
    assert hint in caught.value.hint
    assert script.closed


@pytest.mark.parametrize(
    "answer",
    [
        reply(wire.MARK, b""),
        reply(wire.RESULT, b"{"),
        reply(wire.ERROR, b"{"),
        reply(wire.ERROR, b"{}"),
        reply(wire.ERROR, b"7"),
        wire.MESSAGE.pack(wire.RESULT, 0, 0, 2**32 - 1),
    ],
)
def test_an_answer_that_makes_no_sense_is_refused(answer: bytes) -> None:
    channel = open_channel(Script(wire.HELLO, answer), "here")
    with refused(ErrorId.AGENT_REPLY_INVALID, WitnessError):
        channel.request(agent.RUNS)


@pytest.mark.parametrize("code", REFUSALS)
def test_an_error_of_the_agent_comes_with_a_hint(code: str) -> None:
    told = json.dumps({"code": code, "message": "/f: it went wrong"}).encode()
    channel = open_channel(Script(wire.HELLO, reply(wire.ERROR, told)), "here")
    id, hint = REFUSALS[code]
    with refused(id, WitnessError, naming="here: /f: it went wrong") as caught:
        channel.request(agent.RUNS)
    assert caught.value.hint == hint
    assert caught.value.hint.endswith(".")


def test_a_stream_that_breaks_off_is_told() -> None:
    parts = [reply(wire.DATA, b"abc"), reply(wire.DATA, b"def")[:-1]]
    channel = open_channel(Script(wire.HELLO, *parts), "here")
    stream = channel.stream(agent.READ)
    assert next(stream) == b"abc"
    with refused(ErrorId.AGENT_ENDED, WitnessError, naming="ended"):
        next(stream)


def test_a_stream_of_something_else_is_refused() -> None:
    channel = open_channel(Script(wire.HELLO, reply(wire.MARK, b"")), "here")
    with refused(ErrorId.AGENT_REPLY_INVALID, WitnessError):
        list(channel.stream(agent.READ))


def test_ending_the_input_of_a_dead_agent_is_no_error() -> None:
    open_channel(Script(wire.HELLO), "here").end_input()


def test_an_answer_nested_too_deep_is_told() -> None:
    deep = b"[" * 100_000
    for kind in (wire.RESULT, wire.ERROR):
        channel: Channel = open_channel(Script(wire.HELLO, reply(kind, deep)), "here")
        with refused(ErrorId.AGENT_REPLY_INVALID, naming="witness"):
            channel.request(agent.RUNS)
