"""What gRPC channels of this project are opened with, whoever is at their ends: sizes, patience with links, pings.

Settings alone: it opens no channel and does not know what is said on one.
"""

from __future__ import annotations

MESSAGE_LIMIT = 64 * 1024 * 1024
SMALL_MESSAGES = (
    # For ends that hear little at a time. Else each piece of data is answered by a ping, to measure how much may be
    # under way on the link: these woke a master with 100 hosts 200 times a second.
    ("grpc.http2.bdp_probe", 0),
)
PING_TIMEOUT = "grpc.http2.ping_timeout_ms"
"""By which gRPC goes, whatever keepalive_timeout_ms says, and whose default is a minute: seen with 1.85."""
KEEPALIVE_OPTIONS = (
    # A process that is stopped, or hangs, keeps its sockets: only a ping without an answer tells. While a call lasts.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    (PING_TIMEOUT, 5_000),
    ("grpc.http2.max_pings_without_data", 0),
)
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", MESSAGE_LIMIT),
    ("grpc.initial_reconnect_backoff_ms", 50),
    # In truth how long an attempt to connect may take (gRPC, connection-backoff.md): links are slow, and lose packets.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
    *KEEPALIVE_OPTIONS,
)
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
"""Besides, for a channel whose calls are to leave those of others their places: else channels to one address share a
connection, and with it the number of calls that the other end takes on one.
"""
