r"""Downloads released models and data sets, ready for the other scripts.

  python download.py --list
  python download.py --dir=downloads --model=uncased_L-12_H-768_A-12 \
      --data=mrpc,squad1

Each is complete in its own folder below --dir, or not there at all. A broken
transfer is continued by the same command; what is there is left alone. Prints
the flags that make the other scripts use what was downloaded.
"""

from common import command, flags

flags.DEFINE_list("model", [], "Names of models, see --list.")
flags.DEFINE_list(
  "data", [], "Names of data sets, see --list; glue: all of GLUE, squad: both."
)
flags.DEFINE_string("dir", "downloads", "Folder of all downloads.")
flags.DEFINE_string(
  "base_url", None,
  "A mirror: https://host/path is read from BASE_URL/host/path.",
)
flags.DEFINE_bool(
  "list", False, "Print all names with licence and size, and do nothing."
)

# --help and mistakes are answered before the rest is imported.
command.parse_flags(__name__, imports_tensorflow=False)

from common import errors
from reproduction import assemble, catalog

GROUPS = {
  "glue": (
    "cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli",
    "ax",
  ),
  "squad": ("squad1", "squad2"),
}


def print_list():
  """Prints a table of everything that can be downloaded."""
  for title, entries in (("Models", catalog.MODELS), ("Data", catalog.DATA)):
    print(f"{title}:")
    for entry in entries.values():
      size, is_exact = assemble.total_size(entry)
      mark = "" if is_exact else "~"
      text = f"{mark}{size / 1e6:,.1f} MB" if size else "size unknown"
      checked = "sha256" if all(file.sha256 for file in entry.files) else ""
      print(
        f"  {entry.name:32} {text:>12}  {checked:6}  {entry.program:14}  "
        f"{entry.licence}: {entry.about}"
      )
  print("Elsewhere:")
  for name, text in catalog.POINTERS.items():
    print(f"  {name}: {text}")


def chosen_entries(models, data):
  """Returns the catalog.Entries of two lists of names, each once.

  Raises:
    InputError: a name is not in the catalog.
  """
  names = [(name, catalog.MODELS, "model") for name in models]
  for name in data:
    # A group's name stands for all its data sets.
    names += [(each, catalog.DATA, "data") for each in GROUPS.get(name, [name])]
  entries = {}
  for name, known, flag in names:
    if name in catalog.POINTERS:
      raise errors.InputError(f"--{flag}={name}: {catalog.POINTERS[name]}")
    if name not in known:
      raise errors.InputError(
        f"--{flag}={name} is unknown; --list prints all names, among them "
        f"{', '.join(list(known)[:3])}"
      )
    entries[name] = known[name]
  # Once each, though a group and a name may both ask for it.
  return list(entries.values())


def main(_):
  settings = flags.read_settings()
  if settings.list:
    print_list()
    return
  entries = chosen_entries(settings.model, settings.data)
  if not entries:
    raise errors.InputError("nothing to do: pass --model, --data or --list")
  for entry in entries:
    folder, is_new = assemble.fetch(
      entry, settings.dir, base_url=settings.base_url
    )
    state = "downloaded" if is_new else "already there"
    print(f"{entry.name}: {state}. Flags for the scripts:")
    for flag in assemble.flags_to_paste(entry, folder):
      print(f"  {flag}")


if __name__ == "__main__":
  command.run(main)
