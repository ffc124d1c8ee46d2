//! The strings in descriptors: in NCCL constants of libnccl, here on pages of their own that can go as it goes.
//!
//! Each is copied once and never freed: equal strings are one string, and an address means the same one for ever.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::ptr;
use std::slice;

use parking_lot::Mutex;

const PAGE_BYTES: usize = 64 << 10;

static PAGES: Mutex<Pages> = Mutex::new(Pages { starts: Vec::new(), used: PAGE_BYTES, known: BTreeMap::new() });

struct Pages {
    starts: Vec<usize>,
    /// Of the last page.
    used: usize,
    known: BTreeMap<String, &'static CStr>,
}

/// Copies a string onto the pages, up to its first NUL byte. `None` where memory is short or the string exceeds a page.
pub(crate) fn keep(text: &str) -> Option<&'static CStr> {
    let mut pages = PAGES.lock();
    if let Some(known) = pages.known.get(text) {
        return Some(known);
    }
    let length = text.find('\0').unwrap_or(text.len());
    let needed = length + 1;
    if needed > PAGE_BYTES {
        return None;
    }
    if pages.used + needed > PAGE_BYTES {
        let page = map()?.expose_provenance();
        pages.starts.push(page);
        pages.used = 0;
    }
    let start = *pages.starts.last()?;
    let place = ptr::with_exposed_provenance_mut::<u8>(start + pages.used);
    pages.used += needed;
    // SAFETY: `needed` bytes of a page of ours that nobody has been given; it is never unmapped. While it is hidden
    // (`hide`) nobody in this program reads what is there.
    let bytes = unsafe { slice::from_raw_parts_mut(place, needed) };
    bytes.get_mut(..length)?.copy_from_slice(text.as_bytes().get(..length)?);
    let kept = CStr::from_bytes_until_nul(bytes).ok()?;
    pages.known.insert(text.to_owned(), kept);
    Some(kept)
}

/// Takes all strings away: who reads one now is ended by SIGSEGV.
pub(crate) fn hide() {
    protect(libc::PROT_NONE);
}

pub(crate) fn show() {
    protect(libc::PROT_READ | libc::PROT_WRITE);
}

fn map() -> Option<*mut u8> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new pages, at no address in use.
    let page = unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, access, kind, -1, 0) };
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
