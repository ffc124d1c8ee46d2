//! Published NCCL libraries, fetched once from the Python package index and kept in the user's cache.
//!
//! ```text
//! <cache>/nccl/<version>/libnccl.so.2
//! ```
//!
//! pip verifies the wheel against the index's SHA-256. The library is unpacked beside its final name and then renamed,
//! so a file with the final name is complete.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::cache::Cache;
use crate::cargo;
use crate::error::missing;
use crate::packages::{self, COMPILER, OTF2, OTF2_TOOLS, PYTHON};
use crate::process::{capture, heading};
use crate::python::Python;

/// The package with every release from 2.23.4 on; its builds need CUDA 12 for real devices.
const PACKAGE: &str = "nvidia-nccl-cu12";
/// The library's path inside the wheel.
const MEMBER: &str = "nvidia/nccl/lib/libnccl.so.2";

/// Chooses the releases that tests run: the newest, or with `all` those of [`TESTED`].
pub(crate) const TEST_RELEASES: &str = "NCCL_OTF2_TEST_RELEASES";
/// The releases of all tests. In CI, a test fails if its release is not in this list.
const TESTED: [&str; 7] = ["2.23.4", "2.25.1", "2.26.5", "2.27.7", "2.28.9", "2.30.7", "2.32.3"];
/// The releases of the matrix: one per minor version, from the first with a profiler interface on.
pub(crate) const RELEASES: [&str; 10] =
    ["2.23.4", "2.24.3", "2.25.1", "2.26.5", "2.27.7", "2.28.9", "2.29.7", "2.30.7", "2.31.2", "2.32.3"];
pub(crate) const NEWEST: &str = "2.32.3";

/// The releases that tests run.
pub(crate) fn tested() -> &'static [&'static str] {
    if std::env::var_os(TEST_RELEASES).is_some_and(|value| value == "all") { &TESTED } else { &[NEWEST] }
}

/// Python as one of its functions ensures it, and the libraries of these releases; installs and fetches what is
/// missing.
pub(crate) fn releases(
    versions: &[impl AsRef<str>],
    ensure_python: fn(&Cache) -> Result<Python>,
) -> Result<(Python, Vec<PathBuf>)> {
    packages::ensure(&[OTF2, OTF2_TOOLS, PYTHON, COMPILER])?;
    let cache = Cache::open()?;
    let python = ensure_python(&cache)?;
    let libraries = versions.iter().map(|version| library(&cache, &python, version.as_ref()));
    let libraries = libraries.collect::<Result<Vec<PathBuf>>>()?;
    Ok((python, libraries))
}

/// The newest release's library.
pub(crate) fn newest() -> Result<PathBuf> {
    let (_, mut libraries) = releases(&[NEWEST], Python::ensure_reader)?;
    Ok(libraries.remove(0))
}

/// The path of a release's `libnccl.so.2`; fetches it if it is not in the cache.
pub(crate) fn library(cache: &Cache, python: &Python, version: &str) -> Result<PathBuf> {
    check(version)?;
    heading(&format!("NCCL {version}"));
    let library = cache.folder("nccl").join(version).join("libnccl.so.2");
    if !library.is_file() {
        fetch(cache, python, version, &library)?;
    }
    println!("   {}", library.display());
    Ok(library)
}

/// The folder of the network and profiler plugins that are doubles of others', built.
pub(crate) fn plugins() -> Result<PathBuf> {
    let folder = cargo::target()?.join("nccl-plugins");
    let sources = cargo::root().join("tests/doubles/fake-gpu/nccl-plugins");
    let mut make = Command::new("make");
    let made = capture(make.arg("-C").arg(sources).arg(format!("OUT={}", folder.display())))?;
    ensure!(made.status.success(), "make ended with {}:\n{}{}", made.status, made.out, made.err);
    Ok(folder)
}

fn fetch(cache: &Cache, python: &Python, version: &str, library: &Path) -> Result<()> {
    let requirement = format!("{PACKAGE}=={version}");
    println!("   fetching {requirement} (200 to 350 MB, once)");
    python.fetch(cache, &requirement, "unpack_member.py", &[MEMBER], library).map_err(|error| {
        missing(format!(
            "{error}\nNCCL {version} is needed. Without a network, take libnccl.so.2 from the wheel of {requirement} \
             ({MEMBER}) and put it here:\n  {}",
            library.display()
        ))
    })
}

/// Accepts only a version, because it becomes part of a path and of a requirement.
fn check(version: &str) -> Result<()> {
    let fine = version.starts_with(|c: char| c.is_ascii_digit())
        && !version.contains("..")
        && version.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
    fine.then_some(()).ok_or_else(|| missing(format!("`{version}` is not an NCCL version; one looks like {NEWEST}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_pass_as_versions() {
        for good in ["2.32.3", "2.26.2.post1"] {
            check(good).unwrap();
        }
        for bad in ["", "..", "2..3", "../2.3", "2.3/..", "latest", "2.3 --index-url=x"] {
            assert_eq!(crate::error::status(&check(bad).unwrap_err()), 2, "{bad}");
        }
    }
}
