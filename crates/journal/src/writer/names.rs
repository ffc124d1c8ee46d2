//! Strings become numbers: a small cache by address, checked against the bytes each time.

use crate::format::encode::NameNumber;
use nccl_events::Name;

/// Strings the cache can hold; NCCL has some forty. A slot that meets more records them again and again
/// under new numbers until the numbers run out, and then as "no string".
const ENTRIES: usize = 256;
/// Places a string may be in, one after the other: the first free one from where its address points.
const PROBES: usize = 8;
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
const EMPTY: Entry = Entry { address: 0, words: [0; 2], bits: [0; 2], number: 0 };

impl Entry {
    fn new(address: usize, bytes: &[u8], number: NameNumber) -> Option<Self> {
        if bytes.len() > SHORT_BYTES {
            return None;
        }
        let (mut text, mut mask) = ([0_u8; 16], [0_u8; 16]);
        text.get_mut(..bytes.len())?.copy_from_slice(bytes);
        mask.get_mut(..=bytes.len())?.fill(0xff);
        let words =
            |bytes: u128| [bytes, bytes >> 64].map(|half| u64::try_from(half & u128::from(u64::MAX)).unwrap_or(0));
        Some(Self { address, words: words(u128::from_le_bytes(text)), bits: words(u128::from_le_bytes(mask)), number })
    }
}

struct Known {
    text: Box<[u8]>,
    number: NameNumber,
    recorded_in: u64,
}

pub(crate) struct NameCache {
    entries: Box<[Entry; ENTRIES]>,
    /// By content: what is under another address, or was pushed out of its place.
    known: Vec<Known>,
    /// Strings recorded in an earlier generation have to be recorded again.
    generation: u64,
}

impl NameCache {
    pub(crate) fn new() -> Self {
        Self { entries: Box::new([EMPTY; ENTRIES]), known: Vec::with_capacity(ENTRIES), generation: 0 }
    }

    /// Has every string recorded again when it is next used, under the number it has.
    #[cold]
    pub(crate) fn record_anew(&mut self) {
        self.entries.fill(EMPTY);
        self.generation += 1;
    }

    /// Where the search for a string begins (the high bits of a product mix all bits of the address).
    #[inline]
    const fn place(address: usize) -> usize {
        address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - ENTRIES.ilog2())
    }

    /// The number of a string that is in the cache.
    #[inline]
    pub(crate) fn get(&self, name: Name<'_>) -> Option<NameNumber> {
        let address = name.address();
        let first = Self::place(address);
        for probe in 0..PROBES {
            let entry = self.entries.get((first + probe) % ENTRIES)?;
            if entry.address == address {
                let [low, high] = name.first_words()?;
                let same = (low ^ entry.words[0]) & entry.bits[0] == 0 && (high ^ entry.words[1]) & entry.bits[1] == 0;
                return same.then_some(entry.number);
            }
            if entry.address == 0 {
                return None;
            }
        }
        None
    }

    /// Where a string of this address goes: its own place, the first free one, or over the first.
    fn place_for(&self, address: usize) -> usize {
        let first = Self::place(address);
        let free = (0..PROBES)
            .map(|probe| (first + probe) % ENTRIES)
            .find(|place| self.entries.get(*place).is_some_and(|entry| entry.address == address || entry.address == 0));
        free.unwrap_or(first)
    }

    /// The number of a string that is not in the cache, and whether it has to be recorded.
    #[cold]
    pub(crate) fn insert(&mut self, name: Name<'_>) -> (NameNumber, bool) {
        let bytes = name.bytes();
        let generation = self.generation;
        let mut known = self.known.iter_mut();
        let (number, new) = match known.find(|known| *known.text == *bytes) {
            Some(known) => {
                let before = std::mem::replace(&mut known.recorded_in, generation);
                (known.number, before != generation)
            }
            None => match NameNumber::try_from(self.known.len() + 1) {
                Ok(number) => {
                    self.known.push(Known { text: bytes.into(), number, recorded_in: generation });
                    (number, true)
                }
                Err(_) => return (0, false),
            },
        };
        let address = name.address();
        let place = self.place_for(address);
        if let (Some(entry), Some(new)) = (self.entries.get_mut(place), Entry::new(address, bytes, number)) {
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
    fn a_crowd_of_strings_stays_in_the_cache() {
        let mut cache = NameCache::new();
        let strings: Vec<std::ffi::CString> =
            (0..60).map(|n| std::ffi::CString::new(format!("name{n}")).unwrap()).collect();
        let numbers: Vec<NameNumber> = strings.iter().map(|string| cache.insert(Name::from_cstr(string)).0).collect();
        for (string, number) in strings.iter().zip(numbers) {
            let name = Name::from_cstr(string);
            // A string at the very end of a page is never compared as words.
            let expected = name.first_words().map(|_| number);
            assert_eq!(cache.get(name), expected);
        }
    }

    #[test]
    fn strings_keep_their_number_when_they_are_recorded_anew() {
        let mut cache = NameCache::new();
        let [ring, tree] = [c"RING", c"TREE"].map(Name::from_cstr);
        let numbers = [cache.insert(ring), cache.insert(tree)];
        cache.record_anew();
        assert_eq!(cache.get(tree), None);
        assert_eq!(cache.insert(tree), numbers[1]);
        assert_eq!(cache.insert(tree), (numbers[1].0, false));
        assert_eq!(cache.insert(ring), numbers[0]);
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
