//! `cargo xtask setup`: what `demo` and `test` would install and fetch, and nothing more.

use std::path::PathBuf;

use crate::cache::Cache;
use crate::failure::Result;
use crate::nccl;
use crate::options::{Options, unknown};
use crate::packages::{
    self, BINUTILS, CMAKE, COMPILER, LIBC_SYMBOLS, LIBCLANG, OTF2, OTF2_TOOLS, PYTHON, STRACE,
    VALGRIND,
};
use crate::python::Python;

const HELP: &str = "\
Installs the Debian packages that demo and test need, and fetches NCCL and the Python reader into the cache.

Usage: cargo xtask setup

For machines that have a network only now and then (a login node, a container image): afterwards demo and test
need none, but for the crates that cargo itself fetches (cargo fetch).
";

/// What is on the machine after [`everything`].
pub(crate) struct Machine {
    pub(crate) python: Python,
    /// The folder with one folder per NCCL version.
    pub(crate) libraries: PathBuf,
}

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    match Options::new(words).next()? {
        None => everything().map(drop),
        Some("-h" | "--help") => {
            print!("{HELP}");
            Ok(())
        }
        Some(word) => Err(unknown(word, HELP)),
    }
}

/// Installs and fetches whatever is not there yet.
pub(crate) fn everything() -> Result<Machine> {
    packages::ensure(&[
        OTF2,
        OTF2_TOOLS,
        PYTHON,
        COMPILER,
        LIBCLANG,
        CMAKE,
        VALGRIND,
        LIBC_SYMBOLS,
        STRACE,
        BINUTILS,
    ])?;
    // The cache is locked for as long as it is open: not while tests run.
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    for version in nccl::TESTED {
        nccl::library(&cache, &python, version)?;
    }
    Ok(Machine {
        python,
        libraries: cache.nccl(),
    })
}
