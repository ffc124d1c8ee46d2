//! A tool's activity buffer while it is CUPTI's: what is written into it, and how it is read again.

use crate::knobs::{Order, knobs};
use crate::level::kind;

/// Length of a record of this kind in the release that is played.
pub(crate) fn record_len(kind: u32) -> Option<usize> {
    let knobs = knobs();
    match kind {
        kind::KERNEL | kind::CONCURRENT_KERNEL if knobs.kernel_len.is_some() => knobs.kernel_len,
        _ => knobs.level.record_len(kind),
    }
}

/// Memory that a tool gave.
#[derive(Debug)]
pub(crate) struct Buffer {
    start: *mut u8,
    len: usize,
    valid: usize,
    records: usize,
    /// 0: as many as fit
    max_records: usize,
    /// the thread whose records it has
    pub(crate) thread: i32,
}

// SAFETY: the memory is this library's from the request to the completion (the contract of the buffer callbacks, upheld by
// the tool), whichever thread uses it.
unsafe impl Send for Buffer {}

impl Buffer {
    /// Takes what a tool's request callback gave.
    ///
    /// # Safety
    /// There are `len` bytes at `start`, which nobody else uses until the buffer is completed.
    pub(crate) unsafe fn new(
        start: *mut u8,
        len: usize,
        max_records: usize,
        thread: i32,
    ) -> Buffer {
        Buffer {
            start,
            len,
            valid: 0,
            records: 0,
            max_records,
            thread,
        }
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn valid(&self) -> usize {
        self.valid
    }

    fn room(&self) -> usize {
        self.len - self.valid
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(
            offset + bytes.len() <= self.len,
            "beyond the end of a buffer"
        );
        let to = self.start.wrapping_add(offset);
        // SAFETY: inside the buffer (the line above), which is this library's (the contract of `new`).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }

    /// The records so far.
    fn contents(&self) -> &[u8] {
        // SAFETY: so much was written; the buffer is this library's (the contract of `new`).
        unsafe { std::slice::from_raw_parts(self.start, self.valid) }
    }

    /// Whether the first bytes are zero, as a tool promises by attribute 5.
    pub(crate) fn looks_clean(&self) -> bool {
        let len = self.len.min(4096);
        // SAFETY: inside the buffer, which is this library's (the contract of `new`) and, the tool says, zeroed.
        let head = unsafe { std::slice::from_raw_parts(self.start, len) };
        head.iter().all(|byte| *byte == 0)
    }

    /// Appends a record; false if there is no room.
    pub(crate) fn push(&mut self, record: &[u8]) -> bool {
        if record.len() > self.room() || (self.max_records != 0 && self.records >= self.max_records)
        {
            return false;
        }
        self.write(self.valid, record);
        self.valid += record.len();
        self.records += 1;
        true
    }

    /// Begins a kernel record that does not end.
    pub(crate) fn push_broken(&mut self) {
        let mut head = [0; 96];
        let [low, ..] = kind::CONCURRENT_KERNEL.to_le_bytes();
        head[0] = low;
        if self.room() >= head.len() {
            self.write(self.valid, &head);
            self.valid += head.len();
        }
    }

    /// Puts the records into another order.
    pub(crate) fn reorder(&mut self, order: Order) {
        if order == Order::AsMade {
            return;
        }
        let mut rest = self.contents();
        let mut records = Vec::new();
        while let Some((head, _)) = rest.split_first_chunk() {
            let len = record_len(u32::from_le_bytes(*head)).unwrap_or(rest.len());
            let (record, further) = rest.split_at(len.min(rest.len()));
            records.push(record.to_vec());
            rest = further;
        }
        permute(&mut records, order);
        self.write(0, &records.concat());
    }
}

/// Puts things into the order that is asked for.
pub(crate) fn permute<T>(things: &mut [T], order: Order) {
    match order {
        Order::AsMade => {}
        Order::Reversed => things.reverse(),
        Order::Shuffled(seed) => {
            // Always the same for the same seed and length.
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            for last in (1..things.len()).rev() {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let range = u64::try_from(last + 1).unwrap_or(u64::MAX);
                things.swap(last, usize::try_from(state % range).unwrap_or(0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut things: Vec<u32> = (0..100).collect();
        permute(&mut things, Order::Shuffled(3));
        assert_ne!(things, (0..100).collect::<Vec<_>>());
        things.sort_unstable();
        assert_eq!(things, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn a_buffer_is_full_by_bytes_and_by_records() {
        let mut memory = vec![0_u64; 16];
        // SAFETY: the vector has 128 bytes and is not touched while the buffer lives.
        let mut buffer = unsafe { Buffer::new(memory.as_mut_ptr().cast(), 128, 0, 0) };
        assert!(buffer.push(&[1; 100]));
        assert!(!buffer.push(&[1; 100]));
        assert_eq!(buffer.valid(), 100);
        // SAFETY: as above; the first buffer is not used any more.
        let mut buffer = unsafe { Buffer::new(memory.as_mut_ptr().cast(), 128, 1, 0) };
        assert!(buffer.push(&[1; 10]));
        assert!(!buffer.push(&[1; 10]));
    }
}
