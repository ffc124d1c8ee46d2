//! Strings of NCCL's, borrowed for the length of a callback.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::marker::PhantomData;

/// A NUL-terminated string of NCCL's (or of ours), valid during the callback only. May be absent.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    pointer: *const c_char,
    borrowed: PhantomData<&'a CStr>,
}

impl<'a> Name<'a> {
    /// No string: NCCL passed NULL, or this version of the interface has none here.
    pub const NONE: Self = Self { pointer: std::ptr::null(), borrowed: PhantomData };

    /// The longest name that is kept; longer ones are cut.
    pub const MAX_BYTES: usize = 255;

    /// Borrows a string of NCCL's.
    ///
    /// # Safety
    /// `pointer` is NULL or points to a NUL-terminated string that stays valid and unchanged for `'a`.
    /// The adapters in `abi/` uphold it: NCCL's descriptors hold NULL or static strings of libnccl.
    pub const unsafe fn from_ptr(pointer: *const c_char) -> Self {
        Self { pointer, borrowed: PhantomData }
    }

    /// Borrows a string of ours.
    pub const fn from_cstr(string: &'a CStr) -> Self {
        Self { pointer: string.as_ptr(), borrowed: PhantomData }
    }

    /// Whether there is no string.
    pub const fn is_none(self) -> bool {
        self.pointer.is_null()
    }

    /// Where the string lies: the key of the recorder's cache.
    pub fn address(self) -> usize {
        self.pointer.addr()
    }

    /// The first sixteen bytes as they lie in memory, two little-endian words; what follows the NUL is not
    /// part of the string. None when there is no string, when reading on to sixteen bytes could leave the
    /// page, or on a processor for which this is not written.
    ///
    /// This is what makes the check of a cached string cheap: no search for the NUL, no call.
    #[inline]
    pub fn first_words(self) -> Option<[u64; 2]> {
        const PAGE_BYTES: usize = 4096;
        let pointer = self.pointer;
        if pointer.is_null() || pointer.addr() % PAGE_BYTES > PAGE_BYTES - 16 {
            return None;
        }
        let (first, second): (u64, u64);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the string's first byte is readable by `from_ptr`'s contract, and so is its page, which
        // holds all sixteen bytes. Assembly, because the bytes after the NUL need not belong to the string's object.
        unsafe {
            std::arch::asm!(
                "mov {first}, qword ptr [{pointer}]",
                "mov {second}, qword ptr [{pointer} + 8]",
                pointer = in(reg) pointer,
                first = out(reg) first,
                second = lateout(reg) second,
                options(nostack, readonly, preserves_flags),
            );
        }
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        // SAFETY: as for x86-64.
        unsafe {
            std::arch::asm!(
                "ldp {first}, {second}, [{pointer}]",
                pointer = in(reg) pointer,
                first = out(reg) first,
                second = lateout(reg) second,
                options(nostack, readonly, preserves_flags),
            );
        }
        #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little"))))]
        {
            (first, second) = (0, 0);
            return None;
        }
        #[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
        Some([first, second])
    }

    /// The bytes without the NUL, cut at [`Self::MAX_BYTES`]; empty when there is no string.
    pub fn bytes(self) -> &'a [u8] {
        if self.pointer.is_null() {
            return &[];
        }
        // SAFETY: not NULL, so `from_ptr`'s contract (or the CStr of `from_cstr`) gives a string for 'a.
        let string = unsafe { CStr::from_ptr(self.pointer) };
        let bytes = string.to_bytes();
        bytes.get(..Self::MAX_BYTES).unwrap_or(bytes)
    }
}

impl Default for Name<'_> {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}", String::from_utf8_lossy(self.bytes()))
    }
}
