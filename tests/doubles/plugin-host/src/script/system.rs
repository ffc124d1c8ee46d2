//! What a script needs from the system: forks, ends, and files through which handles go to other processes.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildEnd {
    Status(i32),
    Signal(i32),
}

pub(super) enum Side {
    Child,
    Parent(i32),
}

/// Forks the process. Only the calling thread continues in the child.
pub(super) fn fork() -> io::Result<Side> {
    // SAFETY: the child runs code that takes locks and allocates, as programs do that fork
    // while NCCL is loaded, and glibc makes its allocator usable. The caller holds the locks of this program.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        child => Ok(Side::Parent(child)),
    }
}

pub(super) fn wait(child: i32) -> io::Result<ChildEnd> {
    let mut status = 0;
    loop {
        // SAFETY: `status` lives during the call.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if waited == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(if libc::WIFSIGNALED(status) {
        ChildEnd::Signal(libc::WTERMSIG(status))
    } else {
        ChildEnd::Status(libc::WEXITSTATUS(status))
    })
}

pub(super) fn kill_self(signal: i32) -> io::Result<()> {
    // SAFETY: sends a signal, touches no memory.
    let pid = unsafe { libc::getpid() };
    // SAFETY: as above.
    match unsafe { libc::kill(pid, signal) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Ends the process as a return from main does: exit handlers and destructors run.
#[expect(clippy::exit, reason = "the script says so: a program that exits while others still run")]
pub(super) fn exit(status: i32) -> ! {
    std::process::exit(status)
}

pub(super) fn exit_now(status: i32) -> ! {
    // SAFETY: never returns, touches no memory.
    unsafe { libc::_exit(status) }
}
const LONGEST_WAIT: Duration = Duration::from_secs(20);

/// Lets other processes have a handle, as PXN carries them: in a file of its name in the current folder. Whoever sees
/// the file sees all of it.
pub(super) fn give(name: &str, handle: u64) -> io::Result<()> {
    let unfinished = format!("{name}.unfinished");
    fs::write(&unfinished, handle.to_string())?;
    fs::rename(unfinished, format!("{name}.handle"))
}

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
