//! Strings of NCCL, borrowed for the duration of a callback.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::marker::PhantomData;

/// A NUL-terminated string of NCCL (or of this plugin), valid only during the callback. May be absent.
#[derive(Clone, Copy)]
pub struct Name<'a> {
    pointer: *const c_char,
    borrowed: PhantomData<&'a CStr>,
}

impl<'a> Name<'a> {
    /// No string: NCCL passed NULL, or this version of the interface has no string here.
    pub const NONE: Self = Self { pointer: std::ptr::null(), borrowed: PhantomData };

    /// The longest name that is stored; longer names are truncated.
    pub const MAX_BYTES: usize = 255;

    /// Borrows a string of NCCL.
    ///
    /// # Safety
    /// `pointer` is NULL or points to a NUL-terminated string that stays valid and unchanged for `'a`.
    /// The adapters in `abi/` uphold this: NCCL's descriptors contain NULL or static strings of libnccl.
    pub const unsafe fn from_ptr(pointer: *const c_char) -> Self {
        Self { pointer, borrowed: PhantomData }
    }

    /// Borrows a string of this plugin.
    pub const fn from_cstr(string: &'a CStr) -> Self {
        Self { pointer: string.as_ptr(), borrowed: PhantomData }
    }

    /// Whether there is no string.
    pub const fn is_none(self) -> bool {
        self.pointer.is_null()
    }

    /// The address of the string: the key of the recorder's cache.
    pub fn address(self) -> usize {
        self.pointer.addr()
    }

    /// The first sixteen bytes in memory, as two little-endian words; bytes behind the NUL do not belong to the string.
    /// `None` without a string, if sixteen bytes could cross the end of the page, or if the processor is not supported.
    ///
    /// Makes the check of a cached string cheap: no search for the NUL, no call.
    #[inline]
    pub fn first_words(self) -> Option<[u64; 2]> {
        const PAGE_BYTES: usize = 4096;
        let pointer = self.pointer;
        if pointer.is_null() || pointer.addr() % PAGE_BYTES > PAGE_BYTES - 16 {
            return None;
        }
        let (first, second): (u64, u64);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `from_ptr`'s contract makes the string's first byte readable, and so its page, which contains all
        // sixteen bytes. Uses assembly, because the bytes behind the NUL need not belong to the string's object.
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

    /// The bytes without the NUL, truncated to [`Self::MAX_BYTES`]; empty if there is no string.
    pub fn bytes(self) -> &'a [u8] {
        if self.pointer.is_null() {
            return &[];
        }
        // SAFETY: not NULL, so `from_ptr`'s contract (or `from_cstr`'s CStr) guarantees a string for 'a.
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
