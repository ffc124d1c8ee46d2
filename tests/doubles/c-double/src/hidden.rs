//! Takes names out of a library's own symbol table in memory: one file plays every release of what it stands for, and
//! `dlsym` misses the name as it would there.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null_mut, with_exposed_provenance};

/// Bytes of an `Elf64_Sym`, of which the first four are the name's place in the table of names.
const SYMBOL_LEN: usize = 24;

/// Asks `dladdr1` for the symbol's entry.
const RTLD_DL_SYMENT: libc::c_int = 1;

/// Hides the name of the function at this address, of the calling library, from `dlsym`.
///
/// To be called from the library's constructor: nobody searches its table before that has returned.
pub fn hide(name: &str, function: usize) -> Result<(), String> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    let mut entry: *mut c_void = null_mut();
    // SAFETY: takes any address; there is room for both answers.
    let found =
        unsafe { libc::dladdr1(with_exposed_provenance(function), info.as_mut_ptr(), &raw mut entry, RTLD_DL_SYMENT) };
    // SAFETY: all zeroes are valid (pointers that are NULL), whether or not dladdr1 wrote.
    let info = unsafe { info.assume_init() };
    if found == 0 || info.dli_sname.is_null() || entry.is_null() {
        return Err(format!("{name} is not in the library's symbol table"));
    }
    // SAFETY: not NULL: the loader's text of the name, mapped with the library.
    let known = unsafe { CStr::from_ptr(info.dli_sname) };
    if known.to_bytes() != name.as_bytes() {
        return Err(format!("{name} is known as {known:?}"));
    }
    // SAFETY: asks for a constant of the system.
    let page_len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let into_page = entry.addr() & (usize::try_from(page_len).unwrap_or(4096) - 1);
    let page = entry.wrapping_byte_sub(into_page);
    // SAFETY: pages of the library's own symbol table, private to the process; they become writable besides.
    let refused = unsafe { libc::mprotect(page, into_page + SYMBOL_LEN, libc::PROT_READ | libc::PROT_WRITE) };
    if refused != 0 {
        return Err("the library's symbol table cannot be written to".to_owned());
    }
    // SAFETY: the entry that the loader gave, writable since the call above. The loader holds its lock for as long as
    // constructors run, so nobody searches the table meanwhile. The empty name is nobody's.
    unsafe { entry.cast::<u32>().write(0) };
    Ok(())
}
