"""A study's agent as an environment of TRL's GRPOTrainer, which needs the extra `trl`.

TRL generates the tokens, runs the calls that its parser finds and continues the conversation; the
study writes its first turns, runs the tools, enforces the limits and scores the answer:

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

TRL derives the schemas of tools from signatures, so they lack bounds such as `minItems`. During the
rollout each call is a step of the agent, even if a reply holds several; when a limit is reached,
the agent's last message becomes part of the tool's turn. Image tokens of tool results count towards
`max_completion_length`: a result that exceeds it is dropped, and the rollout has no answer. If a
policy writes an image token, all pictures drop out of the training step; suppress these tokens in
`generation_kwargs`. Each training process needs its own folder.
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
    """Return a `Dataset` with a row for every question, or for the questions with the ids
    `samples`.

    In a row, `sample` is the id, and `prompt` holds the turns before the question; the environment
    adds the question's own texts and pictures. Raises ConfigError if TRL cannot run the contestant,
    and KeyError for an unknown id.
    """
    try:
        from datasets import Dataset
    except ModuleNotFoundError as exc:
        raise _explain_missing(exc) from exc
    return Dataset.from_list(make_rows(rollouts, samples))


def _explain_missing(missing: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return an error that names the missing package and the command that installs it."""
    message = f"training with TRL needs {missing.name}; type: {format_install('trl')}"
    return ModuleNotFoundError(message, name=missing.name)


def make_certifier(
    study: str | Path,
    override: str,
    out: str | Path,
    log: Callable[[dict[str, float]], Any] | None = None,
) -> Any:
    """Return a callback that runs a study, with all its arms and placebos, on each saved
    checkpoint.

    `override` sets the checkpoint in the study, such as `models.policy.model={}`, where `{}`
    becomes its folder. The run of step 10 is `out/step-10`. Accuracies and gains are added to the
    trainer's log history and passed to `log`, such as `trainer.log`, which may be set later; the
    callback's `checkpoints` holds them all.
    """
    try:
        from transformers import TrainerCallback
    except ModuleNotFoundError as exc:
        raise _explain_missing(exc) from exc
    kind = type("CheckpointCertifier", (_Certifier, TrainerCallback), {})
    return kind(study, override, Path(out), log)


class _Certifier:
    """The callback's implementation, without TRL's base class, which is slow to import."""

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
