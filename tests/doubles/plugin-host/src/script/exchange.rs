//! Handles on their way to another process, as PXN carries them: each in a file of its name in the current folder.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Lets other processes have a handle. Whoever sees the file sees all of it.
pub(super) fn give(name: &str, handle: u64) -> io::Result<()> {
    let unfinished = format!("{name}.unfinished");
    fs::write(&unfinished, handle.to_string())?;
    fs::rename(unfinished, format!("{name}.handle"))
}

/// Waits until another process has given a handle.
pub(super) fn take(name: &str) -> io::Result<u64> {
    let file = format!("{name}.handle");
    let began = Instant::now();
    loop {
        match fs::read_to_string(&file) {
            Ok(text) => return text.parse().map_err(io::Error::other),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) if began.elapsed() > LONGEST_WAIT => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no process gave {name:?} within {LONGEST_WAIT:?}"),
                ));
            }
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}
