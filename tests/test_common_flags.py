"""Flags state when they apply, and a flag without effect is refused."""

import re

import pytest
from absl import flags as absl_flags

import script_flags
import test_layout
from common import errors, flags, overwriting, run_settings

TRAINING = (
  "stop_step=9 gradient_accumulation_steps=2 max_to_keep=1 "
  "log_steps=1 max_bad_steps=1 max_restarts=1 profile_steps=1,2 "
  "learning_rate_schedule=cosine optimizer=lamb adam_beta2=.9 "
  "adam_epsilon=.1 weight_decay_rate=.1 "
  "eval_steps=1 freeze_layers=3 layerwise_lr_decay=.9 recompute_activations "
  "freeze_encoder"
)
FINE_TUNING = TRAINING + " bucket_by_length"
ORIGINAL_FLAGS = (
  "train_batch_size=8 learning_rate=1 num_train_epochs=2 warmup_proportion=0 "
  "save_checkpoints_steps=9 iterations_per_loop=1"
)
TRAINING_CASES = [
  (
    "freeze_layers=1 layerwise_lr_decay=.9 recompute_activations",
    "do_train freeze_encoder",
    "do_train",
  ),
  ("save_best=f1", "do_train", "do_train eval_steps=1"),
  (
    "early_stopping_patience=1",
    "do_train save_best=f1",
    "do_train save_best=f1 eval_steps=1",
  ),
]
ON_TOP_CASES = [
  ("on_top=bilstm", "do_eval", "do_train"),
  ("on_top=bilstm", "do_train freeze_encoder", "do_train"),
]
CLASSIFIER = "head=classification "
SPAN_FLAGS = (
  "max_query_length=3 max_answer_length=3 n_best_size=3 version_2_with_negative"
)
ONNX, LITERT = "format=onnx ", "format=litert "
VECTORS = "output_file=a pooling=mean "
OFFICIAL_TASK = "task_name=MRPC "
SIMILARITY, RETRIEVAL = "task_kind=similarity ", "task_kind=retrieval "
RANKING = "task_kind=ranking "
MODEL_DIR = "model_dir=a "
MODEL_AND_OUTPUT = MODEL_DIR + "output_dir=a "
# Each action needs its input file, and a folder for the results.
FILE_CASES = [
  ("do_train", "output_dir=a", "train_file=a output_dir=a"),
  ("do_eval", "output_dir=a", "eval_file=a output_dir=a"),
  ("eval_steps=1", "do_train", "do_train eval_file=a"),
  ("do_predict", "output_dir=a", "output_dir=a predict_file=a"),
]
# convert_checkpoint.py always has a model.
DOWNLOAD_CASES = {
  "convert_checkpoint": [],
  "run_pretraining": [
    ("download", "", f"{name}=a")
    for name in ("model_dir", "init_checkpoint", "teacher_checkpoint")
  ],
  **dict.fromkeys(
    ("create_pretraining_data", "serve"), [("download", "", "model_dir=a")]
  ),
}
NAMED_MODEL = [
  ("download", "", "model_dir=a"),
  ("download", "", "init_checkpoint=a"),
]
FIXED_LAYER_POOLINGS = ("pooled", "last_four_concat")
# {script: [(flags, flags that rule out each of them, flags that allow each)]}
CASES = {
  "run_pretraining": [
    (TRAINING, "do_eval", "do_train"),
    *TRAINING_CASES,
    ("eval_input_file=a", "do_train", "do_eval"),
    ("eval_input_file=a", "do_train", "do_train eval_steps=1"),
    ("do_whole_word_mask", "do_train masking=pieces", "do_train"),
    ("use_next_sentence_loss", "do_train objectives=masked_lm", "do_train"),
    ("phrases_file=a", "do_train", "do_train masking=phrases"),
    (
      "distillation_weights=1 distillation_temperature=3 teacher_checkpoint=a",
      "do_train",
      "do_train objectives=distillation",
    ),
    ("generator_config_file=a", "do_train", "do_train network=replaced_tokens"),
    ("kept_tokens=.6", "do_train", "do_train network=token_dropping"),
  ],
  "run_classifier": [
    *FILE_CASES,
    *ON_TOP_CASES,
    *(
      ("on_top=bilstm", f"do_train {kind}", "do_train")
      for kind in (SIMILARITY, RETRIEVAL)
    ),
    (
      "splade_query_weight=1 splade_document_weight=1 sparse_pooling=sum "
      "sparse_activation=log1p_relu",
      "do_train",
      "do_train losses=splade",
    ),
    ("eval_fraction=.1", "do_eval", "do_eval train_file=a"),
    (FINE_TUNING, "do_eval", "do_train eval_file=a"),
    *TRAINING_CASES,
    ("freeze_pooler", "do_train", "do_train freeze_encoder"),
    ("losses=soft_labels", "do_eval", "do_train"),
    (
      "soft_labels_are_logits distillation_temperature=3 soft_label_columns=a",
      "do_train",
      "do_train losses=soft_labels",
    ),
    ("cosent_temperature=3", "do_train", "do_train losses=cosent"),
    ("matryoshka_dims=8", "do_train", "do_train losses=matryoshka"),
    ("class_weights=balanced", "do_train losses=soft_labels", "do_train"),
    ("bucket_by_length", "do_train freeze_encoder", "do_train"),
    (
      "train_file=a eval_file=a predict_file=a labels=a,b "
      "text_column=text text_b_column=b label_column=x id_column=id "
      "file_format=csv label_separator=; separator=; on_bad_row=skip",
      OFFICIAL_TASK,
      "",
    ),
    (
      "label_columns=a",
      OFFICIAL_TASK + "task_kind=multi_label",
      "task_kind=multi_label",
    ),
    ("eval_file=a", "eval_fraction=.1", ""),
    ("eval_fraction=.1", OFFICIAL_TASK + "do_eval", "do_eval train_file=a"),
    ("eval_fraction=.1", "", "do_train eval_steps=1 train_file=a"),
    ("data_dir=x language=x", "", OFFICIAL_TASK),
    ("max_windows=1", "", "doc_stride=1"),
    ("class_weights=balanced", "do_eval", "do_train train_file=a"),
    ("use_best", "do_train", "do_train eval_steps=1 save_best=f1"),
    ("seed=0", "do_train seeds=1,2", "do_train"),
    ("seed=0", "do_eval", "do_eval eval_fraction=.1"),
    ("search=seed=1,2", "do_train", "do_train do_eval"),
    ("search=seed=1,2", "do_train do_eval seeds=1", "do_train do_eval"),
    ("label_columns=a,b", "", "task_kind=multi_label"),
    (
      "label_columns=a,b",
      "task_kind=multi_label labels=x,y",
      "task_kind=multi_label",
    ),
    ("label_column=x", "task_kind=multi_label label_columns=a,b", ""),
    (
      "seeds=1",
      OFFICIAL_TASK + "do_predict glue_submission_dir=x",
      OFFICIAL_TASK,
    ),
    ("glue_submission_dir=x", "do_predict", OFFICIAL_TASK + "do_predict"),
    ("glue_submission_dir=x", OFFICIAL_TASK, OFFICIAL_TASK + "do_predict"),
    *(
      ("pooling=max pooling_layer=-2 normalize", "do_train", task)
      for task in (SIMILARITY, RETRIEVAL)
    ),
    *(
      ("pooling_layer=-2", SIMILARITY + f"pooling={mode}", SIMILARITY)
      for mode in FIXED_LAYER_POOLINGS
    ),
    ("temperature=.1", SIMILARITY, RETRIEVAL),
    ("negative_column=a", RETRIEVAL, RETRIEVAL + "text_b_column=a"),
    (
      "negative_column=a",
      SIMILARITY + "text_b_column=a",
      RETRIEVAL + "text_b_column=a",
    ),
    ("label_column=a", RETRIEVAL, SIMILARITY),
    ("ranking_loss=pairwise", "do_train " + SIMILARITY, "do_train " + RANKING),
    ("ranking_loss=pairwise", RANKING, "do_train " + RANKING),
    *(
      (
        "group_size=4",
        f"do_train {RANKING}{loss}",
        f"do_train {RANKING}ranking_loss=listwise",
      )
      for loss in ("", "ranking_loss=pointwise")
    ),
    *(
      (flag, "do_train " + RANKING, "do_train train_file=a")
      for flag in ("class_weights=1,2", "doc_stride=8")
    ),
    *(
      (
        "freeze_encoder class_weights=1,2",
        "do_train " + task,
        "do_train train_file=a",
      )
      for task in (SIMILARITY, RETRIEVAL)
    ),
    ("engine=onnx", "do_eval", "do_predict"),
    *(
      ("quantize=int8", "do_predict", f"do_predict engine={engine}")
      for engine in ("onnx", "litert")
    ),
  ],
  "run_ner": [
    *FILE_CASES,
    *ON_TOP_CASES,
    ("outside_label=0", "do_train scheme=none", "do_train"),
    (FINE_TUNING, "do_eval", "do_train eval_file=a"),
    (ORIGINAL_FLAGS, "do_eval", "do_train"),
    *TRAINING_CASES,
    ("train_file=a seed=1", "do_eval", "do_train"),
    ("freeze_encoder", "do_eval", "do_eval feature_layers=last"),
    ("eval_file=a", "do_train", "do_train eval_steps=2"),
    ("eval_batch_size=1", "do_predict", "do_eval"),
    ("predict_file=a predict_labels", "do_eval", "do_predict"),
    ("predict_batch_size=1", "do_eval", "do_predict"),
    (
      "bilstm_size=1",
      "do_train",
      "do_train freeze_encoder feature_layers=last",
    ),
    ("feature_layers=last", "do_train", "do_train freeze_encoder"),
    ("label_column=1 label_names=O", "do_predict nopredict_labels", "do_train"),
    ("lenient", "scheme=none", "scheme=iob2"),
    ("search=seed=1,2", "do_train", "do_train do_eval"),
    (
      "search=seed=1,2",
      "do_train do_eval freeze_encoder feature_layers=last",
      "do_train do_eval",
    ),
    (
      "train_file=a eval_file=a word_column=1 label_column=1 predict_labels",
      "do_predict do_train file_format=text",
      "do_predict do_train eval_steps=1",
    ),
  ],
  "run_squad": [
    *ON_TOP_CASES,
    (
      "do_train",
      "train_file=a",
      "train_file=a bert_config_file=a vocab_file=a output_dir=a",
    ),
    ("do_train", MODEL_AND_OUTPUT, MODEL_AND_OUTPUT + "train_file=a"),
    (
      "do_train",
      MODEL_AND_OUTPUT + "train_file=a evaluate_only",
      MODEL_AND_OUTPUT + "train_file=a",
    ),
    (
      "do_predict",
      "output_dir=a predict_file=a",
      MODEL_AND_OUTPUT + "predict_file=a",
    ),
    ("do_eval", "output_dir=a eval_file=a", MODEL_AND_OUTPUT + "eval_file=a"),
    ("do_predict", MODEL_AND_OUTPUT, MODEL_AND_OUTPUT + "predict_file=a"),
    ("do_eval", MODEL_AND_OUTPUT, MODEL_AND_OUTPUT + "eval_file=a"),
    ("eval_steps=1", "do_train", "do_train eval_file=a"),
    ("evaluate_only", "predict_file=a", "predict_file=a predictions_file=a"),
    (FINE_TUNING, "do_predict", "do_train eval_file=a"),
    *TRAINING_CASES,
    ("seed=1 jit_compile=true", "do_predict", "do_train"),
    (
      ORIGINAL_FLAGS
      + " bert_config_file=a train_file=a max_seq_length=9 use_tpu",
      "evaluate_only",
      "do_train version_2_with_negative",
    ),
    ("eval_file=a eval_batch_size=9", "do_predict", "do_eval"),
    (
      "eval_file=a",
      "do_predict version_2_with_negative",
      "version_2_with_negative null_score_diff_threshold=auto",
    ),
    ("predictions_file=a", "do_predict", "evaluate_only"),
    (
      "null_score_diff_threshold=1",
      "do_predict",
      "do_predict version_2_with_negative",
    ),
    ("bucket_by_length", "do_train pad_to_max_length", "do_train"),
    ("search=seed=1,2", "do_train", "do_train do_eval eval_file=a"),
  ],
  "create_pretraining_data": [
    (
      "do_whole_word_mask max_predictions_per_seq=5 "
      "masked_lm_prob=.1 mask_shares=100,0,0",
      "dynamic_masking",
      "",
    ),
    ("do_whole_word_mask", "masking=pieces", ""),
    ("phrases_file=a", "", "masking=phrases"),
    ("segmented_text", "", "do_whole_word_mask"),
    ("segmented_text", "", "dynamic_masking"),
    ("num_processes=2", "", "shard_size_mb=5"),
    (
      "num_processes=2",
      "shard_size_mb=5 beam_options=--a=b",
      "shard_size_mb=5",
    ),
    ("num_processes=2", "shard_size_mb=5 engine=dask", "shard_size_mb=5"),
    ("beam_options=--a=b", "", "shard_size_mb=5"),
    ("beam_options=--a=b", "shard_size_mb=5 engine=dask", "shard_size_mb=5"),
    ("engine=dask", "", "shard_size_mb=5"),
    ("engine_options=a", "shard_size_mb=5", "shard_size_mb=5 engine=dask"),
  ],
  "extract_features": [
    (
      "output_format=npz pooling=mean batch_size=1 jit_compile=true",
      "attention_html=a",
      "output_file=a",
    ),
    ("picture_lines=1", "output_file=a", "attention_html=a"),
    ("layers=1", "attention_html=a", "output_file=a"),
    ("layers=1", VECTORS, "output_file=a"),
    ("layers=1", "output_file=a sparse", "output_file=a"),
    *(
      ("sparse", flags, "output_file=a")
      for flags in (
        "attention_html=a",
        VECTORS,
        "output_file=a output_format=npz",
      )
    ),
    (
      "sparse_pooling=sum sparse_activation=log1p_relu",
      VECTORS,
      "output_file=a sparse",
    ),
    ("pooling_layer=-2", "output_file=a", "output_file=a pooling=mean"),
    *(
      (
        "pooling_layer=-2",
        f"output_file=a pooling={mode}",
        "output_file=a pooling=mean",
      )
      for mode in FIXED_LAYER_POOLINGS
    ),
    ("similarity", "output_file=a", "output_file=a pooling=mean"),
    ("similarity", "attention_html=a", VECTORS),
    *(
      ("search=b", flags, VECTORS + "output_format=npz")
      for flags in (
        "output_file=a",
        "pooling=mean",
        VECTORS,
        VECTORS + "output_format=npz similarity",
      )
    ),
    ("top_k=3 query_prompt=a", VECTORS, VECTORS + "search=b"),
    ("prompt=a prompt_name=b", "output_file=a", VECTORS),
    ("prompt=a prompt_name=b", "output_file=a", "output_file=a sparse"),
    ("vectors_file=c", VECTORS + "search=b", "pooling=mean search=b"),
    ("vectors_file=c", "pooling=mean", "pooling=mean search=b"),
    (
      "pooling=mean normalize batch_size=2 jit_compile=true",
      "attention_html=a",
      VECTORS + "vectors_file=c search=b",
    ),
    ("normalize", "output_file=a", "output_file=a pooling=mean"),
    (
      "normalize",
      "output_file=a pooling=mean similarity",
      "output_file=a pooling=mean",
    ),
    ("engine=onnx", "output_file=a", VECTORS),
    *(
      (
        "dtype=bfloat16 jit_compile=true use_one_hot_embeddings",
        VECTORS + f"engine={engine}",
        VECTORS,
      )
      for engine in ("onnx", "litert")
    ),
    *(
      ("quantize=int8", VECTORS, VECTORS + f"engine={engine}")
      for engine in ("onnx", "litert")
    ),
  ],
  "convert_checkpoint": [
    ("architecture=BertModel do_lower_case", "to=tf1", "to=huggingface"),
    ("do_lower_case use_unused_tokens", "to=tf1", "to=tf1 add_tokens=a"),
  ],
  "export_saved_model": [
    ("quantize=int8", "", ONNX),
    ("quantize=int8", "", LITERT),
    ("lengths=8,16", ONNX, LITERT),
    ("max_seq_length=16", LITERT + "lengths=8,16", LITERT),
    *(
      (
        "calibration_file=a max_quantization_difference=0.1",
        form,
        form + "quantize=int8",
      )
      for form in (ONNX, LITERT)
    ),
    *(("version=2 dtype=bfloat16", form, "") for form in (ONNX, LITERT)),
    ("labels=a", "head=span", CLASSIFIER),
    ("labels=a", CLASSIFIER + "output_activation=linear", "head=tagging"),
    ("output_activation=sigmoid", "head=tagging", CLASSIFIER),
    ("text_pairs", "head=span", "head=embedding"),
    ("pooling=mean normalize", CLASSIFIER, "head=embedding"),
    ("prompt=a prompt_name=b", CLASSIFIER, "head=embedding"),
    ("prompt=a prompt_name=b", CLASSIFIER, "head=sparse"),
    ("pooling_layer=-2", CLASSIFIER, "head=embedding pooling=mean"),
    *(
      (
        "pooling_layer=-2",
        f"head=embedding pooling={mode}",
        "head=embedding pooling=mean",
      )
      for mode in FIXED_LAYER_POOLINGS
    ),
    ("top_k=3", CLASSIFIER, "head=masked_lm"),
    (
      "sparse_pooling=sum sparse_activation=log1p_relu",
      "head=masked_lm",
      "head=sparse",
    ),
    ("doc_stride=3", "head=tagging", CLASSIFIER),
    ("max_windows=3", CLASSIFIER, CLASSIFIER + "doc_stride=4"),
    ("max_windows=3", "head=span doc_stride=4", CLASSIFIER + "doc_stride=4"),
    (SPAN_FLAGS, CLASSIFIER, "head=span"),
    (
      "null_score_diff_threshold=0",
      "head=span",
      "head=span version_2_with_negative",
    ),
    ("tag_words=white_space", "head=span", "head=tagging"),
  ],
  "fill_mask": [("top_k=3", "score", "")],
  "serve": [("head=span", "saved_model_dir=a", "model_dir=a")],
}
REQUIRED = {
  "run_pretraining": "bert_config_file=a input_file=a output_dir=a",
  "fill_mask": "bert_config_file=a vocab_file=a",
  "run_classifier": "bert_config_file=a vocab_file=a",
  "run_ner": "bert_config_file=a vocab_file=a",
  "create_pretraining_data": "input_file=a vocab_file=a output_file=a",
  "extract_features": "bert_config_file=a vocab_file=a input_file=a",
  "convert_checkpoint": "input=a output=a",
  "export_saved_model": (
    "bert_config_file=a vocab_file=a head=span export_dir=a"
  ),
}


def read(verb, *texts):
  """Returns the settings of a command line without checking its flags."""
  parsed = " ".join([REQUIRED.get(verb, ""), *texts]).split()
  absl_flags.FLAGS.unparse_flags()
  absl_flags.FLAGS([verb, *(f"--{flag}" for flag in parsed)])
  return flags.read_settings(check=False)


def refusing(settings, name):
  """Returns the Rules that refuse a flag next to the other settings."""
  return {
    rule
    for rule in settings.rules
    if rule.names == name and rule.fault(settings)
  }


def download_cases(verb):
  """Returns the cases of a script's --download, if it has this flag."""
  if "download" not in absl_flags.FLAGS:
    return []
  return DOWNLOAD_CASES.get(verb, NAMED_MODEL)


def test_settings_are_the_flags_of_the_script_alone():
  with script_flags.defined("run_classifier"):
    absl_flags.DEFINE_string("flag_of_absl", None, "Any help.")
    settings = read("run_classifier", "do_train flag_of_absl=1")
    assert "flag_of_absl" not in settings
    assert settings.do_train and "do_train" in settings.given


@pytest.mark.parametrize("verb", test_layout.VERBS)
def test_every_rule_refuses_and_accepts(verb):
  seen = set()
  with script_flags.defined(verb):
    for flag, ruled_out_by, allowed_by in (
      (flag, *row)
      for flags, *row in [*CASES.get(verb, ()), *download_cases(verb)]
      for flag in flags.split()
    ):
      name = flag.partition("=")[0]
      refusals = refusing(read(verb, flag, ruled_out_by), name)
      assert refusals, (flag, ruled_out_by)
      assert not refusing(read(verb, flag, allowed_by), name), (
        flag,
        allowed_by,
      )
      seen |= refusals
      with pytest.raises(errors.InputError, match=f"--{name} .*; "):
        run_settings.refuse_ignored(read(verb, flag, ruled_out_by))
    rules = {
      rule
      for name in absl_flags.FLAGS
      for rule in getattr(absl_flags.FLAGS[name], "rules", ())
      # Nearly all flags have this rule, so CASES tests it only for some.
      if rule.not_with != "evaluate_only"
    }
  assert rules <= seen


@pytest.mark.parametrize("verb", test_layout.VERBS)
def test_numeric_flags_must_be_finite(verb):
  with script_flags.defined(verb):
    numeric_flags = [
      absl_flags.FLAGS[name]
      for name in absl_flags.FLAGS
      if hasattr(absl_flags.FLAGS[name], "rules")
      and absl_flags.FLAGS[name].flag_type() in ("int", "float")
    ]
    for flag in numeric_flags:
      for text in ("nan", "inf", "-inf", "1e999", "9" * 20 + "e400"):
        with pytest.raises(absl_flags.IllegalFlagValueError):
          flag.parse(text)
      if flag.flag_type() == "int":
        with pytest.raises(absl_flags.IllegalFlagValueError):
          flag.parse("9" * 20)
      if flag.default is not None:
        flag.parse(flag.default)


@pytest.mark.parametrize(
  "number, is_refused",
  [(2**63 - 1, False), (2**63, True), (-(2**63), False), (-(2**63) - 1, True)],
)
def test_an_integer_has_at_most_64_bits(number, is_refused):
  with script_flags.defined("run_classifier"):
    flags.DEFINE_integer("any_number", None, "Any help.")
    flag = absl_flags.FLAGS["any_number"]
    if is_refused:
      with pytest.raises(absl_flags.IllegalFlagValueError, match="64 bits"):
        flag.parse(str(number))
      return
    flag.parse(str(number))
    assert flag.value == number


@pytest.mark.parametrize(
  "flag",
  [
    "adam_beta2=1",
    "learning_rate=-1",
    "num_train_epochs=1e300",
    "warmup_proportion=nan",
    "layerwise_lr_decay=1.1",
    "seed=1e3",
  ],
)
def test_numbers_out_of_range_are_refused(flag):
  with script_flags.defined("run_classifier"):
    with pytest.raises(absl_flags.IllegalFlagValueError, match=f"--{flag}: "):
      read("run_classifier", flag)


def test_the_home_folder_is_found_only_in_paths(monkeypatch):
  monkeypatch.setenv("HOME", "/h")
  command = "input_file=~/a,b,~/c model_dir=~ vectors_file=x/~ never_split=~/d"
  with script_flags.defined("extract_features"):
    read("extract_features", command)
    flags.expand_home()
    values = absl_flags.FLAGS.flag_values_dict()
  expected = ("/h/a,b,/h/c", "/h", "x/~", ["~/d"])
  names = ("input_file", "model_dir", "vectors_file", "never_split")
  assert tuple(values[name] for name in names) == expected


def test_values_become_the_words_of_a_command():
  with script_flags.defined("fill_mask"):
    words = flags.as_words(
      {
        "text": ["a,b", "c"],
        "never_split": ("x", "y"),
        "top_k": 3,
        "vocab_file": None,
        "no_flag": ["p", "q"],
      }
    )
  assert words == (
    "--text=a,b --text=c --never_split=x,y --top_k=3 --no_flag=p --no_flag=q"
  ).split(" ")


def test_a_file_of_flags_that_is_read_is_not_written(tmp_path, monkeypatch):
  path = tmp_path / "flags.txt"
  with script_flags.defined("fill_mask"):
    for word, is_read in ((f"--flagfile={path}", True), ("--top_k=3", False)):
      path.write_text("# mine\n")
      monkeypatch.setattr("sys.argv", ["fill_mask.py", word])
      flags.write_file(str(tmp_path))
      assert (path.read_text() == "# mine\n") == is_read


def test_a_file_of_flags_names_what_it_cannot_hold(tmp_path, monkeypatch):
  """absl removes white space at the ends of its lines."""
  words = ["--vocab_file=a ", "--init_checkpoint=a\nb", "--text=a", "--text=b"]
  monkeypatch.setattr("sys.argv", ["fill_mask.py"])
  with script_flags.defined("fill_mask"):
    absl_flags.FLAGS(["fill_mask.py", "--bert_config_file=c", *words])
    flags.write_file(str(tmp_path))
  _, *lines = (tmp_path / "flags.txt").read_text().splitlines()
  note = "# Pass this flag on the command line: "
  assert lines == [
    "--bert_config_file=c",
    note + repr("--init_checkpoint=a\nb"),
    "--text=a",
    "--text=b",
    note + repr("--vocab_file=a "),
  ]


def test_another_script_has_only_its_own_flags_and_absls():
  values = absl_flags.FLAGS
  absl_flags.DEFINE_string("flag_before", None, "Any help.")
  try:
    with flags.of_one_script():
      assert "verbosity" in values and "flag_before" not in values
      absl_flags.DEFINE_string("flag_within", None, "Any help.")
    assert "flag_before" in values and "flag_within" not in values
  finally:
    delattr(values, "flag_before")


def test_files_that_are_checked_are_paths():
  for name in (*overwriting._INPUTS, *overwriting._OUTPUTS):
    assert re.fullmatch(flags._PATHS, name), name


def test_the_help_says_when_a_flag_applies():
  with script_flags.defined("run_squad"):
    help_of = {name: absl_flags.FLAGS[name].help for name in absl_flags.FLAGS}
  assert help_of["freeze_layers"].endswith(
    " Needs --do_train. Not with --freeze_encoder. Not with --evaluate_only."
  )


def test_a_command_of_the_original_passes_with_its_training_flags():
  """The original's command to predict SQuAD 2.0 has training flags."""
  command = (
    "vocab_file=a bert_config_file=a init_checkpoint=a do_train=False "
    "train_file=a do_predict=True predict_file=a train_batch_size=24 "
    "learning_rate=3e-5 num_train_epochs=2.0 max_seq_length=384 doc_stride=128 "
    "output_dir=a use_tpu=False tpu_name=a version_2_with_negative=True "
    "null_score_diff_threshold=-1.97"
  )
  with script_flags.defined("run_squad"):
    run_settings.refuse_ignored(read("run_squad", command))


def test_a_flag_that_asks_for_nothing_passes():
  with script_flags.defined("run_classifier"):
    for flag in ("nobucket_by_length", "save_best=", "optimizer=lamb do_train"):
      run_settings.refuse_ignored(
        read("run_classifier", OFFICIAL_TASK + "output_dir=a do_eval", flag)
      )
    # Unlike an empty value, 0 has an effect. The error names all faults.
    with pytest.raises(errors.InputError) as refused:
      read("run_classifier", "freeze_layers=0 optimizer=lamb")
      flags.read_settings()
    assert str(refused.value).split(". ") == [
      f"--{name} needs --do_train; add it, or remove this flag"
      for name in ("freeze_layers", "optimizer")
    ]
