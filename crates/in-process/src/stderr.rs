//! Lines on the host's standard error.

/// Writes one line to stderr. Callbacks may call this. A line that cannot be written is lost.
pub fn say(message: &str) {
    let line = line(message) + "\n";
    // Standard error may be a file that has reached the file size limit.
    journal::file_size::without_signal(|| {
        // SAFETY: the buffer lives during the call and has the length passed.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    });
}

/// Formats one line without NULs, whatever characters names and files from outside contain.
pub fn line(message: &str) -> String {
    format!("nccl-otf2: {}", nccl_events::visible(message))
}
