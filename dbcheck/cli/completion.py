"""dbcheck completion: prints the script by which a shell completes commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from dbcheck.cli.flags.groups import Verb
from dbcheck.cli.root import COMPLETE, PROGRAM, root
from dbcheck.cli.say import say

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Verb)
@click.argument("shell", type=click.Choice(SHELLS), metavar="bash|zsh|fish")
def command(shell: str) -> None:
    """Print the script by which a shell completes commands, options and files.

    Store it once, add the line to the file that your shell reads at its start, and
    start a new shell. bash must be 4.4 or newer.

    \b
    dbcheck completion bash > ~/.dbcheck.bash
        in ~/.bashrc:                  source ~/.dbcheck.bash
    dbcheck completion zsh > ~/.dbcheck.zsh
        in ~/.zshrc, after compinit:   source ~/.dbcheck.zsh
    dbcheck completion fish > ~/.config/fish/completions/dbcheck.fish
        fish finds it there by itself

    Names of hosts are not completed: that would run an inventory that is a program.
    """
    made = get_completion_class(shell)
    assert made is not None, shell
    say(*made(root, {}, PROGRAM, COMPLETE).source().rstrip().split("\n"))
