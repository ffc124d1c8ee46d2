//! The host and its processes.

use std::mem::MaybeUninit;
use std::ptr;

/// The kernel's boot id, or an empty string.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The kernel's id of the calling thread.
pub fn thread_id() -> u32 {
    // glibc has `gettid` since 2.30 only.
    // SAFETY: the call takes no arguments and touches no memory of the process.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    // The kernel's ids are positive and fit.
    u32::try_from(thread).unwrap_or(0)
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs, or sleeps.
    Running,
    /// It is stopped, by a signal or a debugger.
    Stopped,
    /// It is dead. This includes a zombie, whose parent has not collected its exit code yet.
    Gone,
    /// It was started on another host, in another boot of this one, or in another process id namespace.
    Unknown,
}

impl Life {
    /// Whether the process is known to exist.
    pub const fn is_there(self) -> bool {
        matches!(self, Self::Running | Self::Stopped)
    }
}

/// Identifies a process. The kernel reuses process ids, and containers of a host share them; the whole key is unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields that say it themselves")]
pub struct ProcessKey {
    pub boot_id: String,
    /// The process id namespace as in `/proc/self/ns/pid`; empty if unknown.
    pub pid_namespace: String,
    pub pid: u32,
    /// Start time in clock ticks since boot; 0 if unknown.
    pub start_ticks: u64,
}

impl ProcessKey {
    /// This process.
    pub fn current() -> Self {
        let pid = std::process::id();
        Self { boot_id: boot_id(), pid_namespace: pid_namespace(), pid, start_ticks: start_ticks(pid).unwrap_or(0) }
    }

    /// Whether the process runs, as far as this process can tell.
    pub fn life(&self) -> Life {
        let is_namespace_known = !self.pid_namespace.is_empty();
        if self.boot_id.is_empty()
            || self.boot_id != boot_id()
            || is_namespace_known && self.pid_namespace != pid_namespace()
        {
            return Life::Unknown;
        }
        life_here(self.pid, Some(self.start_ticks).filter(|ticks| *ticks != 0))
    }
}

/// Whether a process of this host runs. If it started at another time, it is a different process with the same id.
pub fn life_here(pid: u32, start_ticks: Option<u64>) -> Life {
    Stat::read(pid).map_or(Life::Gone, |stat| stat.life(start_ticks))
}

/// The process id namespace of this process, or an empty string.
pub fn pid_namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// Start time of a process of this host, in clock ticks since boot; `None` if no process has this id.
pub fn start_ticks(pid: u32) -> Option<u64> {
    Some(Stat::read(pid)?.start_ticks)
}

/// Fields of `/proc/PID/stat`.
struct Stat {
    state: char,
    threads: u64,
    start_ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, which may itself contain parentheses and blanks.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        Some(Self {
            state: fields.next()?.chars().next()?,
            threads: fields.nth(16)?.parse().ok()?,
            start_ticks: fields.nth(1)?.parse().ok()?,
        })
    }

    fn life(&self, start_ticks: Option<u64>) -> Life {
        if start_ticks.is_some_and(|ticks| ticks != self.start_ticks) {
            return Life::Gone;
        }
        match self.state {
            // A main thread that has ended while other threads run also appears as a zombie.
            'Z' if self.threads > 1 => Life::Running,
            'Z' | 'X' | 'x' => Life::Gone,
            'T' | 't' => Life::Stopped,
            _ => Life::Running,
        }
    }
}

/// The host's name.
pub fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the given length excludes the buffer's last byte, which therefore stays NUL.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let length = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    let name = String::from_utf8_lossy(name.get(..length).unwrap_or(&[])).into_owned();
    if name.is_empty() { "unknown".to_owned() } else { name }
}

/// Runs `action` with all signals blocked, so that a thread it starts never runs the host's handlers.
pub fn without_signals<T>(action: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` is writable; sigfillset initialises it.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` was just initialised, `before` is writable; only this thread's mask changes.
    let changed = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) } == 0;
    let result = action();
    if changed {
        // SAFETY: the first call succeeded, so it initialised `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_by_its_id_and_its_start() {
        let ours = ProcessKey::current();
        assert_eq!(ours.life(), Life::Running);
        let earlier = ProcessKey { start_ticks: ours.start_ticks - 1, ..ours.clone() };
        assert_eq!(earlier.life(), Life::Gone, "its id was used again");
        let of_another_boot = ProcessKey { boot_id: "another".to_owned(), ..ours.clone() };
        let of_a_container = ProcessKey { pid_namespace: "pid:[1]".to_owned(), ..ours };
        for elsewhere in [of_another_boot, of_a_container] {
            assert_eq!(elsewhere.life(), Life::Unknown);
        }
        assert_eq!(life_here(u32::MAX, None), Life::Gone);
    }

    #[test]
    fn a_zombie_is_gone_and_a_dead_main_thread_is_not() {
        let mut child = Command::new("true").spawn().expect("it starts");
        let begin = std::time::Instant::now();
        while life_here(child.id(), None) != Life::Gone {
            assert!(begin.elapsed().as_secs() < 20, "it does not end");
            std::thread::yield_now();
        }
        let state = Stat::read(child.id()).expect("nobody has waited for it");
        assert_eq!(state.state, 'Z');
        child.wait().expect("it ended");
        let stat = "7 (a) b) Z 1 7 7 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 THREADS 0 5000 2965504 0";
        for (threads, life) in [("1", Life::Gone), ("2", Life::Running)] {
            let stat = Stat::parse(&stat.replace("THREADS", threads)).expect("complete");
            assert_eq!(stat.life(Some(5000)), life);
        }
    }
}
