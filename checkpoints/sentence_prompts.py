"""The prompts of a sentence-transformers folder: text before each text.

config_sentence_transformers.json has them by name; one may be the default.
No TensorFlow.
"""

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from common import errors, json_files

FILE = "config_sentence_transformers.json"
# The names of a prompt, by the role of a text in `vector_search`. Unlike in
# sentence-transformers 6, where an empty "document" hides a stored "passage".
ROLES = {"query": ("query",), "document": ("document", "passage", "corpus")}


class Prompts(NamedTuple):
  """The prompts of a model.

  Attributes:
    by_name: {name: text before each text}.
    default: the text before each text if no prompt is chosen; "": none.
    place: the file that stores them, for errors.
    not_pooled: the file that excludes prompts from the pooling; "": none does.
  """

  by_name: Mapping[str, str] = MappingProxyType({})
  default: str = ""
  place: str = ""
  not_pooled: str = ""

  def chosen(
    self, text: str | None, name: str | None = None, role: str = ""
  ) -> str:
    """Returns the text to put before each text; "" for none.

    As in sentence-transformers: the first of these that is given or stored.

    Args:
      text: the prompt itself; None if it is not given.
      name: a name in `by_name`; None if it is not given.
      role: one of ROLES, whose stored prompt replaces the default; "": none.

    Raises:
      InputError: both are given, there is no such name, or the model does not
        pool prompts.
    """
    if text is not None and name is not None:
      raise errors.InputError(
        f"prompt={text!r:.60} and prompt_name={name!r:.60} are two prompts for "
        "one text; leave one of them out"
      )
    if name is not None and name not in self.by_name:
      known = ", ".join(self.by_name) or "none"
      raise errors.InputError(
        f"prompt_name={name!r:.60} is not a prompt of the model; "
        f"{self.place or 'its folder'} has {known}: pass one of these, or the "
        "text itself as prompt"
      )
    stored = [n for n in ROLES.get(role, ()) if self.by_name.get(n)]
    if text is None:
      names = [n for n in (name, *stored) if n is not None]
      text = self.by_name[names[0]] if names else self.default
    if text and self.not_pooled:
      raise errors.InputError(
        f"{self.not_pooled}: include_prompt is false, and this project pools "
        f"the tokens of the prompt {text!r:.60}, too: pass an empty prompt "
        "(--prompt=), or use sentence-transformers"
      )
    return text

  def of_search(self, text: str | None, name: str | None) -> dict[str, str]:
    """Returns {"prompt": of the lines, "query_prompt": of the queries}.

    For arguments and errors see `chosen`.
    """
    return {
      "prompt": self.chosen(text, name, "document"),
      "query_prompt": self.chosen(text, name, "query"),
    }


def read(folder: json_files.Folder | str) -> Prompts:
  """Returns the prompts in the file of a folder, if it has one.

  Raises InputError: the file is damaged, or lacks the default prompt.
  """
  folder = json_files.Folder.at(folder)
  path, values = folder.path_of(FILE), folder.read(FILE)
  stored = json_files.field(values, "prompts", dict[str, str | None], path, {})
  by_name = {name: text or "" for name, text in stored.items()}
  default = json_files.field(
    values, "default_prompt_name", str | None, path, None
  )
  # sentence-transformers has these two, empty, without a file.
  if default not in (None, "query", "document", *by_name):
    raise errors.InputError(
      f"{path}: default_prompt_name is {default!r}, and prompts has "
      f"{', '.join(by_name) or 'none'}; correct the file"
    )
  return Prompts(by_name, by_name.get(default or "", ""), path)


def write(folder: str, prompts: Prompts, default: str) -> None:
  """Writes the file of a folder; without any prompt, none.

  Args:
    folder: an existing folder.
    prompts: the prompts of the model.
    default: the text before each text, which gets a name if it has none.
  """
  by_name = dict(prompts.by_name)
  names = [name for name, text in by_name.items() if text == default]
  if default and not names:
    names = ["default"]
    by_name["default"] = default
  if not by_name:
    return
  values = {
    "prompts": by_name,
    "default_prompt_name": names[0] if default else None,
    "similarity_fn_name": "cosine",
  }
  json_files.write(os.path.join(folder, FILE), values)
