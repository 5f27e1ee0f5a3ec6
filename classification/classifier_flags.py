"""The flags of run_classifier.py alone; TensorFlow is not needed for them."""

from common import choices, flags
from training import common_flags


def define_task_flags():
  """Flags that name the task and limit its examples."""
  flags.DEFINE_string(
    "task_name", None,
    "An official task: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, WNLI, "
    "AX, XNLI, PAWS-X, IMDB or SWAG. None for your own files.",
  )
  flags.DEFINE_string(
    "task_module", None,
    "Python file that adds tasks of your own to those of --task_name: see "
    "docs/classification.md.", needs="task_name",
  )
  flags.DEFINE_string(
    "data_dir", None, "Folder of the task's official files.", needs="task_name"
  )
  flags.DEFINE_string(
    "language", None, "Of XNLI and PAWS-X; by default zh and en.",
    needs="task_name",
  )
  for name, verb in (
    ("train", "Train on"), ("eval", "Score"), ("predict", "Predict")
  ):
    flags.DEFINE_integer(
      f"max_{name}_examples", 0, f"{verb} the first N examples; 0: all.",
      lower_bound=0,
    )
  flags.DEFINE_list(
    "metrics", [],
    "What is reported besides the loss: accuracy, precision, recall, f1 (each "
    "also with _macro or _micro), matthews, auc, pearson, spearman, recall@1, "
    "recall@5, recall@10, mrr, mrr@10, ndcg@10. By default the task's official "
    "ones. Plain precision, recall and f1 are those of the second of two "
    "classes: --labels gives the order.",
  )
  flags.DEFINE_string(
    "glue_submission_dir", None,
    "Folder for the predictions in the files that GLUE's server takes.",
    needs="task_name do_predict", not_with="predict_file=-",
  )


def define_own_data_flags():
  """Flags that describe your own files."""
  flags.DEFINE_string(
    "train_file", None, "Your own examples to train on: .csv, .tsv or .jsonl."
  )
  flags.DEFINE_string(
    "eval_file", None, "Your own examples to score.", not_with="eval_fraction"
  )
  flags.DEFINE_string(
    "predict_file", None,
    "Your own examples to predict; needs no labels. -: texts on the standard "
    "input, each answered at once on the standard output.",
    needs="!task_name|predict_file=-",
    why=" next to --task_name, which asks for an official task",
  )
  flags.DEFINE_string(
    "text_column", "text",
    "Name of the column of the texts. All columns of a .csv or .tsv without a "
    "header may be numbers, from 1.",
  )
  flags.DEFINE_string(
    "text_b_column", None, "Of the second texts, where there are pairs."
  )
  flags.DEFINE_string("label_column", "label", "Of the labels.")
  flags.DEFINE_list(
    "label_columns", [],
    "Instead of --label_column: one column for each class, with 1 where a text "
    "is of that class and 0 where not.", needs="task_kind=multi_label",
    not_with="labels",
  )
  flags.DEFINE_list(
    "column_names", [],
    "Of all columns of your own .csv or .tsv files that have no header.",
  )
  flags.DEFINE_string(
    "id_column", None, "Of the rows' names; by default they are numbered."
  )
  flags.DEFINE_enum(
    "file_format", None, choices.TABLE_FORMATS,
    "Of your own files; by default their names tell. tsv has no quotes: with "
    "them it is csv, with --separator=tab. fasttext: lines such as "
    "'__label__good It works.'; parquet needs pip install pyarrow.",
  )
  flags.DEFINE_string(
    "separator", None,
    "Character between the columns of your own .csv files, or tab; by default "
    "a comma, or what gives the columns in the header: ; tab or |.",
  )
  flags.DEFINE_string(
    "encoding", None,
    "Of your own files, such as latin-1; by default UTF-8; UTF-16 is detected.",
  )
  flags.DEFINE_enum(
    "on_bad_row", "error", ("error", "skip"),
    "Of rows that no example can be made of (columns, label or text missing): "
    "list them and stop, or skip them and list them in output_dir/log.txt.",
  )
  flags.DEFINE_float(
    "eval_fraction", 0.0,
    "Score this share of --train_file, drawn by --seed from each class alike, "
    "and train on the rest; instead of --eval_file. Both parts are in "
    "output_dir: train_split.jsonl and eval_split.jsonl.",
    lower_bound=0.0, upper_bound=1.0, needs="do_eval|eval_steps",
  )
  _define_label_flags()


def _define_label_flags():
  flags.DEFINE_enum(
    "task_kind", None, choices.OWN_TASK_KINDS,
    "What labels of your own data are: one class of several, a number, or any "
    "number of classes. By default what --bert_config_file says that the model "
    "was trained for, or single. similarity (of STS-B, too): the cosine of the "
    "vectors of two texts is their score. retrieval: pairs without labels; the "
    "second text is to be the nearest. ranking: the label is its relevance.",
  )
  flags.DEFINE_list(
    "labels", [],
    "Classes of your own data, in the order of the model's outputs; by default "
    "those in the training data, sorted, or those of the model.",
  )
  flags.DEFINE_string(
    "label_separator", ",",
    "Between the classes of a text, with --task_kind=multi_label.",
  )
  flags.DEFINE_string(
    "class_weights", None,
    "How much each class counts in the loss of training: balanced, numbers in "
    "the order of the classes (1,2.5), or name=number for some of them. With "
    "--task_kind=multi_label: how much more being of a class counts than not "
    "being of it.", needs="do_train",
  )
  flags.rule(
    "train_file eval_file labels label_column label_columns label_separator "
    "eval_fraction",
    not_with="task_name", why=", which asks for an official task",
  )
  flags.rule(
    "text_column text_b_column id_column column_names file_format encoding "
    "separator on_bad_row", needs="!task_name|unlabelled_file",
    why=" next to --task_name, which asks for an official task",
  )
  flags.rule("label_column", not_with="label_columns")
  flags.rule("do_train", needs="train_file|task_name|unlabelled_file")
  flags.rule("eval_fraction class_weights", needs="train_file|task_name")
  flags.rule("do_eval eval_steps", needs="eval_file|eval_fraction|task_name")
  flags.rule("do_predict", needs="predict_file|task_name")


def define_window_flags():
  """Flags for texts that are longer than a sequence."""
  flags.DEFINE_integer(
    # As in the original: at 0, the end of a long text is cut off.
    "doc_stride", 0,
    "Long texts: windows of --max_seq_length that start every N pieces; the "
    "text's logits are those of its windows, pooled. 0: truncate texts.",
    lower_bound=0,
  )


def define_bi_encoder_flags():
  """Flags of --task_kind=similarity and retrieval."""
  kinds = "task_kind=similarity task_kind=retrieval"
  needed = kinds.replace(" ", "|")
  flags.DEFINE_enum(
    "pooling", "mean", choices.SENTENCE_POOLINGS,
    "How the states of a text's tokens become its vector, as in "
    "extract_features.py; by default as in the model's folder, where it says "
    "so.", needs=needed,
  )
  flags.DEFINE_bool(
    "normalize", False,
    "Whether final_model is to scale vectors to length 1. Cosines stay.",
    needs=needed,
  )
  flags.DEFINE_list(
    "score_range", ["0", "1"],
    "Lowest and highest of your own scores: the cosine is to be 0 and 1.",
    needs="task_kind=similarity", not_with="task_name",
  )
  flags.DEFINE_float(
    "temperature", 0.05,
    "Divides the cosines, of which a softmax over the second texts of a batch "
    "is made.", lower_bound=0.001, needs="task_kind=retrieval",
  )
  flags.DEFINE_string(
    "negative_column", None,
    "Of texts that fit the first less than the second does.",
    needs="task_kind=retrieval text_b_column",
  )
  flags.rule("label_column", not_with="task_kind=retrieval")
  flags.rule(
    "bilstm_on_top freeze_encoder teacher_checkpoint class_weights",
    not_with=kinds,
  )


def define_reranker_flags():
  """Flags of --task_kind=ranking."""
  flags.DEFINE_enum(
    "ranking_loss", "pointwise", choices.RANKING_LOSSES,
    "Of each passage (binary cross-entropy, relevances from 0 to 1), of two "
    "passages of a query (RankNet), or of all (cross-entropy of the softmax). "
    "--train_batch_size counts passages for the first, else queries.",
    needs="task_kind=ranking do_train", not_with="teacher_checkpoint",
  )
  flags.DEFINE_integer(
    "group_size", 8, "At most N passages of a query are compared; more are "
    "dealt by relevance into several groups.", lower_bound=2,
    needs="ranking_loss=pairwise|ranking_loss=listwise",
  )
  flags.rule("class_weights doc_stride", not_with="task_kind=ranking")


def define_run_flags():
  """Flags that say what else a run does."""
  flags.DEFINE_bool(
    "freeze_pooler", False,
    "Freeze the pooler, too, and train the head alone.", needs="freeze_encoder",
  )
  flags.DEFINE_float(
    "distillation_weight", 0.5,
    "Of the teacher's outputs in the loss, with --teacher_checkpoint; that of "
    "the labels is 1 less this. Of a text without label: 1.",
    lower_bound=0.0, upper_bound=1.0, needs="teacher_checkpoint",
  )
  flags.DEFINE_string(
    "unlabelled_file", None,
    "Texts without labels, which are learned from the teacher alone: next to "
    "the labelled examples, or instead of any. .csv, .tsv or .jsonl, read as "
    "your own files are.", needs="teacher_checkpoint",
  )
  flags.DEFINE_list(
    "seeds", [],
    "Trains and evaluates once with each of these seeds, in output_dir/seed_N; "
    "median, mean and standard deviation are in seeds_results.txt.",
    not_with="interactive predict_file=- glue_submission_dir",
    why=", which is of one model",
  )
  common_flags.define_search_flag(
    "the first of --metrics",
    not_with="seeds interactive predict_file=- glue_submission_dir",
  )
  flags.DEFINE_bool(
    "use_best", False,
    "After training with --save_best: evaluate, predict, answer and write "
    "final_model with the best weights instead of the last.",
    needs="do_train save_best",
  )
  flags.DEFINE_bool(
    "interactive", False,
    "Answers texts from the terminal, after everything else.",
  )
  flags.DEFINE_enum(
    "answer_format", "tsv", choices.ANSWER_FORMATS,
    "What --interactive and --predict_file=- write for a line: the label and "
    "the score of each class between tabs, or JSON.",
    needs="interactive|predict_file=-",
  )
