//! State that begins and ends within the process, of which every thread holds a share.
//!
//! At most one instance is on at a time. A callback gets its thread's share with one relaxed load and a comparison. A
//! thread takes its share in its first call, and drops it when it sees that another instance is on. Only these steps,
//! and the beginning and end of an instance, take a lock.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use journal::host::Lock;
use journal::uninterrupted::uninterrupted;

use super::left::was_left;
use super::memory;
use super::per_thread::PerThread;

pub(crate) struct Current<T> {
    /// The number of the instance that is on; 0 if none is. Threads read it first.
    epoch: AtomicU64,
    /// Epochs are never reused, so a thread notices that its share belongs to an earlier instance.
    last_epoch: AtomicU64,
    /// The instance. Locked in a thread's first call, and when an instance begins or ends.
    whole: Lock<Option<Held<T>>>,
}

#[derive(Clone)]
struct Held<T> {
    epoch: u64,
    value: T,
}

pub(crate) trait Share: Sized + 'static {
    type Whole: Clone + 'static;
    /// What a thread keeps beside its share, whether or not an instance is on.
    type Kept: Default + 'static;

    const CURRENT: &'static Current<Self::Whole>;

    fn of(whole: Self::Whole, kept: &Self::Kept) -> Self;

    /// A signal handler of the program has left the use of the share with `siglongjmp`.
    fn was_left(&mut self) {}

    /// Called when a thread ends while the instance is still on; not in a forked child.
    fn leave(self) {}
}

pub(crate) type Shares<S> = PerThread<Mine<S>>;

/// What every callback reads comes first.
#[repr(C, align(64))]
pub(crate) struct Mine<S: Share> {
    /// The share's epoch; [`NONE`] without a share, [`IN_USE`] during use. So a callback needs only one comparison.
    epoch: Cell<u64>,
    share: UnsafeCell<Option<S>>,
    /// The share's epoch also during use.
    epoch_of_share: Cell<u64>,
    kept: S::Kept,
}

/// Not epochs, which count from 1.
const NONE: u64 = u64::MAX;
const IN_USE: u64 = u64::MAX - 1;

impl<S: Share> Drop for Mine<S> {
    fn drop(&mut self) {
        if S::CURRENT.epoch.load(Ordering::Acquire) == self.epoch_of_share.get()
            && let Some(mut share) = self.share.get_mut().take()
        {
            if self.epoch.get() == IN_USE {
                share.was_left();
            }
            share.leave();
        }
    }
}

impl<T> Current<T> {
    pub(crate) const fn none() -> Self {
        Self { epoch: AtomicU64::new(0), last_epoch: AtomicU64::new(0), whole: Lock::new(None) }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.epoch.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn begin(&self, value: T) {
        self.begin_if(value, || true);
    }

    /// [`Self::begin`], if that is still wanted. No instance begins or ends meanwhile.
    pub(crate) fn begin_if(&self, value: T, is_wanted: impl FnOnce() -> bool) {
        let mut whole = self.whole.lock();
        if is_wanted() {
            let epoch = self.last_epoch.fetch_add(1, Ordering::Relaxed) + 1;
            *whole = Some(Held { epoch, value });
            self.epoch.store(epoch, Ordering::Release);
        }
    }

    /// Turns the instance off and returns it, to be dropped outside of this lock: dropping can take other locks.
    pub(crate) fn end(&self) -> Option<T> {
        self.end_if(|| true)
    }

    /// [`Self::end`], if that is still wanted. No instance begins or ends meanwhile.
    pub(crate) fn end_if(&self, is_wanted: impl FnOnce() -> bool) -> Option<T> {
        let mut whole = self.whole.lock();
        if !is_wanted() {
            return None;
        }
        self.disable();
        whole.take().map(|held| held.value)
    }

    /// Turns the instance off without taking a lock: for a forked child, and for the guard after a panic.
    pub(crate) fn disable(&self) {
        self.epoch.store(0, Ordering::Release);
    }
}

/// Runs `action` with the calling thread's share. Returns `None` if no instance is on, if there is no memory for a
/// share, or inside another `action` on this thread, which happens only in a signal handler.
#[inline]
pub(crate) fn with<S: Share, R>(shares: &'static Shares<S>, action: impl FnOnce(&mut S) -> R) -> Option<R> {
    let epoch = S::CURRENT.epoch.load(Ordering::Relaxed);
    let none = || has_room(epoch).then(Mine::new);
    shares.with(none, |mine| mine.with_share_of(epoch, action)).flatten()
}

/// Runs `action` with what the calling thread keeps; with `make`, a thread that has nothing yet begins to keep it.
#[inline]
pub(crate) fn kept<S: Share, R>(
    shares: &'static Shares<S>,
    make: bool,
    action: impl FnOnce(&Mine<S>) -> Option<R>,
) -> Option<R> {
    let none = || (make && !memory::has_failed()).then(Mine::new);
    shares.with(none, action).flatten()
}

impl<S: Share> Mine<S> {
    fn new() -> Self {
        Self {
            epoch: Cell::new(NONE),
            share: UnsafeCell::new(None),
            epoch_of_share: Cell::new(NONE),
            kept: S::Kept::default(),
        }
    }

    #[inline]
    pub(crate) fn kept(&self) -> &S::Kept {
        &self.kept
    }

    /// As [`with`], if an instance is on.
    #[inline]
    pub(crate) fn with_share<R>(&self, action: impl FnOnce(&mut S) -> R) -> Option<R> {
        let epoch = S::CURRENT.epoch.load(Ordering::Relaxed);
        if epoch == 0 { None } else { self.with_share_of(epoch, action) }
    }

    #[inline]
    fn with_share_of<R>(&self, epoch: u64, action: impl FnOnce(&mut S) -> R) -> Option<R> {
        let held = self.epoch.replace(IN_USE);
        if held != epoch && !take_share(self, held, epoch) {
            return None;
        }
        // A handler of a signal that comes from here on sees that the share is in use.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: only this thread has the value, and a share in use is not accessed elsewhere.
        let share = unsafe { &mut *self.share.get() };
        // SAFETY: `epoch` is an instance's number only while `share` is Some: `take_share` and the end of this function
        // set it after the share, and a thread without a share has `NONE`.
        let done = action(unsafe { share.as_mut().unwrap_unchecked() });
        compiler_fence(Ordering::SeqCst);
        // After a panic the share stays in use; recording is off then.
        self.epoch.set(epoch);
        Some(done)
    }
}

/// Whether a thread may take a share: an instance is on (not epoch 0), and memory has not run out.
fn has_room(epoch: u64) -> bool {
    epoch != 0 && !memory::has_failed()
}

/// Replaces the thread's share with a share of the running instance. False if the thread then has no share, or if
/// this is a signal handler, and what it interrupted uses the share.
#[cold]
#[inline(never)]
fn take_share<S: Share>(mine: &Mine<S>, held: u64, epoch: u64) -> bool {
    let is_in_use = held == IN_USE;
    if !has_room(epoch) || is_in_use && !was_left() {
        mine.epoch.set(held);
        return false;
    }
    uninterrupted(|| {
        // SAFETY: only this thread has `mine`, and the check above shows that the share is not in use.
        let share = unsafe { &mut *mine.share.get() };
        if let (Some(share), true) = (&mut *share, is_in_use && mine.epoch_of_share.get() == epoch) {
            share.was_left();
            return true;
        }
        let whole = S::CURRENT.whole.lock().clone();
        *share = whole.filter(|held| held.epoch == epoch).map(|held| S::of(held.value, mine.kept()));
        let is_there = share.is_some();
        mine.epoch_of_share.set(if is_there { epoch } else { NONE });
        if !is_there {
            mine.epoch.set(NONE);
        }
        is_there
    })
}
