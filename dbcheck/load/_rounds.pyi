"""The commits of many sessions in one call: what _rounds.c offers.

It is an extension in C, which is built if there is a compiler; load.compiled uses it.
An operation is in flight here or in the session in Python, never in both.
"""

from collections.abc import Sequence
from typing import ClassVar

# The status, the command tag, the first value, the message and the fields of a result.
Answer = tuple[int, bytes, bytes | None, bytes, dict[int, bytes]]
# The seq of the last operation sent, that of the last acked, when the last was sent,
# and whether it is in flight.
Progress = tuple[int, int, int, bool]

class Rounds:
    """Sessions by their descriptors; for one thread.

    KeyError: no session was added with that descriptor.  RuntimeError: another thread
    is in receive() or send().

    How much of an operation send() sent, if not all:
    PART_SENT: the session is to flush() the rest.
    NOT_HERE: nothing; it is for the session, by the time or for a notice.
    NO_ROW:   nothing; its values are not prepared.
    REFUSED:  perhaps a part; libpq refused it.

    SOURCE: the checksum of the _rounds.c that it was built from; see
            load.compiled.load_rounds().
    """

    PART_SENT: ClassVar[int]
    NOT_HERE: ClassVar[int]
    NO_ROW: ClassVar[int]
    REFUSED: ClassVar[int]
    SOURCE: ClassVar[int]

    def __init__(
        self, epoll_fd: int, calls: bytes, statement: bytes, tag: bytes, parameters: int
    ) -> None:
        """See ports.connection.Wire; raise ValueError for what cannot be sent."""

    def add(self, fd: int, connection: int, number: int) -> None:
        """Add a session, all of whose operations are still NOT_HERE."""

    def remove(self, fd: int) -> None:
        """Forget a session; to be called before its connection is closed."""

    def proceed(self, fd: int, seq: int, until_us: int) -> None:
        """Take over a session, *seq* of whose operations are sent and acked.

        From *until_us* on its operations are NOT_HERE.
        """

    def notice(self, fd: int) -> None:
        """Note that the server said something beside its answers.

        The operation in flight is then the session's to judge, and the next ones are
        NOT_HERE until proceed().  May be called while receive() or send() runs.
        """

    def progress(self, fd: int) -> Progress:
        """Return how far a session has come since proceed()."""

    def withdraw(self, fd: int) -> Progress:
        """Return the same, and leave the session alone until proceed()."""

    def prepare(self, fd: int, first_seq: int, table: bytes, data: bytes) -> None:
        """Keep the values of operations from *first_seq* on.

        data:  the values, as the server takes them.
        table: 64-bit numbers: where each value begins in data, and how long it is.
        """

    def receive(
        self, timeout_s: float
    ) -> tuple[list[int], list[tuple[int, int, Sequence[Answer] | None]]]:
        """Wait for replies as epoll does, and take them.

        Return the descriptors of the sessions whose operations are acked, and the
        others that are ready, with their events and the results that were taken from
        them; None if no operation is in flight here.
        """

    def acknowledge(
        self, moment_us: int
    ) -> tuple[list[tuple[int, int, int, int]], list[int], int]:
        """Return the acks of the last receive(), as read at *moment_us*.

        With how long each operation took, and when the last of them was sent.
        """

    def send(self, fds: list[int], moment_us: int) -> list[tuple[int, int]]:
        """Send the next operation of each session.

        Return the descriptors of those that were not sent as a whole, and how much was.
        """
