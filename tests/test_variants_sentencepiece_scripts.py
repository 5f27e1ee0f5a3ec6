"""Every task from a folder as ALBERT's are published: with spiece.model."""

import json

import pytest

import modeling
import script_runner
import sentencepiece_model
import tiny_model
from records import tfrecord
from variants import sentencepiece, vocabularies

CONFIG = {
  "vocab_size": 600, "hidden_size": 32, "num_hidden_layers": 2,
  "num_attention_heads": 2, "intermediate_size": 48,
  "max_position_embeddings": 128, "type_vocab_size": 2,
  "initializer_range": 0.1, "variant": "albert", "embedding_size": 16,
  "num_hidden_groups": 1,
}
TRAINING = {
  "do_train": True, "train_batch_size": 8, "learning_rate": 3e-3,
  "max_seq_length": 32,
}


def run(script, code=0, **flags):
  done = script_runner.run(script, **flags)
  assert done.code == code, done.err
  return done


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """Random weights of AlbertForMaskedLM: config, weights, spiece.model."""
  folder = tmp_path_factory.mktemp("albert")
  config = modeling.BertConfig.from_dict(CONFIG)
  tiny_model.write_masked_lm(folder, config)
  sentencepiece_model.write(folder)
  return folder


def pieces_in(folder):
  return (folder / "spiece.model").read_bytes()


def test_masked_words_are_filled_with_pieces(model):
  done = run("fill_mask.py", model_dir=model, text=["In 1990, [MASK]."])
  text, line = done.out.splitlines()
  assert text == "In 1990, [MASK]."
  vocab = vocabularies.load_vocab(str(model / "spiece.model"))
  found = line.removeprefix("  [MASK] 1: ").split()[::2]
  assert len(found) == 5 and set(found) <= vocab.keys()


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


@pytest.mark.slow
def test_classifier_learns_predicts_converts_and_goes_on(model, tmp_path):
  rows = [
    f'"The {word} in {1850 + number}, and others",{label}'
    for number in range(16)
    for word, label in (("people", "yes"), ("price", "no"))
  ]
  table = tmp_path / "train.csv"
  table.write_text("\n".join(["text,label", *rows]) + "\n")
  run(
    "run_classifier.py", **TRAINING, model_dir=model, train_file=table,
    text_column="text", label_column="label", do_eval=True, eval_file=table,
    num_train_epochs=8, output_dir=tmp_path / "run",
  )
  results = (tmp_path / "run" / "eval_results.txt").read_text()
  assert "eval_accuracy = 1.0\n" in results
  final = tmp_path / "run" / "final_model"
  assert pieces_in(final) == pieces_in(model)
  run(
    "convert_checkpoint.py", input=final, to="huggingface",
    output=tmp_path / "theirs", verify=True,
  )
  assert pieces_in(tmp_path / "theirs") == pieces_in(model)
  settings = json.loads(
    (tmp_path / "theirs" / "tokenizer_config.json").read_text()
  )
  assert settings["tokenizer_class"] == "AlbertTokenizer"
  answers = [
    run(
      "run_classifier.py", model_dir=folder, do_predict=True,
      predict_file="-", max_seq_length=32, output_dir=tmp_path / "answers",
      stdin=b"the PEOPLE of 1851,\nthe price of it\n",
    ).out
    for folder in (final, tmp_path / "theirs")
  ]
  assert answers[0] == answers[1]
  labels = [line.split("\t")[0] for line in answers[0].splitlines()]
  assert labels == ["yes", "no"]


def squad_file(path):
  """Writes eight questions about years; returns the path."""
  questions = [
    (f"Café people (lived in {1850 + n}, or so).", str(1850 + n))
    for n in range(8)
  ]
  paragraphs = [
    {
      "context": context,
      "qas": [{
        "id": answer, "question": "When ?",
        "answers": [{"text": answer, "answer_start": context.index(answer)}],
      }],
    }
    for context, answer in questions
  ]
  path.write_text(json.dumps(
    {"version": "1.1", "data": [{"title": "t", "paragraphs": paragraphs}]}
  ))
  return path


@pytest.mark.slow
def test_squad_learns_where_an_answer_is_within_a_word(model, tmp_path):
  path = squad_file(tmp_path / "train.json")
  run(
    "run_squad.py", **{**TRAINING, "max_seq_length": 64}, model_dir=model,
    train_file=path, do_predict=True, predict_file=path, doc_stride=16,
    max_query_length=8, num_train_epochs=40, output_dir=tmp_path / "run",
  )
  answers = json.loads((tmp_path / "run" / "predictions.json").read_text())
  right = sum(name == text for name, text in answers.items())
  assert len(answers) == 8 and right >= 6, answers
  assert pieces_in(tmp_path / "run" / "final_model") == pieces_in(model)


@pytest.mark.slow
def test_tagging_labels_the_first_piece_of_each_word(model, tmp_path):
  sentences = [
    f"Café B-ORG\nin O\n{1850 + n}, B-DATE\n( O\n"
    for n in range(12)
  ]
  path = tmp_path / "train.conll"
  path.write_text("\n".join(sentences))
  run(
    "run_ner.py", **TRAINING, model_dir=model, train_file=path,
    do_eval=True, eval_file=path, do_predict=True, predict_file=path,
    num_train_epochs=12, output_dir=tmp_path / "run",
  )
  predicted = (tmp_path / "run" / "test_predictions.conll").read_text()
  rows = [line.split() for line in predicted.splitlines() if line]
  assert len(rows) == 48
  assert all(expected == found for _, expected, found in rows)


def check_whole_words(records, vocab_file):
  """Checks that each word of the records is masked as a whole or not at all."""
  tokenizer = vocabularies.make_tokenizer(str(vocab_file))
  cut = 0
  for record in tfrecord.read_records(str(records)):
    ids = record["input_ids"].tolist()
    count = int(record["masked_lm_weights"].sum())
    positions = record["masked_lm_positions"][:count].tolist()
    for position, index in zip(positions, record["masked_lm_ids"].tolist()):
      ids[position] = index
    pieces = tokenizer.convert_ids_to_tokens(ids)
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
    packing="sentence_order", do_whole_word_mask=True, dupe_factor=1,
  )
  check_whole_words(records, flags["vocab_file"])
  run(
    "create_pretraining_data.py", verify=True, output_file=records,
    vocab_file=flags["vocab_file"],
  )
  config = tmp_path / "albert.json"
  config.write_text(json.dumps(CONFIG))
  run(
    "run_pretraining.py", **flags, do_train=True, input_file=records,
    bert_config_file=config, num_train_steps=4, num_warmup_steps=1,
    train_batch_size=4, output_dir=tmp_path / "run",
  )
  assert pieces_in(tmp_path / "run" / "final_model") == pieces_in(model)
  refused = run(
    "create_pretraining_data.py", code=1, **flags, segmented_text=True,
    do_whole_word_mask=True,
    input_file=script_runner.ROOT / "sample_text.txt", output_file=records,
  )
  assert "--segmented_text says which of BERT's tokens" in refused.last_line


def test_what_is_not_there_is_refused_in_a_sentence(model, tmp_path):
  done = run(
    "export_saved_model.py", code=1, head="masked_lm", model_dir=model,
    export_dir=tmp_path / "export",
  )
  assert "spiece.model is a SentencePiece model" in done.last_line
  for name in ("config.json", "model.safetensors"):
    (tmp_path / name).write_bytes((model / name).read_bytes())
  done = run("fill_mask.py", code=1, model_dir=tmp_path, text=["[MASK]"])
  assert "has neither vocab.txt nor spiece.model" in done.last_line
  (tmp_path / "tokenizer.json").write_text("{}")
  done = run("fill_mask.py", code=1, model_dir=tmp_path, text=["[MASK]"])
  assert "tokenizer.json, but neither vocab.txt nor spi" in done.last_line
