//! Keeps the verdict beside an archive, because the journals that it is based on are removed.

use std::path::{Path, PathBuf};
use std::{fs, io};

use journal::part::{part_name, read_process};

use trace::part_directories;

use super::error::Error;
use super::report::rows::{ProcessRow, Report};
use journal::host;

/// File name of a kept report, in the directory of the archive.
pub const FILE: &str = "hang.json";

/// Stores a report beside the archive in `directory`. The archive's number of events identifies the archive.
pub fn keep(directory: &Path, report: &mut Report, archive_events: Option<u64>) -> Result<(), Error> {
    report.archive_events = archive_events;
    let path = directory.join(FILE);
    let staged = directory.join(format!(".{FILE}.{}", std::process::id()));
    let json = serde_json::to_vec_pretty(report).map_err(io::Error::from);
    let written = json.and_then(|json| host::write(&staged, &json)).and_then(|()| fs::rename(&staged, &path));
    written.map_err(Error::io("write", &path))
}

/// The report kept in `directory`; `None` if it is about another archive or another job.
pub fn kept(directory: &Path, archive_events: impl FnOnce() -> Option<u64>) -> Result<Option<Report>, Error> {
    let path = directory.join(FILE);
    let bytes = match regular_files::read(&path, regular_files::MOST_MANIFEST_BYTES) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(Error::io("read", &path))?,
    };
    let report: Report = serde_json::from_slice(&bytes).map_err(|source| Error::NotAReport { path, source })?;
    // A report on an archive has no part names.
    let is_process = |part: &PathBuf, process: &ProcessRow| {
        let (info, _) = read_process(part);
        info.pid != 0 && (&info.host, info.pid) == (&process.host, process.pid)
    };
    let is_judged = |part: &PathBuf| {
        report.processes.iter().any(|it| it.part == part_name(part))
            || report.processes.iter().any(|it| is_process(part, it))
    };
    let has_all = part_directories(directory).is_ok_and(|parts| parts.iter().all(is_judged));
    Ok((has_all && report.archive_events.is_some() && report.archive_events == archive_events()).then_some(report))
}
