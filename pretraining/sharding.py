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

import collections
import functools
import json
import os
import re
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
from pretraining import record_maker, text_corpus
from records import tfrecord

_FORMAT = 2  # Of the manifest and of the shards' content.
_SHARD_NAME = re.compile(r"(.*)-\d{5}-of-\d{5}(\.gz)?", re.DOTALL)


class Shard(NamedTuple):
  """A shard: its number, its text_corpus.Pieces and its output file."""

  number: int
  pieces: list
  output: str


class ShardText(NamedTuple):
  """What was read for a shard: words, tokens, and how many are [UNK]."""

  words: int
  tokens: int
  unknown: int


class ShardResult(NamedTuple):
  """What the manifest records of a finished shard."""

  number: int
  records: int
  bytes: int
  sha256: str


def shard_names(output: str, count: int) -> list[str]:
  """Returns the names of `count` files.

  ("wiki.tfrecord.gz", 2) gives wiki.tfrecord-00000-of-00002.gz and
  wiki.tfrecord-00001-of-00002.gz.
  """
  # Kept at the end, where readers look for it.
  suffix = ".gz" if output.endswith(".gz") else ""
  base = output.removesuffix(suffix)
  return [f"{base}-{n:05}-of-{count:05}{suffix}" for n in range(count)]


class ShardedRun:
  """All shards of a text.

  Attributes:
    options: what the records depend on.
    shards: what is to be made.
    manifest: path of the file that records options, input and shards.
  """

  def __init__(
    self,
    options: record_maker.RecordOptions,
    files: list[str],
    output: str,
    *,
    shard_bytes: int,
  ):
    """Plans the shards; writes nothing.

    Args:
      options: what the records depend on.
      files: of text.
      output: prefix of the output names, see `shard_names`.
      shard_bytes: approximate bytes of text per shard.
    """
    pieces = text_corpus.plan_shards(
      files, shard_bytes, split_sentences=options.split_sentences
    )
    names = shard_names(output, len(pieces))
    numbers = range(len(pieces))
    self.shards = list(map(Shard, numbers, pieces, names))
    self.manifest = tfrecord.manifest_name(output)
    self.options = options
    # All that decides the content of the shards, but not where they lie.
    self._source = {
      "format": _FORMAT,
      "shard_bytes": shard_bytes,
      **options.to_manifest(),
      "inputs": {
        # Sizes: text that grew or shrank makes other shards.
        piece.path: piece.end for piece in text_corpus.whole_files(files)
      },
    }

  def make(self, num_processes: int = 1) -> list[ShardResult]:
    """Makes the missing shards on this machine; returns the results of all.

    Raises:
      InputError: there are outputs of other options or input, the text or
        the vocabulary cannot be used, or a process was killed.
    """
    missing = self.begin()
    # By bytes, which are known before any text is read.
    done = progress.Progress(
      sum(map(_text_bytes, missing)),
      parts=len(missing), part_name="shards", unit="words",
    )
    results = process_pool.in_order(
      functools.partial(make_shard, self.options), missing,
      processes=num_processes,
    )
    finished, texts = [], []
    for shard, (result, text) in zip(missing, results):
      finished.append(result)
      texts.append(text)
      done.advance(_text_bytes(shard), text.words)
    if texts:
      unknown_tokens.log_share(
        self.manifest,
        sum(text.unknown for text in texts),
        sum(text.tokens for text in texts),
      )
    return self.end(finished)

  def begin(self) -> list[Shard]:
    """Checks existing outputs, writes the manifest; returns missing shards.

    Raises:
      InputError: there are outputs of other options or input.
    """
    recorded = self._recorded()
    missing = [
      shard
      for shard in self.shards
      if not _is_finished(shard, recorded.get(os.path.basename(shard.output)))
    ]
    # Before the first shard: whatever stops the run, the files it leaves are
    # never taken for those of other options.
    self._write_manifest(recorded)
    if len(missing) < len(self.shards):
      logging.info(
        "%d of %d shards are finished already",
        len(self.shards) - len(missing),
        len(self.shards),
      )
    return missing

  def end(self, finished: list[ShardResult]) -> list[ShardResult]:
    """Writes the manifest with the results of all shards, and returns them.

    Those that are not `finished` here are examined.

    Raises:
      InputError: none of them has a record.
    """
    by_number = {result.number: result for result in finished}
    results = [
      # Each is checked by its size, and counted: the manifest must be right.
      by_number.get(shard.number) or _examined(shard) for shard in self.shards
    ]
    if not any(result.records for result in results):
      file_io.remove(self.manifest)
      raise errors.InputError(
        f"no record for {self.manifest}: give text with one sentence a line "
        "and blank lines between documents"
      )
    self._write_manifest(
      {
        os.path.basename(shard.output): result._asdict()
        for shard, result in zip(self.shards, results)
      }
    )
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
    manifest = _read_json(self.manifest)
    # The first difference is named; all must be equal.
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


def compare_with_manifests(paths: list[str]) -> list[str]:
  """Returns sentences on shards that differ from their manifests, or lack.

  Files that are no shards, or have no manifest, are skipped.
  """
  faults = []
  groups = collections.defaultdict(list)
  for path in paths:
    if name := _SHARD_NAME.fullmatch(path):
      groups[tfrecord.manifest_name(name[1])].append(path)
  for manifest, shards in groups.items():
    if file_io.exists(manifest):
      faults += _differences(manifest, shards)
  return faults


def _differences(manifest, paths):
  recorded = json_files.field(
    _read_json(manifest), "shards", dict[str, dict], manifest, {}
  )
  for path in paths:
    entry = recorded.pop(os.path.basename(path), None)
    if entry is None:
      yield f"{path}: not listed in {manifest}; finish the run"
    elif entry.get("sha256") != file_io.size_and_sha256(path)[1]:
      yield f"{path}: its SHA-256 is not the one in {manifest}"
  # A shard without a record has no file.
  for name, shard in recorded.items():
    if shard.get("records"):
      yield f"{manifest}: {name} is not among the files"


def _read_json(path):
  try:
    return json_files.read(path)
  except errors.InputError as error:
    raise errors.InputError(
      f"{error}; remove it and the files next to it"
    ) from error


def _is_finished(shard, recorded):
  """Whether a shard's file exists, with its recorded size if there is one.

  A shard that is recorded to give no record has no file.
  """
  if recorded and recorded.get("records") == 0:
    return True
  if not file_io.exists(shard.output):
    return False
  if recorded is None:
    return True
  return recorded.get("bytes") == file_io.size(shard.output)


def _text_bytes(shard):
  return sum(piece.end - piece.start for piece in shard.pieces)


def _examined(shard):
  """Returns the ShardResult of a shard that an earlier run finished."""
  if not file_io.exists(shard.output):
    return _without_records(shard)
  records = tfrecord.count_records(shard.output)
  size, sha256 = file_io.size_and_sha256(shard.output)
  return ShardResult(shard.number, records, size, sha256)


def _without_records(shard):
  return ShardResult(shard.number, 0, 0, "")


def make_shard(
  options: record_maker.RecordOptions, shard: Shard
) -> tuple[ShardResult, ShardText]:
  """Makes a shard's file; none if its text gives no record."""
  maker = _make_maker(options)
  # Unlike the original: a file ends a document, since its next one may be in
  # another shard.
  corpus = maker.read(shard.pieces, joined=False)
  unknown = maker.count_unknown(corpus)
  text = ShardText(corpus.num_words, len(corpus.ids), unknown)
  if not maker.gives_records(corpus):
    return _without_records(shard), text
  if corpus.num_documents == 1:
    logging.warning(
      "%s: its text is a single document, so its random next segments come "
      "from that document too; larger shards have more documents",
      shard.output,
    )
  seed = options.random_seed + shard.number
  with tfrecord.RecordWriter(shard.output) as writer:
    records = maker.write(corpus, [writer], seed=seed)
  size, sha256 = file_io.size_and_sha256(shard.output)
  return ShardResult(shard.number, records, size, sha256), text


# A process keeps its tokenizer for the next shard.
_make_maker = functools.lru_cache(maxsize=1)(record_maker.RecordMaker)
