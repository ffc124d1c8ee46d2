//! Errors, including libotf2's own messages.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::sync::Once;

use otf2_sys as sys;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an archive could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(
    missing_docs,
    reason = "`operation` is what was being done, with the file or location; `reason` what is wrong"
)]
pub enum Error {
    /// libotf2 reported an error.
    #[error("{operation}: libotf2 reports {code}: {detail}")]
    Library {
        operation: String,
        /// The name of OTF2's error code, for example `INVALID_ARGUMENT`; for errors of the operating system their
        /// description, for example `No space left on device`.
        code: String,
        /// libotf2's messages.
        detail: String,
    },
    /// The call was refused before it reached libotf2, which would write a broken archive or abort.
    #[error("{operation}: {reason}")]
    Refused { operation: String, reason: String },
    /// A file or directory could not be read or written.
    #[error("{operation} {}: {source}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: std::io::Error },
    /// A file of an archive is damaged or incomplete.
    #[error("{}: {reason}", path.display())]
    Damaged { path: PathBuf, reason: String },
    /// The events of a location are not in chronological order.
    #[error("{}: time goes from {from} back to {to}", path.display())]
    TimeGoesBack {
        path: PathBuf,
        /// The time of an event, corrected by the location's clock offsets.
        from: u64,
        /// The time of the next event.
        to: u64,
    },
}

pub(crate) fn refused(operation: impl Into<String>, reason: impl Into<String>) -> Error {
    Error::Refused { operation: operation.into(), reason: reason.into() }
}

pub(crate) fn io(operation: &'static str, path: &Path, source: std::io::Error) -> Error {
    Error::Io { operation, path: path.to_owned(), source }
}

/// The error for a damaged file, with libotf2's message.
pub(crate) fn damaged(path: &Path, what: &str, error: &Error) -> Error {
    let reason = match error {
        Error::Library { code, detail, .. } => format!("{what} (libotf2 reports {code}: {detail})"),
        other => format!("{what} ({other})"),
    };
    Error::Damaged { path: path.to_owned(), reason }
}

pub(crate) fn c_string(bytes: &[u8], operation: impl FnOnce() -> String) -> Result<CString> {
    CString::new(bytes).map_err(|_| refused(operation(), "a NUL byte cannot be in a name or text"))
}

thread_local! {
    /// Errors that libotf2 reported on this thread since the last `forget`. The first one names the cause; later ones
    /// come from its callers inside libotf2.
    static REPORTED: RefCell<Option<Report>> = const { RefCell::new(None) };
}

struct Report {
    code: sys::OTF2_ErrorCode,
    message: String,
}

/// Redirects libotf2's messages from stderr to this module. Every constructor calls this before it uses libotf2.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `Once` makes this the only registration, and every use of libotf2 in this crate calls `listen`
        // first, so no other thread is inside libotf2 now. The callback has C linkage and never unwinds.
        unsafe { sys::OTF2_Error_RegisterCallback(Some(on_error), std::ptr::null_mut()) };
    });
    forget();
}

/// Forgets earlier reports, so that the next error belongs to the next call.
pub(crate) fn forget() {
    // An ending thread may have no thread-local storage any more, and so nothing to forget.
    drop(REPORTED.try_with(|slot| slot.take()));
}

/// The result of a libotf2 call.
#[inline]
pub(crate) fn check(code: sys::OTF2_ErrorCode, operation: impl FnOnce() -> String) -> Result<()> {
    if code == sys::OTF2_SUCCESS {
        return Ok(());
    }
    Err(library_error(code, operation()))
}

/// The result of a libotf2 call that swallows errors: a close whose write failed returns success after the callback.
pub(crate) fn check_all(code: sys::OTF2_ErrorCode, operation: impl FnOnce() -> String) -> Result<()> {
    let reported = REPORTED.try_with(|slot| slot.borrow().as_ref().map(|report| report.code));
    match reported {
        Ok(Some(first)) if code == sys::OTF2_SUCCESS => Err(library_error(first, operation())),
        _ => check(code, operation),
    }
}

/// The error for a constructor of libotf2 that returned NULL.
pub(crate) fn null(operation: String) -> Error {
    let code = REPORTED.try_with(|slot| slot.borrow().as_ref().map(|report| report.code));
    library_error(code.ok().flatten().unwrap_or(sys::OTF2_ERROR_INVALID), operation)
}

fn library_error(code: sys::OTF2_ErrorCode, operation: String) -> Error {
    let report = REPORTED.try_with(|slot| slot.take()).ok().flatten();
    let (code, detail) = match report {
        // The first report is the cause (a full disk); the returned code is often just "processed with faults".
        Some(report) => (report.code, report.message),
        None => (code, description(code)),
    };
    Error::Library { operation, code: name(code), detail }
}

fn name(code: sys::OTF2_ErrorCode) -> String {
    // SAFETY: takes any code and returns a string of static lifetime.
    let name = unsafe { sys::OTF2_Error_GetName(code) };
    let name = text(name);
    // libotf2 names errors of the operating system by their errno: "28" for a full disk.
    if name.parse::<i32>().is_ok() { description(code) } else { name }
}

fn description(code: sys::OTF2_ErrorCode) -> String {
    // SAFETY: takes any code and returns a string of static lifetime.
    let description = unsafe { sys::OTF2_Error_GetDescription(code) };
    text(description)
}

/// Copies a C string of libotf2; bytes that are not UTF-8 become replacement characters.
pub(crate) fn text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: not NULL; libotf2's strings are NUL-terminated, and the caller passes one that is alive.
    let string = unsafe { CStr::from_ptr(string) };
    string.to_string_lossy().into_owned()
}

/// Receives libotf2's errors, on the thread that called it. Allocates, which code that writes archives may do.
unsafe extern "C" fn on_error(
    _user_data: *mut c_void,
    _file: *const c_char,
    _line: u64,
    _function: *const c_char,
    code: sys::OTF2_ErrorCode,
    format: *const c_char,
    arguments: *mut c_void,
) -> sys::OTF2_ErrorCode {
    // Warnings and deprecations are negative; they do not make a call fail.
    if code <= sys::OTF2_SUCCESS {
        return code;
    }
    let mut buffer = [0_u8; 512];
    // SAFETY: the buffer is writable for its length; libotf2 passed the format and the arguments to this
    // callback, and they are used only once.
    let length = unsafe { sys::format_arguments(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
    let message = if length < 0 {
        String::new()
    } else {
        CStr::from_bytes_until_nul(&buffer).map(|message| message.to_string_lossy().into_owned()).unwrap_or_default()
    };
    let reported = REPORTED.try_with(|slot| {
        let Ok(mut slot) = slot.try_borrow_mut() else {
            return;
        };
        match slot.as_mut() {
            None => *slot = Some(Report { code, message }),
            Some(report) if report.message.len() < 1024 => {
                report.message.push_str("; ");
                report.message.push_str(&message);
            }
            Some(_) => {}
        }
    });
    // An ending thread cannot store the report; its call still returns the code.
    reported.unwrap_or(());
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_carry_the_words_of_libotf2() {
        listen();
        // SAFETY: libotf2 checks for NULL, which is the error that this test provokes.
        let code = unsafe { sys::OTF2_Archive_SetCreator(std::ptr::null_mut(), c"x".as_ptr()) };
        let text = check(code, || "set it".to_owned()).expect_err("NULL is no archive").to_string();
        assert!(text.starts_with("set it: libotf2 reports INVALID_ARGUMENT"), "{text}");
        assert!(text.contains("This is no valid archive handle!"), "{text}");
        // The path is one of the arguments of the format.
        listen();
        // SAFETY: a NUL-terminated string.
        let archive = unsafe { sys::OTF2_Reader_Open(c"/nonexistent/traces.otf2".as_ptr()) };
        let text = null("open".to_owned()).to_string();
        assert!(archive.is_null() && text.contains("/nonexistent"), "{text}");
    }
}
