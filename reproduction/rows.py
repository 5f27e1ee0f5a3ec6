"""The published results as rows: what was published, and how to get it again.

Sources: Devlin et al., arXiv 1810.04805 ("paper"); the README and
multilingual.md of the original ("README"); and, where the paper has only test
scores, later papers that ran the same model on the dev sets. Bands are from
published spreads over seeds: a run within its band counts as reproduced.
"""

from typing import NamedTuple, Optional

BASE, LARGE = "uncased_L-12_H-768_A-12", "uncased_L-24_H-1024_A-16"
_CASED_BASE, _CASED_LARGE = (
  "cased_L-12_H-768_A-12", "cased_L-24_H-1024_A-16"
)

# Where a data set's files go: {data} becomes its folder.
_TASK = "--data_dir={data}"


class Metric(NamedTuple):
  """A published number.

  Attributes:
    result: its name in eval_results.txt.
    published: in the unit of the table, such as per cent.
    low, high: the band, in the same unit; None: open on that side.
    scale: what a result is multiplied by to have that unit.
  """

  result: str
  published: float
  low: Optional[float] = None
  high: Optional[float] = None
  scale: float = 100.0


class Row(NamedTuple):
  """A published result.

  Attributes:
    name: what --row calls it.
    source: the table that it is from.
    model: name of the model in the catalog; "" if it must be pre-trained.
    data: name of the data set in the catalog or its pointers; "" for none.
    script: the script that does it; "" if none can, `note` says why.
    flags: the recipe as published, as flags; {data} is the data's folder.
    metrics: Metrics, the first is the one that counts.
    hours: the time that was published, with its hardware; "" if none was.
    note: what a reader of the report should know.
  """

  name: str
  source: str
  model: str
  data: str
  script: str
  flags: tuple
  metrics: tuple
  hours: str = ""
  note: str = ""


def _classifier(task, *, epochs=3, rate="2e-5", batch=32, length=128):
  return (
    f"--task_name={task}", _TASK, "--do_train", "--do_eval",
    f"--max_seq_length={length}", f"--train_batch_size={batch}",
    f"--learning_rate={rate}", f"--num_train_epochs={epochs}",
  )


# Task: result that counts, epochs.
_GLUE = {
  "MNLI": ("eval_accuracy", 3), "QQP": ("eval_accuracy", 3),
  "QNLI": ("eval_accuracy", 3), "SST-2": ("eval_accuracy", 3),
  "CoLA": ("eval_matthews", 3), "STS-B": ("eval_spearman", 3),
  "MRPC": ("eval_accuracy", 3), "RTE": ("eval_accuracy", 3),
  "WNLI": ("eval_accuracy", 3),
}
_TABLE_5 = "paper, table 5"
_DISTILBERT = "BERT-Base in arXiv 1910.01108, table 1"
_ROBERTA = "BERT-Large in arXiv 1907.11692, table 5"
_QNLI = "QNLI has a second version since; the band is that of later runs"
# (size, task): published, low, high, source, note.
_GLUE_DEV = {
  ("base", "MNLI"): (84.4, 84.0, None, _TABLE_5, ""),
  ("base", "QNLI"): (88.4, 90.4, None, _TABLE_5, _QNLI),
  ("base", "MRPC"): (86.7, 84.0, 88.5, _TABLE_5, "README: 84 to 88 %"),
  ("base", "SST-2"): (92.7, 92.0, None, _TABLE_5, ""),
  ("base", "QQP"): (89.6, 89.5, None, _DISTILBERT, ""),
  ("base", "CoLA"): (56.3, 55.0, None, _DISTILBERT, ""),
  ("base", "STS-B"): (89.0, 87.8, None, _DISTILBERT, ""),
  ("base", "RTE"): (69.3, 64.0, None, _DISTILBERT, ""),
  ("base", "WNLI"): (53.5, 50.0, 57.0, _DISTILBERT, "the majority is 56.34"),
  ("large", "MNLI"): (86.6, 86.0, None, _ROBERTA, ""),
  ("large", "QQP"): (91.3, 90.8, None, _ROBERTA, ""),
  ("large", "QNLI"): (92.3, 91.8, None, _ROBERTA, ""),
  ("large", "SST-2"): (93.2, 92.7, None, _ROBERTA, ""),
  ("large", "CoLA"): (60.6, 58.0, None, _ROBERTA, ""),
  ("large", "STS-B"): (90.0, 89.0, None, _ROBERTA, ""),
  ("large", "MRPC"): (88.0, 84.0, None, _ROBERTA, "sd 1.2 over 10 seeds"),
  ("large", "RTE"): (70.4, 65.0, None, _ROBERTA, ""),
}
# On one Titan RTX in float32, Hugging Face's run_glue.py, BERT-Base.
_GLUE_HOURS = {
  "CoLA": "3 min", "SST-2": "26 min", "MRPC": "2 min", "STS-B": "2 min",
  "QQP": "2.4 h", "MNLI": "2.6 h", "QNLI": "41 min", "RTE": "1 min",
  "WNLI": "1 min",
}
# Paper, table 1: scores of GLUE's server.
_GLUE_TEST = {
  "base": {
    "MNLI": 84.6, "QQP": 71.2, "QNLI": 90.5, "SST-2": 93.5, "CoLA": 52.1,
    "STS-B": 85.8, "MRPC": 88.9, "RTE": 66.4,
  },
  "large": {
    "MNLI": 86.7, "QQP": 72.1, "QNLI": 92.7, "SST-2": 94.9, "CoLA": 60.5,
    "STS-B": 86.5, "MRPC": 89.3, "RTE": 70.1,
  },
}
_SIZES = {"base": BASE, "large": LARGE}


def _glue_dev_rows():
  for (size, task), values in _GLUE_DEV.items():
    published, low, high, source, note = values
    result, epochs = _GLUE[task]
    # Published for BERT-Base alone.
    hours = f"{_GLUE_HOURS[task]} on a Titan RTX" if size == "base" else ""
    yield Row(
      f"{task.lower()}-{size}", source, _SIZES[size], task.lower(),
      "run_classifier.py", _classifier(task, epochs=epochs),
      (Metric(result, published, low, high),), hours, note,
    )


def _glue_test_rows():
  for size, scores in _GLUE_TEST.items():
    for task, score in scores.items():
      yield Row(
        f"{task.lower()}-{size}-test", "paper, table 1", _SIZES[size],
        task.lower(), "run_classifier.py",
        (*_classifier(task), "--do_predict",
         "--glue_submission_dir={output}/submission"),
        # Nothing to read here: the server has the labels.
        (Metric("", score),), "",
        "GLUE's server scores the file in submission/",
      )


def _squad(version, *, epochs, rate, batch):
  flags = (
    f"--train_file={{data}}/train-v{version}.json",
    f"--predict_file={{data}}/dev-v{version}.json",
    "--do_train", "--do_eval", "--do_predict", "--max_seq_length=384",
    "--doc_stride=128", f"--train_batch_size={batch}",
    f"--learning_rate={rate}", f"--num_train_epochs={epochs}",
  )
  if version == "2.0":
    flags += (
      # As in the paper: the threshold with the best F1 on the dev set.
      "--version_2_with_negative", "--null_score_diff_threshold=auto"
    )
  return flags


def _squad1(name, source, model, recipe, scores, *, hours="", note=""):
  exact, f1, low, high = scores
  return Row(
    name, source, model, "squad1", "run_squad.py", recipe,
    # run_squad.py's scores are per cent already.
    (Metric("f1", f1, low, high, 1.0), Metric("exact_match", exact, scale=1.0)),
    hours, note,
  )


_PAPER_SQUAD = _squad("1.1", epochs=3, rate="5e-5", batch=32)
_README_SQUAD = _squad("1.1", epochs=2, rate="3e-5", batch=24)
_SQUAD_ROWS = [
  _squad1("squad1-base", "paper, table 2", BASE, _PAPER_SQUAD,
          (80.8, 88.5, 88.0, None)),
  _squad1("squad1-large", "paper, table 2", LARGE, _PAPER_SQUAD,
          (84.1, 90.9, 90.5, 91.5)),
  _squad1("squad1-base-readme", "README", BASE,
          _squad("1.1", epochs=2, rate="3e-5", batch=12),
          (81.2488, 88.4125, 88.0, None), hours="24 min on a V100"),
  _squad1("squad1-large-readme", "README", LARGE, _README_SQUAD,
          (84.3898, 90.8708, 90.5, 91.5), hours="30 min on a TPUv2",
          note="90.5 to 91.0 typical"),
  *(
    _squad1(f"squad1-{name}", "README, whole-word masking", model,
            _README_SQUAD, (exact, f1, f1 - 0.4, None))
    for name, model, exact, f1 in [
      ("large-cased", _CASED_LARGE, 84.8, 91.5),
      ("large-wwm", "wwm_uncased_L-24_H-1024_A-16", 86.7, 92.8),
      ("large-cased-wwm", "wwm_cased_L-24_H-1024_A-16", 86.7, 92.9),
    ]
  ),
  Row("squad2-base", "BERT-Base in arXiv 1907.11692, table 2", BASE, "squad2",
      "run_squad.py", _squad("2.0", epochs=2, rate="5e-5", batch=48),
      (Metric("f1", 76.3, 75.5, None, 1.0),)),
  Row("squad2-large", "paper, table 3", LARGE, "squad2", "run_squad.py",
      _squad("2.0", epochs=2, rate="5e-5", batch=48),
      (Metric("f1", 81.9, 81.2, None, 1.0), Metric("exact", 78.7, scale=1.0))),
]


def _swag_rows():
  for size, published in (("base", 81.6), ("large", 86.6)):
    yield Row(
      f"swag-{size}", "paper, table 4", _SIZES[size], "swag",
      "run_classifier.py", _classifier("SWAG", batch=16),
      (Metric("eval_accuracy", published, published - 0.8),),
    )


_NER = (
  "--train_file={data}/eng.train", "--eval_file={data}/eng.testa",
  "--predict_file={data}/eng.testb", "--do_train", "--do_eval", "--do_predict",
  "--document_context", "--scheme=iob1",
)
_FINE_TUNED_NER = (
  *_NER, "--train_batch_size=32", "--learning_rate=5e-5",
  "--num_train_epochs=3", "--max_seq_length=128",
)
_FEATURES = {
  "embeddings": 91.0, "second_to_last": 95.6, "last": 94.9,
  "weighted_sum_last_four": 95.9, "concat_last_four": 96.1,
  "weighted_sum_all": 95.5,
}


def _ner_rows():
  for size, model, published in (
    ("base", _CASED_BASE, 96.4), ("large", _CASED_LARGE, 96.6),
  ):
    yield Row(
      f"conll2003-{size}", "paper, table 7", model, "conll2003", "run_ner.py",
      _FINE_TUNED_NER, (Metric("f1", published, published - 1.0),), "",
      "dev; re-runs by others reach 90 to 91 on test without document context",
    )
  for features, published in _FEATURES.items():
    yield Row(
      f"conll2003-features-{features.replace('_', '-')}", "paper, table 7",
      _CASED_BASE, "conll2003", "run_ner.py",
      (*_NER, "--freeze_encoder", f"--feature_layers={features}",
       "--learning_rate=1e-3", "--num_train_epochs=10"),
      (Metric("f1", published, published - 1.0),), "",
      "the paper does not say rate and epochs",
    )


def _whole_word_mnli_rows():
  for name, model, published in [
    ("large-readme", LARGE, 86.05),
    ("large-wwm", "wwm_uncased_L-24_H-1024_A-16", 87.07),
    ("large-cased", _CASED_LARGE, 86.09),
    ("large-cased-wwm", "wwm_cased_L-24_H-1024_A-16", 86.46),
  ]:
    yield Row(
      f"mnli-{name}", "README, whole-word masking", model, "mnli",
      "run_classifier.py", _classifier("MNLI"),
      (Metric("eval_accuracy", published, published - 0.5),),
    )


_MRPC_README = Row(
  "mrpc-base-readme", "README", BASE, "mrpc", "run_classifier.py",
  _classifier("MRPC"), (Metric("eval_accuracy", 84.5588, 84.0, 88.0),), "",
  "343 steps; 84 to 88 % even from the same checkpoint",
)

# multilingual.md: trained on the machine-translated training set of the
# language, scored on its test set.
_XNLI = {
  "cased": {"en": 81.9, "zh": 76.6, "es": 77.8, "de": 75.9, "ar": 70.7,
            "ur": 61.6},
  "uncased": {"en": 81.4, "zh": 74.2, "es": 77.3, "de": 75.2, "ar": 70.5,
              "ur": 61.7},
}
_XNLI_MODELS = {
  "cased": "multi_cased_L-12_H-768_A-12",
  "uncased": "multilingual_L-12_H-768_A-12",
}


def _xnli(name, model, language, published):
  return Row(
    name, "multilingual.md", model, "xnli", "run_classifier.py",
    (*_classifier("XNLI", rate="5e-5", epochs=2), f"--language={language}"),
    (Metric("eval_accuracy", published, published - 1.0),), "",
    "published on test, scored here on dev",
  )


def _xnli_rows():
  for case, scores in _XNLI.items():
    for language, score in scores.items():
      yield _xnli(
        f"xnli-{language}-multilingual-{case}", _XNLI_MODELS[case], language,
        score,
      )
  yield _xnli("xnli-zh-chinese", "chinese_L-12_H-768_A-12", "zh", 77.2)


# README of March 2020, test: 4 epochs, best of five batch sizes and four
# rates. Score, then the tasks in GLUE's order.
_MINIATURES = {
  "tiny": ("uncased_L-2_H-128_A-2", {
    "CoLA": 0.0, "SST-2": 83.2, "MRPC": 81.1, "STS-B": 74.3, "QQP": 62.2,
    "MNLI": 70.2, "QNLI": 81.5, "RTE": 57.2, "WNLI": 62.3}),
  "mini": ("uncased_L-4_H-256_A-4", {
    "CoLA": 0.0, "SST-2": 85.9, "MRPC": 81.1, "STS-B": 75.4, "QQP": 66.4,
    "MNLI": 74.8, "QNLI": 84.1, "RTE": 57.9, "WNLI": 62.3}),
  "small": ("uncased_L-4_H-512_A-8", {
    "CoLA": 27.8, "SST-2": 89.7, "MRPC": 83.4, "STS-B": 78.8, "QQP": 68.1,
    "MNLI": 77.6, "QNLI": 86.4, "RTE": 61.8, "WNLI": 62.3}),
  "medium": ("uncased_L-8_H-512_A-8", {
    "CoLA": 38.0, "SST-2": 89.6, "MRPC": 86.6, "STS-B": 80.4, "QQP": 69.6,
    "MNLI": 80.0, "QNLI": 87.7, "RTE": 62.2, "WNLI": 62.3}),
}


def _miniature_rows():
  for size, (model, scores) in _MINIATURES.items():
    for task, score in scores.items():
      # Test and dev of MNLI differ little; of the others nobody says.
      is_close = task == "MNLI"
      yield Row(
        f"{task.lower()}-{size}", "README, miniatures", model, task.lower(),
        "run_classifier.py",
        _classifier(task, epochs=4, rate="1e-4", batch=32),
        (Metric(_GLUE[task][0], score, score - 1 if is_close else None,
                score + 1 if is_close else None),), "",
        "published on test, the best of 20 settings; scored here on dev",
      )


def _pretraining(*flags):
  return ("--input_file={data}", "--do_train", "--do_eval", *flags)


_PAPER_PRETRAINING = _pretraining(
  "--max_seq_length=128", "--max_predictions_per_seq=20",
  "--train_batch_size=256", "--learning_rate=1e-4",
  "--num_train_steps=900000", "--num_warmup_steps=10000",
)
_NO_CORPUS = (
  "your own records of Wikipedia and books (create_pretraining_data.py); "
  "perplexity is exp(masked_lm_loss)"
)


def _unit(result, published, low=None, high=None):
  return Metric(result, published, low, high, 1.0)


# The paper gives perplexities: 3.99 is a loss of 1.384.
_PRETRAINING_ROWS = [
  Row("pretrain-base", "paper, table 6", "", "", "run_pretraining.py",
      _PAPER_PRETRAINING, (_unit("masked_lm_loss", 1.384, None, 1.45),),
      "4 days on 4 Cloud TPUs", f"phase of length 128; {_NO_CORPUS}"),
  Row("pretrain-base-512", "paper, appendix A.2", "", "",
      "run_pretraining.py",
      _pretraining(
        "--max_seq_length=512", "--max_predictions_per_seq=76",
        "--train_batch_size=256", "--learning_rate=1e-4",
        "--num_train_steps=100000", "--num_warmup_steps=10000",
      ), (_unit("masked_lm_loss", 1.384, None, 1.45),), "",
      "from pretrain-base by --model_dir; " + _NO_CORPUS),
  Row("pretrain-large-lamb-1", "NVIDIA's README, phase 1", "", "",
      "run_pretraining.py",
      _pretraining(
        "--optimizer=lamb", "--max_seq_length=128",
        "--max_predictions_per_seq=20", "--train_batch_size=65536",
        "--learning_rate=6e-3", "--num_train_steps=7038",
        "--num_warmup_steps=2000",
      ), (_unit("loss", 1.67),), "", "batch of 64 K: many accelerators"),
  Row("pretrain-large-lamb-2", "NVIDIA's README, phase 2", "", "",
      "run_pretraining.py",
      _pretraining(
        "--optimizer=lamb", "--max_seq_length=512",
        "--max_predictions_per_seq=80", "--train_batch_size=32768",
        "--learning_rate=4e-3", "--num_train_steps=1564",
        "--num_warmup_steps=200",
      ), (_unit("loss", 1.67, None, 1.71),), "", "from phase 1 by --model_dir"),
  Row("ablation-no-nsp", "paper, table 5", "", "", "run_pretraining.py",
      (*_PAPER_PRETRAINING, "--use_next_sentence_loss=false"), (), "",
      "then rows mnli-base (83.9), qnli-base (84.9), mrpc-base (86.5), "
      "sst-2-base (92.6), squad1-base (87.9) from its weights"),
  *(
    Row(f"size-{layers}-{hidden}-{heads}", "paper, table 6", "", "",
        "run_pretraining.py", _PAPER_PRETRAINING,
        (_unit("masked_lm_loss", loss, None, round(loss + 0.07, 3)),), "",
        f"{layers} layers of {hidden} with {heads} heads; then mnli-base "
        f"({mnli}), mrpc-base ({mrpc}), sst-2-base ({sst}); " + _NO_CORPUS)
    for layers, hidden, heads, loss, mnli, mrpc, sst in [
      (3, 768, 12, 1.765, 77.9, 79.8, 88.4),
      (6, 768, 3, 1.656, 80.6, 82.2, 90.7),
      (6, 768, 12, 1.543, 81.9, 84.8, 91.3),
      (12, 768, 12, 1.384, 84.4, 86.7, 92.9),
      (12, 1024, 16, 1.264, 85.7, 86.9, 93.3),
      (24, 1024, 16, 1.172, 86.6, 87.8, 93.7),
    ]
  ),
]

_OUT_OF_SCOPE = [
  Row("ablation-ltr", "paper, table 5", "", "", "", (), (), "",
      "left-to-right models are no BERT: out of scope"),
  Row("ablation-ltr-bilstm", "paper, table 5", "", "", "", (), (), "",
      "left-to-right models are no BERT: out of scope"),
  *(
    Row(f"masking-{mask}-{same}-{random}", "paper, table 8", "", "", "", (),
        (), "", f"MNLI {mnli}, NER {ner} fine-tuned and {feature} feature-"
        "based: create_pretraining_data.py masks 80/10/10 as the original, "
        "and has no flag for other shares")
    for mask, same, random, mnli, ner, feature in [
      (80, 10, 10, 84.2, 95.4, 94.9), (100, 0, 0, 84.3, 94.9, 94.0),
      (80, 0, 20, 84.1, 95.2, 94.6), (80, 20, 0, 84.4, 95.2, 94.7),
      (0, 20, 80, 83.7, 94.8, 94.6), (0, 0, 100, 83.6, 94.9, 94.6),
    ]
  ),
]

ROWS = {
  row.name: row
  for row in [
    *_glue_dev_rows(), *_glue_test_rows(), *_SQUAD_ROWS, *_swag_rows(),
    *_ner_rows(), *_whole_word_mnli_rows(), _MRPC_README, *_xnli_rows(),
    *_miniature_rows(), *_PRETRAINING_ROWS, *_OUT_OF_SCOPE,
  ]
}


# Lines of the published files, headers included; of SQuAD's the questions. A
# run on fewer of them says so in the report.
FILE_ROWS = {
  "cola": {"train.tsv": 8551, "dev.tsv": 1043},
  "sst-2": {"train.tsv": 67350, "dev.tsv": 873},
  "mrpc": {"train.tsv": 3669, "dev.tsv": 409},
  "sts-b": {"train.tsv": 5750, "dev.tsv": 1501},
  "qqp": {"train.tsv": 363847, "dev.tsv": 40431},
  "mnli": {"train.tsv": 392703, "dev_matched.tsv": 9816},
  "qnli": {"train.tsv": 104744, "dev.tsv": 5464},
  "rte": {"train.tsv": 2491, "dev.tsv": 278},
  "wnli": {"train.tsv": 636, "dev.tsv": 72},
  "squad1": {"train-v1.1.json": 87599, "dev-v1.1.json": 10570},
  "squad2": {"train-v2.0.json": 130319, "dev-v2.0.json": 11873},
  "swag": {"train.csv": 73547, "val.csv": 20007},
  "conll2003": {"eng.train": 219554, "eng.testa": 55044},
}


def is_within(metric, value):
  """Whether a value, in the metric's unit, is in its band."""
  return (metric.low is None or value >= metric.low) and (
    metric.high is None or value <= metric.high
  )
