//! Where CUPTI puts its records: buffers made when they are asked for, and kept.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

const WORDS: usize = 512 << 10;
/// Whether none is given, and how often that was.
pub(super) static REFUSE: AtomicBool = AtomicBool::new(false);
pub(super) static REFUSED: AtomicUsize = AtomicUsize::new(0);
static DONE: Mutex<Vec<&[u8]>> = Mutex::new(Vec::new());

/// What CUPTI has given back, up to the end of what it wrote.
pub(super) fn take() -> Vec<&'static [u8]> {
    std::mem::take(&mut *DONE.lock())
}

pub(super) extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, records: *mut usize) {
    let (mut address, mut bytes) = (null_mut(), 0);
    if REFUSE.load(Ordering::Relaxed) {
        REFUSED.fetch_add(1, Ordering::Relaxed);
    } else {
        let own: &'static mut [u64] = vec![0; WORDS].leak();
        (address, bytes) = (own.as_mut_ptr().cast(), size_of_val(own));
    }
    // SAFETY: CUPTI's pointer to its own variable, for us to write.
    unsafe { buffer.write(address) };
    // SAFETY: as above.
    unsafe { size.write(bytes) };
    // SAFETY: as above; 0: as many as there is room for.
    unsafe { records.write(0) };
}

pub(super) extern "C" fn complete(_context: *mut c_void, _stream: u32, address: *mut u8, _size: usize, valid: usize) {
    // CUPTI gives back what was refused, in some releases.
    if !address.is_null() {
        // SAFETY: CUPTI wrote so many bytes into a buffer that `request` leaked, and does not touch it any more.
        DONE.lock().push(unsafe { std::slice::from_raw_parts(address, valid) });
    }
}

pub(super) extern "C" fn request_own(buffer: *mut *mut u8, size: *mut usize, records: *mut usize, _info: *mut c_void) {
    request(buffer, size, records);
}

pub(super) extern "C" fn complete_own(address: *mut u8, size: usize, valid: usize, _info: *mut c_void) {
    complete(null_mut(), 0, address, size, valid);
}
