//! Segments of journals, short: what every header has is added, and what must fit to its place is made to fit. So most
//! changes of an input are changes of what records say.
//!
//! | bytes | meaning |
//! |---|---|
//! | 1 | slot, number of the file, place in it; whether marks of records are left as they are |
//! | 1 | how many words of the header differ |
//! | 9 each | one of them: which, and its value |
//! | the rest | what is behind the header |

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use journal::format::{FORMAT_VERSION, HEADER_WORDS, MAGIC, RECORD_HEADER_WORDS, RECORD_MAX_WORDS};
use journal::format::{SEGMENT_BYTES, header, mark, pair};

use crate::pieces::Piece;

pub(crate) const SEGMENT: u8 = b'S';

const HEADER_BYTES: usize = 8 * HEADER_WORDS;
const MARKS_AS_THEY_ARE: u8 = 1 << 7;
/// More segments of a journal are not read.
const MOST: usize = 16;

pub(crate) struct Segment {
    slot: u16,
    file: u8,
    place: u64,
    pub(crate) words: Vec<u64>,
    /// Where its records begin, and the last one ends.
    ends: Vec<usize>,
}

impl Segment {
    pub(crate) fn all(pieces: &[Piece<'_>]) -> Vec<Self> {
        let mut orders = BTreeMap::new();
        let pieces = pieces.iter().filter(|piece| piece.kind == SEGMENT);
        pieces.take(MOST).filter_map(|piece| Self::parse(piece.bytes, &mut orders)).collect()
    }

    fn parse(bytes: &[u8], orders: &mut BTreeMap<u16, u64>) -> Option<Self> {
        let (&[where_to, changes], mut rest) = bytes.split_first_chunk()?;
        let slot = u16::from(where_to & 3);
        let mut head = [0; HEADER_WORDS];
        let order = orders.entry(slot).or_insert(0);
        head[header::MAGIC] = MAGIC;
        head[header::VERSION] = u64::from(FORMAT_VERSION) | (HEADER_WORDS as u64) << 32 | u64::from(slot) << 48;
        head[header::ORDER] = *order;
        head[header::PROCESS] = pair(0x100, 4711);
        head[header::SESSION] = 1_700_000_000_000_000_000;
        head[header::BYTES] = SEGMENT_BYTES as u64;
        *order += 1;
        let mut changed = Vec::new();
        for _change in 0..changes & 0xf {
            let (change, others) = rest.split_first_chunk::<9>()?;
            let word = usize::from(change[0]) % HEADER_WORDS;
            head[word] = change[1..].try_into().map_or(0, u64::from_le_bytes);
            changed.push(word);
            rest = others;
        }
        let (records, _) = rest.as_chunks::<8>();
        let mut words: Vec<u64> = head.to_vec();
        words.extend(records.iter().map(|word| u64::from_le_bytes(*word)));
        words.truncate(SEGMENT_BYTES / 8);
        let order = head[header::ORDER];
        let mut ends = vec![HEADER_WORDS];
        let mut at = HEADER_WORDS;
        while where_to & MARKS_AS_THEY_ARE == 0 && at < words.len() {
            let length = (words[at] >> 16 & 0xffff) as usize;
            words[at] = words[at] & 0xffff_ffff | u64::from(mark(order, at)) << 32;
            if !(RECORD_HEADER_WORDS..=RECORD_MAX_WORDS).contains(&length) {
                break;
            }
            at = (at + length).min(words.len());
            ends.push(at);
        }
        if !changed.contains(&header::COMMITTED) {
            words[header::COMMITTED] = 8 * words.len() as u64;
        }
        Some(Self { slot, file: where_to >> 2 & 7, place: u64::from(where_to >> 5 & 3), words, ends })
    }

    /// Whether each has a place of its own. In a flight recording a place is used again, and what was there is gone.
    pub(crate) fn are_apart(segments: &[Self]) -> bool {
        let places: BTreeSet<_> = segments.iter().map(|segment| (segment.slot, segment.file, segment.place)).collect();
        places.len() == segments.len()
    }

    /// A segment as a piece of an input, some words of its header changed.
    pub(crate) fn shortened(bytes: &[u8], changed: &[(usize, u64)], (slot, file): (u8, u8)) -> Vec<u8> {
        let mut words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let committed = usize::try_from(words[header::COMMITTED]).expect("small");
        for (word, value) in changed {
            words[*word] = *value;
        }
        let where_to = slot | file << 2;
        let same = Self::parse(&[where_to, 0], &mut BTreeMap::new()).expect("a segment");
        let differ = (0..HEADER_WORDS).filter(|word| *word != header::COMMITTED && words[*word] != same.words[*word]);
        let changes: Vec<[u8; 9]> = differ
            .map(|word| {
                let mut change = [u8::try_from(word).expect("few words"); 9];
                change[1..].copy_from_slice(&words[word].to_le_bytes());
                change
            })
            .collect();
        let head = [where_to, u8::try_from(changes.len()).expect("few")];
        [&head[..], changes.as_flattened(), &bytes[HEADER_BYTES..committed]].concat()
    }

    /// Writes it, as if only its first records were there yet; of those that are whole.
    pub(crate) fn write(&self, journal: &Path, records: usize) {
        let path = self.path(journal);
        let file = File::options().create(true).write(true).truncate(false).open(path).expect("a file");
        let mut words = self.words.clone();
        if let Some(end) = self.ends.get(records) {
            words[header::COMMITTED] = words[header::COMMITTED].min(8 * *end as u64);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.write_all_at(&bytes, self.place * SEGMENT_BYTES as u64).expect("written");
    }

    pub(crate) fn records(&self) -> usize {
        self.ends.len() - 1
    }

    pub(crate) fn path(&self, journal: &Path) -> std::path::PathBuf {
        journal.join(format!("{}.{}", self.slot, self.file))
    }
}

pub(crate) fn write_all(segments: &[Segment], journal: &Path) {
    fs::create_dir_all(journal).expect("a directory");
    for segment in segments {
        segment.write(journal, usize::MAX);
    }
}
