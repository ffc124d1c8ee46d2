//! Layout of network plugins' data in records.

use super::net::NetData;
use super::packed::{Field, Word};

const fn both(low: i32, high: i32) -> u64 {
    low.cast_unsigned() as u64 | (high.cast_unsigned() as u64) << 32
}

/// Four words: the layout's number and a number, two numbers, a number, bytes.
impl Field for NetData {
    #[inline(always)]
    fn put(self, words: &mut [u64], at: usize, _shift: u32) {
        let values = match self {
            Self::Opaque => [0; 4],
            Self::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => {
                [both(1, device), both(opcode, queue_pair), work_request, bytes]
            }
            Self::Socket { descriptor, operation, bytes } => [both(2, descriptor), both(operation, 0), 0, bytes],
        };
        if let Some(words) = words.get_mut(at..at + 4) {
            words.copy_from_slice(&values);
        }
    }

    #[inline(always)]
    fn take(words: &[Word], at: usize, _shift: u32) -> Option<Self> {
        let signed = |word: usize, shift: u32| i32::take(words, at + word, shift);
        Some(match u32::take(words, at, 0)? {
            0 => Self::Opaque,
            1 => Self::IbQueuePair {
                device: signed(0, 32)?,
                opcode: signed(1, 0)?,
                queue_pair: signed(1, 32)?,
                work_request: u64::take(words, at + 2, 0)?,
                bytes: u64::take(words, at + 3, 0)?,
            },
            2 => Self::Socket {
                descriptor: signed(0, 32)?,
                operation: signed(1, 0)?,
                bytes: u64::take(words, at + 3, 0)?,
            },
            _ => return None,
        })
    }
}
