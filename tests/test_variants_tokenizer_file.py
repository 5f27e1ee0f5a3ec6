"""Compares tokenizer.json's ids with transformers, and tests their use."""

import json
import pathlib
import pickle
import shutil

import numpy as np
import pytest

import tiny_model
import tokenization
from checkpoints import converter, growth, tokenizer_files
from common import errors, run_settings
from exports import graph_tokenizer
from message_facts import says
from pretraining import answers as pretraining_answers
from pretraining import data as pretraining_data
from squad import alignment, data
from squad import windowing as squad_windowing
from tagging import data as tagging_data
from tagging import windowing as tagging_windowing
from variants import tokenizer_file, vocabularies, vocabulary_files

GOLDEN = pathlib.Path("tests/golden/roberta")
IDS = json.loads((GOLDEN / "ids.json").read_text())
ALGORITHMS = sorted(IDS)


def path_of(algorithm):
  return str(GOLDEN / algorithm / "tokenizer.json")


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
  return request.param


@pytest.fixture
def tokenizer(algorithm):
  return vocabularies.make_tokenizer(path_of(algorithm))


def test_ids_equal_transformers(algorithm, tokenizer):
  texts, expected = zip(*IDS[algorithm]["texts"])
  copy = pickle.loads(pickle.dumps(tokenizer))
  ids, lengths, continues = copy.encode_lines(list(texts))
  assert lengths == list(map(len, expected))
  assert ids == [index for row in expected for index in row]
  assert len(continues) == len(ids)
  for text, row in zip(texts, expected):
    assert tokenizer.encode(text) == row
    assert tokenizer.tokenize(text.encode()) == [
      tokenizer.inv_vocab[index] for index in row
    ]
  assert tokenizer.encode("a \ud800") == tokenizer.encode("a ?")


def test_pairs_equal_transformers(algorithm, tokenizer):
  from features import text_batches

  texts, (ids, types) = ("the house", "of Anna"), IDS[algorithm]["pair"]
  encode = text_batches.make_encoder(tokenizer, len(ids))
  assert encode(*texts) == (ids, types)
  # With one position less, the longer text loses one piece.
  shorter, _ = text_batches.make_encoder(tokenizer, len(ids) - 1)(*texts)
  expected = list(ids)
  frame = tokenizer.frame
  assert frame.room(10) == 10 - 2 - frame.between
  del expected[-2]
  assert shorter == expected
  assert encode(texts[0])[0] == [
    frame.cls_id,
    *tokenizer.encode(texts[0]),
    frame.sep_id,
  ]


def test_masks_equal_transformers(algorithm, tokenizer):
  text, ids = IDS[algorithm]["masked"]
  encoded, positions = pretraining_answers.encode(tokenizer, text)
  assert encoded == ids
  assert [ids[position] for position in positions] == [tokenizer.mask_id] * 3
  with pytest.raises(
    errors.InputError, match=says("<mask>", "'a [MASK]'", "no")
  ):
    pretraining_answers.check("a [MASK]", tokenizer, 9, "x:1")


def test_the_pieces_of_words_are_the_pieces_of_the_text(algorithm, tokenizer):
  """Pieces are assigned to words by offsets, so the ids do not change."""
  for text, _ in IDS[algorithm]["texts"]:
    words = text.split()
    rows = tokenizer.encode_words(words)
    assert sum(rows, []) == tokenizer.encode(" ".join(words))
    assert len(rows) == len(words)
  rows = tokenizer.encode_words(["the", "\u200b", "Anna", "house."])
  spelled = [
    tokenizer.joined_pieces(map(tokenizer.inv_vocab.get, row)) for row in rows
  ]
  assert [spelled[0], spelled[2], spelled[3].replace(" ", "")] == [
    "the",
    "Anna",
    "house.",
  ]
  assert tokenizer.encode_words([]) == []


def test_flags_mark_pieces_that_continue_a_word(algorithm, tokenizer):
  text = "the shipwright's house"
  ids, _, continues = tokenizer.encode_lines([text])
  tokens = tokenizer.convert_ids_to_tokens(ids)
  starts = np.frombuffer(continues, np.uint8) == 0
  words = [
    "".join(tokens[start:end]).strip("▁Ġ").replace("</w>", "")
    for start, end in zip(
      np.flatnonzero(starts), [*np.flatnonzero(starts)[1:], len(tokens)]
    )
  ]
  # The words according to the rules in the file.
  expected = {
    "bpe": ["the", "shipwright", "'s", "house"],
    "unigram": ["the", "shipwright's", "house"],
    "words": ["the", "shipwright", "'", "s", "house"],
  }[algorithm]
  assert words == expected
  vocabulary = pretraining_data.Vocabulary(tokenizer.vocab, tokenizer.specials)
  assert vocabulary.frame == tokenizer.frame
  assert vocabulary.ids.tolist() == list(range(len(tokenizer.vocab)))
  assert vocabulary.unk_id == 3


@pytest.mark.parametrize("answer", ["Anna Lang", "1907", "naïve", "house"])
def test_answers_are_found_and_spelled_as_in_the_passage(tokenizer, answer):
  context = "of  Anna Lang's (1907-1988). naïve the house"
  (question,) = data.from_texts([("the?", context)])
  words = context.split()
  first = next(n for n, w in enumerate(words) if answer.split()[0] in w)
  last = first + len(answer.split()) - 1
  question = question._replace(
    start_position=first, end_position=last, answer_text=answer
  )
  (passage,) = squad_windowing.make_passages([question], tokenizer).values()
  assert passage.ids.tolist() == tokenizer.encode(" ".join(words))
  span = squad_windowing.find_answer(question, passage, tokenizer)
  text = tokenizer.joined_pieces(passage.tokens[span[0] : span[1] + 1])
  passage_text = alignment.PassageText(words, tokenizer.word_text)
  spelled, (begin, end) = passage_text.find(text, first, last)
  assert spelled == answer == " ".join(words)[begin:end]


def test_the_match_nearest_to_the_text_before_the_answer_is_used(tokenizer):
  tokens = tokenizer.tokenize("house 1907-house")
  for before, is_first in (("", True), ("house 1907-", False)):
    first, last = tokenizer.find_answer(tokens, "house", before)
    assert (first == 0) == is_first and (last == len(tokens) - 1) != is_first


def test_windows_have_room_for_all_special_tokens(algorithm, tokenizer):
  questions = data.from_texts([("the house?", "the house of Anna " * 9)])
  lengths = squad_windowing.Lengths(20, 5, 4)
  windows = list(squad_windowing.make_windows(questions, tokenizer, lengths))
  batch = squad_windowing.make_batch(windows, tokenizer, 20)
  for window, ids, mask in zip(
    windows, batch["input_ids"], batch["input_mask"]
  ):
    tokens = tokenizer.convert_ids_to_tokens(ids[mask > 0].tolist())
    assert window.tokens == tokens and window.num_tokens == len(tokens)
    assert tokens[: window.first_position][-1] == "</s>"
  assert batch["input_mask"][0].all() and len(windows) > 2
  assert batch["segment_ids"].max() == (algorithm == "words")
  settings = run_settings.Settings(
    dict(max_seq_length=68, doc_stride=8, max_query_length=64)
  )
  if tokenizer.frame.between == 2:
    with pytest.raises(errors.InputError, match="64 and 4 special tokens"):
      squad_windowing.lengths_of(settings, tokenizer.specials)
  else:
    assert squad_windowing.lengths_of(settings, tokenizer.specials)


def test_first_pieces_have_the_tags(tokenizer):
  words = ["Anna", "\u200b", "of", "house"]
  sentence = tagging_data.Sentence(0, [1, 2, 3, 4], words, None)
  (window,) = tagging_windowing.make_windows([sentence], tokenizer, 30)
  rows = tokenizer.encode_words(words)
  starts = [window.input_ids[n] for n in window.positions]
  assert [starts[0], starts[2], starts[3]] == [
    rows[0][0],
    rows[2][0],
    rows[3][0],
  ]


def test_folders_keep_the_files(tmp_path):
  source, target = tmp_path / "source", tmp_path / "target"
  source.mkdir()
  target.mkdir()
  shutil.copy(path_of("bpe"), source)
  (source / "tokenizer_config.json").write_text('{"model_max_length": 7}')
  tokenizer_files.write(
    str(target), str(source / "tokenizer.json"), False, 512, fast=True
  )
  assert sorted(path.name for path in target.iterdir()) == [
    "tokenizer.json",
    "tokenizer_config.json",
  ]
  for path in target.iterdir():
    assert path.read_bytes() == (source / path.name).read_bytes()


def settings_with(**flags):
  values = {"vocab_file": path_of("bpe"), "do_lower_case": True, **flags}
  return run_settings.Settings(values, flags)


def test_features_that_tokenizer_json_lacks(tmp_path):
  known = tiny_model.completed(settings_with())
  assert known.do_lower_case is False
  with pytest.raises(errors.InputError, match="leave out --do_lower_case"):
    tiny_model.completed(settings_with(do_lower_case=False))
  with pytest.raises(errors.InputError, match="leave the flag out"):
    vocabularies.make_tokenizer(path_of("bpe"), never_split=["a"])
  tokenizer = vocabularies.make_tokenizer(path_of("bpe"))
  with pytest.raises(errors.InputError, match="--format=onnx or litert"):
    graph_tokenizer.GraphTokenizer(tokenizer)
  source = converter.Source(None, None, path_of("bpe"), 12)
  with pytest.raises(errors.InputError, match="one token per line; .*another"):
    growth.grow(source, str(tmp_path), add_tokens="words.txt")


def set_of(part, key, value):
  """Changes a part of a template."""
  (values,) = part.values()
  values[key] = value


def nested_replacements(count):
  """Returns a normalizer that doubles a text `count` times."""
  rule = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
  rules = {"type": "Sequence", "normalizers": []}
  for _ in range(count):
    rules = {"type": "Sequence", "normalizers": [rule, *rules["normalizers"]]}
  return rules


@pytest.mark.parametrize(
  "change, message",
  [
    (dict.clear, says("tokenizer.json", "not")),
    (lambda values: values["post_processor"]["pair"].pop(), says("'a'", "'b'")),
    (lambda values: values.update(post_processor=None), says("'a'", "'b'")),
    (
      lambda values: [
        values["post_processor"][name].append(
          values["post_processor"][name][-1]
        )
        for name in ("single", "pair")
      ],
      says("'a'", "'b'"),
    ),
    (
      lambda values: values["post_processor"]["single"].pop(),
      "turns 'a' into '<s> ▁a'",
    ),
    # Between the texts is another token than at the end.
    (
      lambda values: set_of(values["post_processor"]["pair"][2], "id", "<s>"),
      "'b'",
    ),
    # The first text has the second segment.
    (
      lambda values: set_of(values["post_processor"]["pair"][1], "type_id", 1),
      says("'a'", "'b'"),
    ),
    (
      lambda values: [
        values["post_processor"][name].insert(
          0, values["post_processor"][name][0]
        )
        for name in ("single", "pair")
      ],
      says("'a'", "'b'"),
    ),
    # Without bounds, these take minutes and all memory.
    (
      lambda values: values.update(
        added_tokens=[{"id": n, "content": f"t{n}"} for n in range(200_000)]
      ),
      says("200", "000", "added_tokens", "20", "most"),
    ),
    (
      lambda values: values.update(normalizer=nested_replacements(40)),
      says("1", "099", "511", "627", "776", "000", "longer", "most"),
    ),
  ],
)
def test_other_tokenizer_files_are_refused(tmp_path, change, message):
  values = json.loads(pathlib.Path(path_of("unigram")).read_text())
  change(values)
  path = tmp_path / "tokenizer.json"
  path.write_text(json.dumps(values))
  with pytest.raises(errors.InputError, match=message):
    vocabularies.make_tokenizer(str(path))


def test_padding_and_truncation_in_the_file_are_ignored(tmp_path):
  values = json.loads(pathlib.Path(path_of("bpe")).read_text())
  values["truncation"] = {
    "direction": "Right",
    "max_length": 3,
    "strategy": "LongestFirst",
    "stride": 0,
  }
  values["padding"] = {
    "strategy": "BatchLongest",
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 1,
    "pad_type_id": 0,
    "pad_token": "<pad>",
  }
  path = tmp_path / "tokenizer.json"
  path.write_text(json.dumps(values))
  tokenizer = vocabularies.make_tokenizer(str(path))
  text = "the house of Anna Lang"
  expected = vocabularies.make_tokenizer(path_of("bpe")).encode(text)
  assert tokenizer.encode(text) == expected and len(expected) > 3
  assert tokenizer.encode_lines(["the", text])[1][1] == len(expected)
  assert tokenizer.encode_lines(["the", text])[1][0] < len(expected)
  assert isinstance(tokenizer, tokenization.FullTokenizer)


@pytest.mark.parametrize(
  "algorithm, pieces",
  [
    ("unigram", [["▁in"], ["▁", "京"]]),
    ("bpe", [["in"], ["Ġ", "ä", "º", "¬"]]),
  ],
)
def test_a_space_that_is_a_piece_belongs_to_the_next_word(algorithm, pieces):
  path = pathlib.Path("tests/golden/roberta", algorithm, "tokenizer.json")
  tokenizer = tokenizer_file.FileTokenizer(str(path))
  rows = tokenizer.encode_words(["in", "京"])
  assert list(map(tokenizer.convert_ids_to_tokens, rows)) == pieces


def test_a_vocab_json_is_refused(tmp_path):
  path = tmp_path / "vocab.json"
  path.write_text('{"<s>": 0}')
  message = "vocab.json is not a tokenizer.json .*; .* have transformers write"
  with pytest.raises(errors.InputError, match=message):
    vocabularies.make_tokenizer(str(path))
  assert vocabulary_files.of_folder(str(tmp_path), "roberta") is None


def test_only_berts_normalizer_gets_the_rules_of_the_configuration(tmp_path):
  (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
  path = tmp_path / "tokenizer.json"
  contents = [
    {"normalizer": {"type": name, "lowercase": True}}
    for name in ("BertNormalizer", "NFKC")
  ]
  for content, lowercase in zip(contents, (False, True)):
    path.write_text(json.dumps(content))
    merged = vocabulary_files.VocabularyFiles(str(path)).merged_tokenizer
    assert merged["normalizer"] == {
      **content["normalizer"],
      "lowercase": lowercase,
    }


def replace(text, content, kind="String"):
  return {"type": "Replace", "pattern": {kind: text}, "content": content}


@pytest.mark.parametrize(
  "rule, growth",
  [
    (None, 1),
    ({"type": "NFKC"}, 1),
    (replace("a", "aa"), 2),
    (replace("ab", "abc"), 2),
    (replace("ab", "abcd"), 2),
    (replace("abc", ""), 1),
    # It may match before each character, and after the last.
    (replace("", "abc"), 4),
    (replace("a*", "abc", "Regex"), 4),
    ({**replace("a", "aa"), "pattern": "a"}, 3),
    (replace("a", None), 1),
    ({**replace("a", "aaa"), "type": "Prepend"}, 1),
    ({"type": "Sequence", "normalizers": "x"}, 1),
    (
      {
        "type": "Sequence",
        "normalizers": [
          replace("a", "aaa"),
          {"type": "Sequence", "normalizers": [replace("b", "bb"), None]},
        ],
      },
      6,
    ),
  ],
)
def test_how_much_longer_a_text_can_become(rule, growth):
  assert tokenizer_file._growth(rule) == growth


def test_the_bounds_of_a_tokenizer_file_are_allowed():
  tokenizer_file._refuse_endless(
    "f", {"added_tokens": [{}] * 20_000, "normalizer": replace("a", "a" * 1000)}
  )
  with pytest.raises(errors.InputError, match="has 20,001 added"):
    tokenizer_file._refuse_endless("f", {"added_tokens": [{}] * 20_001})
  with pytest.raises(errors.InputError, match="1,001 times"):
    tokenizer_file._refuse_endless(
      "f", {"normalizer": replace("a", "a" * 1001)}
    )


@pytest.mark.parametrize(
  "entries, expected",
  [
    ([{"content": "<mask>", "lstrip": True}], (True, False)),
    ([{"content": "<s>", "lstrip": True}, {"content": "<mask>"}], (False,) * 2),
    ([{"content": "<mask>", "rstrip": True}], (False, True)),
    ([], tokenization.BERTS.mask_strips),
    (None, tokenization.BERTS.mask_strips),
  ],
)
def test_which_spaces_a_mask_includes(entries, expected):
  found = tokenizer_file._strips({"added_tokens": entries}, "<mask>")
  assert found == expected


def test_pieces_without_a_decoder_are_words(tmp_path):
  values = json.loads(pathlib.Path(path_of("words")).read_text())
  values["decoder"] = None
  path = tmp_path / "tokenizer.json"
  path.write_text(json.dumps(values))
  tokenizer = tokenizer_file.FileTokenizer(str(path))
  assert tokenizer.joined_pieces(["the", "house"]) == "the house"


def test_an_answer_without_pieces_is_not_found(tokenizer):
  tokens = tokenizer.tokenize("the house")
  assert tokenizer.find_answer(tokens, "", "") is None
  assert tokenizer.find_answer(tokens, "Anna", "") is None
