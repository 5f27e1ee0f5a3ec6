"""ALBERT's tokenizer against transformers' ids, and what its pieces are for."""

import json
import pathlib
import pickle

import numpy as np
import pytest
import sentencepiece as reference

import sentencepiece_model
import tokenization
from checkpoints import model_folder, tokenizer_files
from common import errors
from pretraining import data as pretraining_data
from squad import answers, data, windowing
from variants import sentencepiece, vocabularies

IDS = json.loads((sentencepiece_model.GOLDEN / "ids.json").read_text())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  return str(sentencepiece_model.write(tmp_path_factory.mktemp("pieces")))


@pytest.fixture(scope="module")
def tokenizer(model):
  return vocabularies.make_tokenizer(model)


@pytest.mark.parametrize("text, ids", IDS)
def test_ids_are_those_of_transformers(tokenizer, text, ids):
  assert tokenizer.encode(text) == ids
  assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) == ids
  assert tokenizer.encode(text.encode("utf-8")) == ids


def test_texts_are_encoded_alike_together_and_in_another_process(tokenizer):
  copy = pickle.loads(pickle.dumps(tokenizer))
  texts, expected = zip(*IDS)
  ids, lengths, continues = copy.encode_lines(list(texts))
  assert lengths == list(map(len, expected)) and continues is None
  assert ids == [index for row in expected for index in row]
  assert copy.encode_lines([]) == ([], [], None)


def test_words_are_forgotten_when_there_are_too_many(model, monkeypatch):
  monkeypatch.setattr(sentencepiece, "_REMEMBERED_WORDS", 4)
  tokenizer = vocabularies.make_tokenizer(model)
  for text, ids in IDS:
    assert tokenizer.encode(text) == ids
    assert len(tokenizer._known) <= max(4, len(text.split()))


def test_the_vocabulary_is_the_models(tokenizer, model):
  theirs = reference.SentencePieceProcessor(model_file=model)
  pieces = [theirs.id_to_piece(n) for n in range(theirs.get_piece_size())]
  assert list(tokenizer.vocab) == pieces
  assert tokenizer.convert_ids_to_tokens(range(5)) == [
    "<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]",
  ]
  assert vocabularies.load_vocab(model) == tokenizer.vocab
  with pytest.raises(tokenization.UnknownTokenError, match="'nowhere'"):
    tokenizer.convert_tokens_to_ids(["nowhere"])


def test_case_can_be_kept(model):
  tokenizer = vocabularies.make_tokenizer(model, do_lower_case=False)
  assert "<unk>" in tokenizer.tokenize("The")
  assert tokenizer.tokenize("thé") == ["▁the"]


def test_a_lone_surrogate_is_dropped(tokenizer):
  assert tokenizer.tokenize("the\ud800 people") == ["▁the", "▁people"]


@pytest.mark.parametrize("piece, starts", [
  ("▁the", True), ("the", False), (",", True), ("(", True), ("a", False),
  ("000", True), ("数", True), ("'s", False), ("[CLS]", True), ("<unk>", True),
])
def test_whole_words_are_those_of_alberts_authors(piece, starts):
  assert sentencepiece.starts_word(piece) == starts


def test_pretraining_knows_which_pieces_continue_words(tokenizer):
  vocabulary = pretraining_data.Vocabulary(tokenizer.vocab)
  assert vocabulary.unk_id == 1
  assert vocabulary.continues[tokenizer.vocab["re"]]
  assert not vocabulary.continues[tokenizer.vocab["▁people"]]
  words = pretraining_data.Vocabulary(
    {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[MASK]": 3, "re": 4, "##re": 5}
  )
  assert words.continues.tolist() == [0, 0, 0, 0, 0, 1]


def passage_of(text, tokenizer):
  (question,) = data.from_texts([("who ?", text)])
  (passage,) = windowing.make_passages([question], tokenizer).values()
  return question, passage


@pytest.mark.parametrize("answer, words, pieces", [
  ("1907", (1, 1), ["1", "9", "0", "7"]),
  ("1988).", (1, 1), ["1", "9", "8", "8", ")", "."]),
  ("Café", (0, 0), ["c", "a", "fe"]), ("af", (0, 0), ["a", "fe"]),
  ("people in 1990", (3, 5), ["▁people", "▁in", "▁199", "0"]),
  ("nowhere", (2, 3), ["▁the", "▁people"])
])
def test_training_answers_are_whole_pieces(tokenizer, answer, words, pieces):
  text = "Café (1907-1988). The people in 1990, and so on"
  question, passage = passage_of(text, tokenizer)
  question = question._replace(
    start_position=words[0], end_position=words[1], answer_text=answer
  )
  first, last = windowing.find_answer(question, passage, tokenizer)
  assert passage.tokens[first : last + 1] == pieces


@pytest.mark.parametrize("text, first, last, answer", [
  ("Café (1907-1988).", 0, 3, "Café"),
  ("Café (1907-1988).", 6, 9, "1907"),
  ("The PEOPLE in Ångström", 1, 2, "PEOPLE in"),
  ("in 龘龘, the", 0, 2, "in 龘龘,"),  # Unknown: whole words.
])
def test_answers_are_the_passages(tokenizer, text, first, last, answer):
  question, passage = passage_of(text, tokenizer)
  windows = list(
    windowing.make_windows([question], tokenizer, windowing.Lengths(64, 8, 8))
  )
  start, end = (np.full([1, 64], -9.0, np.float32) for _ in range(2))
  start[0, windows[0].first_position + first] = 9
  end[0, windows[0].first_position + last] = 9
  (found,) = answers.find_answers(
    [question], windows, {"start": start, "end": end},
    answers.AnswerOptions(), tokenizer,
  )
  assert found.text == answer


def test_a_folder_with_pieces_is_found_and_written(model, tmp_path):
  (tmp_path / "config.json").write_text("{}")
  (tmp_path / "spiece.model").write_bytes(b"")
  found = model_folder.find(str(tmp_path))
  assert found["vocab_file"] == str(tmp_path / "spiece.model")
  (tmp_path / "vocab.txt").write_text("[UNK]\n")
  found = model_folder.find(str(tmp_path))
  assert found["vocab_file"] == str(tmp_path / "vocab.txt")


@pytest.mark.parametrize("piece, content", [
  (None, b""), (None, b"no model at all"), ("▁people".encode(), b"\xff" * 9),
])
def test_a_damaged_model_is_named(model, tmp_path, piece, content):
  path = tmp_path / "spiece.model"
  whole = pathlib.Path(model).read_bytes()
  path.write_bytes(whole.replace(piece, content) if piece else content)
  with pytest.raises(errors.InputError, match="spiece.model is no Sentence"):
    vocabularies.make_tokenizer(str(path))
  path.unlink()
  with pytest.raises(errors.InputError, match="no such file: .*spiece.model"):
    vocabularies.make_tokenizer(str(path))


@pytest.mark.parametrize("options, message", [
  ({"control_symbols": "[CLS],[SEP]"}, r"has no \[MASK\]: it is the vocab"),
  ({"control_symbols": "[CLS],[SEP],[MASK]", "split_by_whitespace": False},
   "has pieces of several words"),
])
def test_another_kind_of_vocabulary_is_refused(tmp_path, options, message):
  lines = tmp_path / "lines.txt"
  lines.write_text("of the of the of the\nis the of the\n" * 20)
  reference.SentencePieceTrainer.train(
    input=str(lines), model_prefix=str(tmp_path / "other"), vocab_size=20,
    hard_vocab_limit=False, minloglevel=2, **options,
  )
  with pytest.raises(errors.InputError, match=message):
    vocabularies.make_tokenizer(str(tmp_path / "other.model"))


@pytest.mark.parametrize(
  "values", [{"keep_accents": True}, {"remove_space": False}]
)
def test_text_that_is_prepared_in_another_way_is_refused(tmp_path, values):
  (tmp_path / "tokenizer_config.json").write_text(json.dumps(values))
  path = str(tmp_path / "spiece.model")
  (key,) = values
  with pytest.raises(errors.InputError, match=f"{key} is .*ALBERT"):
    tokenizer_files.check(path)
  tokenizer_files.check(str(tmp_path / "vocab.txt"))
