"""What classifiers learn from: texts and what is said of them.

Every reader of data (glue_data, own_data) makes these, whatever the file.
"""

from typing import NamedTuple, Optional

import errors

# One class of several: softmax. As in the original.
SINGLE = "single"
# A number.
REGRESSION = "regression"
# Any number of classes at once: a sigmoid for each.
MULTI_LABEL = "multi_label"
# One of several endings of a text.
CHOICE = "choice"
KINDS = (SINGLE, REGRESSION, MULTI_LABEL, CHOICE)


class Example(NamedTuple):
  """One text, or two, and its label.

  Attributes:
    guid: its name: "train-1", as in the original, or the data's own.
    text_a: str.
    text_b: str, or None where there is one text.
    label: the class (str); a float for regression; a tuple of str, which may
      be empty, for several classes at once; None where it is not known. In
      multiple choice the class is the number of the right ending, "0" on.
    endings: the texts to choose from (multiple choice), each to follow
      text_a; text_b is None then.
    place: "file:line", for errors.
  """

  guid: str
  text_a: str
  text_b: Optional[str] = None
  label: object = None
  endings: tuple = ()
  place: str = ""


class Split(NamedTuple):
  """Examples that are learned from, scored or predicted together.

  Attributes:
    name: "train", "dev", "dev_matched", ...
    examples: list of Example.
    paths: list of the files that they are from.
  """

  name: str
  examples: list
  paths: list


def check_labelled(examples):
  """Refuses examples without labels, which can neither teach nor score.

  Raises:
    InputError: one has none; its place is named.
  """
  for example in examples:
    if example.label is None:
      raise errors.InputError(
        f"{example.place or example.guid}: no label, but training and "
        "evaluation need one; predict with these data, or add a column of "
        "labels"
      )
