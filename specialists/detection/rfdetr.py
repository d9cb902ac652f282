"""RF-DETR, and any other detector of fixed classes of Hugging Face transformers, by hub id or
folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.hub import from_hub
from looktwice.pipelines.runtime.networks import (
    Place,
    WeightsError,
    import_torch,
    import_transformers,
    open_shared,
)
from looktwice.specialists.detection.network_boxes import asked_words, surest_boxes
from looktwice.specialists.networks.checkpoints import refuse_file
from looktwice.specialists.networks.transformers_hub import (
    HubNetwork,
    first_images,
    require_numbers,
)
from looktwice.specialists.protocols import NoEvidence
from looktwice.specialists.results import Boxes

PLURALS = (("people", "person"), ("men", "man"), ("ies", "y"), ("ves", "fe"), ("es", ""), ("s", ""))
UNNAMED = ("n/a", "none")  # what stands for numbers of COCO that name nothing

Item = tuple[Pixels, tuple[str, ...]]


@dataclass(frozen=True)
class RFDETR(HubNetwork[Item, Boxes]):
    """Boxes of the classes that a detector has learnt, by RF-DETR (Robinson et al., ICLR 2026) or
    another one.

    Any id that Hugging Face transformers opens for object detection works (DETR, RT-DETR, D-FINE,
    YOLOS ...). Words are labels of the network, in the singular or plural; without one, boxes of
    all labels are given. A box is kept where its score is above `threshold`; the surest comes
    first, and at most `most` are given. Scores are probabilities.
    """

    model: str = "Roboflow/rf-detr-base"
    threshold: float = 0.5
    most: int = 100

    result = Boxes
    model_class = "AutoModelForObjectDetection"
    half_is_safe = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.threshold < 1:
            raise ValueError(
                f"threshold is a probability, 0 or more and below 1, found {self.threshold}"
            )

    def __call__(self, pixels: Pixels, words: Sequence[str] | None = None, /) -> Boxes:
        """Boxes of these labels in an HxWx3 RGB image, of all without words.

        Raises NoEvidence for a word that is no label of the network, WeightsError.
        """
        return self.predict((pixels, words))

    def prepare(self, given: tuple[Any, ...]) -> Item:
        """The image and its words; a text is one word. Raises NoEvidence for a word that is no
        label."""
        pixels, words = super().prepare(given[:1])[0], asked_words((*given, None)[1])
        self._chosen(words)
        return pixels, words

    def open_processor(self) -> Any:
        """The processor that belongs to the network, whatever its files name. Raises
        WeightsError."""
        if (
            getattr(from_hub("AutoConfig", self.model, self.revision), "model_type", None)
            != "rf_detr"
        ):
            return super().open_processor()
        settings = from_hub("RTDetrImageProcessorPil", self.model, self.revision)
        if not (settings.size.height and settings.size.width):
            raise WeightsError(
                f"{self.model}: RF-DETR looks at images of one size, and its"
                f" preprocessor_config.json says {dict(settings.size)}; give the id or folder of a"
                " release"
            )
        return _Processor(settings)

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[Boxes]:
        """The boxes of each image, in its own pixels, clipped to it."""
        images, chosen = first_images(items), [self._chosen(item[1]) for item in items]
        outputs = network.model(**network.inputs(place, images=images))
        require_numbers(outputs.logits, self.model, place.dtype)
        detections = network.processor.post_process_object_detection(
            outputs, threshold=self.threshold, target_sizes=[image.shape[:2] for image in images]
        )
        return [
            self._boxes(detection, image, words)
            for detection, image, words in zip(detections, images, chosen, strict=True)
        ]

    def _chosen(self, words: Sequence[str]) -> dict[int, str]:
        """The numbers of the labels that are asked for, each with its word; without words all.
        Raises NoEvidence."""
        key = ("labels", self.model, self.revision)
        labels = open_shared(key, self._labels)
        if not words:
            return {int(number): str(label) for number, label in labels.items()}
        numbers = {str(label).lower(): int(number) for number, label in labels.items()}
        classes = {
            word: [numbers[name] for name in _singulars(word) if name in numbers][:1]
            for word in words
        }
        unknown = [repr(word) for word in words if not classes[word]]
        if unknown:
            names = ", ".join(name for name in numbers if name not in UNNAMED)
            raise NoEvidence(
                f"{self.model} has learnt no {' and no '.join(unknown)}; its labels are {names}"
            )
        return {number: word for word, (number, *_) in classes.items()}

    def _labels(self) -> dict[int, str]:
        """The labels of the network by their numbers. Raises WeightsError where it is no detector
        of classes."""
        refuse_file(self.model)
        config = from_hub("AutoConfig", self.model, self.revision)
        if type(config) not in import_transformers().MODEL_FOR_OBJECT_DETECTION_MAPPING:
            raise WeightsError(
                f"{self.model} is a network of the type {config.model_type!r}, which finds no"
                " objects; give an id or folder of RF-DETR, DETR, RT-DETR, D-FINE or YOLOS"
            )
        labels: dict[int, str] = config.id2label
        return labels

    def _boxes(self, detection: Any, image: Pixels, words: dict[int, str]) -> Boxes:
        numbers = detection["labels"].tolist()
        kept = [n for n, number in enumerate(numbers) if number in words]
        labels = [words[numbers[n]] for n in kept]
        return surest_boxes(
            detection["boxes"][kept], detection["scores"][kept], labels, image, self.most
        )


class _Processor:
    """RF-DETR's processor, which transformers has for torchvision alone; its boxes are made as
    RT-DETR's.

    The files of some releases name DETR's, which would smooth images and take the scores for those
    of one class.
    """

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.post_process_object_detection = settings.post_process_object_detection

    def __call__(self, images: Sequence[Pixels], return_tensors: str) -> Any:
        """Images as the network takes them: 0..1, bilinear without smoothing, then normalized."""
        torch, settings = import_torch(), self.settings
        size = settings.size.height, settings.size.width
        mean, std = (
            torch.tensor(values).view(3, 1, 1)
            for values in (settings.image_mean, settings.image_std)
        )
        resize = torch.nn.functional.interpolate
        batch = []
        for image in images:
            pixels = (
                torch.from_numpy(image.copy()).permute(2, 0, 1)[None].float()
                * settings.rescale_factor
            )
            batch.append((resize(pixels, size, mode="bilinear", align_corners=False) - mean) / std)
        seen = {"pixel_values": torch.cat(batch)}
        return import_transformers().BatchFeature(seen, tensor_type=return_tensors)


def _singulars(word: str) -> tuple[str, ...]:
    """A word, and what it may be the plural of."""
    return word, *(
        word.removesuffix(plural) + singular
        for plural, singular in PLURALS
        if word.endswith(plural)
    )
