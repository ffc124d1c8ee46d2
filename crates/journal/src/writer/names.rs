//! Filters what a slot would record again and again. Strings get numbers, from a small cache by address, whose hits are
//! checked against the bytes, and from a table by content. Control events and waiting states that NCCL repeats
//! endlessly are counted instead.

use std::collections::TryReserveError;
use std::ffi::CString;
use std::hash::Hasher as _;
use std::ops::Range;

use crate::format::NameNumber;
use nccl_events::ids::EventId;
use nccl_events::{Name, Start, State, StateArgs, state};
use rustc_hash::FxHasher;

/// Strings that find room without further memory; NCCL has about forty.
const ENTRIES: usize = 256;
/// Bytes of their text that find room without further memory.
const TEXT_BYTES: usize = 8 << 10;
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

struct InternedName {
    hash: usize,
    /// Where its bytes are in the text of all strings.
    bytes: Range<usize>,
    number: NameNumber,
    /// The generation that recorded it last.
    recorded_in: u64,
}

/// The strings of a slot by content. Has room for NCCL's from the beginning, because callbacks allocate nothing.
struct InternedStrings {
    text: Vec<u8>,
    all: Vec<InternedName>,
    /// Open addressing, by hash: an index into `all`, plus 1; 0 is free. At least half of the places are free.
    places: Vec<u16>,
}

fn hash(bytes: &[u8]) -> usize {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    usize::try_from(hasher.finish() >> 32).unwrap_or(0)
}

impl InternedStrings {
    fn new() -> Self {
        let text = Vec::with_capacity(TEXT_BYTES);
        Self { text, all: Vec::with_capacity(ENTRIES), places: vec![0; 2 * ENTRIES] }
    }

    fn find(&mut self, bytes: &[u8]) -> Option<&mut InternedName> {
        let hash = hash(bytes);
        let places = (0..self.places.len()).map_while(|probe| self.places.get(self.place(hash, probe)));
        let mut indices = places.map_while(|index| usize::from(*index).checked_sub(1));
        let is_it = |known: &InternedName| known.hash == hash && self.text.get(known.bytes.clone()) == Some(bytes);
        let index = indices.find(|index| self.all.get(*index).is_some_and(is_it))?;
        self.all.get_mut(index)
    }

    fn has_room(&self, bytes: &[u8]) -> bool {
        self.text.capacity() - self.text.len() >= bytes.len()
            && self.all.len() < self.all.capacity()
            && 2 * (self.all.len() + 1) <= self.places.len()
    }

    /// Adds a string that is not known. Without memory it stays unknown, and is recorded again at its next use.
    fn add(&mut self, bytes: &[u8], number: NameNumber, recorded_in: u64) -> Result<(), TryReserveError> {
        self.text.try_reserve(bytes.len())?;
        self.all.try_reserve(1)?;
        if 2 * (self.all.len() + 1) > self.places.len() {
            self.make_places()?;
        }
        let begin = self.text.len();
        self.text.extend_from_slice(bytes);
        let known = InternedName { hash: hash(bytes), bytes: begin..self.text.len(), number, recorded_in };
        self.put(self.all.len(), known.hash);
        self.all.push(known);
        Ok(())
    }

    /// Makes twice as many places.
    #[cold]
    fn make_places(&mut self) -> Result<(), TryReserveError> {
        let number = 2 * self.places.len();
        let mut places = Vec::new();
        places.try_reserve_exact(number)?;
        places.resize(number, 0);
        self.places = places;
        for index in 0..self.all.len() {
            let hash = self.all.get(index).map_or(0, |known| known.hash);
            self.put(index, hash);
        }
        Ok(())
    }

    fn put(&mut self, index: usize, hash: usize) {
        let mut places = (0..self.places.len()).map(|probe| self.place(hash, probe));
        let free = places.find(|place| self.places.get(*place) == Some(&0));
        // There are no more strings than numbers, so the index plus 1 fits.
        if let (Some(free), Ok(index)) = (free.and_then(|free| self.places.get_mut(free)), u16::try_from(index + 1)) {
            *free = index;
        }
    }

    fn place(&self, hash: usize, probe: usize) -> usize {
        hash.wrapping_add(probe) & (self.places.len() - 1)
    }
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
    /// By number of a permanent string: its number in the slot, and the generation that recorded it. Empty until used.
    permanent: Vec<(NameNumber, u64)>,
    last: NameNumber,
    /// A string that was recorded in an earlier generation must be recorded again.
    generation: u64,
    /// For strings that are not in `entries`: long ones, those at another address, and those evicted.
    known: InternedStrings,
}

/// Made where they stay: a thread may have a stack of 16 KiB.
fn empty_entries() -> Box<[Entry; ENTRIES]> {
    match vec![EMPTY; ENTRIES].into_boxed_slice().try_into() {
        Ok(entries) => entries,
        Err(_) => unreachable!("as many as asked for"),
    }
}

impl NameCache {
    pub(crate) fn new() -> Self {
        Self {
            entries: empty_entries(),
            permanent: Vec::new(),
            last: 0,
            // Not 0: that is the generation of permanent strings that were never recorded.
            generation: 1,
            known: InternedStrings::new(),
        }
    }

    /// Makes the next use of every string record it again, under its number.
    #[cold]
    pub(crate) fn record_anew(&mut self) {
        self.entries.fill(EMPTY);
        self.generation += 1;
    }

    /// Forgets the addresses of strings, of which an entry may be half written.
    #[cold]
    pub(crate) fn forget_addresses(&mut self) {
        self.entries.fill(EMPTY);
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

    /// The number of a string that has a record and is not in the cache.
    #[cold]
    pub(crate) fn find_recorded(&mut self, name: Name<'_>) -> Option<NameNumber> {
        let generation = self.generation;
        let known = self.known.find(name.bytes()).filter(|known| known.recorded_in == generation);
        let number = known?.number;
        self.keep_address(name, number);
        Some(number)
    }

    /// The number under which a string is to be recorded; `None` if there are no more.
    #[cold]
    pub(crate) fn number(&mut self, name: Name<'_>) -> Option<NameNumber> {
        match self.known.find(name.bytes()) {
            Some(known) => Some(known.number),
            None => self.next_number(),
        }
    }

    /// Whether [`Self::add_recorded`] allocates nothing.
    pub(crate) fn has_room(&self, name: Name<'_>) -> bool {
        self.known.has_room(name.bytes())
    }

    /// A string has been recorded under its number.
    #[cold]
    pub(crate) fn add_recorded(&mut self, name: Name<'_>, number: NameNumber) {
        let generation = self.generation;
        match self.known.find(name.bytes()) {
            Some(known) => known.recorded_in = generation,
            None => {
                let _no_memory = self.known.add(name.bytes(), number, generation);
            }
        }
        self.keep_address(name, number);
    }

    fn keep_address(&mut self, name: Name<'_>, number: NameNumber) {
        let address = name.address();
        let place = self.place_for(address);
        if let (Some(entry), Some(new)) = (self.entries.get_mut(place), Entry::new(address, name.bytes(), number)) {
            *entry = new;
        }
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

    pub(crate) fn has_room_for_permanent(&self) -> bool {
        !self.permanent.is_empty()
    }

    pub(crate) fn make_room_for_permanent(&mut self) {
        if self.permanent.try_reserve_exact(PermanentName::MOST).is_ok() {
            self.permanent.resize(PermanentName::MOST, (0, 0));
        }
    }

    /// The number under which a permanent string is to be recorded; `None` if there are no more, or no memory for them.
    #[cold]
    pub(crate) fn number_permanent(&mut self, name: PermanentName) -> Option<NameNumber> {
        let (number, _) = *self.permanent.get(usize::from(name.number()))?;
        if number == 0 { self.next_number() } else { Some(number) }
    }

    /// A permanent string has been recorded under its number.
    #[cold]
    pub(crate) fn add_recorded_permanent(&mut self, name: PermanentName, number: NameNumber) {
        if let Some(place) = self.permanent.get_mut(usize::from(name.number())) {
            *place = (number, self.generation);
        }
    }
}

// Up to 2.26 the proxy thread starts and stops a control event in each iteration of its loop, some hundred thousand
// times a second, almost always without a state. A step that waits for its peer enters the same state again with each
// attempt to send (`SendPeerWait`, up to 2.26 `ProxyOpSendRemFifoWait`). Both would fill the journal: they are counted.

/// The start of a proxy control event that has not entered a state yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingControl {
    /// The event's id; [`EventId::NONE`] while no event is held.
    pub(crate) id: EventId,
    pub(crate) ticks: u64,
    pub(crate) parent: u64,
    pub(crate) context: u64,
    pub(crate) rank: i32,
}

impl PendingControl {
    pub(crate) const NONE: Self = Self { id: EventId::NONE, ticks: 0, parent: 0, context: 0, rank: 0 };

    pub(crate) const fn new(id: EventId, ticks: u64, event: &Start<Name<'_>>) -> Self {
        Self { id, ticks, parent: event.parent, context: event.context, rank: event.rank }
    }
}

/// Number of waiting events that are distinguished. Two events that share a place are recorded more often than needed;
/// the readers recognise and count the repetitions.
const PLACES: usize = 2048;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wait {
    /// The waiting event; 0 if the place is free.
    event: u64,
    /// State (low half) and step of the operation (high half).
    which: u64,
}

/// The waiting states that a slot has recorded.
pub(crate) struct Waits {
    recorded: Box<[Wait]>,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Self { recorded: vec![Wait::default(); PLACES].into_boxed_slice() }
    }

    /// Whether this is a waiting state that is already recorded. Remembers a new one.
    #[inline]
    pub(crate) fn repeats(&mut self, change: &State) -> bool {
        let step = match (change.state, change.args) {
            (state::PROXY_STEP_SEND_PEER_WAIT, _) => 0,
            // An operation of v1 to v3 waits once for each of its steps and reports the step's number.
            (state::PROXY_OP_SEND_REM_FIFO_WAIT, StateArgs::ProxyOp { steps, .. }) => steps,
            _ => return false,
        };
        self.remember(change, step)
    }

    #[cold]
    fn remember(&mut self, change: &State, step: i32) -> bool {
        let wait = Wait { event: change.event, which: u64::from(change.state) | u64::from(step.cast_unsigned()) << 32 };
        let sequence = EventId::from_raw(change.event).sequence();
        let place = usize::try_from(sequence % PLACES as u64).unwrap_or(0);
        match self.recorded.get_mut(place) {
            Some(recorded) if *recorded == wait => true,
            Some(recorded) => {
                *recorded = wait;
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    /// The number of a string, and whether it had to be recorded.
    fn insert(cache: &mut NameCache, name: Name<'_>) -> (NameNumber, bool) {
        if let Some(number) = cache.find_recorded(name) {
            return (number, false);
        }
        let number = cache.number(name).expect("a number");
        cache.add_recorded(name, number);
        (number, true)
    }

    #[test]
    fn same_address_with_other_bytes_is_another_string() {
        let mut cache = NameCache::new();
        let mut buffer = *b"RING\0";
        let mut number = |bytes: &[u8; 5]| {
            buffer = *bytes;
            let name = Name::from_cstr(CStr::from_bytes_until_nul(&buffer).unwrap());
            cache.get(name).unwrap_or_else(|| insert(&mut cache, name).0)
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
        let numbers: Vec<NameNumber> =
            strings.iter().map(|string| insert(&mut cache, Name::from_cstr(string)).0).collect();
        for (string, number) in strings.iter().zip(numbers) {
            let name = Name::from_cstr(string);
            // A string at the very end of a page is never compared as words.
            assert_eq!(cache.get(name), name.first_words().map(|_| number));
        }
    }

    #[test]
    fn more_strings_than_there_is_room_for_keep_their_numbers() {
        let mut cache = NameCache::new();
        let strings: Vec<CString> = (0..5000).map(|n| CString::new(format!("{n} of a long name")).unwrap()).collect();
        let mut numbers = || -> Vec<(NameNumber, bool)> {
            strings.iter().map(|string| insert(&mut cache, Name::from_cstr(string))).collect()
        };
        let first = numbers();
        assert!(first.iter().zip(1..).all(|(known, number)| *known == (number, true)));
        assert!(numbers().iter().zip(1..).all(|(known, number)| *known == (number, false)));
        assert_eq!([c"", c"0"].map(|string| insert(&mut cache, Name::from_cstr(string))), [(5001, true), (5002, true)]);
        assert_eq!(insert(&mut cache, Name::from_cstr(c"")), (5001, false));
    }

    #[test]
    fn strings_keep_their_number() {
        let mut cache = NameCache::new();
        let long = CString::new("x".repeat(60)).unwrap();
        let [ring, long] = [c"RING", &long].map(Name::from_cstr);
        let numbers = [ring, long].map(|name| insert(&mut cache, name));
        assert_eq!(numbers.map(|(_, is_new)| is_new), [true; 2]);
        assert_eq!((cache.get(long), insert(&mut cache, long)), (None, (numbers[1].0, false)));
        cache.record_anew();
        assert_eq!(cache.get(ring), None);
        assert_eq!(insert(&mut cache, ring), numbers[0]);
        assert_eq!(insert(&mut cache, ring), (numbers[0].0, false));
    }
}
