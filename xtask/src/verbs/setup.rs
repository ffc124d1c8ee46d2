//! `cargo xtask setup`: installs and fetches only what `demo` and `test` need.

use std::path::PathBuf;

use anyhow::Result;

use crate::cache::Cache;
use crate::nccl;
use crate::packages::{
    self, BINUTILS, CHROMIUM, CMAKE, COMPILER, JAVA, LIBC_SYMBOLS, LIBCLANG, NODE, NPM, OTF2, OTF2_TOOLS, PROMETHEUS,
    PYTHON, STRACE, VALGRIND,
};
use crate::python::Python;

pub(crate) struct Machine {
    pub(crate) python: Python,
    pub(crate) tensorflow: Python,
    pub(crate) libraries: PathBuf,
}

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
        NODE,
        NPM,
        CHROMIUM,
        JAVA,
        PROMETHEUS,
    ])?;
    // The cache is locked while it is open, so it is closed before tests run.
    let cache = Cache::open()?;
    let python = Python::ensure(&cache)?;
    let tensorflow = Python::ensure_tensorflow(&cache)?;
    for version in nccl::tested() {
        nccl::library(&cache, &python, version)?;
    }
    Ok(Machine { python, tensorflow, libraries: cache.folder("nccl") })
}
