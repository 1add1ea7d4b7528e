from __future__ import annotations

import base64
import errno
import json
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dbcheck.agent import wire
from dbcheck.agent import witness as agent
from dbcheck.agent import witness_folders as folders
from dbcheck.rows.acks import Ack, pack
from tests.kit.files import AS_ROOT, let_write
from tests.kit.witness_logs import RUN, entries

TOKEN = agent.make_token(RUN, 0)


def body_of(seq: int) -> bytes:
    return pack([Ack(1, seq, seq, seq)])[0]


class Replies:
    """An agent in this process, and what it answered."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.manifest = b"{}"
        self.got: list[tuple[int, bytes]] = []
        self.tokens: list[int] = []  # of what was answered
        self.agent = agent.Agent(self._take)

    def _take(self, kind: int, payload: bytes, token: int) -> None:
        self.got.append((kind, payload))
        self.tokens.append(token)

    def ask(self, verb: int, **question: object) -> list[tuple[int, bytes]]:
        payload = json.dumps({"folder": self.folder, **question}).encode()
        return self.send((verb, 0, 0, payload))

    def send(self, *messages: tuple[int, int, int, bytes]) -> list[tuple[int, bytes]]:
        self.got.clear()
        self.tokens.clear()
        self.agent.handle(list(messages))
        return list(self.got)

    def create(self, run_id: str = RUN) -> list[tuple[int, bytes]]:
        manifest = base64.b64encode(self.manifest).decode()
        return self.ask(agent.CREATE, run=run_id, manifest=manifest, volatile=True)

    def append(self, *seqs: int, token: int = TOKEN) -> list[tuple[int, bytes]]:
        return self.send(*((agent.APPEND, token, 1, body_of(seq)) for seq in seqs))

    def log(self) -> list[Ack | str]:
        path = Path(self.folder, RUN, agent.log_name(0))
        return entries(path.read_bytes())[0]


@pytest.fixture
def replies(tmp_path: Path) -> Any:
    """Give an agent that is closed in the end."""
    made = Replies(tmp_path / "witness")
    yield made
    made.agent.close()


def code_of(got: list[tuple[int, bytes]]) -> str:
    assert [kind for kind, _ in got] == [wire.ERROR]
    return str(json.loads(got[0][1])["code"])


def test_batches_that_arrive_together_share_one_write_and_one_sync(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> None:
        def call(*given: Any) -> Any:
            calls.append(name)
            return real(*given)

        monkeypatch.setattr(os, name, call)

    replies.create()
    answer = replies.agent._send

    def send(kind: int, payload: bytes, token: int) -> None:
        calls.append("confirm")
        answer(kind, payload, token)

    replies.agent._send = send
    counted("write", os.write)
    counted("fdatasync", os.fdatasync)
    got = replies.append(1, 2, 3)
    assert calls == ["write", "fdatasync", "confirm"]
    assert [kind for kind, _ in got] == [wire.MARK]
    frames, acks, events, digest, _ = agent.MARKED.unpack(got[0][1])
    assert (frames, acks, events) == (4, 3, 0)
    scan = entries(Path(replies.folder, RUN, agent.log_name(0)).read_bytes())[1]
    assert scan.watermark.digest == digest.hex()


def test_creation_syncs_the_files_and_both_folders(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    replies.create()
    folder = Path(replies.folder)
    wanted = [folder.parent, folder / RUN / "manifest.json", folder / RUN, folder]
    assert synced == [str(path) for path in wanted]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / RUN).stat().st_mode & 0o777 == 0o700


def fail(_: int) -> NoReturn:
    raise OSError(errno.EIO, "Input/output error")


def test_after_a_failed_sync_nothing_is_confirmed_again(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies.create()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        assert code_of(replies.append(1)) == "EIO"
    [(kind, payload)] = replies.append(2)
    assert kind == wire.ERROR and b"an earlier write failed" in payload
    assert replies.log() == [Ack(1, 1, 1, 1)]  # there, perhaps, and never claimed


def test_a_short_write_is_completed(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies.create()
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:10]))
    replies.append(1, 2)
    assert replies.log() == [Ack(1, 1, 1, 1), Ack(1, 2, 2, 2)]


def test_a_batch_for_another_run_is_refused_for_good(replies: Replies) -> None:
    replies.create()
    assert code_of(replies.append(1, token=TOKEN + 1)) == "log"
    assert code_of(replies.append(1)) == "log"
    assert replies.log() == []


@pytest.mark.parametrize("body", [b"", bytes(agent.BODY_BYTES_MAX + 1)])
def test_a_batch_of_a_wrong_length_is_refused(replies: Replies, body: bytes) -> None:
    replies.create()
    assert code_of(replies.send((agent.APPEND, TOKEN, 1, body))) == "log"


def test_a_log_that_someone_else_wrote_to_is_given_up(replies: Replies) -> None:
    replies.create()
    with open(Path(replies.folder, RUN, agent.log_name(0)), "ab") as file:
        file.write(b"x")
    assert code_of(replies.append(1)) == "log"


def test_a_log_that_was_deleted_is_given_up(replies: Replies) -> None:
    replies.create()
    Path(replies.folder, RUN, agent.log_name(0)).unlink()
    assert code_of(replies.append(1)) == "log"


def test_a_run_is_created_once(replies: Replies, tmp_path: Path) -> None:
    replies.create()
    other = Replies(tmp_path / "witness")
    assert code_of(other.create()) == "exists"
    assert [kind for kind, _ in replies.append(1)] == [wire.MARK]


def test_a_failed_creation_leaves_nothing(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fdatasync", fail)
    assert code_of(replies.create()) == "EIO"
    assert list(Path(replies.folder).iterdir()) == []


@pytest.mark.parametrize("kind", ["tmpfs", "mfs", ""])
def test_memory_or_an_unknown_filesystem_is_refused_unless_allowed(
    replies: Replies, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(agent, "find_mount", lambda _: {"type": kind})
    question: dict[str, object] = {"run": RUN, "manifest": "", "volatile": False}
    assert code_of(replies.ask(agent.CREATE, **question)) == "volatile"
    question["volatile"] = True
    assert [kind for kind, _ in replies.ask(agent.CREATE, **question)] == [wire.MARK]


@pytest.mark.parametrize("run_id", ["", ".", "..", "../x", "a/b", "a" * 101, "a\n"])
def test_a_run_id_cannot_lead_elsewhere(replies: Replies, run_id: str) -> None:
    assert code_of(replies.create(run_id)) == "run-id"
    assert code_of(replies.ask(agent.REMOVE, run=run_id)) == "run-id"
    assert code_of(replies.ask(agent.READ, run=run_id, log=0)) == "run-id"


def test_a_run_in_use_is_not_removed(replies: Replies, tmp_path: Path) -> None:
    replies.create()
    other = Replies(tmp_path / "witness")
    assert code_of(other.ask(agent.REMOVE, run=RUN)) == "in-use"
    replies.agent.close()
    assert other.ask(agent.REMOVE, run=RUN)[0][0] == wire.RESULT
    assert code_of(other.ask(agent.REMOVE, run=RUN)) == "no-run"


def test_a_run_whose_rows_were_read_is_told_from_the_others(replies: Replies) -> None:
    for run_id in ("read", "unread"):
        replies.create(run_id)
        replies.agent.close()
    for _ in range(2):  # another client may read them as well
        assert replies.ask(agent.JUDGED, run="read")[0][0] == wire.RESULT
    assert json.loads(replies.ask(agent.RUNS, unjudged=True)[0][1]) == ["unread"]
    assert set(json.loads(replies.ask(agent.RUNS)[0][1])) == {"read", "unread"}
    assert code_of(replies.ask(agent.JUDGED, run="nowhere")) == "no-run"
    assert replies.ask(agent.REMOVE, run="read")[0][0] == wire.RESULT


def test_one_channel_at_a_time_locks_a_folder(tmp_path: Path) -> None:
    """Its lock lasts until it ends, and keeps no other from creating a log there."""
    first, second = Replies(tmp_path), Replies(tmp_path)
    locked, refused = [(wire.RESULT, b"true")], [(wire.RESULT, b"false")]
    assert first.ask(agent.LOCK) == locked
    assert first.ask(agent.LOCK) == locked
    assert second.ask(agent.LOCK) == refused
    second.create()
    first.agent.close()
    assert second.ask(agent.LOCK) == locked
    assert not set(os.listdir(tmp_path)) - {RUN}


def test_a_folder_with_strange_files_is_not_removed(
    replies: Replies, tmp_path: Path
) -> None:
    replies.create()
    Path(replies.folder, RUN, "thesis.txt").touch()
    other = Replies(tmp_path / "witness")
    assert code_of(other.ask(agent.REMOVE, run=RUN)) == "strangers"


def test_a_run_is_joined_once_for_each_log_announced(tmp_path: Path) -> None:
    agents = [Replies(tmp_path) for _ in range(4)]
    first, second, third, again = agents
    first.manifest = b'{"logs": 3}'
    first.create()
    for number, joined in enumerate((second, third), start=1):
        got = joined.ask(agent.JOIN, run=RUN, log=number)
        assert [kind for kind, _ in got] == [wire.MARK]
        assert code_of(again.ask(agent.JOIN, run=RUN, log=number)) == "in-use"
        assert Path(tmp_path, RUN, f"acks-{number}.log").is_file()
    assert code_of(again.append(1, token=agent.make_token(RUN, 1))) == "log"
    second.append(1, token=agent.make_token(RUN, 1))
    assert code_of(again.ask(agent.REMOVE, run=RUN)) == "in-use"
    for other in agents:
        other.agent.close()
    assert code_of(again.ask(agent.JOIN, run=RUN, log=1)) == "exists"
    assert again.ask(agent.REMOVE, run=RUN)[0][0] == wire.RESULT


def test_a_join_that_failed_can_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = Replies(tmp_path), Replies(tmp_path)
    first.manifest = b'{"logs": 2}'
    first.create()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        assert code_of(second.ask(agent.JOIN, run=RUN, log=1)) == "EIO"
    assert not Path(tmp_path, RUN, "acks-1.log").exists()
    assert [kind for kind, _ in second.ask(agent.JOIN, run=RUN, log=1)] == [wire.MARK]
    for each in (first, second):
        each.agent.close()


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_a_log_that_was_not_announced_is_refused(
    replies: Replies, tmp_path: Path, number: int
) -> None:
    replies.manifest = b'{"logs": 2}'
    replies.create()
    other = Replies(tmp_path / "witness")
    assert code_of(other.ask(agent.JOIN, run=RUN, log=number)) == "no-log"
    assert code_of(other.ask(agent.JOIN, run="another", log=1)) == "no-run"


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b'{"logs": "2"}'])
def test_a_run_of_a_strange_manifest_has_one_log(
    replies: Replies, tmp_path: Path, manifest: bytes
) -> None:
    replies.manifest = manifest
    replies.create()
    other = Replies(tmp_path / "witness")
    assert code_of(other.ask(agent.JOIN, run=RUN, log=1)) == "no-log"


def test_a_batch_for_another_log_of_the_run_is_refused(
    replies: Replies, tmp_path: Path
) -> None:
    replies.create()
    assert code_of(replies.append(1, token=agent.make_token(RUN, 1))) == "log"


ONE, TWO = (agent.make_token(RUN, number) for number in (1, 2))
TWO_LOGS = [(agent.APPEND, ONE, 1, body_of(1)), (agent.APPEND, TWO, 1, body_of(2))]


@pytest.fixture
def joined(replies: Replies, tmp_path: Path) -> Replies:
    """An agent that has logs 1 and 2 open on one channel."""
    replies.manifest = b'{"logs": 3}'
    replies.create()
    replies.agent.close()
    for number, token in (1, ONE), (2, TWO):
        question = {"folder": replies.folder, "run": RUN, "log": number}
        replies.send((agent.JOIN, token, 0, json.dumps(question).encode()))
        assert replies.tokens == [token]
    return replies


def acks_of(replies: Replies, number: int) -> list[Ack | str]:
    path = Path(replies.folder, RUN, agent.log_name(number))
    return entries(path.read_bytes(), number=number)[0]


def test_each_log_of_a_channel_is_confirmed_under_its_token(joined: Replies) -> None:
    got = joined.send(*TWO_LOGS, (agent.APPEND, ONE, 1, body_of(3)))
    assert dict(zip(joined.tokens, got, strict=True)).keys() == {ONE, TWO}
    marks = {
        token: agent.MARKED.unpack(payload)[1]
        for token, (_, payload) in zip(joined.tokens, got, strict=True)
    }
    assert marks == {ONE: 2, TWO: 1}
    assert acks_of(joined, 1) == [Ack(1, 1, 1, 1), Ack(1, 3, 3, 3)]
    assert acks_of(joined, 2) == [Ack(1, 2, 2, 2)]
    question = {"folder": joined.folder, "run": RUN, "log": 1}
    again = joined.send((agent.JOIN, ONE, 0, json.dumps(question).encode()))
    assert code_of(again) == "log"


def test_a_log_that_is_left_is_durable_first_and_then_free(joined: Replies) -> None:
    got = joined.send(TWO_LOGS[0], (agent.LEAVE, ONE, 0, b"null"), TWO_LOGS[1])
    assert [kind for kind, _ in got] == [wire.MARK, wire.RESULT, wire.MARK]
    assert joined.tokens == [ONE, ONE, TWO]
    assert acks_of(joined, 1) == [Ack(1, 1, 1, 1)]
    agent.refuse_if_open(str(Path(joined.folder, RUN)), agent.log_name(1))
    assert code_of(joined.ask(agent.REMOVE, run=RUN)) == "in-use"  # log 2
    assert joined.send((agent.LEAVE, ONE, 0, b"null")) == [(wire.RESULT, b"null")]


def test_a_log_that_cannot_be_synced_is_not_confirmed(
    joined: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.fdatasync

    def fail_for_two(fd: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").endswith("acks-2.log"):
            fail(fd)
        real(fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail_for_two)
        mark, error = joined.send(*TWO_LOGS)
        assert mark[0] == wire.MARK
        assert joined.tokens[0] == ONE
        assert code_of([error]) == "EIO"
        assert "acks-2.log" in json.loads(error[1])["message"]
    assert code_of(joined.send(TWO_LOGS[1])) == "log"


def test_all_logs_are_written_before_the_first_is_synced(
    joined: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[list[int]] = []
    folder, real = Path(joined.folder, RUN), os.fdatasync

    def note_sizes(fd: int) -> None:
        sizes.append([(folder / f"acks-{n}.log").stat().st_size for n in (1, 2)])
        real(fd)

    before = [(folder / f"acks-{n}.log").stat().st_size for n in (1, 2)]
    monkeypatch.setattr(os, "fdatasync", note_sizes)
    joined.send(*TWO_LOGS)
    assert len(sizes) == 2
    assert sizes[0] == sizes[1]
    assert all(size > old for size, old in zip(sizes[0], before, strict=True))


def test_after_a_batch_for_no_open_log_none_is_confirmed(joined: Replies) -> None:
    assert code_of(joined.append(1)) == "log"  # log 0 is not open here
    for message in TWO_LOGS:
        assert code_of(joined.send(message)) == "log"


def test_runs_are_listed_oldest_first(replies: Replies) -> None:
    assert replies.ask(agent.RUNS) == [(wire.RESULT, b"[]")]
    for number, run_id in enumerate(("zebra", "ant", "bee")):
        replies.create(run_id)
        replies.agent.close()
        stamp = 10**9 + number
        os.utime(Path(replies.folder, run_id, agent.MANIFEST_NAME), (stamp, stamp))
    Path(replies.folder, "stray").mkdir()
    Path(replies.folder, "file").touch()
    assert json.loads(replies.ask(agent.RUNS)[0][1]) == ["zebra", "ant", "bee"]


def test_a_run_that_is_removed_meanwhile_does_not_spoil_the_list(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run_id in ("gone", "here"):
        replies.create(run_id)
        replies.agent.close()
    read = agent.count_announced_logs

    def logs_announced(path: str) -> int:
        if "gone" in path:
            Path(path, agent.MANIFEST_NAME).unlink()
        return read(path)

    monkeypatch.setattr(agent, "count_announced_logs", logs_announced)
    assert replies.ask(agent.RUNS) == [(wire.RESULT, b'["here"]')]


def test_a_run_is_listed_once_all_of_its_logs_are_there(tmp_path: Path) -> None:
    first, second = Replies(tmp_path), Replies(tmp_path)
    first.manifest = b'{"logs": 2}'
    first.create()
    assert first.ask(agent.RUNS) == [(wire.RESULT, b"[]")]
    second.ask(agent.JOIN, run=RUN, log=1)
    assert json.loads(first.ask(agent.RUNS)[0][1]) == [RUN]
    for each in (first, second):
        each.agent.close()


def test_appending_without_a_log_is_refused(replies: Replies) -> None:
    assert code_of(replies.append(1)) == "log"


def test_an_unknown_verb_is_refused(replies: Replies) -> None:
    assert code_of(replies.send((99, 0, 0, b"{}"))) == "protocol"


def test_facts_leave_nothing_behind(replies: Replies) -> None:
    [(kind, payload)] = replies.ask(agent.FACTS)
    facts = json.loads(payload)
    assert kind == wire.RESULT
    assert facts["free_bytes"] > 0 and facts["filesystem"] and facts["boot_id"]
    folder = Path(replies.folder)
    assert not folder.exists() and list(folder.parent.iterdir()) == []
    folder.mkdir(mode=0o700)
    assert replies.ask(agent.FACTS)[0][0] == wire.RESULT
    assert list(folder.iterdir()) == []


def of_another_user(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root, to give a folder away")
    folder.mkdir()
    os.chown(folder, 12345, 12345)


def test_under_sudo_a_folder_of_the_caller_is_used(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_another_user(Path(replies.folder))
    monkeypatch.setenv("SUDO_UID", "12345")
    assert [kind for kind, _ in replies.create()] == [wire.MARK]


def open_to_others(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o1777)


def a_link(folder: Path) -> None:
    """One of another user's, to a folder that is this user's."""
    own_link(folder)
    if os.geteuid():
        pytest.skip("needs root, to give a link away")
    os.lchown(folder, 12345, 12345)


def own_link(folder: Path) -> None:
    folder.with_name("elsewhere").mkdir(mode=0o700)
    folder.symlink_to("elsewhere")


def open_to_own_group(folder: Path) -> None:
    """As mkdir(1) makes it where each user has a group of their own."""
    folder.mkdir()
    folder.chmod(0o775)


@pytest.mark.parametrize("plant", [own_link, open_to_own_group])
def test_a_folder_that_is_the_users_own_is_used(
    replies: Replies, plant: Callable[[Path], None]
) -> None:
    plant(Path(replies.folder))
    assert [kind for kind, _ in replies.create()] == [wire.MARK]
    assert [kind for kind, _ in replies.ask(agent.REMOVE, run=RUN)] == [wire.ERROR]
    assert code_of(replies.ask(agent.REMOVE, run=RUN)) == "in-use"


def open_to_a_shared_group(folder: Path) -> None:
    if os.geteuid():
        pytest.skip("needs root, to give a folder to another group")
    open_to_own_group(folder)
    os.chown(folder, -1, 12345)


def test_a_group_that_another_user_is_in_by_its_entry_is_shared(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `users` is, where it is everybody's group (passwd(5))."""
    open_to_own_group(Path(replies.folder))
    ours = pwd.getpwuid(os.geteuid())
    other = pwd.struct_passwd(("other", "x", 12345, *ours[3:]))
    monkeypatch.setattr(pwd, "getpwall", lambda: [ours, other])
    assert code_of(replies.create()) == "not-own"


@pytest.mark.parametrize(
    "plant", [of_another_user, open_to_others, open_to_a_shared_group, a_link]
)
def test_a_folder_that_somebody_else_may_have_made_is_refused(
    replies: Replies, plant: Callable[[Path], None]
) -> None:
    """As /var/tmp/dbcheck may be before its user ever wrote there."""
    plant(Path(replies.folder))
    before = sorted(Path(replies.folder).parent.rglob("*"))
    for got in (
        replies.ask(agent.FACTS),
        replies.ask(agent.PROBE, count=1, volatile=True),
        replies.create(),
    ):
        assert code_of(got) == "not-own"
    assert sorted(Path(replies.folder).parent.rglob("*")) == before


def below_another_users(folder: Path) -> None:
    above = folder.with_name("above")
    of_another_user(above)
    (above / folder.name).mkdir(mode=0o700)
    folder.symlink_to(above / folder.name)


def below_everybodys(folder: Path) -> None:
    above = folder.with_name("above")
    above.mkdir()
    above.chmod(0o777)
    folder.symlink_to(above / folder.name)


def below_one_that_a_list_names(folder: Path) -> None:
    """Root's own folder, as it seems by its group."""
    below_everybodys(folder)
    folder.with_name("above").chmod(0o755)
    let_write(folder.with_name("above"), 12345)


def by_a_link_of_another_users(folder: Path) -> None:
    """Root's own link leads to it."""
    between, above = folder.with_name("between"), folder.with_name("above")
    above.mkdir()
    between.symlink_to(above)
    os.lchown(between, 12345, 12345)
    folder.symlink_to(between / folder.name)


@AS_ROOT
@pytest.mark.parametrize(
    "plant",
    [
        below_another_users,
        below_everybodys,
        below_one_that_a_list_names,
        by_a_link_of_another_users,
    ],
)
def test_root_writes_in_no_folder_that_others_can_exchange(
    replies: Replies, plant: Callable[[Path], None]
) -> None:
    """They could have a link to one of root's there by the time of the next step."""
    plant(Path(replies.folder))
    above = Path(replies.folder).with_name("above")
    before = sorted(above.rglob("*"))
    for got in (
        replies.ask(agent.FACTS),
        replies.ask(agent.LOCK),
        replies.create(),
        replies.ask(agent.REMOVE, run=RUN),
    ):
        assert code_of(got) == "not-own"
    assert sorted(above.rglob("*")) == before
    above.chmod(0o1777)
    os.chown(above, 0, 0)
    if plant is not by_a_link_of_another_users:
        assert [kind for kind, _ in replies.create()] == [wire.MARK]


@AS_ROOT
def test_root_uses_no_folder_whose_way_another_user_made_meanwhile(
    replies: Replies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As any user may in /tmp, where nothing was when root looked."""
    shared, roots = Path(replies.folder), Path(replies.folder).with_name("roots")
    shared.mkdir()
    shared.chmod(0o1777)
    roots.mkdir()
    replies.folder = str(shared / "above/folder")

    def make_after_another(path: str) -> None:
        (shared / "above").symlink_to(roots)
        os.lchown(shared / "above", 12345, 12345)
        wire.make_folder(path)

    monkeypatch.setattr(agent, "make_folder", make_after_another)
    assert code_of(replies.create()) == "not-own"
    assert not list(roots.rglob("*/*"))


@pytest.mark.parametrize("plant", [of_another_user, open_to_others, a_link])
def test_no_run_of_somebody_else_is_joined_or_removed(
    replies: Replies, plant: Callable[[Path], None]
) -> None:
    Path(replies.folder).mkdir(mode=0o700)
    run = Path(replies.folder, RUN)
    plant(run)
    names = agent.MANIFEST_NAME, agent.log_name(0)
    for name, content in zip(names, (b'{"logs": 2}', b""), strict=True):
        (run / name).write_bytes(content)
    no = ("no-run",) if plant is a_link else ("not-own",)
    assert code_of(replies.ask(agent.JOIN, run=RUN, log=1)) in no
    assert code_of(replies.ask(agent.REMOVE, run=RUN)) == "not-own"
    assert {path.name for path in run.iterdir()} == set(names)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    path.with_name("secret").write_bytes(b"secret")
    path.symlink_to("secret")


@pytest.mark.parametrize("plant", [pipe, link])
@pytest.mark.parametrize("verb", [agent.MANIFEST, agent.READ])
def test_only_files_are_read(
    replies: Replies, plant: Callable[[Path], None], verb: int
) -> None:
    run = Path(replies.folder, RUN)
    run.mkdir(parents=True, mode=0o700)
    name = agent.MANIFEST_NAME if verb == agent.MANIFEST else agent.log_name(0)
    plant(run / name)
    assert code_of(replies.ask(verb, run=RUN, log=0)) == "not-own"


def test_a_tilde_is_the_home_of_the_user(
    replies: Replies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    replies.folder = "/~/acks"
    replies.create()
    assert (tmp_path / "acks" / RUN / agent.log_name(0)).is_file()
    ((_, facts),) = replies.ask(agent.FACTS)
    assert json.loads(facts)["folder"] == str(tmp_path / "acks")
    assert replies.ask(agent.RUNS) == [(wire.RESULT, json.dumps([RUN]).encode())]


def test_a_tilde_and_a_name_is_the_home_of_that_user(replies: Replies) -> None:
    name = pwd.getpwuid(os.geteuid()).pw_name
    home = os.path.expanduser(f"~{name}")
    assert folders.resolve_folder({"folder": f"/~{name}/acks"}) == f"{home}/acks"
    replies.folder = "/~no-such-user/acks"
    assert code_of(replies.create()) == "no-user"


@pytest.mark.parametrize(
    "payload",
    [b"", b"[", b"\xff", b"7", b"{}", b'{"folder": {}}', b'{"folder": "\\u0000"}']
    + [b'{"folder": "no/such", "run": 7}', b"[" * 100_000],
)
@pytest.mark.parametrize("verb", range(agent.FACTS, agent.REMOVE + 1))
def test_an_agent_survives_any_request(verb: int, payload: bytes) -> None:
    sent: list[tuple[int, bytes]] = []
    one = agent.Agent(lambda kind, body, token: sent.append((kind, body)))
    one.handle([(verb, 0, 0, payload)])
    ((kind, body),) = sent
    if verb == agent.RUNS and b"such" in payload:
        assert (kind, body) == (wire.RESULT, b"[]")
        return
    assert kind == wire.ERROR
    assert json.loads(body)["code"] in ("protocol", "log")
