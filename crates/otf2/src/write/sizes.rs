//! How large definitions are: each must fit into one chunk.

use crate::definition::Definition;
use crate::write::handle::LEAST_CHUNK_BYTES;
use otf2_sys as sys;

/// Upper bound of a definition's size without text and group members. Up to 255 elements of at most 11 bytes come on
/// top, but these fit into the smallest chunk.
const REST_BYTES: u64 = 256;
/// A number of 32 bits, with its length.
const NUMBER_BYTES: u64 = 5;

/// The largest definition of an archive, which decides the size of its definitions chunks.
#[derive(Clone, Copy, Debug, Default)]
pub struct LargestDefinition {
    bytes: u64,
}

impl LargestDefinition {
    /// Takes a definition into account.
    pub fn definition(&mut self, definition: &Definition) {
        self.bytes(most_bytes(definition));
    }

    /// Takes a string into account.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.len() as u64 + REST_BYTES);
    }

    /// Takes a group into account.
    pub fn group(&mut self, members: &[u64]) {
        self.bytes(group_bytes(members));
    }

    /// Takes a mapping table of local definitions into account, which maps this many numbers to those of the archive.
    pub fn mapping_table(&mut self, numbers: u64) {
        self.bytes(numbers.saturating_mul(NUMBER_BYTES).saturating_add(REST_BYTES));
    }

    /// Takes something into account that has at most this many bytes.
    pub fn bytes(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes);
    }

    /// The smallest size of chunks that holds it: a power of two, from 256 KiB to 16 MiB.
    pub fn chunk_bytes(self) -> u64 {
        let power = self.bytes.checked_next_power_of_two().unwrap_or(sys::OTF2_CHUNK_SIZE_MAX);
        power.clamp(LEAST_CHUNK_BYTES, sys::OTF2_CHUNK_SIZE_MAX)
    }
}

pub(super) fn most_bytes(definition: &Definition) -> u64 {
    match definition {
        Definition::String { text, .. } => text.len() as u64 + REST_BYTES,
        Definition::Group { members, .. } => group_bytes(members),
        _ => REST_BYTES,
    }
}

/// libotf2 writes a number as one byte with its length, followed by its bytes without leading zeros.
fn group_bytes(members: &[u64]) -> u64 {
    let number = |number: &u64| 1 + 8 - u64::from(number.leading_zeros()) / 8;
    members.iter().map(number).sum::<u64>() + REST_BYTES
}
