"""The states that the pooler reads of each example, computed once and kept.

Training the pooler and the classifier on them takes seconds. Letters: W
sequences of an example, H width.
"""

import tensorflow as tf

from classification import classifier, input_data
from records import pipeline, tfrecord
from training import distribution, frozen_states

COMPUTED_TOGETHER = 1 << 14  # Examples whose states are held in memory.


def ensure(
  path: str, model: classifier.ClassifierModel, data: input_data.ClassifierData,
  *, strategy: tf.distribute.Strategy, batch_size: int
) -> input_data.ClassifierData:
  """Writes the states of all examples, unless they are there already.

  Returns:
    Data of records that hold first_states and sequence_mask, in the order of
    `data`.
  """
  skip_empty = not distribution.is_tpu(strategy)
  sequences, width = data.max_sequences, model.config.hidden_size

  def of_batch(batch):
    states, mask = model.first_states(
      pipeline.trim_to_longest(batch), skip_empty=skip_empty
    )
    missing = sequences - tf.shape(mask)[1]  # Of W.
    return {
      "first_states": tf.cast(
        # As wide as the widest example of all, since records have one size.
        tf.pad(states, [[0, 0], [0, missing], [0, 0]]), tf.float32
      ),
      "sequence_mask": tf.pad(mask, [[0, 0], [0, missing]]),
      "label_ids": batch["label_ids"],
      "is_real_example": batch["is_real_example"],
    }

  def serialize(outputs):
    # A feature of a record is one row of numbers: [W, H] becomes [W H].
    return tfrecord.serialize_examples({
      name: values.reshape(len(values), -1) for name, values in outputs.items()
    })

  frozen_states.ensure(
    path, model.bert, data, of_batch, serialize,
    strategy=strategy, batch_size=batch_size, window=COMPUTED_TOGETHER,
  )
  return data._replace(
    records=path,
    features={
      "first_states": tf.io.FixedLenFeature([sequences, width], tf.float32),
      "sequence_mask": tf.io.FixedLenFeature([sequences], tf.int64),
      **{n: data.features[n] for n in ("label_ids", "is_real_example")},
    },
  )
