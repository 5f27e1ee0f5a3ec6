"""Every task from a folder as ALBERT's are published: with spiece.model."""

import json

import pytest

import script_runner
import test_variants_scripts
from records import tfrecord
from test_variants_scripts import make_pieces, pieces_in, run
from variants import sentencepiece, vocabularies

TRAINING = {**test_variants_scripts.TRAINING, "max_seq_length": 32}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return make_pieces(tmp_path_factory.mktemp("albert") / "model")


def test_vectors_are_of_alberts_pieces(model, tmp_path):
  (tmp_path / "lines.txt").write_text("In 1990, ||| the people\n\nCafé\n")
  run(
    "extract_features.py", model_dir=model, layers="-1",
    input_file=tmp_path / "lines.txt", output_file=tmp_path / "out.jsonl",
  )
  lines = (tmp_path / "out.jsonl").read_text().splitlines()
  tokens = [
    [feature["token"] for feature in json.loads(line)["features"]]
    for line in lines
  ]
  assert tokens == [
    ["[CLS]", "▁in", "▁199", "0", ",", "[SEP]", "▁the", "▁people", "[SEP]"],
    ["[CLS]", "[SEP]"],
    ["[CLS]", "▁", "c", "a", "fe", "[SEP]"],
  ]


def squad_file(path):
  paragraphs = []
  for year in range(1850, 1858):
    context = f"Café people (lived in {year}, or so)."
    answer = {"text": str(year), "answer_start": context.index(str(year))}
    question = {"id": str(year), "question": "When ?", "answers": [answer]}
    paragraphs.append({"context": context, "qas": [question]})
  path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
  return path


def check_squad(model, folder):
  """Trains on answers within words; returns the answers, most of them right."""
  path = squad_file(folder / "train.json")
  run(
    "run_squad.py", **{**TRAINING, "max_seq_length": 64}, model_dir=model,
    train_file=path, do_predict=True, predict_file=path, doc_stride=16,
    max_query_length=8, num_train_epochs=40, output_dir=folder / "run",
  )
  answers = json.loads((folder / "run" / "predictions.json").read_text())
  right = sum(name == text for name, text in answers.items())
  assert len(answers) == 8 and right >= 6, answers
  return answers


@pytest.mark.slow
def test_squad_learns_where_an_answer_is_within_a_word(model, tmp_path):
  check_squad(model, tmp_path)
  assert pieces_in(tmp_path / "run" / "final_model") == pieces_in(model)


def check_tagging(model, folder):
  """Trains on labels of words of several pieces, and finds them all."""
  sentences = [
    f"Café B-ORG\nin O\n{1850 + n}, B-DATE\n( O\n" for n in range(12)
  ]
  path = folder / "train.conll"
  path.write_text("\n".join(sentences))
  run(
    "run_ner.py", **TRAINING, model_dir=model, train_file=path,
    do_eval=True, eval_file=path, do_predict=True, predict_file=path,
    num_train_epochs=12, output_dir=folder / "run",
  )
  predicted = (folder / "run" / "test_predictions.conll").read_text()
  rows = [line.split() for line in predicted.splitlines() if line]
  assert len(rows) == 48
  assert all(expected == found for _, expected, found in rows)


@pytest.mark.slow
def test_tagging_labels_the_first_piece_of_each_word(model, tmp_path):
  check_tagging(model, tmp_path)


def unmasked_records(records, vocab_file):
  """Yields each record, the pieces of its text, and the masked places."""
  tokenizer = vocabularies.make_tokenizer(str(vocab_file))
  for record in tfrecord.read_records(str(records)):
    ids = record["input_ids"].tolist()
    count = int(record["masked_lm_weights"].sum())
    positions = record["masked_lm_positions"][:count].tolist()
    for position, index in zip(positions, record["masked_lm_ids"].tolist()):
      ids[position] = index
    yield record, tokenizer.convert_ids_to_tokens(ids), positions


def check_whole_words(records, vocab_file):
  cut = 0
  for record, pieces, positions in unmasked_records(records, vocab_file):
    starts_word = list(map(sentencepiece.starts_word, pieces))
    for position in range(2, int(record["input_mask"].sum())):
      # A segment may begin within a word.
      if not starts_word[position] and pieces[position - 1] != "[SEP]":
        cut += 1
        assert (position in positions) == (position - 1 in positions)
  assert cut > 100


@pytest.mark.slow
def test_pretraining_masks_whole_words_of_pieces(model, tmp_path):
  records = tmp_path / "records.tfrecord"
  flags = {
    "vocab_file": model / "spiece.model", "max_seq_length": 64,
    "max_predictions_per_seq": 10,
  }
  run(
    "create_pretraining_data.py", **flags,
    input_file=script_runner.ROOT / "sample_text.txt", output_file=records,
    do_whole_word_mask=True, dupe_factor=1,
  )
  check_whole_words(records, flags["vocab_file"])
  run(
    "run_pretraining.py", **flags, do_train=True, input_file=records,
    bert_config_file=model / "config.json", num_train_steps=4,
    num_warmup_steps=1, train_batch_size=4, output_dir=tmp_path / "run",
  )
  assert pieces_in(tmp_path / "run" / "final_model") == pieces_in(model)
  refused = run(
    "create_pretraining_data.py", code=1, **flags, segmented_text=True,
    do_whole_word_mask=True,
    input_file=script_runner.ROOT / "sample_text.txt", output_file=records,
  )
  assert "--segmented_text says which of BERT's tokens" in refused.last_line


def test_a_graph_has_no_such_tokenizer(model, tmp_path):
  done = run(
    "export_saved_model.py", code=1, head="masked_lm", model_dir=model,
    export_dir=tmp_path / "export",
  )
  assert "spiece.model is no list of BERT's word" in done.last_line
