"""Writes docs/flags.md: every flag of every script.

python docs/make_flags.py            writes the page (make docs)
python docs/make_flags.py --check    exit code 1 if the page is out of date
"""

import argparse
import contextlib
import pathlib
import re
import runpy
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "flags.md"
SCRIPTS = [
  "download.py",
  "reproduce.py",
  "create_vocabulary.py",
  "create_pretraining_data.py",
  "run_pretraining.py",
  "fill_mask.py",
  "run_classifier.py",
  "run_squad.py",
  "run_ner.py",
  "extract_features.py",
  "convert_checkpoint.py",
  "export_saved_model.py",
  "serve.py",
]
CHOICES = re.compile(r"<([^<>]*)>: ")
ENDS = ("lower", "upper")
REPEATED = "; repeat this option to specify a list of values"
HEADER = """\
# Flags

`python SCRIPT.py --help` prints the same groups and texts. Flags that
google-research/bert has keep its names and defaults. An empty default means
that the flag is not set. In paths, `~` is the home folder.

`eval "$(bert-run-ner --completion=bash)"`, or `python run_ner.py` in a clone,
makes a shell complete a command's flags and values. The shell may also be
`zsh`, or `fish`: `bert-run-ner --completion=fish | source`.

This page is generated: after you change a flag, run `make docs`.
"""


sys.path.insert(0, str(ROOT))

from common import command, flag_help, flags  # noqa: E402


class _Defined(Exception):
  """Raised when all flags of a script are defined."""


def _stop(*_, **__):
  command.define_verbose()
  raise _Defined


def read_flags(script):
  """Returns the absl flags that a script defines or uses, sorted by name."""
  # Reset to absl's own flags, because the previous script defined others.
  vars(flags.FLAGS).update(vars(type(flags.FLAGS)()))
  parse_flags, command.parse_flags = command.parse_flags, _stop
  with contextlib.suppress(_Defined):
    runpy.run_path(str(ROOT / script))
  command.parse_flags = parse_flags
  return flags.of_script()


def row(flag):
  """Returns the table row of a flag, in Markdown."""
  meaning = " ".join(flag.help.split()).removesuffix(REPEATED)
  # absl puts the choices of an enum in front: "<mean|max>: How ...".
  match = CHOICES.match(meaning)
  if match:
    choices = ", ".join(f"`{name}`" for name in match[1].split("|"))
    meaning = f"One of {choices}. {meaning[match.end() :]}"
  bounds = [getattr(flag.parser, f"{end}_bound", None) for end in ENDS]
  if bounds != [None, None]:
    meaning += f" ({flag.parser.syntactic_help})"
  meaning = meaning.replace("|", r"\|").replace("<", "&lt;")
  default = ""
  if flag.default not in (None, []):
    default = f"`{flag.default_as_str}`".replace("'", "")
  return f"| `--{flag.name}` | {default} | {meaning} |"


def section(script, listed):
  """Returns the section of a script with its absl flags, in Markdown."""
  groups = flag_help.in_groups(listed)
  lines = [f"## `{script}`"]
  for title, flags_of_group in groups.items():
    heading = [f"\n### {title}"] if len(groups) > 1 else []
    lines += [
      *heading,
      "\n| flag | default | meaning |",
      "|---|---|---|",
      *map(row, flags_of_group),
    ]
  return "\n".join(lines) + "\n"


def differences(old, new):
  """Returns the lines that only one page has, marked - (old) and + (new)."""
  old, new = old.split("\n"), new.split("\n")
  return [f"- {line}" for line in old if line not in new] + [
    f"+ {line}" for line in new if line not in old
  ]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--check", action="store_true")
  check = parser.parse_args().check
  sections = [section(script, read_flags(script)) for script in SCRIPTS]
  page = "\n".join([HEADER, *sections])
  if not check:
    PAGE.write_text(page, encoding="utf-8")
    return
  changed = differences(PAGE.read_text(encoding="utf-8"), page)
  if changed:
    print("\n".join(changed))
    sys.exit("docs/flags.md is out of date: run `make docs` and commit it")


if __name__ == "__main__":
  main()
