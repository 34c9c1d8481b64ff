"""What is left of resources that hosts share, summed over these hosts. It reads views and changes none."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from gsched.model.config import ClusterConfig
from gsched.model.views.view import HostView, ResourceValue, SharedView


def shared_views(config: ClusterConfig, hosts: Mapping[str, HostView]) -> dict[str, SharedView]:
    """Each instance of the configuration by its key, in its order."""
    found: dict[str, SharedView] = {}
    for instance in config.instances:
        parts = [
            value
            for name in instance.hosts
            if name in hosts
            for value in hosts[name].shared
            if value.name == instance.resource
        ]
        there = next((part.total for part in parts), instance.value)
        reserved = math.fsum(part.reserved or 0.0 for part in parts) if instance.consumable else None
        found[instance.key] = SharedView(
            name=instance.resource,
            hosts=instance.hosts,
            there=there,
            total=None if there is None else max(0.0, there - (reserved or 0.0)),
            reserved=reserved,
            static=instance.value is not None,
        )
    return found


def with_shared(view: HostView, config: ClusterConfig, shared: Mapping[str, SharedView]) -> HostView:
    """The host with what is left and reserved of what it shares, on whichever hosts, among its resources."""
    instances = config.shared_on(view.name).values()
    if not instances:
        return view
    values = []
    for instance in instances:
        each = shared[instance.key]
        values.append(
            ResourceValue(
                name=each.name, total=each.total, reserved=each.reserved or 0.0, consumable=instance.consumable
            )
        )
    return msgspec.structs.replace(view, externals=(*view.externals, *values))
