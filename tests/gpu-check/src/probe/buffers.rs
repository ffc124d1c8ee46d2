//! Where CUPTI puts its records: buffers made when they are asked for.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

const BYTES: usize = 4 << 20;
static REFUSE: AtomicBool = AtomicBool::new(false);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
static DONE: Mutex<Vec<Buffer>> = Mutex::new(Vec::new());

#[derive(Debug)]
pub(super) struct Buffer {
    pub(super) address: *mut u8,
    size: usize,
    pub(super) valid: usize,
}

// SAFETY: CUPTI has given it back: who has this value is the only one that uses the memory.
unsafe impl Send for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Ok(layout) = layout(self.size) {
            // SAFETY: made by `request` with this layout, given back by CUPTI, and freed here once.
            unsafe { dealloc(self.address, layout) };
        }
    }
}

/// As CUPTI wants them; pages, which also tell a foreign buffer.
fn layout(size: usize) -> Result<Layout, std::alloc::LayoutError> {
    Layout::from_size_align(size, 4096)
}

pub(super) fn refuse(refuse: bool) {
    REFUSE.store(refuse, Ordering::Relaxed);
}

pub(super) fn refused() -> usize {
    REFUSED.load(Ordering::Relaxed)
}

pub(super) fn take() -> Vec<Buffer> {
    std::mem::take(&mut *DONE.lock())
}

pub(super) extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let is_refused = REFUSE.load(Ordering::Relaxed);
    let address = match layout(BYTES) {
        // SAFETY: the layout has a size.
        Ok(layout) if !is_refused => unsafe { alloc_zeroed(layout) },
        _ => null_mut(),
    };
    if address.is_null() {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: CUPTI's pointer to its own variable, for us to write.
    unsafe { buffer.write(address) };
    // SAFETY: as above.
    unsafe { size.write(if address.is_null() { 0 } else { BYTES }) };
    // SAFETY: as above; 0: as many as there is room for.
    unsafe { records.write(0) };
}

pub(super) extern "C" fn complete(_context: *mut c_void, _stream: u32, address: *mut u8, size: usize, valid: usize) {
    // CUPTI gives back what was refused, in some releases.
    if address.is_null() {
        return;
    }
    DONE.lock().push(Buffer { address, size, valid });
}

pub(super) extern "C" fn request_own(buffer: *mut *mut u8, size: *mut usize, records: *mut usize, _info: *mut c_void) {
    request(buffer, size, records);
}

pub(super) extern "C" fn complete_own(address: *mut u8, size: usize, valid: usize, _info: *mut c_void) {
    complete(null_mut(), 0, address, size, valid);
}
