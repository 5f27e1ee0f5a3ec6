"""Writes docs/flags.md: every flag of every script, as --helpxml gives them.

  python docs/make_flags.py            writes the page (make docs)
  python docs/make_flags.py --check    exit code 1 if the page is out of date
"""

import argparse
import pathlib
import re
import subprocess
import sys
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "flags.md"
SCRIPTS = [
  "download.py", "reproduce.py", "create_vocabulary.py",
  "create_pretraining_data.py", "run_pretraining.py", "fill_mask.py",
  "run_classifier.py", "run_squad.py", "run_ner.py", "extract_features.py",
  "convert_checkpoint.py", "export_saved_model.py", "serve.py",
]
CHOICES = re.compile(r"<([^<>]*)>: ")
REPEATED = "; repeat this option to specify a list of values"
HEADER = """\
# Flags

`python SCRIPT.py --help` prints the same texts. Flags that the original has
keep its names and defaults. An empty default means that the flag is not set.

This page is generated: `make docs` writes it anew after a flag has changed.
"""


class Flag(NamedTuple):
  """One row of the page; all fields are texts."""

  name: str
  default: str
  meaning: str


def parse_flags(xml):
  """Returns the Flags that a script defines or uses, sorted by name.

  Args:
    xml: what the script prints with --helpxml.
  """
  flags = []
  for node in ElementTree.fromstring(xml).iter("flag"):
    # absl marks the flags that --help shows; the others are absl's own.
    if node.findtext("key") != "yes":
      continue
    meaning = " ".join((node.findtext("meaning") or "").split())
    meaning = meaning.removesuffix(REPEATED)
    # absl puts the choices of an enum in front: "<mean|max>: How ...".
    match = CHOICES.match(meaning)
    if match:
      choices = ", ".join(f"`{name}`" for name in match[1].split("|"))
      meaning = f"One of {choices}. {meaning[match.end():]}"
    default = node.findtext("default") or ""
    flags.append(
      Flag(node.findtext("name"), default if default != "[]" else "", meaning)
    )
  return sorted(flags)


def read_flags(script):
  """Returns the Flags of a script, by running it."""
  # absl prints its help and exits with code 1.
  finished = subprocess.run(
    [sys.executable, str(ROOT / script), "--helpxml"],
    capture_output=True, encoding="utf-8", check=False,
  )
  start = finished.stdout.find("<?xml")
  if start < 0:
    sys.exit(f"{script} --helpxml printed no XML:\n{finished.stderr}")
  return parse_flags(finished.stdout[start:].encode())


def table(script, flags):
  """Returns the section of one script, in Markdown."""
  rows = [f"## `{script}`", "", "| flag | default | meaning |", "|---|---|---|"]
  for flag in flags:
    default = f"`{flag.default}`" if flag.default else ""
    meaning = flag.meaning.replace("|", r"\|").replace("<", "&lt;")
    rows.append(f"| `--{flag.name}` | {default} | {meaning} |")
  return "\n".join(rows) + "\n"


def differences(old, new):
  """Returns the lines of two pages that are not in both, marked - and +."""
  old, new = old.split("\n"), new.split("\n")
  return [f"- {line}" for line in old if line not in new] + [
    f"+ {line}" for line in new if line not in old
  ]


def main():
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  parser.add_argument("--check", action="store_true")
  check = parser.parse_args().check
  page = "\n".join(
    [HEADER, *(table(script, read_flags(script)) for script in SCRIPTS)]
  )
  if not check:
    PAGE.write_text(page, encoding="utf-8")
    return
  changed = differences(PAGE.read_text(encoding="utf-8"), page)
  if changed:
    print("\n".join(changed))
    sys.exit("docs/flags.md is out of date: run `make docs` and commit it")


if __name__ == "__main__":
  main()
