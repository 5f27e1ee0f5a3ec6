#!/usr/bin/env bash
# Creates or updates .venv, the environment of this folder.
#
#   bash .ci/make_env.sh [EXTRA ...]                 extras, such as test
#   PYTHON=python3.12 bash .ci/make_env.sh [EXTRA ...]     another interpreter
#
# It is quick if nothing is missing: .venv/has-<extra> has the checksum of the
# pyproject.toml whose packages are installed. .venv/unfinished exists while pip
# runs, so an interrupted environment is created again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

supported='import sys, venv, ensurepip
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'

find_python() {  # Prints the first suitable interpreter.
  local name names=(python3 python3.13 python3.12 python3.11 python3.10)
  [ -z "${PYTHON:-}" ] || names=("$PYTHON")
  for name in "${names[@]}"; do
    if "$name" -c "$supported" 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  {
    echo "make env: error: ${PYTHON:-python3} is not Python 3.10 to 3.13" \
      "with the module venv."
    echo "Install one, and run PYTHON=/path/to/python3.11 make env"
  } >&2
  return 1
}

version() { "$1" -c 'import sys; print(sys.version)' 2>/dev/null || true; }

usable() {  # Whether .venv is complete, runs, and has the requested version.
  [ ! -e .venv/unfinished ] && [ -e .venv/has-core ] || return 1
  [ -n "$(version .venv/bin/python)" ] || return 1
  [ -z "${PYTHON:-}" ] || [ "$(version .venv/bin/python)" = "$(version "$PYTHON")" ]
}

up_to_date() {  # Whether .venv has the core and every requested extra.
  local name
  for name in core "$@"; do
    [ "$(cat ".venv/has-$name" 2>/dev/null)" = "$checksum" ] || return 1
  done
}

checksum=$(cksum <pyproject.toml)
if ! usable; then
  if [ -L .venv ]; then  # To create it again would empty another folder.
    echo "make env: error: .venv is a link to $(readlink .venv), an environment" \
      "that this script did not complete. Remove the link." >&2
    exit 1
  fi
  python=$(find_python)
  echo "Creating .venv with $("$python" --version): takes minutes and 2 to 4 GB."
  rm -f .venv/has-core  # First, because the next step may be interrupted.
  "$python" -m venv --clear .venv
  # The pip of Python 3.10 takes more than nine minutes to find versions that fit
  # tf-models-official; a new pip takes less than one.
  .venv/bin/python -m pip install --quiet --upgrade pip
elif up_to_date "$@"; then
  exit 0
fi

# pip reads requirements only from a build of the project, and installs the
# project with them. Remove it again, because scripts run from this folder.
# With --no-compile, Python compiles modules when they are imported; pip would
# compile all of them, which doubles the time. If Python must not store compiled
# modules, each script would compile TensorFlow again (10 to 20 s), so pip
# compiles.
extras=$(IFS=,; echo "$*")
echo "Installing the packages of pyproject.toml${extras:+ with the extras $extras}."
touch .venv/unfinished
.venv/bin/python -m pip install $([ -t 1 ] || echo --quiet) --use-pep517 \
  $([ -n "${PYTHONDONTWRITEBYTECODE:-}" ] || echo --no-compile) \
  --disable-pip-version-check ".${extras:+[$extras]}"
.venv/bin/python -m pip uninstall --quiet --yes bert-tf2
rm -rf build bert_tf2.egg-info
for name in core "$@"; do echo "$checksum" >".venv/has-$name"; done
rm .venv/unfinished
