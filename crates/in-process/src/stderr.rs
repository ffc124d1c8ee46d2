//! Lines on the host's standard error.

/// Writes one line to stderr; allowed in callbacks. A line that cannot be written is lost.
pub fn say(message: &str) {
    let line = line(message) + "\n";
    // Standard error can be a file, and that file as large as files may be.
    journal::file_size::without_signal(|| {
        // SAFETY: the buffer lives during the call and is as long as said.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    });
}

/// One line, whatever names and files from outside have in it. It has no NUL.
pub fn line(message: &str) -> String {
    format!("nccl-otf2: {}", nccl_events::visible(message))
}
