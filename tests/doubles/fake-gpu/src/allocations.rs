//! "Device" and pinned host memory: both are ordinary memory of the process, in whole pages.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ptr::{null_mut, with_exposed_provenance_mut};

/// What kind of memory a pointer is to, with the codes of `cudaMemoryType`.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Host = 1,
    Device = 2,
}

#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) base: usize,
    pub(crate) size: usize,
    pub(crate) kind: Kind,
    pub(crate) device: i32,
}

static BLOCKS: Mutex<BTreeMap<usize, Block>> = Mutex::new(BTreeMap::new());

const PAGE: usize = 4096;

pub(crate) fn alloc(size: usize, kind: Kind, device: i32) -> Option<usize> {
    let size = size.max(1).checked_next_multiple_of(PAGE)?;
    // SAFETY: a new private mapping at an address that the kernel chooses touches no existing memory.
    let mapped = unsafe {
        libc::mmap(null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    let base = mapped.expose_provenance();
    let block = Block { base, size, kind, device };
    BLOCKS.lock().insert(base, block);
    Some(base)
}

/// Gives memory back; false if it is not the start of an allocation.
pub(crate) fn free(address: usize) -> bool {
    if address == 0 {
        return true;
    }
    let Some(block) = BLOCKS.lock().remove(&address) else {
        return false;
    };
    // SAFETY: the block is a mapping of `alloc`, taken out of the table, so unmapped once. That nobody uses it
    // any more is the caller's promise, as with CUDA.
    unsafe { libc::munmap(with_exposed_provenance_mut(block.base), block.size) };
    true
}

pub(crate) fn find(address: usize) -> Option<Block> {
    let blocks = BLOCKS.lock();
    let (_, block) = blocks.range(..=address).next_back()?;
    (address < block.base + block.size).then_some(*block)
}
