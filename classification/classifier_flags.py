"""The flags that only run_classifier.py has; they need no TensorFlow."""

from common import flag_values, flags
from training import common_flags


def define_task_flags():
  """Defines the flags that name the task and limit its examples."""
  flags.DEFINE_string(
    "task_name",
    None,
    "An official task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, "
    "AX, XNLI, PAWS-X, IMDB or SWAG. None for your own files.",
  )
  flags.DEFINE_string(
    "data_dir", None, "Folder of the task's official files.", needs="task_name"
  )
  flags.DEFINE_string(
    "language",
    None,
    "Language of XNLI or PAWS-X; by default zh or en.",
    needs="task_name",
  )
  for name, verb in (
    ("train", "Train on"),
    ("eval", "Score"),
    ("predict", "Predict"),
  ):
    flags.DEFINE_integer(
      f"max_{name}_examples",
      0,
      f"{verb} the first N examples; 0: all.",
      lower_bound=0,
    )
  flags.DEFINE_list(
    "metrics",
    [],
    "Metrics to report besides the loss: accuracy, precision, recall, f1 (each "
    "also with _macro or _micro), matthews, auc, pearson, spearman, recall@1, "
    "recall@5, recall@10, mrr, mrr@10, ndcg@10. By default the task's official "
    "metrics. Plain precision, recall and f1 measure the second of two "
    "classes: --labels gives the order.",
  )
  flags.DEFINE_string(
    "glue_submission_dir",
    None,
    "Folder for predictions in the format of GLUE's server.",
    needs="task_name do_predict",
  )


def define_own_data_flags():
  """Defines the flags that describe the user's files."""
  flags.DEFINE_string(
    "train_file", None, "Your own examples to train on: .csv, .tsv or .jsonl."
  )
  flags.DEFINE_string(
    "eval_file", None, "Your own examples to score.", not_with="eval_fraction"
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
    "Name of the column of the texts. All columns of a .csv or .tsv without a "
    "header may be numbers, from 1.",
  )
  flags.DEFINE_string(
    "text_b_column", None, "Name of the column of the second texts, for pairs."
  )
  flags.DEFINE_string("label_column", "label", "Name of the column of labels.")
  flags.DEFINE_list(
    "label_columns",
    [],
    "Instead of --label_column: a column for each class, with 1 if the text "
    "has that class, otherwise 0.",
    needs="task_kind=multi_label",
    not_with="labels",
  )
  flags.DEFINE_string(
    "id_column", None, "Name of the column of ids; by default rows get numbers."
  )
  flags.DEFINE_enum(
    "file_format",
    None,
    flag_values.TABLE_FORMATS,
    "Format of your own files; by default given by their names. tsv has no "
    "quotes: for quotes pass csv and --separator=tab. fasttext: lines such as "
    "'__label__good It works.'; parquet needs pip install pyarrow.",
  )
  flags.DEFINE_string(
    "separator",
    None,
    "Character between the columns of your own .csv files, or tab; by default "
    "a comma, or the character that separates the header: ; tab or |.",
  )
  flags.DEFINE_string(
    "encoding",
    None,
    "Encoding of your own files, such as latin-1; by default UTF-8 or UTF-16.",
  )
  flags.DEFINE_enum(
    "on_bad_row",
    "error",
    ("error", "skip"),
    "If rows are invalid (columns, label or text missing): list them and stop, "
    "or skip them and list them in output_dir/log.txt.",
  )
  flags.DEFINE_float(
    "eval_fraction",
    0.0,
    "Fraction of --train_file to score instead of an --eval_file; training "
    "uses the rest. --seed draws it, with equal fractions of all classes.",
    lower_bound=0.0,
    upper_bound=1.0,
    needs="do_eval|eval_steps",
  )
  _define_label_flags()


def _define_label_flags():
  flags.DEFINE_enum(
    "task_kind",
    None,
    flag_values.OWN_TASK_KINDS,
    "Kind of the labels in your own data. single: one of several classes; "
    "regression: a number; multi_label: any number of classes. By default the "
    "kind in --bert_config_file, or single. similarity (also for STS-B): the "
    "cosine of two texts' vectors is their score. retrieval: no labels; the "
    "second text should be nearest. ranking: relevance of the second text.",
  )
  flags.DEFINE_list(
    "labels",
    [],
    "Classes of your own data, in the order of the model's outputs; by default "
    "the sorted classes in the training data, or the model's classes.",
  )
  flags.DEFINE_string(
    "label_separator",
    ",",
    "Separator of a text's classes, with --task_kind=multi_label.",
  )
  flags.DEFINE_string(
    "class_weights",
    None,
    "Weight of each class in the training loss: balanced, numbers in the order "
    "of the classes (1,2.5), or name=number for some of them. With "
    "--task_kind=multi_label: weight of having a class, relative to not having "
    "it.",
    needs="do_train",
  )
  flags.rule(
    "train_file eval_file labels label_column label_columns label_separator "
    "eval_fraction text_column text_b_column id_column "
    "file_format encoding separator on_bad_row",
    not_with="task_name",
    why=", which asks for an official task",
  )
  flags.rule("label_column", not_with="label_columns")
  flags.rule("do_train", needs="train_file|task_name")
  flags.rule("eval_fraction", needs="train_file")
  flags.rule("do_eval eval_steps", needs="eval_file|eval_fraction|task_name")
  flags.rule("do_predict", needs="predict_file|task_name")


def define_pair_flags():
  """Defines the flags for --task_kind=similarity, retrieval and ranking."""
  kinds = "task_kind=similarity task_kind=retrieval"
  needed = kinds.replace(" ", "|")
  flags.DEFINE_enum(
    "pooling",
    "mean",
    flag_values.SENTENCE_POOLINGS,
    "Pooling of the tokens' hidden states to the text's vector, as in "
    "extract_features.py; by default the pooling in the model folder, if any.",
    needs=needed,
  )
  flags.DEFINE_bool(
    "normalize",
    False,
    "Whether final_model scales vectors to length 1, which keeps cosines.",
    needs=needed,
  )
  flags.DEFINE_float(
    "temperature",
    0.05,
    "Divides the cosines before the softmax over a batch's second texts.",
    lower_bound=0.001,
    needs="task_kind=retrieval",
  )
  flags.DEFINE_string(
    "negative_column",
    None,
    "Column of hard negatives: texts that fit worse than the second text.",
    needs="task_kind=retrieval text_b_column",
  )
  flags.rule("label_column", not_with="task_kind=retrieval")
  flags.rule("freeze_encoder class_weights", not_with=kinds)
  flags.DEFINE_enum(
    "ranking_loss",
    "pointwise",
    flag_values.RANKING_LOSSES,
    "Loss of each passage (binary cross-entropy, relevances from 0 to 1), of "
    "two passages of a query (RankNet), or of all (cross-entropy of softmax). "
    "--train_batch_size counts passages for pointwise, otherwise groups.",
    needs="task_kind=ranking do_train",
  )
  flags.DEFINE_integer(
    "group_size",
    8,
    "Most passages of a query to compare; more are split into "
    "groups of mixed relevance.",
    lower_bound=2,
    needs="ranking_loss=pairwise|ranking_loss=listwise",
  )
  flags.rule("class_weights doc_stride", not_with="task_kind=ranking")


def define_run_flags():
  """Defines all other flags of a run."""
  flags.DEFINE_integer(
    # As in the original: with 0, long texts are truncated.
    "doc_stride",
    0,
    "Splits long texts into windows of --max_seq_length that start every N "
    "pieces; the text's logits are the mean over its windows. 0: truncate.",
    lower_bound=0,
  )
  flags.DEFINE_bool(
    "freeze_pooler",
    False,
    "Also freeze the pooler, and train only the head.",
    needs="freeze_encoder",
  )
  flags.DEFINE_list(
    "seeds",
    [],
    "Trains and evaluates with each of these seeds, in output_dir/seed_N; "
    "seeds_results.txt has median, mean and standard deviation.",
    not_with="glue_submission_dir",
    why=", which needs one model",
  )
  common_flags.define_search_flag(
    "the first of --metrics", not_with="seeds glue_submission_dir"
  )
  flags.DEFINE_bool(
    "use_best",
    False,
    "After training with --save_best: evaluate, predict and write "
    "final_model with the best weights instead of the last.",
    needs="do_train save_best",
  )
