//! The ranges that a thread has pushed and not popped, kept whether or not anything is recorded; the names of ranges;
//! and what is counted about ranges.

use std::ffi::{CStr, CString};
use std::hash::Hasher;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU64, Ordering};

use crate::control::steps;
use crate::control::steps::StepsOfThread;
use crate::host::process::ThreadCell;
use crate::host::threads;
use journal::uninterrupted::uninterrupted;
use journal::writer::{PermanentName, PermanentText, SlotWriter};
use nccl_events::Name;
use nccl_events::range::{MOST_LEVELS, Range, RangeCount};
use rustc_hash::FxHasher;

/// A name of a range, its domain or its category; `None` if there is none.
pub(crate) type RangeName = Option<PermanentName>;

struct OpenRange {
    begin_ticks: u64,
    range: Range<RangeName>,
    /// A range that is popped while ranges of other domains inside it are open stays as a placeholder of its level.
    is_open: bool,
}

#[derive(Default)]
pub(crate) struct OpenRanges {
    levels: Vec<OpenRange>,
    /// How many further ranges are open, which are not recorded: all, and by the number of their domain.
    all_deeper: u32,
    deeper: [(Option<u16>, u32); DEEP_DOMAINS],
    steps: StepsOfThread,
}

/// The most domains whose too deep ranges a thread counts. A pop of another domain then ends a recorded range of it.
const DEEP_DOMAINS: usize = 8;

fn number(name: RangeName) -> Option<u16> {
    name.map(PermanentName::number)
}

fn text(name: RangeName) -> &'static [u8] {
    name.map_or(&[], |name| name.text().bytes())
}

impl OpenRanges {
    /// The level of the next push; `None` if it is too deep to be recorded.
    #[inline]
    pub(crate) fn next_level(&self) -> Option<u16> {
        u16::try_from(self.levels.len()).ok().filter(|level| *level < MOST_LEVELS)
    }

    /// A range is pushed that is too deep to be recorded.
    #[cold]
    pub(crate) fn push_deeper(&mut self, domain: RangeName) {
        count_range(RangeCount::TooDeep);
        let place = self.deeper.iter_mut().find(|(of, open)| *open == 0 || *of == number(domain));
        if let Some((of, open)) = place {
            (*of, *open) = (number(domain), *open + 1);
            self.all_deeper += 1;
        }
    }

    /// Whether the pop belongs to a range that was too deep.
    #[inline]
    pub(crate) fn pops_deeper(&mut self, domain: RangeName) -> bool {
        self.all_deeper > 0 && self.pop_deeper(domain)
    }

    #[cold]
    fn pop_deeper(&mut self, domain: RangeName) -> bool {
        let place = self.deeper.iter_mut().find(|(of, open)| *open > 0 && *of == number(domain));
        place.is_some_and(|(_, open)| {
            *open -= 1;
            self.all_deeper -= 1;
            true
        })
    }

    #[inline]
    pub(crate) fn push(&mut self, begin_ticks: u64, range: Range<RangeName>) {
        if self.levels.capacity() == 0 && !self.has_room() {
            // Its pop is then one without a range.
            count_range(RangeCount::Lost);
            return;
        }
        self.levels.push(OpenRange { begin_ticks, range, is_open: true });
        if steps::is_named() {
            self.steps.begin(text(range.name));
        }
    }

    #[cold]
    fn has_room(&mut self) -> bool {
        uninterrupted(|| self.levels.try_reserve_exact(usize::from(MOST_LEVELS))).is_ok()
    }

    pub(crate) fn steps(&self) -> StepsOfThread {
        self.steps
    }

    /// The level of the innermost open range of a domain.
    #[inline]
    pub(crate) fn innermost(&self, domain: RangeName) -> Option<u16> {
        let is_it = |open: &OpenRange| open.is_open && number(open.range.domain) == number(domain);
        u16::try_from(self.levels.iter().rposition(is_it)?).ok()
    }

    #[inline]
    pub(crate) fn pop(&mut self, level: u16) {
        if let Some(open) = self.levels.get_mut(usize::from(level)) {
            open.is_open = false;
            if steps::is_named() {
                self.steps.end(text(open.range.name));
            }
        }
        while self.levels.pop_if(|open| !open.is_open).is_some() {}
    }
}

/// Runs `action` with a thread's open ranges, unless this is a handler that interrupted their use.
#[inline]
pub(super) fn with<R>(ranges: &ThreadCell<OpenRanges>, action: impl FnOnce(&mut OpenRanges) -> R) -> Option<R> {
    ranges.with(after_jump, action)
}

/// What remains of a thread's ranges when a signal handler has left their use with `siglongjmp`: their number, too, is
/// unknown.
#[cold]
fn after_jump() -> OpenRanges {
    count_range(RangeCount::Lost);
    OpenRanges::default()
}

/// Repeats a thread's open ranges.
pub(super) fn repeat(ranges: &ThreadCell<OpenRanges>, slot_writer: &mut SlotWriter) {
    with(ranges, |ranges| {
        for (level, open) in (0..).zip(&ranges.levels) {
            if open.is_open && !slot_writer.push_range(open.begin_ticks, level, true, &open.range) {
                count_range(RangeCount::Lost);
            }
        }
    });
}

// The process has one copy of each range's name, which stays: an open-addressing table that is only added to. Names
// that differ each time would fill it, so a separated number is taken out of a name: "step 17" is the name "step #"
// with the number 17.

const PLACES: usize = 2 * PermanentName::MOST;
/// Its number is the last one.
const OTHERS: &CStr = c"(other names)";
const OTHERS_NUMBER: u16 = last_number();

const fn last_number() -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "4095")]
    let number = (PermanentName::MOST - 1) as u16;
    number
}

/// Whose name it is: the last names of the table are NCCL's and those of domains and categories, which are few.
#[derive(Clone, Copy)]
pub(crate) enum NameOwner {
    Nccl,
    Program,
}

const RESERVED: u16 = 512;

static PLACE_OF: [AtomicPtr<PermanentText>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
static BY_NUMBER: [AtomicPtr<PermanentText>; PermanentName::MOST] =
    [const { AtomicPtr::new(ptr::null_mut()) }; PermanentName::MOST];
static NEXT: AtomicU16 = AtomicU16::new(0);

fn load(place: &AtomicPtr<PermanentText>) -> Option<&'static PermanentText> {
    let pointer = place.load(Ordering::Acquire);
    // SAFETY: NULL, or a leaked box that was whole when it was stored with release order.
    unsafe { pointer.as_ref() }
}

/// The name with this number.
pub(crate) fn named(number: u64) -> RangeName {
    let place = usize::try_from(number).ok().and_then(|number| BY_NUMBER.get(number))?;
    load(place).map(PermanentName)
}

/// The permanent copy of a string without NUL. The empty string is no name.
#[inline]
pub(crate) fn intern(bytes: &[u8], owner: NameOwner) -> RangeName {
    if bytes.is_empty() {
        return None;
    }
    let bytes = bytes.get(..Name::MAX_BYTES).unwrap_or(bytes);
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    let first = usize::try_from(hasher.finish() >> 16).unwrap_or(0);
    // The table is never more than half full.
    for probe in 0..PLACES {
        let place = PLACE_OF.get((first + probe) % PLACES)?;
        match load(place) {
            Some(known) if known.text.as_bytes() == bytes => return Some(PermanentName(known)),
            Some(_) => {}
            None => match add(place, bytes, owner) {
                AddedName::This(name) => return Some(name),
                AddedName::Another => {}
                AddedName::None => break,
            },
        }
    }
    name_of_others()
}

/// The name of all that came when the table was full.
#[cold]
fn name_of_others() -> RangeName {
    let place = BY_NUMBER.get(usize::from(OTHERS_NUMBER))?;
    if load(place).is_none() && !threads::has_failed() {
        let new = Box::into_raw(Box::new(PermanentText { number: OTHERS_NUMBER, text: OTHERS.to_owned() }));
        if place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and no other thread has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
    load(place).map(PermanentName)
}

/// Counts a range whose name found no room.
#[inline]
pub(crate) fn note_other(name: RangeName) {
    if name.is_some_and(|name| name.number() == OTHERS_NUMBER) {
        count_range(RangeCount::OtherNames);
    }
}

enum AddedName {
    This(PermanentName),
    /// Another thread filled the place with another name.
    Another,
    None,
}

#[cold]
fn add(place: &'static AtomicPtr<PermanentText>, bytes: &[u8], owner: NameOwner) -> AddedName {
    let end = match owner {
        NameOwner::Nccl => OTHERS_NUMBER,
        NameOwner::Program => OTHERS_NUMBER - RESERVED,
    };
    let free = |next: u16| (next < end).then_some(next + 1);
    if threads::has_failed() {
        return AddedName::None;
    }
    let Ok(number) = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free) else {
        return AddedName::None;
    };
    uninterrupted(|| add_as(number, place, bytes))
}

fn add_as(number: u16, place: &'static AtomicPtr<PermanentText>, bytes: &[u8]) -> AddedName {
    let Ok(text) = CString::new(bytes) else {
        return AddedName::None;
    };
    let new = Box::into_raw(Box::new(PermanentText { number, text }));
    // First, because other threads use the number as soon as they find the place.
    if let Some(by_number) = BY_NUMBER.get(usize::from(number)) {
        by_number.store(new, Ordering::Release);
    }
    if let Err(other) = place.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
        if let Some(by_number) = BY_NUMBER.get(usize::from(number)) {
            by_number.store(ptr::null_mut(), Ordering::Release);
        }
        // SAFETY: made above, and no other thread knows it or its number, which stays unused.
        drop(unsafe { Box::from_raw(new) });
        // SAFETY: as in `load`; it is not NULL.
        let other: &'static PermanentText = unsafe { &*other };
        return if other.text.as_bytes() == bytes { AddedName::This(PermanentName(other)) } else { AddedName::Another };
    }
    // SAFETY: made above; never freed now that other threads can see it.
    let new: &'static PermanentText = unsafe { &*new };
    AddedName::This(PermanentName(new))
}

/// The name of a range and the number in it.
#[inline]
pub(crate) fn name_and_number(text: &[u8], owner: NameOwner) -> (RangeName, Option<u64>) {
    let has_digit = text.iter().fold(false, |any, byte| any | byte.is_ascii_digit());
    if has_digit { without_number(text, owner) } else { (intern(text, owner), None) }
}

/// Replaces each run of digits that touches no letter by `#`; the last such run is the number.
fn without_number(text: &[u8], owner: NameOwner) -> (RangeName, Option<u64>) {
    let mut shape = [0_u8; Name::MAX_BYTES];
    let mut length = 0;
    let mut number = None;
    // Where the run of digits began in the shape, and its value; `None` behind a letter.
    let mut run: Option<(usize, Option<u64>)> = None;
    let mut before = b' ';
    for &byte in text.iter().chain(b" ") {
        if byte.is_ascii_digit() {
            if !before.is_ascii_alphanumeric() {
                run = Some((length, Some(0)));
            }
            if let Some((_, value)) = &mut run {
                *value = value.and_then(|value| value.checked_mul(10)?.checked_add(u64::from(byte - b'0')));
            }
        } else if let Some((begin, value)) = run.take()
            && !byte.is_ascii_alphabetic()
            && let Some(place) = shape.get_mut(begin)
        {
            *place = b'#';
            (length, number) = (begin + 1, value);
        }
        if let Some(place) = shape.get_mut(length) {
            *place = byte;
            length += 1;
        }
        before = byte;
    }
    // Without the blank behind the text.
    let length = if length == Name::MAX_BYTES { length } else { length - 1 };
    (intern(shape.get(..length).unwrap_or(&[]), owner), number)
}

// Running totals of the session.

static COUNTS: [AtomicU64; RangeCount::COUNT] = [const { AtomicU64::new(0) }; RangeCount::COUNT];

#[cold]
pub(crate) fn count_range(what: RangeCount) {
    if let Some(count) = COUNTS.get(what as usize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The totals, or `None` if they are `before`.
pub(crate) fn counts_since(before: [u64; RangeCount::COUNT]) -> Option<[u64; RangeCount::COUNT]> {
    let mut now = [0; RangeCount::COUNT];
    for (now, count) in now.iter_mut().zip(&COUNTS) {
        *now = count.load(Ordering::Relaxed);
    }
    (now != before).then_some(now)
}

/// A session begins: it counts from 0.
pub(crate) fn forget_counts() {
    for count in &COUNTS {
        count.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separated_numbers_leave_the_name() {
        let of = |text: &str| {
            let (name, number) = name_and_number(text.as_bytes(), NameOwner::Program);
            (String::from_utf8_lossy(name.expect("a name").text().bytes()).into_owned(), number)
        };
        for (text, name, number) in [
            ("forward", "forward", None),
            ("step 17", "step #", Some(17)),
            ("ProfilerStep#5", "ProfilerStep##", Some(5)),
            ("epoch 3, step 1024", "epoch #, step #", Some(1024)),
            ("layer1.conv2", "layer1.conv2", None),
            ("fp16 gemm 3x3", "fp16 gemm 3x3", None),
            ("0x1f", "0x1f", None),
            ("iter_99999999999999999999", "iter_#", None),
        ] {
            assert_eq!(of(text), (name.to_owned(), number), "{text}");
        }
        assert_eq!(name_and_number(b"", NameOwner::Program).0.map(|name| name.number()), None);
    }
}
