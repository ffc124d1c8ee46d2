//! Asking for memory before it is needed: operations are many and are visited lane by lane, so the next one is mostly in
//! no cache.

/// How many visits ahead to ask: further than memory is away, nearer than a cache is large.
pub(crate) const AHEAD: usize = 12;

/// Bytes that come at once.
const LINE_BYTES: usize = 64;

/// Has something brought near. Changes nothing but the time that reading it takes.
#[inline]
pub(crate) fn bring_near<T>(thing: &T) {
    let begin = (&raw const *thing).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        ask(begin.wrapping_add(offset));
    }
    // It may begin in the middle of a line, and end in one more.
    if align_of::<T>() < LINE_BYTES {
        ask(begin.wrapping_add(size_of::<T>().saturating_sub(1)));
    }
}

/// Goes through a list; what its elements lead to is near by then.
pub(crate) fn visit<'a, T, U: 'a>(
    list: &'a [T],
    leads_to: impl Fn(&'a T) -> Option<&'a U>,
) -> impl Iterator<Item = &'a T> {
    list.iter().enumerate().map(move |(at, one)| {
        if let Some(soon) = list.get(at + AHEAD).and_then(&leads_to) {
            bring_near(soon);
        }
        one
    })
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ask(address: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint: the processor reads nothing for the program, and no address makes it fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
}

/// Nothing that stable Rust offers.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ask(_address: *const i8) {}
