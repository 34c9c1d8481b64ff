"""What users ask for jobs: to submit, change and control them, and to be told when one could start.

Each is work in turns, or looks at many jobs. Every spec passes the same admission, whichever command brings it. It
never places a job: what it lets wait is for a scheduling cycle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gsched.core.command import (
    CompareJobs,
    DryRunJob,
    EvaluateCondition,
    ExplainJob,
    ForecastStart,
    JobCommand,
    ModifyJobs,
    Submit,
)
from gsched.core.command_turns import UNLIMITED, Turn, Work
from gsched.core.control import job_control
from gsched.core.decision import Decision
from gsched.core.dispatch.start_estimates import StartEstimates
from gsched.core.explaining.dry_run import dry_run
from gsched.core.explaining.job_comparison import compare
from gsched.core.explaining.job_explanation import ExplainingContext, explain
from gsched.core.pending import pending_reasons
from gsched.core.pending.dependency_check import answer, refuse_impossible
from gsched.core.pending.dependent_jobs import Dependents
from gsched.core.resources.observed_hosts import Observations
from gsched.core.scheduling_cycles import SchedulingCycles
from gsched.core.state.cluster_state import ClusterState
from gsched.core.submission import modify
from gsched.core.submission.admission import AdmissionContext, admit
from gsched.core.submission.job_making import SubmissionMaking
from gsched.core.submission.requirement_check import CheckRequirement, judge_for
from gsched.core.submission.reserved_amounts import Unreserved, reserved_anew, unreserved
from gsched.core.submission.submit import submit
from gsched.model.config import ClusterConfig
from gsched.model.jobs.job import JobSpec
from gsched.model.views.view import ConditionView


class JobRequests:
    """Carries out commands of users about jobs, by the configuration in force."""

    def __init__(
        self,
        state: ClusterState,
        config: ClusterConfig,
        observations: Observations,
        making: SubmissionMaking,
        cycles: SchedulingCycles,
        dependents: Dependents,
        estimates: StartEstimates,
    ) -> None:
        self._state = state
        self._estimates = estimates
        self._observations = observations
        self._making = making
        self._cycles = cycles
        self._dependents = dependents
        self.configure(config)
        self.in_turns: dict[type, Callable[[Any, Turn], Work]] = {
            Submit: self._submit,
            ModifyJobs: self._modify_jobs,
            ForecastStart: self._forecast,
            ExplainJob: self._explain,
            CompareJobs: self._compare,
            DryRunJob: self._dry_run,
            **dict.fromkeys(job_control.JOB_COMMANDS, self._control_jobs),
        }
        """Commands that look at many jobs, or plan."""

    def configure(self, config: ClusterConfig) -> None:
        """What is asked for from now on, and what is left of commands under way, is judged by this configuration."""
        self._config = config
        self.check_requirement: CheckRequirement = judge_for(config)

    def judge_condition(self, command: EvaluateCondition, decision: Decision) -> None:
        """Whether a dependency condition holds. Raises GschedError for one that is none."""
        decision.reply = self._answer(command.text, command)

    def _configured(self) -> ClusterConfig:
        return self._config

    def _submit(self, command: Submit, turn: Turn) -> Work:
        def admitted(spec: JobSpec) -> JobSpec:
            return self._admitted(spec, command.user, turn.now)

        return submit(self._state, self._configured, command, admitted, self._making.keep, turn)

    def _admitted(self, spec: JobSpec, user: str, now: float, old: JobSpec | None = None) -> JobSpec:
        """The completed spec of a new job, or of one that was `old` before. Raises GschedError if it is refused."""
        config, seen = self._config, self._observations.of
        spec = admit(spec, AdmissionContext(user, config, self._state, seen, self.check_requirement, now, old))
        if old is not None:
            pending_reasons.check_growth(self._state, config, user, spec, old)
        refuse_impossible(self._state, spec, old, config.params)
        return spec

    def _control_jobs(self, command: JobCommand, turn: Turn) -> Work:
        return job_control.control_jobs(self._state, self._configured, command, self._observations.of, turn)

    def _modify_jobs(self, command: ModifyJobs, turn: Turn) -> Work:
        def left(host: str, resource: str) -> Unreserved:
            return unreserved(self._state, self._config, self._observations.of, host, resource)

        return modify.modify_jobs(
            self._state,
            self._configured,
            command,
            lambda spec, old: self._admitted(spec, old.user, turn.now, old),
            lambda job, spec: reserved_anew(job, spec, self.check_requirement, left, turn.now),
            turn,
        )

    def _forecast(self, command: ForecastStart, turn: Turn) -> Work:
        """Raises GschedError where the job would be refused."""
        spec = self._admitted(command.spec, command.user, turn.now)
        waits_for = self._waits_for(spec, command, turn.now)
        if turn.left < UNLIMITED // 2:
            yield  # to read what it asks for was a turn's work: its plan begins with the next
        found = yield from self._cycles.forecast(command, spec, turn)
        return msgspec.structs.replace(found, waits_for=waits_for)

    def _explain(self, command: ExplainJob, turn: Turn) -> Work:
        return explain(self._explaining(turn), command, command.job_id, turn)

    def _compare(self, command: CompareJobs, turn: Turn) -> Work:
        return compare(self._explaining(turn), command, turn)

    def _dry_run(self, command: DryRunJob, turn: Turn) -> Work:
        """Raises GschedError where the job would be refused."""
        spec = self._admitted(command.spec, command.user, turn.now)
        jobs = pending_reasons.number_of(spec)
        pending_reasons.check_pending(self._state, self._config, command.user, jobs, jobs * spec.slots)
        waits_for = self._waits_for(spec, command, turn.now)
        if turn.left < UNLIMITED // 2:
            yield
        return (yield from dry_run(self._explaining(turn), command, spec, waits_for, turn))

    def _explaining(self, turn: Turn) -> ExplainingContext:
        def admitted(spec: JobSpec, old: JobSpec | None) -> JobSpec:
            return self._admitted(spec, spec.user, turn.now, old)

        return ExplainingContext(self._state, self._dependents, self._cycles, admitted, self._estimates)

    def _waits_for(self, spec: JobSpec, command: ForecastStart | DryRunJob, now: float) -> str:
        """What must come before a job of that spec waits for a place."""
        if spec.hold:
            return "hold"
        if spec.begin_at is not None and spec.begin_at > now:
            return "time"
        if not spec.dependency:
            return ""
        return "" if self._answer(spec.dependency, command).holds else "condition"

    def _answer(self, condition: str, command: EvaluateCondition | ForecastStart | DryRunJob) -> ConditionView:
        return answer(self._state, condition, command.user, self._config.params, is_admin=command.is_admin)
