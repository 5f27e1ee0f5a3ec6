"""Scripts answer --help and mistyped flags before TensorFlow is loaded."""

import ast
import logging
import os
import re
import signal
import subprocess
import sys

import pytest
from absl import flags as absl_flags

import script_flags
import test_layout
from common import command, errors, flag_help, flags, program
from message_facts import says

# Importing one of these modules ends the script with an ImportError.
BLOCKED = """
import runpy, sys
for name in ("tensorflow", "tensorflow_text", "numpy", "torch"):
  sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*arguments, **options):
  """Runs a command that can import the project; returns its process."""
  return subprocess.run(
    arguments,
    capture_output=True,
    text=True,
    env={**os.environ, "PYTHONPATH": str(test_layout.ROOT)},
    **options,
  )


def run_blocked(script, *arguments):
  return run(sys.executable, "-c", BLOCKED, script, *arguments)


@pytest.mark.parametrize("name", test_layout.VERBS)
def test_help_and_mistakes_need_no_tensorflow(name):
  script = str(test_layout.VERBS[name])
  process = run_blocked(script, "--help")
  assert process.returncode == 1  # absl's exit code after --help.
  for flag in test_layout.flags_of(name):
    assert f"--{flag}:" in process.stdout or f"--[no]{flag}:" in process.stdout
  assert max(map(len, process.stdout.splitlines())) <= 80
  process = run_blocked(script, "--no_such_flag=1")
  assert process.returncode == 1
  assert process.stderr == (
    f"{name}.py: error: Unknown command line flag 'no_such_flag'; --help lists "
    "all flags\n"
  )
  # The script parses its flags before it needs TensorFlow.
  assert "parse_flags" in test_layout.VERBS[name].read_text()


LARGE = {
  "run_classifier",
  "run_squad",
  "run_ner",
  "run_pretraining",
  "create_pretraining_data",
}


@pytest.mark.parametrize("name", sorted(LARGE))
def test_help_shows_ten_flags_and_then_groups(name):
  with script_flags.defined(name) as names:
    groups = flag_help.in_groups(flags.of_script())
    text = flag_help.text(flags.of_script())
  titles = [
    "Main",
    "Data",
    "Model",
    "Training",
    "Evaluation and prediction",
    "Devices",
    "More",
  ]
  if name == "create_pretraining_data":
    titles[3:5] = []
  assert list(groups) == re.findall(r"^(\S.*):$", text, re.M) == titles
  shown = [flag.name for group in groups.values() for flag in group]
  assert sorted(shown) == sorted(names)
  assert len(groups["Main"]) == 10 and len(groups["More"]) < 6


def test_the_help_of_a_flag_has_its_default_and_its_values():
  values = absl_flags.FlagValues()
  of_script = {"flag_values": values}
  absl_flags.DEFINE_bool("on", True, "Is on.", **of_script)
  absl_flags.DEFINE_bool("off", False, "Is off.", **of_script)
  absl_flags.DEFINE_integer("size", 3, "A size.", 1, **of_script)
  absl_flags.DEFINE_string("name", None, "A name.", **of_script)
  absl_flags.DEFINE_string("path", "a b", "A " + "path " * 15, **of_script)
  assert flag_help.text(values[name] for name in sorted(values)) == (
    "Flags:\n"
    "  --name: A name.\n"
    "  --[no]off: Is off.\n"
    "  --[no]on: Is on. (default: true)\n"
    "  --path: A path path path path path path path path path path path path "
    "path\n      path path (default: a b)\n"
    "  --size: A size. (default: 3; a positive integer)\n"
  )


@pytest.mark.parametrize("count, titles", [(16, ["Flags"]), (17, ["More"])])
def test_few_flags_have_no_groups(count, titles):
  values = absl_flags.FlagValues()
  for number in range(count):
    absl_flags.DEFINE_bool(f"own_{number}", None, "A.", flag_values=values)
  groups = flag_help.in_groups([values[name] for name in values])
  assert [*groups] == titles and len(groups[titles[0]]) == count


def test_the_groups_name_flags_that_exist_and_each_once():
  known = set().union(*map(test_layout.flags_of, test_layout.VERBS))
  grouped = " ".join(flag_help._GROUPS.values()).split()
  assert len(grouped) == len(set(grouped))
  assert {*grouped, *flag_help._FIRST.split()} <= known


@pytest.mark.parametrize(
  "flag, hint",
  [
    ("do_trian", " (did you mean --do_train or --doc_stride?)"),
    # Flags of absl are similar, but are not suggested.
    ("only_check", ""),
    ("op_conversion_fallback_to_while", ""),
    ("verbos", " (did you mean --verbose?)"),
  ],
)
def test_suggestions_are_flags_of_the_script(flag, hint):
  process = run_blocked(test_layout.VERBS["run_squad"], f"--{flag}=1")
  assert process.stderr == (
    f"run_squad.py: error: Unknown command line flag '{flag}'{hint}; --help "
    "lists all flags\n"
  )


def run_without(line, script):
  """Returns a script's error messages if `line` of Python runs before it."""
  code = BLOCKED.replace("import runpy, sys", f"import runpy, sys\n{line}")
  process = run(sys.executable, "-c", code, script, "--help")
  assert process.returncode == 1
  return process.stderr


@pytest.mark.parametrize("name", test_layout.VERBS)
def test_an_empty_environment_and_an_old_python_are_reported(name):
  script = test_layout.VERBS[name]
  for line in ("sys.modules['absl'] = None", "sys.version_info = (3, 9, 18)"):
    message = run_without(line, script)
    assert message.startswith(f"error: {sys.executable} is Python 3.")
    assert message.endswith(
      ", for which the packages of this project are not installed (they need "
      "3.10 to 3.13): run python3.12 -m venv .venv, then .venv/bin/pip install "
      "-e .\n"
    )
  # An old Python parses the whole file before it runs the first line.
  ast.parse(script.read_text(), feature_version=(3, 8))


def test_garbage_collection_in_main_skips_imported_objects(tmp_path):
  script = tmp_path / "script.py"
  script.write_text("""
import atexit, gc
from common import command
# Runs last: atexit reverses the order of registration.
atexit.register(lambda: print(gc.get_freeze_count()))
command.parse_flags(__name__, imports_tensorflow=False)
imported = [[]]
assert not gc.isenabled()
def main(_):
  assert gc.isenabled() and not any(o is imported for o in gc.get_objects())
  print(gc.get_freeze_count())
command.run(main)
""")
  process = run(sys.executable, script)
  assert process.returncode == 0, process.stderr
  in_main, at_exit = map(int, process.stdout.split())
  assert 0 < in_main < at_exit


def run_shell(line, script):
  line = f"set -o pipefail; {line}"
  return run("bash", "-c", line, "sh", sys.executable, script)


def test_all_missing_flags_are_named_at_once():
  process = run_blocked(test_layout.VERBS["convert_checkpoint"])
  assert process.stderr == (
    "convert_checkpoint.py: error: Flag --input or --model_dir must have a "
    "value. Flag --output must have a value. Flag --to must have a "
    "value; --help lists all flags\n"
  )


INSTALLED = f"""
import sys
sys.argv = ["/bin/bert-run-squad", *sys.argv[1:]]
from common import command
command.{command.run_installed.__name__}()
"""


def test_an_installed_command_names_itself_and_its_version():
  process = run(sys.executable, "-c", INSTALLED, "--help")
  assert "\n  bert-run-squad --do_train" in process.stdout
  assert "\nMain:\n" in process.stdout
  assert ".py" not in process.stdout.replace(".python", "")
  process = run(sys.executable, "-c", INSTALLED, "--version")
  assert process.returncode == 0
  assert re.fullmatch(
    r"bert-run-squad \(bert-tf2 [\d.]+, TensorFlow 2\.2\d\.\d+, Python .*\)\n",
    process.stdout,
  )


def test_a_command_of_the_wheel_runs_the_script_of_its_name():
  assert program.module_name("/bin/bert-run-squad") == "run_squad"
  assert program.module_name("bert-fill-mask.exe") == "fill_mask"


def test_hints_name_what_was_called(monkeypatch):
  text = "python fill_mask.py --text=a; see modeling.py"
  monkeypatch.setattr(sys, "argv", ["bin/fill_mask.py"])
  assert program.hint(text) == text
  monkeypatch.setattr(sys, "argv", ["bin/bert-run-squad"])
  assert program.hint(text) == "bert-fill-mask --text=a; see modeling.py"


def test_help_into_a_closed_pipe_ends_quietly(tmp_path):
  line = '"$1" "$2" --help | head -1'
  process = run_shell(line, test_layout.VERBS["run_squad"])
  assert (process.stderr, process.stdout.count("\n")) == ("", 1)


SCRIPT = """
import os, sys
from common import command
command.parse_flags(__name__, imports_tensorflow=False)
if "--" in sys.argv:
  raise KeyboardInterrupt
def main(_):
  with open("out.txt", "w") as stream:
    print("to nobody", flush=True)
    command.logging.warning("neither")
    stream.write("a")
command.run(main)
"""


@pytest.mark.parametrize(
  "rest, code, message",
  [
    # A file opened in place of a closed standard stream gets no output.
    ("<&- >&- 2>&-", 0, ""),
    ("--verbosity=0 True", 1, "script.py: error: unexpected True: flags "),
    # An interrupt before main.
    ("--", 130, "\nscript.py: interrupted\n"),
  ],
)
def test_how_a_script_ends(tmp_path, monkeypatch, rest, code, message):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "script.py").write_text(SCRIPT)
  process = run_shell(f'"$1" "$2" {rest}', "script.py")
  assert process.returncode == code and process.stderr.startswith(message)
  if code == 0:
    assert (tmp_path / "out.txt").read_text() == "a"


@pytest.mark.parametrize(
  "end, message",
  [("return", "0\n"), ("raise command.errors.InputError('bad')", "bad\n1\n")],
)
def test_results_into_a_closed_pipe_end_quietly(
  tmp_path, monkeypatch, end, message
):
  """Python would flush them at its exit, fail, and say so."""
  (tmp_path / "script.py").write_text(
    SCRIPT.split("def main")[0]
    + f"def main(_):\n  print('to nobody')\n  {end}\ncommand.run(main)\n"
  )
  # The reader ends before the script has started.
  line = '{ sleep 0.2; "$1" "$2"; echo $? >&2; } | true'
  monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
  process = run_shell(line, tmp_path / "script.py")
  assert process.stderr.rpartition("error: ")[2] == message


def test_a_bad_path_and_a_missing_tensorflow_are_reported(monkeypatch, capsys):
  monkeypatch.setattr(command.gc, "disable", lambda: None)
  monkeypatch.setattr(sys, "argv", ["run.py", "--model_dir=a\udcff"])
  with pytest.raises(SystemExit, match="1"):
    command.begin_imports(True)
  assert "'--model_dir=a\\udcff' is not UTF-8" in capsys.readouterr().err
  monkeypatch.setattr(sys, "argv", ["run.py"])
  monkeypatch.setitem(sys.modules, "common.lean_tensorflow", None)
  monkeypatch.delattr("common.lean_tensorflow", raising=False)
  with pytest.raises(SystemExit, match="1"):
    command.begin_imports(True)
  message = capsys.readouterr().err
  assert re.search(says("TensorFlow", "cannot"), message)
  assert 'run pip install "tensorflow>=2.20,<2.22" (with Python 3.1' in message


@pytest.mark.parametrize(
  "arguments, printed", [([], "3 None"), (["--verbose"], "0 1")]
)
def test_messages_and_tracebacks_are_few_unless_asked(
  arguments, printed, monkeypatch
):
  for name in ("TF_CPP_MIN_LOG_LEVEL", "BERT_TRACEBACK"):
    monkeypatch.delenv(name, raising=False)
  code = (
    "import os\nfrom common import command\n"
    "command.parse_flags('__main__', imports_tensorflow=False)\n"
    "print(*map(os.environ.get, ('TF_CPP_MIN_LOG_LEVEL', 'BERT_TRACEBACK')))"
  )
  process = run(sys.executable, "-c", code, *arguments)
  assert process.stdout.strip() == printed, process.stderr


@pytest.mark.parametrize(
  "words, level",
  [
    ([], logging.INFO),
    (["--verbosity=0"], logging.INFO),
    (["--verbosity=-1"], logging.WARNING),
    (["--verbosity=1"], logging.DEBUG),
    (["--verbose"], logging.DEBUG),
    (["--verbose", "--verbosity=-1"], logging.DEBUG),
  ],
)
def test_the_screen_has_the_level_of_the_flags(words, level, monkeypatch):
  values = absl_flags.FlagValues()
  # absl's default hides what the scripts show.
  absl_flags.DEFINE_integer("verbosity", -1, "Help.", flag_values=values)
  absl_flags.DEFINE_bool("verbose", False, "Help.", flag_values=values)
  values(["script.py", *words])
  monkeypatch.setattr(command.flags, "FLAGS", values)
  assert command._screen_level() == level


def test_a_script_is_called_in_another_program(monkeypatch, tmp_path):
  """It leaves the flags and the arguments of the program as they were."""
  monkeypatch.setattr(command, "_checks", [])
  command.check_early(lambda: pytest.fail("a check of another script"))
  monkeypatch.setenv("HOME", str(tmp_path))
  words, names = sys.argv, set(absl_flags.FLAGS)
  given = {
    "dir": "~/d",
    "model": "uncased_L-2_H-128_A-2",
    "base_url": "http://127.0.0.1:9",
    "data": None,
  }
  with pytest.raises(errors.InputError, match=f"by hand to {tmp_path}/d/"):
    command.call("download", given)
  with pytest.raises(errors.InputError, match="'no_such'"):
    command.call("download", {"no_such": 1})
  assert sys.argv is words and set(absl_flags.FLAGS) == names


def test_ctrl_c_ends_the_block_even_if_an_import_ignores_it():
  code = """
import os, signal
from common import command
with command.ending_at_once():
  try:
    os.kill(os.getpid(), signal.SIGINT)
    print("not interrupted")
  except KeyboardInterrupt:
    print("ignored")
print("went on")
"""
  run = subprocess.run(
    [sys.executable, "-c", code],
    cwd=test_layout.ROOT,
    capture_output=True,
    text=True,
  )
  assert run.returncode == 130 and run.stdout == ""
  assert run.stderr.endswith("interrupted\n")


@pytest.mark.parametrize(
  "before, restored",
  [
    (signal.default_int_handler, [signal.default_int_handler]),
    # A shell makes a background process ignore Ctrl-C, which stays so.
    (signal.SIG_IGN, []),
  ],
)
def test_ctrl_c_is_as_before_after_the_block(before, restored, monkeypatch):
  handlers = []
  monkeypatch.setattr(signal, "getsignal", lambda _: before)
  monkeypatch.setattr(signal, "signal", lambda _, h: handlers.append(h))
  with command.ending_at_once():
    pass
  assert handlers[1:] == restored
