//! Takes names out of a library's own symbol table, in memory and while the library is being mapped. So one file plays
//! every release of what it stands for, and `dlsym` says no where it would there.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

/// Why names could not be hidden.
#[derive(Debug, Clone, Copy)]
pub struct Trouble(&'static str);

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Trouble {}

const DT_SYMTAB: u64 = 6;
const DT_STRTAB: u64 = 5;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// `Elf64_Dyn`
#[repr(C)]
#[derive(Clone, Copy)]
struct Dynamic {
    tag: u64,
    value: u64,
}

/// `Elf64_Sym`
#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Where the tables of the library are.
#[derive(Default)]
struct Tables {
    /// an address inside the library
    inside: usize,
    symbols: usize,
    names: usize,
    hash: usize,
}

/// Called by the loader for each mapped file; stops at the one that is looked for.
unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid structure for the time of this call.
    let info = unsafe { &*info };
    // SAFETY: the structure says that there are so many headers, which stay mapped with the file.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let base = address(info.dlpi_addr);
    // SAFETY: `hide` passes a pointer to its own tables, which nobody else uses meanwhile.
    let found = unsafe { &mut *found.cast::<Tables>() };
    let inside = headers.iter().any(|header| {
        let from = base.wrapping_add(address(header.p_vaddr));
        header.p_type == libc::PT_LOAD
            && (from..from + address(header.p_memsz)).contains(&found.inside)
    });
    if !inside {
        return 0;
    }
    let Some(dynamic) = headers
        .iter()
        .find(|header| header.p_type == libc::PT_DYNAMIC)
    else {
        return 1;
    };
    let mut at = base.wrapping_add(address(dynamic.p_vaddr));
    loop {
        // SAFETY: inside the dynamic section, which ends with a tag of 0.
        let entry = unsafe { with_exposed_provenance::<Dynamic>(at).read() };
        // The loader has made addresses of the offsets; not every loader does.
        let value = match address(entry.value) {
            offset if offset < base => base + offset,
            absolute => absolute,
        };
        match entry.tag {
            0 => return 1,
            DT_SYMTAB => found.symbols = value,
            DT_STRTAB => found.names = value,
            DT_GNU_HASH => found.hash = value,
            _ => {}
        }
        at += size_of::<Dynamic>();
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "an address of this process"
)]
fn address(value: u64) -> usize {
    value as usize
}

fn page_len() -> usize {
    // SAFETY: asks for a constant of the system.
    let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(len).unwrap_or(4096)
}

/// Makes `dlsym` miss the symbol at this place of the table.
fn blank(at: usize, mut symbol: Symbol) -> Result<(), Trouble> {
    let page = at & !(page_len() - 1);
    let len = at + size_of::<Symbol>() - page;
    // SAFETY: pages of the library's own symbol table, private to the process; they become writable besides.
    let writable = unsafe {
        libc::mprotect(
            with_exposed_provenance_mut(page),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
        )
    };
    if writable != 0 {
        return Err(Trouble("cannot write to the symbol table of the library"));
    }
    // The empty name is nobody's.
    symbol.name = 0;
    // SAFETY: writable since the call above, and a symbol was read from there. The loader holds its lock for as long
    // as constructors run, so nobody searches the table meanwhile.
    unsafe { with_exposed_provenance_mut::<Symbol>(at).write(symbol) };
    Ok(())
}

/// The number at this place of the hash table.
fn word(at: usize) -> u32 {
    // SAFETY: `symbol_count` reads inside the hash table, as far as the table itself says that it goes.
    unsafe { with_exposed_provenance::<u32>(at).read() }
}

/// Only the hash table says how many symbols there are: the last one of the last chain is the last.
fn symbol_count(hash: usize) -> usize {
    let buckets = word(hash) as usize;
    let first = word(hash + 4) as usize;
    let bloom = word(hash + 8) as usize;
    let bucket_table = hash + 16 + bloom * 8;
    let chains = bucket_table + buckets * 4;
    let last = (0..buckets).map(|bucket| word(bucket_table + bucket * 4) as usize);
    let Some(mut last) = last.max().filter(|last| *last >= first) else {
        return first;
    };
    // The lowest bit ends a chain.
    while word(chains + (last - first) * 4) & 1 == 0 {
        last += 1;
    }
    last + 1
}

/// Hides the names that `is_hidden` picks, from everybody, in the library that the address lies in.
///
/// To be called from the library's constructor: nobody searches its table before that has returned.
///
/// # Errors
/// The library has no symbol table of the usual kind, or that cannot be written to.
pub fn hide(inside: *const (), is_hidden: impl Fn(&str) -> bool) -> Result<(), Trouble> {
    let mut tables = Tables {
        inside: inside.expose_provenance(),
        ..Tables::default()
    };
    // SAFETY: `each` is of the type that is asked for, and the pointer is to tables that outlive the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut tables).cast()) };
    if tables.symbols == 0 || tables.names == 0 || tables.hash == 0 {
        return Err(Trouble("the library does not find its own symbol table"));
    }
    for index in 1..symbol_count(tables.hash) {
        let at = tables.symbols + index * size_of::<Symbol>();
        // SAFETY: one of the symbols that the hash table knows.
        let symbol = unsafe { with_exposed_provenance::<Symbol>(at).read() };
        let name: *const c_char = with_exposed_provenance(tables.names + symbol.name as usize);
        // SAFETY: a symbol's name is a text in the table of names.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        if is_hidden(&name) {
            blank(at, symbol)?;
        }
    }
    Ok(())
}
