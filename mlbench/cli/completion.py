"""``mlbench completion``: what makes a shell complete commands, options and names."""

from __future__ import annotations

import click

from mlbench.cli.output import echo

PROGRAM = "mlbench"
VARIABLE = "_MLBENCH_COMPLETE"
"""In which the script says what it wants; click looks for it under this name."""

PAIRS = """
# bash divides KEY=VALUE into three words where COMP_WORDBREAKS has "=", and takes what is offered for the last of them
_mlbench_completion_of_pairs() {
    local -a words=()
    local i typed
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == = || ${COMP_WORDS[i - 1]} == = ]] && ((i > 1)); then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
    done
    typed=${words[${#words[@]} - 1]}
    local -a COMP_WORDS=("${words[@]}")
    local COMP_CWORD=$((${#words[@]} - 1))
    _mlbench_completion "$@"
    [[ $typed == --*=* ]] && typed=${typed#*=}
    if [[ $typed == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${typed%%=*}="}")
    elif ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -F _mlbench_completion_of_pairs mlbench
"""

AROUND = '-P "${(M)words[CURRENT]#--*=}" -S "${${key:#*=}:+ }" -U'
"""zsh: what is offered for ``--tier=`` is the value alone; and no space comes after what ends in an equals sign."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options, and names.

    It offers workloads, backends, scenarios, stored runs, baselines, keys of settings, and the words that a key takes.
    """
    from click.shell_completion import get_completion_class

    from mlbench.cli import main

    kind = get_completion_class(shell)
    assert kind
    source = kind(main, {}, PROGRAM, VARIABLE).source()
    if shell == "zsh":
        source = source.replace("completions_with_descriptions -U", f"completions_with_descriptions {AROUND}")
        source = source.replace("compadd -U", f"compadd {AROUND}")
    echo(source + (PAIRS if shell == "bash" else ""), newline=False)
