"""README.md and docs/: links, words, Python examples and the page of flags."""

import functools
import re
import shutil
import types

import pytest
import tensorflow as tf
from absl import flags

import heads
import make_flags
import serving_models
import table_work
from test_layout import FOLDERS, ROOT, SOURCES, VERBS, flags_of

README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("docs/*.md"))]
# docs/serving.md is left out: its example loads a model that needs an export.
PAGES_WITH_PYTHON = ["python.md", "migrating.md", "from_transformers.md"]
# Words that current technical English has replaced, in pages and code alike.
ARCHAIC = (
  "beside",
  "so many",
  "mend",
  "mended",
  "parted",
  "told apart",
  "tell apart",
  "is said",
  "aside",
  "learnt",
  "gone through",
  "white space parts",
)
CODE = sorted(
  path
  for pattern in ("*.py", "*/*.py", "Makefile", "*.sh")
  for path in ROOT.glob(pattern)
  if path.name != "test_docs.py"  # This file lists the words.
)


def anchors(text):
  """Returns the names that GitHub gives to the headings of a page."""
  titles = re.findall(r"^#+ (.*)$", text, re.M)
  return {
    re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles
  }


def test_the_readme_fits_on_a_few_screens():
  assert README.read_text(encoding="utf-8").count("\n") <= 300


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
  text = page.read_text(encoding="utf-8")
  for target in re.findall(r"\]\(((?!https?:)[^)\s]+)\)", text):
    name, _, anchor = target.partition("#")
    path = page.parent / name if name else page
    assert path.exists(), target
    if anchor:
      assert anchor in anchors(path.read_text(encoding="utf-8")), target


def test_the_readme_links_every_page():
  text = README.read_text(encoding="utf-8")
  for page in ROOT.glob("docs/*.md"):
    assert f"(docs/{page.name}" in text


def test_pictures_are_small():
  pictures = [*ROOT.glob("docs/**/*.png"), *ROOT.glob("docs/**/*.svg")]
  assert pictures
  assert all(path.stat().st_size < 100_000 for path in pictures)


@pytest.mark.parametrize("files", [PAGES, CODE], ids=["pages", "code"])
def test_texts_use_plain_words(files):
  archaic = re.compile(rf"\b({'|'.join(ARCHAIC)})\b", re.IGNORECASE)
  assert files
  uses = [
    f"{path.relative_to(ROOT)}:{number}: {match[0]}"
    for path in files
    for number, line in enumerate(
      path.read_text(encoding="utf-8").split("\n"), 1
    )
    for match in archaic.finditer(line)
  ]
  assert not uses


@pytest.fixture(scope="module")
def models(tmp_path_factory):
  """Returns a folder with the models and files that the pages name."""
  folder = tmp_path_factory.mktemp("models")
  for name in ("sample_bert_config.json", "tests"):
    (folder / name).symlink_to(ROOT / name)
  short = {"max_seq_length": 32}

  def labels(*names):
    return {"id2label": dict(enumerate(names))}

  for name, head, task in (
    ("released/uncased_L-12_H-768_A-12", None, {}),
    ("mrpc_output/final_model", "Classification", labels("0", "1")),
    ("stars_output/final_model", "Classification", labels("1", "5")),
    ("ner_output/final_model", "TokenClassification", labels("O", "B", "I")),
    (
      "nli_output/final_model",
      "Classification",
      labels("contradiction", "neutral", "entailment"),
    ),
    ("squad_output/final_model", "Span", {}),
    ("pretraining_output/final_model", "PreTraining", {}),
  ):
    stored = dict(short, text_pairs=True) if name[:4] == "mrpc" else short
    if head == "Span":
      stored = dict(short, max_query_length=8, doc_stride=8)
    serving_models.trained(
      folder / name,
      head and functools.partial(make_head, head, task),
      stored=stored,
      **task,
    )
  return folder


def make_head(name, task, config, bert):
  """Returns a head for an encoder, or both heads of pre-training."""
  if name == "PreTraining":
    both = (
      *heads.MaskedLMHead(config, bert.word_embeddings).variables,
      *heads.NextSentenceHead(config).variables,
    )
    return types.SimpleNamespace(variables=both)
  head_class = getattr(heads, f"{name}Head")
  return head_class(config, *([len(task["id2label"])] if task else []))


@pytest.mark.parametrize("name", PAGES_WITH_PYTHON)
def test_python_examples_run(name, models, tmp_path, monkeypatch):
  shutil.copytree(models, tmp_path, symlinks=True, dirs_exist_ok=True)
  monkeypatch.chdir(tmp_path)
  # The tests' process has two devices; a user's CPU is one.
  devices = tf.config.list_logical_devices
  monkeypatch.setattr(
    tf.config, "list_logical_devices", lambda kind: devices(kind)[:1]
  )
  text = (ROOT / "docs" / name).read_text(encoding="utf-8")
  blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
  assert blocks
  names = {}
  for block in blocks:
    exec(compile(block, name, "exec"), names)


def known_flags(script):
  """Returns the names of a script's flags; it may be in benchmarks/."""
  if script.removesuffix(".py") in VERBS:
    return flags_of(script.removesuffix(".py"))
  source = (ROOT / script).read_text(encoding="utf-8")
  # Some scripts take names of flags from a dict, which may be in table_work.
  if script == "benchmarks/table.py":
    source += "".join(f'"--{name}"' for name in table_work.DATA)
  pattern = r'DEFINE_\w+\(\s*"(\w+)"|"--(\w+)"|^ +"(\w+)": \('
  return {"".join(groups) for groups in re.findall(pattern, source, re.M)}


def test_commands_name_scripts_and_flags_that_exist():
  """Checks every command line in pages and in code."""
  script = r"(?<![\w/])((?:\w+/)*[a-z_]+\.py)"
  regex = re.compile(rf"python {script}([^|;&\n`]*)|{script}( +--\w[^|;&\n]*)")
  always = {"help", "helpfull", "flagfile", "alsologtostderr", "verbosity"}
  always |= {"completion"}
  count, unknown = 0, []
  for page in [*PAGES, ROOT / "Makefile", *SOURCES]:
    text = re.sub(r"\\\n", " ", page.read_text(encoding="utf-8"))
    for command in regex.finditer(text):
      script, rest = command[1] or command[3], command[2] or command[4] or ""
      count += 1
      assert (ROOT / script).exists(), f"{page.name}: {script}"
      known = known_flags(script) | always
      # Flags after a bare -- belong to another script.
      for flag in re.findall(r"(?<!\S)--(\w+)", rest.partition(" -- ")[0]):
        if flag not in known and flag.removeprefix("no") not in known:
          unknown.append(f"{page.name}: {script} --{flag}")
  assert count > 90 and not unknown


def test_commands_write_to_no_folder_of_the_project():
  """In a clone, --output_dir=squad would put a model next to squad's code."""
  ours = "|".join([*FOLDERS, "benchmarks", "docs", "tests"])
  regex = rf"--(?:output|export)\w*=(?:{ours})(?=[/\s`])"
  found = {
    page.name: matches
    for page in PAGES
    if (matches := re.findall(regex, page.read_text(encoding="utf-8")))
  }
  assert not found


@pytest.mark.parametrize(
  "define, default, meaning, line",
  [
    (flags.DEFINE_string, None, "A file.", "|  | A file. |"),
    (flags.DEFINE_list, [], "Names.", "|  | Names. |"),
    (flags.DEFINE_list, ["5", "2"], "Names.", "| `5,2` | Names. |"),
    (flags.DEFINE_bool, False, "Whether.", "| `false` | Whether. |"),
    (flags.DEFINE_float, 5e-05, "Rate.", "| `5e-05` | Rate. |"),
    (
      functools.partial(flags.DEFINE_integer, lower_bound=0),
      2,
      "Steps.",
      "| `2` | Steps. (a non-negative integer) |",
    ),
    (flags.DEFINE_multi_string, [], "A\n  <text>", "|  | A &lt;text> |"),
    (
      functools.partial(flags.DEFINE_enum, enum_values=["cls", "mean"]),
      "cls",
      "One | more.",
      r"| `cls` | One of `cls`, `mean`. One \| more. |",
    ),
  ],
)
def test_a_flag_is_a_row_of_a_table(define, default, meaning, line):
  flag_values = flags.FlagValues()
  define(name="a", default=default, help=meaning, flag_values=flag_values)
  assert make_flags.row(flag_values["a"]) == f"| `--a` {line}"


def test_a_changed_page_is_shown_line_by_line():
  assert make_flags.differences("a\nb\nc", "a\nB\nc") == ["- b", "+ B"]
  assert not make_flags.differences("a\nb", "a\nb")
