"""sentence_splitting: the rule, by examples."""

import pytest

from pretraining import sentence_splitting


@pytest.mark.parametrize(
  "sentences",
  [
    ["He came.", "She left!", "Why?", "Nobody knows"],
    ["Mr. Smith went to St. Louis on Jan. 5.", "He was 5.5 ft tall."],
    ["J. K. Rowling lives in the U.S. today.", "It is far."],
    ["He lives in the U.S.", "The book sold well."],
    ["Fruit, e.g. Apples, i.e. This one, is good.", "Eat it."],
    ['"Was he there?" she asked.', '"Yes."', "(He was.)", "“Good.”"],
    ["It cost $5.", "20 people came (see Fig. 3)."],
    ["1. Introduction to the matter.", "Next."],
    ["And so on ... it goes.", "The end…", "Ünder all."],
    ["No end here"],
    ["他说：“你好。”", "然后走了。", "真的吗？", "是"],
    ["¿Qué pasa?", "¡Nada!"],
    [""],
  ],
)
def test_sentences(sentences):
  together = "" if len(sentences[0]) == 0 else " ".join(sentences)
  if "。" in together:
    together = "".join(sentences)
  assert sentence_splitting.split_sentences(together) == sentences


def test_white_space_only():
  assert sentence_splitting.split_sentences(" \u00a0\t") == [""]
  assert sentence_splitting.split_sentences("  A b.   C d.  ") == [
    "A b.", "C d."
  ]
