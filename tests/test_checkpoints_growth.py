"""growth.py: grown models give their old outputs; a new word is one piece."""

import json
import pathlib
import re

import numpy as np
import pytest
import tokenizers

import modeling
import stored_weights
import tokenization
from checkpoints import converter, growth, weight_files
from common import errors
from message_facts import says
from variants import vocabulary_files

# From an interrupted TensorFlow 1 run: weights, adam_m, adam_v, global_step.
TRAINING_CHECKPOINT = "tests/golden/checkpoints/model.ckpt-12"
CONFIG = "tests/golden/models/linear_L1_H32/bert_config.json"
MODEL = pathlib.Path("tests/golden/pretraining_run/model")
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[unused5]", "[MASK]", "la"]
PIECES += ["[unused6]", "##mp", "##s", "c", "+", "the", "", "##light"]
NEW_WORDS = ["lamps", "c++", "lamplight"]
PIECES_OF_NEW_WORDS = [[6, 8, 9], [10, 11, 11], [6, 8, 14]]
WORD_WEIGHTS = (
  "bert/embeddings/word_embeddings",
  "cls/predictions/output_bias",
)
POSITION_WEIGHTS = "bert/embeddings/position_embeddings"


@pytest.fixture
def source(tmp_path):
  """A checkpoint whose word table is larger than the vocabulary."""
  (tmp_path / "old.txt").write_text("\n".join(PIECES))
  return converter.open_source(
    TRAINING_CHECKPOINT,
    bert_config_file=CONFIG,
    vocab_file=str(tmp_path / "old.txt"),
  )


def words_file(tmp_path, words=NEW_WORDS):
  (tmp_path / "words.txt").write_text("".join(f"{w}\n" for w in words), "utf-8")
  return str(tmp_path / "words.txt")


def grown(source, tmp_path, words=NEW_WORDS, **options):
  folder = tmp_path / "grown"
  folder.mkdir(exist_ok=True)
  path = words_file(tmp_path, words) if words else None
  return growth.grow(source, str(folder), add_tokens=path, **options)


def converted(source, output, **options):
  converter.convert(source, str(output), "tf1", **options)
  return stored_weights.read(str(output))


def belongs_to(name, weights):
  return any(name in (w, f"{w}/adam_m", f"{w}/adam_v") for w in weights)


@pytest.mark.parametrize("use_unused", [False, True])
def test_new_words_start_as_the_mean_of_their_pieces(
  source, tmp_path, use_unused
):
  new, words = grown(source, tmp_path, use_unused_tokens=use_unused)
  # An empty line has a token id, too.
  token_ids = [4, 7, 15] if use_unused else [15, 16, 17]
  assert words == list(
    map(growth.NewWord, NEW_WORDS, token_ids, PIECES_OF_NEW_WORDS)
  )
  lines = [*PIECES, *[""] * (1 if use_unused else 3)]
  for word, token_id in zip(NEW_WORDS, token_ids):
    lines[token_id] = word
  vocabulary = pathlib.Path(new.vocab_file).read_text()
  assert vocabulary == "".join(f"{line}\n" for line in lines)
  assert new.config == source.config  # The table's 64 rows suffice.
  old = {name: source.reader.read(name) for name in source.reader.shapes}
  weights = converted(new, tmp_path / "out")
  assert weights.keys() == old.keys()
  changed = {name for name in old if belongs_to(name, WORD_WEIGHTS)}
  assert len(changed) == 6
  for name, value in old.items():
    expected = value.copy()
    if name in changed:
      for token_id, pieces in zip(token_ids, PIECES_OF_NEW_WORDS):
        expected[token_id] = sum(value[n] for n in pieces) / 3
      np.testing.assert_allclose(weights[name], expected, rtol=1e-6, atol=1e-9)
      other_ids = np.delete(np.arange(len(value)), token_ids)
      value, expected = weights[name][other_ids], expected[other_ids]
    else:
      value = weights[name]
    np.testing.assert_array_equal(value, expected)


def test_a_full_embedding_table_gets_rows(source, tmp_path):
  (tmp_path / "old.txt").write_text("\n".join([*PIECES, *map(str, range(49))]))
  new, words = grown(source, tmp_path)
  assert [word.token_id for word in words] == [64, 65, 66]
  assert new.config.vocab_size == 67
  weights = converted(new, tmp_path / "out")
  for name, old in ((n, source.reader.read(n)) for n in source.reader.shapes):
    np.testing.assert_array_equal(
      weights[name][: len(old)] if old.ndim else weights[name], old
    )
    assert (
      len(weights[name]) == 67
      if belongs_to(name, WORD_WEIGHTS)
      else (weights[name].shape == old.shape)
    )
  config = json.loads((tmp_path / "out" / "bert_config.json").read_text())
  assert config["vocab_size"] == 67


@pytest.mark.parametrize("positions", [33, 70])
def test_new_positions_repeat_all_but_the_first(source, tmp_path, positions):
  new, words = grown(source, tmp_path, None, max_position_embeddings=positions)
  assert words == [] and new.vocab_file == source.vocab_file
  assert new.config.max_position_embeddings == positions
  weights = converted(new, tmp_path / "out")
  names = [name for name in weights if belongs_to(name, [POSITION_WEIGHTS])]
  assert len(names) == 3
  rows = [*range(32), *range(1, 32), *range(1, 32)][:positions]
  for name, value in weights.items():
    old = source.reader.read(name)
    expected = old[rows] if name in names else old
    np.testing.assert_array_equal(value, expected)


def test_a_model_of_two_positions_repeats_the_second(source, tmp_path):
  old = {name: source.reader.read(name) for name in source.reader.shapes}
  old = {n: v[:2] if POSITION_WEIGHTS in n else v for n, v in old.items()}
  weight_files.write_tf1(str(tmp_path / "model.ckpt"), old)
  values = json.loads(pathlib.Path(CONFIG).read_text())
  config = tmp_path / "config.json"
  config.write_text(json.dumps({**values, "max_position_embeddings": 2}))
  short = converter.open_source(
    str(tmp_path / "model.ckpt"),
    bert_config_file=str(config),
    vocab_file=source.vocab_file,
  )
  new, _ = grown(short, tmp_path, None, max_position_embeddings=4)
  rows = converted(new, tmp_path / "out")[POSITION_WEIGHTS]
  np.testing.assert_array_equal(rows, old[POSITION_WEIGHTS][[0, 1, 1, 1]])


def test_states_of_old_ids_are_bit_equal(tmp_path):
  source = converter.open_source(str(MODEL))
  new, _ = grown(source, tmp_path, max_position_embeddings=100)
  assert new.config.vocab_size == 103
  states = []
  for version in (source, new):
    model = modeling.BertModel(version.config)
    weight_files.load(model.variables, version.reader)
    ids = np.random.RandomState(0).randint(0, 100, [2, 64])
    states.append(model(ids).all_encoder_layers)
  np.testing.assert_array_equal(*states)


@pytest.mark.parametrize("lower", [True, False])
def test_new_words_are_one_piece(tmp_path, lower):
  source = converter.open_source(str(MODEL))
  words = ["lamplight", "node.js", "x86-64"] + ([] if lower else ["C++", "é"])
  new, _ = grown(source, tmp_path, words, do_lower_case=lower)
  converter.convert(new, str(tmp_path / "out"), "huggingface")
  vocab_file = str(tmp_path / "out" / "vocab.txt")
  files = vocabulary_files.VocabularyFiles(vocab_file)
  assert files.do_lower_case == lower
  never_split = files.never_split
  # The tokenizer does not split the other words anyway.
  assert [*never_split] == [w for w in words if w not in ("lamplight", "é")]
  tokenizer = tokenization.FullTokenizer(vocab_file, lower, never_split)
  fast = tokenizers.Tokenizer.from_file(str(tmp_path / "out/tokenizer.json"))
  for word in words:
    assert tokenizer.tokenize(f"the {word} is") == ["the", word, "is"]
    ids = tokenizer.encode(f"the {word} is")
    assert fast.encode(f"the {word} is", add_special_tokens=False).ids == ids


def test_all_lines_that_cannot_become_tokens_are_named(source, tmp_path):
  lines = ["good", "the", "two words", "", "Good", "good", "##ing"]
  lines += ["\u6771\u4eac", "na\u00efve", "o\u200bk", "x" * 201, "\t", "fine"]
  with pytest.raises(errors.InputError) as raised:
    grown(source, tmp_path, lines)
  message = str(raised.value)
  for number, fault in {
    2: "'the' is already a token of",
    3: "'two words' has white space inside",
    5: "'good' is already on line 1",
    6: "'good' is already on line 1",
    7: "'##ing' begins with ##",
    8: "has Han characters",
    11: "has over 200 characters",
  }.items():
    (line,) = (x for x in message.split("\n") if f"words.txt:{number}: " in x)
    assert fault in line
  assert "7 faults" in message
  assert not list((tmp_path / "grown").iterdir())


def test_a_word_is_added_in_its_normalized_form(source, tmp_path, caplog):
  new, _ = grown(source, tmp_path, ["Na\u00efve", "o\u200bk"])
  words = (tmp_path / "grown" / "vocab.txt").read_text().split("\n")
  assert {"naive", "ok"} <= {*words} and new.config.vocab_size
  assert re.search(says("words.txt:1", "'Naïve'", "'naive'"), caplog.text)
  tokenizer = tokenization.FullTokenizer(new.vocab_file)
  assert tokenizer.tokenize("NA\u00cfVE ok") == ["naive", "ok"]


def test_impossible_growth_is_refused(source, tmp_path):
  with pytest.raises(errors.InputError, match="max_position_embeddings 100000"):
    grown(source, tmp_path, None, max_position_embeddings=10**12)
  with pytest.raises(errors.InputError, match="words.txt has no words"):
    grown(source, tmp_path, ["", " "])
  with pytest.raises(errors.InputError, match="the model has 32 already"):
    grown(source, tmp_path, None, max_position_embeddings=32)
  with pytest.raises(errors.InputError, match="pass --vocab_file"):
    grown(source._replace(vocab_file=None), tmp_path)
  with pytest.raises(errors.InputError, match="tokenizer.json has another f"):
    grown(source._replace(vocab_file="tokenizer.json"), tmp_path)


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer.json"])
@pytest.mark.parametrize("stored, expected", [(8, 8), (32, 40), (10**30, 40)])
def test_the_tokenizers_settings_and_length_go_along(
  source, tmp_path, name, stored, expected
):
  """The model has 32 positions; 8 is a shorter length, chosen by a user."""
  settings = {"strip_accents": False, "tokenize_chinese_chars": False}
  folder = tmp_path / "old"
  folder.mkdir()
  (folder / "tokenizer_config.json").write_text(
    json.dumps({**settings, "model_max_length": stored})
  )
  pieces = {piece: number for number, piece in enumerate(PIECES)}
  tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(pieces))
  tokenizer.post_processor = tokenizers.processors.BertProcessing(
    ("[SEP]", pieces["[SEP]"]), ("[CLS]", pieces["[CLS]"])
  )
  tokenizer.save(str(folder / "tokenizer.json"))
  (folder / "vocab.txt").write_text("\n".join(PIECES))
  source = converter.open_source(
    TRAINING_CHECKPOINT, bert_config_file=CONFIG, vocab_file=f"{folder}/{name}"
  )
  assert source.config.max_position_embeddings == 32
  words = NEW_WORDS if name == "vocab.txt" else ()
  new, _ = grown(source, tmp_path, words, max_position_embeddings=40)
  converted(new, tmp_path / "out")
  files = vocabulary_files.VocabularyFiles(f"{tmp_path}/out/{name}")
  assert (files.max_length or 40) == expected
  assert files.config.items() >= settings.items()
