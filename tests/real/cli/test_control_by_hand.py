"""A control that a person cuts: nobody is asked for a second cut that cannot pass."""

from __future__ import annotations

from tests.kit.users import User, said_until, user_of
from tests.kit.users import user as user


@user_of("postgresql")
def test_after_a_control_that_does_not_count_nobody_is_asked_again(user: User) -> None:
    """The network was down in place of the power."""
    client = user.start_by_hand("--control", off_s=1.0)
    said_until(client, "NOW")
    user.lab.freeze_server()
    said_until(client, "restore")
    user.lab.thaw_server()
    _, said = client.communicate(timeout=120)
    assert client.returncode == 3, said
    assert "NOW" not in said
    assert "there is no second cut" in said
    assert "start time did not change" in said
    assert "dbcheck power test" not in said  # there is no switch
    (run,) = (user.folder / "runs").iterdir()
    assert run.is_dir()
