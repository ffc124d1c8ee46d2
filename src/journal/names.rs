//! Strings become numbers: a small cache by address, checked against the bytes each time.

use super::encode::NameNumber;
use crate::event::Name;

/// Strings the cache can hold; NCCL has some forty. A slot that meets more records them again and again
/// under new numbers until the numbers run out, and then as "no string".
const ENTRIES: usize = 128;
/// The longest string that is compared as two words; longer ones are searched by content.
const SHORT_BYTES: usize = 15;

#[derive(Clone, Copy)]
struct Entry {
    address: usize,
    /// The string and its NUL, and which bits of the two words they take.
    words: [u64; 2],
    bits: [u64; 2],
    number: NameNumber,
}

/// Matches no string: no address is zero.
const EMPTY: Entry = Entry {
    address: 0,
    words: [0; 2],
    bits: [0; 2],
    number: 0,
};

impl Entry {
    fn new(address: usize, bytes: &[u8], number: NameNumber) -> Option<Self> {
        if bytes.len() > SHORT_BYTES {
            return None;
        }
        let (mut text, mut mask) = ([0_u8; 16], [0_u8; 16]);
        text.get_mut(..bytes.len())?.copy_from_slice(bytes);
        mask.get_mut(..=bytes.len())?.fill(0xff);
        let words = |bytes: u128| {
            [bytes, bytes >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0))
        };
        Some(Self {
            address,
            words: words(u128::from_le_bytes(text)),
            bits: words(u128::from_le_bytes(mask)),
            number,
        })
    }
}

/// The strings that one slot has recorded.
pub(super) struct NameCache {
    entries: Box<[Entry; ENTRIES]>,
    /// By content: what is under another address, or was pushed out of its place.
    known: Vec<(Box<[u8]>, NameNumber)>,
}

impl NameCache {
    pub(super) fn new() -> Self {
        Self {
            entries: Box::new([EMPTY; ENTRIES]),
            known: Vec::with_capacity(ENTRIES),
        }
    }

    /// Static strings lie a few bytes apart: mix the low bits.
    #[inline]
    const fn place(address: usize) -> usize {
        (address ^ (address >> 7)) % ENTRIES
    }

    /// The number of a string that is in the cache.
    #[inline]
    pub(super) fn get(&self, name: Name<'_>) -> Option<NameNumber> {
        let address = name.address();
        let entry = self.entries.get(Self::place(address))?;
        if entry.address != address {
            return None;
        }
        let [first, second] = name.first_words()?;
        let same = (first ^ entry.words[0]) & entry.bits[0] == 0
            && (second ^ entry.words[1]) & entry.bits[1] == 0;
        same.then_some(entry.number)
    }

    /// The number of a string that is not in the cache, and whether it is new to this slot.
    #[cold]
    pub(super) fn insert(&mut self, name: Name<'_>) -> (NameNumber, bool) {
        let bytes = name.bytes();
        let found = self
            .known
            .iter()
            .find(|(known, _)| **known == *bytes)
            .map(|(_, number)| *number);
        let (number, new) = match found {
            Some(number) => (number, false),
            None => match NameNumber::try_from(self.known.len() + 1) {
                Ok(number) => {
                    self.known.push((bytes.into(), number));
                    (number, true)
                }
                Err(_) => return (0, false),
            },
        };
        let address = name.address();
        if let (Some(entry), Some(new)) = (
            self.entries.get_mut(Self::place(address)),
            Entry::new(address, bytes, number),
        ) {
            *entry = new;
        }
        (number, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_address_with_other_bytes_is_another_string() {
        let mut cache = NameCache::new();
        let mut buffer = *b"RING\0";
        let number = |cache: &mut NameCache, buffer: &[u8; 5]| {
            let name = Name::from_cstr(std::ffi::CStr::from_bytes_with_nul(buffer).unwrap());
            cache.get(name).unwrap_or_else(|| cache.insert(name).0)
        };
        let ring = number(&mut cache, &buffer);
        assert_eq!(number(&mut cache, &buffer), ring);
        buffer.copy_from_slice(b"TREE\0");
        let tree = number(&mut cache, &buffer);
        assert_ne!(tree, ring);
        buffer.copy_from_slice(b"RING\0");
        assert_eq!(number(&mut cache, &buffer), ring);
        // A prefix is not the string, and neither is the string a prefix of.
        buffer.copy_from_slice(b"RIN\0G");
        let prefix = number_of(&mut cache, &buffer);
        assert_ne!(prefix, ring);
    }

    fn number_of(cache: &mut NameCache, buffer: &[u8]) -> NameNumber {
        let name = Name::from_cstr(std::ffi::CStr::from_bytes_until_nul(buffer).unwrap());
        cache.get(name).unwrap_or_else(|| cache.insert(name).0)
    }

    #[test]
    fn long_strings_get_one_number() {
        let mut cache = NameCache::new();
        let long = std::ffi::CString::new("x".repeat(60)).unwrap();
        let (number, new) = cache.insert(Name::from_cstr(&long));
        assert!(new);
        assert_eq!(cache.get(Name::from_cstr(&long)), None);
        assert_eq!(cache.insert(Name::from_cstr(&long)), (number, false));
    }
}
