"""Turns text of any size into TFRecord files, one for each shard.

The content of a shard's file depends only on its text, the options and the
shard's number, not on the number of processes or on restarts. Each file is
written under a temporary name and renamed, so an existing file is complete,
and a run makes only the missing files. A manifest next to the files records
the options and the input, so files with different options are never mixed.

Unlike the original: text is processed shard by shard. Shard i has the records
that the original makes from the shard's text with --random_seed plus i, so a
random next segment comes from the same shard. A shard whose text gives no
record has no file.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from absl import logging

from common import errors, file_io, json_files, progress, unknown_tokens
from pretraining import data, instance_maker, languages, masks, record_maker
from records import tfrecord

_FORMAT = 2  # Version of the manifest and of the shards' content.


class Shard(NamedTuple):
  """A shard: its number, its data.Pieces and its output file."""

  number: int
  pieces: list
  output: str

  @property
  def name(self) -> str:
    """The file's name, which is its key in the manifest."""
    return os.path.basename(self.output)

  @property
  def text_bytes(self) -> int:
    """Size of the text in bytes."""
    return sum(piece.end - piece.start for piece in self.pieces)


class ShardText(NamedTuple):
  """The numbers of words, tokens and [UNK] tokens in a shard's text."""

  words: int
  tokens: int
  unknown: int


class ShardResult(NamedTuple):
  """The manifest's entry for a finished shard."""

  number: int
  records: int
  bytes: int
  sha256: str


def shard_names(output: str, count: int) -> list[str]:
  """Returns the names of `count` files.

  ("wiki.tfrecord.gz", 2) gives wiki.tfrecord-00000-of-00002.gz and
  wiki.tfrecord-00001-of-00002.gz.
  """
  # ".gz" stays at the end, where readers look for it.
  suffix = ".gz" if output.endswith(".gz") else ""
  base = output.removesuffix(suffix)
  return [f"{base}-{n:05}-of-{count:05}{suffix}" for n in range(count)]


def _with_content(path: str) -> str:
  """Returns a file's name and its content's hash."""
  _, sha256 = file_io.size_and_sha256(path)
  return f"{os.path.basename(path)} {sha256}"


def _extensions_of(options: instance_maker.RecordOptions) -> dict[str, Any]:
  """Returns the entries of a manifest for the extensions that options name."""
  names = ("masking", "packing", "units", "sentence_splitter")
  values = {name: getattr(options, name) for name in names}
  # As in version 0.1: False if lines are sentences.
  values["split_sentences"] = values.pop("sentence_splitter") or False
  entries = {
    name: _with_content(value) if str(value).endswith(".py") else value
    for name, value in values.items()
  }
  unit_options = {
    name: _with_content(value) if value and name.endswith("_file") else value
    for name, value in options.unit_options
  }
  return {**entries, "unit_options": unit_options or None}


class ShardedRun:
  """A run that writes all shards of a text.

  Attributes:
    options: the options that the records depend on.
    shards: all Shards of the text.
    manifest: path of the file that lists options, input and shards.
  """

  def __init__(
    self,
    options: instance_maker.RecordOptions,
    files: list[str],
    output: str,
    *,
    shard_bytes: int,
  ):
    """Plans the shards; writes nothing.

    `output` is the prefix of the file names, see `shard_names`. A shard has
    about `shard_bytes` of text.
    """
    whole = data.whole_files(files)
    smoothed = languages.smoothed(whole, options.language_smoothing)
    pieces = data.plan_shards(smoothed, shard_bytes)
    names = shard_names(output, len(pieces))
    self.shards = list(map(Shard, range(len(pieces)), pieces, names))
    self.manifest = tfrecord.manifest_name(output)
    self.options = options
    flags = dataclasses.asdict(options)
    # The vocabulary's content is compared, because its path may change.
    _, flags["vocab_sha256"] = file_io.size_and_sha256(flags.pop("vocab_file"))
    # Defaults are None, because manifests of version 0.1 lack these keys.
    is_default = options.mask_shares == masks.SHARES
    flags["mask_shares"] = None if is_default else list(options.mask_shares)
    flags["never_split"] = list(options.never_split) or None
    flags |= _extensions_of(options)
    del flags["sentence_splitter"]  # It is called split_sentences.
    if options.language_smoothing == 1:
      flags["language_smoothing"] = None
    # Everything that determines the content of the shards.
    self._source = {
      "format": _FORMAT,
      "shard_bytes": shard_bytes,
      **flags,
      "inputs": {
        # A text of a different size gives different shards.
        piece.path: piece.end
        for piece in whole
      },
    }

  def make(self, in_order: Callable = map) -> list[ShardResult]:
    """Makes the missing shards; returns the results of all shards.

    Raises InputError: existing files have other options or input, or lack a
    valid manifest; the text or the vocabulary cannot be used; no shard has a
    record; a process was killed; or a cluster failed.

    Args:
      in_order: returns function(block) for each of a list of blocks, in order.
        By default, this process makes one shard after another.
        process_pool.in_order and clusters.in_order share the work.
    """
    results = self._recorded()
    # The manifest precedes the shards, so the files of an interrupted run are
    # never mistaken for files of other options.
    self._write_manifest(results)
    results.update(self._make_missing(results, in_order))
    if not any(result.records for result in results.values()):
      file_io.remove(self.manifest)
      raise errors.InputError(
        f"{self.manifest}: the text gives no records; pass text with one "
        "sentence per line and blank lines between documents"
      )
    results = {shard.name: results[shard.name] for shard in self.shards}
    self._write_manifest(results)
    return list(results.values())

  def _make_missing(
    self, recorded: dict[str, ShardResult], in_order: Callable
  ) -> dict[str, ShardResult]:
    """Makes the shards that are not recorded; returns ShardResults by name."""
    missing = [shard for shard in self.shards if shard.name not in recorded]
    existing, total = self._existing(), len(self.shards)
    finished = total - sum(shard.name not in existing for shard in missing)
    if finished:
      logging.info("%d of %d shards are finished already", finished, total)
    # Progress is in bytes, which are known before any text is read.
    done = progress.Progress(
      sum(shard.text_bytes for shard in missing),
      parts=len(missing),
      part_name="shards",
      unit="words",
    )
    results, tokens, unknown = {}, 0, 0
    pairs = in_order(functools.partial(make_shard, self.options), missing)
    for shard, (result, text) in zip(missing, pairs):
      # A cluster may return lists instead of named tuples.
      result, text = ShardResult(*result), ShardText(*text)
      results[shard.name] = result
      tokens += text.tokens
      unknown += text.unknown
      done.advance(shard.text_bytes, text.words)
    if missing:
      unknown_tokens.log_share(self.manifest, unknown, tokens)
    return results

  def _existing(self) -> set:
    """Returns the names in the output folder, with a single request."""
    return set(file_io.names_in(os.path.dirname(self.manifest) or "."))

  def _recorded(self) -> dict:
    """Returns the ShardResults in an earlier run's manifest, by file name.

    Shards without their files are left out. Files of a wrong size are removed.
    """
    existing = self._existing()
    if not file_io.exists(self.manifest):
      for shard in self.shards:
        if shard.name in existing:
          raise errors.InputError(
            f"{shard.output} exists, but not its manifest {self.manifest}: "
            f"remove {shard.output}, or pass another --output_file"
          )
      return {}
    try:
      manifest = json_files.read(self.manifest)
    except errors.InputError as error:
      raise errors.InputError(
        f"{error}; remove this manifest and its shard files"
      ) from error
    # The error names the first difference.
    for name, now in self._source.items():
      before = manifest.get(name)
      if before != now:
        raise errors.InputError(
          f"{self.manifest}: the files next to it were made with {name} "
          f"{before}, now it is {now}: restore the former value, pass another "
          "--output_file, or remove those files and their manifest"
        )
    entries = json_files.field(
      manifest, "shards", dict[str, dict], self.manifest, {}
    )
    recorded = {}
    for shard in self.shards:
      entry = entries.get(shard.name, {})
      if entry.keys() != set(ShardResult._fields):
        continue
      result = ShardResult(**entry)
      # A shard that gives no record has no file.
      if result.records and shard.name not in existing:
        continue
      if result.records and result.bytes != file_io.size(shard.output):
        file_io.remove(shard.output)
        continue
      recorded[shard.name] = result
    return recorded

  def _write_manifest(self, shards: dict[str, ShardResult]) -> None:
    entries = {name: result._asdict() for name, result in shards.items()}
    content = {**self._source, "shards": entries}
    file_io.write_text(self.manifest, json.dumps(content, indent=1) + "\n")


def _result_from_file(shard: Shard) -> ShardResult:
  """Returns a finished shard's ShardResult, computed from its file."""
  if not file_io.exists(shard.output):
    return ShardResult(shard.number, 0, 0, "")
  records = tfrecord.count_records(shard.output)
  size, sha256 = file_io.size_and_sha256(shard.output)
  return ShardResult(shard.number, records, size, sha256)


def make_shard(
  options: instance_maker.RecordOptions, shard: Shard
) -> tuple[ShardResult, ShardText]:
  """Makes a shard's file, if it is missing; returns its result and counts."""
  if file_io.exists(shard.output):
    # Counting and hashing may take hours, so workers do both in parallel.
    return _result_from_file(shard), ShardText(0, 0, 0)
  maker = _make_maker(options)
  # Unlike the original: a document ends at the end of its file, because the
  # next file may be in another shard.
  corpus = maker.read(shard.pieces, joined=False)
  unknown = maker.count_unknown(corpus)
  if corpus.num_documents:
    seed = options.random_seed + shard.number
    with tfrecord.RecordWriter(shard.output) as writer:
      maker.write(corpus, [writer], seed=seed)
  text = ShardText(corpus.num_words, len(corpus.ids), unknown)
  return _result_from_file(shard), text


# A process keeps its tokenizer for the next shard.
_make_maker = functools.lru_cache(maxsize=1)(record_maker.RecordMaker)
