"""Tries what messages advise: the advised flag works in the same command."""

import json
import shlex
import shutil

import pytest

import script_runner
import tiny_model

CLASSIFY = "run_classifier.py --do_train --train_file={file}"
TAG = "run_ner.py --do_train --train_file={file}"
SQUAD = "run_squad.py --evaluate_only --predict_file={file}"
SCORE = SQUAD + " --predictions_file={folder}/predictions.json"
GOOD = "text,label\nthe sea,good\nthe town,bad\n"
QUESTION = {
  "context": "the sea",
  "qas": [{"id": "1", "question": "?", "answers": [], "is_impossible": True}],
}
NO_ANSWERS = json.dumps({"data": [{"paragraphs": [QUESTION]}]})
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n" + "".join(
  f"{n}\t1\t2\tthe sea “{n}”\tthe town\n" for n in (0, 1)
)

# (command, name and content of its file, the advice in the message, and the
# flags that follow it)
ADVICE = [
  (CLASSIFY, "a.csv", GOOD + "a “sea”,good\n", "--encoding, such as cp1252"),
  (
    "run_classifier.py --do_train --task_name=mrpc --data_dir={folder}",
    "train.tsv",
    MRPC,
    "--encoding, such as cp1252",
  ),
  (CLASSIFY, "a.csv", GOOD + "fine,\n", "--on_bad_row=skip"),
  (CLASSIFY, "a.csv", GOOD + "fine,\nso,\n", "--on_bad_row=skip"),
  (CLASSIFY, "a.data", GOOD, "--file_format", "--file_format=csv"),
  (
    f"{CLASSIFY} --text_column=1 --label_column=2",
    "a.csv",
    "the sea;a,b;good\nthe town;c,d;bad\n",
    "--separator",
    "--separator=;",
  ),
  (
    f"{CLASSIFY} --text_column=review",
    "a.csv",
    GOOD,
    "--text_column=2",
    "--text_column=1 --label_column=2",
  ),
  (CLASSIFY, "a.csv", "text,label\nthe sea,a\n", "--labels", "--labels=a,b"),
  (
    f"{CLASSIFY} --task_kind=multi_label --label_separator=",
    "a.csv",
    GOOD,
    "--label_separator",
    "--label_separator=;",
  ),
  (
    f"{CLASSIFY} --task_kind=ranking",
    "a.csv",
    "text,text_b,label\nsea,town,2\nsea,tide,1\n",
    "--text_b_column",
    "--text_b_column=text_b --ranking_loss=listwise",
  ),
  (
    f"{CLASSIFY} --task_kind=ranking --text_b_column=text_b",
    "a.csv",
    "text,text_b,label\nsea,town,2\nsea,tide,1\n",
    "--ranking_loss=listwise",
  ),
  (
    f"{CLASSIFY} --file_format=text",
    "a.txt",
    GOOD,
    "--file_format=tsv or csv",
    "--file_format=csv --text_column=1 --label_column=2",
  ),
  (
    f"{CLASSIFY} --do_eval --eval_fraction=0.1",
    "a.csv",
    GOOD,
    "--eval_file",
    "--eval_fraction=0 --eval_file={file}",
  ),
  (TAG, "a.conll", "sea 0\ntown B-LOC\n", "--outside_label=0"),
  (
    f"{TAG} --scheme=plain",
    "a.conll",
    "sea 0\ntown LOC\nsea 0\n",
    "--outside_label=0",
  ),
  (TAG, "a.conll", "sea O\ntown LOC\n", "--scheme", "--scheme=plain"),
  (TAG, "a.conll", "sea O\ntown I-LOC\n", "--lenient"),
  (
    TAG,
    "a.conll",
    "sea O x\ntown B-LOC y\n",
    "--label_column",
    "--label_column=1",
  ),
  (
    f"{TAG} --label_column=5",
    "a.conll",
    "sea O\ntown B-LOC\n",
    "--label_column=5",
    "--label_column=1",
  ),
  (
    TAG,
    "a.conll",
    "1 sea O\n2 town B-LOC\n",
    "--word_column, such as 1",
    "--word_column=1",
  ),
  (
    TAG,
    "a.jsonl",
    '{"tokens": ["sea", "town"], "ner_tags": [0, 1]}\n',
    "--label_names=O,B-PER,...",
    "--label_names=O,B-LOC",
  ),
  (
    TAG,
    "a.jsonl",
    '{"words": ["sea"], "labels": ["0"]}\n',
    "--outside_label=0",
  ),
  (SCORE, "a.json", NO_ANSWERS, "--version_2_with_negative"),
]
WORDS = ["the", "sea", "town", "so", "fine", "tide"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """Returns the flags of a tiny model without weights."""
  folder = tmp_path_factory.mktemp("model")
  vocabulary = tiny_model.write_vocabulary(folder, WORDS)
  config = tiny_model.tiny(vocab_size=64, max_position_embeddings=16)
  path = folder / "bert_config.json"
  path.write_text(config.to_json_string())
  return (
    f"--bert_config_file={path} --vocab_file={vocabulary} --max_seq_length=16 "
    "--train_batch_size=1 --num_train_epochs=1"
  )


def run(command, tmp_path, name, model):
  shutil.rmtree(tmp_path / "out", ignore_errors=True)
  command = command.format(file=tmp_path / name, folder=tmp_path)
  script, *flags = shlex.split(command)
  if script != "run_squad.py":
    flags += [f"--output_dir={tmp_path}/out", *shlex.split(model)]
  return script_runner.run(script, *flags)


@pytest.mark.parametrize(
  "case", ADVICE, ids=lambda case: f"{case[0].split('.')[0]} {case[3]}"
)
def test_the_advised_flag_works_in_the_same_command(tmp_path, model, case):
  command, name, content, advice, *flags = case
  encoding = "cp1252" if "cp1252" in advice else "utf-8"
  (tmp_path / name).write_bytes(content.encode(encoding))
  (tmp_path / "predictions.json").write_text('{"1": "sea"}')
  before = run(command, tmp_path, name, model)
  # The advice is in an error, or in a warning.
  assert advice in before.err, before.err
  (flag,) = flags or [advice.replace(", such as ", "=")]
  after = run(f"{command} {flag}", tmp_path, name, model)
  assert after.code == 0, after.err
  if before.code == 0:
    assert advice not in after.err
