"""Tries what messages advise: the advised flag works in the same command.

tests/test_advice_messages.py lists all messages that advise another flag.
"""

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
MODEL = script_runner.ROOT / "tests" / "golden" / "pretraining_run" / "model"
CONVERT = (
  "convert_checkpoint.py --input={folder}/bert_model.ckpt --to=tf1 "
  "--output={folder}/out"
)
WEIGHTS = f" --model_dir={MODEL}"
RECORDS = (
  "create_pretraining_data.py --input_file={file} --vocab_file={folder}/v.txt "
  "--output_file={folder}/out.tfrecord --max_seq_length=16 --dupe_factor=1"
)
ANSWERED = {
  "context": "the sea",
  "qas": [
    {
      "id": "1",
      "question": "?",
      "answers": [{"text": "sea", "answer_start": 4}],
    }
  ],
}
SOFT = f"{CLASSIFY} --losses=soft_labels"
SHARES = "text,good,bad\nthe sea,0.9,0.1\nthe town,0.2,0.8\n"
SCORES = SHARES.replace("0.9,0.1", "2,-1").replace("0.2,0.8", "-3,1")
PASSAGES = "text,text_b,label\nsea,town,1\nsea,tide,1\n"
# The same for commands that do not train, and those whose training is slow.
OTHER_SCRIPTS = [
  (
    "create_vocabulary.py --input_file={file} --output_file={folder}/out.txt "
    "--vocab_size=12 --min_frequency=3",
    "a.txt",
    "sea sea\n",
    "a smaller --min_frequency",
    "--min_frequency=1",
  ),
  (
    "create_vocabulary.py --input_file={file} --output_file={folder}/out.txt "
    "--vocab_size=8",
    "a.txt",
    "sea town\n",
    "a smaller --max_characters",
    "--max_characters=1",
  ),
  ("fill_mask.py" + WEIGHTS, "a.txt", "", "--text", "--text=a[MASK]"),
  (
    "extract_features.py --input_file={file} --layers=-1" + WEIGHTS,
    "a.txt",
    "sea\n",
    "--output_file",
    "--output_file={folder}/out.jsonl",
  ),
  (
    CONVERT,
    "a.txt",
    "",
    "--bert_config_file",
    f"--bert_config_file={MODEL}/bert_config.json",
  ),
  (
    f"{CONVERT} --bert_config_file={MODEL}/bert_config.json",
    "a.txt",
    "",
    "--vocab_file",
    f"--vocab_file={MODEL}/vocab.txt",
  ),
  ("download.py", "a.txt", "", "--list"),
  ("reproduce.py", "a.txt", "", "--list"),
  (
    RECORDS,
    "a.txt",
    "sea\n\ntown\n\ntide\n",
    "a --packing without pairs",
    "--packing=full_sentences",
  ),
  (
    RECORDS,
    "a.txt",
    f"{'sea ' * 40}\n\n{'town ' * 40}\n",
    "a --packing without pairs",
    "--packing=full_sentences",
  ),
  (
    f"{RECORDS} --masking=phrases",
    "a.txt",
    "the sea\nthe town\n\nthe tide\nso fine\n",
    "--phrases_file",
    "--phrases_file={folder}/phrases.txt",
  ),
  (
    SCORE + " --version_2_with_negative",
    "a.json",
    json.dumps({"data": [{"paragraphs": [ANSWERED]}]}),
    "--version_2_with_negative=false",
  ),
]
TRAININGS = [
  (
    f"{CLASSIFY} --task_kind=retrieval --text_b_column=text_b",
    "a.csv",
    "text,text_b,other\nsea,town,tide\nso,fine,the\n",
    "--negative_column",
    "--negative_column=other",
  ),
  (
    f"{CLASSIFY} --task_kind=ranking --text_b_column=text_b "
    "--ranking_loss=pairwise",
    "a.csv",
    PASSAGES,
    "--ranking_loss=pointwise",
  ),
  (
    f"{CLASSIFY} --task_kind=ranking",
    "a.csv",
    PASSAGES,
    "--text_b_column",
    "--text_b_column=text_b",
  ),
  (
    SOFT,
    "a.csv",
    SHARES,
    "--soft_label_columns",
    "--soft_label_columns=good,bad",
  ),
  (
    f"{SOFT} --soft_label_columns=good,bad",
    "a.csv",
    SCORES,
    "--soft_labels_are_logits",
  ),
  (
    CLASSIFY,
    "a.csv",
    "text,label\nthe sea,1\nthe town,2\nso fine,3\n",
    "--task_kind=regression",
  ),
  (
    f"{CLASSIFY} --do_eval --eval_file={{file}}",
    "a.csv",
    GOOD + "so,good\nfine,bad\n",
    "--eval_fraction=0.1",
    "--eval_file= --eval_fraction=0.5",
  ),
]
WORDS = ["the", "sea", "town", "so", "fine", "tide"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
  """Returns the flags of a tiny model without weights."""
  folder = tmp_path_factory.mktemp("model")
  vocabulary = tiny_model.write_vocabulary(folder, WORDS)
  config = tiny_model.tiny(
    vocab_size=64, max_position_embeddings=16, num_hidden_layers=1
  )
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
  if script in ("run_classifier.py", "run_ner.py"):
    flags += [f"--output_dir={tmp_path}/out", *shlex.split(model)]
  return script_runner.run(script, *flags, eager=True)


@pytest.mark.parametrize(
  "case",
  [
    *ADVICE,
    *OTHER_SCRIPTS,
    *(pytest.param(case, marks=pytest.mark.slow) for case in TRAININGS),
  ],
  ids=lambda case: f"{case[0].split('.')[0]} {case[3]}",
)
def test_the_advised_flag_works_in_the_same_command(tmp_path, model, case):
  command, name, content, advice, *flags = case
  encoding = "cp1252" if "cp1252" in advice else "utf-8"
  (tmp_path / name).write_bytes(content.encode(encoding))
  (tmp_path / "predictions.json").write_text('{"1": "sea"}')
  (tmp_path / "phrases.txt").write_text("the sea\n")
  tiny_model.write_vocabulary(tmp_path, WORDS, "v.txt")
  for ending in (".index", ".data-00000-of-00001"):
    shutil.copy(MODEL / f"bert_model.ckpt{ending}", tmp_path)
  before = run(command, tmp_path, name, model)
  # The advice is in an error, in a warning or in a note.
  said = before.out + before.err
  assert advice in said, said
  (flag,) = flags or [advice.replace(", such as ", "=")]
  after = run(f"{command} {flag}", tmp_path, name, model)
  assert after.code == 0, after.err
  if before.code == 0:
    assert advice not in after.out + after.err
