//! Signals as programs begin with them.

/// Ends what a shell did to the signals of a command in its background, which has SIGINT and SIGQUIT ignored: scripts
/// look at what a plugin does to signals.
pub fn reset() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: SIG_DFL is a disposition of all of these, and no thread but this one is there yet.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
