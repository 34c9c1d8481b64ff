"""The pools as gresources shows them: what a cycle's state of them says. It counts nothing itself."""

from __future__ import annotations

from gsched.model.views.guarantee_view import PoolHost, PoolOwner, PoolView
from gsched.policy.guarantees.guarantee_use import GuaranteeUse
from gsched.policy.guarantees.pool_state import PoolState


def pool_views(use: GuaranteeUse) -> tuple[PoolView, ...]:
    """All pools in the order of their configuration."""
    return tuple(_view(state) for state in use.pools)


def _view(state: PoolState) -> PoolView:
    pool = state.pool
    owners = (
        PoolOwner(name=name, guaranteed=units, used=state.used.get(name, 0.0))
        for name, units in state.guaranteed.items()
    )
    return PoolView(
        name=pool.name,
        kind=pool.kind,
        noun=pool.noun,
        description=pool.description,
        written=dict(pool.written),
        status="overcommitted" if state.is_overcommitted else "ok",
        total=state.total,
        free=state.free,
        lent=state.lent,
        owners=tuple(owners),
        hosts=tuple(_host(state, name) for name in sorted(state.hosts)),
    )


def _host(state: PoolState, name: str) -> PoolHost:
    total, free = state.units_of(name)
    return PoolHost(name=name, total=total, free=free, used=dict(state.users_of(name)))
