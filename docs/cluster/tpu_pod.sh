#!/bin/bash
# Pre-training on all hosts of a TPU VM pod (v4-32: four hosts). The processes
# of a pod read their places from the TPU; data and output are in a bucket.
set -euo pipefail
NAME=bert ZONE=us-central2-b BUCKET=gs://BUCKET

gcloud compute tpus tpu-vm create "$NAME" --zone="$ZONE" \
  --accelerator-type=v4-32 --version=tpu-vm-tf-2.20.0-pod-pjrt
gcloud compute tpus tpu-vm ssh "$NAME" --zone="$ZONE" --worker=all \
  --command='git clone https://github.com/OWNER/bert-tf2 && pip install ./bert-tf2'
# One process drives all hosts of the pod, so this runs on the first host. It
# starts again until it ends by itself: 75 says that it saved a checkpoint, and
# 1 that a person has to look at the message.
gcloud compute tpus tpu-vm ssh "$NAME" --zone="$ZONE" --worker=0 --command="
until bert-run-pretraining --use_tpu --tpu_name=$NAME --tpu_zone=$ZONE \
  --num_tpu_cores=16 --do_train \
  --input_file=$BUCKET/wiki.tfrecord.manifest.json \
  --bert_config_file=$BUCKET/bert_config.json --vocab_file=$BUCKET/vocab.txt \
  --output_dir=$BUCKET/pretraining_output \
  --train_batch_size=4096 --learning_rate=8e-4 --dtype=bfloat16 \
  --num_train_steps=62500 --num_warmup_steps=625
do [ \$? = 1 ] && exit 1; sleep 60; done"
