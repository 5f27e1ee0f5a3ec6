"""Tests the rule of punctuation, and user-written splitters of sentences."""

import pytest

import script_runner
import tiny_model
from pretraining.splitters import punctuation


@pytest.mark.parametrize(
  "sentences",
  [
    ["He came.", "She left!", "Why?", "Nobody knows"],
    ["Mr. Smith went to St. Louis on the 5th.", "He was 5.5 ft tall."],
    ["J. K. Rowling lives in the U.S. today.", "It is far."],
    ["Fruit, e.g. Apples, i.e. This one, is good.", "Eat it."],
    ['"Was he there?" she asked.', '"Yes."', "(He was.)", "“Good.”"],
    ["It cost $5.", "20 people came (see No. 3)."],
    ["1. Introduction to the matter.", "Next."],
    ["It was in 1999.", "See Vol. 3 of it.", "Then we left."],
    ["We met in Rome.", "5 came.", "Give it to me.", "5 left."],
    ["He said No.", "Was it Dr?", "He chose B4.", 'Write "no".', "Go."],
    ["Ask Msgr. Smith.", "Go."],
    ["£5.", "That is all."],
    ["She works at Xprtz.", "He does not."],
    ["הוא בא.", "היא הלכה."],
    ["And so on ... it goes.", "The end…", "Ünder all."],
    ["Er kam mit Dr. Meyer, s. o. auch Bd. 3 usw. zurück.", "Ja."],
    ["Он пришёл.", "Она ушла!"],
    ["वह आया।", "वह गयी।"],
    ["هل جاء؟", "نعم."],
    ["No end here"],
    ["¿Qué pasa?", "¡Nada!"],
  ],
)
def test_sentences_of_scripts_with_spaces(sentences):
  assert punctuation.split(" ".join(sentences)) == sentences


@pytest.mark.parametrize(
  "sentences",
  [["他说：“你好。”", "然后走了。", "真的吗？", "是"], ["はい。", "いいえ！"]],
)
def test_sentences_of_scripts_without_spaces(sentences):
  assert punctuation.split("".join(sentences)) == sentences


def test_only_white_space_is_lost():
  assert punctuation.split(" \u00a0\t") == [""]
  assert punctuation.split("  Ab ce.   Ef go.  ") == ["Ab ce.", "Ef go."]


def records_of(tmp_path, text, name, **flags):
  (tmp_path / "text.txt").write_text(text)
  output = tmp_path / f"{name}.tfrecord"
  script_runner.succeed(
    "create_pretraining_data.py",
    input_file=tmp_path / "text.txt",
    output_file=output,
    vocab_file=tiny_model.write_vocabulary(
      tmp_path, ["he", "came", "she", "left", ".", "|"]
    ),
    max_seq_length=16,
    **flags,
  )
  return output.read_bytes()


def test_split_paragraphs_give_the_records_of_their_sentences(tmp_path):
  paragraphs = "He came. She left.\nShe came.\n\nShe left. He left.\n"
  sentences = "He came.\nShe left.\nShe came.\n\nShe left.\nHe left.\n"
  expected = records_of(tmp_path, sentences, "sentences")
  split = records_of(
    tmp_path, paragraphs, "split", sentence_splitter="punctuation"
  )
  assert split == expected
  assert records_of(tmp_path, paragraphs, "whole") != expected
  own = tmp_path / "bars.py"
  own.write_text("def split(paragraph): return paragraph.split(' | ')\n")
  bars = paragraphs.replace(". S", ". | S").replace(". H", ". | H")
  assert records_of(tmp_path, bars, "own", sentence_splitter=own) == expected


def test_shards_record_the_splitter(tmp_path):
  flags = {"shard_size_mb": 1e-7}  # Less than a byte.
  vocab = tiny_model.write_vocabulary(tmp_path, ["he", "came", "."])
  (tmp_path / "text.txt").write_text("He came. He left.\n")
  command = dict(
    input_file=tmp_path / "text.txt",
    output_file=tmp_path / "shards",
    vocab_file=vocab,
    max_seq_length=16,
    **flags,
  )
  script = "create_pretraining_data.py"
  script_runner.succeed(script, **command, sentence_splitter="punctuation")
  script_runner.refuse(
    script, "split_sentences punctuation, now it is False", **command
  )
