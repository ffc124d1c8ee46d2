//! `CUptiResult`

use std::ffi::CStr;

/// A result code; 0 is success.
pub(crate) type Code = i32;

pub(crate) const OK: Code = 0;
pub(crate) const INVALID_PARAMETER: Code = 1;
pub(crate) const INVALID_OPERATION: Code = 7;
pub(crate) const SIZE_NOT_SUFFICIENT: Code = 10;
pub(crate) const MAX_LIMIT_REACHED: Code = 12;
pub(crate) const NOT_COMPATIBLE: Code = 14;
pub(crate) const NOT_INITIALIZED: Code = 15;
pub(crate) const QUEUE_EMPTY: Code = 18;
pub(crate) const INVALID_STREAM: Code = 20;
pub(crate) const INVALID_KIND: Code = 21;
pub(crate) const NOT_SUPPORTED: Code = 27;
pub(crate) const MULTIPLE_SUBSCRIBERS: Code = 39;
pub(crate) const UNKNOWN: Code = 999;

/// What a function gives; the success is a code too in C.
pub(crate) type Outcome = Result<(), Code>;

/// As C sees it.
pub(crate) fn code(outcome: Outcome) -> Code {
    outcome.err().unwrap_or(OK)
}

/// The name of a code that this double uses.
pub(crate) fn name(code: Code) -> Option<&'static CStr> {
    Some(match code {
        OK => c"CUPTI_SUCCESS",
        INVALID_PARAMETER => c"CUPTI_ERROR_INVALID_PARAMETER",
        INVALID_OPERATION => c"CUPTI_ERROR_INVALID_OPERATION",
        SIZE_NOT_SUFFICIENT => c"CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT",
        MAX_LIMIT_REACHED => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        NOT_COMPATIBLE => c"CUPTI_ERROR_NOT_COMPATIBLE",
        NOT_INITIALIZED => c"CUPTI_ERROR_NOT_INITIALIZED",
        QUEUE_EMPTY => c"CUPTI_ERROR_QUEUE_EMPTY",
        INVALID_STREAM => c"CUPTI_ERROR_INVALID_STREAM",
        INVALID_KIND => c"CUPTI_ERROR_INVALID_KIND",
        NOT_SUPPORTED => c"CUPTI_ERROR_NOT_SUPPORTED",
        MULTIPLE_SUBSCRIBERS => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        UNKNOWN => c"CUPTI_ERROR_UNKNOWN",
        _ => return None,
    })
}
