"""A study's agent as an environment of TRL's GRPOTrainer, which needs the extra `trl`.

TRL generates the tokens, runs the calls that its parser finds and continues the conversation; the
study opens it, runs the tools, keeps the bounds and scores the answer:

    with Rollouts.load("study.yaml", "full", "runs/train") as rollouts:
        trainer = GRPOTrainer(
            model,
            args=GRPOConfig(...),
            processing_class=processor,
            train_dataset=make_dataset(rollouts),
            environment_factory=make_environment(rollouts),
            reward_funcs=study_reward,
            callbacks=[make_certifier("study.yaml", "models.policy.model={}", "runs/steps")],
        )
        trainer.train()

TRL makes the schemas of tools from signatures, so that prompts lack bounds such as `minItems`.
While it runs, each call is a step of the agent, also if one reply holds several; the agent's last
words at a bound are part of the tool's turn. Image tokens of tool results count towards
`max_completion_length`: a result that exceeds it is dropped, and the rollout has no answer. A
policy that writes an image token takes all pictures out of the training step; suppress these tokens
in `generation_kwargs`. Every process of a training needs a folder of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from looktwice.extras.training.checkpoints import Checkpoint, certify_checkpoint
from looktwice.extras.training.environment import make_environment, make_rows, study_reward
from looktwice.extras.training.rollouts import Rollouts
from looktwice.pipelines.runtime.install import format_install

__all__ = ["Rollouts", "make_certifier", "make_dataset", "make_environment", "study_reward"]


def make_dataset(rollouts: Rollouts, samples: Sequence[str] = ()) -> Any:
    """Return a `Dataset` with a row for every question, or for those with the ids `samples`.

    `sample` is the id, and `prompt` the turns before the question, whose texts and pictures the
    environment adds.
    Raises ConfigError if TRL cannot run the contestant, and KeyError for an unknown id.
    """
    try:
        from datasets import Dataset
    except ModuleNotFoundError as exc:
        raise _explain(exc) from exc
    return Dataset.from_list(make_rows(rollouts, samples))


def _explain(missing: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the error about a missing package with what to install."""
    told = f"training with TRL needs {missing.name}; type: {format_install('trl')}"
    return ModuleNotFoundError(told, name=missing.name)


def make_certifier(
    study: str | Path,
    override: str,
    out: str | Path,
    log: Callable[[dict[str, float]], Any] | None = None,
) -> Any:
    """Return a callback that runs a study with every saved checkpoint, all arms and placebos.

    `override` names the checkpoint in the study: `models.policy.model={}`, where `{}` becomes its
    folder. The run of step 10 is `out/step-10`. Accuracies and gains are added to the trainer's
    log history and given to `log`, such as `trainer.log`, which may be set later; `checkpoints`
    holds all of them.
    """
    try:
        from transformers import TrainerCallback
    except ModuleNotFoundError as exc:
        raise _explain(exc) from exc
    kind = type("CheckpointCertifier", (_Certifier, TrainerCallback), {})
    return kind(study, override, Path(out), log)


class _Certifier:
    """The callback without its base class, which is slow to import."""

    def __init__(self, study: str | Path, override: str, out: Path, log: Any) -> None:
        self.study, self.override, self.out, self.log = study, override, out, log
        self.checkpoints: list[Checkpoint] = []

    def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Certify the checkpoint that was just saved, on the main process only. Raises
        ConfigError, RunError."""
        if not state.is_world_process_zero:
            return
        step = int(state.global_step)
        folder = Path(args.output_dir) / f"checkpoint-{step}"
        overrides = [self.override.replace("{}", str(folder.resolve()))]
        checkpoint = certify_checkpoint(self.study, overrides, self.out, f"step-{step}")
        self.checkpoints.append(checkpoint)
        state.log_history.append({**checkpoint.figures, "step": step})
        if self.log is not None:
            self.log(dict(checkpoint.figures))
