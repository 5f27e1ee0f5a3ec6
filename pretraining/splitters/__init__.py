"""Splits paragraphs into sentences; --sentence_splitter names a file.

A file defines:

  def split(paragraph: str) -> list[str]:
    '''Returns the sentences of a line that is not blank, in order.'''

For example, a file for spaCy has three lines:

  import spacy
  _model = spacy.blank("de"); _model.add_pipe("sentencizer")
  def split(paragraph): return [s.text for s in _model(paragraph).sents]

No TensorFlow.
"""
