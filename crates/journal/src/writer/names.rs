//! Numbers for strings: a small cache by address, whose hits are checked against the bytes.

use std::ffi::CString;

use crate::format::encode::NameNumber;
use nccl_events::Name;

/// Strings that the cache can hold; NCCL has about forty. A slot with more strings records the others repeatedly under
/// new numbers until the numbers run out, and after that as "no string".
const ENTRIES: usize = 256;
/// Number of consecutive places for a string, starting at the hash of its address; the first free one is used.
const PROBES: usize = 8;
/// The longest string that is compared as two words; longer strings are looked up by content.
const SHORT_BYTES: usize = 15;

#[derive(Clone, Copy)]
struct Entry {
    address: usize,
    /// The string with its NUL, and a mask of the bits that it occupies in the two words.
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

/// A string that stays until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct PermanentName(pub &'static PermanentText);

/// The string and its number.
#[derive(Debug)]
pub struct PermanentText {
    /// The number of the string in the process, from 0 and below [`PermanentName::MOST`].
    pub number: u16,
    /// The string.
    pub text: CString,
}

impl PermanentName {
    /// The most permanent strings of a process.
    pub const MOST: usize = 4096;

    /// The number of the string in the process.
    #[inline]
    pub const fn number(self) -> u16 {
        self.0.number
    }

    /// The string.
    pub fn text(self) -> Name<'static> {
        Name::from_cstr(&self.0.text)
    }
}

pub(crate) struct NameCache {
    entries: Box<[Entry; ENTRIES]>,
    /// Strings by content: those at another address, and those evicted from `entries`.
    known: Vec<Known>,
    /// By number of a permanent string: its number in the slot, and the generation that recorded it. Empty until used.
    permanent: Vec<(NameNumber, u64)>,
    last: NameNumber,
    /// A string that was recorded in an earlier generation must be recorded again.
    generation: u64,
}

impl NameCache {
    pub(crate) fn new() -> Self {
        Self {
            entries: Box::new([EMPTY; ENTRIES]),
            known: Vec::with_capacity(ENTRIES),
            permanent: Vec::new(),
            last: 0,
            // Not 0: that is the generation of permanent strings that were never recorded.
            generation: 1,
        }
    }

    /// Makes the next use of every string record it again, under its number.
    #[cold]
    pub(crate) fn record_anew(&mut self) {
        self.entries.fill(EMPTY);
        self.generation += 1;
    }

    /// First place to search for a string. The high bits of the product depend on all bits of the address.
    #[inline]
    const fn place(address: usize) -> usize {
        address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - ENTRIES.ilog2())
    }

    /// The number of a string, if it is in the cache.
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

    /// The place for a string of this address: its own, else the first free one, else the first one.
    fn place_for(&self, address: usize) -> usize {
        let first = Self::place(address);
        let free = (0..PROBES)
            .map(|probe| (first + probe) % ENTRIES)
            .find(|place| self.entries.get(*place).is_some_and(|entry| entry.address == address || entry.address == 0));
        free.unwrap_or(first)
    }

    /// The number of a string that is not in the cache, and whether it must be recorded.
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
            None => {
                let Some(number) = self.next_number() else {
                    return (0, false);
                };
                self.known.push(Known { text: bytes.into(), number, recorded_in: generation });
                (number, true)
            }
        };
        let address = name.address();
        let place = self.place_for(address);
        if let (Some(entry), Some(new)) = (self.entries.get_mut(place), Entry::new(address, bytes, number)) {
            *entry = new;
        }
        (number, new)
    }

    fn next_number(&mut self) -> Option<NameNumber> {
        self.last = self.last.checked_add(1)?;
        Some(self.last)
    }

    /// The number of a permanent string, if it need not be recorded.
    #[inline]
    pub(crate) fn get_permanent(&self, name: PermanentName) -> Option<NameNumber> {
        let &(number, recorded_in) = self.permanent.get(usize::from(name.number()))?;
        (recorded_in == self.generation).then_some(number)
    }

    /// The number of a permanent string that must be recorded; 0 if there are no more numbers.
    #[cold]
    pub(crate) fn insert_permanent(&mut self, name: PermanentName) -> NameNumber {
        if self.permanent.is_empty() {
            if self.permanent.try_reserve_exact(PermanentName::MOST).is_err() {
                return 0;
            }
            self.permanent.resize(PermanentName::MOST, (0, 0));
        }
        let before = self.permanent.get(usize::from(name.number())).map_or(0, |(number, _)| *number);
        let number = if before == 0 { self.next_number().unwrap_or(0) } else { before };
        if let Some(place) = self.permanent.get_mut(usize::from(name.number())) {
            *place = (number, self.generation);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn same_address_with_other_bytes_is_another_string() {
        let mut cache = NameCache::new();
        let mut buffer = *b"RING\0";
        let mut number = |bytes: &[u8; 5]| {
            buffer = *bytes;
            let name = Name::from_cstr(CStr::from_bytes_until_nul(&buffer).unwrap());
            cache.get(name).unwrap_or_else(|| cache.insert(name).0)
        };
        // Neither a prefix of the string nor an extension of it matches.
        let [ring, again, tree, back, prefix] =
            [b"RING\0", b"RING\0", b"TREE\0", b"RING\0", b"RIN\0G"].map(&mut number);
        assert_eq!((again, back), (ring, ring));
        assert!(tree != ring && prefix != ring);
    }

    #[test]
    fn a_crowd_of_strings_stays_in_the_cache() {
        let mut cache = NameCache::new();
        let strings: Vec<CString> = (0..60).map(|n| CString::new(format!("name{n}")).unwrap()).collect();
        let numbers: Vec<NameNumber> = strings.iter().map(|string| cache.insert(Name::from_cstr(string)).0).collect();
        for (string, number) in strings.iter().zip(numbers) {
            let name = Name::from_cstr(string);
            // A string at the very end of a page is never compared as words.
            assert_eq!(cache.get(name), name.first_words().map(|_| number));
        }
    }

    #[test]
    fn strings_keep_their_number() {
        let mut cache = NameCache::new();
        let long = CString::new("x".repeat(60)).unwrap();
        let [ring, long] = [c"RING", &long].map(Name::from_cstr);
        let numbers = [ring, long].map(|name| cache.insert(name));
        assert_eq!(numbers.map(|(_, is_new)| is_new), [true; 2]);
        assert_eq!((cache.get(long), cache.insert(long)), (None, (numbers[1].0, false)));
        cache.record_anew();
        assert_eq!(cache.get(ring), None);
        assert_eq!(cache.insert(ring), numbers[0]);
        assert_eq!(cache.insert(ring), (numbers[0].0, false));
    }
}
