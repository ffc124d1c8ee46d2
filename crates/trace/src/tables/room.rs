//! Room for lists of very many. The system gives memory when it is first touched, page by page, which for a million operations takes a
//! tenth of all time; asked for by the megabyte it takes a fraction of that.

use crate::tables::place::index;

/// For how many elements room is made at once.
const STEP: u32 = 1 << 14;

/// Adds to a list that may become very long. Of a short one nothing is asked for: that would be waste.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, one: T) {
    let step = index(STEP);
    if list.len().is_multiple_of(step) && list.len() >= step {
        // A list that has become long becomes longer yet; what is not used of its room is no memory, and a move is work.
        if list.capacity() == list.len() {
            list.reserve(3 * list.len());
        }
        make_room(list, step);
    }
    list.push(one);
}

#[cold]
fn make_room<T>(list: &mut Vec<T>, more: usize) {
    list.reserve(more);
    let spare = list.spare_capacity_mut();
    let Some(spare) = spare.get_mut(..more) else {
        return;
    };
    let bytes = size_of_val(spare);
    let begin = spare.as_mut_ptr().cast::<u8>();
    let skipped = begin.align_offset(PAGE_BYTES);
    let whole = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    touch(begin.wrapping_add(skipped), whole);
}

/// A multiple of what pages have.
const PAGE_BYTES: usize = 1 << 16;

/// Has pages given. Kernels before 5.14 do not know that; then it is as without.
fn touch(begin: *mut u8, bytes: usize) {
    // SAFETY: this changes no byte, only when pages are given; `make_room` passes whole pages of a list's own memory.
    let _given = unsafe { libc::madvise(begin.cast(), bytes, libc::MADV_POPULATE_WRITE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_as_any_other() {
        let mut list = Vec::new();
        let count = u64::from(5 * STEP + 7);
        for number in 0..count {
            push(&mut list, number);
        }
        assert!(list.iter().copied().eq(0..count));
        let mut nothing: Vec<()> = Vec::new();
        for _ in 0..count {
            push(&mut nothing, ());
        }
        assert_eq!(nothing.len() as u64, count);
    }
}
