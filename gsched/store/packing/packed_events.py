"""Events as they stand in their rows: deflated with a dictionary of what most events say, a quarter of their JSON.

A row of before begins as JSON does, with a brace; a packed one with the number of its dictionary. A dictionary that was
ever released stays as it is, byte by byte: what it has packed can be read with nothing else. Add another one instead.
"""

from __future__ import annotations

import zlib

_FIRST = b"\x01"
"""How a row begins that was packed with the first dictionary."""
_WINDOW, _MEMORY, _LEVEL = -12, 4, 6
"""Small tables: they are copied for each event, and nothing is gained by larger ones, as the dictionary is small."""
_DICTIONARY = (
    b'{"kind":"config_applied","at":17,"digest":"","by":"root","started":true,"hist_hours":5.0,'
    b'"host":"","cluster":"","servers":1,"queues":3,"files":"'
    b'{"kind":"host_gpus_known","at":17,"host":"{"kind":"submission_accepted","at":17,"first_id":,"specs":["'
    b'{"kind":"job_changed","at":17,"job_id":,"changes":{"kind":"job_requeued","at":17,"job_id":,"attempt":1,"'
    b'{"kind":"job_suspended","at":17,"job_id":,"by":"root"}{"kind":"job_resumed","at":17,"job_id":,"by":"root"}'
    b'{"kind":"job_signal_requested","at":17,"job_id":,"by":"root","signal":0}{"kind":"job_released","at":17,"job_id":}'
    b'{"kind":"job_message_posted","at":17,"job_id":,"user":"root","box":0,"text":":gpus=0,1;"}'
    b'{"kind":"job_forgotten","at":17,"job_id":}'
    b'"dependency":"ended(done(","conditions":"ended(","limits":{"MEMLIMIT":4096.0,"hold":true,"application":"","'
    b'"result":{"signal":9,"ended_at":17,"suspended_s":0.0,"term_reason":"TERM_OWNER","started":false}}TERM_RUNLIMIT'
    b'"gpus":[{"uuid":"GPU-","index":0,"claim":"gpu_shared","pci_bus_id":"00000000:0:00.0","share":1.0,"gmem_mib":0.0,'
    b'"parent":"","profile":""},{"uuid":"GPU-","index":1,"claim":"gpu_exclusive","pci_bus_id":"00000000:'
    b'"mem_mib":1.6015625,"swap_mib":0.0,"max_mem_mib":1.6015625,"avg_mem_mib":1.6015625,"threads":1,"pgid":1,"pids":[1'
    b'],"sampled_at":17,"max_swap_mib":0.0,"max_processes":1,"max_threads":1,"'
    b'{"kind":"job_submitted","at":17,"job_id":,"spec":{"command":"python train.py","user":"root","queue":"normal",'
    b'"queue_named":true,"name":"train","project":"default","slots":1,"res_req":"span[hosts=1] rusage[mem=100]",'
    b'"combined_req":"select[type == local] order[r15s:pg] rusage[mem=100.00] span[hosts=1]","gpu_req":"num=1",'
    b'"combined_gpu_req":"num=1:mode=shared:mps=no:j_exclusive=no:gvendor=nvidia","rerunnable":false,"aging_per_s":0.0,'
    b'"indices":"1-10","cwd":"/home/","home":"/home/","submit_host":"login1","output_file":"/dev/null","error_file":"'
    b'","run_limit_s":3600,"environment":"","script":"","defaulted":["slots","run_limit_s","rerunnable",'
    b'"requeue_exit_values","priority","estimate_s","application"]},"token":"","place":1,"not_before":0.0}'
    b'{"kind":"job_noted","at":17,"job_id":,"text":{"code":"note.no_gpu_asked"},"is_warning":false}'
    b'{"kind":"job_dispatched","at":17,"job_id":,"attempt":1,"allocation":{"hosts":[{"host":"","slots":1,"gpus":[],'
    b'"amounts":{"mem":100.0},"exclusive":false,"bindings":[],"courses":[]}],"kept":[]},'
    b'"effective_req":"select[type == local] order[r15s:pg] rusage[mem=100.00]"}'
    b'{"kind":"job_started","at":17,"job_id":,"attempt":1,"pid":1,"home":"/home/","cwd":"/home/","boot_id":"'
    b'{"kind":"job_post_processed","at":17,"job_id":,"attempt":1}'
    b'{"kind":"job_finished","at":17,"job_id":,"attempt":1,"result":{"exit_code":0,"ended_at":17,"run_s":0.0,"usage":{'
    b'"cpu_s":0.002,"pgid":1,"cpu_peak":0.0,"cpu_peak_s":0.0,"read_mib":0.003,"written_mib":6.67572021484375e-6,'
    b'"disk_read_mib":0.0,"disk_written_mib":0.0}}}'
)  # fmt: skip
_packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)


def pack_event(payload: bytes) -> bytes:
    """The JSON of an event as its row has it. Some 4 µs."""
    packer = _packer.copy()
    return _FIRST + packer.compress(payload) + packer.flush()


def is_packed_event(data: bytes) -> bool:
    """Whether a row is packed."""
    return data[:1] == _FIRST


def unpack_event(data: bytes) -> bytes:
    """The JSON of an event; what is damaged comes as it is, and cannot be decoded as an event either."""
    if not is_packed_event(data):
        return data
    unpacker = zlib.decompressobj(_WINDOW, _DICTIONARY)
    try:
        payload = unpacker.decompress(data[1:])
    except zlib.error:
        return data
    return payload if unpacker.eof and not unpacker.unused_data else data
