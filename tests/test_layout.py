"""The rules of the house, checked over the files as they stand.

Nouns are imported and know no flags; verbs are run and never imported. A new
module is found by itself: nothing here needs to be told of it.
"""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
MODULES = {
  path.stem: path for path in ROOT.glob("*.py") if path.stem != "setup"
}
FILES = [
  *ROOT.glob("*.py"), *ROOT.glob("tests/*.py"), *ROOT.glob("benchmarks/*.py")
]
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}
README = ROOT / "README.md"


def is_verb(path):
  """Whether a module ends in `if __name__ == "__main__":`."""
  return any(
    isinstance(node, ast.If) and "__main__" in ast.unparse(node.test)
    for node in TREES[path].body
  )


VERBS = sorted(name for name, path in MODULES.items() if is_verb(path))
NOUNS = sorted(set(MODULES) - set(VERBS))


def nodes(path, *types):
  """Returns all syntax nodes of the given types in a file."""
  return [node for node in ast.walk(TREES[path]) if isinstance(node, types)]


def imported_modules(path):
  """Yields (line, first part of the module's name, node) of every import."""
  for node in nodes(path, ast.Import, ast.ImportFrom):
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    else:
      names = [node.module or ""]
    for name in names:
      yield node.lineno, name.split(".")[0], node


def functions(path):
  return nodes(path, ast.FunctionDef)


def place(path, line):
  return f"{path.relative_to(ROOT)}:{line}"


def defined_flags(path):
  """Returns {flag: line} of the DEFINE_... calls in a file."""
  flags = {}
  for call in nodes(path, ast.Call):
    function = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if function.startswith("DEFINE_"):
      name = call.args[0]
      assert isinstance(name, ast.Constant), (
        f"{place(path, call.lineno)}: a flag's name is not written out"
      )
      flags[name.value] = call.lineno
  return flags


def flags_of(verb):
  """Returns the names of all flags of a script, shared groups included."""
  flags = set(defined_flags(MODULES[verb]))
  groups = {}
  if "common_flags" in MODULES:
    path = MODULES["common_flags"]
    for function in functions(path):
      lines = range(function.lineno, function.end_lineno + 1)
      groups[function.name] = {
        name for name, line in defined_flags(path).items() if line in lines
      }
    # A group may call another one.
    for function in functions(path):
      for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in groups:
          groups[function.name] |= groups[node.id]
  for node in nodes(MODULES[verb], ast.Attribute):
    if ast.unparse(node.value) == "common_flags":
      flags |= groups.get(node.attr, set())
  return flags


# Nouns and verbs.


def test_there_are_nouns_and_verbs():
  assert NOUNS and VERBS


def test_verbs_are_never_imported():
  found = [
    f"{place(path, line)} imports {name}"
    for path in FILES
    for line, name, _ in imported_modules(path)
    if name in VERBS
  ]
  assert not found


def test_only_verbs_and_common_flags_know_flags():
  found = []
  for name in set(NOUNS) - {"common_flags"}:
    for node in nodes(MODULES[name], ast.Import, ast.ImportFrom):
      if "absl" in ast.unparse(node) and "flags" in ast.unparse(node):
        found.append(place(MODULES[name], node.lineno))
    for node in nodes(MODULES[name], ast.Name, ast.Attribute):
      if "FLAGS" in (getattr(node, "id", ""), getattr(node, "attr", "")):
        found.append(place(MODULES[name], node.lineno))
    for _, imported, node in imported_modules(MODULES[name]):
      if imported == "common_flags":
        found.append(place(MODULES[name], node.lineno))
  assert not found


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_say_a_users_errors_in_one_sentence(verb):
  source = MODULES[verb].read_text(encoding="utf-8")
  assert "app.run(errors.report_input_errors(main))" in source


def test_siblings_are_imported_on_a_line_of_their_own():
  """The wheel rewrites lines that are `import name` and nothing else."""
  found = []
  for path in MODULES.values():
    lines = path.read_text(encoding="utf-8").split("\n")
    for line, name, _ in imported_modules(path):
      if name in MODULES and lines[line - 1].strip() != f"import {name}":
        found.append(place(path, line))
  assert not found


def test_no_module_is_imported_by_a_computed_name():
  found = [
    place(path, call.lineno)
    for path in MODULES.values()
    for call in nodes(path, ast.Call)
    if ast.unparse(call.func) in ("importlib.import_module", "__import__")
  ]
  assert not found


# Sizes and first lines.


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_short_and_say_what_they_are(path):
  assert path.read_text(encoding="utf-8").count("\n") <= 600
  assert ast.get_docstring(TREES[path])


def test_functions_are_short():
  long = [
    f"{place(path, function.lineno)} {function.name}"
    for path in FILES
    for function in functions(path)
    if function.end_lineno - function.lineno >= 80
  ]
  assert not long


def test_functions_take_few_positional_arguments():
  """At most five, beside self; the others stand after `*`."""
  found = []
  for path in MODULES.values():
    for function in functions(path):
      arguments = function.args.posonlyargs + function.args.args
      names = [a.arg for a in arguments if a.arg not in ("self", "cls")]
      if len(names) > 5:
        found.append(f"{place(path, function.lineno)} {function.name}")
  assert not found


# Nothing is left out.


@pytest.mark.parametrize("noun", NOUNS)
def test_every_noun_has_its_tests(noun):
  assert (ROOT / "tests" / f"test_{noun}.py").exists()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_run_by_a_test(verb):
  runs = [
    path.name
    for path in ROOT.glob("tests/test_*.py")
    if re.search(rf'"{verb}(\.py)?"', path.read_text(encoding="utf-8"))
  ]
  assert runs


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_is_in_the_readme(verb):
  text = README.read_text(encoding="utf-8")
  missing = [
    f"--{name}"
    for name in sorted(flags_of(verb))
    if not re.search(rf"(--|`)(no)?{name}\b", text)
  ]
  assert not missing


def test_every_golden_area_is_described():
  areas = {path.name for path in GOLDEN.iterdir() if path.is_dir()}
  index = (GOLDEN / "README.md").read_text(encoding="utf-8")
  listed = set(re.findall(r"^\| \[(\w+)\]\(\1/README\.md\)", index, re.M))
  assert areas == listed
  assert {path.parent.name for path in GOLDEN.glob("*/README.md")} == areas


# What is written for readers.


def commands():
  """Yields (file, script, flags) of every command line shown to a reader."""
  for path in [README, ROOT / "Makefile", *MODULES.values()]:
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"\\\n", " ", text)
    for verb, rest in re.findall(r"\b(\w+)\.py((?: +--?\w.*)+)", text):
      if verb in VERBS:
        yield path.name, verb, re.findall(r"(?<!\S)--(\w+)", rest)


def test_commands_shown_to_readers_use_flags_that_exist():
  always = {"help", "helpfull", "flagfile", "alsologtostderr", "verbosity"}
  unknown = []
  for file, verb, flags in commands():
    known = flags_of(verb) | always
    for flag in flags:
      if flag not in known and flag.removeprefix("no") not in known:
        unknown.append(f"{file}: {verb}.py --{flag}")
  assert not unknown


def test_marks_of_the_original_can_be_found():
  """`grep -rn "the original:"` lists every quirk kept and every departure."""
  gap = r"\s+(?:# )?"
  mark = re.compile(
    rf"\b(unlike|as in){gap}the{gap}original\b(?!'s)", re.IGNORECASE
  )
  found = []
  for path in MODULES.values():
    text = path.read_text(encoding="utf-8")
    for match in mark.finditer(text):
      on_one_line = match[0].lower() == f"{match[1].lower()} the original"
      if not on_one_line or text[match.end()] != ":":
        found.append(place(path, text[: match.start()].count("\n") + 1))
  assert not found


def test_no_path_of_one_machine():
  texts = [
    path
    for pattern in ("*", "tests/*", "tests/golden/**/*.md", "benchmarks/*")
    for path in ROOT.glob(pattern)
    if path.suffix in (".py", ".md", ".sh", ".toml", ".ini", ".txt", "")
    and path.is_file()
    and path.name != ".git"  # A file in a linked working tree.
  ]
  own = re.compile(r"(?<![\w.])/(root|home|Users|work|mnt|media)/\w")
  found = [
    place(path, number)
    for path in texts
    for number, line in enumerate(
      path.read_text(encoding="utf-8").split("\n"), 1
    )
    if own.search(line)
  ]
  assert not found
