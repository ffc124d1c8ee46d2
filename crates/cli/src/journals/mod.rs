//! Reads processes' journals for `print` and `export`.

pub(crate) mod fields;
mod filter;
pub(crate) mod gpu;
pub(crate) mod process;
pub(crate) mod range;
pub(crate) mod states;
pub(crate) mod stream;
pub(crate) mod value;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result, bail};
use journal::part::{JOURNAL, PROCESS};

use crate::place::{self, PARTS};
use process::Process;

pub(crate) use filter::{Filter, Time, rank};

pub(crate) struct Journals {
    pub(crate) found: Vec<PathBuf>,
    pub(crate) unread: Vec<Error>,
}

/// The journals at `path`: of a part, of all parts of a job, or `path` itself if it is a journal's directory.
pub(crate) fn journals_of(path: &Path) -> Result<Journals> {
    let has_parts = place::has_parts(path)?;
    let one = |path: PathBuf| Ok(Journals { found: vec![path], unread: Vec::new() });
    if path.join("0.0").is_file() {
        return one(path.to_owned());
    }
    if path.join(JOURNAL).is_dir() {
        return one(path.join(JOURNAL));
    }
    let parts = if has_parts { path.join(PARTS) } else { path.to_owned() };
    let mut found = Vec::new();
    let mut unread = Vec::new();
    // A file contains no parts.
    let entries = if parts.is_dir() { Some(fs::read_dir(&parts).with_context(|| reading(&parts))?) } else { None };
    for entry in entries.into_iter().flatten() {
        match journal_of(&entry.with_context(|| reading(&parts))?.path()) {
            Ok(journal) => found.extend(journal),
            Err(error) => unread.push(error),
        }
    }
    nccl_events::sort::sort(&mut found);
    if !found.is_empty() {
        return Ok(Journals { found, unread });
    }
    if path.join(PROCESS).is_file() || place::is_archive(path) || !unread.is_empty() {
        bail!(
            "{}: no journal: they are removed when they are written into an archive, unless the job has \
             NCCL_OTF2_KEEP_JOURNAL=1 or is started with `nccl-otf2 run --keep-journal`",
            path.display()
        );
    }
    bail!("{}: no archive, no directory of a process's part, and no journal", path.display())
}

fn reading(path: &Path) -> String {
    format!("cannot read {}", path.display())
}

/// The journal of a part; `None` if there is no part.
fn journal_of(part: &Path) -> Result<Option<PathBuf>> {
    let journal = part.join(JOURNAL);
    match journal.metadata() {
        Ok(data) if data.is_dir() => Ok(Some(journal)),
        Ok(_) => bail!("{} is no directory: its process is left out", journal.display()),
        Err(error) if error.kind() != ErrorKind::NotFound && part.is_dir() => {
            Err(error).with_context(|| format!("{}: its process is left out", journal.display()))
        }
        Err(_) => match journal.read_link() {
            Ok(target) => bail!(
                "{}: the journal was put into {}, which is not here: its process is left out",
                part.display(),
                target.display()
            ),
            Err(_) if part.join(PROCESS).is_file() => {
                bail!("{}: there is no journal (any more): its process is left out", part.display())
            }
            Err(_) => Ok(None),
        },
    }
}

/// Sets the start of all journals to that of the first, each on its own clock. Processes of a boot share a clock;
/// between hosts, the system clocks are not corrected, just as in archives.
pub(crate) fn share_beginning(processes: &mut [Process]) {
    // By boot: CLOCK_REALTIME - CLOCK_MONOTONIC of its first journal.
    let mut offsets: BTreeMap<String, (u64, i64)> = BTreeMap::new();
    for process in processes.iter() {
        let found = (process.begin_ns, process.realtime_offset_ns);
        let first = offsets.entry(process.boot_id.clone()).or_insert(found);
        *first = (*first).min(found);
    }
    let offset = |process: &Process| offsets.get(&process.boot_id).map_or(0, |(_, offset)| *offset);
    let begins = processes.iter().map(|process| process.begin_ns.saturating_add_signed(offset(process)));
    let Some(begin) = begins.min() else { return };
    for process in processes {
        process.begin_ns = begin.saturating_sub_signed(offset(process));
    }
}
