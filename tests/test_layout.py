"""Checks the project's conventions in all of its source files.

Scripts (verbs) are run and never imported. Modules (nouns) are imported and
define no flags. New files are found automatically.
"""

import ast
import functools
import graphlib
import re
import subprocess

import pytest

import make_flags
import script_flags
from common import command, flags
from script_runner import ROOT

GOLDEN = ROOT / "tests" / "golden"
FLAGS_PAGE = ROOT / "docs" / "flags.md"
FOLDERS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
SOURCES = sorted(
  path
  for path in [
    *ROOT.glob("*.py"),
    *(path for name in FOLDERS for path in (ROOT / name).rglob("*.py")),
  ]
  if path.name not in ("setup.py", "bert_tf2.py")
)
FILES = [
  *SOURCES,
  ROOT / "setup.py",
  ROOT / "bert_tf2.py",
  *ROOT.glob("tests/*.py"),
  *ROOT.glob("benchmarks/*.py"),
  *ROOT.glob("docs/*.py"),
]

# Limits on lines, and on the entries of the root.
FUNCTION, FILE, SCRIPT, ENTRIES = 80, 680, 380, 50

# The folders that the files of each folder may import, besides their own.
# "" is the root: modeling, tokenization, optimization and related modules.
TASKS = ("classification", "features", "pretraining", "squad", "tagging")
BELOW_TASKS = [
  "common",
  "",
  "variants",
  "checkpoints",
  "text",
  "records",
  "running",
  "training",
]
MAY_IMPORT = {
  "common": [],
  "": ["common", "text"],  # tokenization imports `text`, which needs no root.
  "variants": ["common", ""],
  # The flag --model_dir also names exports; --download reads a catalogue.
  "checkpoints": ["common", "", "variants", "engines", "reproduction"],
  "text": ["common"],
  "records": ["common", "", "text"],
  "running": ["common"],
  "training": [
    "common",
    "",
    "variants",
    "checkpoints",
    "text",
    "records",
    "running",
  ],
  "engines": ["common"],
  # These call the task folders to compute answers.
  "answering": [*BELOW_TASKS, *TASKS],
  "exports": [*BELOW_TASKS, *TASKS, "engines", "answering"],
  "serving": [*BELOW_TASKS, *TASKS, "engines", "answering", "exports"],
  "web": ["common", "answering", "classification"],
  "reproduction": ["common"],
  **{task: BELOW_TASKS for task in TASKS},
}


VERBS = {
  path.stem: path
  for path in SOURCES
  if '\nif __name__ == "__main__":\n' in path.read_text(encoding="utf-8")
}
NOUNS = [path for path in SOURCES if path not in VERBS.values()]
EXTENSIONS = [
  path
  for path in NOUNS
  if len(path.relative_to(ROOT).parts) == 3 and path.stem != "__init__"
]
MODULES = {path.stem for path in NOUNS if path.parent == ROOT}


@functools.cache
def tree_of(path):
  return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path, *types):
  """Returns all syntax nodes of the given types in a file."""
  return [node for node in ast.walk(tree_of(path)) if isinstance(node, types)]


def folder_of(path):
  """Returns the name of a source file's folder in the root, "" for the root.

  Folders of extensions belong to the folder that they are in.
  """
  return "" if path.parent == ROOT else path.relative_to(ROOT).parts[0]


def imported_modules(path):
  """Yields (line, first part of the module's name, node) of every import."""
  for node in nodes(path, ast.Import, ast.ImportFrom):
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    else:
      names = [node.module or ""]
    for name in names:
      yield node.lineno, name.split(".")[0], node


def place(path, line):
  return f"{path.relative_to(ROOT)}:{line}"


@functools.cache
def flags_of(verb):
  """Returns the names of all flags of a script, shared groups included."""
  with script_flags.defined(verb) as names:
    return {"verbose", *names}


def test_the_root_shows_the_whole_project():
  """`ls` shows the architecture."""
  uncounted = {"build", "dist", "out", "quickstart", "__pycache__"}
  # Files that every project has do not count.
  uncounted |= {"CHANGELOG.md", "CITATION.cff", "LICENSE"}
  uncounted |= {"pyproject.toml", "setup.py"}
  entries = {
    path.name
    for path in ROOT.iterdir()
    if path.name[0] != "." and path.suffix != ".egg-info"
  }
  assert {"modeling.py", "README.md", "tests"} <= entries
  assert len(entries - uncounted) <= ENTRIES, sorted(entries - uncounted)


def test_no_environment_is_in_the_repository():
  """A tracked .venv would replace each developer's own."""
  tracked = subprocess.run(
    ["git", "ls-files", ".venv"], cwd=ROOT, capture_output=True, text=True
  )
  assert not tracked.stdout, "run git rm --cached .venv"


# Nouns and verbs.


def test_verbs_are_never_imported():
  assert NOUNS and VERBS
  violations = [
    f"{place(path, line)} imports {name}"
    for path in FILES
    for line, name, _ in imported_modules(path)
    if name in VERBS
  ]
  assert not violations


def test_only_scripts_and_flag_modules_use_flags():
  violations = []
  for path in NOUNS:
    if path.stem.endswith("flags") or path.stem == "command":
      continue
    for node in nodes(path, ast.Import, ast.ImportFrom):
      if re.search(r"import.*\b(\w+_)?flags\b", ast.unparse(node)):
        violations.append(place(path, node.lineno))
    for node in nodes(path, ast.Name, ast.Attribute):
      if "FLAGS" in (getattr(node, "id", ""), getattr(node, "attr", "")):
        violations.append(place(path, node.lineno))
  assert not violations


def test_folders_import_what_the_table_allows():
  assert set(MAY_IMPORT) == {"", *FOLDERS}
  violations = [
    f"{place(path, line)} imports {name}"
    for path in NOUNS
    for line, name, _ in imported_modules(path)
    if name in FOLDERS or name in MODULES
    if (name if name in FOLDERS else "")
    not in (folder_of(path), *MAY_IMPORT[folder_of(path)])
  ]
  assert not violations


def test_no_file_imports_itself_through_other_files():
  imports = {path: {*project_modules(path).values()} for path in SOURCES}
  # Take out files that import none of the rest, until all that is left is in a
  # circle or imports one.
  while free := [path for path, others in imports.items() if not others]:
    for path in free:
      del imports[path]
    for others in imports.values():
      others.difference_update(free)
  assert not {str(p.relative_to(ROOT)) for p in imports}


def test_no_files_import_each_other_in_a_circle():
  """Directly or through others; imports inside functions count too."""
  imports = {path: set(project_modules(path).values()) for path in NOUNS}
  assert ROOT / "layers.py" in imports[ROOT / "modeling.py"]
  graphlib.TopologicalSorter(imports).prepare()  # A CycleError has the circle.


def test_only_the_keras_layer_imports_keras():
  assert [
    path.name
    for path in SOURCES
    if any(name == "keras" for _, name, _ in imported_modules(path))
  ] == ["keras_layer.py"]


def test_imports_have_the_form_that_the_wheel_rewrites():
  """Allowed: `import modeling` on its own line, `from squad import answers`."""
  violations = []
  for path in SOURCES:
    lines = path.read_text(encoding="utf-8").split("\n")
    for line, name, node in imported_modules(path):
      text = lines[line - 1].strip()
      is_plain = name not in MODULES or text == f"import {name}"
      if name in FOLDERS:
        is_plain = bool(re.match(rf"from {name}(\.\w+)? import ", text))
      if not is_plain or getattr(node, "level", 0):
        violations.append(place(path, line))
  assert not violations


def test_a_module_has_one_name_wherever_it_is_imported():
  """For squad/model.py, the names are `model`, `models` and `squad_model`."""
  violations = [
    f"{place(path, node.lineno)} {alias.name} as {alias.asname}"
    for path in FILES
    for _, name, node in imported_modules(path)
    if name in FOLDERS or name in MODULES
    for alias in node.names
    if alias.asname not in (None, f"{alias.name}s", f"{name}_{alias.name}")
  ]
  assert not violations


def test_only_extensions_are_imported_by_a_computed_name():
  violations = [
    place(path, call.lineno)
    for path in SOURCES
    if path != ROOT / "common" / "extensions.py"
    for call in nodes(path, ast.Call)
    if ast.unparse(call.func) in ("importlib.import_module", "__import__")
  ]
  assert not violations


# Sizes and first lines.


def test_the_page_for_contributors_states_the_limits():
  page = (ROOT / "docs" / "CONTRIBUTING.md").read_text(encoding="utf-8")
  assert (
    f"(at most {FUNCTION}), files at most {FILE}, scripts at most {SCRIPT}; "
    f"the root has at most {ENTRIES} entries."
  ) in " ".join(page.split())


def test_files_are_short_and_say_what_they_are():
  for path in FILES:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= (SCRIPT if path in VERBS.values() else FILE), path
    assert ast.get_docstring(tree_of(path)), path


def test_scripts_report_a_users_errors_in_one_sentence():
  for path in VERBS.values():
    assert "command.run(main" in path.read_text(encoding="utf-8"), path


def test_functions_are_short():
  lengths = {
    f"{place(path, function.lineno)} {function.name}": function.end_lineno
    - function.lineno
    + 1
    for path in FILES
    for function in nodes(path, ast.FunctionDef)
  }
  assert not [name for name, length in lengths.items() if length > FUNCTION]
  assert sorted(lengths.values())[len(lengths) * 9 // 10] <= 30


# Arguments that stand for much: their type says what a function may read.
WIDE = {"settings", "config", "files", "vocabulary"}


def test_functions_have_types():
  """All have some, of 100 at least 85 have all, and so do wide arguments."""
  faults, num_partly, count = [], 0, 0
  for path in SOURCES:
    for function in nodes(path, ast.FunctionDef):
      arguments = [
        argument
        for argument in ast.walk(function.args)
        if isinstance(argument, ast.arg) and argument.arg not in ("self", "cls")
      ]
      untyped = {each.arg for each in arguments if not each.annotation}
      has_result = function.returns or function.name == "__init__"
      count += 1
      num_partly += bool(untyped or not has_result)
      nothing = len(untyped) == len(arguments) and not function.returns
      is_bare_init = function.name == "__init__" and not arguments
      if untyped & WIDE or (nothing and not is_bare_init):
        faults.append(f"{place(path, function.lineno)} {function.name}")
  assert not faults
  assert num_partly <= 0.15 * count


# The files that put a run, a served model or an export together. Below them,
# settings are read once, by a function `of` or `..._of`, and become typed.
READ_SETTINGS = {
  "answering": "answers export_settings models zero_shot",
  "checkpoints": "model_files",
  "classification": "bi_encoder data job model task",
  "common": "overwriting run_settings",
  "exports": "export_folder exported_network network_export",
  "features": "text_vectors",
  "running": "__init__ html_page model_card search_flags seed_flags",
  "serving": "engine_choice exported_classifier text_flags text_models "
  "trained_model",
  "squad": "answerer job",
  "tagging": "inputs",
  "training": "harness run_setup",
}


def test_only_what_puts_a_run_together_reads_settings():
  readers = {}
  for path in NOUNS:
    for function in nodes(path, ast.FunctionDef):
      takes = any(
        "Settings" in ast.unparse(argument.annotation)
        for argument in ast.walk(function.args)
        if isinstance(argument, ast.arg) and argument.annotation
      )
      if takes and not re.fullmatch(r"(\w+_)?of", function.name):
        readers.setdefault(folder_of(path), set()).add(path.stem)
  assert readers == {
    folder: set(stems.split()) for folder, stems in READ_SETTINGS.items()
  }


def test_functions_take_few_positional_arguments():
  """At most five, not counting self; the others are keyword-only."""
  violations = []
  for path in SOURCES:
    for function in nodes(path, ast.FunctionDef):
      arguments = function.args.posonlyargs + function.args.args
      names = [a.arg for a in arguments if a.arg not in ("self", "cls")]
      if len(names) > 5:
        violations.append(f"{place(path, function.lineno)} {function.name}")
  assert not violations


# Completeness.


def node_module(node):
  """Returns the module of a `from` import, "" for a plain import."""
  return getattr(node, "module", None) or ""


@functools.cache
def project_modules(path):
  """Returns {name: path} of the project's modules that a file imports."""
  modules = {}
  for _, _, node in imported_modules(path):
    source = node_module(node)
    for alias in node.names:
      module = ROOT / source.replace(".", "/") / alias.name
      for file in (module.with_suffix(".py"), module / "__init__.py"):
        if file in FILES:
          modules[alias.asname or alias.name] = file
  return modules


def references(path, node):
  """Yields (file, name) of each definition that a piece of code refers to.

  Code refers to names of its own file and to `module.name` of its imports.
  """
  modules = project_modules(path)
  for part in ast.walk(node):
    if isinstance(part, ast.Name):
      yield path, part.id
    elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
      if part.value.id in modules:
        yield modules[part.value.id], part.attr
    elif isinstance(part, ast.ImportFrom):
      # `from tiny_model import tiny`
      module = ROOT / f"{part.module}.py"
      for alias in part.names:
        yield module, alias.name


def test_every_public_function_is_reached_by_a_test():
  """A test or a script uses it directly or through other definitions."""
  uses = {}  # (file, definition): {(file, name) that it refers to}
  for path in NOUNS:
    for node in tree_of(path).body:
      names = [getattr(node, "name", None)]
      if isinstance(node, ast.Assign):
        names = [t.id for t in node.targets if isinstance(t, ast.Name)]
      for name in names:
        uses.setdefault((path, name), set()).update(references(path, node))
  waiting = set().union(
    *(
      references(path, tree_of(path))
      for path in [*ROOT.glob("tests/*.py"), *VERBS.values()]
    ),
    *(names for (_, owner), names in uses.items() if owner is None),
    # An extension is imported by its name alone, see common/extensions.py.
    *({(path, owner)} for path, owner in uses if path in EXTENSIONS),
  )
  reached = set()
  while waiting:
    definition = waiting.pop()
    if definition not in reached:
      reached.add(definition)
      waiting |= uses.get(definition, set())
  missing = [
    f"{path.relative_to(ROOT)}: {name}"
    for path in NOUNS
    for node in tree_of(path).body
    if isinstance(node, (ast.FunctionDef, ast.ClassDef))
    if (name := node.name)[0] != "_" and (path, name) not in reached
  ]
  assert not missing


# What the original has: other extensions may build on it.
ORIGINAL = {"masked_lm", "next_sentence", "encoder"}


@pytest.mark.parametrize("path", EXTENSIONS, ids=str)
def test_every_extension_is_named_by_a_test_and_by_no_other_file(path):
  """Deleting the file removes the capability, and breaks no other file."""
  tests = [file.read_text("utf-8") for file in ROOT.glob("tests/test_*.py")]
  assert any(re.search(rf"\b{path.stem}\b", text) for text in tests)
  if path.stem in ORIGINAL:
    return
  importers = [
    place(other, node.lineno)
    for other in SOURCES
    for _, _, node in imported_modules(other)
    for alias in node.names
    if ROOT / (node_module(node).replace(".", "/")) / f"{alias.name}.py" == path
  ]
  assert not importers


# The folders whose files flags name.
NAMED = (
  *("objectives", "networks", "maskings", "packings", "splitters"),
  "losses",
)
# Words of other subjects, too: in the code of pre-training, they are names in
# quotation marks. The last is a part of the names of weights, too.
COMMON_WORDS = ("phrases", "spans", "punctuation", "replaced_tokens")


@pytest.mark.parametrize(
  "path",
  [
    path
    for path in EXTENSIONS
    if path.parent.name in NAMED and path.stem not in ORIGINAL
  ],
  ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_no_other_code_speaks_of_an_extension(path):
  """Deleting the file leaves no trace of the capability in other code."""
  # The scripts' default, and the left-to-right model's; tables with soft labels
  # are read by classification/soft_labels.py.
  defaults = ("sentence_pairs", "pieces", "whole_words", "next_word")
  if path.stem in (*defaults, "soft_labels"):
    return
  names, files = rf"\b{path.stem}\b", SOURCES
  if path.stem in COMMON_WORDS:
    names = rf"""["']{path.stem}["']|import {path.stem}\b"""
    files = [
      file
      for file in SOURCES
      if "pretraining" in file.relative_to(ROOT).as_posix()
    ]
  spoken = [
    place(other, number)
    for other in files
    # An objective and its packing may have one name.
    if other.stem != path.stem
    for number, line in enumerate(other.read_text("utf-8").split("\n"), 1)
    if re.search(names, line)
  ]
  assert not spoken


def test_every_verb_is_run_by_a_test():
  tests = [path.read_text("utf-8") for path in ROOT.glob("tests/test_*.py")]
  for verb in VERBS:
    assert any(re.search(rf'"{verb}(\.py)?"', text) for text in tests), verb


@pytest.mark.parametrize("verb", VERBS)
def test_the_page_of_flags_has_every_flag_as_it_is(verb):
  """Its default, its range, its choices and its rules, and no other flag."""
  with script_flags.defined(verb):
    command.define_verbose()
    now = make_flags.section(f"{verb}.py", flags.of_script())
  page = FLAGS_PAGE.read_text(encoding="utf-8")
  (section,) = [
    text
    for text in re.split(r"\n(?=## )", page)
    if text.startswith(f"## `{verb}.py`")
  ]
  changed = "\n".join(make_flags.differences(section, now))
  hint = "docs/flags.md is old: run python docs/make_flags.py (make docs)"
  assert section.rstrip() == now.rstrip(), f"{hint}\n{changed}"


def test_every_golden_area_is_described():
  areas = {path.name for path in GOLDEN.iterdir() if path.is_dir()}
  index = (GOLDEN / "README.md").read_text(encoding="utf-8")
  listed = set(re.findall(r"^\| \[(\w+)\]\(\1/README\.md\)", index, re.M))
  assert areas == listed
  assert {path.parent.name for path in GOLDEN.glob("*/README.md")} == areas


# Comments and docs.


def test_marks_of_the_original_can_be_found():
  """`grep -rn "the original:"` lists every kept quirk and every departure."""
  gap = r"\s+(?:# )?"
  mark = re.compile(
    rf"\b(unlike|as in){gap}the{gap}original\b(?!'s)", re.IGNORECASE
  )
  violations = []
  for path in SOURCES:
    text = path.read_text(encoding="utf-8")
    for match in mark.finditer(text):
      on_one_line = match[0].lower() == f"{match[1].lower()} the original"
      if not on_one_line or text[match.end()] != ":":
        violations.append(place(path, text[: match.start()].count("\n") + 1))
  assert not violations


def test_no_path_of_one_machine():
  texts = SOURCES + [
    path
    for pattern in (
      "*",
      "tests/*",
      "tests/golden/**/*.md",
      "benchmarks/*",
      "docs/*",
    )
    for path in ROOT.glob(pattern)
    if path.suffix in (".py", ".md", ".sh", ".toml", ".ini", ".txt", "")
    and path.is_file()
    and path.name != ".git"  # A file in a linked working tree.
  ]
  machine_path = re.compile(r"(?<![\w.])/(root|home|Users|work|mnt|media)/\w")
  violations = [
    place(path, number)
    for path in texts
    for number, line in enumerate(
      path.read_text(encoding="utf-8").split("\n"), 1
    )
    if machine_path.search(line)
  ]
  assert not violations
