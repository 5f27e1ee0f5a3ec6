"""Starts pre-training on two machines of Amazon SageMaker.

Run it with `pip install "sagemaker<3"` and AWS credentials. The processes find
each other by SageMaker's variables (SM_HOSTS, SM_CURRENT_HOST). After a lost
machine, start the same job again: it continues from the last checkpoint, which
SageMaker copies from /opt/ml/checkpoints to S3 and back.
"""

from sagemaker.estimator import Estimator

BUCKET = "s3://BUCKET"
FLAGS = {
  "distribution_strategy": "multi_worker_mirrored",
  "do_train": "true",
  "input_file": "/opt/ml/input/data/text/wiki.tfrecord.manifest.json",
  "bert_config_file": "/opt/ml/input/data/text/bert_config.json",
  "vocab_file": "/opt/ml/input/data/text/vocab.txt",
  "output_dir": "/opt/ml/checkpoints",
  "train_batch_size": "2048",
  "learning_rate": "4e-4",
  "dtype": "bfloat16",
  "num_train_steps": "125000",
  "num_warmup_steps": "1250",
}


def main():
  """Starts the job and waits for its end."""
  estimator = Estimator(
    image_uri="ACCOUNT.dkr.ecr.REGION.amazonaws.com/bert-tf2:gpu",
    role="ROLE",
    instance_count=2,
    instance_type="ml.p4d.24xlarge",
    container_entry_point=["bert-run-pretraining"],
    container_arguments=[f"--{name}={value}" for name, value in FLAGS.items()],
    # Both machines write here, so the folder must be one disk: FSx or EFS.
    checkpoint_local_path="/opt/ml/checkpoints",
    checkpoint_s3_uri=f"{BUCKET}/pretraining_output",
    max_run=24 * 3600,
  )
  estimator.fit({"text": f"{BUCKET}/text"})


if __name__ == "__main__":
  main()
