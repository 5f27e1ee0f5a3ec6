"""Shells complete the flags and values of scripts."""

import shutil
import subprocess

import pytest

import script_runner
from test_layout import ROOT, VERBS, flags_of

# Calls the function that bash has for the command, as its <Tab> does.
_TAB = """
eval "$SCRIPT"; COMP_WORDBREAKS=$BREAKS
COMP_WORDS=($LINE) COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_CWORD=1
set -- $(complete -p "${COMP_WORDS[0]}")
while [[ $1 != -F ]]; do shift; done
"$2" 2> /dev/null  # compopt works only in an interactive shell.
printf "%s\\n" "${COMPREPLY[@]}"
"""


def script(name, shell):
  return script_runner.succeed(name, completion=shell).out


def answers(line, completions, breaks="=: "):
  done = subprocess.run(
    ["bash", "--norc", "-c", _TAB],
    env={"SCRIPT": completions, "LINE": line, "BREAKS": breaks},
    capture_output=True,
    text=True,
    check=True,
  )
  assert not done.stderr
  return done.stdout.split()


@pytest.mark.parametrize(
  "typed, found",
  [
    ("--do_p", ["--do_predict"]),
    ("--nodo_p", ["--nodo_predict"]),
    ("--train_f", ["--train_file="]),
    ("--train_file=tr", []),  # bash then completes names of files.
    ("--train_file=", []),
    ("--task_kind=re", ["regression", "retrieval"]),
    ("--do_train --task_kind=m", ["multi_label"]),
    ("--no_such", []),
    ("file", []),
  ],
)
def test_bash_completes_flags_and_values(typed, found):
  completions = script("run_classifier.py", "bash")
  line = "python scripts/run_classifier.py "
  assert answers(line + typed, completions) == found
  assert answers(f"run_classifier.py {typed}", completions) == found


def test_a_shell_may_have_several_scripts_and_other_breaks():
  both = [script(f"{name}.py", "bash") for name in ("run_ner", "run_squad")]
  completions = "".join(both)
  assert answers("python run_ner.py --doc_s", completions) == []
  assert answers("python run_squad.py --doc_s", completions) == [
    "--doc_stride="
  ]
  assert answers("python other.py --doc_s", completions) == []
  # Without = in its COMP_WORDBREAKS, bash replaces the whole word.
  assert answers("run_ner.py --scheme=iob", completions, " ") == [
    "--scheme=iob1",
    "--scheme=iob2",
    "--scheme=iobes",
  ]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_each_script_has_all_of_its_flags(verb):
  completions = script(f"{verb}.py", "bash")
  found = answers(f"{verb}.py --", completions)
  names = {word.removeprefix("--").partition("=")[0] for word in found}
  assert flags_of(verb) <= names


def test_fish_completes_the_command_and_the_script_of_python():
  lines = script("run_ner.py", "fish").splitlines()
  commands = [
    "complete -c run_ner.py -d ",
    *(
      f"complete -c {python} -n 'string match -qr \\'(^|/)run_ner.py$\\' -- "
      "(commandline -opc)[2]' -d "
      for python in ("python", "python3")
    ),
  ]
  count = len(lines) // len(commands)
  for number, command in enumerate(commands):
    of_command = lines[number * count : (number + 1) * count]
    assert all(line.startswith(command) for line in of_command)
    described = [line.removeprefix(command) for line in of_command]
    assert {
      "'Whether to train' -l do_train",
      "'Whether to train' -l nodo_train",
      "'How labels mark the start of an entity' -l scheme -xa "
      "'iob1 iob2 iobes bilou bmes plain none'",
    } <= {*described}
    # A quote would end the description.
    (vocabulary,) = [x for x in described if " -l bert_config_file " in x]
    assert "Hugging Face\u2019s" in vocabulary and vocabulary.endswith(" -r")


def test_zsh_has_the_words_of_bash():
  bash, zsh = (
    script("run_ner.py", shell).partition("\n_bert_complete")[0]
    for shell in ("bash", "zsh")
  )
  assert bash == zsh and "--scheme=iobes\n" in zsh
  assert script("run_ner.py", "zsh").endswith(
    "compdef _bert_complete run_ner.py python python3\n"
  )


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_well_formed(shell, tmp_path):
  completions = script("run_pretraining.py", shell)
  assert "masked_lm" in completions or "optimizer" in completions
  if not shutil.which(shell):
    pytest.skip(f"needs {shell}")
  path = tmp_path / "completions"
  path.write_text(completions, encoding="utf-8")
  subprocess.run([shell, "-n", path], check=True, cwd=ROOT)


def test_another_shell_is_refused():
  done = script_runner.run("run_ner.py", completion="tcsh")
  assert done.code == 1 and "bash" in done.err
