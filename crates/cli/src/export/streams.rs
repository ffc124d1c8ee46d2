//! The callbacks of each process as a file of JSON Lines, of the journals.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use exports::Outcome;
use nccl_events::Progress as _;

use crate::listing::recording::Recording;
use crate::listing::stream::{self, Schema};
use crate::listing::{Filter, beginning, journals_of};
use crate::progress::Bar;

/// Writes a file a process into the directory `out`, one process after the other.
pub(super) fn write(path: &Path, filter: &Filter, schema: Schema, out: &Path, bar: &Bar) -> Result<Outcome> {
    // The archive of a job lies in the directory that has the journals.
    let job = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let journals = journals_of(job)?;
    fs::create_dir(out).with_context(|| format!("cannot make {}", out.display()))?;
    bar.begin("processes", journals.len() as u64);
    let begins = match filter.is_about_time() {
        true => Some(begins(&journals)?),
        false => None,
    };
    let mut outcome = Outcome::default();
    let (mut lost, mut unknown) = (0, 0);
    for (number, journal) in journals.iter().enumerate() {
        let mut recording = read(journal)?;
        if let Some(begin_ns) = begins.as_ref().and_then(|begins| begins.get(number)) {
            recording.begin_ns = *begin_ns;
        }
        recording.keep(filter);
        recording.remark();
        let file = PathBuf::from(format!("{}.jsonl", name_of(journal)?));
        let to = out.join(&file);
        let writing = || format!("cannot write {}", to.display());
        let mut writer = BufWriter::with_capacity(1 << 16, File::create_new(&to).with_context(writing)?);
        unknown += stream::lines(&recording, schema, |line| {
            outcome.events += 1;
            writeln!(writer, "{line}").with_context(writing)
        })?;
        writer.flush().with_context(writing)?;
        lost += recording.outcome.losses.total();
        outcome.files.push(file);
        bar.step();
    }
    bar.end();
    outcome.leave_out(lost, "callbacks were not recorded");
    outcome.leave_out(
        unknown,
        "lines that the minimal schema does not have: unstopped events, newer kinds, facts of GPUs",
    );
    Ok(outcome)
}

fn read(journal: &Path) -> Result<Recording> {
    Recording::read(journal).with_context(|| journal.display().to_string())
}

/// The beginning that all processes share, on the clock of each.
fn begins(journals: &[PathBuf]) -> Result<Vec<u64>> {
    let recordings = journals.iter().map(|journal| Ok(read(journal)?.summary()));
    let mut recordings: Vec<Recording> = recordings.collect::<Result<_>>()?;
    beginning::share(&mut recordings);
    Ok(recordings.iter().map(|recording| recording.begin_ns).collect())
}

/// The name of the part that a journal is in; of a journal that lies alone, its own.
fn name_of(journal: &Path) -> Result<String> {
    let journal = fs::canonicalize(journal).with_context(|| journal.display().to_string())?;
    let part = journal.parent().filter(|_| journal.ends_with(journal::part::JOURNAL));
    match part.unwrap_or(&journal).file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => bail!("{}: not the journal of a process", journal.display()),
    }
}
