"""Stand-ins for switches: servers that speak their protocols, programs that repeat.

Each switches a Plug.  What a program is known to print stands in tests/kit/recorded.py.
"""

from __future__ import annotations

import base64
import json
import shlex
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from dbcheck.model.cut import PowerState

LOGIN = ("dbcheck", "geheim")  # of the stand-in BMC
SYSTEM = "/redfish/v1/Systems/1"
_RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"


@dataclass
class Plug:
    """What a stand-in switches; in a file, so that programs can switch it as well.

    stuck: it answers as ever, and the power stays on.
    asked: each request that a server got.
    """

    path: Path
    stuck: bool = False
    asked: list[str] = field(default_factory=list)

    def switch(self, state: PowerState) -> None:
        if not self.stuck:
            self.path.write_text(state.value)

    @property
    def state(self) -> PowerState:
        return PowerState(self.path.read_text().strip())

    @property
    def is_on(self) -> bool:
        return self.state is PowerState.ON


class Request(NamedTuple):
    """What a server is asked; login: as HTTP Basic has it, "" without one."""

    url: str
    body: bytes
    login: str


Reply = tuple[int, str]  # the status and the body
Protocol = Callable[[Plug, Request], Reply]


def shelly(plug: Plug, request: Request) -> Reply:
    """Answer as a Shelly of the second generation (its API documentation, Switch)."""
    asked = urlsplit(request.url)
    values = parse_qs(asked.query)
    if values.get("id") != ["0"]:
        return 500, '{"code":-105,"message":"Argument \'id\', value 9 not found!"}'
    if asked.path == "/rpc/Switch.GetStatus":
        return 200, json.dumps(
            {"id": 0, "source": "HTTP_in", "output": plug.is_on, "apower": 0.0},
            separators=(",", ":"),
        )
    if asked.path == "/rpc/Switch.Set" and values["on"][0] in ("true", "false"):
        was_on = json.dumps({"was_on": plug.is_on})
        on = values["on"] == ["true"]
        plug.switch(PowerState.ON if on else PowerState.OFF)
        return 200, was_on
    return 404, '{"code":404,"message":"No handler for it"}'


def tasmota(plug: Plug, request: Request) -> Reply:
    """Answer as a plug with one relay (Tasmota's documentation, Commands)."""
    command = parse_qs(urlsplit(request.url).query)["cmnd"][0].split()
    if command[0] != "Power1":
        return 200, '{"Command":"Unknown"}'
    if len(command) == 2:
        plug.switch(PowerState(command[1].lower()))
        return 200, json.dumps({"POWER": command[1].upper()})  # also if it is stuck
    return 200, json.dumps({"POWER": plug.state.value.upper()})


def redfish(plug: Plug, request: Request) -> Reply:
    """Answer as a BMC with one system (DMTF, Redfish: ComputerSystem)."""
    if request.login != ":".join(LOGIN):
        return 401, '{"error": {"code": "Base.1.8.NoValidSession"}}'
    if request.url == _RESET:
        wanted = {"ForceOff": PowerState.OFF, "On": PowerState.ON}
        plug.switch(wanted[json.loads(request.body)["ResetType"]])
        return 204, ""
    state = plug.state.value.capitalize()
    actions = {"#ComputerSystem.Reset": {"target": _RESET}}
    return 200, json.dumps({"PowerState": state, "Actions": actions})


def pdudaemon(plug: Plug, request: Request) -> Reply:
    """Answer as pdudaemon's listener, which says the same if its driver failed."""
    asked = urlsplit(request.url)
    if parse_qs(asked.query) != {"hostname": ["pdu1"], "port": ["7"]}:
        return 500, "Invalid request\n"
    plug.switch(PowerState(asked.path.removeprefix("/power/control/")))
    return 200, "OK - accepted request\n"


@contextmanager
def served(
    plug: Plug, protocol: Protocol, certificate: Path | None = None
) -> Iterator[int]:
    """Serve *protocol* on a port of localhost; give the port.

    certificate: the folder of server.crt and server.key, for HTTPS.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            kind, _, login = self.headers.get("Authorization", "").partition(" ")
            login = base64.b64decode(login).decode() if kind == "Basic" else ""
            request = Request(self.path, self.rfile.read(length), login)
            plug.asked.append(request.url)
            code, body = protocol(plug, request)
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "server.crt", certificate / "server.key")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Answer(NamedTuple):
    """What a program prints when the power is on, and off; then: what it switches."""

    on: str = ""
    off: str = ""
    then: PowerState | None = None
    code: int = 0


def install(
    folder: Path, program: str, answers: Mapping[str, Answer], plug: Plug
) -> Path:
    """Write a *program* that gives the answers to its arguments, and to none other.

    answers: by the arguments, joined by blanks; "*" at the beginning is any text.
    """
    file = shlex.quote(str(plug.path))
    cases = []
    for arguments, answer in answers.items():
        start = "*" if arguments.startswith("*") else ""
        rest = arguments.removeprefix("*")
        on, off = shlex.quote(answer.on), shlex.quote(answer.off)
        printed = f'if [ "$(cat {file})" = on ]; then printf %s {on}'
        printed += f"; else printf %s {off}; fi"
        if answer.then and not plug.stuck:
            printed += f"; echo {answer.then.value} >{file}"
        cases.append(f"{start}{shlex.quote(rest)}) {printed}; exit {answer.code};;\n")
    other = '*) echo not recorded: "$*" >&2; exit 64;;\n'
    path = folder / program
    path.write_text(f'#!/bin/sh\ncase "$*" in\n{"".join(cases)}{other}esac\n')
    path.chmod(0o755)
    return path
