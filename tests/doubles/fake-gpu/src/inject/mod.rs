//! Getting in: finds mapped NCCL libraries and redirects the CUDA runtime inside them.
//!
//! NCCL links the CUDA runtime statically, and the runtime talks to the driver through undocumented tables. So
//! the runtime is replaced: the published libraries keep their local symbols, by which each `cuda*` function
//! inside the mapped library is found. This happens in this library's constructor, for hosts linked with NCCL, and
//! in its `dlopen`, for those that load it: before NCCL's first call, while nobody runs its code.

mod code;
mod dlopen;
mod elf;

pub(crate) use code::missing;
pub(crate) use dlopen::open_mapped;

use crate::kernel::{Library, decode_table};
use crate::log::{debug, warning};
use crate::{cuda, driver, layout};
use elf::Image;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::with_exposed_provenance;
use std::sync::Arc;

struct Seen {
    done: Vec<(usize, String)>,
    current: Option<Arc<Library>>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen {
    done: Vec::new(),
    current: None,
});

/// The library patched last. A process normally maps only one.
pub(crate) fn library() -> Option<Arc<Library>> {
    SEEN.lock().current.clone()
}

type Mapped = Vec<(usize, String)>;

/// Called by the loader for each mapped file.
unsafe extern "C" fn each(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` passes a valid structure for the time of this call.
    let info = unsafe { &*info };
    // SAFETY: `scan` passes a pointer to its own vector, which nobody else uses meanwhile.
    let found = unsafe { &mut *found.cast::<Mapped>() };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: not NULL: the loader's NUL-terminated name of the file.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or("");
    if file.starts_with("libnccl.so") {
        found.push((info.dlpi_addr as usize, name.into_owned()));
    }
    0
}

/// Patches each NCCL library that is mapped and not yet patched.
pub(crate) fn scan() {
    let mut found: Mapped = Vec::new();
    // SAFETY: `each` is of the type that is asked for, and the pointer is to a vector that outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut found).cast()) };
    for (base, path) in found {
        let mut seen = SEEN.lock();
        if seen.done.iter().any(|(b, p)| *b == base && *p == path) {
            continue;
        }
        seen.done.push((base, path.clone()));
        match patch(base, &path) {
            Some(library) => seen.current = Some(Arc::new(library)),
            None => warning!("{path}: not patched"),
        }
    }
}

/// NCCL's version code and CUDA's from "NCCL version 2.29.2+cuda13.1".
fn parse_version(text: &str) -> Option<(u32, i32)> {
    let rest = text.strip_prefix("NCCL version ")?;
    let (nccl, cuda) = rest.split_once("+cuda")?;
    let numbers = |text: &str| -> Vec<u32> {
        text.split('.')
            .map(|part| {
                part.chars()
                    .take_while(char::is_ascii_digit)
                    .collect::<String>()
            })
            .filter_map(|digits| digits.parse().ok())
            .collect()
    };
    let (n, c) = (numbers(nccl), numbers(cuda));
    let nccl = n.first()? * 10000 + n.get(1)? * 100 + n.get(2)?;
    let cuda = c.first()? * 1000 + c.get(1)? * 10;
    Some((nccl, cuda as i32))
}

fn is_runtime_name(name: &str) -> bool {
    name.len() > 5
        && name.starts_with("cuda")
        && name.as_bytes()[4].is_ascii_uppercase()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn is_kernel_name(name: &str) -> bool {
    ["ncclDevKernel_", "oneRankReduce", "ncclSymk"]
        .iter()
        .any(|part| name.contains(part))
}

/// What the symbol table of a library says.
#[derive(Default)]
struct Symbols {
    /// address, size, name of each function of the CUDA runtime
    runtime: Vec<(usize, usize, String)>,
    kernels: HashMap<usize, String>,
    /// address and rows of the table of device functions
    table: Option<(usize, usize)>,
}

impl Symbols {
    fn read(image: &Image, base: usize) -> Option<Symbols> {
        let mut found = Symbols::default();
        let full = image.symbols(|s| {
            let at = base + s.value as usize;
            if s.is_func && is_runtime_name(s.name) {
                found.runtime.push((at, s.size as usize, s.name.to_owned()));
            } else if s.is_func && is_kernel_name(s.name) {
                found.kernels.insert(at, s.name.to_owned());
            } else if s.name.contains("ncclDevFuncRowToId") {
                found.table = Some((at, s.size as usize / 4));
            }
        })?;
        full.then_some(found)
    }
}

fn patch(base: usize, path: &str) -> Option<Library> {
    let image = Image::open(path)?;
    let Some(symbols) = Symbols::read(&image, base) else {
        warning!("{path}: no local symbols, cannot find the CUDA runtime inside it");
        return None;
    };
    let (version, cuda) = parse_version(&image.find_text("NCCL version 2.", 64)?)?;
    let (at, rows) = symbols.table?;
    // SAFETY: the symbol table says that the mapped library has a constant array of that many ints there.
    let rows = unsafe { std::slice::from_raw_parts(with_exposed_provenance::<i32>(at), rows) };
    let funcs = decode_table(rows);
    let hooks: HashMap<&str, usize> = cuda::hooks().into_iter().collect();
    let mut replaced = 0;
    for (at, size, name) in &symbols.runtime {
        if *size > 0 && *size < code::JUMP_LEN {
            debug!(1, "{name} is only {size} bytes long");
        }
        let to = match hooks.get(name.as_str()) {
            Some(&hook) => {
                replaced += 1;
                hook
            }
            None => missing(name),
        };
        // SAFETY: the symbol table says that a function of the runtime starts there, and nobody is in it: this
        // runs before NCCL's first call (see the head of this module).
        unsafe { code::redirect(*at, to) };
    }
    debug!(
        1,
        "{path}: NCCL {version}, CUDA {cuda}, {replaced} functions replaced, {} not implemented, {} kernels, {} device functions",
        symbols.runtime.len() - replaced,
        symbols.kernels.len(),
        funcs.len()
    );
    Some(Library {
        cuda,
        layout: layout::for_version(version),
        funcs,
        kernels: symbols.kernels,
    })
}

/// For hosts that load this library themselves instead of preloading it: call this after mapping NCCL and before
/// using it. Also the name by which a program knows that the stand-in is there.
#[unsafe(no_mangle)]
extern "C" fn fakegpu_install() {
    scan();
}

extern "C" fn on_load() {
    if std::env::var_os("FAKEGPU_REPORT").is_some() {
        // SAFETY: a function without arguments, in a library that is preloaded and so never unmapped.
        unsafe { libc::atexit(driver::faults::write_report) };
    }
    scan();
}

// The section makes the loader call the function once the library is mapped and relocated.
#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;

/// Address of a driver function by name; functions that are not implemented get a stub that reports the call.
pub(crate) fn driver_symbol(name: &str) -> usize {
    let hook = driver::hooks().into_iter().find(|(own, _)| *own == name);
    hook.map_or_else(|| missing(name), |(_, address)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert_eq!(
            parse_version("NCCL version 2.29.2+cuda13.1"),
            Some((22902, 13010))
        );
        assert_eq!(
            parse_version("NCCL version 2.23.4+cuda12.6"),
            Some((22304, 12060))
        );
        assert_eq!(parse_version("other"), None);
    }

    #[test]
    fn names() {
        assert!(is_runtime_name("cudaMalloc"));
        assert!(is_runtime_name("cudaGetDeviceProperties_v2"));
        assert!(!is_runtime_name("cudart_init"));
        assert!(!is_runtime_name("cudaMalloc.cold"));
    }
}
