"""--text answers as Python does: every script, flags and standard input."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import modeling
import script_runner
import serving_models
import test_head_answers
import test_layout
from common import console, errors, run_settings
from message_facts import says
from serving import text_flags, text_models
from test_head_answers import PAIRS, ROWS, SECOND, TEXTS, assert_same

trained = test_head_answers.trained
SCRIPTS = {
  "classification": "run_classifier.py",
  "embedding": "extract_features.py",
  "span": "run_squad.py",
  "sparse": "extract_features.py",
  "tagging": "run_ner.py",
}


def answers_in(output):
  """Returns the values of lines of JSON; of a dict with one key, its value."""
  answers = [json.loads(line) for line in output.splitlines()]
  return [
    next(iter(answer.values())) if len(answer) == 1 else answer
    for answer in answers
  ]


def ask(folder, head, **flags):
  """Returns the answers that a head's script prints."""
  done = script_runner.succeed(SCRIPTS[head], model_dir=folder, **flags)
  assert "Traceback" not in done.err
  return answers_in(done.out)


def expected(name, trained):
  """Returns a row's folder and its answers in Python."""
  row, (folder, answers) = ROWS[name], trained(name)
  if name == "tags":  # The script has no flag for other words.
    answers = text_models.load(folder).tag(row.rows())
    # serve.py and this script also count the words.
    answers = [{**a, "num_words": len(a["words"])} for a in answers]
  return folder, answers


@pytest.mark.parametrize(
  "name", [name for name, row in ROWS.items() if row.head in SCRIPTS]
)
def test_flags_are_answered_in_order(name, trained):
  row, (folder, answers) = ROWS[name], expected(name, trained)
  flags = {**row.flags, "sparse": row.head == "sparse" or None}
  names = {"text_a": "text", "text_b": "text_b"}
  texts = {names.get(n, n): list(values) for n, values in row.texts.items()}
  assert_same(ask(folder, row.head, **texts, **flags), answers)


@pytest.mark.parametrize("name, separator", [("pairs", "\t"), ("tags", "")])
def test_standard_input_is_answered_line_by_line(name, separator, trained):
  row, (folder, answers) = ROWS[name], expected(name, trained)
  lines = [separator.join(texts) + "\r\n" for texts in zip(*row.texts.values())]
  # More lines than are answered together.
  count = 300 // len(lines) + 1
  stdin = ("".join(lines) * count).encode()
  found = ask(folder, row.head, text="-", stdin=stdin, do_predict=True)
  assert_same(found, answers * count)


def test_one_context_serves_all_questions(trained):
  folder, _ = trained("span")
  questions, context = ["who was it?", "which street"], "he was in it"
  bert = text_models.load(folder)
  stdin = "".join(f"{question}\n" for question in questions).encode()
  flags = {"question": "-", "context": context, "stdin": stdin}
  assert_same(
    ask(folder, "span", **flags), bert.answer(questions, [context] * 2)
  )
  ((answer,),) = [ask(folder, "span", question=questions[0], context=context)]
  assert_same(answer, bert.answer(questions[0], context))


def test_similarity_and_pairs_of_vectors(trained):
  folder, _ = trained("vectors")
  bert = text_models.load(folder, pooling="mean")
  unit = [bert.embed(texts, normalize=True) for texts in (TEXTS, SECOND)]
  cosines = (unit[0] * unit[1]).sum(1).tolist()
  lines = "".join(f"{a} ||| {b}\n" for a, b in zip(TEXTS, SECOND)).encode()
  flags = {"text": "-", "stdin": lines, "pooling": "mean"}
  assert_same(ask(folder, "embedding", similarity=True, **flags), cosines)
  pairs = bert.embed([*zip(TEXTS, SECOND)], text_pairs=True).tolist()
  assert_same(ask(folder, "embedding", **flags), pairs)


def test_vectors_have_the_digits_of_float32(trained):
  """All bits, as in Python, but half of the bytes of a float64."""
  folder, _ = trained("vectors")
  (found,) = ask(folder, "embedding", text=TEXTS[0], pooling="mean")
  vector = text_models.load(folder, pooling="mean").embed(TEXTS[0])
  assert found == [float(str(value)) for value in vector]
  assert np.array_equal(np.array(found, np.float32), vector)


def test_an_export_answers_without_tensorflow(trained, tmp_path):
  pytest.importorskip("onnxruntime")
  folder, answers = trained("pairs")
  export = tmp_path / "out"
  flags = {"head": "classification", "format": "onnx", "export_dir": export}
  script_runner.succeed("export_saved_model.py", model_dir=folder, **flags)
  # The others take time to import, and only bars and pools need them.
  code = (
    "import runpy, sys; unused = 'tensorflow tqdm multiprocessing'.split(); "
    "sys.modules.update(dict.fromkeys(unused)); "
    "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
  )
  lines = "".join(f"{a}\t{b}\n" for a, b in zip(*PAIRS.values()))
  done = subprocess.run(
    [sys.executable, "-c", code, "run_classifier.py", "--text=-"]
    + [f"--model_dir={export}"],
    input=lines,
    capture_output=True,
    text=True,
    cwd=test_layout.ROOT,
  )
  assert done.returncode == 0
  # Only the count of texts that were cut.
  assert re.fullmatch(r".* 2 of 5 texts are longer than 32 .*\n", done.stderr)
  assert_same(answers_in(done.stdout), answers)


def test_a_typed_text_is_answered_before_the_next(tmp_path):
  """Lines are read while the process waits for more."""
  model = serving_models.trained(
    tmp_path / "model",
    serving_models.classifier(3),
    stored={"max_seq_length": 16},
    id2label=serving_models.label_names("a", "b", "c"),
  )
  command = ["run_classifier.py", "--text=-", f"--model_dir={model}"]
  with subprocess.Popen(
    [sys.executable, *command],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    cwd=test_layout.ROOT,
    text=True,
    bufsize=1,
  ) as process:
    for text in ("the street", "it is up"):
      process.stdin.write(f"{text}\n")
      assert "label" in json.loads(process.stdout.readline())
    process.stdin.close()
    assert not process.stdout.read()
  assert process.returncode == 0


@pytest.mark.parametrize(
  "script, message, flags",
  [
    (
      "run_classifier.py",
      "so --do_train, --output_dir would have no effect",
      {"text": "a", "do_train": True, "output_dir": "out"},
    ),
    ("run_classifier.py", "0 --text, but 1 --text_b", {"text_b": "a"}),
    ("run_squad.py", "2 --question, but 3", {"question": 2, "context": 3}),
    ("run_squad.py", "- is given twice", {"question": "-", "context": "-"}),
    ("run_ner.py", "--text: an empty text", {"text": ["x", " "]}),
    ("run_ner.py", "not to tag words", {"text": "x", "model": "classes"}),
    ("run_classifier.py", "takes 2 texts", {"text": "x", "model": "pairs"}),
    (
      "run_classifier.py",
      "takes 1 text:",
      {"text": "x", "text_b": "y", "model": "classes"},
    ),
    ("run_ner.py", "standard input:2: not UTF-8", {"stdin": b"x\n\xff\n"}),
    ("run_squad.py", "=auto: expected a number", {"threshold": "auto"}),
  ],
)
def test_mistakes_are_named(script, message, flags, trained):
  model = {"run_ner.py": "tags", "run_squad.py": "span"}.get(script, "classes")
  folder, _ = trained(flags.get("model", model))
  flags = {
    name: ["a"] * value if isinstance(value, int) and value > 1 else value
    for name, value in flags.items()
    if name != "model"
  }
  if "stdin" in flags:
    flags["text"] = "-"
  if flags.pop("threshold", None):
    flags.update(
      question="a",
      context="a",
      version_2_with_negative=True,
      null_score_diff_threshold="auto",
    )
  done = script_runner.refuse(script, message, model_dir=folder, **flags)
  assert len(done.out.splitlines()) == ("stdin" in flags)


PAIR = ("--text", ("a", "b"))


@pytest.mark.parametrize(
  "first, second, count, expected",
  [
    ("a", "", 1, [("--text", ("a",))]),
    ("a,b", "", 1, [("--text", ("a",)), ("--text", ("b",))]),
    # Only a model of pairs splits a line at a tab.
    ("a\tb", "", 2, [PAIR]),
    ("a\tb", "", 1, [("--text", ("a\tb",))]),
    ("a\tb", "", 0, [("--text", ("a\tb",))]),
    ("a ||| b", "", 2, [PAIR]),
    ("a ||| b", "", 0, [PAIR]),
    ("a ||| b", "", 1, [("--text", ("a ||| b",))]),
    ("a\tb ||| c", "", 2, [("--text", ("a", "b ||| c"))]),
    # One text may be for all examples.
    ("a", "b", 2, [("--text_b", ("a", "b"))]),
    ("a,c", "b", 2, [("--text_b", ("a", "b")), ("--text_b", ("c", "b"))]),
    ("a", "b,c", 0, [("--text_b", ("a", "b")), ("--text_b", ("a", "c"))]),
    ("a,c", "b,d", 2, [("--text_b", ("a", "b")), ("--text_b", ("c", "d"))]),
    ("-", "b", 2, [("input:1", ("x", "b")), ("input:2", ("y", "b"))]),
    ("a", "-", 2, [("input:1", ("a", "x")), ("input:2", ("a", "y"))]),
    ("a", "", 2, "--text --text_b 2"),
    ("-", "", 2, "input:1 2"),
    ("a", "b", 1, "--text 1"),
  ],
)
def test_texts_of_two_flags_are_put_together(
  first, second, count, expected, monkeypatch
):
  monkeypatch.setattr(text_flags, "_names", ["text", "text_b"])
  lines = [("input:1", "x"), ("input:2", "y")]
  monkeypatch.setattr(text_flags.standard_input, "lines", lambda: iter(lines))
  settings = run_settings.Settings(
    {
      "text": first.split(",") if first else [],
      "text_b": second.split(",") if second else [],
    }
  )
  examples = text_flags._examples(settings, count)
  if isinstance(expected, str):
    with pytest.raises(errors.InputError, match=says(*expected.split())):
      list(examples)
    return
  found = [(place, tuple(texts)) for place, texts in examples]
  # A place of standard input says more than the name of a flag.
  assert [texts for _, texts in found] == [texts for _, texts in expected]
  assert [place for place, _ in found] == [place for place, _ in expected]


class Loaded:
  """A model that answers with its texts; `loads` records how it is loaded."""

  tokenizer = None

  def __init__(self, stored, loads):
    values = {**serving_models.config().to_dict(), "input_settings": stored}
    self.config, self._loads = modeling.BertConfig.from_dict(values), loads
    self.texts = ["text"]

  def load(self, folder, **options):
    self._loads.append((folder, options))
    self.texts = ["text_a", "text_b"][: 1 + options.get("text_pairs", False)]
    return self

  def servable(self, head):
    self._loads.append(head)
    return self

  def answerer(self):
    return lambda rows: [{"texts": row} for row in rows]


@pytest.mark.parametrize(
  "flags, stored, is_export, loads",
  [
    ({}, {}, False, [{"batch_size": 32}]),
    ({"batch_size": 7}, {}, False, [{"batch_size": 7}]),
    ({"predict_batch_size": 9}, {}, False, [{"batch_size": 9}]),
    (
      {"null_score_diff_threshold": "1.5"},
      {},
      False,
      [{"batch_size": 32, "null_score_diff_threshold": 1.5}],
    ),
    # Another program's classifier does not tell whether it takes pairs.
    (
      {"text_b": ["b"]},
      {},
      False,
      [{"batch_size": 32}, {"batch_size": 32, "text_pairs": True}],
    ),
    ({"text_b": ["b"]}, {"max_seq_length": 9}, False, "takes 1 text"),
    ({"text_b": ["b"]}, {}, True, "takes 1 text"),
  ],
)
def test_how_the_model_of_texts_is_loaded(
  flags, stored, is_export, loads, monkeypatch, capsys
):
  found = []
  monkeypatch.setattr(text_flags, "_names", ["text", "text_b"])
  monkeypatch.setattr(text_flags, "is_export", lambda: is_export)
  monkeypatch.setattr(text_models, "load", Loaded(stored, found).load)
  given = {"text": ["a"], "model_dir": "m", **flags}
  settings = run_settings.Settings(given, set(given))
  with console.session():
    if isinstance(loads, str):
      with pytest.raises(errors.InputError, match=loads):
        text_flags._print_answers(settings, "classification")
      return
    text_flags._print_answers(settings, "classification")
  assert found == [*(("m", options) for options in loads), "classification"]
  texts = ["a", *flags.get("text_b", [])]
  assert json.loads(capsys.readouterr().out) == {"texts": texts}
