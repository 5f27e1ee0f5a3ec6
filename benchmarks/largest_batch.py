"""The largest training batch that fits, by model, sequence length and memory.

  python benchmarks/largest_batch.py --memory_gb=12,24 --sizes=base,large

On a GPU the device is limited to --memory_gb (so one large card measures the
table of a smaller one too), and the batch is doubled, then bisected, each try
in a process of its own: two steps of the real trainer, a classifier with
BERTAdam. On a CPU, where nothing stops a process from taking more, the peak
memory of the process is measured at two batch sizes and the largest batch
follows from the line through them; --verify measures that batch as well.

Prints a Markdown table: a row for each model and length, a column for each
memory, 0 where nothing fits.
"""

import functools
import os
import resource
import subprocess
import sys
import tempfile

from absl import app, flags

# Run as a script, this folder is on the path and its parent is not.
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

FLAGS = flags.FLAGS

flags.DEFINE_list("memory_gb", ["12"], "Device memories, in 10**9 bytes.")
flags.DEFINE_list("sizes", ["base"], "Models: tiny, base, large.")
flags.DEFINE_list("lengths", ["64", "128", "256", "384", "512"], "Lengths.")
flags.DEFINE_string("dtype", "float32", "float32, bfloat16 or float16.")
flags.DEFINE_bool("recompute_activations", False, "See run_pretraining.py.")
flags.DEFINE_integer("gradient_accumulation_steps", 1, "Parts of a batch.")
flags.DEFINE_bool("verify", False, "On a CPU: measure the largest batch too.")
flags.DEFINE_integer("try_batch", 0, "Internal: try this batch and say how.")

SHAPES = {  # layers, width, heads
  "tiny": (2, 128, 2), "base": (12, 768, 12), "large": (24, 1024, 16),
}
_FITS, _DOES_NOT_FIT = 0, 3
_LARGEST_TRIED = 8192
_FEW_TOKENS = 512  # Of the smaller of the two batches on a CPU.


def try_batch(size, length, batch_size):
  """Takes two training steps; returns the peak memory of the process, bytes.

  On a GPU with less memory than that TensorFlow raises ResourceExhausted.
  """
  import tensorflow as tf

  import modeling
  import optimization
  from training import loop

  gpus = tf.config.list_physical_devices("GPU")
  if gpus:
    limit = tf.config.LogicalDeviceConfiguration(
      # In MiB.
      memory_limit=int(float(FLAGS.memory_gb[0]) * 1e9 / 2**20)
    )
    tf.config.set_logical_device_configuration(gpus[0], [limit])
  layers, width, heads = SHAPES[size]
  config = modeling.BertConfig(
    30522, width, layers, heads, 4 * width, type_vocab_size=2
  )
  bert = modeling.BertModel(
    config,
    compute_dtype=tf.as_dtype(FLAGS.dtype),
    recompute_activations=FLAGS.recompute_activations,
  )
  head = modeling.ClassificationHead(config, 2)

  def sums(batch, dropout_seed):
    options = {"training": True, "dropout_seed": dropout_seed}
    output = bert(batch["input_ids"], **options)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
      batch["labels"], head(output.pooled_output, **options)
    )
    return {"loss": tf.reduce_sum(losses)}, {}

  batch = {
    "input_ids": tf.ones([batch_size, length], tf.int32),
    "labels": tf.zeros([batch_size], tf.int32),
  }
  with tempfile.TemporaryDirectory() as folder:
    trainer = loop.Trainer(
      strategy=tf.distribute.get_strategy(),
      variables=bert.variables + head.variables,
      trained=bert.variables + head.variables,
      objective=loop.Objective(
        weights=lambda _: {"loss": tf.constant(float(batch_size))}, sums=sums
      ),
      optimizer=optimization.make_optimizer("bertadam"),
      learning_rate=functools.partial(
        optimization.learning_rate,
        init_lr=1e-5,
        num_train_steps=10,
        num_warmup_steps=0,
      ),
      options=loop.TrainOptions(
        output_dir=folder,
        num_train_steps=2,
        batch_size=batch_size,
        gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
        loss_scaling=FLAGS.dtype == "float16",
      ),
    )
    # The step alone: a checkpoint takes no memory of the device.
    for _ in range(2):
      trainer.step(batch)
  # Linux gives it in KiB.
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(size, length, batch_size, memory_gb="0"):
  """Runs `try_batch` in a process; returns peak bytes, None if it fails.

  Only a GPU is limited to `memory_gb`.

  Raises:
    RuntimeError: it failed for another reason than memory.
  """
  command = [sys.executable, os.path.abspath(__file__)]
  for name in (
    "dtype", "recompute_activations", "gradient_accumulation_steps"
  ):
    command.append(f"--{name}={FLAGS[name].value}")
  command += [f"--sizes={size}", f"--lengths={length}"]
  command.append(f"--memory_gb={memory_gb}")
  command.append(f"--try_batch={batch_size}")
  done = subprocess.run(command, capture_output=True, text=True)
  if done.returncode == _FITS:
    return int(done.stdout.split()[-1])
  if done.returncode == _DOES_NOT_FIT:
    return None
  raise RuntimeError(done.stderr[-2000:])


def largest_on_gpu(size, length):
  """Returns the cells of a row: the largest batch in each memory."""
  return [
    str(_bisected(functools.partial(measure, size, length, memory_gb=memory)))
    for memory in FLAGS.memory_gb
  ]


def _bisected(fits):
  """Returns the largest batch that fits, by a function that tries one."""
  step = FLAGS.gradient_accumulation_steps
  # In parts of gradient accumulation: `low` fits, `high` is not known to.
  low, high = 0, 1
  while high * step <= _LARGEST_TRIED and fits(high * step):
    low, high = high, 2 * high
  while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if fits(middle * step) else (low, middle)
  return low * step


def largest_on_cpu(size, length):
  """Returns the cells of a row, by the line through two measured peaks."""
  step = FLAGS.gradient_accumulation_steps
  # Enough tokens that activations count, few enough to be measured soon.
  few = step * max(1, _FEW_TOKENS // (step * length))
  many = 4 * few
  peaks = [measure(size, length, count) for count in (few, many)]
  per_example = (peaks[1] - peaks[0]) / (many - few)
  fixed = peaks[0] - few * per_example
  cells = []
  for memory in FLAGS.memory_gb:
    largest = int((float(memory) * 1e9 - fixed) / per_example)
    largest = max(0, largest // step * step)
    cells.append(str(largest))
    if FLAGS.verify and largest:
      measured = measure(size, length, largest) / 1e9
      cells[-1] += f" (measured {measured:.2f} GB)"
  cells.append(f"{fixed / 1e9:.2f} GB + {per_example / 1e6:.0f} MB each")
  return cells


def main(argv):
  del argv
  if FLAGS.try_batch:
    size, length = FLAGS.sizes[0], int(FLAGS.lengths[0])
    import tensorflow as tf

    try:
      print(try_batch(size, length, FLAGS.try_batch))
    except tf.errors.ResourceExhaustedError:
      sys.exit(_DOES_NOT_FIT)
    return
  import tensorflow as tf

  on_gpu = bool(tf.config.list_physical_devices("GPU"))
  largest = largest_on_gpu if on_gpu else largest_on_cpu
  how = "GPU" if on_gpu else "estimates from the memory of a CPU process"
  print(f"{how}, {FLAGS.dtype}")
  columns = ["model", "length", *(f"{gb} GB" for gb in FLAGS.memory_gb)]
  if not on_gpu:
    columns.append("peak memory")
  print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
  for size in FLAGS.sizes:
    for length in FLAGS.lengths:
      cells = " | ".join([size, length, *largest(size, int(length))])
      print(f"| {cells} |", flush=True)


if __name__ == "__main__":
  app.run(main)
