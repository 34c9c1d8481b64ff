"""DRMAA's errors, by the names that drmaa-python has (`drmaa.errors`).

Each text begins with `code N:`, N being the error's number in the C binding: programs look for that. What an error of
gsched becomes is said in `translation`; nothing here knows gsched.
"""

from __future__ import annotations


class DrmaaException(Exception):
    """Base of all errors of DRMAA."""


class InternalException(DrmaaException):
    """A fault of gsched itself."""


class DrmCommunicationException(DrmaaException):
    """The master of the cluster does not answer."""


class AuthorizationException(DrmaaException):
    """This user may not do that."""


class InvalidArgumentException(DrmaaException, AttributeError):
    """An argument of a call has no meaning."""


class NoActiveSessionException(DrmaaException):
    """No session is open in this process, or it has been closed meanwhile."""


class OutOfMemoryException(DrmaaException, MemoryError):
    """Never raised here."""


class InvalidContactStringException(DrmaaException):
    """The contact string leads to no cluster."""


class DefaultContactStringException(DrmaaException):
    """No contact string was given, and this process's environment leads to no cluster."""


class NoDefaultContactStringSelectedException(DrmaaException):
    """Never raised here."""


class DrmsInitException(DrmaaException):
    """The session cannot be opened for another reason."""


class AlreadyActiveSessionException(DrmaaException):
    """A session is open in this process already."""


class DrmsExitException(DrmaaException):
    """Never raised here."""


class InvalidAttributeFormatException(DrmaaException, AttributeError):
    """The value of an attribute is not of the form or type that it must have."""


class InvalidAttributeValueException(DrmaaException, AttributeError):
    """The value of an attribute has no meaning."""


class ConflictingAttributeValuesException(DrmaaException, AttributeError):
    """Two attributes exclude each other."""


class TryLaterException(DrmaaException):
    """A limit is reached; the same call may succeed later."""


class DeniedByDrmException(DrmaaException):
    """The cluster refuses it, with the reason that `gsub` would give."""


class InvalidJobException(DrmaaException):
    """There is no such job, or it has been waited for already."""


class ResumeInconsistentStateException(DrmaaException):
    """The job is not suspended."""


class SuspendInconsistentStateException(DrmaaException):
    """The job does not run."""


class HoldInconsistentStateException(DrmaaException):
    """The job does not wait to be started."""


class ReleaseInconsistentStateException(DrmaaException):
    """The job is not held."""


class ExitTimeoutException(DrmaaException):
    """The time is over, and the job is not."""


class IllegalStateException(DrmaaException):
    """Never raised here."""


class InvalidJobTemplateException(DrmaaException):
    """The template has been deleted, or lacks what every job needs."""


class UnsupportedAttributeException(DrmaaException, AttributeError):
    """gsched has nothing that the attribute could mean."""


_NUMBERED: tuple[type[DrmaaException], ...] = (
    InternalException,
    DrmCommunicationException,
    AuthorizationException,
    InvalidArgumentException,
    NoActiveSessionException,
    OutOfMemoryException,
    InvalidContactStringException,
    DefaultContactStringException,
    NoDefaultContactStringSelectedException,
    DrmsInitException,
    AlreadyActiveSessionException,
    DrmsExitException,
    InvalidAttributeFormatException,
    InvalidAttributeValueException,
    ConflictingAttributeValuesException,
    TryLaterException,
    DeniedByDrmException,
    InvalidJobException,
    ResumeInconsistentStateException,
    SuspendInconsistentStateException,
    HoldInconsistentStateException,
    ReleaseInconsistentStateException,
    ExitTimeoutException,
)
"""In the order of their numbers in the C binding, from 1."""
_WITHOUT_NUMBER: dict[type[DrmaaException], type[DrmaaException]] = {
    UnsupportedAttributeException: InvalidArgumentException,
    InvalidJobTemplateException: InvalidArgumentException,
}
"""Those that only the interfaces for objects have -> the one whose number the C binding gives for it."""


def coded(kind: type[DrmaaException], text: str) -> DrmaaException:
    """An error of that kind whose text begins with its number, as `code 18: ...`."""
    number = _NUMBERED.index(_WITHOUT_NUMBER.get(kind, kind)) + 1
    return kind(f"code {number}: {text}")
