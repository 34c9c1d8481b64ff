"""DRMAA's constants, by the names and with the values that drmaa-python has (`drmaa.const`).

Names and values are those of the DRMAA 1.0 C binding; texts that the C binding hands over are bytes, as there. Nothing
here is gsched's own.
"""

from __future__ import annotations

ENCODING = "utf-8"

ATTR_BUFFER = CONTACT_BUFFER = DRM_SYSTEM_BUFFER = DRMAA_IMPLEMENTATION_BUFFER = 1024
ERROR_STRING_BUFFER = JOBNAME_BUFFER = 1024
SIGNAL_BUFFER = 32
NO_MORE_ELEMENTS = 25

TIMEOUT_WAIT_FOREVER = -1
TIMEOUT_NO_WAIT = 0

JOB_IDS_SESSION_ANY = b"DRMAA_JOB_IDS_SESSION_ANY"
JOB_IDS_SESSION_ALL = b"DRMAA_JOB_IDS_SESSION_ALL"

SUBMISSION_STATE_ACTIVE = "drmaa_active"
SUBMISSION_STATE_HOLD = "drmaa_hold"

PLACEHOLDER_INCR = b"$drmaa_incr_ph$"
PLACEHOLDER_HD = b"$drmaa_hd_ph$"
PLACEHOLDER_WD = b"$drmaa_wd_ph$"

# Attributes of a job template that are one value
REMOTE_COMMAND = b"drmaa_remote_command"
JS_STATE = b"drmaa_js_state"
WD = b"drmaa_wd"
JOB_CATEGORY = b"drmaa_job_category"
NATIVE_SPECIFICATION = b"drmaa_native_specification"
BLOCK_EMAIL = b"drmaa_block_email"
START_TIME = b"drmaa_start_time"
JOB_NAME = b"drmaa_job_name"
INPUT_PATH = b"drmaa_input_path"
OUTPUT_PATH = b"drmaa_output_path"
ERROR_PATH = b"drmaa_error_path"
JOIN_FILES = b"drmaa_join_files"
TRANSFER_FILES = b"drmaa_transfer_files"
DEADLINE_TIME = b"drmaa_deadline_time"
WCT_HLIMIT = b"drmaa_wct_hlimit"
WCT_SLIMIT = b"drmaa_wct_slimit"
DURATION_HLIMIT = b"drmaa_duration_hlimit"
DURATION_SLIMIT = b"drmaa_duration_slimit"

# Attributes that are several values
V_ARGV = b"drmaa_v_argv"
V_ENV = b"drmaa_v_env"
V_EMAIL = b"drmaa_v_email"


class JobState:
    """What `Session.jobStatus` answers."""

    UNDETERMINED = "undetermined"
    QUEUED_ACTIVE = "queued_active"
    SYSTEM_ON_HOLD = "system_on_hold"
    USER_ON_HOLD = "user_on_hold"
    USER_SYSTEM_ON_HOLD = "user_system_on_hold"
    RUNNING = "running"
    SYSTEM_SUSPENDED = "system_suspended"
    USER_SUSPENDED = "user_suspended"
    USER_SYSTEM_SUSPENDED = "user_system_suspended"
    DONE = "done"
    FAILED = "failed"


class JobControlAction:
    """What `Session.control` can be asked for."""

    SUSPEND = "suspend"
    RESUME = "resume"
    HOLD = "hold"
    RELEASE = "release"
    TERMINATE = "terminate"


class JobSubmissionState:
    """Values of `JobTemplate.jobSubmissionState`."""

    HOLD_STATE = SUBMISSION_STATE_HOLD
    ACTIVE_STATE = SUBMISSION_STATE_ACTIVE


class FileTransferMode:
    """Which files are to be copied to and from the host of a job, of DRMAA's interfaces for objects.

    gsched copies none of them by itself: `JobTemplate.transferFiles` takes only a mode without any.
    """

    def __init__(
        self, transferInputStream: bool = False, transferOutputStream: bool = False, transferErrorStream: bool = False
    ) -> None:
        self.transferInputStream = transferInputStream
        self.transferOutputStream = transferOutputStream
        self.transferErrorStream = transferErrorStream

    def __str__(self) -> str:
        """DRMAA's letters: i, o and e."""
        chosen = (self.transferInputStream, self.transferOutputStream, self.transferErrorStream)
        return "".join(letter for letter, is_chosen in zip("ioe", chosen, strict=True) if is_chosen)


_STATE_OF_CODE = {
    0x00: JobState.UNDETERMINED,
    0x10: JobState.QUEUED_ACTIVE,
    0x11: JobState.SYSTEM_ON_HOLD,
    0x12: JobState.USER_ON_HOLD,
    0x13: JobState.USER_SYSTEM_ON_HOLD,
    0x20: JobState.RUNNING,
    0x21: JobState.SYSTEM_SUSPENDED,
    0x22: JobState.USER_SUSPENDED,
    0x23: JobState.USER_SYSTEM_SUSPENDED,
    0x30: JobState.DONE,
    0x40: JobState.FAILED,
}
_ACTIONS = (
    JobControlAction.SUSPEND,
    JobControlAction.RESUME,
    JobControlAction.HOLD,
    JobControlAction.RELEASE,
    JobControlAction.TERMINATE,
)
_SUBMISSION_STATES = (SUBMISSION_STATE_HOLD, SUBMISSION_STATE_ACTIVE)


def job_state(code: int) -> str:
    """The state that has this number in the C binding. Raises KeyError."""
    return _STATE_OF_CODE[code]


status_to_string = job_state


def string_to_control_action(operation: str) -> int:
    """The number of an action in the C binding. Raises ValueError."""
    return _ACTIONS.index(operation)


def control_action_to_string(code: int) -> str:
    """The action that has this number. Raises IndexError."""
    return _ACTIONS[code]


def submission_state(code: int) -> str:
    """The submission state that has this number. Raises IndexError."""
    return _SUBMISSION_STATES[code]
