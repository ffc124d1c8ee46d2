//! The verdict that is kept beside an archive (`hang.json`): the journals that it was judged from are removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use journal::part::{part_name, read_process};
use journal::private;
use trace::part_directories;

use super::report::rows::{FILE, ProcessRow, Report};
use crate::summary::Summary;

/// Keeps a verdict on the job beside the archive in a directory.
pub(super) fn keep(directory: &Path, report: &mut Report) -> Result<()> {
    report.archive_events = events(directory);
    let path = directory.join(FILE);
    let staged = directory.join(format!(".{FILE}.{}", std::process::id()));
    let json = serde_json::to_vec_pretty(report).context("cannot write JSON")?;
    let written = private::write(&staged, &json).and_then(|()| fs::rename(&staged, &path));
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// The verdict beside the archive in a directory; none that is of another archive, or of another job.
pub(super) fn read(directory: &Path) -> Result<Option<Report>> {
    let path = directory.join(FILE);
    let bytes = match regular_files::read(&path, regular_files::MOST_MANIFEST_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let report: Report = serde_json::from_slice(&bytes).with_context(|| {
        format!("{}: not a report of `hang`; remove it, and `hang` judges the archive", path.display())
    })?;
    // An archive has no names of parts.
    let is_of = |part: &PathBuf, process: &ProcessRow| {
        let (info, _) = read_process(part);
        info.pid != 0 && (&info.host, info.pid) == (&process.host, process.pid)
    };
    let is_judged = |part: &PathBuf| {
        let mut processes = report.processes.iter();
        processes.clone().any(|it| it.part == part_name(part)) || processes.any(|it| is_of(part, it))
    };
    let has_all = part_directories(directory).is_ok_and(|parts| parts.iter().all(is_judged));
    let is_of_this = report.archive_events.is_some() && report.archive_events == events(directory);
    Ok((has_all && is_of_this).then_some(report))
}

/// By which an archive is known again.
fn events(directory: &Path) -> Option<u64> {
    Summary::read(directory).ok().map(|summary| summary.events)
}
