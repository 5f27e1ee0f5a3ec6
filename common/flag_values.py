"""Values of flags whose implementations are slow to import.

Because they are listed here, --help and mistyped flags are answered before
TensorFlow is loaded. A test compares some of them with the implementations.
"""

DISTRIBUTION_STRATEGIES = tuple(
  "auto off one_device mirrored multi_worker_mirrored tpu".split()
)
DTYPES = ("float32", "bfloat16", "float16")
OPTIMIZERS = ("bertadam", "adamw", "lamb")
LEARNING_RATE_SCHEDULES = ("linear", "constant", "cosine", "polynomial")

# The flags that --search may vary: they change neither records nor network.
SEARCHED = tuple(
  (
    "gradient_accumulation_steps layerwise_lr_decay learning_rate "
    "num_train_epochs seed train_batch_size warmup_proportion weight_decay_rate"
  ).split()
)

TABLE_FORMATS = ("csv", "tsv", "jsonl", "json", "text", "fasttext", "parquet")
OWN_TASK_KINDS = tuple(
  "single regression multi_label ranking similarity retrieval".split()
)
RANKING_LOSSES = ("pointwise", "pairwise", "listwise")
SPARSE_RULES = ("max", "sum"), ("relu", "log1p_relu")  # Pooling, activation.

ANSWER_UNITS = ("auto", "words", "mixed", "characters")
# As in the original: the default of --max_seq_length.
_LENGTHS = {"span": 384}

TAGGING_FORMATS = ("conll", "jsonl", "text")
TAGGING_SCHEMES = ("iob1", "iob2", "iobes", "bilou", "bmes", "plain", "none")
TAGGING_FEATURES = tuple(
  (
    "embeddings second_to_last last weighted_sum_last_four concat_last_four "
    "weighted_sum_all"
  ).split()
)
FEATURE_FILE_FORMATS = ("jsonl", "npz")
SENTENCE_POOLINGS = ("cls", "mean", "max", "pooled", "last_four_concat")

CHECKPOINT_KINDS = ("tf1", "tf2", "huggingface", "model_garden")
# {variant: prefix of the names of its classes in transformers}
HUGGINGFACE_TITLES = {
  "bert": "Bert",
  "distilbert": "DistilBert",
  "albert": "Albert",
  "electra": "Electra",
  "modernbert": "ModernBert",
  "camembert": "Camembert",
  "roberta": "Roberta",
  "xlm-roberta": "XLMRoberta",
}
HUGGINGFACE_ARCHITECTURES = (
  *(
    title + end
    for title in HUGGINGFACE_TITLES.values()
    for end in (
      "ForQuestionAnswering",
      "ForSequenceClassification",
      "ForTokenClassification",
      "ForMultipleChoice",
      "ForMaskedLM",
      "Model",
    )
  ),
  "BertForPreTraining",
  "AlbertForPreTraining",
  "ElectraForPreTraining",
  "BertForNextSentencePrediction",
)
SERVING_HEADS = tuple(
  "classification embedding masked_lm next_sentence span sparse tagging".split()
)
ENGINES = ("tensorflow", "onnx", "litert")


def default_length(head: str = "") -> int:
  """Returns the default of --max_seq_length for a head of SERVING_HEADS."""
  return _LENGTHS.get(head, 128)
