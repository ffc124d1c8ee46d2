//! Looking at the archive with eyes that are not ours: OTF2's own printer, and the Python reader.

use std::path::Path;
use std::process::Command;

use super::job::Tools;
use crate::cargo;
use crate::failure::{Failure, Result};
use crate::process;
use crate::python::Python;
use crate::report;

/// `otf2-print` must read it all without a word on stderr, and our own `check` must find nothing.
pub(super) fn check(tools: &Tools, anchor: &Path) -> Result<()> {
    let output = process::capture(Command::new("otf2-print").arg(anchor))?;
    let complaints = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || !complaints.trim().is_empty() {
        return Err(Failure::wrong(format!(
            "otf2-print {} ended with {}:\n{complaints}",
            anchor.display(),
            output.status
        )));
    }
    let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count();
    report::fact(&format!(
        "otf2-print reads it without a warning ({lines} lines)"
    ));
    process::run(Command::new(&tools.nccl_otf2).arg("check").arg(anchor))
}

/// Compares the archive with the host program's own log; neither is read by our code.
pub(super) fn compare(python: &Python, anchor: &Path, log_prefix: &Path) -> Result<()> {
    let script = cargo::root().join("xtask/python/compare_counts.py");
    process::run(
        Command::new(python.interpreter())
            .arg(script)
            .args([anchor, log_prefix]),
    )
}
