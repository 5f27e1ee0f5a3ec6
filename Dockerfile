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
# A server of an export of export_saved_model.py:
#   docker build -t bert-tf2:serve --target=serve .
#   docker run --rm -p 127.0.0.1:8501:8501 -v "$PWD/models/sentiment:/model:ro" \
#     bert-tf2:serve --model_name=sentiment
# Behind a proxy, also pass the names that clients use:
#     --allowed_hosts=api.example.org
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE} AS package

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

# The dependencies, TensorFlow among them, come with an empty package of the same
# name: their layer stays as it is when the sources change.
WORKDIR /opt/dependencies
COPY pyproject.toml ./
RUN touch README.md \
    && echo 'import setuptools as s; s.setup(license="", packages=[])' > setup.py \
    && pip install --no-cache-dir "/opt/dependencies[$EXTRAS]"

COPY . /opt/source
RUN pip install --no-cache-dir --no-deps --force-reinstall /opt/source

USER 1000
WORKDIR /data

FROM package AS serve
EXPOSE 8501
# The server answers after TensorFlow and the model are loaded.
HEALTHCHECK --interval=30s --timeout=10s --start-period=120s \
  CMD ["python3", "-c", "import http.client as http; c = http.HTTPConnection('127.0.0.1', 8501, timeout=5); c.request('GET', '/healthz'); assert c.getresponse().status == 200"]
# In a container, the server must listen on all addresses. The names of its host
# are still checked, so that no web page can reach it under another name.
ENTRYPOINT ["bert-serve", "--saved_model_dir=/model", "--host=0.0.0.0", \
  "--allowed_hosts=localhost,127.0.0.1"]

# The last stage is the one that is built without --target.
FROM package AS commands
CMD ["bert-run-classifier", "--help"]
