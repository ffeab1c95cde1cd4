"""``modelkin completion``."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_MODELKIN_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print shell completion of commands, options, models, studies and methods for SHELL.

    \b
    Examples
      modelkin completion bash >> ~/.bashrc
      modelkin completion zsh >> ~/.zshrc
      modelkin completion fish > ~/.config/fish/completions/modelkin.fish
    """  # noqa: D301  click wants the character itself
    from click.shell_completion import get_completion_class

    root = click.get_current_context().find_root().command
    kind = get_completion_class(shell)
    assert kind is not None
    # Not `source()`: for bash it would ask for the version, and bash need not be installed.
    made = kind(root, {}, "modelkin", _VARIABLE)
    click.echo(made.source_template % made.source_vars())
