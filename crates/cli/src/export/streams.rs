//! Exports each process's callbacks from the journals, as one file of JSON Lines per process.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use analysis::{in_parallel, try_in_parallel};
use anyhow::{Context as _, Result, bail};
use exports::Outcome;
use nccl_events::Progress as _;

use crate::exit::Exit;
use crate::journals::process::{Process, present};
use crate::journals::stream::{self, Count, Schema};
use crate::journals::{Filter, Journals, journals_of, share_beginning};
use crate::place;
use crate::print;
use crate::progress::Bar;

pub(super) fn write(path: &Path, filter: &Filter, schema: Schema, out: &Path, bar: &Bar) -> Result<(Outcome, Exit)> {
    // A job's archive is in the directory that contains the journals.
    let job = place::directory(path);
    let Journals { found: journals, mut unread } = journals_of(job)?;
    fs::create_dir(out).with_context(|| format!("cannot make {}", out.display()))?;
    bar.begin("processes", journals.len() as u64);
    let begins = match filter.is_about_time() || filter.is_about_events() {
        true => begins(&journals, filter)?,
        false => Vec::new(),
    };
    let write_one = |(number, journal): (usize, &PathBuf)| {
        let mut process = match read(journal) {
            Ok(process) => process,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(begin_ns) = begins.get(number) {
            process.begin_ns = *begin_ns;
        }
        process.keep(filter);
        let file = PathBuf::from(format!("{}.jsonl", name_of(journal)?));
        let count = write_process(&process, filter, schema, &out.join(&file))?;
        bar.step();
        Ok(Ok((file, count, process.summary())))
    };
    let written: Result<Vec<Result<Written>>> = try_in_parallel(journals.iter().enumerate(), write_one);
    bar.end();
    let mut outcome = Outcome::default();
    let (mut lost, mut unknown, mut is_whole) = (0, 0, true);
    for written in written? {
        let (file, count, process) = match written {
            Ok(written) => written,
            Err(error) => {
                unread.push(error);
                continue;
            }
        };
        process.remark(count.orphan_stops.iter().sum());
        is_whole &= process.is_whole();
        lost += process.outcome.losses.total();
        unknown += count.left_out;
        outcome.events += count.written;
        outcome.files.push(file);
    }
    if outcome.files.is_empty()
        && let Some(error) = unread.pop()
    {
        unread.iter().for_each(print::error);
        return Err(error);
    }
    unread.iter().for_each(print::error);
    outcome.leave_out(unread.len() as u64, "processes whose journals cannot be read");
    outcome.leave_out(lost, "callbacks were not recorded");
    outcome.leave_out(
        unknown,
        "lines that the minimal schema does not have: unstopped events, newer kinds, facts of GPUs",
    );
    Ok((outcome, if is_whole && unread.is_empty() { Exit::Well } else { Exit::Problems }))
}

type Written = (PathBuf, Count, Process);

fn write_process(process: &Process, filter: &Filter, schema: Schema, to: &Path) -> Result<Count> {
    let writing = || format!("cannot write {}", to.display());
    let mut writer = BufWriter::with_capacity(1 << 20, File::create_new(to).with_context(writing)?);
    let count = stream::lines(std::slice::from_ref(process), filter, schema, |line| {
        writer.write_all(line).and_then(|()| writer.write_all(b"\n")).with_context(writing)?;
        Ok(true)
    })?;
    writer.flush().with_context(writing)?;
    Ok(count)
}

fn read(journal: &Path) -> Result<Process> {
    Process::read(journal).with_context(|| journal.display().to_string())
}

/// The common start on the clock of each readable process. Fails if no process has anything that the filter selects.
fn begins(journals: &[PathBuf], filter: &Filter) -> Result<Vec<u64>> {
    let summary = |journal: &PathBuf| read(journal).map(Process::summary).ok();
    let read: Vec<Option<Process>> = in_parallel(journals, summary);
    let is_read: Vec<bool> = read.iter().map(Option::is_some).collect();
    let mut processes: Vec<Process> = read.into_iter().flatten().collect();
    share_beginning(&mut processes);
    if !processes.is_empty() {
        present(&processes, filter)?;
    }
    let mut begins = processes.iter().map(|process| process.begin_ns);
    Ok(is_read.into_iter().map(|is_read| if is_read { begins.next().unwrap_or(0) } else { 0 }).collect())
}

/// The name of the part that contains the journal, or the name of the journal.
fn name_of(journal: &Path) -> Result<String> {
    let journal = fs::canonicalize(journal).with_context(|| journal.display().to_string())?;
    match journal.parent().filter(|_| journal.ends_with(journal::part::JOURNAL)).unwrap_or(&journal).file_name() {
        Some(name) => Ok(name.to_string_lossy().into_owned()),
        None => bail!("{}: not the journal of a process", journal.display()),
    }
}
