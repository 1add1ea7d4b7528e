"""What a bundle must not hold: secrets, and on request names of hosts and addresses."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dbcheck.base.error_ids import ErrorId
from dbcheck.base.errors import UsageError
from dbcheck.evidence.scrub import REMOVED, Scrub, list_hosts
from dbcheck.evidence.verify import verify
from dbcheck.judge.result import Checked
from dbcheck.model.cluster import ONLY_NODE
from dbcheck.model.host import LogTail
from dbcheck.model.pods import PodsAfter, compare_pods
from dbcheck.model.records import AfterRecord, LoadRecord, Manifest, NodeBefore
from dbcheck.runs.folder import RunFolder
from dbcheck.witness.log import FrameLogReader
from tests.kit.bundles import SECRET, bundle_of, contents, stored_copy
from tests.kit.pods import OTHER_UID, POD
from tests.kit.refusals import refused
from tests.kit.stored_run import load_record, makers, manifest, stored_run

HOST, SHORT, WITNESS = "db1.corp.example", "db1", "logs.corp.example"
USER = "jane.doe"
ADDRESSES = ("10.20.30.40", "fd12:3456::9", "203.0.113.7")
# How a server's log, or an error of one, may show a secret; {} is where it stands.
FORMS = (
    "ALTER ROLE app PASSWORD '{}'",
    'STATEMENT: create user app with password "{}" login',
    "CREATE USER app IDENTIFIED BY '{}'",
    "CREATE USER app IDENTIFIED WITH caching_sha2_password BY '{}'",
    "connecting to postgresql://app:{}@db/shop",
    "primary_conninfo = 'host=db user=r password={} port=5432'",
    "env: DB_PASSWORD={}",
    "aws_secret_access_key={}",
    "token = {}",
    "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----",
)
# {} is where the secret stands; the rest may go as well, if nothing shows its end.
MORE_FORMS = (
    "ALTER USER app PASSWORD '{}'",
    "ALTER USER app PASSWORD E'{}\\'x'",
    "ALTER USER app PASSWORD $${}$$",
    "ALTER USER app PASSWORD $q${}$q$",
    "ALTER ROLE app WITH ENCRYPTED PASSWORD'app-{}'",
    "CREATE USER MAPPING FOR u SERVER s OPTIONS (user 'x', password '{}')",
    "SET PASSWORD FOR 'u'@'h' = '{}'",
    "SET PASSWORD FOR u = PASSWORD('{}')",
    'SET PASSWORD = PASSWORD("{}")',
    "CREATE USER u IDENTIFIED VIA mysql_native_password USING PASSWORD('{}')",
    "CREATE USER u IDENTIFIED BY PASSWORD '*{}'",
    "CREATE USER u IDENTIFIED WITH 'caching_sha2_password' BY '{}' REPLACE '{}'",
    "ALTER USER u IDENTIFIED BY 'x' REPLACE '{}'",
    "CHANGE MASTER TO MASTER_USER='r', MASTER_PASSWORD='{}'",
    "START REPLICA USER='r' PASSWORD='{}'",
    "host=h user=u password={} dbname=d",
    "host=h password = 'it\\'s {}' user=u",
    "host=h password=it\\'{} user=u",
    "host=h password=a,b;{}&c user=u",
    "host=h password='a b {}",
    "jdbc:mysql://h/d?user=x&password={}",
    "jdbc:postgresql://h/d;password=a,{};x=y",
    "Driver={x};Server=h;Uid=u;Pwd={a;{}};",
    "Driver={x};Server=h;UID=u;PWD={};",
    "mysql -u root --password={} -e 1",
    "mysql -u root --password {} -e 1",
    "mysql -uroot -p{} db",
    "mysqldump -h h -u root -p{}",
    'mysql --user=root "-p{}"',
    "PGPASSWORD={} psql",
    "export MYSQL_PWD='{}'",
    'PGPASSWORD="x {}"',
    "postgresql://u:{}@h/d",
    "postgresql://u:a/{}@h/d",
    "postgresql://u:a@{}@h/d",
    "POSTGRESQL://u:{}@h/d",
    "postgresql://:{}@h/d",
    "https://{}@github.com/x",
    "ProxyCommand sshpass -p {} ssh j",
    "ProxyCommand sshpass -p{} ssh j",
    "Authorization: Basic czNDcjN0{}==",
    "Authorization: Bearer {}.abc",
    '"Authorization": "Bearer {}"',
    "Proxy-Authorization: Basic {}",
    "X-Auth-Token: {}",
    "Cookie: session={}; a={}",
    "fence_apc_snmp --community={}",
    "fence_apc_snmp -c {} -a h",
    "snmpget -v2c -c {} h",
    "community={}",
    "snmp_community: {}",
    "--snmp-priv-passwd {} --snmp-auth-passwd={}",
    "fence_ipmilan -a h -l u -p {} -o off",
    "ipmitool -I lanplus -H h -U u -P {} power off",
    '{"password": "{}"}',
    '{"password":"a\\"{}"}',
    "{'password': '{}'}",
    "password: {}",
    'passwd: "{} x"',
    "dbcheck_power_password: {}",
    "Password:  {}",
    "pwd={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "aws_session_token: {}",
    '"SecretAccessKey": "{}"',
    "client_secret={}",
    "private_key: {}",
    "apikey={}",
    "api-key: {}",
    "access_token={}",
    "PuTTY-User-Key-File-3: x Private-Lines: 1 {}",
    "ldapbindpasswd={}",
    'ldapbindpasswd="x {}"',
    "DETAIL: parameters: $1 = '{}' password",
    "primary_conninfo = 'user=r password={} host=h'",
    "primary_conninfo = 'user=r password=''a {}'' host=h'",
    "--passphrase {}",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\n{}\n-----END PGP PRIVATE KEY BLOCK-----",
    "-----BEGIN RSA PRIVATE KEY-----\n{}",
)
HARMLESS = (
    "disconnect_on_expired_password = ON",
    "Access denied for user 'app'@'localhost' (using password: YES)",
    'connection authenticated: identity="u" method=password (/etc/pg_hba.conf:1)',
    "default_password_lifetime = 0",
    "ssh -p 2222 backup; cp -p a b; gcc -pthread",
    'FATAL:  password authentication failed for user "app"',
    "LOG:  database system was interrupted; last known up at 2026-01-01",
    "password_encryption is scram-sha-256",
    "ssh://root@127.0.0.1:22/tmp/w",
    "redo starts at 0/15D5DC8, 17:30:05.123",
    "PostgreSQL 15.18 (Debian 15.18-0+deb12u1), compiled by gcc 12.2.0",
    "the key of this run is not on this machine",
)


@pytest.mark.parametrize("form", MORE_FORMS)
def test_a_secret_is_removed_in_every_syntax(form: str) -> None:
    scrub = Scrub([], None)
    assert "s3Cr3t" not in scrub.text(f"before {form.replace('{}', 's3Cr3t')} after")
    assert scrub.removed >= 1


@pytest.mark.parametrize(
    "text",
    [
        *("a pass@word/1", "a pass%40word%2F1", "(a pass%40word/1)"),
        base64.b64encode(b"user:pass@word/1").decode(),
        base64.b64encode(b"u:pass@word/1:x").decode(),
        base64.b64encode(b"pass@word/1").decode(),
    ],
)
def test_a_secret_that_is_known_is_removed_in_every_form(text: str) -> None:
    shown = Scrub(["pass@word/1"], None).text(text)
    assert REMOVED in shown
    assert "word" not in shown
    assert len(shown) <= len(REMOVED) + 12


def test_a_value_is_a_secret_by_its_name() -> None:
    scrub = Scrub([], None)
    values = {"dbcheck_power_password": "s3Cr3t", "password_encryption": "md5"}
    assert scrub.record(values) == {**values, "dbcheck_power_password": REMOVED}
    assert scrub.record({"expired_password": "ON"}) == {"expired_password": "ON"}


@pytest.mark.parametrize(
    "text",
    [
        *("a" * 10**5, "a." * 10**5, "password " * 10**4, "password '" * 10**4),
        *("set password " * 10**4, f"password{' ' * 10**5}", "a://" * 10**4),
        *("a1" * 10**5, f"pg-2{'1' * 10**5}x", "0/" * 10**5, "00000000-" * 10**4),
    ],
)
def test_a_text_that_is_made_to_take_long_does_not(text: str) -> None:
    began = time.process_time()
    Scrub(["pass@word/1"], ["db1"], ["a1", "a-word.b", "pg-2"]).text(text)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("form", FORMS)
def test_what_looks_like_a_secret_is_removed(form: str) -> None:
    scrub = Scrub([], None)
    shown = scrub.text(f"before {form.format('p4ss-w0rd!x')} after")
    assert "p4ss" not in shown
    assert REMOVED in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert scrub.removed == 1
    assert scrub.text(shown) == shown  # twice is as good as once
    assert scrub.removed == 1


@pytest.mark.parametrize("text", HARMLESS)
def test_what_does_not_is_left_alone(text: str) -> None:
    scrub = Scrub(["abc"], None)  # too short to be told from other text
    assert scrub.text(text) == text
    assert scrub.removed == 0
    assert Scrub([], ["db9"]).text(text) == text


def test_a_known_secret_is_removed_wherever_it_stands() -> None:
    scrub = Scrub([SECRET], None)
    values = {f"a {SECRET}": [f"x{SECRET}y", {"n": (SECRET, 1)}]}
    assert scrub.changes(values)
    assert scrub.removed == 0
    shown = scrub.record(values)
    assert SECRET not in json.dumps(shown)
    assert scrub.removed == 3


def test_a_name_and_an_address_get_one_other_everywhere() -> None:
    scrub = Scrub([], [HOST, SHORT])
    texts = [
        f"postgresql://u@{HOST}:5432/d",
        f"{SHORT}: up; {HOST.upper()} is {ADDRESSES[0]}",
        f"{ADDRESSES[0]} {ADDRESSES[1]} {ADDRESSES[2]} [fd12:3456:0::9]",
        f"{SHORT}a my-{SHORT} {SHORT}-2 127.0.0.1 ::1 0.0.0.0",
    ]
    first, second, third, fourth = map(scrub.text, texts)
    name = first.removeprefix("postgresql://u@").partition(":")[0]
    assert name == "host-1"
    assert second.startswith("host-2: up; host-1 is 192.0.2.1")
    assert third.split()[0] == second.split()[-1]
    assert third.split()[1].startswith("2001:db8::")
    assert third.split()[3] == f"[{third.split()[1]}]"  # spelled otherwise, the same
    assert len(set(third.split()[:3])) == 3
    assert fourth == texts[3]


def full_run(parent: Path) -> RunFolder:
    """Return a run whose records name hosts, and which a server told a secret."""
    run = RunFolder.create(parent, of_a_host(manifest()))
    stored_run(run)
    run.write_load(of_a_load(load_record()))
    run.write_after(of_a_log(run.after()))
    run.write_lines(
        "server.log", [f"{HOST} {ADDRESSES[0]}: {FORMS[0]}\n".format(SECRET)]
    )
    return run


def of_a_host(found: Manifest) -> Manifest:
    node = found.writer
    assert node.host is not None
    facts = replace(
        node.host.facts, hostname=HOST, addresses=frozenset({*ADDRESSES, "127.0.0.1"})
    )
    node = replace(
        node,
        target=f"postgresql://u@{HOST}:5432/d",
        host=replace(node.host, facts=facts),
    )
    return replace(
        found,
        nodes={ONLY_NODE: node},
        witness=f"ssh://w@{WITNESS}:22/~/acks",
        user=USER,
    )


def of_a_load(found: LoadRecord) -> LoadRecord:
    return replace(
        found,
        refusals=(f"{ADDRESSES[1]}: {FORMS[2]}".format(SECRET),),
        farewells=(f"{SHORT} says goodbye to {ADDRESSES[0]}",),
    )


def of_a_log(found: AfterRecord) -> AfterRecord:
    node = found.nodes[ONLY_NODE]
    assert node.host is not None
    assert node.host.log is not None
    text = f"{node.host.log.text}{HOST}: {FORMS[1]}\n".format(SECRET)
    log = LogTail(text, False, False)
    facts = node.host.facts
    assert facts is not None
    facts = replace(facts, hostname=HOST, addresses=frozenset(ADDRESSES))
    host = replace(node.host, log=log, facts=facts)
    return replace(found, nodes={ONLY_NODE: replace(node, host=host)})


def texts(file: Path) -> Iterator[tuple[str, str]]:
    for name, content in contents(file):
        yield name, content.decode("latin-1")


def test_no_secret_is_in_a_bundle(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    (run.path / "client.key").write_text(SECRET)
    planted = [path.name for path in run.path.iterdir() if _holds(path, SECRET)]
    assert sorted(planted) == ["after.json", "client.key", "load.json", "server.log"]
    index = bundle_of(run.path, tmp_path / "b.tar")
    assert index.removed >= 3
    found = list(texts(tmp_path / "b.tar"))
    assert any(REMOVED in text for name, text in found if name.endswith("server.log"))
    assert [name for name, text in found if SECRET in text] == []
    assert any(HOST in text for _, text in found)  # names stay unless asked
    assert verify(tmp_path / "b.tar", FrameLogReader()).same


def _holds(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()


def test_a_redacted_bundle_names_no_host_and_no_address(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    index = bundle_of(run.path, tmp_path / "b.tar", redact=True)
    assert index.redacted
    for name, text in texts(tmp_path / "b.tar"):
        for one in (HOST, WITNESS, "corp.example", *ADDRESSES, SECRET, USER):
            assert one not in text, f"{one} is in {name}"
        if name.endswith("manifest.json"):
            shown = json.loads(text)
    node = shown["nodes"][ONLY_NODE]
    assert (
        node["target"] == f"postgresql://u@{node['host']['facts']['hostname']}:5432/d"
    )
    assert shown["witness"].startswith("ssh://w@host-")
    assert shown["witness"].endswith(":22/~/acks")
    assert shown["user"] == "user-1"
    assert "127.0.0.1" in node["host"]["facts"]["addresses"]
    assert len(node["host"]["facts"]["addresses"]) == 4
    found = verify(tmp_path / "b.tar", FrameLogReader())
    assert found.same
    assert found.redacted
    assert index.verdict is found.verdict


def test_a_name_in_the_log_of_the_witness_cannot_be_replaced(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    for number, maker in enumerate(makers()):
        maker.add_event({"event": "cut", "said": f"{HOST} is off"})
        run.write_acks(number, [maker.data()])
    load = run.load()
    assert load is not None
    marks = []
    for maker in makers():
        maker.add_event({"event": "cut", "said": f"{HOST} is off"})
        marks.append(maker.watermark())
    run.write_load(replace(load, watermarks=tuple(marks)))
    bundle_of(run.path, tmp_path / "b.tar")
    with refused(ErrorId.REDACTION_NOT_POSSIBLE, UsageError, naming="chain of digests"):
        bundle_of(run.path, tmp_path / "c.tar", redact=True)
    assert not (tmp_path / "c.tar").exists()


@pytest.mark.parametrize(
    "text",
    [
        *("DB1.CORP.EXAMPLE:5432", "db1.elsewhere.example", "web7.corp.example"),
        *("mysql -hdb1 -u x", "mysql -h10.1.2.3 -u x", "10.1.2.3_1", "10.1.2.3:22."),
        *("host=app9 port=1", "user 'u'@'app9.x'", "ssh://j@jump.example:22/"),
        *("ssh -J me@bastion:22 x", "ProxyJump bastion", "fe80::1:2%eth0"),
        *("::ffff:10.1.2.3", "[2001:DB9::5]:5432", "XN--BCHER-KVA.example"),
    ],
)
def test_a_host_is_renamed_in_every_form(text: str) -> None:
    found = replace(
        manifest(),
        nodes={ONLY_NODE: of_target("bücher.example")},
        witness="ssh://ww/~/x",
    )
    names = {"db1.corp.example", "db1", *list_hosts(found)}
    shown = Scrub([], names).text(text)
    for name in ("db1", "corp", "app9", "jump.", "bastion", "web7", "bcher", "10.1.2"):
        assert name not in shown.lower()
    assert "fe80" not in shown
    assert "db9" not in shown.lower()


def of_target(host: str) -> NodeBefore:
    return replace(manifest().writer, target=f"postgresql://u@{host}/d")


@pytest.mark.parametrize("name", ["server", "on", "C", "a", "42", "sda", "u", "data"])
def test_a_host_with_the_name_of_something_else_is_refused(name: str) -> None:
    found = replace(manifest(), nodes={ONLY_NODE: of_target(name)})
    with refused(
        ErrorId.REDACTION_NOT_POSSIBLE, UsageError, naming="in other meanings"
    ):
        list_hosts(found)


def test_a_short_common_name_leaves_longer_words_alone() -> None:
    text = "dbcheck db10 my-db a_db /db-2/ 15.1 host-7 root@localhost"
    assert Scrub([], ["db"]).text(text) == text
    assert Scrub([], ["db"]).text("DB: at db.") == "host-1: at host-1."


def test_rows_that_differ_and_counts_of_drives_are_scrubbed(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    row = {"row_id": 1, "payload": f"password={SECRET} on {HOST}"}
    run.write_different("ledger", [json.dumps(row) + "\n"])
    head = "at_s,node,drive,seconds,writes,flushes\n"
    run.write_lines("drives.csv", [head, f"1,server,{HOST}-sda {HOST},1,1,1\n"])
    bundle_of(run.path, tmp_path / "b.tar", redact=True)
    shown = dict(texts(tmp_path / "b.tar"))
    found = [text for name, text in shown.items() if "different-" in name]
    assert [json.loads(text)["row_id"] for text in found] == [1]
    for text in shown.values():
        assert SECRET not in text
        assert f" {HOST}" not in text


def test_a_host_named_as_one_of_dbcheck_s_words_is_refused(tmp_path: Path) -> None:
    found = manifest()
    node = replace(found.writer, target="postgresql://u@ledger/d")
    run = RunFolder.create(tmp_path, replace(found, nodes={ONLY_NODE: node}))
    stored_run(run)
    bundle_of(run.path, tmp_path / "b.tar")
    with refused(
        ErrorId.REDACTION_NOT_POSSIBLE, UsageError, naming="in other meanings"
    ):
        bundle_of(run.path, tmp_path / "c.tar", redact=True)


def test_evidence_that_would_be_judged_otherwise_makes_no_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrub that changes a setting is noticed."""
    run = RunFolder.open(stored_copy("postgresql-pass", tmp_path))
    scrubbed = Scrub.text

    def greedy(self: Scrub, text: str) -> str:
        return "off" if text == "on" else scrubbed(self, text)

    monkeypatch.setattr(Scrub, "text", greedy)
    with refused(ErrorId.REDACTION_NOT_POSSIBLE, UsageError, naming="not judged as"):
        bundle_of(run.path, tmp_path / "b.tar")


def test_the_account_that_ran_dbcheck_may_have_the_name_of_a_host() -> None:
    named = replace(of_a_host(manifest()), user=HOST)
    scrub = Scrub([], list_hosts(named))
    assert scrub.record(named).user == "user-1"
    assert scrub.record(Checked(host=HOST, user="b")).user == "user-2"
    host = scrub.record(named).writer.host
    assert host is not None
    assert host.facts.hostname == "host-1"
    assert scrub.record(scrub.record(named)).user == "user-1"
    assert Scrub([], None).record(named).user == HOST


def test_a_verdict_is_the_same_with_other_names(tmp_path: Path) -> None:
    run = full_run(tmp_path)
    plain, redacted = (
        bundle_of(run.path, tmp_path / "b.tar", redact=redact).verdict
        for redact in (False, True)
    )
    assert plain is redacted


POD_AFTER = replace(POD, uid=OTHER_UID, name="orders-7f", node="node-b")
OF_PODS = (POD.namespace, POD.name, POD.node, "data-orders-1", "pvc-0a", "vol-0a")


def of_a_pod(run: RunFolder) -> RunFolder:
    """Return the run as one of a server in a pod, which a message names."""
    found, after = run.manifest(), run.after()
    node, then = found.writer, after.nodes[ONLY_NODE]
    assert node.host is not None
    told = replace(node.facts, unreadable={"x": "pods prod/orders-1 has data-orders-1"})
    path = "/var/lib/kubelet/pods/5f1c/volumes/kubernetes.io~csi/pvc-0a/mount"
    facts = replace(node.host.facts, data_directory=path)
    host = replace(node.host, facts=facts)
    before = replace(found, nodes={ONLY_NODE: replace(node, pod=POD, facts=told)})
    before = replace(before, nodes={ONLY_NODE: replace(before.writer, host=host)})
    again = replace(then, pods=PodsAfter((POD_AFTER,)))
    copy = RunFolder.create(run.path.parent / "pods", before)
    stored_run(copy)
    copy.write_after(replace(after, nodes={ONLY_NODE: again}))
    return copy


def test_the_names_of_pods_are_replaced_everywhere(tmp_path: Path) -> None:
    run = of_a_pod(full_run(tmp_path))
    bundle_of(run.path, tmp_path / "b.tar", redact=True)
    shown = dict(texts(tmp_path / "b.tar"))
    for name, text in shown.items():
        if name.endswith((".json", ".html")):
            for word in (*OF_PODS[1:], "prod/", "orders-7f", "node-b"):
                assert word not in text, (name, word)
    assert any(
        "pod namespace-1/pod-2 has the server now, on node host-" in t
        for t in shown.values()
    )


def test_what_is_equal_in_two_pods_stays_equal() -> None:
    scrub = Scrub([], [])
    first, second = scrub.record([POD, POD_AFTER])
    assert (first.named, second.named) == (
        "pod namespace-1/pod-1",
        "pod namespace-1/pod-2",
    )
    assert (first.uid, first.machine_id) == (POD.uid, POD.machine_id)
    assert first.node != second.node
    assert first.volumes == second.volumes
    data = first.volumes[0]
    assert data.volume is not None
    assert (data.claim, data.volume.handle) == ("claim-1", "handle-1")
    assert data.storage_class == POD.volumes[0].storage_class
    assert compare_pods(first, replace(second, node=first.node)) == compare_pods(
        POD, replace(POD_AFTER, node=POD.node)
    )
    bare = replace(first, addresses=())  # an address is one like any other
    assert scrub.record(bare) == bare  # twice is as good as once


def test_names_of_pods_are_found_in_texts() -> None:
    scrub = Scrub([], [])
    scrub.record(POD)
    text = "GET /api/v1/namespaces/prod/pods: prod/orders-1 (data-orders-1) in prod"
    shown = scrub.text(text)
    assert shown.startswith(
        "GET /api/v1/namespaces/namespace-1/pods: namespace-1/pod-1"
    )
    assert shown.endswith("(claim-1) in prod")  # a word that may mean something else
    assert scrub.text("orders-12 my-orders-1") == "orders-12 my-orders-1"
    assert Scrub([], None).record(POD) == POD


@pytest.mark.parametrize(
    "text",
    [
        'pods is forbidden: User "system:serviceaccount:prod:orders-app" cannot list'
        ' resource "pods" in API group "" in the namespace "prod"',
        'nodes "n" is forbidden: User "jane" cannot get resource "nodes"',
        "no pod in the namespace prod for the selector x: there is none",
        "does not give pods in the namespace prod: Unauthorized",
        "/var/log/pods/prod_orders-1_5f1c/0.log",
        "/var/log/containers/orders-1_prod_postgres-c0.log",
        "could not translate host name: orders-rw.prod.svc",
        "certificate is not valid for 'api.corp.example'. (_ssl.c:1006)",
        "Failed to resolve 'api.corp.example' ([Errno -2])",
        "hostname 'api.corp.example' doesn't match",
    ],
)
def test_what_kubernetes_answers_names_nobody(text: str) -> None:
    scrub = Scrub([], ["node-a"])
    scrub.record(POD)
    shown = scrub.text(text)
    for name in ("prod", "jane", "orders-1", "orders-app", "corp"):
        assert not re.search(rf"(?<![a-z]){name}(?![a-z])", shown), shown
    assert scrub.text(shown) == shown


def test_a_service_is_a_host_like_any_other() -> None:
    scrub = Scrub([], ["orders.prod.svc"])
    scrub.record(POD)
    assert re.fullmatch(r"to host-\d now", scrub.text("to orders.prod.svc now"))
