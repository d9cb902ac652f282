"""The processor of a multimodal network without torchvision: the saved one, or one without its video half."""

from __future__ import annotations

from typing import Any

from looktwice.pipelines.weights import WeightsError, from_hub, import_transformers

__all__ = ["open_processor"]

WITHOUT_VIDEO = "image processor and tokenizer only: its video processor needs torchvision, so no videos"


def open_processor(model: str, revision: str | None) -> tuple[Any, str]:
    """The processor, and a sentence on what it lacks ("" for nothing).

    Families such as Qwen2.5-VL carry a video processor that needs torchvision; where that is missing, their own
    class is put together from the image processor (Pillow) and the tokenizer. Raises WeightsError.
    """
    transformers = import_transformers()
    try:
        processor = from_hub("AutoProcessor", model, revision, backend="pil")
    except WeightsError as exc:
        whole: WeightsError | None = exc
    else:
        whole = None
        if hasattr(processor, "image_processor"):
            return processor, ""
    config = from_hub("AutoConfig", model, revision)
    name = _class_of(config.model_type)
    if name is None:
        raise whole or WeightsError(f"{model}: transformers has no processor for the family {config.model_type!r}")
    images = from_hub("AutoImageProcessor", model, revision, backend="pil")
    tokenizer = from_hub("AutoTokenizer", model, revision)
    return _assembled(getattr(transformers, name), images, tokenizer, model), WITHOUT_VIDEO


def _class_of(family: str) -> str | None:
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    name: str | None = PROCESSOR_MAPPING_NAMES.get(family)
    return name


def _assembled(kind: Any, images: Any, tokenizer: Any, model: str) -> Any:
    """A processor of `kind` whose video half is None: its class check for that half is left out."""
    halves = kind.get_attributes()
    spare = [half for half in halves if half not in ("image_processor", "tokenizer")]
    if set(spare) - {"video_processor"}:
        raise WeightsError(
            f"{model}: {kind.__name__} needs {', '.join(spare)}, which cannot be had without torchvision"
        )

    def lenient(self: Any, name: str, argument: Any) -> Any:
        return type(argument) if argument is None else kind.check_argument_for_proper_class(self, name, argument)

    loose = type(kind.__name__, (kind,), {"check_argument_for_proper_class": lenient})
    given = {"image_processor": images, "tokenizer": tokenizer} | dict.fromkeys(spare)
    return loose(**given, chat_template=getattr(tokenizer, "chat_template", None))
