"""Tests models that keep some layers of a larger model."""

import numpy as np
import pytest

import script_runner
import stored_weights
import tiny_model
from checkpoints import converter, layer_choice, model_writer
from common import errors
from variants import registry

CONFIG = tiny_model.tiny(num_hidden_layers=4)


@pytest.fixture
def folder(tmp_path):
  encoder = registry.make_encoder(CONFIG, seed=3)
  model_writer.write(str(tmp_path / "deep"), encoder.variables, CONFIG)
  return tmp_path / "deep"


@pytest.mark.parametrize("to, wanted", [("tf1", [0, 2]), ("huggingface", [1])])
def test_kept_layers_have_their_weights(folder, tmp_path, to, wanted):
  output = tmp_path / "shallow"
  script_runner.succeed(
    "convert_checkpoint.py",
    input=folder,
    output=output,
    to=to,
    keep_layers=",".join(map(str, wanted)),
    verify=True,
  )
  old, new = (stored_weights.read(str(path)) for path in (folder, output))
  assert converter.open_source(str(output)).config.num_hidden_layers == len(
    wanted
  )
  for number, kept in enumerate(wanted):
    for name in old:
      if f"/layer_{kept}/" in name:
        renamed = name.replace(f"/layer_{kept}/", f"/layer_{number}/")
        np.testing.assert_array_equal(new[renamed], old[name])
  assert not [name for name in new if f"/layer_{len(wanted)}/" in name]
  table = "bert/embeddings/word_embeddings"
  np.testing.assert_array_equal(new[table], old[table])


@pytest.mark.parametrize("numbers", ["2,0", "0,4", "0,0", "x", "-1"])
def test_wrong_layers_are_refused(folder, numbers):
  source = converter.open_source(str(folder))
  with pytest.raises(errors.InputError, match=f"{numbers}: .* such as 0,2"):
    layer_choice.keep(source, numbers.split(","))


@pytest.mark.parametrize("numbers", [[0], [3], [1, 3], [0, 1, 2, 3]])
def test_any_layers_may_be_kept(folder, numbers):
  source = converter.open_source(str(folder))
  kept = layer_choice.keep(source, [*map(str, numbers)])
  assert kept.config.num_hidden_layers == len(numbers)
  assert source.config.num_hidden_layers == 4
  for number, old in enumerate(numbers):
    name = f"bert/encoder/layer_{number}/output/dense/kernel"
    np.testing.assert_array_equal(
      kept.reader.read(name),
      source.reader.read(name.replace(f"_{number}/", f"_{old}/")),
    )
  assert not [n for n in kept.reader.shapes if f"layer_{len(numbers)}/" in n]


def test_layers_that_attend_to_other_tokens_are_refused():
  config = tiny_model.tiny()
  vars(config).update(variant="modernbert")
  source = converter.Source(None, config, None, 12)
  with pytest.raises(errors.InputError, match="modernbert cannot take another"):
    layer_choice.keep(source, ["0"])


def test_shared_layers_are_refused():
  config = tiny_model.tiny()
  vars(config).update(variant="albert", embedding_size=4, num_hidden_groups=1)
  source = converter.Source(None, config, None, 12)
  with pytest.raises(errors.InputError, match="albert share their weights"):
    layer_choice.keep(source, ["0"])
