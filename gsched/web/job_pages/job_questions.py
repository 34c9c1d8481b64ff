"""What the master is asked of one job."""

from __future__ import annotations

from gsched.base.errors import GschedError, NotFound
from gsched.base.ids import show_job
from gsched.cli.render.efficiency.judged_job import JudgedJob, judged_view
from gsched.model.efficiency.cost import Prices
from gsched.model.efficiency.verdicts import MIN_RUN_S
from gsched.model.views.catalogue import AccountFilter
from gsched.model.views.past_query import HistoryQuery
from gsched.model.views.view import JobFilter, JobHistory, JobTexts, JobView
from gsched.web.pages.page_context import WebContext


def find_job(context: WebContext, job_id: int) -> JobView | None:
    """The job as it is now, or as it ended; None for an array, which is many. Raises NotFound."""
    is_array = False
    for view in context.client.jobs(JobFilter(ids=(job_id,), user="all", finished=True)):
        if view.job_id == job_id:
            return view
        is_array = True
        break
    if is_array or context.client.arrays((job_id,)):
        return None
    for account in context.client.catalogue.accounts(AccountFilter(ids=(job_id,)), jobs=True):
        if account.job is not None and account.job_id == job_id:
            return account.job
    raise NotFound(f"Job <{show_job(job_id)}> is not found")


def history_of(context: WebContext, job_id: int, *, with_curves: bool = False) -> JobHistory | None:
    """Its stored events; None where there are none."""
    wanted = HistoryQuery(jobs=JobFilter(ids=(job_id,), user="all", finished=True), with_curves=with_curves)
    for told in context.client.past.histories(wanted):
        if isinstance(told, JobHistory) and told.job_id == job_id:
            return told
    return None


def judged(context: WebContext, view: JobView, now: float) -> JudgedJob:
    """With what is to be said of how well it uses what it asked for."""
    told = {each.name: each.value for each in context.client.cluster(parameters=True).parameters}
    return judged_view(view, now, Prices(), float(told.get("EFFICIENCY_MIN_RUN", MIN_RUN_S)))


def texts_of(context: WebContext, job_id: int) -> JobTexts | None:
    """What it was submitted with; None where that is not for this user to see, or gone."""
    try:
        return context.client.texts(job_id)
    except GschedError:
        return None
