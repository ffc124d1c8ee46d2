//! Ends a session: stops recording, writes the part, and makes the archive if this process is the last. The only module
//! of the recording half that uses the writing half.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use settings::shell_word;

use super::state::{Closing, Session, describe, say};
use crate::control::named;
use crate::host::{logger, memory};
use crate::scorep::substrate;
use crate::{chain, record, scorep};
use archive::{ArchiveSummary, PartSummary, WriteOptions, is_last_process, part_directories, unify, write_part};
use in_process::{Recorded, tell_tensorflow};
use journal::host;
use journal::part::ChainReport;
use journal::part::JOURNAL;
use journal::part::LateCallbacks;
use journal::part::ScorepReport;
use journal::part::environment::JobEnvironment;
use journal::writer::{JournalWriter, Stop};
use journal::writing;
use settings::{Config, Finalize, Verbosity};

/// The largest journal that is written inside the job. Writing a larger one would hardly meet the time limit, and
/// writing needs about three times as much memory.
const INLINE_LIMIT_BYTES: u64 = 512 << 20;

/// Fixed memory needed to write a part or an archive: libotf2's chunks, tables.
const WRITING_BYTES: u64 = 192 << 20;
/// Memory per writing thread: its stack, and what the C library maps for it.
const THREAD_BYTES: u64 = 136 << 20;
/// Memory needed to write a part, per byte of its journal.
const FOR_JOURNAL_BYTE: u64 = 3;
/// Memory needed to make an archive, per part.
const FOR_PART_BYTES: u64 = 1 << 20;

static CLOSED: AtomicU64 = AtomicU64::new(0);
/// The directory whose archive this process must still make at exit.
static LEFT_FOR_EXIT: Mutex<Option<PathBuf>> = Mutex::new(None);
/// The part that was recorded last, and what came after its end.
static LAST_PART: Mutex<Option<(PathBuf, LateCallbacks)>> = Mutex::new(None);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// NCCL's last communicator has ended; another may follow.
    LastFinalize,
    Exit,
}

/// Closes the session. Runs inside the host's last `finalize` or its exit.
pub(super) fn close(session: Session, mut closing: Closing, moment: Moment) {
    writing::guarded(|| {
        let ended = end(session);
        closing.recording_has_ended();
        write_ended(ended, moment);
    });
}

/// A session whose recording has ended, with what was known of it process-wide.
struct Ended {
    config: Config,
    out: PathBuf,
    part: PathBuf,
    writer: Arc<JournalWriter>,
    recorded: Option<Recorded>,
    chain: ChainReport,
    scorep: Option<ScorepReport>,
    steps_in_vain: Option<u32>,
    /// Kept, because the next session forgets it.
    has_memory_failed: bool,
}

/// Ends the recording. Another one may begin afterwards, so this takes all that is process-wide.
fn end(session: Session) -> Ended {
    record::end();
    let scorep = scorep::end();
    *LAST_PART.lock() = Some((session.part.clone(), LateCallbacks::default()));
    let recorded = session.recorded();
    let Session { config, out, part, writer, maintenance, gpus, .. } = session;
    if let Some(gpus) = gpus {
        gpus.end();
    }
    maintenance.stop();
    let has_memory_failed = memory::has_failed();
    if has_memory_failed {
        writer.stop_without_memory();
    }
    let chain = chain::take_report();
    let steps_in_vain = named::begun_in_vain();
    Ended { config, out, part, writer, recorded, chain, scorep, steps_in_vain, has_memory_failed }
}

fn write_ended(ended: Ended, moment: Moment) {
    // At exit no profile is taken any more.
    if let (Moment::LastFinalize, Some(recorded)) = (moment, &ended.recorded) {
        tell_tensorflow(recorded);
    }
    if is_removed(&ended.part) {
        logger::warn(&format!(
            "{} was removed or moved while the job ran: what this process recorded is lost, unless `nccl-otf2 finalize \
             DIR` finds it in a new place",
            ended.part.join(JOURNAL).display()
        ));
        return;
    }
    report_missed(&ended);
    write(&ended, moment);
}

/// Whether the journal was removed. Its first file normally stays to the end.
fn is_removed(part: &Path) -> bool {
    part.join(JOURNAL).join("0.0").try_exists().is_ok_and(|exists| !exists)
}

/// Writes what chained plugins and Score-P missed to the archive, and tells the user why recording stopped.
fn report_missed(ended: &Ended) {
    let Ended { config, part, writer, chain, scorep, .. } = ended;
    if let Err(error) = chain.write(part) {
        logger::warn(&format!("{}: {error}; the archive does not say what chained plugins missed", part.display()));
    }
    if let Some(report) = scorep {
        if let Err(error) = report.write(part) {
            logger::warn(&format!("{}: {error}; the archive does not say what was shown to Score-P", part.display()));
        }
        say(config, &report.summary());
    }
    // Room is prepared ahead, so all events may have fitted into the existing room although there was none for more.
    if let Some(stop) = writer.stop_reason().filter(|stop| writer.has_losses() || *stop == Stop::Memory) {
        logger::warn(&format!(
            "not everything was recorded: {}; what is missing is counted in the trace",
            describe(&stop)
        ));
    }
}

/// The reason to leave a task that needs this much memory to the tool: Rust ends a program when an allocation fails.
fn lacks_memory(needed_bytes: u64, has_failed: bool) -> Option<String> {
    if has_failed || !memory::is_there() {
        return Some("writing it in a job without memory could end the job".to_owned());
    }
    let room_bytes = memory::room_bytes()?;
    (room_bytes < needed_bytes).then(|| {
        format!(
            "writing it may take {} MiB of memory, and the limit (ulimit -v or -d) leaves {} MiB",
            needed_bytes >> 20,
            room_bytes >> 20
        )
    })
}

/// The memory that making the archive of all parts may need.
fn memory_of_archive(out: &Path) -> u64 {
    // If the directory cannot be read, making the archive reports it.
    let parts = part_directories(out).map_or(1, |parts| parts.len());
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = cores.min(parts) as u64 + 1;
    WRITING_BYTES + threads * THREAD_BYTES + parts as u64 * FOR_PART_BYTES
}

/// Writes the part, and the archive if this process is the last, unless this is left to the tool.
fn write(ended: &Ended, moment: Moment) {
    let Ended { config, out, part, writer, steps_in_vain, .. } = ended;
    let bytes = writer.reserved_bytes();
    let (mib, word) = (bytes >> 20, shell_word(out));
    if let (Some(name), Some(begun)) = (config.steps.name(), *steps_in_vain) {
        let pushed = match begun {
            0 => format!("the program pushed no range \"{name}\" (nvtxRangePush)"),
            1 => format!("no call was in the only range \"{name}\""),
            n => format!("the program pushed {n} ranges \"{name}\", and no call was in those"),
        };
        logger::warn(&format!("NCCL_OTF2_STEPS={}: {pushed}; no operation is recorded", config.steps));
    }
    if config.finalize == Finalize::Offline {
        say(config, &format!("{mib} MiB of journal recorded; `nccl-otf2 finalize {word}` makes the archive"));
        return;
    }
    if bytes > INLINE_LIMIT_BYTES {
        logger::warn(&format!(
            "{mib} MiB of journal are too much to write inside the job; `nccl-otf2 finalize {word}` makes the archive"
        ));
        return;
    }
    let is_kept = |why: &str| {
        logger::warn(&format!(
            "no archive yet: {why}; the journal is kept, `nccl-otf2 finalize {word}` makes the archive"
        ));
    };
    let needed_bytes = WRITING_BYTES + THREAD_BYTES + bytes.saturating_mul(FOR_JOURNAL_BYTE);
    if let Some(why) = lacks_memory(needed_bytes, ended.has_memory_failed) {
        return is_kept(&why);
    }
    let options = WriteOptions {
        deadline: Instant::now().checked_add(config.finalize_timeout),
        keep_journal: config.keep_journal,
        whole: true,
        ..WriteOptions::default()
    };
    match write_part(part, &options, &()) {
        Ok(summary) => {
            report_loss(&summary);
            archive(config, out, moment, &summary);
        }
        Err(error) => is_kept(&host::explain(error)),
    }
}

/// Makes the archive if this process is the last one.
///
/// A program that repeatedly destroys and makes all its communicators closes a session each time. Only the first close
/// and the exit make an archive, because its cost grows with the number of parts.
fn archive(config: &Config, out: &Path, moment: Moment, summary: &PartSummary) {
    let again = CLOSED.fetch_add(1, Ordering::Relaxed) > 0;
    if again && moment == Moment::LastFinalize {
        *LEFT_FOR_EXIT.lock() = Some(out.to_owned());
        say(config, &format!("{} events written; the archive in {} is renewed at exit", summary.events, out.display()));
        return;
    }
    *LEFT_FOR_EXIT.lock() = None;
    unify_if_last(config, out, &format!("{} events written", summary.events));
}

pub(super) fn at_exit() {
    let left = LEFT_FOR_EXIT.lock().take();
    if let Some(out) = left {
        writing::guarded(|| unify_if_last(&Config::from_environment(), &out, "all parts written"));
    }
}

/// Whether this process has recorded anything before.
pub(super) fn has_recorded() -> bool {
    LAST_PART.lock().is_some()
}

/// Writes the number of callbacks and communicators since the last close, and returns how many came since the last
/// call. Called before the next session and at exit.
pub(super) fn account_for_late() -> u64 {
    let late = record::take_late();
    let mut last = LAST_PART.lock();
    if let (Some((part, all)), 1..) = (&mut *last, late.total()) {
        all.add(&late);
        let write = || host::write(&LateCallbacks::path(part), &serde_json::to_vec(all)?);
        if let Err(error) = writing::guarded(write) {
            logger::warn(&format!(
                "{} callbacks or communicators came after the recording had ended, which the trace will not say: {error}",
                all.total()
            ));
        }
    }
    late.total()
}

fn unify_if_last(config: &Config, out: &Path, done: &str) {
    let (is_last, shown, word) = (is_last_process(out), out.display(), shell_word(out));
    if matches!(is_last, Ok(true))
        && let Some(why) = lacks_memory(memory_of_archive(out), false)
    {
        logger::warn(&format!("no archive yet: {why}; `nccl-otf2 finalize {word}` makes it"));
        return;
    }
    match is_last.and_then(|last| if last { unify(out, &()).map(Some) } else { Ok(None) }) {
        Ok(Some(archive)) => {
            // Score-P creates its directory with the user's umask; the archive's directory gets the same mode.
            if let Some(around) = substrate::directory_around(out) {
                host::share(out, around);
            }
            say(config, &describe_archive(&archive));
        }
        Ok(None) => report_unfinished(
            config,
            &format!(
                "{done}; the process that finishes last makes the archive in {shown}, or `nccl-otf2 finalize {word}`"
            ),
        ),
        Err(error) => {
            logger::warn(&format!("no archive: {}; `nccl-otf2 finalize {word}` tries again", host::explain(error)))
        }
    }
}

fn describe_archive(archive: &ArchiveSummary) -> String {
    let mut line = format!(
        "wrote {}: {}, {} locations, {} events",
        archive.anchor.display(),
        match archive.parts.len() {
            1 => "1 process".to_owned(),
            processes => format!("{processes} processes"),
        },
        archive.size.locations,
        archive.size.events
    );
    match archive.counts.lost() {
        0 => line.push_str(", nothing lost"),
        count => line.push_str(&format!(", {count} LOST")),
    }
    let unfinished: u64 = archive.counts.kinds.iter().map(|(_, counts)| counts.unfinished).sum();
    if unfinished > 0 {
        line.push_str(&format!(", {unfinished} unfinished"));
    }
    line
}

/// Warns about loss, because every user must read this.
fn report_loss(summary: &PartSummary) {
    let lost = summary.counts.lost();
    if lost > 0 {
        logger::warn(&format!("{lost} events, stops and states of this process were not recorded"));
    }
    for problem in &summary.problems {
        logger::warn(&format!("journal: {problem}"));
    }
}

/// Logs that work is left to do. Up to 2.26 NCCL passes no logger, and does not report a communicator's size, so no
/// process knows that it is the last: the line then goes to stderr, from only one rank if the launcher numbers ranks.
fn report_unfinished(config: &Config, line: &str) {
    let is_first = JobEnvironment::of_process().rank.unwrap_or(0) == 0;
    if config.verbosity == Verbosity::Normal && !logger::was_lent() && is_first {
        logger::warn(line);
    } else {
        say(config, line);
    }
}
