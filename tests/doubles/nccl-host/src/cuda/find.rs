//! Where the CUDA runtime comes from.

use super::Cuda;
use super::entry::{Entry, Pointer};
use anyhow::Context as _;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::path::Path;

/// Where a job without `--cudart` looks, in this order.
const NAMES: [&str; 3] = ["libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"];

const FAKE_MARK: &[u8] = b"fakegpu_install";

impl Cuda {
    /// Finds the runtime: the one given, else one already in the process, else a libcudart.
    pub(crate) fn find(given: Option<&Path>) -> anyhow::Result<Cuda> {
        let process = Library::this();
        if given.is_none() && has(&process, b"cudaMalloc") {
            let is_fake = has(&process, FAKE_MARK);
            let origin = if is_fake { "the stand-in" } else { "already in the process" };
            return cuda(process, origin.to_owned(), is_fake);
        }
        if let Some(path) = given {
            return cuda(open(path).context("--cudart")?, path.display().to_string(), false);
        }
        let mut reasons = Vec::new();
        for name in NAMES {
            match open(Path::new(name)) {
                Ok(library) => return cuda(library, name.to_owned(), false),
                Err(error) => reasons.push(format!("{error:#}")),
            }
        }
        anyhow::bail!(
            "no CUDA runtime: give its path with --cudart, put it on LD_LIBRARY_PATH, or use --fake-gpu ({})",
            reasons.join("; ")
        )
    }
}

fn open(path: &Path) -> anyhow::Result<Library> {
    // SAFETY: runs the constructors of the CUDA runtime the user named or installed.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    library.with_context(|| format!("cannot load {}", path.display()))
}

fn has(library: &Library, name: &[u8]) -> bool {
    // SAFETY: only the presence of the name is looked at; nothing is called through the pointer.
    unsafe { library.get::<Pointer>(name) }.is_ok()
}

fn cuda(library: Library, origin: String, is_fake: bool) -> anyhow::Result<Cuda> {
    let entry = Entry::find(&library)
        .map_err(|name| anyhow::anyhow!("CUDA runtime ({origin}): there is no {name}, 11.4 or later is needed"))?;
    // Never unmapped: streams and buffers hold its functions until the process ends.
    let _ = library.into_raw();
    Ok(Cuda { entry, origin, is_fake, keeps_memory: false })
}
