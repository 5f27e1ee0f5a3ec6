"""Text of any size -> a TFRecord file for each shard of it.

The content of a shard's file depends only on its text, the options and the
shard's number: not on the number of processes, on the order in which they
finish, or on whether the run was killed and restarted. Each file is written
under a temporary name and renamed, so an existing file is complete, and a run
makes only the missing ones. A manifest next to them records the options and
the input; files of other options are never mixed with them.

Unlike the original: which takes all of the text at once. Shard i has the
records that it makes from that shard's text with --random_seed plus i, so a
random next segment comes from the same shard. A shard whose text gives no
record has no file.
"""

import dataclasses
import functools
import json
import os
from typing import NamedTuple

from absl import logging

from common import (
  errors,
  file_io,
  json_files,
  process_pool,
  progress,
  unknown_tokens,
)
from pretraining import data, instance_maker, masking_rule, record_maker
from records import tfrecord

_FORMAT = 2  # Version of the manifest and of the shards' content.


class Shard(NamedTuple):
  """A shard: its number, its data.Pieces and its output file."""

  number: int
  pieces: list
  output: str

  @property
  def name(self):
    """The file's name, which is its key in the manifest."""
    return os.path.basename(self.output)

  @property
  def text_bytes(self):
    return sum(piece.end - piece.start for piece in self.pieces)


class ShardText(NamedTuple):
  """The counts of a shard's text: words, tokens, and [UNK] tokens."""

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


class ShardedRun:
  """All shards of a text.

  Attributes:
    options: the options that the records depend on.
    shards: all Shards of the text.
    manifest: path of the file that records options, input and shards.
  """

  def __init__(
    self, options: instance_maker.RecordOptions, files: list[str], output: str,
    *, shard_bytes: int,
  ):
    """Plans the shards; writes nothing.

    `output` is the prefix of the names, see `shard_names`; a shard has about
    `shard_bytes` of text.
    """
    pieces = data.plan_shards(files, shard_bytes)
    names = shard_names(output, len(pieces))
    self.shards = list(map(Shard, range(len(pieces)), pieces, names))
    self.manifest = tfrecord.manifest_name(output)
    self.options = options
    flags = dataclasses.asdict(options)
    # The vocabulary's content is compared: its path does not matter.
    _, flags["vocab_sha256"] = file_io.size_and_sha256(flags.pop("vocab_file"))
    # The default is None, because files of version 0.1 do not record it.
    is_default = options.mask_shares == masking_rule.SHARES
    flags["mask_shares"] = None if is_default else list(options.mask_shares)
    flags["never_split"] = list(options.never_split) or None
    # Everything that determines the shards' content; their folder does not.
    self._source = {
      "format": _FORMAT,
      "shard_bytes": shard_bytes,
      **flags,
      "split_sentences": False,  # Version 0.1 could.
      "inputs": {
        # Sizes are compared: text that grew or shrank makes other shards.
        piece.path: piece.end for piece in data.whole_files(files)
      },
    }

  def make(self, num_processes: int = 1) -> list[ShardResult]:
    """Makes the missing shards; returns the results of all.

    Raises InputError: outputs of other options or input exist, the text or
    the vocabulary cannot be used, no shard has a record, or a process was
    killed.
    """
    recorded = self._recorded()
    missing = [
      shard for shard in self.shards
      if not _is_finished(shard, recorded.get(shard.name))
    ]
    # The manifest is written before the first shard, so that files of a run
    # that was stopped are never mistaken for files of other options.
    self._write_manifest(recorded)
    if len(missing) < len(self.shards):
      logging.info(
        "%d of %d shards are finished already",
        len(self.shards) - len(missing), len(self.shards),
      )
    new_results = self._make_missing(missing, num_processes)
    results = [
      # Shards found finished are counted and hashed for the manifest.
      new_results.get(shard.number) or _examined(shard) for shard in self.shards
    ]
    if not any(result.records for result in results):
      file_io.remove(self.manifest)
      raise errors.InputError(
        f"no record for {self.manifest}: give text with one sentence a line "
        "and blank lines between documents"
      )
    self._write_manifest({
      shard.name: result._asdict()
      for shard, result in zip(self.shards, results)
    })
    return results

  def _make_missing(self, missing, num_processes):
    """Makes shards; returns the ShardResult of each number."""
    # Progress is in bytes, which are known before any text is read.
    done = progress.Progress(
      sum(shard.text_bytes for shard in missing),
      parts=len(missing), part_name="shards", unit="words",
    )
    new_results = process_pool.in_order(
      functools.partial(make_shard, self.options), missing,
      processes=num_processes,
    )
    results, tokens, unknown = {}, 0, 0
    for shard, (result, text) in zip(missing, new_results):
      results[shard.number] = result
      tokens += text.tokens
      unknown += text.unknown
      done.advance(shard.text_bytes, text.words)
    if missing:
      unknown_tokens.log_share(self.manifest, unknown, tokens)
    return results

  def _recorded(self):
    """Returns the shards of an earlier run's manifest, by file name."""
    if not file_io.exists(self.manifest):
      for shard in self.shards:
        if file_io.exists(shard.output):
          raise errors.InputError(
            f"{shard.output} exists, but {self.manifest}, which would say how "
            "it was made, does not: remove it, or pass another --output_file"
          )
      return {}
    try:
      manifest = json_files.read(self.manifest)
    except errors.InputError as error:
      raise errors.InputError(
        f"{error}; remove it and the files next to it"
      ) from error
    # The error names the first difference.
    for name, now in self._source.items():
      before = manifest.get(name)
      if before != now:
        raise errors.InputError(
          f"{self.manifest}: the files next to it were made with {name} "
          f"{before}, now it is {now}: pass the former value, or another "
          "--output_file, or remove those files with their manifest"
        )
    return json_files.field(
      manifest, "shards", dict[str, dict], self.manifest, {}
    )

  def _write_manifest(self, shards):
    content = {**self._source, "shards": shards}
    file_io.write_text(self.manifest, json.dumps(content, indent=1) + "\n")


def _is_finished(shard, recorded):
  """Whether a shard's file exists, with its recorded size if any.

  A shard that is recorded to give no record has no file.
  """
  if recorded and recorded.get("records") == 0:
    return True
  if not file_io.exists(shard.output):
    return False
  return not recorded or recorded.get("bytes") == file_io.size(shard.output)


def _examined(shard):
  """Returns the ShardResult of a finished shard."""
  if not file_io.exists(shard.output):
    return ShardResult(shard.number, 0, 0, "")
  records = tfrecord.count_records(shard.output)
  return ShardResult(
    shard.number, records, *file_io.size_and_sha256(shard.output)
  )


def make_shard(
  options: instance_maker.RecordOptions, shard: Shard
) -> tuple[ShardResult, ShardText]:
  """Makes a shard's file, unless its text gives no record."""
  maker = _make_maker(options)
  # Unlike the original: a file ends a document, since its next one may be in
  # another shard.
  corpus = maker.read(shard.pieces, joined=False)
  unknown = maker.count_unknown(corpus)
  if instance_maker.gives_any(corpus, options):
    seed = options.random_seed + shard.number
    with tfrecord.RecordWriter(shard.output) as writer:
      maker.write(corpus, [writer], seed=seed)
  text = ShardText(corpus.num_words, len(corpus.ids), unknown)
  return _examined(shard), text


# A process keeps its tokenizer for the next shard.
_make_maker = functools.lru_cache(maxsize=1)(record_maker.RecordMaker)
