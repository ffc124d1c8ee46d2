//! `cargo xtask readers`: three readers say the same of an archive, event by event.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, anyhow};

use crate::cache::{self, Cache};
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
    /// Write a list with an object for each archive to FILE
    ///
    /// The keys: anchor, agree; locations, events, attributes, kinds (number by kind), by_name_only (kinds whose own
    /// fields were not compared); difference {location, name, index (from 0, on its location), saw {reader: event}},
    /// where they do not agree; error, where an archive could not be read.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// An anchor file (traces.otf2) or the folder that has it
    #[arg(required = true, value_name = "ARCHIVE")]
    archives: Vec<PathBuf>,
}

/// Compares the readers on one archive, and says how much they read. `nccl_otf2` is the built tool.
pub(crate) fn agree(python: &Python, nccl_otf2: &Path, anchor: &Path) -> Result<String> {
    let output = process::capture(compare(python, nccl_otf2).arg(anchor))?;
    let out = output.out.trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(out),
        Some(1) => Err(anyhow!(out)),
        _ => Err(missing(format!("{out}\n{}", output.err.trim()))),
    }
}

fn compare(python: &Python, nccl_otf2: &Path) -> Command {
    let mut command = python.script("compare_readers.py");
    command.arg("--nccl-otf2").arg(nccl_otf2);
    command
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
    if let Some(file) = &args.json {
        let output = process::capture(compare(&python, &nccl_otf2).arg("--json").args(&anchors))?;
        cache::write(file, output.out)?;
    }
    first
}

pub(crate) fn anchor(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("traces.otf2") } else { path.to_owned() }
}
