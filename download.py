r"""Downloads released models and data sets, ready for the other scripts.

  python download.py --list
  python download.py --dir=downloads --model=uncased_L-12_H-768_A-12 \
      --data=mrpc,squad1

A download's folder below --dir appears only when the download is complete.
Run the same command again to continue a broken transfer; it skips complete
downloads. The script prints the flags with which other scripts use the files.
"""

from common import command, flags

flags.DEFINE_list(
  "model",
  [],
  "Names of models from --list, or of models of the hub, such as "
  "google-bert/bert-base-uncased.",
)
flags.DEFINE_list(
  "data", [], "Data sets from --list. glue: all of GLUE; squad: both versions."
)
flags.DEFINE_string("dir", "downloads", "Folder for all downloads.")
flags.DEFINE_string(
  "base_url",
  None,
  "URL of a mirror: https://host/path is downloaded from BASE_URL/host/path.",
)
flags.DEFINE_bool(
  "list", False, "Print all names with licence and size, and download nothing."
)

# --help and flag errors do not need the other imports.
command.parse_flags(__name__, imports_tensorflow=False)

from collections.abc import Iterable

from common import errors
from reproduction import catalog, downloads, hub


def print_list() -> None:
  """Prints the models and data sets, and where to get other data."""
  for title, entries in (("Models", catalog.MODELS), ("Data", catalog.DATA)):
    print(f"{title}:")
    for entry in entries.values():
      sizes, text = [file.size for file in entry.files], "size unknown"
      if all(sizes):
        text = f"{sum(sizes) / 1e6:,.1f} MB"
      elif entry.bytes_after:
        text = f"~{entry.bytes_after / 1e6:,.1f} MB"
      checked = "sha256" if entry.is_checked else ""
      print(
        f"  {entry.name:32} {text:>12}  {checked:6}  {entry.program:14}  "
        f"{entry.licence}: {entry.about}"
      )
  print("Elsewhere:")
  for entry in catalog.ELSEWHERE.values():
    print(f"  {entry.name}: {entry.about}")


def chosen_entries(flag: str, entries, names: list[str]):
  """Yields the catalog.Entries that the names in a flag select.

  Raises InputError: a name is unknown, or its data is only offered elsewhere.
  """
  for name in names:
    # A group's name stands for all its data sets.
    named = [e for e in entries.values() if name in (e.name, e.group)]
    if name in catalog.ELSEWHERE:
      raise errors.InputError(
        f"--{flag}={name}: {catalog.ELSEWHERE[name].about}"
      )
    if not named:
      raise errors.InputError(
        f"--{flag}={name} is unknown; --list prints all names, among them "
        f"{', '.join(list(entries)[:3])}"
      )
    yield from named


def print_flags(name: str, is_new: bool, options: Iterable[str]) -> None:
  """Prints the flags with which other scripts use a download."""
  print(f"{name}: {'downloaded' if is_new else 'already there'}. ", end="")
  print("Flags for the scripts:", *(f"  {flag}" for flag in options), sep="\n")


def main(_: list[str]) -> None:
  """Lists or downloads weights and data."""
  settings = flags.read_settings()
  if settings.list:
    print_list()
    return
  names = dict.fromkeys(filter(hub.is_name, settings.model))
  listed = [name for name in settings.model if name not in names]
  entries = [
    *chosen_entries("model", catalog.MODELS, listed),
    *chosen_entries("data", catalog.DATA, settings.data),
  ]
  if not (entries or names):
    raise errors.InputError("nothing to do: pass --model, --data or --list")
  for name in names:
    folder, is_new = hub.fetch(name, settings.dir, settings.base_url)
    print_flags(name, is_new, [f"--model_dir={folder}"])
  # A group and a name may both select an entry: fetch it only once.
  for entry in {entry.name: entry for entry in entries}.values():
    folder, is_new = downloads.fetch(entry, settings.dir, settings.base_url)
    options = entry.flags.replace("{folder}", folder).split()
    print_flags(entry.name, is_new, options)


if __name__ == "__main__":
  command.run(main)
