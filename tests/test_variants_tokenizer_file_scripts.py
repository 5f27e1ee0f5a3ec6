"""Runs most scripts with model folders that have a tokenizer.json."""

import json
import shutil

import numpy as np
import pytest

import modeling
import resumed_runs
import script_runner
import test_variants_scripts
import tiny_model
from records import tfrecord
from script_runner import results_in
from serving import text_models
from test_variants_scripts import run
from variants import vocabularies

GOLDEN = script_runner.ROOT / "tests" / "golden" / "roberta"
TRAINING = {**test_variants_scripts.TRAINING, "max_seq_length": 32}
# "words" is like HerBERT, a BERT with a tokenizer.json.
VARIANTS = {"bpe": "roberta", "unigram": "camembert", "words": "bert"}


def make_model(folder, name):
  folder.mkdir()
  count = len(vocabularies.load_vocab(str(GOLDEN / name / "tokenizer.json")))
  config = {**test_variants_scripts.CONFIG, "vocab_size": count}
  if name != "words":
    config.update(variant=VARIANTS[name], pad_token_id=1, type_vocab_size=1)
    config["layer_norm_eps"] = 1e-5
  tiny_model.write_masked_lm(folder, modeling.BertConfig.from_dict(config))
  shutil.copy(GOLDEN / name / "tokenizer.json", folder)
  return folder


@pytest.fixture(scope="module", params=VARIANTS)
def model(request, tmp_path_factory):
  return make_model(
    tmp_path_factory.mktemp("model") / request.param, request.param
  )


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
  return make_model(tmp_path_factory.mktemp("model") / "bpe", "bpe")


def file_in(folder):
  return (folder / "tokenizer.json").read_bytes()


def test_masks_and_vectors_of_raw_text(model):
  loaded = text_models.load(str(model))
  answer = loaded.fill_mask("the <mask> of an<mask> house", top_k=3)
  assert [len(row) for row in answer["fillings"]] == [3, 3]
  frame = loaded.tokenizer.frame
  encoded = loaded.encode(("the house", "of Anna"))
  assert encoded.tokens.count("</s>") == 1 + frame.between
  # The encoder gives the same states for these ids.
  ids = loaded.tokenizer.convert_tokens_to_ids(encoded.tokens)
  start = ids.index(frame.sep_id) + frame.between
  segments = [frame.segment_b * (n >= start) for n in range(len(ids))]
  assert encoded.input_ids.tolist() == ids
  assert encoded.segment_ids.tolist() == segments
  states = loaded.encoder([ids], None, [segments]).sequence_output[0]
  np.testing.assert_allclose(encoded.layers[-1], states, atol=1e-5)
  vector = loaded.embed("the house", pooling="mean")
  whole = loaded.encode("the house").layers[-1]
  np.testing.assert_allclose(vector, whole.mean(axis=0), atol=1e-5)


@pytest.mark.slow
def test_classifier_trains_converts_and_is_exported(model, tmp_path):
  rows = [
    f"the {word} of a {'and ' * (number % 5)}is\tof it,{label}".split("\t")
    for number in range(16)
    for word, label in (("first", "yes"), ("other", "no"))
  ]
  texts = tmp_path / "train.csv"
  lines = "\n".join(f"{a},{b}" for a, b in rows)
  texts.write_text(f"text,more,label\n{lines}\n")
  flags = {
    **TRAINING,
    "train_file": texts,
    "text_column": "text",
    "text_b_column": "more",
    "label_column": "label",
    "model_dir": model,
    "num_train_epochs": 8,
  }
  run(
    "run_classifier.py",
    **flags,
    output_dir=tmp_path / "run",
    do_eval=True,
    eval_file=texts,
  )
  assert results_in(tmp_path / "run")["eval_accuracy"] == 1.0
  final = tmp_path / "run" / "final_model"
  assert file_in(final) == file_in(model)
  output = run(
    "convert_checkpoint.py",
    input=final,
    to="huggingface",
    output=tmp_path / "huggingface",
    verify=True,
  ).out
  assert "outputs: the same" in output
  pairs = [("the first of a", "of it"), ("the other of a", "of it")]
  answers = []
  for folder in (final, tmp_path / "huggingface"):
    assert file_in(folder) == file_in(model)
    loaded = text_models.load(str(folder))
    answers.append([loaded.classify(pair) for pair in pairs])
  assert [answer["label"] for answer in answers[0]] == ["yes", "no"]
  assert answers[0] == answers[1]
  export = {"head": "classification", "model_dir": final, "max_seq_length": 32}
  for form in ("onnx", "litert"):
    folder = tmp_path / form
    run("export_saved_model.py", **export, format=form, export_dir=folder)
    served = text_models.load(str(folder))
    for pair, expected in zip(pairs, answers[0]):
      prediction = served.classify(pair)
      np.testing.assert_allclose(
        prediction["probabilities"], expected["probabilities"], atol=1e-5
      )
  refused = run(
    "export_saved_model.py", code=1, **export, export_dir=tmp_path / "graph"
  )
  assert "--format=onnx or litert" in refused.last_line
  assert not (tmp_path / "graph").exists()


def squad_file(path):
  paragraphs = []
  for year in range(1850, 1858):
    context = f"Café people (lived in {year}, or so)."
    answer = {"text": str(year), "answer_start": context.index(str(year))}
    question = {"id": str(year), "question": "When ?", "answers": [answer]}
    paragraphs.append({"context": context, "qas": [question]})
  path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
  return path


@pytest.mark.slow
def test_squad_learns_where_an_answer_is_within_a_word(model, tmp_path):
  path = squad_file(tmp_path / "train.json")
  run(
    "run_squad.py",
    **{**TRAINING, "max_seq_length": 64},
    model_dir=model,
    train_file=path,
    do_predict=True,
    predict_file=path,
    doc_stride=16,
    max_query_length=8,
    num_train_epochs=40,
    output_dir=tmp_path / "run",
  )
  answers = json.loads((tmp_path / "run" / "predictions.json").read_text())
  right = sum(name == text for name, text in answers.items())
  assert len(answers) == 8 and right >= 6, answers
  assert all(text == text.strip() for text in answers.values())
  final = tmp_path / "run" / "final_model"
  assert file_in(final) == file_in(model)
  loaded = text_models.load(str(final))
  context = "  Café people  (lived in 1852, or so)."
  result = loaded.answer("When ?", context, doc_stride=16)
  assert result["answer"] == context[result["start"] : result["end"]].strip()


@pytest.mark.slow
@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_pretraining_masks_whole_words_and_resumes(roberta, masking, tmp_path):
  records = tmp_path / "records.tfrecord"
  vocab_file = roberta / "tokenizer.json"
  flags = {"vocab_file": vocab_file, "max_seq_length": 64}
  masks = {"max_predictions_per_seq": 10, "do_whole_word_mask": True}
  data = {"dynamic_masking": True} if masking == "dynamic" else masks
  run(
    "create_pretraining_data.py",
    **flags,
    **data,
    dupe_factor=1,
    input_file=script_runner.ROOT / "sample_text.txt",
    output_file=records,
    packing="full_sentences",
  )
  if masking == "static":
    check_whole_words(records, vocab_file)
  elif masking == "dynamic":
    flags["do_whole_word_mask"] = True
  training = {
    **flags,
    "max_predictions_per_seq": 10,
    "do_train": True,
    "input_file": records,
    "bert_config_file": roberta / "config.json",
    "use_next_sentence_loss": False,
    "num_warmup_steps": 1,
    "train_batch_size": 4,
    "num_train_steps": 6,
    "save_checkpoints_steps": 3,
  }
  resumed_runs.assert_same_weights(
    lambda folder: run(
      "run_pretraining.py", **{**training, "output_dir": folder}
    ),
    tmp_path / "six",
  )


def check_whole_words(records, vocab_file):
  num_continuations = 0
  tokenizer = vocabularies.make_tokenizer(str(vocab_file))
  for record in tfrecord.read_records(str(records)):
    ids = record["input_ids"].tolist()
    count = int(record["masked_lm_weights"].sum())
    positions = record["masked_lm_positions"][:count].tolist()
    for position, index in zip(positions, record["masked_lm_ids"].tolist()):
      ids[position] = index
    pieces = tokenizer.convert_ids_to_tokens(ids)
    assert pieces[0] == "<s>" and not record["segment_ids"].any()
    for position in range(2, int(record["input_mask"].sum())):
      # Letters that directly follow letters belong to the same word.
      before = pieces[position - 1].removeprefix("Ġ")
      if (
        before.isalpha()
        and pieces[position].isalpha()
        and (pieces[position][0] != "Ġ")
      ):
        num_continuations += 1
        assert (position in positions) == (position - 1 in positions)
  assert num_continuations > 100
