//! Machine code for x86-64: jumps over the heads of functions, and stubs.

use crate::log::warning;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};

#[cfg(not(target_arch = "x86_64"))]
compile_error!("fake-gpu writes machine code for x86-64");

const PAGE: usize = 4096;

/// `mov rax, to; jmp rax`
const JUMP_LEN: usize = 12;

fn jump(to: usize) -> [u8; JUMP_LEN] {
    let mut code = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0];
    code[2..10].copy_from_slice(&(to as u64).to_le_bytes());
    code
}

/// Overwrites the head of a function with a jump.
///
/// # Safety
/// A function starts at `at`, with room for the jump up to the next one, and no thread runs its head; at `to`
/// there is a function that takes the same call.
pub(crate) unsafe fn redirect(at: usize, to: usize) {
    let from = at & !(PAGE - 1);
    let len = (at + JUMP_LEN - from).next_multiple_of(PAGE);
    let pages: *mut c_void = with_exposed_provenance_mut(from);
    // SAFETY: whole pages of the mapped library; its code stays executable.
    let writable = unsafe { libc::mprotect(pages, len, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) };
    if writable != 0 {
        warning!("cannot write to the code at {at:#x}: {}", std::io::Error::last_os_error());
        return;
    }
    // SAFETY: writable since the line above, and there is room for the jump (promised by the caller).
    unsafe { with_exposed_provenance_mut::<[u8; JUMP_LEN]>(at).write_unaligned(jump(to)) };
    // SAFETY: the same pages, back to what they were.
    unsafe { libc::mprotect(pages, len, libc::PROT_READ | libc::PROT_EXEC) };
}

/// Code that reports the call of a function that is not implemented and returns "not supported".
pub(crate) fn missing(name: &str) -> usize {
    static KNOWN: Mutex<BTreeMap<String, usize>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock();
    if let Some(&at) = known.get(name) {
        return at;
    }
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new private mapping at an address that the kernel chooses touches no existing memory.
    let mapped = unsafe { libc::mmap(null_mut(), PAGE, access, kind, -1, 0) };
    assert!(mapped != libc::MAP_FAILED, "no executable memory: {}", std::io::Error::last_os_error());
    let at = mapped.expose_provenance();
    // mov rdi, name; then a jump to `report`, which returns to the caller of the stub.
    let text = CString::new(name).unwrap_or_default().into_raw().expose_provenance();
    let mut code = [0x90_u8; 10 + JUMP_LEN];
    code[0..2].copy_from_slice(&[0x48, 0xbf]);
    code[2..10].copy_from_slice(&(text as u64).to_le_bytes());
    code[10..].copy_from_slice(&jump((report as *const ()).expose_provenance()));
    // SAFETY: `at` is the mapping above, given to nobody yet.
    unsafe { with_exposed_provenance_mut::<[u8; 10 + JUMP_LEN]>(at).write_unaligned(code) };
    known.insert(name.to_owned(), at);
    at
}

/// `cudaErrorNotSupported`, `CUDA_ERROR_NOT_SUPPORTED`
const NOT_SUPPORTED: c_int = 801;

extern "C" fn report(name: *const c_char) -> c_int {
    static SAID: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let mut said = SAID.lock();
    let address = name.addr();
    if !said.contains(&address) {
        said.push(address);
        // SAFETY: only the stubs call this, each with its own text, which is never freed.
        let name = unsafe { CStr::from_ptr(name) };
        warning!("{} is not implemented", name.to_string_lossy());
    }
    NOT_SUPPORTED
}
