"""What the judge of serving order says: starts that should not have been, and GPUs that were idle for nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Inversion:
    """A start that should not have been."""

    at: float
    job: int
    older: int
    """Who came before it and waits on."""
    delayed: bool
    """The older one could not have started then, but has a reservation that is put off."""

    def __str__(self) -> str:
        what = "whose reservation it puts off" if self.delayed else "which could have started instead"
        return f"job {self.job} started at {self.at:g} before job {self.older}, {what} and waits on"


@dataclass(frozen=True, slots=True)
class IdleGpus:
    """GPUs that waiting jobs could have used from `at` to `until`; the first of these jobs."""

    at: float
    until: float
    gpus: int
    job: int

    @property
    def gpu_seconds(self) -> float:
        return self.gpus * (self.until - self.at)

    def clipped(self, until: float) -> IdleGpus:
        """The part of it before that time."""
        return replace(self, until=min(self.until, until))

    def __str__(self) -> str:
        return f"{self.gpus} GPUs were idle from {self.at:g} to {self.until:g} while job {self.job} waited"


@dataclass(frozen=True, slots=True)
class Verdict:
    inversions: tuple[Inversion, ...]
    """One for each start that should not have been."""
    idle: tuple[IdleGpus, ...]

    @property
    def idle_gpu_seconds(self) -> float:
        return sum(each.gpu_seconds for each in self.idle)
