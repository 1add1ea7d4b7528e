"""How an inventory says that a target's host is reached, and what of it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.cli.flags.target import HostUrl
from dbcheck.inventory.entry import Entry
from dbcheck.inventory.load import make_inventory
from dbcheck.remote.address import AS_SSH, Proxy, SshOptions
from dbcheck.runner.assemble import make_host
from tests.kit.refusals import refused

URL = "postgresql://u@127.0.0.1:5499/d"
SECRET = "hunter2-and-more"


def entry(variables: dict[str, Any], url: str = URL) -> Entry:
    hosts = {"db1": {"dbcheck_target": url, **variables}}
    return make_inventory(Path("hosts.yml"), hosts).entry("db1")


def options(variables: dict[str, Any]) -> SshOptions:
    return entry(variables).host_options


def test_an_old_name_counts_before_the_new_one() -> None:
    found = entry(
        {
            **{"ansible_host": "new", "ansible_port": 1, "ansible_user": "new"},
            **{"ansible_ssh_host": "old", "ansible_ssh_port": 2},
            "ansible_private_key_file": "~/key",
        }
    )
    assert found.host == "ssh://new@old:2"
    assert found.host_options == SshOptions(identity_file=Path("~/key").expanduser())


def test_arguments_of_ssh_say_what_leads_there(tmp_path: Path) -> None:
    config = tmp_path / "ssh.cfg"
    config.touch()
    assert options({"ansible_ssh_args": f"-F {config}"}).config_file == config
    assert options({"ansible_ssh_args": "-F none"}).config_file == Path("/dev/null")
    command = 'ssh -W "%h:%p" -q hop.example'
    given = {"ansible_ssh_common_args": f"-o ProxyCommand='{command}' -o User="}
    with refused(ErrorId.SSH_ARGUMENT_NOT_SUPPORTED):
        options(given)
    given = {"ansible_ssh_common_args": f"-o ProxyCommand='{command}'"}
    assert options(given) == SshOptions(proxy=Proxy(command))
    assert options({"ansible_ssh_args": "-J {{ inventory_hostname }}-hop"}) == (
        SshOptions(proxy=Proxy(jump="db1-hop"))
    )
    for nothing in ("", None, "-C -o ControlMaster=auto", "-o =", "--"):
        assert options({"ansible_ssh_args": nothing}) == AS_SSH


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ansible_ssh_args": f"-o HostName={SECRET}"}, "sets HostName"),
        ({"ansible_ssh_args": f"-o Include={SECRET}"}, "sets Include"),
        ({"ansible_ssh_args": f"-P {SECRET}"}, "sets Tag"),
        (
            {"ansible_ssh_args": f"-o 'ProxyCommand={SECRET}"},
            "a quotation mark without",
        ),
        ({"ansible_ssh_args": [SECRET]}, "is not a text"),
        ({"ansible_ssh_args": 5}, "is not a text"),
        ({"ansible_ssh_args": f"-J\0{SECRET}"}, "is not a text"),
        ({"ansible_ssh_args": f"-J {SECRET}\ud800"}, "is not a text"),
        ({"ansible_ssh_args": f"-F {SECRET}"}, "by -F that does not exist"),
        ({"ansible_ssh_args": f"--{SECRET}"}, "an option that ssh does not have"),
        ({"ansible_ssh_args": SECRET}, "a word that is no option"),
        ({"ansible_ssh_args": "{{ a | b }}"}, "is a template"),
        ({"ansible_ssh_private_key": SECRET}, "takes a private key from a file"),
        ({"ansible_ssh_executable": "/opt/wrapper"}, "another program than ssh"),
        ({"ansible_connection": "winrm"}, "ansible_connection is 'winrm'"),
        ({"ansible_connection": "community.docker.docker"}, "docker.docker'"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_its_name(
    variables: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=next(iter(variables))) as caught:
        entry(variables)
    assert said in str(caught.value)
    assert caught.value.hint
    assert SECRET not in str(caught.value) + caught.value.hint
    assert entry({**variables, "dbcheck_ask_host": False}).host == ""


def test_what_does_not_lead_to_the_host_is_left_out() -> None:
    given = {
        **{"ansible_password": SECRET, "ansible_become": True},
        **{"ansible_ssh_executable": "/usr/bin/ssh", "ansible_ssh_timeout": 5},
    }
    found = entry(given)
    assert (found.host, found.host_options) == ("ssh://db1", AS_SSH)


def test_a_proxy_is_shown_to_nobody() -> None:
    given = {
        "ansible_ssh_args": f"-o ProxyCommand='sshpass -p {SECRET} ssh -W %h:%p x'"
    }
    assert SECRET not in repr(entry(given))


def test_another_host_on_the_command_line_has_another_way_there() -> None:
    given = {"ansible_ssh_args": "-J hop", "ansible_private_key_file": "/k"}
    found = HostUrl(target_host="ssh://db9").applied(entry(given))
    assert found.host_options == SshOptions(identity_file=Path("/k"))
    assert HostUrl().applied(entry(given)).host_options.proxy == Proxy(jump="hop")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@db1.abc.eu-west-1.rds.amazonaws.com:5432/d",
        "postgresql://u@/d?host=db1.abc.eu-west-1.rds.amazonaws.com",
        "postgresql://u@/d?host=db1.abc.eu-west-1.rds.amazonaws.com:5432",
        "postgresql://u@/d?host=db2:1&host=db1.abc.eu-west-1.rds.amazonaws.com:2",
        "postgresql://u@db2/d?host=db3,DB1.abc.eu-west-1.rds.amazonaws.com.",
        "mysql://u@/d?host=db1.mysql.database.azure.com&port=3306",
        "mysql://u@/d?host=db1%2Emysql.database.azure.com",
    ],
)
def test_a_managed_host_is_not_asked_whatever_part_of_the_url_names_it(
    url: str,
) -> None:
    assert entry({}, url).host == ""
    assert entry({"dbcheck_ask_host": True}, url).host == "ssh://db1"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@db1/d?host=db2,db3",
        "postgresql://u@db1/d?application_name=x.rds.amazonaws.com",
        "postgresql://u@/d?host=/run/postgresql",
        "postgresql://u@/d?host=",
        "postgresql://u@[::1]/d?host=::1",
    ],
)
def test_a_host_of_ones_own_is_asked(url: str) -> None:
    assert make_host(entry({}, url)) is not None


@pytest.mark.parametrize("option", ["password", "passwd1", "PWD", "scram_client_key"])
def test_a_password_among_the_options_of_a_url_is_refused(option: str) -> None:
    for value in (SECRET, ""):
        with refused(ErrorId.URL_HOLDS_PASSWORD) as caught:
            entry({}, f"postgresql://u@db1/d?sslmode=require&{option}={value}")
        assert SECRET not in str(caught.value) + caught.value.hint
