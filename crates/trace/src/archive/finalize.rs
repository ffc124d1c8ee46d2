//! Everything that is still to do in a job's directory: write what has a journal and is not done, then
//! unify. On a finished archive nothing changes; on a half-dead one what is there is completed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use crate::archive::unify::{ANCHOR, ArchiveSummary, in_place, part_directories, unify};
use crate::error::Error;
use crate::links::pxn;
use crate::part::part_files::{is_barred, is_so_far};
use crate::part::rewrite::{
    Change, change_definitions, is_final, options_of_others, refuse_without_journals,
};
use crate::part::staging::Staging;
use crate::part::used_journal;
use crate::part::write::{
    self, JOURNAL, PartSummary, WriteOptions, claim_patiently, is_done, part_name, read_process,
    read_sidecar, write_claimed,
};
use crate::progress::Progress;
use crate::workers::Workers;
use journal::host::start_ticks;
use journal::part::late::LateCallbacks;
use journal::part::options::{ArchiveOptions, ArchiveWishes};
use journal::part::process::ProcessInfo;

/// How to finalize.
#[derive(Clone, Copy, Debug, Default)]
pub struct FinalizeOptions {
    /// Whether to write what running processes have recorded so far. Their recording goes on, and the
    /// journal stays.
    pub include_live: bool,
    /// Whether journals stay when their part is written. Damaged ones stay always.
    pub keep_journal: bool,
    /// Write only every n-th part, beginning with the i-th: `(i, n)`. Does not unify.
    pub shard: Option<(usize, usize)>,
    /// How many parts are written at once; `None` for one a core. Fewer where memory is short: writing takes about
    /// three times the size of the journal, and half of what is free is used.
    pub jobs: Option<NonZeroUsize>,
    /// How the archive is to be written; what is not asked for stays.
    pub wishes: ArchiveWishes,
}

/// What became of a part.
#[derive(Clone, Debug, PartialEq)]
pub enum PartState {
    /// Written now.
    Written(Box<PartSummary>),
    /// Was written before.
    Done,
    /// Its process runs: it writes its part itself.
    Live,
    /// Neither journal nor `done`: the process never got to record.
    Empty,
    /// Belongs to another shard.
    Elsewhere,
    /// Cannot be written, or was written and cannot be read, and why.
    Failed(String),
}

/// What finalizing did.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalizeSummary {
    /// Every part by name.
    pub parts: Vec<(String, PartState)>,
    /// What of the journals of written parts is not in them, by part. Of a shard, for the parts that were written now.
    pub damage: BTreeMap<String, Vec<String>>,
    /// The archive, if it was made now.
    pub archive: Option<ArchiveSummary>,
    /// Whether an archive with all parts is in place, and nothing recorded is missing from them.
    pub complete: bool,
}

/// Does what is to do in a job's directory.
///
/// # Errors
/// The directory cannot be read, no archive can be made, or parts would have to be written again whose journals are
/// gone: then nothing is changed. A part that cannot be written is not an
/// error: it is listed with its reason.
pub fn finalize(
    out: &Path,
    options: &FinalizeOptions,
    progress: &dyn Progress,
) -> Result<FinalizeSummary, Error> {
    let directories = part_directories(out)?;
    refuse_without_journals(&directories, &options.wishes)?;
    let of_others = options_of_others(&directories);
    // Of a shard's own parts only: the other shards are at theirs.
    let waits = |part: &PathBuf| options.shard.is_none() && used_journal::waits(part);
    let waited: Vec<bool> = directories.iter().map(waits).collect();
    let workers = Workers::new(options.jobs);
    progress.begin("parts", directories.len() as u64);
    let weights: Vec<u64> = directories.iter().map(|part| memory_bytes(part)).collect();
    let states = workers.map(&weights, |number| {
        let ours = options
            .shard
            .is_none_or(|(shard, shards)| number % shards.max(1) == shard);
        let state = match directories.get(number) {
            Some(directory) if ours => finish_part(directory, options, of_others),
            _ => (PartState::Elsewhere, false),
        };
        progress.step();
        state
    });
    progress.end();
    let (mut states, is_first): (Vec<PartState>, Vec<bool>) = states.into_iter().unzip();
    count_help(&directories, &mut states, &workers, progress);
    if !options.keep_journal {
        let used_up = is_first
            .iter()
            .zip(&waited)
            .map(|(first, waited)| *first || *waited);
        let parts = directories.iter().zip(used_up);
        for (part, _) in parts.filter(|(_, is_used_up)| *is_used_up) {
            let stays = options.shard.is_some()
                && used_journal::has_unwritten_neighbours(part, &directories);
            use_up_journal(part, stays, progress);
        }
    }
    let late = directories.iter().any(|part| came_late(out, part));
    let again = late
        || states
            .iter()
            .any(|state| matches!(state, PartState::Written(_)));
    let names = directories.iter().map(|directory| part_name(directory));
    let parts: Vec<(String, PartState)> = names.zip(states).collect();
    let mut summary = FinalizeSummary {
        complete: false,
        archive: None,
        damage: parts.iter().filter_map(damage_now).collect(),
        parts,
    };
    if options.shard.is_some() {
        return Ok(summary);
    }
    let mut done: BTreeSet<String> = BTreeSet::new();
    let mut written_with = Vec::new();
    let mut finished = directories;
    finished.retain(|directory| is_done(directory));
    for (directory, read) in finished.iter().zip(workers.read_sidecars(&finished)) {
        if let Ok(sidecar) = read {
            let mut damage = sidecar.problems;
            damage.extend(lacks_its_end(directory));
            if !damage.is_empty() {
                summary.damage.insert(part_name(directory), damage);
            }
            done.insert(part_name(directory));
            written_with.push(sidecar.options);
        }
    }
    let is_to_come = |state: &PartState| matches!(state, PartState::Live | PartState::Failed(_));
    // What stands in the way is in the summary: who reads it knows more than "no part is written".
    if done.is_empty() && summary.parts.iter().any(|(_, state)| is_to_come(state)) {
        return Ok(summary);
    }
    // Part by part is not enough: a part may have been written again under its name.
    if again || !in_place(out, &done, &written_with) {
        summary.archive = Some(unify(out, progress)?);
    }
    summary.complete =
        summary.damage.is_empty() && !summary.parts.iter().any(|(_, state)| is_to_come(state));
    Ok(summary)
}

/// A part that was written now, if it is damaged.
fn damage_now((name, state): &(String, PartState)) -> Option<(String, Vec<String>)> {
    match state {
        PartState::Written(summary) if !summary.problems.is_empty() => {
            Some((name.clone(), summary.problems.clone()))
        }
        _ => None,
    }
}

/// Writes those parts again for which others worked (PXN) that were written after them.
fn count_help(
    directories: &[PathBuf],
    states: &mut [PartState],
    workers: &Workers,
    progress: &dyn Progress,
) {
    let parts = directories.iter().zip(&*states);
    let ours = parts.filter(|(_, state)| !matches!(state, PartState::Elsewhere));
    let ours: Vec<PathBuf> = ours.map(|(directory, _)| directory.clone()).collect();
    let wanting = pxn::wanting(directories, &ours);
    if wanting.is_empty() {
        return;
    }
    let weights: Vec<u64> = wanting.iter().map(|part| memory_bytes(part)).collect();
    progress.begin("parts for which others worked", weights.len() as u64);
    let again = workers.map(&weights, |number| {
        let state = wanting.get(number).and_then(|part| write_with_help(part));
        progress.step();
        state
    });
    progress.end();
    for (part, state) in wanting.iter().zip(again) {
        let place = directories.iter().position(|directory| directory == part);
        let slot = place.and_then(|place| states.get_mut(place));
        if let (Some(slot), Some(state)) = (slot, state) {
            *slot = state;
        }
    }
}

fn write_with_help(directory: &Path) -> Option<PartState> {
    let _claim = claim_patiently(directory).ok()?;
    // Somebody else may have done it meanwhile.
    if !pxn::lacks_help(directory) {
        return None;
    }
    let sidecar = read_sidecar(directory).ok()?;
    let options = WriteOptions {
        keep_journal: true,
        archive: Some(sidecar.options),
        ..WriteOptions::default()
    };
    Some(write_part(directory, &options))
}

/// Removes the journal of a part that was written now, if all of it is there; or leaves that to who writes all parts.
fn use_up_journal(directory: &Path, stays: bool, progress: &dyn Progress) {
    // Somebody else may be writing it again.
    if let Ok(_claim) = claim_patiently(directory)
        && is_final(directory)
        && read_sidecar(directory).is_ok_and(|written| written.problems.is_empty())
    {
        if stays {
            used_journal::let_wait(directory);
        } else {
            used_journal::remove(directory, progress);
        }
    }
}

/// Memory that writing takes for each byte of the journal.
const MEMORY_PER_BYTE: u64 = 3;

/// About how much memory it takes to write a part.
fn memory_bytes(part: &Path) -> u64 {
    let Ok(segments) = fs::read_dir(part.join(JOURNAL)) else {
        return 0;
    };
    let sizes = segments.flatten().filter_map(|file| file.metadata().ok());
    let journal: u64 = sizes.map(|data| data.len()).sum();
    journal.saturating_mul(MEMORY_PER_BYTE)
}

/// Whether a part tells of callbacks that came after the archive was made.
fn came_late(out: &Path, part: &Path) -> bool {
    let written = |path: &Path| path.metadata().and_then(|data| data.modified());
    match (
        written(&LateCallbacks::path(part)),
        written(&out.join(ANCHOR)),
    ) {
        (Ok(late), Ok(archive)) => late > archive,
        _ => false,
    }
}

/// What becomes of a part, and whether it is written for the first time and for good.
fn finish_part(
    directory: &Path,
    options: &FinalizeOptions,
    of_others: Option<ArchiveOptions>,
) -> (PartState, bool) {
    if let Some(reason) = is_barred(directory) {
        return (PartState::Failed(reason), false);
    }
    Staging::sweep(directory, write::STAGING);
    if is_final(directory) && options.wishes.is_empty() {
        return (finish_again(directory, &options.wishes), false);
    }
    if !directory.join(JOURNAL).exists() && !is_done(directory) {
        let state = match fs::read_link(directory.join(JOURNAL)) {
            Ok(target) => PartState::Failed(elsewhere(directory, &target)),
            Err(_) => PartState::Empty,
        };
        return (state, false);
    }
    let _claim = match claim_patiently(directory) {
        Ok(claim) => claim,
        Err(error) => return (PartState::Failed(error.to_string()), false),
    };
    // Somebody else may have written it meanwhile.
    if is_final(directory) {
        return (finish_again(directory, &options.wishes), false);
    }
    let process = read_process(directory).0;
    let live = is_live(&process);
    if live && !options.include_live {
        return (PartState::Live, false);
    }
    let archive = options.wishes.over(of_others.unwrap_or(process.archive));
    let state = write_part(
        directory,
        &WriteOptions {
            deadline: None,
            // Others may tell of work for this one, see [`count_help`].
            keep_journal: true,
            provisional: live,
            archive: Some(archive),
        },
    );
    let is_first = !live && matches!(state, PartState::Written(_));
    (state, is_first)
}

/// Of a part that was written while its process ran: that what it recorded later cannot be read.
fn lacks_its_end(directory: &Path) -> Option<String> {
    let journal = directory.join(JOURNAL);
    if journal.exists() || !is_so_far(directory) {
        return None;
    }
    let why = match fs::read_link(&journal) {
        Ok(target) => elsewhere(directory, &target),
        Err(_) => "its journal is gone".to_owned(),
    };
    Some(format!(
        "was written while its process ran, and not again since: {why}"
    ))
}

/// Why a journal outside of the part cannot be read (`NCCL_OTF2_JOURNAL_DIR`).
fn elsewhere(directory: &Path, target: &Path) -> String {
    let (target, process) = (target.display(), read_process(directory).0);
    if process.boot_id.is_empty() || process.boot_id == journal::host::boot_id() {
        return format!("its journal was put into {target}, which is not there any more");
    }
    format!(
        "its journal is in {target} on {}: run `nccl-otf2 finalize` there",
        process.host
    )
}

/// A part that is written stays, unless it is wanted otherwise.
fn finish_again(directory: &Path, wishes: &ArchiveWishes) -> PartState {
    let sidecar = match read_sidecar(directory) {
        Ok(sidecar) => sidecar,
        Err(error) => return PartState::Failed(error.to_string()),
    };
    match Change::of(sidecar.options, wishes) {
        Change::Nothing => PartState::Done,
        Change::Definitions(archive) => match change_definitions(directory, sidecar, archive) {
            Ok(()) => PartState::Done,
            Err(error) => PartState::Failed(error.to_string()),
        },
        // Somebody kept the journal: it is kept on.
        Change::Events(archive) => write_part(
            directory,
            &WriteOptions {
                keep_journal: true,
                archive: Some(archive),
                ..WriteOptions::default()
            },
        ),
    }
}

fn write_part(directory: &Path, options: &WriteOptions) -> PartState {
    match write_claimed(directory, options, &crate::progress::Silent) {
        Ok(summary) => PartState::Written(Box::new(summary)),
        Err(error) => PartState::Failed(error.to_string()),
    }
}

/// Whether the process that recorded still runs and records here, as far as can be told from here: on its own host, by
/// its id and, where that is known, by when it started: ids are used again. A process of another host is taken for
/// dead: who finalizes there knows better.
#[must_use]
pub fn is_live(process: &ProcessInfo) -> bool {
    process.snapshot_realtime_ns == 0
        && process.pid != 0
        && process.pid != std::process::id()
        && process.boot_id == journal::host::boot_id()
        && start_ticks(process.pid)
            .is_some_and(|ticks| process.start_ticks == 0 || process.start_ticks == ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_lives_if_it_is_the_one_that_recorded() {
        let parent = std::os::unix::process::parent_id();
        let ticks = start_ticks(parent).expect("whoever started the test still runs");
        let recorded_by = |start_ticks| ProcessInfo {
            pid: parent,
            boot_id: journal::host::boot_id(),
            start_ticks,
            ..ProcessInfo::default()
        };
        assert!(is_live(&recorded_by(ticks)));
        // Its id was given to another since.
        assert!(!is_live(&recorded_by(ticks - 1)));
        // Recordings of before do not say when the process started.
        assert!(is_live(&recorded_by(0)));
        let of_another_boot = ProcessInfo {
            boot_id: "another".to_owned(),
            ..recorded_by(ticks)
        };
        assert!(!is_live(&of_another_boot));
    }
}
