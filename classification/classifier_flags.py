"""Defines the flags that only run_classifier.py has. No TensorFlow."""

from classification import points
from common import extension_flags, flag_values, flags


def define_task_flags() -> None:
  """Defines the flags that name the task and limit its examples."""
  flags.DEFINE_string(
    "task_name",
    None,
    "An official task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, "
    "AX, XNLI, PAWS-X, IMDB or SWAG. Leave it out for your own files.",
  )
  flags.DEFINE_string(
    "data_dir", None, "Folder of the task's official files.", needs="task_name"
  )
  flags.DEFINE_string(
    "language",
    None,
    "Language of XNLI (default: zh) or PAWS-X (default: en).",
    needs="task_name",
  )
  for name, verb in (
    ("train", "Train on"),
    ("eval", "Evaluate on"),
    ("predict", "Predict"),
  ):
    flags.DEFINE_integer(
      f"max_{name}_examples",
      0,
      f"{verb} only the first N examples; 0: all.",
      lower_bound=0,
    )
  flags.DEFINE_list(
    "metrics",
    [],
    "Metrics to report besides the loss: accuracy, precision, recall, f1 (the "
    "last three also with _macro or _micro), matthews, auc, pearson, spearman, "
    "recall@1, recall@5, recall@10, mrr, mrr@10, ndcg@10. Each --task_kind "
    "supports some of them. By default an official task's metrics, or for your "
    "own files the usual metrics of the --task_kind. With two classes, "
    "precision, recall and f1 refer to the second class in the order of "
    "--labels.",
  )
  flags.DEFINE_string(
    "glue_submission_dir",
    None,
    "Folder for predictions in the format of GLUE's server.",
    needs="task_name do_predict",
  )


def define_own_data_flags() -> None:
  """Defines the flags that describe the user's files."""
  flags.DEFINE_string(
    "train_file",
    None,
    "Your own training examples, such as a .csv, .tsv or .jsonl file (see "
    "--file_format).",
  )
  flags.DEFINE_string(
    "eval_file", None, "Your own evaluation examples.", not_with="eval_fraction"
  )
  flags.DEFINE_string(
    "predict_file",
    None,
    "Your own examples to predict, with or without labels.",
    not_with="task_name",
    why=", which asks for an official task",
  )
  flags.DEFINE_string(
    "text_column",
    "text",
    "Name of the column with the texts. If a .csv or .tsv file has no header, "
    "pass column numbers (from 1) in all column flags.",
  )
  flags.DEFINE_string(
    "text_b_column", None, "Name of the column with the second texts of pairs."
  )
  flags.DEFINE_string("label_column", "label", "Name of the label column.")
  flags.DEFINE_list(
    "label_columns",
    [],
    "Instead of --label_column: the names of columns, one per class. A cell is "
    "1 if the text has the class, else 0.",
    needs="task_kind=multi_label",
    not_with="labels",
  )
  flags.DEFINE_string(
    "id_column", None, "Name of the id column; by default rows are numbered."
  )
  flags.DEFINE_enum(
    "file_format",
    None,
    flag_values.TABLE_FORMATS,
    "Format of your own files; by default inferred from the file extension. "
    "Quotes have no meaning in tsv: for quoted cells pass csv and "
    "--separator=tab. fasttext has lines such as '__label__good It works.'; "
    "parquet needs pip install pyarrow.",
  )
  flags.DEFINE_string(
    "separator",
    None,
    "Column separator of your own .csv files: one character, or the word tab. "
    "By default inferred from the header: comma, semicolon, tab or |.",
  )
  flags.DEFINE_string(
    "encoding",
    None,
    "Encoding of the files, such as latin-1 or cp1252; by default UTF-8 or, if "
    "detected, UTF-16 or UTF-32.",
  )
  flags.DEFINE_enum(
    "on_bad_row",
    "error",
    ("error", "skip"),
    "What to do with invalid rows, such as rows without a label. error: list "
    "them and stop. skip: leave them out, and list them in output_dir/log.txt.",
  )
  flags.DEFINE_float(
    "eval_fraction",
    0.0,
    "Fraction of --train_file to score instead of --eval_file; training uses "
    "the rest. The split is random (--seed), and stratified by class or, for "
    "numeric labels, by value.",
    lower_bound=0.0,
    upper_bound=1.0,
    needs="do_eval|eval_steps",
  )
  _define_label_flags()


def _define_label_flags() -> None:
  flags.DEFINE_enum(
    "task_kind",
    None,
    flag_values.OWN_TASK_KINDS,
    "Kind of task of your own data, by default the kind in --bert_config_file, "
    "or single. single: one of several classes. regression: a number. "
    "multi_label: any number of classes. similarity (also for STS-B): train "
    "the cosine of two texts' vectors to equal their score. retrieval: no "
    "labels; train the second text's vector to be the nearest to the first "
    "text's. ranking: the relevance of the second text for the first.",
  )
  flags.DEFINE_list(
    "labels",
    [],
    "Classes of your own data, in the order of the model's outputs. By default "
    "the sorted classes of the training data or, without training, the model's "
    "classes.",
  )
  flags.DEFINE_string(
    "label_separator",
    ",",
    "Separator between the classes in a cell, for --task_kind=multi_label.",
  )
  flags.DEFINE_string(
    "class_weights",
    None,
    "Weight of each class in the training loss: balanced, numbers in the order "
    "of the classes (1,2.5), or name=number for some classes. With "
    "--task_kind=multi_label: the weight of a class's positive examples; its "
    "negative examples have weight 1.",
    needs="do_train",
  )
  flags.rule(
    "train_file eval_file labels label_column label_columns label_separator "
    "eval_fraction text_column text_b_column id_column "
    "file_format separator on_bad_row",
    not_with="task_name",
    why=", which asks for an official task",
  )
  flags.rule("label_column", not_with="label_columns")
  flags.rule("do_train", needs="train_file|task_name")
  flags.rule("eval_fraction", needs="train_file")
  flags.rule("do_eval eval_steps", needs="eval_file|eval_fraction|task_name")
  flags.rule("do_predict", needs="predict_file|task_name")


def define_pair_flags() -> None:
  """Defines the flags for --task_kind=similarity, retrieval and ranking."""
  kinds = "task_kind=similarity task_kind=retrieval"
  needed = kinds.replace(" ", "|")
  flags.DEFINE_enum(
    "pooling",
    "mean",
    flag_values.SENTENCE_POOLINGS,
    "How to pool hidden states into a text vector, as in extract_features.py. "
    "A pooling stored in the model folder overrides the default.",
    needs=needed,
  )
  flags.DEFINE_bool(
    "normalize",
    False,
    "Whether final_model scales vectors to length 1. Cosines stay the same.",
    needs=needed,
  )
  flags.DEFINE_float(
    "temperature",
    0.05,
    "Divisor of the cosines before the softmax over a batch's second texts.",
    lower_bound=0.001,
    needs="task_kind=retrieval",
  )
  flags.DEFINE_string(
    "negative_column",
    None,
    "Column with hard negatives: similar texts that do not fit the first text.",
    needs="task_kind=retrieval text_b_column",
  )
  flags.rule("label_column", not_with="task_kind=retrieval")
  flags.rule("freeze_encoder class_weights on_top", not_with=kinds)
  flags.DEFINE_enum(
    "ranking_loss",
    "pointwise",
    flag_values.RANKING_LOSSES,
    "pointwise: binary cross-entropy of each passage, for relevances from 0 to "
    "1. pairwise: RankNet's loss for pairs of a query's passages. listwise: "
    "cross-entropy of the softmax over a query's passages. --train_batch_size "
    "counts passages for pointwise, else groups of passages (--group_size).",
    needs="task_kind=ranking do_train",
  )
  flags.DEFINE_integer(
    "group_size",
    8,
    "Maximum number of a query's passages to compare at once. A query with "
    "more passages is split into groups of mixed relevance.",
    lower_bound=2,
    needs="ranking_loss=pairwise|ranking_loss=listwise",
  )
  flags.rule("class_weights doc_stride", not_with="task_kind=ranking")


def define_run_flags() -> None:
  """Defines the other flags that only run_classifier.py has."""
  extension_flags.define(
    points.LOSSES,
    "What training minimizes instead of the task's own loss; of several names, "
    "separated by commas, each uses the one before it.",
    several=True,
  )
  # A loss that defines the head counts in evaluation and prediction, too.
  conditions = ["do_train"] + [
    extension_flags.condition(points.LOSSES, name)
    for name in extension_flags.names(points.LOSSES)
    if points.LOSSES.defines(name, "HEAD")
  ]
  flags.rule("losses", needs="|".join(filter(None, conditions)))
  flags.rule("class_weights", not_with="losses=soft_labels")
  flags.DEFINE_integer(
    # As in the original: long texts are truncated by default.
    "doc_stride",
    0,
    "Split long texts into windows of --max_seq_length that start every N "
    "word pieces. A text's logits are the mean over its windows. 0: truncate.",
    lower_bound=0,
  )
  flags.DEFINE_bool(
    "freeze_pooler",
    False,
    "Freeze the pooler as well, so that only the head is trained.",
    needs="freeze_encoder",
  )
  flags.DEFINE_bool(
    "use_best",
    False,
    "After training with --save_best: evaluate, predict and write final_model "
    "with the best weights instead of the last weights.",
    needs="do_train save_best",
  )
