//! `cargo xtask readers`: three readers say the same of an archive, event by event.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::cargo::{self, Profile};
use crate::failure::{Context as _, Failure, Result};
use crate::options::{Options, unknown};
use crate::packages::{self, OTF2, OTF2_TOOLS, PYTHON};
use crate::process;
use crate::python::Python;
use crate::report;

const HELP: &str = "\
Reads archives with otf2-print, with the Python package otf2, and with `nccl-otf2 print`, and compares what they say,
event by event: kind, location, time, references by name and number, values, attributes in their order.

Usage: cargo xtask readers [--json FILE] ARCHIVE…

ARCHIVE is an anchor file (traces.otf2) or the folder that has it.
--json writes a list with an object for each archive to FILE:
  anchor, agree
  locations, events, attributes, kinds (number by kind), by_name_only (kinds whose own fields were not compared)
  difference {location, name, index (from 0, on its location), saw {reader: event}}, where they do not agree
  error, where an archive could not be read
Exit status: 0 they agree; of the first archive that fails: 1 they do not, 2 it cannot be read.
";

/// What the readers agree on.
pub(crate) struct Agreement {
    /// How much they read, in a line.
    pub(crate) said: String,
}

/// Compares the readers on one archive. `nccl_otf2` is the built tool.
pub(crate) fn agree(python: &Python, nccl_otf2: &Path, anchor: &Path) -> Result<Agreement> {
    let output = process::capture(compare(python, nccl_otf2).arg(anchor))?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    match output.status.code() {
        Some(0) => Ok(Agreement { said }),
        Some(1) => Err(Failure::wrong(said)),
        _ => {
            let complaints = String::from_utf8_lossy(&output.stderr);
            Err(Failure::missing(format!("{said}\n{}", complaints.trim())))
        }
    }
}

fn compare(python: &Python, nccl_otf2: &Path) -> Command {
    let mut command = Command::new(python.interpreter());
    command
        .arg("-B")
        .arg(cargo::root().join("xtask/python/compare_readers.py"))
        .arg("--nccl-otf2")
        .arg(nccl_otf2);
    command
}

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let (mut anchors, mut json) = (Vec::new(), None);
    let mut options = Options::new(words);
    while let Some(word) = options.next()? {
        match word {
            "-h" | "--help" => {
                print!("{HELP}");
                return Ok(());
            }
            "--json" => json = Some(options.value(word)?),
            _ if word.starts_with('-') => return Err(unknown(word, HELP)),
            path => anchors.push(anchor(Path::new(path))),
        }
    }
    if anchors.is_empty() {
        return Err(Failure::usage(format!("no archive is named\n\n{HELP}")));
    }
    packages::ensure(&[OTF2, OTF2_TOOLS, PYTHON])?;
    let python = Python::ensure(&Cache::open()?)?;
    report::heading("build");
    cargo::build(Profile::Debug, &["nccl-otf2"])?;
    let nccl_otf2 = cargo::built(Profile::Debug, "nccl-otf2")?;
    report::heading("readers");
    let mut first = Ok(());
    for anchor in &anchors {
        match agree(&python, &nccl_otf2, anchor) {
            Ok(agreement) => report::fact(&agreement.said),
            Err(failure) => {
                report::fact(failure.message());
                first = first.and(Err(failure));
            }
        }
    }
    if let Some(file) = json {
        let output = process::capture(compare(&python, &nccl_otf2).arg("--json").args(&anchors))?;
        std::fs::write(file, output.stdout).or_fail(|| format!("write {file}"))?;
    }
    first
}

/// The anchor file of a folder, or the file itself.
fn anchor(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join("traces.otf2")
    } else {
        path.to_owned()
    }
}
