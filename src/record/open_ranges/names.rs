//! The names of ranges, one copy in the process, which stays: an open-addressing table that is only added to.
//!
//! Names that differ each time would fill it, so a separated number is taken out of a name: "step 17" is the name
//! "step #" with the number 17.

use std::ffi::{CStr, CString};
use std::hash::Hasher;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU16, Ordering};

use super::RangeName;
use super::counts::count;
use crate::host::memory;
use journal::writer::PermanentName;
use nccl_events::Name;
use nccl_events::range::RangeCount;
use rustc_hash::FxHasher;

struct Interned {
    text: CString,
    number: u16,
}

impl Interned {
    fn name(&'static self) -> PermanentName {
        PermanentName { number: self.number, text: Name::from_cstr(&self.text) }
    }
}

const PLACES: usize = 2 * PermanentName::MOST;
/// The name of all that came when the table was full; its number is the last one.
const OTHERS: &CStr = c"(other names)";
const OTHERS_NUMBER: u16 = last_number();

const fn last_number() -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "4095")]
    let number = (PermanentName::MOST - 1) as u16;
    number
}

/// Whose name it is: the last names of the table are NCCL's and those of domains and categories, which are few.
#[derive(Clone, Copy)]
pub(crate) enum Whose {
    Nccl,
    Program,
}

const RESERVED: u16 = 512;

static PLACE_OF: [AtomicPtr<Interned>; PLACES] = [const { AtomicPtr::new(ptr::null_mut()) }; PLACES];
static BY_NUMBER: [AtomicPtr<Interned>; PermanentName::MOST] =
    [const { AtomicPtr::new(ptr::null_mut()) }; PermanentName::MOST];
static NEXT: AtomicU16 = AtomicU16::new(0);

fn load(place: &AtomicPtr<Interned>) -> Option<&'static Interned> {
    let pointer = place.load(Ordering::Acquire);
    // SAFETY: NULL, or a leaked box that was whole when it was stored with release order.
    unsafe { pointer.as_ref() }
}

/// The name with this number.
pub(crate) fn named(number: u64) -> RangeName {
    if number == u64::from(OTHERS_NUMBER) {
        return Some(PermanentName { number: OTHERS_NUMBER, text: Name::from_cstr(OTHERS) });
    }
    let place = usize::try_from(number).ok().and_then(|number| BY_NUMBER.get(number))?;
    load(place).map(Interned::name)
}

/// The permanent copy of a string without NUL. The empty string is no name.
#[inline]
pub(crate) fn intern(bytes: &[u8], whose: Whose) -> RangeName {
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
            Some(known) if known.text.as_bytes() == bytes => return Some(known.name()),
            Some(_) => {}
            None => match add(place, bytes, whose) {
                Added::This(name) => return Some(name),
                Added::Another => {}
                Added::None => break,
            },
        }
    }
    named(OTHERS_NUMBER.into())
}

/// Counts a range whose name found no room.
#[inline]
pub(crate) fn note_other(name: RangeName) {
    if name.is_some_and(|name| name.number == OTHERS_NUMBER) {
        count(RangeCount::OtherNames);
    }
}

enum Added {
    This(PermanentName),
    /// Another thread filled the place with another name.
    Another,
    None,
}

#[cold]
fn add(place: &'static AtomicPtr<Interned>, bytes: &[u8], whose: Whose) -> Added {
    let end = match whose {
        Whose::Nccl => OTHERS_NUMBER,
        Whose::Program => OTHERS_NUMBER - RESERVED,
    };
    let free = |next: u16| (next < end).then_some(next + 1);
    if memory::has_failed() {
        return Added::None;
    }
    let Ok(number) = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free) else {
        return Added::None;
    };
    let Ok(text) = CString::new(bytes) else {
        return Added::None;
    };
    let new = Box::into_raw(Box::new(Interned { text, number }));
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
        let other: &'static Interned = unsafe { &*other };
        return if other.text.as_bytes() == bytes { Added::This(other.name()) } else { Added::Another };
    }
    // SAFETY: made above; never freed now that other threads can see it.
    let new: &'static Interned = unsafe { &*new };
    Added::This(new.name())
}

/// The name of a range and the number in it.
#[inline]
pub(crate) fn name_and_number(text: &[u8], whose: Whose) -> (RangeName, Option<u64>) {
    let has_digit = text.iter().fold(false, |any, byte| any | byte.is_ascii_digit());
    if has_digit { without_number(text, whose) } else { (intern(text, whose), None) }
}

/// Replaces each run of digits that no letter or digit touches by `#`; the last run is the number.
fn without_number(text: &[u8], whose: Whose) -> (RangeName, Option<u64>) {
    let mut shape = [0_u8; Name::MAX_BYTES];
    let mut length = 0;
    let mut number = None;
    let mut rest = text;
    let mut before = b' ';
    while let Some((&first, behind)) = rest.split_first() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (run, after) = rest.split_at_checked(digits).unwrap_or((rest, &[]));
        let touches = |byte: u8| byte.is_ascii_alphabetic();
        let is_number = digits > 0 && !touches(before) && !after.first().is_some_and(|&byte| touches(byte));
        let (bytes, next): (&[u8], &[u8]) = match digits {
            0 => (std::slice::from_ref(&first), behind),
            _ if is_number => (b"#", after),
            _ => (run, after),
        };
        if is_number {
            number = run.iter().try_fold(0_u64, |sum, byte| sum.checked_mul(10)?.checked_add(u64::from(byte - b'0')));
        }
        for &byte in bytes {
            if let Some(to) = shape.get_mut(length) {
                *to = byte;
                length += 1;
            }
        }
        before = bytes.last().copied().unwrap_or(b' ');
        rest = next;
    }
    (intern(shape.get(..length).unwrap_or(&[]), whose), number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separated_numbers_leave_the_name() {
        let of = |text: &str| {
            let (name, number) = name_and_number(text.as_bytes(), Whose::Program);
            (String::from_utf8_lossy(name.expect("a name").text.bytes()).into_owned(), number)
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
        assert_eq!(name_and_number(b"", Whose::Program).0.map(|name| name.number), None);
    }
}
