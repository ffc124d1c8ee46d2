//! Contexts and events lie on a page each, which nobody can touch any more once it is freed: use after free shows always.

use std::ffi::{c_int, c_void};
use std::ptr;

/// Bytes of a page; any page is at least this large.
const BYTES: usize = 4096;

/// Where a field lies on a page. None at the beginning, so that NULL is followed to the system's end of it.
#[derive(Clone, Copy)]
pub(crate) enum Field {
    /// Kind of the event, read as eight bytes.
    Kind = 8,
    /// Rank of the communicator.
    Rank = 16,
}

/// A page's address.
pub(crate) fn new(kind: u64, rank: u64) -> u64 {
    // SAFETY: a new mapping of no file, wherever the system likes.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    assert!(page != libc::MAP_FAILED, "no page");
    for (field, value) in [(Field::Kind, kind), (Field::Rank, rank)] {
        let place = page.cast::<u64>().wrapping_byte_add(field as usize);
        // SAFETY: on the page that was just mapped, and aligned to 8 bytes.
        unsafe { place.write(value) };
    }
    page.expose_provenance() as u64
}

/// Frees a page. Its address is not used again.
pub(crate) fn free(page: u64) {
    // SAFETY: a page from `new`; nothing of Rust's lies on it.
    let result: c_int = unsafe { libc::mprotect(pointer(page), BYTES, libc::PROT_NONE) };
    assert_eq!(result, 0, "a page of ours");
}

/// Reads a field, of whatever this points to.
pub(crate) fn read(page: u64, field: Field) -> u64 {
    let place = pointer(page)
        .cast::<u64>()
        .wrapping_byte_add(field as usize);
    // SAFETY: nobody upholds it: that the handle is a live page is the belief that the chosen fault has, and where it
    // is wrong the process ends by a signal, which the test waits for.
    unsafe { place.read_unaligned() }
}

fn pointer(page: u64) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(page).expect("64 bits"))
}
