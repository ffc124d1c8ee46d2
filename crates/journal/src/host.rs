//! What the recording asks of its host and its own process: identity and life of processes, the limit on file size,
//! files that are private to their user, a lock for callbacks, and memory that is given back.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
#[expect(clippy::disallowed_types, reason = "waiting for it needs no memory; poisoning is undone below")]
use std::sync::{Mutex, OnceLock};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::{fs, io, ptr};

/// The kernel's boot id, or an empty string.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
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
pub enum ProcessStatus {
    /// It runs, or sleeps.
    Running,
    /// It is stopped, by a signal or a debugger.
    Stopped,
    /// It is dead. This includes a zombie, whose parent has not collected its exit code yet.
    Gone,
    /// It was started on another host, in another boot of this one, or in another process id namespace.
    Unknown,
}

impl ProcessStatus {
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
    /// This process, read once: what it is called must not change because a file cannot be read later.
    pub fn current() -> Self {
        static CURRENT: OnceLock<ProcessKey> = OnceLock::new();
        let pid = std::process::id();
        let known = CURRENT.get_or_init(|| Self::read(pid));
        // A forked child has another id.
        if known.pid == pid { known.clone() } else { Self::read(pid) }
    }

    fn read(pid: u32) -> Self {
        Self { boot_id: boot_id(), pid_namespace: pid_namespace(), pid, start_ticks: start_ticks(pid).unwrap_or(0) }
    }

    /// Whether the process runs, as far as this process can tell.
    pub fn life(&self) -> ProcessStatus {
        let is_namespace_known = !self.pid_namespace.is_empty();
        if self.boot_id.is_empty()
            || self.boot_id != boot_id()
            || is_namespace_known && self.pid_namespace != pid_namespace()
        {
            return ProcessStatus::Unknown;
        }
        life_here(self.pid, Some(self.start_ticks).filter(|ticks| *ticks != 0))
    }
}

/// Whether a process of this host runs. If it started at another time, it is a different process with the same id.
pub fn life_here(pid: u32, start_ticks: Option<u64>) -> ProcessStatus {
    Stat::read(pid).map_or(ProcessStatus::Gone, |stat| stat.life(start_ticks))
}

/// The process id namespace of this process, or an empty string.
pub fn pid_namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
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
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
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

    fn life(&self, start_ticks: Option<u64>) -> ProcessStatus {
        if start_ticks.is_some_and(|ticks| ticks != self.start_ticks) {
            return ProcessStatus::Gone;
        }
        match self.state {
            // A main thread that has ended while other threads run also appears as a zombie.
            'Z' if self.threads > 1 => ProcessStatus::Running,
            'Z' | 'X' | 'x' => ProcessStatus::Gone,
            'T' | 't' => ProcessStatus::Stopped,
            _ => ProcessStatus::Running,
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

// The limit on file size (`ulimit -f`). A write beyond it fails with EFBIG and sends the writing thread SIGXFSZ, which
// kills a program that does not handle it.

/// The largest file that this process may write, in bytes; `None` if unlimited. The limit can change at any time.
pub fn file_size_limit() -> Option<u64> {
    limit_of(libc::RLIMIT_FSIZE)
}

/// A soft limit of this process; `None` if unlimited.
pub fn limit_of(resource: libc::__rlimit_resource_t) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable.
    let is_known = unsafe { libc::getrlimit(resource, &raw mut limit) } == 0;
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Makes writes beyond the limit fail in this whole process, one of our own tools. Uses a handler because programs that
/// this process starts then get the signal's default action back; an ignored signal would stay ignored.
pub fn fail_writes_beyond_limit() {
    extern "C" fn nothing(_signal: libc::c_int) {}
    let handler: extern "C" fn(libc::c_int) = nothing;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `action` is writable; the call only reads the current action.
    if unsafe { libc::sigaction(libc::SIGXFSZ, ptr::null(), action.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: all zeroes is a valid `sigaction`, and the call succeeded.
    let mut action = unsafe { action.assume_init() };
    if action.sa_sigaction != libc::SIG_DFL {
        return;
    }
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler does nothing, so it may run at any time.
    unsafe { libc::sigaction(libc::SIGXFSZ, &raw const action, ptr::null_mut()) };
}

/// The text of a write error. Names the limit if the limit is the reason.
pub fn explain_write_error(error: impl ToString) -> String {
    let text = error.to_string();
    let reason = io::Error::from_raw_os_error(libc::EFBIG).to_string();
    let reason = reason.split(" (").next().unwrap_or_default();
    // libotf2 reports EFBIG in English, in its own words.
    match file_size_limit() {
        Some(bytes) if [reason, "File is too large"].iter().any(|reason| text.contains(reason)) => {
            format!("{text}; files are limited to {} here: ulimit -f unlimited", in_words(bytes))
        }
        _ => text,
    }
}

fn in_words(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

// Files and directories accessible to their user only, whatever the umask. The umask is not changed, because all
// threads of the job share it.

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Creates a directory.
pub fn directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).create(path)
}

/// Creates a directory and all missing parents; an existing directory is no error.
pub fn directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(DIRECTORY_MODE).recursive(true).create(path)
}

/// Creates a file, which must not exist.
pub fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Writes a file, replacing an existing one.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)?.write_all(bytes)
}

/// Gives a directory and everything in it the mode of another directory; files without execute permission.
pub fn copy_mode(path: &Path, like: &Path) {
    let Ok(mode) = fs::metadata(like).map(|data| data.permissions().mode()) else {
        return;
    };
    set_modes(path, mode & 0o777, mode & 0o666);
}

/// Removes the access of others from what another library created in a private directory, before it becomes visible.
pub fn seal(path: &Path) {
    set_modes(path, DIRECTORY_MODE, FILE_MODE);
}

/// Like [`seal`], but not what is in a directory.
pub fn seal_alone(path: &Path) {
    if let Ok(data) = fs::symlink_metadata(path) {
        set_mode(path, &data, DIRECTORY_MODE, FILE_MODE);
    }
}

fn set_modes(path: &Path, directory_mode: u32, file_mode: u32) {
    let Ok(data) = fs::symlink_metadata(path) else {
        return;
    };
    if data.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            set_modes(&entry.path(), directory_mode, file_mode);
        }
    }
    set_mode(path, &data, directory_mode, file_mode);
}

fn set_mode(path: &Path, data: &Metadata, directory_mode: u32, file_mode: u32) {
    let mode = match () {
        () if data.is_dir() => directory_mode,
        () if data.is_file() => file_mode,
        () => return,
    };
    // Most files were sealed under another name and have the mode already. A file system without modes refuses.
    if data.permissions().mode() & 0o7777 != mode {
        let _without_modes = fs::set_permissions(path, Permissions::from_mode(mode));
    }
}

// A lock for callbacks. With `parking_lot`, a thread that waits allocates memory first, and aborts if there is none.

/// A mutex that panics do not poison and that never allocates.
#[derive(Debug, Default)]
#[expect(clippy::disallowed_types, reason = "as above")]
pub struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    /// An unlocked lock.
    #[expect(clippy::disallowed_types, reason = "as above")]
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if no other thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Gives large freed blocks back to the system at once, in this whole process, one of our own tools. glibc raises the
/// size that counts as large with each such block that is freed, up to 32 MiB, and from then on keeps most of them.
/// What is smaller stays, up to a limit: libotf2 fills 256 KiB for each file that it opens, and with new pages each
/// time, reading a location takes twice as long.
pub fn give_back_in_this_process() {
    #[cfg(target_env = "gnu")]
    for (limit, bytes) in [(libc::M_MMAP_THRESHOLD, 1 << 20), (libc::M_TRIM_THRESHOLD, 8 << 20)] {
        // SAFETY: any number is valid; the tools call this at the beginning of `main`, before they start a thread.
        let _is_set = unsafe { libc::mallopt(limit, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_is_known_by_its_id_and_its_start() {
        let ours = ProcessKey::current();
        assert_eq!(ours.life(), ProcessStatus::Running);
        let earlier = ProcessKey { start_ticks: ours.start_ticks - 1, ..ours.clone() };
        assert_eq!(earlier.life(), ProcessStatus::Gone, "its id was used again");
        let another_boot = ProcessKey { boot_id: "another".to_owned(), ..ours.clone() };
        let container = ProcessKey { pid_namespace: "pid:[1]".to_owned(), ..ours };
        for elsewhere in [another_boot, container] {
            assert_eq!(elsewhere.life(), ProcessStatus::Unknown);
        }
        assert_eq!(life_here(u32::MAX, None), ProcessStatus::Gone);
    }

    #[test]
    fn a_zombie_is_gone_and_a_dead_main_thread_is_not() {
        let mut child = Command::new("true").spawn().expect("it starts");
        let begin = std::time::Instant::now();
        while life_here(child.id(), None) != ProcessStatus::Gone {
            assert!(begin.elapsed().as_secs() < 20, "it does not end");
            std::thread::yield_now();
        }
        let state = Stat::read(child.id()).expect("nobody has waited for it");
        assert_eq!(state.state, 'Z');
        child.wait().expect("it ended");
        let stat = "7 (a) b) Z 1 7 7 0 -1 4194304 95 0 0 0 0 0 0 0 20 0 THREADS 0 5000 2965504 0";
        for (threads, life) in [("1", ProcessStatus::Gone), ("2", ProcessStatus::Running)] {
            let stat = Stat::parse(&stat.replace("THREADS", threads)).expect("complete");
            assert_eq!(stat.life(Some(5000)), life);
        }
    }
}
