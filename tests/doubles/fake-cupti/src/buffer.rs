//! A tool's activity buffer while it is CUPTI's.

use crate::level::{self, kind};
use crate::variables;

pub(crate) fn record_len(kind: u32) -> Option<usize> {
    level::record_len(variables::get().level, kind)
}

pub(crate) struct Buffer {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
    pub(crate) valid: usize,
    pub(crate) thread: i32,
}

// SAFETY: the memory is this library's from the request to the completion (the contract of the buffer callbacks, upheld
// by the tool), whichever thread uses it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Takes what a tool's request callback gave.
    ///
    /// # Safety
    /// There are `len` bytes at `start`, which nobody else uses until the buffer is completed.
    pub(crate) unsafe fn new(start: *mut u8, len: usize, thread: i32) -> Buffer {
        Buffer { start, len, valid: 0, thread }
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len, "beyond the end of a buffer");
        let to = self.start.wrapping_add(offset);
        // SAFETY: inside the buffer (the line above), which is this library's (the contract of `new`).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    fn head(&self, len: usize) -> &[u8] {
        // SAFETY: inside the buffer by the callers, and written or, the tool says, zeroed; this library's until the
        // buffer is completed (the contract of `new`).
        unsafe { std::slice::from_raw_parts(self.start, len) }
    }

    /// Whether the first bytes are zero, as a tool promises by attribute 5.
    pub(crate) fn looks_clean(&self) -> bool {
        self.head(self.len.min(4096)).iter().all(|byte| *byte == 0)
    }

    pub(crate) fn push(&mut self, record: &[u8]) -> bool {
        let has_room = self.valid + record.len() <= self.len;
        if has_room {
            self.write(self.valid, record);
            self.valid += record.len();
        }
        has_room
    }

    /// Turns the order of the records round, and begins one that does not end, where that is asked for.
    pub(crate) fn finish(&mut self) {
        let mut rest = self.head(self.valid);
        let mut records = Vec::new();
        while let Some((head, _)) = rest.split_first_chunk() {
            let len = record_len(u32::from_le_bytes(*head)).unwrap_or(rest.len());
            let (record, further) = rest.split_at(len.min(rest.len()));
            records.push(record.to_vec());
            rest = further;
        }
        order(&mut records);
        self.write(0, &records.concat());
        if variables::get().partial {
            let mut half = [0; 96];
            half[..4].copy_from_slice(&kind::CONCURRENT_KERNEL.to_le_bytes());
            self.push(&half);
        }
    }
}

pub(crate) fn order<T>(things: &mut [T]) {
    if variables::get().reversed {
        things.reverse();
    }
}
