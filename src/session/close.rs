//! Ends a session: stops recording, writes the part, and makes the archive if this process is the last. The only module
//! of the recording half that uses the writing half. The sessions of this process, and its communicators, are here,
//! too.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::control::{LargestCommunicator, steps};
use crate::gpu::Gpus;
use crate::host::process::{ThreadKey, this_thread};
use crate::host::{process, threads};
use crate::scorep::{bridge, substrate};
use crate::session::maintenance::{Maintenance, SessionDirectories};
use crate::{chain, record};
use archive::{ArchiveSummary, PartSummary, WriteOptions, is_last_process, part_directories, unify, write_part};
use in_process::{Recorded, notify_tensorflow};
use journal::part::environment::JobEnvironment;
use journal::part::{ChainReport, JOURNAL, LateCallbacks, ScorepReport};
use journal::writer::{JournalWriter, Stop};
use journal::{host, writing};
use nccl_events::CommInit;
use nccl_events::ids::{ContextId, ProcessTag};
use parking_lot::{Condvar, Mutex, MutexGuard};
use settings::{Config, Finalize, Verbosity, shell_word};

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
pub(crate) enum Moment {
    /// NCCL's last communicator has ended; another may follow.
    LastFinalize,
    Exit,
}

/// Closes the session. Runs inside the host's last `finalize` or its exit.
pub(crate) fn close(session: RecordingSession, mut closing: Closing, moment: Moment) {
    writing::guarded(|| {
        let ended = end_recording(session);
        closing.recording_has_ended();
        write_ended(ended, moment);
    });
}

/// A session whose recording has ended, with what was known of it process-wide.
struct EndedSession {
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
fn end_recording(session: RecordingSession) -> EndedSession {
    record::end();
    let scorep = bridge::end();
    *LAST_PART.lock() = Some((session.part.clone(), LateCallbacks::default()));
    let recorded = session.recorded();
    let RecordingSession { config, out, part, writer, maintenance, gpus, .. } = session;
    if let Some(gpus) = gpus {
        gpus.end();
    }
    maintenance.stop();
    let has_memory_failed = threads::has_failed();
    if has_memory_failed {
        writer.stop_without_memory();
    }
    let chain = chain::take_report();
    let steps_in_vain = steps::steps_without_calls();
    EndedSession { config, out, part, writer, recorded, chain, scorep, steps_in_vain, has_memory_failed }
}

fn write_ended(ended: EndedSession, moment: Moment) {
    // At exit no profile is taken any more.
    if let (Moment::LastFinalize, Some(recorded)) = (moment, &ended.recorded) {
        notify_tensorflow(recorded);
    }
    if is_removed(&ended.part) {
        process::warn(&format!(
            "{} was removed or moved while the job ran: this process's recording is lost, unless `nccl-otf2 finalize \
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
fn report_missed(ended: &EndedSession) {
    let EndedSession { config, part, writer, chain, scorep, .. } = ended;
    if let Err(error) = chain.write(part) {
        process::warn(&format!("{}: {error}; the archive does not say what chained plugins missed", part.display()));
    }
    if let Some(report) = scorep {
        if let Err(error) = report.write(part) {
            process::warn(&format!("{}: {error}; the archive does not say what was shown to Score-P", part.display()));
        }
        log_to_nccl(config, &report.summary());
    }
    // Room is prepared ahead, so all events may have fitted into the existing room although there was none for more.
    if let Some(stop) = writer.stop_reason().filter(|stop| writer.has_losses() || *stop == Stop::Memory) {
        process::warn(&format!(
            "not everything was recorded: {}; what is missing is counted in the trace",
            describe(&stop)
        ));
    }
}

/// The reason to leave a task that needs this much memory to the tool: Rust ends a program when an allocation fails.
fn lacks_memory(needed_bytes: u64, has_failed: bool) -> Option<String> {
    if has_failed || !threads::is_there() {
        return Some("writing it without enough memory could end the job".to_owned());
    }
    let room_bytes = threads::room_bytes()?;
    (room_bytes < needed_bytes).then(|| {
        format!(
            "writing it may take {} MiB of memory, but the limit (ulimit -v or -d) leaves {} MiB",
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
fn write(ended: &EndedSession, moment: Moment) {
    let EndedSession { config, out, part, writer, steps_in_vain, .. } = ended;
    let bytes = writer.reserved_bytes();
    let (mib, word) = (bytes >> 20, shell_word(out));
    if let (Some(name), Some(begun)) = (config.steps.name(), *steps_in_vain) {
        let pushed = match begun {
            0 => format!("the program pushed no range \"{name}\" (nvtxRangePush)"),
            1 => format!("no call was in the only range \"{name}\""),
            n => format!("the program pushed {n} ranges \"{name}\", but no call was in those"),
        };
        process::warn(&format!("NCCL_OTF2_STEPS={}: {pushed}; no operation is recorded", config.steps));
    }
    if config.finalize == Finalize::Offline {
        log_to_nccl(config, &format!("{mib} MiB of journal recorded; `nccl-otf2 finalize {word}` makes the archive"));
        return;
    }
    if bytes > INLINE_LIMIT_BYTES {
        process::warn(&format!(
            "{mib} MiB of journal is too much to write inside the job; `nccl-otf2 finalize {word}` makes the archive"
        ));
        return;
    }
    let is_kept = |why: &str| {
        process::warn(&format!(
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
        Err(error) => is_kept(&host::explain_write_error(error)),
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
        log_to_nccl(
            config,
            &format!("{} events written; the archive in {} is updated at exit", summary.events, out.display()),
        );
        return;
    }
    *LEFT_FOR_EXIT.lock() = None;
    unify_if_last(config, out, &format!("{} events written", summary.events));
}

pub(crate) fn at_exit() {
    let left = LEFT_FOR_EXIT.lock().take();
    if let Some(out) = left {
        writing::guarded(|| unify_if_last(&Config::from_environment(), &out, "all parts written"));
    }
}

/// Whether this process has recorded anything before.
pub(crate) fn has_recorded() -> bool {
    LAST_PART.lock().is_some()
}

/// Writes the number of callbacks and communicators since the last close, and returns how many were written now. Called
/// before the next session and at exit.
pub(crate) fn account_for_late() -> u64 {
    let late = record::take_late();
    let mut last = LAST_PART.lock();
    if let (Some((part, all)), 1..) = (&mut *last, late.total()) {
        all.add(&late);
        let write = || host::write(&LateCallbacks::path(part), &serde_json::to_vec(all)?);
        if let Err(error) = writing::guarded(write) {
            process::warn(&format!(
                "{} callbacks or communicators came after the recording had ended, but the trace cannot say so: \
                {error}",
                all.total()
            ));
            return 0;
        }
    }
    late.total()
}

fn unify_if_last(config: &Config, out: &Path, done: &str) {
    let (is_last, shown, word) = (is_last_process(out), out.display(), shell_word(out));
    if matches!(is_last, Ok(true))
        && let Some(why) = lacks_memory(memory_of_archive(out), false)
    {
        process::warn(&format!("no archive yet: {why}; `nccl-otf2 finalize {word}` makes it"));
        return;
    }
    match is_last.and_then(|last| if last { unify(out, &()).map(Some) } else { Ok(None) }) {
        Ok(Some(archive)) => {
            // Score-P creates its directory with the user's umask; the archive's directory gets the same mode.
            if let Some(around) = substrate::directory_around(out) {
                host::copy_mode(out, around);
            }
            log_to_nccl(config, &describe_archive(&archive));
        }
        Ok(None) => report_unfinished(
            config,
            &format!(
                "{done}; the process that finishes last makes the archive in {shown}, or `nccl-otf2 finalize {word}`"
            ),
        ),
        Err(error) => process::warn(&format!(
            "no archive: {}; `nccl-otf2 finalize {word}` tries again",
            host::explain_write_error(error)
        )),
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
        process::warn(&format!("{lost} events, stops and states of this process were not recorded"));
    }
    for problem in &summary.problems {
        process::warn(&format!("journal: {problem}"));
    }
}

/// Logs that work is left to do. Up to 2.26 NCCL passes no logger, and does not report a communicator's size, so no
/// process knows that it is the last: the line then goes to stderr, from only one rank if the launcher numbers ranks.
fn report_unfinished(config: &Config, line: &str) {
    let is_first = JobEnvironment::read().rank.unwrap_or(0) == 0;
    if config.verbosity == Verbosity::Normal && !process::passes_logger() && is_first {
        process::warn(line);
    } else {
        log_to_nccl(config, line);
    }
}

// A communicator's identity is one that all ranks agree on. NCCL gives every communicator a hash (`commId`) that is
// equal on all its ranks, but repeats if an application uses an id twice. The identity is (commId, number of ranks,
// repetition), where the repetition counts earlier `init` calls of the same rank with the same pair in this process.
// All ranks create their communicators in the same order, so all compute the same value without communication. Counting
// per rank keeps this true when ranks share a process.

/// The communicators of this process: their contexts and identities.
#[derive(Debug, Default)]
pub(crate) struct CommunicatorContexts {
    next: u64,
    live: BTreeMap<u64, ()>,
    seen: BTreeMap<(u64, i32, i32), u32>,
}

impl CommunicatorContexts {
    pub(crate) fn add(&mut self, tag: ProcessTag, comm: &CommInit<'_>) -> (ContextId, u32) {
        self.next += 1;
        let context = ContextId::new(tag, self.next);
        self.live.insert(context.get(), ());
        if comm.comm_id == 0 {
            return (context, 0); // v1–v3: NCCL passes no identity, so nothing can repeat
        }
        let count = self.seen.entry((comm.comm_id, comm.ranks, comm.rank)).or_insert(0);
        let repetition = *count;
        *count += 1;
        (context, repetition)
    }

    /// How many were added.
    pub(crate) fn made(&self) -> u32 {
        u32::try_from(self.next).unwrap_or(u32::MAX)
    }

    /// Forgets a context. False if the context is unknown or was finalized before.
    pub(crate) fn remove(&mut self, context: u64) -> bool {
        self.live.remove(&context).is_some()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}

pub(crate) static SESSIONS: Mutex<RecordingSessions> = Mutex::new(RecordingSessions {
    current: None,
    off: false,
    has_logged_remarks: false,
    is_ending: false,
    closing: Vec::new(),
});
/// Notified when the recording of a session has ended, and when a thread has closed one.
static CHANGED: Condvar = Condvar::new();

/// How long the next session waits for the end of the recording before it, which may wait for GPUs and Score-P.
const PATIENCE: Duration = Duration::from_secs(10);

/// The sessions of this process: one that records, and those that threads are closing.
pub(crate) struct RecordingSessions {
    pub(crate) current: Option<RecordingSession>,
    /// Recording failed to begin, or is unwanted: the process does not try again.
    pub(crate) off: bool,
    pub(crate) has_logged_remarks: bool,
    /// Whether a thread is ending a recording. The next one begins afterwards: a process has one recorder, one user of
    /// CUPTI and one bridge to Score-P.
    is_ending: bool,
    /// The threads that are closing a session.
    closing: Vec<ThreadKey>,
}

impl RecordingSessions {
    /// Takes the current session, for the calling thread to close it.
    pub(crate) fn take(&mut self) -> Option<(RecordingSession, Closing)> {
        let session = self.current.take()?;
        self.is_ending = true;
        self.closing.push(this_thread());
        Some((session, Closing { is_ending: true }))
    }

    /// Waits until no recording is being ended. False if that takes too long, or if the caller is inside of it.
    pub(crate) fn wait_for_end(sessions: &mut MutexGuard<'_, Self>) -> bool {
        if sessions.is_ending && !sessions.closing.contains(&this_thread()) {
            CHANGED.wait_while_for(sessions, |sessions| sessions.is_ending, PATIENCE);
        }
        !sessions.is_ending
    }

    /// Waits until no other thread is closing a session. False at the deadline.
    pub(crate) fn wait_for_others(sessions: &mut MutexGuard<'_, Self>, deadline: Instant) -> bool {
        let here = this_thread();
        let others_close = |sessions: &mut Self| sessions.closing.iter().any(|thread| *thread != here);
        !CHANGED.wait_while_until(sessions, others_close, deadline).timed_out()
    }
}

/// The calling thread is closing a session.
pub(crate) struct Closing {
    is_ending: bool,
}

impl Closing {
    /// The session no longer uses what the next one needs: only its part is left to write.
    pub(crate) fn recording_has_ended(&mut self) {
        self.is_ending = false;
        SESSIONS.lock().is_ending = false;
        CHANGED.notify_all();
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        let mut sessions = SESSIONS.lock();
        // After a panic.
        sessions.is_ending &= !self.is_ending;
        let here = this_thread();
        if let Some(place) = sessions.closing.iter().position(|thread| *thread == here) {
            sessions.closing.swap_remove(place);
        }
        drop(sessions);
        CHANGED.notify_all();
    }
}

pub(crate) struct RecordingSession {
    pub(crate) config: Config,
    pub(crate) out: PathBuf,
    pub(crate) part: PathBuf,
    pub(crate) tag: ProcessTag,
    pub(crate) writer: Arc<JournalWriter>,
    pub(crate) communicators: CommunicatorContexts,
    pub(crate) largest: LargestCommunicator,
    pub(crate) maintenance: Maintenance,
    /// Absent before the first `init`, if the user wants no GPU timing, or if there is no driver.
    pub(crate) gpus: Option<Arc<Gpus>>,
    pub(crate) first_init: Option<FirstInit>,
}

/// What is left to do at the first `init`.
pub(crate) struct FirstInit {
    pub(crate) directories: SessionDirectories,
    pub(crate) scorep: bridge::BridgeStart,
    /// Whether NCCL had described no communicator when the session began.
    pub(crate) is_late: bool,
}

impl RecordingSession {
    pub(crate) fn recorded(&self) -> Option<Recorded> {
        Recorded::new(&self.part, self.writer.reserved_bytes())
    }
}

/// Logs a line that is not a warning, as `NCCL_OTF2_VERBOSITY` selects.
pub(crate) fn log_to_nccl(config: &Config, line: &str) {
    match config.verbosity {
        Verbosity::Quiet => {}
        Verbosity::Normal => process::info(line),
        Verbosity::Verbose => process::warn(line),
    }
}

pub(crate) fn describe(stop: &Stop) -> String {
    match stop {
        Stop::Limit => "the size limit is reached (NCCL_OTF2_MAX_SIZE)".to_owned(),
        Stop::System(reason) => reason.clone(),
        Stop::Memory => "the system had no memory for it".to_owned(),
        Stop::Slots => "more threads at once than there are slots (4095)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nccl_events::{Name, Table};

    fn comm(comm_id: u64, rank: i32) -> CommInit<'static> {
        CommInit { table: Table::V7, comm_id, name: Name::NONE, nodes: 1, ranks: 2, rank, nccl_version: 0 }
    }

    #[test]
    fn ranks_of_one_process_agree_on_the_repetition() {
        let tag = ProcessTag::new(1);
        let mut all = CommunicatorContexts::default();
        let first: Vec<u32> = [0, 1].iter().map(|rank| all.add(tag, &comm(9, *rank)).1).collect();
        let again: Vec<u32> = [1, 0].iter().map(|rank| all.add(tag, &comm(9, *rank)).1).collect();
        assert_eq!((first, again), (vec![0, 0], vec![1, 1]));
    }
}
