"""The released models and data sets, each with its official address.

Sizes and SHA-256 sums are those that tensorflow-datasets publishes for the
same files (its url_checksums, Apache-2.0); where there is none, only what the
server says of the length is checked. Sizes of models are those of their
weights, 4 bytes a parameter: an archive is a little smaller.
"""

import re
from typing import NamedTuple, Optional

_ORIGINAL = "https://storage.googleapis.com/bert_models/"
_GLUE = "https://dl.fbaipublicfiles.com/glue/data/"
_SENTEVAL = "https://dl.fbaipublicfiles.com/senteval/senteval_data/"
_SQUAD = "https://rajpurkar.github.io/SQuAD-explorer/dataset/"
_SWAG = "https://raw.githubusercontent.com/rowanz/swagaf/master/data/"
_SCIBERT = (
  "https://s3-us-west-2.amazonaws.com/ai2-s2-research/scibert/"
  "tensorflow_models/"
)
_BIOBERT = "https://github.com/naver/biobert-pretrained/releases/download/"
_HUB = "https://huggingface.co/"

_TF1 = "original (TF1)"
_HUGGINGFACE = "Hugging Face"


class File(NamedTuple):
  """A file to download.

  Attributes:
    url: its address.
    size: in bytes, or None where nobody says.
    sha256: in hexadecimal, or None.
  """

  url: str
  size: Optional[int] = None
  sha256: Optional[str] = None

  @property
  def name(self):
    """The last part of the address."""
    return self.url.partition("?")[0].rpartition("/")[2]


class Entry(NamedTuple):
  """A model or a data set.

  Attributes:
    name: what --model or --data calls it, and its folder.
    files: Files; archives (.zip, .tar.gz) are unpacked into the folder.
    licence: its licence or terms, in short.
    about: one line for a reader of the list.
    program: (models) which program's checkpoint it is; "" for data.
    bytes_after: (models) approximate size of the weights; None for data.
    task: (data) the --task_name that reads it, "" if none does.
    cased: (models) whether its text keeps its case.
    prepare: name of what has to be made from the files, see
      `assemble.PREPARATIONS`; "" for nothing.
  """

  name: str
  files: tuple
  licence: str
  about: str
  program: str = ""
  bytes_after: Optional[int] = None
  task: str = ""
  cased: bool = False
  prepare: str = ""


def weight_bytes(layers, hidden, vocabulary):
  """Returns the bytes of a pre-trained BERT's weights in float32.

  Embeddings of words, 512 positions and 2 segments, `layers` encoder layers
  of 12 hidden**2 + 13 hidden, pooler, both pre-training heads and their
  biases.
  """
  # The last two are the layer norm's.
  embeddings = (vocabulary + 512 + 2 + 2) * hidden
  # 4 H^2 of attention and 8 H^2 of feed-forward; biases and layer norms.
  encoder = layers * (12 * hidden + 13) * hidden
  pooler = (hidden + 1) * hidden
  # Dense layer with bias and layer norm, output bias; next sentence.
  heads = (hidden + 3) * hidden + vocabulary + 2 * hidden + 2
  return 4 * (embeddings + encoder + pooler + heads)


# Sizes of the vocabularies.
_UNCASED, _CASED, _MULTILINGUAL, _CHINESE = 30522, 28996, 119547, 21128


def _original(date, name, about, vocabulary=_UNCASED, *, cased=False):
  """Returns the Entry of a model; its name says how deep and wide it is."""
  layers, hidden = map(int, re.search(r"L-(\d+)_H-(\d+)", name).groups())
  return Entry(
    name, (File(f"{_ORIGINAL}{date}/{name}.zip"),), "Apache-2.0", about,
    program=_TF1, bytes_after=weight_bytes(layers, hidden, vocabulary),
    cased=cased,
  )


_RELEASED = [
  _original("2018_10_18", "uncased_L-12_H-768_A-12", "BERT-Base, uncased"),
  _original("2018_10_18", "uncased_L-24_H-1024_A-16", "BERT-Large, uncased"),
  _original("2018_10_18", "cased_L-12_H-768_A-12", "BERT-Base, cased", _CASED,
            cased=True),
  _original("2018_10_18", "cased_L-24_H-1024_A-16", "BERT-Large, cased",
            _CASED, cased=True),
  _original("2019_05_30", "wwm_uncased_L-24_H-1024_A-16",
            "BERT-Large, uncased, whole-word masking"),
  _original("2019_05_30", "wwm_cased_L-24_H-1024_A-16",
            "BERT-Large, cased, whole-word masking", _CASED, cased=True),
  _original("2018_11_23", "multi_cased_L-12_H-768_A-12",
            "BERT-Base, 104 languages, cased", _MULTILINGUAL, cased=True),
  _original("2018_11_03", "multilingual_L-12_H-768_A-12",
            "BERT-Base, 102 languages, uncased (replaced by multi_cased)",
            105879),
  _original("2018_11_03", "chinese_L-12_H-768_A-12", "BERT-Base, Chinese",
            _CHINESE),
]

# arXiv 1908.08962: 6 depths by 4 widths. BERT-Base is there again, trained
# anew, under the same name: it gets a name of its own here.
_NAMED_SIZES = {
  (2, 128): "BERT-Tiny", (4, 256): "BERT-Mini", (4, 512): "BERT-Small",
  (8, 512): "BERT-Medium", (12, 768): "BERT-Base, trained again",
}


def _miniature(layers, hidden):
  # In all released models a head is 64 wide.
  stem = f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"
  about = _NAMED_SIZES.get((layers, hidden), "miniature")
  is_again = (layers, hidden) == (12, 768)
  entry = _original("2020_02_20", stem, about)
  return entry._replace(name=f"{stem}_2020") if is_again else entry


_MINIATURES = [
  _miniature(layers, hidden)
  for layers in (2, 4, 6, 8, 10, 12)
  for hidden in (128, 256, 512, 768)
]


def _scibert(vocabulary, case, size):
  name = f"scibert_{vocabulary}_{case}"
  words = "its own" if vocabulary == "scivocab" else "BERT's"
  return Entry(
    name, (File(f"{_SCIBERT}{name}.tar.gz"),), "Apache-2.0",
    f"SciBERT, {words} vocabulary, {case}", program=_TF1,
    bytes_after=weight_bytes(12, 768, size), cased=case == "cased",
  )


def _biobert(release, name, about):
  return Entry(
    name, (File(f"{_BIOBERT}{release}/{name}.tar.gz"),),
    "BSD-like, see its LICENSE", about, program=_TF1,
    bytes_after=weight_bytes(12, 768, _CASED), cased=True,
  )


def _hub(
  repository, about, licence, num_bytes, *,
  weights="model.safetensors", cased=False,
):
  names = ("config.json", "vocab.txt", weights)
  return Entry(
    repository.rpartition("/")[2],
    tuple(File(f"{_HUB}{repository}/resolve/main/{name}") for name in names),
    licence, about, program=_HUGGINGFACE, bytes_after=num_bytes, cased=cased,
  )


_OTHERS = [
  _scibert("scivocab", "uncased", 31090),
  _scibert("scivocab", "cased", 31116),
  _scibert("basevocab", "uncased", _UNCASED),
  _scibert("basevocab", "cased", _CASED),
  _biobert("v1.1-pubmed", "biobert_v1.1_pubmed", "BioBERT 1.1, PubMed"),
  _biobert("v1.0-pubmed-pmc", "biobert_v1.0_pubmed_pmc",
           "BioBERT 1.0, PubMed and PMC"),
  _hub("sentence-transformers/all-MiniLM-L6-v2",
       "MiniLM, 6 layers of 384: sentence vectors", "Apache-2.0", 90_868_376),
  _hub("emilyalsentzer/Bio_ClinicalBERT",
       "ClinicalBERT: BioBERT trained on the notes of MIMIC-III", "MIT",
       weight_bytes(12, 768, _CASED), weights="pytorch_model.bin", cased=True),
  _hub("nlpaueb/legal-bert-base-uncased",
       "LEGAL-BERT: legislation, court cases, contracts", "CC-BY-SA-4.0",
       weight_bytes(12, 768, _UNCASED), weights="pytorch_model.bin"),
]

MODELS = {entry.name: entry for entry in _RELEASED + _MINIATURES + _OTHERS}


def _glue(archive, size, sha256, about, *, task):
  return Entry(
    task.lower(), (File(f"{_GLUE}{archive}", size, sha256),),
    "per task, see gluebenchmark.com", about, task=task,
  )


_DATA = [
  _glue(
    "CoLA.zip", 376_971,
    "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff",
    "GLUE: is a sentence acceptable English", task="CoLA",
  ),
  _glue(
    "SST-2.zip", 7_439_277,
    "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa",
    "GLUE: sentiment of film reviews", task="SST-2",
  ),
  Entry(
    "mrpc",
    (
      File(
        f"{_SENTEVAL}msr_paraphrase_train.txt", 1_047_044,
        "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89",
      ),
      File(
        f"{_SENTEVAL}msr_paraphrase_test.txt", 441_275,
        "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784",
      ),
      File(
        f"{_GLUE}mrpc_dev_ids.tsv", 6_222,
        "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7",
      ),
    ),
    "Microsoft Research licence", "GLUE: are two sentences paraphrases",
    task="MRPC", prepare="mrpc",
  ),
  _glue(
    "STS-B.zip", 802_872,
    "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85",
    "GLUE: similarity of two sentences, 0 to 5", task="STS-B",
  ),
  _glue(
    "QQP-clean.zip", None,
    "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0",
    "GLUE: do two questions ask the same", task="QQP",
  ),
  _glue(
    "MNLI.zip", 312_783_507,
    "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    "GLUE: entailment over ten genres", task="MNLI",
  ),
  _glue(
    "QNLIv2.zip", 10_627_589,
    "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
    "GLUE: does a sentence answer a question", task="QNLI",
  ),
  _glue(
    "RTE.zip", 697_150,
    "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
    "GLUE: entailment, small", task="RTE",
  ),
  _glue(
    "WNLI.zip", 28_999,
    "ae0e8e4d16f4d46d4a0a566ec7ecceccfd3fbfaa4a7a4b4e02848c0f2561ac46",
    "GLUE: what a pronoun refers to", task="WNLI",
  ),
  Entry(
    "ax", (File(f"{_GLUE}AX.tsv"),), "see gluebenchmark.com",
    "GLUE: diagnostic sentences for a model of MNLI", task="AX",
  ),
  Entry(
    "squad1",
    (
      File(
        f"{_SQUAD}train-v1.1.json", 30_288_272,
        "3527663986b8295af4f7fcdff1ba1ff3f72d07d61a20f487cb238a6ef92fd955",
      ),
      File(
        f"{_SQUAD}dev-v1.1.json", 4_854_279,
        "95aa6a52d5d6a735563366753ca50492a658031da74f301ac5238b03966972c9",
      ),
    ),
    "CC BY-SA 4.0", "SQuAD 1.1: answers are spans of Wikipedia",
  ),
  Entry(
    "squad2",
    (File(f"{_SQUAD}train-v2.0.json"), File(f"{_SQUAD}dev-v2.0.json")),
    "CC BY-SA 4.0", "SQuAD 2.0: some questions have no answer",
  ),
  Entry(
    "swag",
    tuple(File(f"{_SWAG}{name}.csv") for name in ("train", "val", "test")),
    "MIT", "SWAG: which of four endings follows", task="SWAG",
  ),
  Entry(
    "xnli",
    (
      File(
        "https://cims.nyu.edu/~sbowman/xnli/XNLI-1.0.zip", 17_865_352,
        "4ba1d5e1afdb7161f0f23c66dc787802ccfa8a25a3ddd3b165a35e50df346ab1",
      ),
      File("https://cims.nyu.edu/~sbowman/xnli/XNLI-MT-1.0.zip"),
    ),
    "CC BY-NC 4.0", "XNLI: entailment in 15 languages", task="XNLI",
  ),
  Entry(
    "paws-x",
    (File("https://storage.googleapis.com/paws/pawsx/x-final.tar.gz"),),
    "free for any purpose, see its README",
    "PAWS-X: paraphrases of like words in 7 languages", task="PAWS-X",
  ),
  Entry(
    "imdb",
    (
      File(
        "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
        84_125_825,
        "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
      ),
    ),
    "cite Maas et al. 2011", "IMDB: 50,000 film reviews", task="IMDB",
  ),
]
DATA = {entry.name: entry for entry in _DATA}

# Data that may not be handed on: where its owners give it.
POINTERS = {
  "conll2003": (
    "CoNLL-2003's annotations are at "
    "https://www.clips.uantwerpen.be/conll2003/ner/, its texts (Reuters RCV1) "
    "need an agreement with NIST: https://trec.nist.gov/data/reuters/"
    "reuters.html. Put eng.train, eng.testa and eng.testb into one folder."
  ),
}

ENTRIES = {**MODELS, **DATA}
