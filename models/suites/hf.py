"""Any model of transformers by `name`: suite entry `hf/<model type, class or hub id>[:task]`.

Weights are random, from the configuration alone. `pretrained: true` downloads those of a hub id.
"""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from models.suites import _hf_inputs, _hf_small
from models.suites import _untrained as untrained

LARGEST = 1_000_000_000
"""Maximum bytes of float32 weights for the size `config` if `size` is auto; above, it is `small`."""

# Tasks of the hub and their Auto classes. If a type has several and is named without a task, the first
# one here is used: the task for which its authors usually publish it.
TASKS = {
    "text2text-generation": "Seq2SeqLM",
    "automatic-speech-recognition": "SpeechSeq2Seq",
    "ctc": "CTC",
    "fill-mask": "MaskedLM",
    "text-generation": "CausalLM",
    "zero-shot-image-classification": "ZeroShotImageClassification",
    "image-classification": "ImageClassification",
    "object-detection": "ObjectDetection",
    "semantic-segmentation": "SemanticSegmentation",
    "universal-segmentation": "UniversalSegmentation",
    "depth-estimation": "DepthEstimation",
    "video-classification": "VideoClassification",
    "audio-classification": "AudioClassification",
    "image-text-to-text": "ImageTextToText",
    "feature-extraction": "",
    "masked-image-modeling": "MaskedImageModeling",
    "image-to-image": "ImageToImage",
    "mask-generation": "MaskGeneration",
    "keypoint-detection": "KeypointDetection",
    "question-answering": "QuestionAnswering",
    "text-classification": "SequenceClassification",
    "token-classification": "TokenClassification",
    "multiple-choice": "MultipleChoice",
    "next-sentence-prediction": "NextSentencePrediction",
    "text-encoding": "TextEncoding",
    "audio-frame-classification": "AudioFrameClassification",
    "audio-xvector": "AudioXVector",
    "pretraining": "PreTraining",
}

# Names of PyTorch's benchmark lists that are not classes of transformers: (model type, task,
# differences to the type's default configuration), as in benchmarks/dynamo/huggingface.py.
# allenai/longformer-base-4096, t5-small, google/fnet-base and YituTech/conv-bert-base have the
# default configuration of their types, distilgpt2 has half of GPT-2's layers.
BENCHMARK_NAMES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "AllenaiLongformerBase": ("longformer", "fill-mask", {}),
    "BigBird": ("big_bird", "fill-mask", {"attention_type": "block_sparse"}),
    "CamemBert": ("camembert", "fill-mask", {}),
    "DistillGPT2": ("gpt2", "text-generation", {"n_layer": 6}),
    "GoogleFnet": ("fnet", "fill-mask", {}),
    "Reformer": ("reformer", "fill-mask", {}),
    "T5Small": ("t5", "text2text-generation", {}),
    "YituTechConvBert": ("convbert", "fill-mask", {}),
}


@dataclass
class Resolved:
    """A class and its configuration; `changes` are the fields that were reduced."""

    cls: type[PreTrainedModel]
    config: PretrainedConfig
    changes: list[str] = field(default_factory=list)


def get_model(
    name: str = "distilbert", size: str = "auto", pretrained: bool = False, seq_len: int = 128
) -> nn.Module:
    """The model of that name, without caches and with experts computed as batched products.

    `size`: `config` is the model's configuration, `small` has reduced widths, layers, experts and
    vocabulary (see _hf_small), `auto` is `config` up to LARGEST bytes of float32 weights, else `small`.
    """
    if pretrained:
        return _pretrained(name)
    found = resolve(name, size)
    model = found.cls._from_config(found.config)
    model.config.use_cache = False
    return untrained.prepare(
        model, lambda batch_size: _hf_inputs.make(model, batch_size, seq_len), batch_size=4
    )


def get_dummy_input(batch_size: int = 1, seq_len: int = 128, *, model: nn.Module):
    """Keyword inputs for the model's signature and configuration; see _hf_inputs."""
    return _hf_inputs.make(model, batch_size, seq_len)


def describe_inputs(
    name: str = "distilbert",
    size: str = "auto",
    pretrained: bool = False,
    batch_size: int = 1,
    seq_len: int = 128,
    *,
    model: nn.Module,
) -> str:
    """A description of the model and its inputs, for the row."""
    config = type(model.config).__name__
    made = untrained.shapes(_hf_inputs.make(model, batch_size, seq_len))
    text = f"transformers {config} of {type(model).__name__}: {made}"
    changes = [] if pretrained else resolve(name, size).changes
    return f"{text}; small: {', '.join(changes)}" if changes else text


@functools.cache
def resolve(name: str, size: str = "auto") -> Resolved:
    """The class and configuration that a name and a size stand for. No weights are made.

    Raises ValueError for a name or task that this transformers does not have.
    """
    if size not in ("auto", "config", "small"):
        raise ValueError(f"size {size!r}; one of auto, config, small")
    found = _resolve(name)
    for_export(found.config)
    if size == "config" or (size == "auto" and weights_size(found) <= LARGEST):
        return found
    return Resolved(found.cls, found.config, _hf_small.shrink(found.config))


def weights_size(found: Resolved) -> int:
    """Bytes of a model's float32 weights, counted on the meta device, where they use no memory."""
    with torch.device("meta"):
        return untrained.size_of(found.cls._from_config(found.config))


def tasks_of(model_type: str) -> dict[str, str]:
    """The tasks of a model type for which transformers has a class, and these classes. The first one is used
    if no task is named."""
    found = {}
    for task, auto in TASKS.items():
        cls = _mapping(auto).get(model_type)
        if cls:
            found[task] = cls if isinstance(cls, str) else cls[0]
    return found


def _mapping(auto: str) -> dict:
    special = {
        "": "MODEL_MAPPING_NAMES",
        "Seq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
        "SpeechSeq2Seq": "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
        "CausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
        "MaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
        "CTC": "MODEL_FOR_CTC_MAPPING_NAMES",
        "PreTraining": "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
        "AudioXVector": "MODEL_FOR_AUDIO_XVECTOR_MAPPING_NAMES",
    }
    words = "".join(f"_{c}" if c.isupper() else c.upper() for c in auto)
    return getattr(modeling_auto, special.get(auto, f"MODEL_FOR{words}_MAPPING_NAMES"))


def _resolve(name: str) -> Resolved:
    head, _, task = name.partition(":")
    if head in BENCHMARK_NAMES:
        model_type, own_task, changes = BENCHMARK_NAMES[head]
        return _of_type(model_type, task or own_task, AutoConfig.for_model(model_type, **changes))
    if head in CONFIG_MAPPING_NAMES:
        return _of_type(head, task, AutoConfig.for_model(head))
    if "/" in head:
        config = AutoConfig.from_pretrained(head)
        return _of_type(config.model_type, task, config)
    cls: Any = getattr(transformers, head, None)
    is_model = isinstance(cls, type) and issubclass(cls, PreTrainedModel)
    if is_model:
        return Resolved(cls, cls.config_class())
    near = difflib.get_close_matches(head, [*CONFIG_MAPPING_NAMES, *BENCHMARK_NAMES], n=3)
    raise ValueError(
        f"transformers {transformers.__version__} has no model type or class {head!r}"
        + (f"; near it: {', '.join(near)}" if near else "")
    )


def _of_type(model_type: str, task: str, config: PretrainedConfig) -> Resolved:
    tasks = tasks_of(model_type)
    task = task or next(iter(tasks), "")
    if task not in tasks:
        has = f"it has {', '.join(tasks)}" if tasks else "it has none that is known here"
        raise ValueError(f"transformers has no {task or 'task'} of model type {model_type}; {has}")
    return Resolved(getattr(transformers, tasks[task]), config)


def _pretrained(name: str) -> nn.Module:
    head = name.partition(":")[0]
    if "/" not in head:
        raise ValueError(
            f"{name}: a model type has no weights; name a hub id, or set pretrained: false"
        )
    found = _resolve(name)
    for_export(found.config)
    return found.cls.from_pretrained(head, config=found.config)


def for_export(config: PretrainedConfig) -> None:
    """Settings for every program: no caches among the outputs, experts without a data-dependent loop over
    the tokens' choices, a pad token for batches of GPT classifiers."""
    text = config.get_text_config()
    for one in {id(c): c for c in (config, text)}.values():
        one.use_cache = False
        one._experts_implementation = "batched_mm"
        if getattr(one, "pad_token_id", 0) is None:
            one.pad_token_id = 0
