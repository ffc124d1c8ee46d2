//! Room for lists of very many: hundreds of megabytes for a million operations, visited in many orders.

/// Below this it is not worth it.
const WORTH_BYTES: usize = 16 << 20;
/// Size and alignment of a large page. Where they are larger it is only advice that is not taken.
const PAGE_BYTES: usize = 2 << 20;

/// Makes room for `more` elements, if there is memory for them, and asks for large pages where it is much: the system
/// gives memory page by page when it is first used, and the processor looks pages up. Without, all is the same but slower.
pub(super) fn make_room<T>(list: &mut Vec<T>, more: usize) {
    // It is a guess: if that much is not to be had, it will do with less.
    if list.try_reserve(more).is_err() {
        return;
    }
    let bytes = list.capacity() * size_of::<T>();
    if bytes < WORTH_BYTES {
        return;
    }
    let begin = list.as_mut_ptr().cast::<u8>();
    let skipped = begin.align_offset(PAGE_BYTES);
    let whole = bytes.saturating_sub(skipped) / PAGE_BYTES * PAGE_BYTES;
    advise(begin.wrapping_add(skipped), whole);
}

/// Asks for large pages from an address on.
fn advise(begin: *mut u8, bytes: usize) {
    // SAFETY: this advice changes no memory, only how it is provided; `make_room` gives whole pages of a list's own memory.
    let _taken = unsafe { libc::madvise(begin.cast(), bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_and_nothing_else_changes() {
        let mut list: Vec<u64> = vec![1, 2, 3];
        for more in [0, 10, 4 << 20] {
            make_room(&mut list, more);
            assert!(list.capacity() >= 3 + more);
            assert_eq!(list, [1, 2, 3]);
        }
        make_room(&mut list, usize::MAX);
        assert_eq!(list, [1, 2, 3]);
        list.extend(0..4 << 20);
        assert_eq!(list.last(), Some(&((4 << 20) - 1)));
    }
}
