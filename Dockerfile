# The package with its commands, for CPUs:
#   docker build -t bert-tf2 .
# and for NVIDIA GPUs (the host needs its driver and the container toolkit):
#   docker build -t bert-tf2:gpu \
#     --build-arg BASE_IMAGE=nvidia/cuda:12.5.1-base-ubuntu22.04 \
#     --build-arg EXTRAS=gpu,serve,plot .
# Run it, with your files in the current folder:
#   docker run --rm --gpus=all -v "$PWD:/data" bert-tf2:gpu \
#     bert-run-classifier --task_name=MRPC --data_dir=mrpc --do_train \
#     --model_dir=uncased_L-12_H-768_A-12 --output_dir=mrpc_output
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}

# Extras of pyproject.toml. CUDA's libraries come with the extra "gpu", so that the
# base image has to bring none.
ARG EXTRAS=serve,plot

# A CUDA image has no Python. The release of the base image fixes the versions
# of its packages.
# hadolint ignore=DL3008
RUN if ! command -v python3 > /dev/null; then \
      apt-get update \
      && apt-get install -y --no-install-recommends python3 python3-venv \
      && rm -rf /var/lib/apt/lists/*; \
    fi \
    && python3 -m venv /opt/bert \
    && useradd --create-home --uid=1000 bert

ENV PATH="/opt/bert/bin:$PATH" \
    TF_CPP_MIN_LOG_LEVEL=2

COPY . /opt/source
RUN pip install --no-cache-dir "/opt/source[$EXTRAS]"

USER 1000
WORKDIR /data
CMD ["bert-run-classifier", "--help"]
