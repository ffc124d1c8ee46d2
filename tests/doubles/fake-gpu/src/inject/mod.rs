//! Getting in: finds mapped NCCL libraries and redirects the CUDA runtime inside them.
//!
//! NCCL links the CUDA runtime statically, and the runtime talks to the driver through undocumented tables. So
//! the runtime is replaced: the published libraries keep their local symbols, by which each `cuda*` function
//! inside the mapped library is found. This happens in this library's constructor, for hosts linked with NCCL, and
//! in its `dlopen`, for those that load it: before NCCL's first call, while nobody runs its code.

mod dlopen;
mod polling;

use crate::kernel::{Library, decode_table};
use crate::log::warning;
use crate::mapped::{Mapped, mapped};
use crate::{api, code, layout};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::File;
use std::ptr::with_exposed_provenance;

static SEEN: Mutex<Mapped> = Mutex::new(Vec::new());

/// Patches each NCCL library that is mapped and not yet patched.
pub(crate) fn scan() {
    for (base, path) in mapped("libnccl.so") {
        let mut seen = SEEN.lock();
        if seen.contains(&(base, path.clone())) {
            continue;
        }
        match patch(base, &path) {
            Some(library) => library.use_from_now_on(),
            None => warning!("{path}: not patched; a library without local symbols cannot be"),
        }
        seen.push((base, path));
    }
}

/// NCCL's version code and CUDA's from "NCCL version 2.29.2+cuda13.1".
fn parse_version(text: &str) -> Option<(u32, i32)> {
    let (nccl, cuda) = text.strip_prefix("NCCL version ")?.split_once("+cuda")?;
    let numbers = |text: &str| -> Vec<u32> {
        let digits = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>();
        text.split('.').filter_map(|part| digits(part).parse().ok()).collect()
    };
    let (n, c) = (numbers(nccl), numbers(cuda));
    let nccl = n.first()? * 10000 + n.get(1)? * 100 + n.get(2)?;
    let cuda = c.first()? * 1000 + c.get(1)? * 10;
    Some((nccl, cuda as i32))
}

fn version_of(image: &ElfFile64<'_>) -> Option<(u32, i32)> {
    const HEAD: &[u8] = b"NCCL version 2.";
    let data = image.section_by_name(".rodata")?.data().ok()?;
    let at = data.windows(HEAD.len()).position(|window| window == HEAD)?;
    let text = data[at..].iter().take(64).take_while(|byte| (32..127).contains(*byte));
    parse_version(&text.map(|byte| char::from(*byte)).collect::<String>())
}

fn is_runtime_name(name: &str) -> bool {
    let rest = name.strip_prefix("cuda").unwrap_or("").as_bytes();
    rest.first().is_some_and(u8::is_ascii_uppercase) && rest.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
}

fn is_kernel_name(name: &str) -> bool {
    ["ncclDevKernel_", "oneRankReduce", "ncclSymk"].iter().any(|part| name.contains(part))
}

fn patch(base: usize, path: &str) -> Option<Library> {
    let file = File::open(path).ok()?;
    // SAFETY: the file is a library in use, which whoever installs libraries replaces and does not change or cut.
    let bytes = unsafe { memmap2::Mmap::map(&file) }.ok()?;
    let image = ElfFile64::parse(&*bytes).ok()?;
    let (version, cuda) = version_of(&image)?;
    let (mut kernels, mut table) = (HashMap::new(), None);
    for symbol in image.symbols().filter(|symbol| symbol.is_definition()) {
        let Ok(name) = symbol.name() else { continue };
        let at = base + symbol.address() as usize;
        let is_function = symbol.kind() == SymbolKind::Text;
        if is_function && is_runtime_name(name) {
            let own = api::runtime_address(name);
            // SAFETY: the symbol table says that a function of the runtime starts there, and nobody is in it: this
            // runs before NCCL's first call (see the head of this module).
            unsafe { code::redirect(at, own.unwrap_or_else(|| code::missing(name))) };
        } else if is_function && is_kernel_name(name) {
            kernels.insert(at, name.to_owned());
        } else if name.contains("ncclDevFuncRowToId") {
            table = Some((at, symbol.size() as usize / 4));
        }
    }
    let (at, rows) = table?;
    // SAFETY: the symbol table says that the mapped library has a constant array of that many ints there.
    let rows = unsafe { std::slice::from_raw_parts(with_exposed_provenance::<i32>(at), rows) };
    let (layout, funcs) = (layout::for_version(version), decode_table(rows));
    Some(Library { cuda, layout, funcs, kernels })
}

/// For hosts that load this library themselves instead of preloading it: call this after mapping NCCL and before
/// using it. Also the name by which a program knows that the stand-in is there.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_install() {
    scan();
}

extern "C" fn on_load() {
    // SAFETY: a function without arguments, in a library that is preloaded and so never unmapped.
    unsafe { libc::atexit(api::call::faults::report) };
    scan();
}

// The section makes the loader call the function once the library is mapped and relocated.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
