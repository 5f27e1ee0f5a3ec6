"""Prints a script that makes a shell complete a command's flags and values.

  eval "$(bert-run-classifier --completion=bash)"      # or zsh, in ~/.zshrc
  bert-run-classifier --completion=fish | source

In a clone, the command is `python run_classifier.py`, so the shell then also
calls the script for `python`; other programs' file names complete as before.
"""

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from absl import flags

from common import program

# In bash and zsh, a variable has a script's words. They end in = if any value
# may follow. The shell function finds the script in the first two words.
_BASH = """\
{variable}={words}
_bert_complete() {{
  local typed=${{COMP_LINE:0:COMP_POINT}} script words word
  typed=${{typed##*[[:space:]]}}
  for script in "${{COMP_WORDS[@]:0:2}}"; do
    script=${{script##*/}}; script=${{script%.py}}; script=${{script#bert-}}
    words=_bert_words_${{script//[^a-z_]/_}}
    for word in ${{!words}}; do
      [[ $word != "$typed"* || $typed == *=* && $word == *= ]] && continue
      COMPREPLY+=("$word")
    done
  done
  # bash itself splits a word at =.
  [[ $typed == *=* && $COMP_WORDBREAKS == *=* ]] &&
    COMPREPLY=("${{COMPREPLY[@]#*=}}")
  [[ ${{#COMPREPLY[@]}} == 1 && $COMPREPLY == *= ]] && compopt -o nospace
  return 0
}}
complete -o bashdefault -o default -F _bert_complete {commands}
"""
_ZSH = """\
{variable}={words}
_bert_complete() {{
  local script name list=()
  for script in ${{words[1,2]}}; do
    name=_bert_words_${{${{${{script:t}}%.py}}#bert-}}
    list+=(${{(f)${{(P)${{name//[^a-z_]/_}}}}}})
  done
  compadd -- ${{list:#*=}} && return
  if compset -P '*='; then _files; return; fi
  compadd -S '' -- ${{(M)list:#*=}} || _files
}}
compdef _bert_complete {commands}
"""
# fish calls each program's own completions.
_IN_PYTHON = "string match -qr '(^|/){name}$' -- (commandline -opc)[2]"


def define(listed: Callable[[], Iterable[Any]]) -> None:
  """Defines --completion; `listed` returns the absl flags to complete."""
  flags.DEFINE_flag(_CompletionFlag(listed))


class _CompletionFlag(flags.EnumFlag):
  """A flag that prints the script for a shell and ends the process."""

  def __init__(self, listed: Callable[[], Iterable[Any]]):
    meaning = "Print a script with which this shell completes flags."
    super().__init__("completion", None, meaning, ["bash", "zsh", "fish"])
    self._listed = listed

  def parse(self, argument: Any) -> None:
    super().parse(argument)
    print(_script(self.value, self._listed()), end="")
    sys.exit()


def _script(shell: str | None, listed: Iterable[Any]) -> str:
  name = program.name()
  commands = [name, *(["python", "python3"] if name.endswith(".py") else [])]
  if shell == "fish":
    return "".join(_fish_lines(commands, listed))
  return (_BASH if shell == "bash" else _ZSH).format(
    variable=f"_bert_words_{program.module_name(name)}",
    words=shlex.quote("\n".join(w for f in listed for w in _words(f))),
    commands=shlex.join(commands),
  )


def _words(flag: Any) -> Iterator[str]:
  """Yields a flag as it may be typed, with each of its values if few."""
  if flag.boolean:
    yield from (f"--{flag.name}", f"--no{flag.name}")
  else:
    for value in _values(flag) or [""]:
      yield f"--{flag.name}={value}"


def _values(flag: Any) -> list[str]:
  return getattr(flag.parser, "enum_values", [])


def _fish_lines(commands: list[str], listed: Iterable[Any]) -> Iterator[str]:
  for command in commands:
    condition = ""
    if command != commands[0]:
      condition = shlex.quote(_IN_PYTHON.format(name=commands[0]))
      condition = f" -n {condition}".replace("'\"'\"'", "\\'")
    for flag in listed:
      # absl starts the help of a flag with choices with <A|B>:.
      about = flag.help.rpartition(">: ")[2].partition(". ")[0]
      about = shlex.quote(about.replace("'", "’"))
      line = f"complete -c {command}{condition} -d {about}"
      if flag.boolean:
        yield f"{line} -l {flag.name}\n{line} -l no{flag.name}\n"
      elif values := _values(flag):
        yield f"{line} -l {flag.name} -xa '{' '.join(values)}'\n"
      else:
        yield f"{line} -l {flag.name} -r\n"
