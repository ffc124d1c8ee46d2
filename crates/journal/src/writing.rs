//! What writing files needs in a process of somebody else: the one owner of the signals that writes raise, and of the
//! numbers that our files get.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Sent to a thread whose write exceeds the limit on file size, has no reader, or goes to a terminal that is not its
/// own. The first two end a program that does not handle them, the last one stops it.
const SIGNALS: [c_int; 3] = [libc::SIGXFSZ, libc::SIGPIPE, libc::SIGTTOU];

/// Runs `action`, which writes files: its writes raise no signal, and no file that it opens becomes standard input,
/// output or error, which other threads may write to.
pub fn guarded<T>(action: impl FnOnce() -> T) -> T {
    // Restored even if `action` panics: the callers' guards catch the panic and the program continues.
    let _signals = BlockedSignals::new();
    let _numbers = StandardNumbers::take();
    action()
}

/// On drop, restores a thread's signal mask and discards what writes raised in the meantime. A signal that was already
/// pending stays pending, and one that another process sent is sent again.
struct BlockedSignals {
    /// The mask before; `None` if it was not changed.
    before: Option<MaybeUninit<libc::sigset_t>>,
    was_pending: [bool; SIGNALS.len()],
}

impl BlockedSignals {
    fn new() -> Self {
        let signals = set_of(&SIGNALS);
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `signals` is initialised, `before` is writable; only this thread's mask changes.
        let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const signals, before.as_mut_ptr()) };
        Self { before: (failed == 0).then_some(before), was_pending: are_pending() }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let Some(before) = &self.before else {
            return;
        };
        for ((signal, was_pending), is_pending) in SIGNALS.iter().zip(self.was_pending).zip(are_pending()) {
            if is_pending && !was_pending {
                take_back(*signal);
            }
        }
        // SAFETY: the call that blocked the signals succeeded, so it initialised `before`.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    }
}

/// Discards a pending signal, unless another process sent it: the kernel names this process, or none, as the sender of
/// what a write raises.
fn take_back(signal: c_int) {
    let (now, set) = (libc::timespec { tv_sec: 0, tv_nsec: 0 }, set_of(&[signal]));
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the pointers refer to variables that outlive the call; `info` is writable.
    if unsafe { libc::sigtimedwait(&raw const set, info.as_mut_ptr(), &raw const now) } != signal {
        return;
    }
    // SAFETY: all zeroes is a valid value, and the call succeeded.
    let info = unsafe { info.assume_init() };
    // SAFETY: the signals of this file come from writes and from other processes: both have a sender.
    let sender = unsafe { info.si_pid() };
    // SAFETY: takes no arguments and cannot fail.
    let own = unsafe { libc::getpid() };
    if ![0, own].contains(&sender) {
        // SAFETY: sends a signal, which is blocked here, to this process.
        unsafe { libc::kill(own, signal) };
    }
}

fn set_of(signals: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is writable; sigemptyset initialises it.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for signal in signals {
        // SAFETY: `set` was just initialised, and the signals are valid.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *signal) };
    }
    // SAFETY: sigemptyset initialised `set` above.
    unsafe { set.assume_init() }
}

/// Which of the signals are pending for this thread or the process.
fn are_pending() -> [bool; SIGNALS.len()] {
    let mut pending = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `pending` is writable.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return [false; SIGNALS.len()];
    }
    // SAFETY: the call succeeded, so it initialised `pending`; the signals are valid.
    SIGNALS.map(|signal| unsafe { libc::sigismember(pending.as_ptr(), signal) == 1 })
}

/// How many threads need the standard numbers taken.
static HOLDERS: AtomicUsize = AtomicUsize::new(0);

/// Keeps each of the numbers 0 to 2 that the program has closed taken by a descriptor for which reads and writes fail
/// as for a closed one (`O_PATH`).
struct StandardNumbers;

impl StandardNumbers {
    fn take() -> Self {
        HOLDERS.fetch_add(1, Ordering::SeqCst);
        loop {
            // SAFETY: the path is a string.
            let number = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
            if number > libc::STDERR_FILENO {
                // SAFETY: the call above opened it.
                unsafe { libc::close(number) };
            }
            if !(0..=libc::STDERR_FILENO).contains(&number) {
                return Self;
            }
        }
    }
}

impl Drop for StandardNumbers {
    fn drop(&mut self) {
        if HOLDERS.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        for number in 0..=libc::STDERR_FILENO {
            // The program may have put a file of its own there: no program has standard streams of this kind.
            // SAFETY: asks for flags, and touches no memory.
            let flags = unsafe { libc::fcntl(number, libc::F_GETFL) };
            if flags != -1 && flags & libc::O_PATH != 0 {
                // SAFETY: `take` opened it.
                unsafe { libc::close(number) };
            }
        }
    }
}
