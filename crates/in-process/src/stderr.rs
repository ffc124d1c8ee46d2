//! Lines on the host's standard error. Everything that this project's libraries print goes through here.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};

use journal::writing;

/// The kernel writes at most this many bytes to a pipe as a whole, or none of them.
const MOST_BYTES: usize = libc::PIPE_BUF;

/// The open file behind standard error; opening it gives a descriptor with flags of its own.
const STDERR: &str = "/proc/self/fd/2";

/// Writes one line to stderr. Callbacks may call this. A line that cannot be written at once is lost.
pub fn say(message: &str) {
    let mut line = line(message);
    line.truncate(line.floor_char_boundary(MOST_BYTES - 1));
    line.push('\n');
    writing::guarded(|| write_at_once(line.as_bytes()));
}

/// Never waits for a reader: for none of a socket, a pipe, or a terminal that is stopped.
fn write_at_once(line: &[u8]) {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the buffer lives during the call and has the length passed.
    let sent = unsafe { libc::send(libc::STDERR_FILENO, line.as_ptr().cast(), line.len(), flags) };
    if sent >= 0 || std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN) {
        return;
    }
    // The flag O_NONBLOCK of descriptor 2 is also the program's, and that of other processes.
    let is_pipe = std::fs::metadata(STDERR).is_ok_and(|is| is.file_type().is_fifo());
    if is_pipe || std::io::stderr().is_terminal() {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        if let Ok(mut stderr) = File::options().write(true).custom_flags(flags).open(STDERR) {
            let _lost = stderr.write(line);
            return;
        }
    }
    let mut ready = libc::pollfd { fd: libc::STDERR_FILENO, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which is writable.
    let is_known = unsafe { libc::poll(&raw mut ready, 1, 0) } == 1;
    if is_known && ready.revents == libc::POLLOUT {
        // SAFETY: the buffer lives during the call and has the length passed.
        let _lost = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}

/// Formats one line without NULs, whatever characters names and files from outside contain.
pub fn line(message: &str) -> String {
    format!("nccl-otf2: {}", nccl_events::visible(message))
}
