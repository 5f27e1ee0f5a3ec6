"""Chinese text whose words are separated by spaces -> ids and word flags."""

import unicodedata

from pretraining import text_corpus


class SegmentedEncoder:
  """Encodes lines whose Chinese words are separated by white space.

  The ids are those of the text without the segmentation, since every Han
  character is a token anyway. It adds which characters form a word, for
  masking whole words (Cui et al. 2019): in "使用 语言 模型" the second
  characters of each word continue it, as "##" pieces do.
  """

  def __init__(self, tokenizer):
    """Takes a tokenization.FullTokenizer."""
    self._tokenizer = tokenizer
    self._is_han = {}

  def __call__(self, lines):
    """Encodes lines (list of str), as BulkEncoder does, with `continues`."""
    ids, lengths, continues = [], [], bytearray()
    for line in lines:
      before = len(ids)
      # White space ends a word here; the tokenizer alone would cut every Han
      # character off.
      for word in line.split():
        self._encode_word(word, ids, continues)
      lengths.append(len(ids) - before)
    return ids, lengths, bytes(continues)

  def _encode_word(self, word, ids, continues):
    tokenizer = self._tokenizer
    tokens = tokenizer.basic_tokenizer.tokenize(word)
    for place, token in enumerate(tokens):
      pieces = tokenizer.wordpiece_tokenizer.tokenize(token)
      ids += tokenizer.convert_tokens_to_ids(pieces)
      goes_on = place > 0 and self._is_han_character(token)
      continues.append(
        text_corpus.CONTINUES_WORD if goes_on else text_corpus.STARTS_WORD
      )
      # "##" pieces, of words that are not Han.
      continues += bytes([text_corpus.CONTINUES_WORD]) * (len(pieces) - 1)

  def _is_han_character(self, token):
    """Whether a token is a character that the tokenizer makes a word."""
    if token not in self._is_han:
      alone = self._tokenizer.basic_tokenizer.tokenize(f"a{token}a")
      # Punctuation is cut off too, but it continues no word.
      is_letter = len(token) == 1 and unicodedata.category(token) == "Lo"
      self._is_han[token] = is_letter and len(alone) == 3
    return self._is_han[token]
