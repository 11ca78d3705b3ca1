"""``mlbench completion``: shell completion of commands, options and names."""

from __future__ import annotations

import click

from mlbench.cli.output import echo

PROGRAM = "mlbench"
VARIABLE = "_MLBENCH_COMPLETE"
"""Environment variable by which the script asks for completions; click defines its name."""

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
"""zsh: complete the value alone after ``--tier=``, and add no space after an equals sign."""


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options, and names.

    It completes workloads, backends, scenarios, stored runs, baselines, and keys and values of settings.
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
