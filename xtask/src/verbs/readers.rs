//! `cargo xtask readers`: checks that three readers agree on an archive, event by event.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};

use crate::cache::Cache;
use crate::cargo::{self, Profile};
use crate::error::missing;
use crate::packages::{self, OTF2, OTF2_TOOLS, PYTHON};
use crate::process;
use crate::python::Python;

/// Read archives with three readers and compare what they say, event by event
///
/// The readers are otf2-print, the Python package otf2, and `nccl-otf2 print`. Compared are kind, location, time,
/// references by name and number, values, and attributes in their order.
/// Exit status: 0 they agree; of the first archive that fails: 1 they do not, 2 it cannot be read.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An anchor file (traces.otf2) or the folder that has it
    #[arg(required = true, value_name = "ARCHIVE")]
    archives: Vec<PathBuf>,
}

/// Compares the readers on one archive, and returns how much they read. `nccl_otf2` is the built tool.
pub(crate) fn agree(python: &Python, nccl_otf2: &Path, anchor: &Path) -> Result<String> {
    let mut compare = python.script("compare_readers.py");
    let output = process::capture(compare.arg("--nccl-otf2").arg(nccl_otf2).arg(anchor))?;
    let out = output.out.trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(out),
        Some(1) => Err(anyhow!(out)),
        _ => Err(missing(format!("{out}\n{}", output.err.trim()))),
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let anchors: Vec<PathBuf> = args.archives.iter().map(|path| anchor(path)).collect();
    packages::ensure(&[OTF2, OTF2_TOOLS, PYTHON])?;
    let python = Python::ensure(&Cache::open()?)?;
    cargo::build(Profile::Debug, &["nccl-otf2"])?;
    let nccl_otf2 = cargo::built(Profile::Debug, "nccl-otf2")?;
    process::heading("readers");
    let mut first = Ok(());
    for anchor in &anchors {
        match agree(&python, &nccl_otf2, anchor) {
            Ok(output) => println!("   {output}"),
            Err(error) => {
                println!("   {error:#}");
                first = first.and(Err(error));
            }
        }
    }
    first
}

pub(crate) fn anchor(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("traces.otf2") } else { path.to_owned() }
}
