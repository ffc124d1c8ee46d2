//! The strings in descriptors: in NCCL constants of libnccl, here on pages of their own that can go as it goes.
//!
//! They are copied once and never given back, so an address means the same string as long as the process lives.

use std::ffi::CStr;
use std::ptr;
use std::slice;

use parking_lot::Mutex;

const PAGE_BYTES: usize = 64 << 10;

/// The pages, and the unused rest of the last.
static PAGES: Mutex<Pages> = Mutex::new(Pages {
    starts: Vec::new(),
    used: PAGE_BYTES,
});

struct Pages {
    starts: Vec<usize>,
    used: usize,
}

/// Copies a string onto the pages; cut at a NUL byte. None when there is no memory, or no string is that long.
#[must_use]
pub fn keep(text: &str) -> Option<&'static CStr> {
    let length = text.find('\0').unwrap_or(text.len());
    let needed = length + 1;
    let mut pages = PAGES.lock();
    if pages.used + needed > PAGE_BYTES {
        if needed > PAGE_BYTES {
            return None;
        }
        let page = map()?;
        pages.starts.push(page.expose_provenance());
        pages.used = 0;
    }
    let start = *pages.starts.last()?;
    let place = ptr::with_exposed_provenance_mut::<u8>(start + pages.used);
    pages.used += needed;
    // SAFETY: `needed` bytes of a page of ours that nobody has been given; it is never unmapped. While it is hidden
    // (`hide`) nobody in this program reads what is there.
    let bytes = unsafe { slice::from_raw_parts_mut(place, needed) };
    let (text_bytes, _) = text.as_bytes().split_at(length);
    bytes.get_mut(..length)?.copy_from_slice(text_bytes);
    CStr::from_bytes_until_nul(bytes).ok()
}

/// Takes all strings away: who reads one now is ended by SIGSEGV.
pub fn hide() {
    protect(libc::PROT_NONE);
}

/// Gives them back.
pub fn show() {
    protect(libc::PROT_READ | libc::PROT_WRITE);
}

fn map() -> Option<*mut u8> {
    // SAFETY: new pages, at no address in use.
    let page = unsafe {
        libc::mmap(
            ptr::null_mut(),
            PAGE_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    (page != libc::MAP_FAILED).then(|| page.cast())
}

fn protect(protection: i32) {
    for &start in &PAGES.lock().starts {
        let page = ptr::with_exposed_provenance_mut(start);
        // SAFETY: whole pages of ours. Strings on them are read by the plugin, which must not while they are hidden,
        // and by this program when it builds a descriptor, which a script does while a libnccl is there.
        let done = unsafe { libc::mprotect(page, PAGE_BYTES, protection) };
        debug_assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_stay_where_they_are_and_end_at_a_nul() {
        let long = "x".repeat(PAGE_BYTES - 1);
        let kept: Vec<&CStr> = ["AllReduce", "", "a\0b", &long, "ncclFloat32"]
            .into_iter()
            .map(|text| keep(text).unwrap())
            .collect();
        let texts: Vec<&str> = kept.iter().map(|text| text.to_str().unwrap()).collect();
        assert_eq!(texts, ["AllReduce", "", "a", long.as_str(), "ncclFloat32"]);
        assert!(keep(&"x".repeat(PAGE_BYTES)).is_none());
    }
}
