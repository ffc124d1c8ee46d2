//! Memory and the values of threads. The plugin's allocator is the system's, with a reserve for when the system has no
//! memory; [`Current`] gives each thread its share of what is on, and [`PerThread`] a value without `thread_local!`.
//!
//! Rust ends the program when an allocation fails, which the plugin must not do to the job. So a callback gets memory
//! from the reserve, and the recording ends. Later threads take no share, so the reserve only has to suffice for
//! threads that are in a callback at that moment. A request that is larger than a block, or comes when all blocks are
//! taken, still ends the program. Only `init` and closing request so much, and closing checks [`room_bytes`] first.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, compiler_fence};

use crate::host::process::was_left;
use journal::host::{Lock, limit_of};
use journal::uninterrupted::uninterrupted;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

static HAS_FAILED: AtomicBool = AtomicBool::new(false);

#[inline]
pub(crate) fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

#[cold]
pub(crate) fn fail() {
    HAS_FAILED.store(true, Ordering::Relaxed);
}

/// Whether the system has memory now, also for what does not come to this allocator: the standard library takes some of
/// what a thread needs from the system itself, and ends the program if there is none.
pub(crate) fn is_there() -> bool {
    let layout = Layout::new::<[u8; 4096]>();
    // SAFETY: the layout is not empty.
    let memory = unsafe { System.alloc(layout) };
    if memory.is_null() {
        fail();
    } else {
        // SAFETY: the call above gave it, with this layout.
        unsafe { System.dealloc(memory, layout) };
    }
    !has_failed()
}

pub(crate) fn forget_failure() {
    HAS_FAILED.store(false, Ordering::Relaxed);
}

/// How much more memory this process may allocate; `None` if no limit (`ulimit -v`, `-d`) is known.
pub(crate) fn room_bytes() -> Option<u64> {
    let sizes = std::fs::read_to_string("/proc/self/statm").ok()?;
    let sizes: Vec<u64> = sizes.split_ascii_whitespace().map_while(|pages| pages.parse().ok()).collect();
    // SAFETY: takes a number and touches no memory.
    let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    // The whole address space; and data including stacks.
    let limits = [(libc::RLIMIT_AS, 0), (libc::RLIMIT_DATA, 5)];
    let limits_bytes = limits.into_iter().filter_map(|(resource, field)| {
        let used = sizes.get(field)?.checked_mul(page_bytes)?;
        Some(limit_of(resource)?.saturating_sub(used))
    });
    limits_bytes.min()
}

/// For strings, names and per-thread values.
static SMALL: Pool<1024, 8> = Pool::new();
/// For the tables in a thread's slot.
static LARGE: Pool<{ 64 << 10 }, 1> = Pool::new();

struct Allocator;

// SAFETY: memory comes from the system, or is a block of sufficient size and alignment that nothing else uses. The
// address shows which of the two it is when the memory is freed.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, unchanged.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { reserved(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, unchanged.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            return memory;
        }
        let memory = reserved(layout);
        if !memory.is_null() {
            // SAFETY: the block is at least as large as the layout, and nothing else uses it.
            unsafe { memory.write_bytes(0, layout.size()) };
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !SMALL.give_back(memory) && !LARGE.give_back(memory) {
            // SAFETY: the memory is in no pool, so it is the system's, with the caller's layout.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !SMALL.has(memory) && !LARGE.has(memory) {
            // SAFETY: the memory is in no pool, so it is the system's, with the caller's layout and size.
            let larger = unsafe { System.realloc(memory, layout, size) };
            if !larger.is_null() {
                return larger;
            }
        }
        // SAFETY: the caller's layout was valid, and the caller guarantees the size.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: callers of `realloc` must not pass a size of zero, so the layout is not empty.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both have at least that many bytes, and nothing else uses the new block.
            unsafe { ptr::copy_nonoverlapping(memory, other, layout.size().min(size)) };
            // SAFETY: the caller's memory and layout; the memory is not used again.
            unsafe { self.dealloc(memory, layout) };
        }
        other
    }
}

/// Allocates from the reserve; NULL if no free block is large enough.
#[cold]
fn reserved(layout: Layout) -> *mut u8 {
    fail();
    let small = SMALL.take(layout);
    if small.is_null() { LARGE.take(layout) } else { small }
}

/// `64 * WORDS` blocks, which take no memory until they are used.
#[repr(align(4096))]
struct Pool<const BYTES: usize, const WORDS: usize> {
    blocks: UnsafeCell<[[[u8; BYTES]; 64]; WORDS]>,
    /// One bit per block, set while the block is taken.
    taken: [AtomicU64; WORDS],
}

// SAFETY: a block is accessed only by the thread that has set its bit.
unsafe impl<const BYTES: usize, const WORDS: usize> Sync for Pool<BYTES, WORDS> {}

impl<const BYTES: usize, const WORDS: usize> Pool<BYTES, WORDS> {
    const fn new() -> Self {
        Self { blocks: UnsafeCell::new([[[0; BYTES]; 64]; WORDS]), taken: [const { AtomicU64::new(0) }; WORDS] }
    }

    fn take(&self, layout: Layout) -> *mut u8 {
        // Blocks lie at multiples of their size, which is a power of two.
        if layout.size() > BYTES || layout.align() > BYTES.min(4096) {
            return ptr::null_mut();
        }
        for (index, word) in self.taken.iter().enumerate() {
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones();
                match word.compare_exchange_weak(taken, taken | 1 << bit, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => {
                        let block = 64 * index + bit as usize;
                        return self.blocks.get().cast::<u8>().wrapping_add(block * BYTES);
                    }
                    Err(now) => taken = now,
                }
            }
        }
        ptr::null_mut()
    }

    #[inline]
    fn index(&self, memory: *mut u8) -> usize {
        memory.addr().wrapping_sub(self.blocks.get().addr()) / BYTES
    }

    #[inline]
    fn has(&self, memory: *mut u8) -> bool {
        self.index(memory) < 64 * WORDS
    }

    /// Takes a block back; false if the block is not in this pool.
    #[inline]
    fn give_back(&self, memory: *mut u8) -> bool {
        let index = self.index(memory);
        let word = self.taken.get(index / 64);
        if let Some(word) = word {
            word.fetch_and(!(1 << (index % 64)), Ordering::Release);
        }
        word.is_some()
    }
}

// Of state that begins and ends within the process, such as a recording, every thread holds a share. At most one
// instance is on at a time. A callback gets its thread's share with one relaxed load and a comparison. A thread takes
// its share in its first call, and drops it when it sees that another instance is on. Only these steps, and the
// beginning and end of an instance, take a lock.

pub(crate) struct Current<T> {
    /// The number of the instance that is on; 0 if none is. Threads read it first.
    epoch: AtomicU64,
    /// Epochs are never reused, so a thread notices that its share belongs to an earlier instance.
    last_epoch: AtomicU64,
    /// The instance. Locked in a thread's first call, and when an instance begins or ends.
    instance: Lock<Option<RunningInstance<T>>>,
}

#[derive(Clone)]
struct RunningInstance<T> {
    epoch: u64,
    value: T,
}

pub(crate) trait ThreadShare: Sized + 'static {
    type Instance: Clone + 'static;
    /// What a thread keeps beside its share, whether or not an instance is on.
    type ThreadState: Default + 'static;

    const CURRENT: &'static Current<Self::Instance>;

    fn new(instance: Self::Instance, state: &Self::ThreadState) -> Self;

    /// A signal handler of the program has left the use of the share with `siglongjmp`.
    fn was_left(&mut self) {}

    /// Called when a thread ends while the instance is still on; not in a forked child.
    fn leave(self) {}
}

pub(crate) type Shares<S> = PerThread<ShareCell<S>>;

/// What every callback reads comes first.
#[repr(C, align(64))]
pub(crate) struct ShareCell<S: ThreadShare> {
    /// The share's epoch; [`NONE`] without a share, [`IN_USE`] during use. So a callback needs only one comparison.
    epoch: Cell<u64>,
    share: UnsafeCell<Option<S>>,
    /// The share's epoch also during use.
    epoch_of_share: Cell<u64>,
    state: S::ThreadState,
}

/// Not epochs, which count from 1.
const NONE: u64 = u64::MAX;
const IN_USE: u64 = u64::MAX - 1;

impl<S: ThreadShare> Drop for ShareCell<S> {
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
        Self { epoch: AtomicU64::new(0), last_epoch: AtomicU64::new(0), instance: Lock::new(None) }
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
        let mut instance = self.instance.lock();
        if is_wanted() {
            let epoch = self.last_epoch.fetch_add(1, Ordering::Relaxed) + 1;
            *instance = Some(RunningInstance { epoch, value });
            self.epoch.store(epoch, Ordering::Release);
        }
    }

    /// Turns the instance off and returns it, to be dropped outside of this lock: dropping can take other locks.
    pub(crate) fn end(&self) -> Option<T> {
        self.end_if(|| true)
    }

    /// [`Self::end`], if that is still wanted. No instance begins or ends meanwhile.
    pub(crate) fn end_if(&self, is_wanted: impl FnOnce() -> bool) -> Option<T> {
        let mut instance = self.instance.lock();
        if !is_wanted() {
            return None;
        }
        self.disable();
        instance.take().map(|running| running.value)
    }

    /// Turns the instance off without taking a lock: for a forked child, and for the guard after a panic.
    pub(crate) fn disable(&self) {
        self.epoch.store(0, Ordering::Release);
    }
}

/// Runs `action` with the calling thread's share. Returns `None` if no instance is on, if there is no memory for a
/// share, or inside another `action` on this thread, which happens only in a signal handler.
#[inline]
pub(crate) fn with<S: ThreadShare, R>(shares: &'static Shares<S>, action: impl FnOnce(&mut S) -> R) -> Option<R> {
    let epoch = S::CURRENT.epoch.load(Ordering::Relaxed);
    let none = || has_room(epoch).then(ShareCell::new);
    shares.with(none, |mine| mine.with_share_of(epoch, action)).flatten()
}

/// Runs `action` with what the calling thread keeps; with `make`, a thread that has nothing yet begins to keep it.
#[inline]
pub(crate) fn with_thread_state<S: ThreadShare, R>(
    shares: &'static Shares<S>,
    make: bool,
    action: impl FnOnce(&ShareCell<S>) -> Option<R>,
) -> Option<R> {
    let none = || (make && !has_failed()).then(ShareCell::new);
    shares.with(none, action).flatten()
}

impl<S: ThreadShare> ShareCell<S> {
    fn new() -> Self {
        Self {
            epoch: Cell::new(NONE),
            share: UnsafeCell::new(None),
            epoch_of_share: Cell::new(NONE),
            state: S::ThreadState::default(),
        }
    }

    #[inline]
    pub(crate) fn state(&self) -> &S::ThreadState {
        &self.state
    }

    /// As [`with`], if an instance is on.
    #[inline]
    pub(crate) fn with_share<R>(&self, action: impl FnOnce(&mut S) -> R) -> Option<R> {
        let epoch = S::CURRENT.epoch.load(Ordering::Relaxed);
        if epoch == 0 { None } else { self.with_share_of(epoch, action) }
    }

    #[inline]
    fn with_share_of<R>(&self, epoch: u64, action: impl FnOnce(&mut S) -> R) -> Option<R> {
        let running = self.epoch.replace(IN_USE);
        if running != epoch && !take_share(self, running, epoch) {
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
    epoch != 0 && !has_failed()
}

/// Replaces the thread's share with a share of the running instance. False if the thread then has no share, or if
/// this is a signal handler, and what it interrupted uses the share.
#[cold]
#[inline(never)]
fn take_share<S: ThreadShare>(mine: &ShareCell<S>, running: u64, epoch: u64) -> bool {
    let is_in_use = running == IN_USE;
    if !has_room(epoch) || is_in_use && !was_left() {
        mine.epoch.set(running);
        return false;
    }
    uninterrupted(|| {
        // SAFETY: only this thread has `mine`, and the check above shows that the share is not in use.
        let share = unsafe { &mut *mine.share.get() };
        if let (Some(share), true) = (&mut *share, is_in_use && mine.epoch_of_share.get() == epoch) {
            share.was_left();
            return true;
        }
        let instance = S::CURRENT.instance.lock().clone();
        *share = instance.filter(|running| running.epoch == epoch).map(|running| S::new(running.value, mine.state()));
        let is_there = share.is_some();
        mine.epoch_of_share.set(if is_there { epoch } else { NONE });
        if !is_there {
            mine.epoch.set(NONE);
        }
        is_there
    })
}

// `thread_local!` ends the program if there is no memory: the C library allocates a library's thread-local block on a
// thread's first use, and registers destructors in memory of its own. POSIX thread keys return an error instead.

/// A value for each thread that asks for it; dropped when the thread ends.
pub(crate) struct PerThread<T: 'static> {
    /// Stored with release order and loaded with acquire order: a thread that uses a key has to see what the C library
    /// noted about it when another thread created it, or it takes the key for an invalid one.
    key: AtomicU32,
    values: PhantomData<fn() -> T>,
}

/// Not a valid key: there are only 1024 keys.
const NO_KEY: u32 = u32::MAX;

impl<T: 'static> PerThread<T> {
    pub(crate) const fn new() -> Self {
        Self { key: AtomicU32::new(NO_KEY), values: PhantomData }
    }

    /// Runs `action` with the calling thread's value, made by `make` if necessary. `None` if `make` returns `None`.
    #[inline]
    pub(crate) fn with<R>(&'static self, make: impl FnOnce() -> Option<T>, action: impl FnOnce(&T) -> R) -> Option<R> {
        let value = match self.value() {
            Some(value) => value,
            None => self.first(make)?,
        };
        // SAFETY: `first` stored a value that only this thread uses and that lives until the thread ends.
        Some(action(unsafe { value.as_ref() }))
    }

    #[inline]
    fn value(&self) -> Option<NonNull<T>> {
        let key = self.key.load(Ordering::Acquire);
        if key == NO_KEY {
            return None;
        }
        // SAFETY: `key` was made by `pthread_key_create` and is never deleted.
        NonNull::new(unsafe { libc::pthread_getspecific(key) }.cast())
    }

    #[cold]
    #[inline(never)]
    fn first(&'static self, make: impl FnOnce() -> Option<T>) -> Option<NonNull<T>> {
        uninterrupted(|| self.made(make))
    }

    fn made(&'static self, make: impl FnOnce() -> Option<T>) -> Option<NonNull<T>> {
        let key = self.key()?;
        let value = NonNull::from(Box::leak(Box::new(make()?)));
        // SAFETY: the key exists, and its destructor accepts such a value.
        if unsafe { libc::pthread_setspecific(key, value.as_ptr().cast()) } == 0 {
            return Some(value);
        }
        fail();
        // SAFETY: the box from above, which nothing else uses.
        drop(unsafe { Box::from_raw(value.as_ptr()) });
        None
    }

    fn key(&self) -> Option<u32> {
        let known = self.key.load(Ordering::Acquire);
        if known != NO_KEY {
            return Some(known);
        }
        let mut key = 0;
        // SAFETY: `key` is writable. The destructor lies in this library, which stays mapped (`-z nodelete`).
        if unsafe { libc::pthread_key_create(&raw mut key, Some(end::<T>)) } != 0 {
            return None;
        }
        match self.key.compare_exchange(NO_KEY, key, Ordering::Release, Ordering::Acquire) {
            Ok(_) => Some(key),
            Err(other_thread) => {
                // SAFETY: no thread has used this key.
                unsafe { libc::pthread_key_delete(key) };
                Some(other_thread)
            }
        }
    }

    /// Drops the calling thread's value. At exit nothing else drops the exiting thread's value.
    pub(crate) fn end(&'static self) {
        if let Some(value) = self.value() {
            // SAFETY: there is a value, so the key exists.
            unsafe { libc::pthread_setspecific(self.key.load(Ordering::Relaxed), ptr::null()) };
            // SAFETY: `first` made the value, and the thread no longer has it.
            unsafe { end::<T>(value.as_ptr().cast()) };
        }
    }
}

/// # Safety
/// `value` is a box of a `T` that is no longer used.
unsafe extern "C" fn end<T>(value: *mut c_void) {
    // SAFETY: the contract.
    let value = unsafe { Box::from_raw(value.cast::<T>()) };
    let _panicked = in_process::catch(|| uninterrupted(|| drop(value)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_given_to_one_at_a_time() {
        static POOL: Pool<1024, 2> = Pool::new();
        let layout = |bytes| Layout::from_size_align(bytes, 16).unwrap();
        assert!(POOL.take(layout(1025)).is_null());
        let mut blocks: Vec<*mut u8> = (0..128).map(|_| POOL.take(layout(1000))).collect();
        assert!(POOL.take(layout(1)).is_null(), "all are taken");
        assert!(blocks.iter().all(|block| POOL.has(*block) && block.addr().is_multiple_of(1024)));
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks.len(), 128);
        assert!(POOL.give_back(blocks[77]));
        assert_eq!(POOL.take(layout(1)), blocks[77]);
        let mut other = 0_u8;
        assert!(!POOL.has(&raw mut other) && !POOL.give_back(&raw mut other));
    }
}
