//! The plugin's allocator: the system's, with a reserve for when the system has no memory.
//!
//! Rust ends the program when an allocation fails, which the plugin must not do to the job. So a callback gets memory
//! from the reserve, and the recording ends. Later threads take no share, so the reserve only has to suffice for
//! threads that are in a callback at that moment. A request that is larger than a block, or comes when all blocks are
//! taken, still ends the program. Only `init` and closing request so much, and closing checks [`room_bytes`] first.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use journal::host::limit_of;

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
    let rooms = limits.into_iter().filter_map(|(resource, field)| {
        let used = sizes.get(field)?.checked_mul(page_bytes)?;
        Some(limit_of(resource)?.saturating_sub(used))
    });
    rooms.min()
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
