"""RoBERTa's vocabulary before tokenizer.json: vocab.json and merges.txt.

  vocab.json   {piece: id}
  merges.txt   the pairs that become one piece, the first pair first

A piece is a string of bytes, each written as a printable character.
"""

from typing import Any

from common import errors, file_io, json_files

VOCABULARY, MERGES = "vocab.json", "merges.txt"
FILES = (VOCABULARY, MERGES)


def content(folder: json_files.Folder, name: str, config: dict) -> dict:
  """Returns the entries of the equivalent tokenizer.json.

  Args:
    folder: the folder of the files.
    name: the name of the vocabulary.
    config: the entries of tokenizer_config.json.

  Raises:
    InputError: a file is missing or damaged.
  """
  vocab = folder.read(name, required=True)
  space = bool(config.get("add_prefix_space"))
  path = folder.path_of(MERGES)
  merges = []
  for number, line in file_io.read_lines(path):
    pair = line.strip("\r\n").split(" ")
    if number == 1 and line.startswith("#version") or pair == [""]:
      continue
    if len(pair) != 2:
      raise errors.InputError(
        f"{path}:{number}: {line.strip()!r:.60} is not a pair of pieces with "
        "one space between them; copy the file again"
      )
    merges.append(pair)
  bytes_ = {
    "type": "ByteLevel",
    "add_prefix_space": space,
    "trim_offsets": True,
    "use_regex": True,
  }
  return {
    "version": "1.0",
    "added_tokens": added_tokens(vocab),
    "pre_tokenizer": bytes_,
    "decoder": bytes_,
    "post_processor": {
      "type": "RobertaProcessing",
      "sep": ["</s>", vocab.get("</s>", 2)],
      "cls": ["<s>", vocab.get("<s>", 0)],
      "trim_offsets": True,
      "add_prefix_space": space,
    },
    "model": {"type": "BPE", "vocab": vocab, "merges": merges},
  }


def added_tokens(vocab: dict[str, int]) -> list[dict[str, Any]]:
  """Returns RoBERTa's special tokens in a vocabulary, for tokenizer.json."""
  names = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
  return [
    {
      "id": vocab[name],
      "content": name,
      "single_word": False,
      "lstrip": name == "<mask>",
      "rstrip": False,
      "normalized": False,
      "special": True,
    }
    for name in names
    if name in vocab
  ]
