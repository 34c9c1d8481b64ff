"""Completion scripts for bash, zsh and fish: options and words from the tables, names and job numbers from the cluster.

The cluster is asked by its own commands, for two seconds at most and never waiting for a master that is away; where
it does not answer, nothing is offered. Sources: bash(1) Programmable Completion, zshcompsys(1), fish's complete(1).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from gsched.app.manual.entries import CommandEntry, OptionEntry

_KINDS = {
    "QUEUE": "queue",
    "QUEUES": "queue",
    "HOST": "host",
    "HOSTS": "host",
    "JOB": "job",
    "JOBS": "job",
    "USER": "user",
    "USERS": "user",
    "SIGNAL": "signal",
    "PROFILE": "profile",
    "APPLICATION": "profile",
    "FILE": "file",
    "LOGS": "file",
    "SPEC": "any",
    "DIR": "folder",
    "FOLDER": "folder",
    "CONF": "folder",
    "D": "folder",
    "SHELL": "file",
    "COMMAND": "command",
}
"""What a value or an operand is called in the tables -> what is offered for it; other ones: nothing (any)."""

_QUESTIONS = {
    "queue": ("gqueues bqueues", "-noheader -o queue_name"),
    "host": ("ghosts bhosts", "-noheader -o host_name"),
    "job": ("gjobs bjobs", "-noheader -o jobid"),
}
"""Kind -> the command's names, of which the first that is installed is asked, and its words."""


def completion(shell: str, entries: Iterable[CommandEntry]) -> str:
    """The script for `bash`, `zsh` or `fish`."""
    return {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](list(entries))


def _kind(value: str) -> str:
    """What is offered for a value of that name."""
    return _KINDS.get(value.strip("[]").split(" ")[0].split("|")[0], "any")


def _operand_kind(entry: CommandEntry) -> str:
    """For its first operands; `program`: a command line follows."""
    if entry.operand_values:
        return "=" + " ".join(entry.operand_values)
    if entry.operands.startswith("[command"):
        return "program"
    return _kind(entry.operands) if entry.operands else "any"


def _value_kind(option: OptionEntry) -> str:
    return "=" + " ".join(option.fixed) if option.fixed else _kind(option.value)


def _taken(entry: CommandEntry) -> list[OptionEntry]:
    return [option for option in entry.options if not option.refused]


# -- bash and zsh share the table and the questions; both understand this much of sh ----------------------------------


def _table(entries: Iterable[CommandEntry]) -> Iterator[str]:
    """A function that sets, for `$1` (a command and its word), what may follow."""
    yield "_gsched_table() {"
    yield "  words_of= options_of= values_of= operand_of=any"
    yield '  case "$1" in'
    for entry in entries:
        for each in entry.every():
            names = (each.name, *(each.name.replace(entry.name, alias, 1) for alias in entry.aliases))
            taken = _taken(each)
            values = ";".join(
                f"{name}:{_value_kind(option)}" for option in taken for name in option.names if option.value
            )
            fields = {
                "words_of": " ".join(word.last_word for word in each.words),
                "options_of": " ".join(name for option in taken for name in option.names),
                "values_of": f";{values};" if values else "",
                "operand_of": _operand_kind(each),
            }
            settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in fields.items() if value)
            yield f"    {'|'.join(shlex.quote(name) for name in names)}) {settings} ;;"
    yield "    *) return 1 ;;"
    yield "  esac"
    yield "}"


def _questions() -> Iterator[str]:
    """A function that prints what there is of the kind `$1`; fails for kinds that the cluster knows nothing of."""
    yield "_gsched_ask() {"
    yield "  local program"
    yield '  case "$1" in'
    for kind, (programs, words) in _QUESTIONS.items():
        yield f"    {kind}) set -- {words} ; for program in {programs}; do"
        yield '        command -v "$program" >/dev/null 2>&1 || continue'
        yield '        GSCHED_COMMAND_WAIT=0 timeout 2 "$program" "$@" 2>/dev/null; return 0; done ;;'
    yield "    *) return 1 ;;"
    yield "  esac"
    yield "}"


_FIND = """\
# What the word before the cursor is: sets kind_is (of a value or an operand), and the variables of _gsched_table.
_gsched_find() {
  local name=$1 position=1 count word rest expected=
  shift
  count=$#
  _gsched_table "$name" || return 1
  kind_is= operands_seen=0
  while [ $position -lt $count ]; do
    word=$1
    shift
    position=$((position + 1))
    if [ -n "$expected" ]; then expected= ; continue; fi
    case "$values_of" in
      *";$word:"*) rest=${values_of#*";$word:"}; expected=${rest%%;*}; continue ;;
    esac
    case "$word" in
      -?*) continue ;;
    esac
    if [ -n "$words_of" ]; then
      name="$name $word"
      _gsched_table "$name" || return 1
    else
      operands_seen=$((operands_seen + 1))
    fi
  done
  if [ -n "$expected" ]; then kind_is=$expected
  elif [ -n "$words_of" ]; then kind_is="=$words_of"
  elif [ "$operand_of" = program ] && [ $operands_seen -gt 0 ]; then kind_is=file options_of=
  else kind_is=$operand_of
  fi
  [ -z "$expected" ] || options_of=
}
"""

_BASH = """\
_gsched_complete() {
  local words_of options_of values_of operand_of kind_is operands_seen current=$2
  local -a line=("${COMP_WORDS[@]:1:COMP_CWORD}")
  COMPREPLY=()
  _gsched_find "${1##*/}" "${line[@]}" || return 0
  if [[ $current == -* && -n $options_of ]]; then
    COMPREPLY=($(compgen -W "$options_of" -- "$current"))
    return 0
  fi
  case $kind_is in
    =*) COMPREPLY=($(compgen -W "${kind_is#=}" -- "$current")) ;;
    user) COMPREPLY=($(compgen -u -W all -- "$current")) ;;
    signal) COMPREPLY=($(compgen -W "$(compgen -A signal | sed -n 's/^SIG//p')" -- "$current")) ;;
    folder) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    program|command) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -c -f -- "$current") ;;
    any|profile) ;;
    *) COMPREPLY=($(compgen -W "$(_gsched_ask "$kind_is" | sort -u)" -- "$current")) ;;
  esac
}
"""


def _heading(shell: str) -> str:
    return f"# Completion of gsched's commands for {shell}, written by `gsched completion {shell}`."


def _names(entries: Iterable[CommandEntry]) -> list[str]:
    return [name for entry in entries for name in (entry.name, *entry.aliases)]


def _bash(entries: list[CommandEntry]) -> str:
    register = f"complete -F _gsched_complete {' '.join(_names(entries))}"
    return "\n".join([_heading("bash"), *_table(entries), *_questions(), _FIND, _BASH + register]) + "\n"


_ZSH = """\
_gsched_complete() {
  local words_of options_of values_of operand_of kind_is operands_seen
  local current=${words[CURRENT]}
  _gsched_find "${${words[1]}:t}" "${(@)words[2,CURRENT]}" || return 1
  if [[ $current == -* && -n $options_of ]]; then
    compadd -- ${=options_of}
    return
  fi
  case $kind_is in
    "="*) compadd -- ${=kind_is#=} ;;
    user) compadd -- all; _users ;;
    signal) compadd -- ${signals:1} ;;
    folder) _files -/ ;;
    file) _files ;;
    program|command) _command_names; _files ;;
    any|profile) return 1 ;;
    *) compadd -- ${(fu)"$(_gsched_ask $kind_is)"} ;;
  esac
}
"""


def _zsh(entries: list[CommandEntry]) -> str:
    names = " ".join(_names(entries))
    start = f'if [[ $funcstack[1] = _gsched ]]; then _gsched_complete "$@"; else compdef _gsched_complete {names}; fi'
    head = [f"#compdef {names}", _heading("zsh")]
    return "\n".join([*head, *_table(entries), *_questions(), _FIND, _ZSH + start]) + "\n"


# -- fish -------------------------------------------------------------------------------------------------------------

_FISH_KINDS = {
    "user": "-xa '(__fish_complete_users) all'",
    "signal": "-xa '(kill -l | string split \" \")'",
    "folder": "-xa '(__fish_complete_directories)'",
    "file": "-rF",
    "command": "-rF",
    "program": "-rF",
    **{kind: f"-xa '(__gsched_ask {kind})'" for kind in _QUESTIONS},
}


def _fish(entries: list[CommandEntry]) -> str:
    lines = [_heading("fish"), "function __gsched_ask", "  switch $argv[1]"]
    for kind, (programs, words) in _QUESTIONS.items():
        lines.append(f"    case {kind}; set -l words {words}")
        lines.append(f"      for program in {programs}")
        lines.append("        command -q $program; or continue")
        lines.append("        env GSCHED_COMMAND_WAIT=0 timeout 2 $program $words 2>/dev/null | sort -u; return")
        lines.append("      end")
    lines += ["  end", "end"]
    for entry in entries:
        lines += _fish_entry(entry, entry.name)
        lines += [f"complete -c {alias} -w {entry.name}" for alias in entry.aliases]
    return "\n".join(lines) + "\n"


def _fish_entry(entry: CommandEntry, command: str) -> Iterator[str]:
    for each in entry.every():
        inner = each.name.split(" ")[1:]
        condition = "".join(f" -n '__fish_seen_subcommand_from {word}'" for word in inner)
        operand = _operand_kind(each)
        if each.words:
            rest = "" if inner else " -n __fish_use_subcommand"
            names = " ".join(word.last_word for word in each.words)
            own = f" -n 'not __fish_seen_subcommand_from {names}'" if inner else rest
            for word in each.words:
                yield f"complete -c {command}{condition}{own} -f -a {word.last_word} -d {_fish_text(word.summary)}"
        elif operand.startswith("="):
            yield f"complete -c {command}{condition} -f -a {_fish_text(operand[1:])}"
        elif operand in _QUESTIONS or operand in ("user", "folder"):
            yield f"complete -c {command}{condition} -f -a {_FISH_KINDS[operand][4:]}"
        elif operand not in ("program", "file"):
            yield f"complete -c {command}{condition} -f"
        for option in _taken(each):
            yield f"complete -c {command}{condition} {_fish_option(option)} -d {_fish_text(option.help)}"


def _fish_option(option: OptionEntry) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-o {name[1:]}" for name in option.names)
    if not option.value:
        return names
    kind = _value_kind(option)
    return names + (f" -xa {_fish_text(kind[1:])}" if kind.startswith("=") else f" {_FISH_KINDS.get(kind, '-x')}")


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
