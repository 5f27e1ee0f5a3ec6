"""Groups the flags of a script for --help and docs/flags.md.

A flag that no group lists is in the last group.
"""

import textwrap
from collections.abc import Iterable
from typing import Any

# --help begins with the first ten of these flags that a script has.
_FIRST = """
  task_name data_dir train_file eval_file predict_file input_file output_file
  head format export_dir model_dir do_train do_eval do_predict output_dir
  version_2_with_negative file_format scheme pooling layers similarity search
  num_train_steps bert_config_file vocab_file init_checkpoint max_seq_length
  max_predictions_per_seq dupe_factor packing shard_size_mb num_processes
"""
_NUM_FIRST = 10
_GROUPS = {
  "Data": """
    language eval_input_file file_format text_column text_b_column label_column
    label_columns id_column word_column negative_column separator encoding
    on_bad_row label_separator task_kind labels label_names scheme lenient
    text_pairs max_train_examples max_eval_examples max_predict_examples
    eval_fraction max_seq_length max_query_length doc_stride max_windows
    pad_to_max_length document_context lengths packing segmented_text
    dynamic_masking do_whole_word_mask mask_shares masked_lm_prob
    max_predictions_per_seq dupe_factor short_seq_prob vectors_file masking
    phrases_file sentence_splitter language_smoothing kept_tokens outside_label
    soft_label_columns soft_labels_are_logits
  """,
  "Model": """
    bert_config_file vocab_file init_checkpoint do_lower_case never_split
    feature_layers bilstm_size layers pooling pooling_layer normalize similarity
    sparse sparse_pooling sparse_activation use_next_sentence_loss
    version_2_with_negative objectives network generator_config_file
    teacher_checkpoint on_top download
  """,
  "Training": """
    train_batch_size learning_rate num_train_epochs max_train_steps
    num_train_steps warmup_proportion num_warmup_steps learning_rate_schedule
    optimizer adam_beta2 adam_epsilon weight_decay_rate class_weights
    temperature losses cosent_temperature matryoshka_dims ranking_loss
    distillation_temperature distillation_weights group_size
    gradient_accumulation_steps
    recompute_activations bucket_by_length freeze_encoder freeze_pooler
    freeze_layers layerwise_lr_decay seed seeds search save_checkpoints_steps
    max_to_keep log_steps stop_step max_restarts
    splade_document_weight splade_query_weight
  """,
  "Evaluation and prediction": """
    text text_b question context f1_units metrics eval_batch_size eval_steps
    max_eval_steps save_best use_best
    early_stopping_patience predict_batch_size batch_size predict_labels
    output_activation tag_words top_k n_best_size max_answer_length
    null_score_diff_threshold evaluate_only predictions_file glue_submission_dir
    quantize calibration_file max_quantization_difference
  """,
  "Devices": """
    distribution_strategy dtype jit_compile iterations_per_loop use_tpu tpu_name
    tpu_zone gcp_project master num_tpu_cores num_logical_cpus
    use_one_hot_embeddings engine engine_options
  """,
}
# A script with at most this many flags shows them in one list.
_MAX_UNGROUPED = 16


def in_groups(flags: Iterable[Any]) -> dict[str, list]:
  """Returns {title of a group: its absl flags}, in the order of --help."""
  left = {flag.name: flag for flag in flags}
  if len(left) <= _MAX_UNGROUPED:
    return {"Flags": list(left.values())}
  first = [name for name in _FIRST.split() if name in left][:_NUM_FIRST]
  groups = {
    "Main": [left.pop(name) for name in first],
    **{
      title: [left.pop(name) for name in names.split() if name in left]
      for title, names in _GROUPS.items()
    },
    "More": list(left.values()),
  }
  return {title: members for title, members in groups.items() if members}


def text(flags: Iterable[Any]) -> str:
  """Returns the text about a script's flags that --help prints."""
  return "\n".join(
    "\n".join([f"{title}:", *map(_described, members), ""])
    for title, members in in_groups(flags).items()
  )


def _described(flag: Any) -> str:
  name = f"[no]{flag.name}" if flag.boolean else flag.name
  default = (flag.default_as_str or "").strip("'")
  notes = [default and f"default: {default}", flag.parser.syntactic_help]
  note = "; ".join(filter(None, notes)) if default != "false" else ""
  meaning = " ".join(f"--{name}: {flag.help} {note and f'({note})'}".split())
  return textwrap.fill(
    meaning,
    80,
    initial_indent="  ",
    subsequent_indent=" " * 6,
    break_on_hyphens=False,
  )
