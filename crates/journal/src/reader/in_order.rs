//! Reads all slots of a journal together, in chronological order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::vec;

use super::Segments;
use crate::format::layout::HEADER_WORDS;
use crate::format::record::Record;
use crate::segments::Symbols;
use crate::segments::segment::{Names, SegmentPlace, SlotStrings, Stretch, read_record, read_words};

/// The records of a journal ordered by ticks, then by slot. A slot's own records keep their order. Holds one segment of
/// each slot in memory. Only [`super::Journal::read`] reports problems and losses.
#[derive(Debug)]
pub struct InOrder {
    slots: Vec<Slot>,
    /// The slots that have a next record, by its ticks.
    due: BinaryHeap<Reverse<(u64, usize)>>,
    symbols: Symbols,
}

impl Segments {
    /// Reads what was committed when the journal was opened. `symbols` assigns the numbers of strings.
    pub fn in_order(&self, symbols: Symbols) -> InOrder {
        let slots = self.0.iter().map(|(number, places)| Slot::new(*number, places.clone()));
        let mut records = InOrder { slots: slots.collect(), due: BinaryHeap::new(), symbols };
        for (index, slot) in records.slots.iter_mut().enumerate() {
            slot.advance(&mut records.symbols);
            records.due.extend(slot.next.as_ref().map(|record| Reverse((record.ticks, index))));
        }
        records
    }
}

impl Iterator for InOrder {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let mut due = self.due.peek_mut()?;
        let slot = self.slots.get_mut(due.0.1)?;
        let record = slot.next.take();
        slot.advance(&mut self.symbols);
        match &slot.next {
            Some(next) => due.0.0 = next.ticks,
            None => drop(PeekMut::pop(due)),
        }
        record
    }
}

#[derive(Debug)]
struct Slot {
    number: u16,
    places: vec::IntoIter<SegmentPlace>,
    /// The segment being read, followed by its buffer, its committed words and the index of the next word.
    place: Option<SegmentPlace>,
    buffer: Vec<u8>,
    end: usize,
    at: usize,
    names: Names,
    next: Option<Record>,
}

impl Slot {
    fn new(number: u16, places: Vec<SegmentPlace>) -> Self {
        let places = places.into_iter();
        Self { number, places, place: None, buffer: Vec::new(), end: 0, at: 0, names: Names::new(), next: None }
    }

    fn advance(&mut self, symbols: &mut Symbols) {
        self.next = None;
        while self.next.is_none() {
            if self.at >= self.end && !self.load() {
                return;
            }
            let Some(place) = &self.place else { return };
            let (words, _) = self.buffer.as_chunks::<8>();
            let segment = words.get(..self.end).unwrap_or(words);
            let next = &mut self.next;
            let mut sink = |record: Record| *next = Some(record);
            let stretch = Stretch { words: segment, first: 0 };
            let mut strings = SlotStrings { slot: self.number, names: &mut self.names, symbols: &mut *symbols };
            let read = read_record(stretch, self.at, place, &mut strings, &mut sink);
            // A bad record ends the reading of its segment.
            self.at = read.map_or(self.end, |words| self.at + words);
        }
    }

    fn load(&mut self) -> bool {
        loop {
            self.place = self.places.next();
            let Some(place) = &self.place else {
                self.buffer = Vec::new();
                return false;
            };
            if place.earlier.is_some() {
                self.names = Names::new();
            }
            if let Ok((segment, _)) = read_words(place, &mut self.buffer)
                && segment.len() > HEADER_WORDS
            {
                (self.at, self.end) = (HEADER_WORDS, segment.len());
                return true;
            }
        }
    }
}
