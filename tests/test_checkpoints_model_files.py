"""What a model's files say: its heads, and each file once."""

import collections
import json
import pathlib
import types

import pytest

import modeling
import script_runner
import serving_models
import tiny_model
from checkpoints import model_files, model_folder
from common import errors, file_io, flag_values, run_settings
from script_runner import ROOT
from serving import text_models
from serving_models import (
  classifier,
  label_names,
  mask_filler,
  pair_scorer,
  span,
  tagger,
)

GOLDEN = ROOT / "tests" / "golden"
CLASSES = label_names("mixed", "negative", "positive")
TAGS = label_names("O", "B-PER", "I-PER")
# (function that makes the head, entries of the configuration).
MODELS = {
  "classification": (
    classifier(3),
    {"id2label": CLASSES, "problem_type": "single_label_classification"},
  ),
  "tagging": (tagger, {"id2label": TAGS}),
  "span": (span, {}),
  "masked_lm": (mask_filler, {}),
  "next_sentence": (pair_scorer, {}),
  "embedding": (None, {}),
}
STORED = {"tagging": {"max_seq_length": 16, "scheme": "iob2"}}
MESSAGES = {
  "classification": r"was trained to classify \(mixed, negative, positive\), ",
  "tagging": r"was trained to tag words \(O, B-PER, I-PER\), not to ",
  "span": "was trained to answer questions, not to ",
  "masked_lm": r"was trained to fill in \[MASK\], not to ",
  "next_sentence": "was trained to tell whether a text follows, not to ",
  "embedding": "is only an encoder; train the head first ",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
  by_head = {}
  for head, (make, task) in MODELS.items():
    by_head[head] = serving_models.trained(
      tmp_path_factory.mktemp(head) / "model",
      make,
      stored=STORED.get(head, {"max_seq_length": 16}),
      **task,
    )
  return by_head


def settings_of(folder, **changes):
  return run_settings.Settings(
    {
      "model_dir": str(folder),
      "init_checkpoint": str(folder),
      "bert_config_file": str(folder / "bert_config.json"),
      **changes,
    }
  )


@pytest.mark.parametrize("trained", MODELS)
@pytest.mark.parametrize("head", flag_values.SERVING_HEADS)
def test_a_head_is_used_only_for_its_task(folders, trained, head):
  settings = settings_of(folders[trained])
  assert model_files.ModelFiles.of(settings).head == trained
  if head in (trained, "embedding") or (trained, head) == (
    "masked_lm",
    "sparse",
  ):
    model_files.ModelFiles.of(settings).require(head)
    return
  with pytest.raises(errors.InputError, match=MESSAGES[trained]):
    model_files.ModelFiles.of(settings).require(head)


PREDICTION_FLAGS = {
  "do_predict": True,
  "predict_file": "README.md",
  "output_dir": "nowhere",
}


@pytest.mark.parametrize(
  "script, trained, flags",
  [
    ("run_squad.py", "classification", PREDICTION_FLAGS),
    ("run_ner.py", "classification", PREDICTION_FLAGS),
    ("run_classifier.py", "tagging", PREDICTION_FLAGS),
    ("run_classifier.py", "span", PREDICTION_FLAGS),
    ("fill_mask.py", "embedding", {"text": "the [MASK]"}),
    (
      "export_saved_model.py",
      "classification",
      {"head": "span", "export_dir": "nowhere"},
    ),
  ],
)
def test_scripts_say_what_the_model_does(folders, script, trained, flags):
  message = MESSAGES[trained].replace("\\", "").removesuffix(", ").strip()
  finished = script_runner.refuse(
    script, message, model_dir=folders[trained], **flags
  )
  assert finished.out == ""


def test_the_head_of_the_runs_own_checkpoint_is_not_checked(folders, tmp_path):
  settings = settings_of(folders["span"], output_dir=str(tmp_path))
  with pytest.raises(errors.InputError):
    model_files.ModelFiles.of(settings).require("tagging")
  (tmp_path / "model.ckpt-7.index").write_text("")
  model_files.ModelFiles.of(settings).require("tagging")


def test_a_head_of_unknown_task_may_classify_or_tag(folders, tmp_path):
  """The original's classifiers, for example, store no classes."""
  folder = folders["classification"]
  values = json.loads((folder / "bert_config.json").read_text())
  for name in ("id2label", "problem_type", "input_settings"):
    del values[name]
  (tmp_path / "c.json").write_text(json.dumps(values))
  settings = settings_of(folder, bert_config_file=str(tmp_path / "c.json"))
  model_files.ModelFiles.of(settings).require("tagging")
  model_files.ModelFiles.of(settings).require("classification")


def test_a_task_with_other_classes_is_refused(folders, tmp_path):
  (tmp_path / "dev.tsv").write_text(
    "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tthe a\tthe b\n"
  )
  finished = script_runner.refuse(
    "run_classifier.py",
    "was trained to classify (mixed, negative, positive)",
    model_dir=folders["classification"],
    do_eval=True,
    task_name="MRPC",
    data_dir=tmp_path,
    output_dir=tmp_path / "out",
  )
  assert "MRPC has the classes 0, 1" in finished.last_line


def test_the_folder_of_a_model_is_found_below_its_parent(folders, tmp_path):
  nested = tmp_path / "minilm" / "package" / "model"
  nested.parent.mkdir(parents=True)
  nested.symlink_to(folders["span"])
  with pytest.raises(errors.InputError) as refused:
    text_models.load(str(tmp_path / "minilm"))
  assert str(refused.value).endswith(f"pass --model_dir={nested}")
  with pytest.raises(errors.InputError, match="python download.py --list"):
    text_models.load(str(tmp_path / "bert-base-uncased"))


@pytest.mark.parametrize(
  "file, advised", [("modules.json", "0_Encoder"), ("notes.txt", "1_Other")]
)
def test_of_several_folders_sentence_transformers_first_is_advised(
  folders, tmp_path, file, advised
):
  for name in ("0_Encoder", "1_Other"):
    (tmp_path / name).symlink_to(folders["span"])
  (tmp_path / file).write_text("[]")
  with pytest.raises(errors.InputError) as refused:
    model_files.ModelFiles(str(tmp_path))
  assert str(refused.value).endswith(f"pass --model_dir={tmp_path / advised}")


TAGGERS = sorted(GOLDEN.glob("*/*ForTokenClassification"))


@pytest.mark.parametrize(
  "engine",
  [
    # LiteRT's cases are slow; other tests run all families with LiteRT.
    pytest.param(engine, marks=[pytest.mark.slow] * (engine == "litert"))
    for engine in flag_values.ENGINES
  ],
)
@pytest.mark.parametrize("folder", TAGGERS, ids=lambda path: path.name)
def test_taggers_of_transformers_have_no_pooler(folder, engine, tmp_path):
  config = modeling.BertConfig.from_json_file(folder / "config.json")
  words = [f"w{n}" for n in range(config.vocab_size - len(tiny_model.SPECIAL))]
  vocab_file = tiny_model.write_vocabulary(tmp_path, words)
  if folder.name.startswith(("Roberta", "Camembert")):
    # The id of padding is 1 there.
    path = pathlib.Path(vocab_file)
    path.write_text(path.read_text().replace("[PAD]\n[UNK]", "[UNK]\n[PAD]"))
  bert = text_models.load(
    str(folder),
    vocab_file=vocab_file,
    max_seq_length=8,
    engine=engine,
    do_lower_case=True,
  )
  answer = bert.tag("w1 w2, w3")
  assert answer["words"] == ["w1", "w2", ",", "w3"]
  assert {*answer["tags"]} <= {*config.label_names()}
  if engine != "tensorflow":
    expected = text_models.load(
      str(folder), vocab_file=vocab_file, max_seq_length=8, do_lower_case=True
    ).tag("w1 w2, w3")
    assert answer["tags"] == expected["tags"]
    serving_models.assert_close(
      answer["probabilities"], expected["probabilities"]
    )


def test_there_is_a_tagger_of_each_family():
  assert {path.parent.name for path in TAGGERS} == {
    "albert",
    "distilbert",
    "electra",
    "huggingface",
    "modernbert",
    "roberta_models",
  }


CLASSIFIER = {
  "model_type": "bert",
  "architectures": ["BertForSequenceClassification"],
}


@pytest.mark.parametrize(
  "values, labels, problem",
  [
    ({}, ["LABEL_0", "LABEL_1"], None),
    ({"num_labels": 3}, ["LABEL_0", "LABEL_1", "LABEL_2"], None),
    ({"num_labels": 1}, ["LABEL_0"], "regression"),
    ({"id2label": {"0": "LABEL_0"}}, ["LABEL_0"], "regression"),
    (
      {"id2label": {"0": "yes"}, "problem_type": "multi_label_classification"},
      ["yes"],
      "multi_label_classification",
    ),
    ({"id2label": {"0": "no", "1": "yes"}}, ["no", "yes"], None),
  ],
)
def test_defaults_that_transformers_does_not_write(values, labels, problem):
  config = modeling.BertConfig.from_dict({**CLASSIFIER, **values})
  assert config.label_names() == labels
  assert config.to_dict().get("problem_type") == problem


def test_a_classifier_with_one_output_gives_a_score(tmp_path):
  """The score is a logit, because the configuration names no activation."""
  folder = serving_models.trained(
    tmp_path / "model", classifier(1), stored={"max_seq_length": 16}
  )
  values = json.loads((folder / "bert_config.json").read_text())
  (folder / "bert_config.json").unlink()
  del values["input_settings"]
  (folder / "config.json").write_text(
    json.dumps(
      {
        **values,
        **CLASSIFIER,
        "hidden_act": "gelu_new",
        "id2label": {"0": "LABEL_0"},
      }
    )
  )
  answer = text_models.load(str(folder)).classify("the street")
  assert answer.keys() == {"score"}
  (tmp_path / "new.csv").write_text("text\nthe street\n")
  script_runner.succeed(
    "run_classifier.py",
    model_dir=folder,
    do_predict=True,
    predict_file=tmp_path / "new.csv",
    output_dir=tmp_path / "run",
    eager=True,
  )
  score = (tmp_path / "run" / "test_results.tsv").read_text()
  assert float(score) == pytest.approx(answer["score"], abs=1e-5)


@pytest.mark.parametrize("activation", ["torch.nn.Tanh", "custom.Softplus"])
def test_an_unknown_activation_of_a_reranker_is_named_once(activation, caplog):
  section = {"sentence_transformers": {"activation_fn": activation}}
  for _ in range(2):
    loaded = modeling.BertConfig.from_dict(
      {**CLASSIFIER, "num_labels": 1, **section}
    )
  assert loaded.problem_type == "ranking_logit"
  assert caplog.text.count(f"{activation} as sentence-transformers") == 1


def test_a_masked_lm_head_next_to_a_classifier_stays_known(tmp_path):
  def both(config, bert):
    parts = classifier(3)(config, bert), mask_filler(config, bert)
    variables = [v for part in parts for v in part.variables]
    return types.SimpleNamespace(variables=variables)

  folder = serving_models.trained(
    tmp_path / "model",
    both,
    stored={"max_seq_length": 16},
    id2label=CLASSES,
    problem_type="single_label_classification",
  )
  files = model_files.ModelFiles(str(folder))
  assert files.heads == ["classification", "masked_lm"]
  assert files.head == "classification"
  for head in ("classification", "masked_lm", "sparse"):
    files.require(head)
  with pytest.raises(errors.InputError, match="classify and fill in"):
    files.require("tagging")


def test_each_file_is_read_once(monkeypatch):
  """To load a folder and to embed two times, with other options."""
  folder = GOLDEN / "sentence_vectors" / "folder"
  opened: collections.Counter[str] = collections.Counter()
  open_file = file_io.open_for_reading

  def open_and_count(path):
    opened[str(path)] += 1
    return open_file(path)

  monkeypatch.setattr(file_io, "open_for_reading", open_and_count)
  bert = text_models.load(folder)
  assert opened.keys() >= {
    str(folder / name) for name in ("config.json", "tokenizer.json")
  }
  bert.embed("w1 w2", pooling="mean")
  bert.embed("w1 w2")
  bert.encode("w1")
  assert set(opened.values()) == {1}, opened


@pytest.mark.parametrize(
  "known, given, word, level",
  [
    (False, None, "w", "INFO"),
    (True, None, "w", None),
    (False, True, "w", "WARNING"),
    (True, False, "w", "WARNING"),
    (False, False, "w", None),
    # No file says the case, so the vocabulary's capitals count.
    (None, None, "W", "WARNING"),
    (None, None, "w", None),
    (None, True, "W", None),
    (None, False, "W", None),
  ],
)
def test_a_case_that_may_surprise_is_logged_once(
  known, given, word, level, tmp_path, caplog
):
  caplog.set_level("INFO", logger="absl")
  path = tiny_model.write_vocabulary(tmp_path, [word])
  if known is not None:
    config = json.dumps({"do_lower_case": known})
    (tmp_path / "tokenizer_config.json").write_text(config)
  flags = {} if given is None else {"do_lower_case": given}
  values = {"do_lower_case": True, **flags, "vocab_file": path}
  files = model_files.ModelFiles(vocab_file=path)
  for _ in range(2):
    settings = files.complete(run_settings.Settings(values, flags))
  used = [case for case in (given, known, True) if case is not None][0]
  assert settings.do_lower_case is used
  assert [record.levelname for record in caplog.records] == [level] * bool(
    level
  )


def test_the_restored_settings_are_logged_once(tmp_path, caplog):
  caplog.set_level("INFO", logger="absl")
  config = model_folder.with_input_settings(
    tiny_model.tiny(), {"max_seq_length": 7, "doc_stride": 3, "top_k": 2}
  )
  path = tmp_path / "bert_config.json"
  path.write_text(config.to_json_string())
  files = model_files.ModelFiles(bert_config_file=str(path))
  settings = run_settings.Settings({"max_seq_length": 9, "doc_stride": 1})
  for _ in range(2):
    files.complete(settings, ["max_seq_length", "doc_stride"])
  (message,) = caplog.messages
  for fact in (str(path), "--max_seq_length=7", "--doc_stride=3"):
    assert fact in message
  files.complete(settings, ["doc_stride"])
  assert len(caplog.messages) == 2


def test_a_configuration_without_positions_has_512(tmp_path):
  path = tmp_path / "bert_config.json"
  path.write_text('{"vocab_size": 9}')
  files = model_files.ModelFiles(bert_config_file=str(path))
  settings = run_settings.Settings({"max_seq_length": 600})
  assert files.complete(settings).max_seq_length == 512


@pytest.mark.parametrize(
  "name, is_run",
  [
    ("model.ckpt-12.index", True),
    ("model.ckpt-12.index.tmp-a", False),
    ("model.ckpt-best.index", False),
    ("old.model.ckpt-3.index", False),
  ],
)
def test_which_files_are_checkpoints_of_a_run(folders, tmp_path, name, is_run):
  (tmp_path / name).touch()
  settings = settings_of(folders["span"], output_dir=str(tmp_path))
  files = model_files.ModelFiles.of(settings)
  if is_run:
    files.require("tagging")
    return
  with pytest.raises(errors.InputError):
    files.require("tagging")


def test_weights_that_nobody_names_are_not_checked(folders):
  path = str(folders["span"] / "bert_config.json")
  model_files.ModelFiles(bert_config_file=path).require("tagging")


def test_a_given_vocabulary_replaces_the_folders(folders, tmp_path):
  own = model_files.ModelFiles(str(folders["span"]))
  other = tiny_model.write_vocabulary(tmp_path)
  replaced = model_files.ModelFiles(str(folders["span"]), vocab_file=other)
  named = own.paths["vocab_file"]
  same = model_files.ModelFiles(str(folders["span"]), vocab_file=named)
  paths = [files.vocabulary.path for files in (own, replaced, same)]
  assert paths == [named, other, named]
  assert model_files.ModelFiles().vocabulary is None


@pytest.mark.parametrize(
  "words, vocab_size, level",
  [(4, 9, None), (3, 9, "WARNING"), (5, 9, errors.InputError)],
)
def test_the_vocabulary_must_fit_the_model(
  words, vocab_size, level, tmp_path, caplog
):
  names = [f"w{number}" for number in range(words)]
  flags = tiny_model.write_shape(tmp_path, names)
  config = tiny_model.tiny(vocab_size=vocab_size).to_json_string()
  flags["bert_config_file"].write_text(config)
  flags["bert_config_file"] = str(flags["bert_config_file"])
  files = model_files.ModelFiles(**flags)
  settings = run_settings.Settings({**flags, "do_lower_case": True})
  if level is errors.InputError:
    with pytest.raises(errors.InputError, match="10 tokens.* 9"):
      files.make_tokenizer(settings)
    return
  tokenizer = files.make_tokenizer(settings)
  assert len(tokenizer.vocab) == words + 5
  assert [each.levelname for each in caplog.records] == [level] * bool(level)


def test_the_case_must_fit_the_name_of_released_weights(tmp_path):
  flags = tiny_model.write_shape(tmp_path, ["a"])
  files = model_files.ModelFiles(
    vocab_file=str(flags["vocab_file"]),
    bert_config_file=str(flags["bert_config_file"]),
  )
  name = "cased_L-12_H-768_A-12/bert_model.ckpt"
  values = {**flags, "init_checkpoint": name, "do_lower_case": True}
  with pytest.raises(errors.InputError, match="cased"):
    files.make_tokenizer(run_settings.Settings(values))
  files.make_tokenizer(run_settings.Settings({**values, "do_lower_case": 0}))


@pytest.mark.parametrize(
  "padding, is_refused",
  [
    ("[PAD]", False),
    ("[MASK]", True),
    ("w1", True),
    ("[UNK]", True),
    ("[CLS]", True),
    ("[SEP]", True),
    ("no token", False),
  ],
)
@pytest.mark.parametrize("variant", ["roberta", "bert"])
def test_padding_of_roberta_is_no_token_of_texts(
  padding, is_refused, variant, tmp_path
):
  """RoBERTa gives padding no position, and each token has one here."""
  tokens = [*tiny_model.SPECIAL, "w1"]
  number = tokens.index(padding) if padding in tokens else 99
  path = tmp_path / "bert_config.json"
  config = tiny_model.tiny(vocab_size=len(tokens)).to_dict()
  values = {**config, "variant": variant, "pad_token_id": number}
  path.write_text(json.dumps(values))
  vocab_file = tiny_model.write_vocabulary(tmp_path, ["w1"])
  flags = {"bert_config_file": str(path), "vocab_file": vocab_file}
  files = model_files.ModelFiles(**flags)
  settings = run_settings.Settings({**flags, "do_lower_case": True})
  if is_refused and variant == "roberta":
    with pytest.raises(errors.InputError) as refused:
      files.make_tokenizer(settings)
    for fact in (str(number), padding, vocab_file, str(path)):
      assert fact in str(refused.value)
    return
  files.make_tokenizer(settings)
