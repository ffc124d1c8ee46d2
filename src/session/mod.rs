//! The life of recording in this process: from the first `init` to the last `finalize`, and what happens between. A
//! *session* begins with the first `init`, or with the call that leads to it if NVTX shows that. It ends with the last
//! `finalize`, or at exit if there is none (a process that exits without `ncclCommDestroy` gets no finalize at all). A
//! later `init` begins a new session with its own part directory. It waits for a thread that is ending the recording
//! before it, but not for the writing of that part. An exit waits for both. A forked child never records: it has none
//! of the plugin's threads, and shares its parent's journal pages.

use std::env;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::control::{Control, LargestCommunicator};
use crate::gpu::Gpus;
use crate::host::{process, threads};
use crate::scorep::bridge::CommRegion;
use crate::scorep::{bridge, substrate};
use crate::session::close::{
    CommunicatorContexts, FirstInit, Moment, RecordingSession, RecordingSessions, SESSIONS, describe, log_to_nccl,
};
use crate::session::maintenance::{
    MAINTENANCE_NAME, Maintenance, SessionDirectories, SnapshotMaker, TestClock, allgatherv_off, describe_process,
    place_description, with_communicator,
};
use crate::{chain, control, gpu, record};
use in_process::{Object, Recorded};
use journal::clock::ticks;
use journal::part::{JOURNAL, PROCESS, ProcessInfo, part_name};
use journal::uninterrupted::not_cancelled;
use journal::writer::{JournalWriter, LostRecord, SlotWriter, Stop, WriterOptions};
use journal::{clock, host, writing};
use nccl_events::ids::{ContextId, ProcessTag};
use nccl_events::{CommInit, Kind, Name, Table, event};
use parking_lot::MutexGuard;
use settings::{Config, ENV_PLUGIN, PLUGIN, VERSION, Verbosity, has_pending_nccl_settings};

mod close;
mod maintenance;

#[derive(Clone, Copy, Debug)]
pub struct InitReply {
    /// The communicator's context, unique in the process and never NULL.
    pub context: ContextId,
    /// The event mask; zero if this process does not record.
    pub mask: u32,
}

/// How long an exit waits for threads that close a session.
const PATIENCE: Duration = Duration::from_secs(90);

static IDLE_CONTEXTS: AtomicU64 = AtomicU64::new(0);

/// A communicator begins. Reports no failure to NCCL: in most releases a failing `init` crashes or corrupts NCCL later.
/// A process that cannot record logs the reason once, and asks for no events.
pub fn init(comm: &CommInit<'_>) -> InitReply {
    // Before the first reading: until a source is selected, ticks come from the system clock.
    clock::select();
    let begin_ticks = ticks();
    if process::is_forked() {
        return idle();
    }
    let mut sessions = SESSIONS.lock();
    begin_session(&mut sessions, comm, false);
    let Some(session) = &mut sessions.current else {
        record::communicator_is_late();
        return idle();
    };
    session.note_init(comm);
    let _region = CommRegion::init();
    let (context, repetition) = session.communicators.add(session.tag, comm);
    process::number_dumps(&part_name(&session.part), session.communicators.made());
    // Only the bits that this version of the interface has.
    let mask = (session.config.mask | control::raised()) & event::kinds(comm.table);
    record::with_slot_writer(LostRecord::Communicator, |slot_writer| {
        slot_writer.comm_init(context.get(), begin_ticks, repetition, comm)
    });
    bridge::communicator(context.get(), comm);
    for (context, switch) in session.largest.begin(context, repetition, comm) {
        record::record_turn(context, &switch);
    }
    if session.config.is_flight {
        let maintenance = &session.maintenance;
        maintenance.communicator(context.get(), begin_ticks, repetition, comm);
    }
    let gpus = session.gpus.clone();
    drop(sessions);
    // Outside of the lock, because this calls CUDA and waits for it.
    if let Some(gpus) = gpus {
        gpus.communicator_begins(context.get());
    }
    InitReply { context, mask }
}

/// A communicator is being made. NCCL will call `init`, but from 2.27 on only when all ranks have come, and one may
/// never come: so this begins the session. Returns whether anything is recorded now.
pub fn begin_before_init() -> bool {
    if process::is_forked() {
        return false;
    }
    let Some(comm) = communicator() else {
        return false;
    };
    let mut sessions = SESSIONS.lock();
    begin_session(&mut sessions, &comm, true);
    sessions.current.is_some()
}

/// A communicator ends. Unknown contexts and repeated ends are ignored.
pub fn finalize(context: u64) {
    let begin_ticks = ticks();
    if process::is_forked() {
        return;
    }
    let _region = CommRegion::destroy();
    let (ended, gpus) = {
        let mut sessions = SESSIONS.lock();
        let Some(session) = &mut sessions.current else {
            return;
        };
        if !session.communicators.remove(context) {
            return;
        }
        record::with_slot_writer(LostRecord::Communicator, |slot_writer| {
            slot_writer.comm_finalize(context, begin_ticks)
        });
        let gpus = session.gpus.clone();
        let ended = if session.communicators.is_empty() {
            sessions.take()
        } else {
            for (context, switch) in session.largest.end(context) {
                record::record_turn(context, &switch);
            }
            None
        };
        (ended, gpus)
    };
    if let Some(gpus) = gpus {
        gpus.communicator_ends(context);
    }
    if let Some((session, closing)) = ended {
        close::close(session, closing, Moment::LastFinalize);
    }
}

/// What is being recorded, with the clock known up to now; `None` without a session.
pub fn recorded() -> Option<Recorded> {
    if process::is_forked() {
        return None;
    }
    let sessions = SESSIONS.lock();
    let session = sessions.current.as_ref()?;
    session.maintenance.record_clocks();
    session.recorded()
}

fn idle() -> InitReply {
    let sequence = IDLE_CONTEXTS.fetch_add(1, Ordering::Relaxed) + 1;
    InitReply { context: ContextId::new(ProcessTag::new(1), sequence), mask: 0 }
}

fn begin_session(sessions: &mut MutexGuard<'_, RecordingSessions>, comm: &CommInit<'_>, is_before_init: bool) {
    let has_ended = RecordingSessions::wait_for_end(sessions);
    if sessions.current.is_some() || sessions.off {
        return;
    }
    if !has_ended {
        process::warn("a communicator is not recorded, because the previous recording has not ended yet");
        return;
    }
    let config = Config::from_environment();
    if !sessions.has_logged_remarks {
        sessions.has_logged_remarks = true;
        for remark in &config.remarks {
            process::warn(remark);
        }
    }
    if !config.enabled {
        sessions.off = true;
        return;
    }
    process::watch_forks(in_forked_child);
    process::at_exit(at_exit);
    substrate::at_program_end(end_of_measured_program);
    in_process::silence();
    threads::forget_failure();
    close::account_for_late();
    match session(config, comm, is_before_init) {
        Ok(session) => sessions.current = Some(session),
        Err(reason) => {
            sessions.off = true;
            let what = if close::has_recorded() { "no further communicator" } else { "nothing" };
            process::warn(&format!("{what} is recorded: {reason}"));
        }
    }
}

fn in_forked_child() {
    record::disable();
    gpu::disable();
    bridge::disable();
}

/// The process exits. If NCCL has not finalized its communicators, this writes what was recorded.
extern "C" fn at_exit() {
    static HAS_RUN: AtomicBool = AtomicBool::new(false);
    if HAS_RUN.swap(true, Ordering::Relaxed) {
        return;
    }
    not_cancelled(|| {
        let _caught = in_process::catch(bridge::at_exit);
        end_of_program();
    });
}

/// Score-P reports the end of the program while it still accepts events. The exit handler then has nothing left to do.
fn end_of_measured_program() {
    bridge::at_end_of_measurement();
    end_of_program();
}

fn end_of_program() {
    let ended = in_process::catch(|| {
        if process::is_forked() {
            return;
        }
        process::forget_logger();
        record::return_slot();
        // Another thread may be closing a session now, or hang in it, so the wait is bounded.
        let deadline = Instant::now() + PATIENCE;
        let Some(mut sessions) = SESSIONS.try_lock_until(deadline) else {
            return;
        };
        sessions.off = true;
        if !RecordingSessions::wait_for_others(&mut sessions, deadline) {
            process::warn(
                "the process exits while one of its threads still writes: `nccl-otf2 finalize` makes the archive",
            );
        }
        let ended = sessions.take();
        drop(sessions);
        let late = match ended {
            Some((session, closing)) => {
                close::close(session, closing, Moment::Exit);
                close::account_for_late()
            }
            None => {
                // Before the archive is renewed, which states them.
                let late = close::account_for_late();
                close::at_exit();
                late
            }
        };
        if late > 0 && Config::from_environment().verbosity == Verbosity::Verbose {
            process::warn(&format!(
                "{late} callbacks or communicators came after the recording had ended: `nccl-otf2 finalize` puts their number into the archive"
            ));
        }
    });
    if let Err(panic) = ended {
        process::warn(&format!(
            "internal error at exit: {panic}; the journal is kept, `nccl-otf2 finalize` makes the archive"
        ));
    }
}

/// Begins a session: directories, `process.json`, journal, maintenance thread, Score-P. `is_before_init`: NCCL has not
/// described the communicator yet.
pub(crate) fn session(config: Config, comm: &CommInit<'_>, is_before_init: bool) -> Result<RecordingSession, String> {
    let test_clock = TestClock::from_environment()?;
    let steps = control::usable_steps(config.steps.clone(), "NCCL_OTF2_STEPS");
    let mut info = with_communicator(describe_process(&config, test_clock.as_ref()), &config, comm);
    info.steps = steps.to_string();
    let directories =
        writing::guarded(|| SessionDirectories::make(&config, &info)).map_err(host::explain_write_error)?;
    info.job.clone_from(&directories.job);
    let tag = ProcessTag::new(process::random_bits());
    info.tag = tag.get();
    if directories.journal != directories.part.join(JOURNAL) {
        info.journal = directories.journal.display().to_string();
        info.part = directories.part.display().to_string();
    }
    process::name_dumps(&part_name(&directories.part), &info.environment);
    let (writer, slot_writer) = writing::guarded(|| open_journal(&config, &info, &directories, tag))
        // A part that never finishes would keep the job's other processes from making the archive.
        .inspect_err(|_| directories.remove())?;
    if !threads::is_there() {
        directories.remove();
        return Err(describe(&Stop::Memory));
    }
    if let Some(signal) = config.dump_signal {
        process::DUMP.install(signal);
    }
    if is_before_init && !config.chain.is_empty() {
        // They are loaded at `init`, when what is recorded of NCCL's calls has been chosen.
        process::share_mask();
    }
    let control = Control::new(&directories.out, config.mask, steps, comm.table);
    if let Some(signal) = config.toggle_signal {
        process::TOGGLE.install(signal);
    }
    let maintenance = Maintenance::start(
        Arc::clone(&writer),
        slot_writer,
        test_clock,
        SnapshotMaker::new(&directories.out, &directories.part),
        control,
    );
    // Before recording begins, because threads check whether Score-P is on when they take their slots.
    let scorep = bridge::begin(config.scorep);
    record::begin(Arc::clone(&writer));
    record::ranges::repeat_started(&maintenance.notes());
    Ok(RecordingSession {
        config,
        out: directories.out.clone(),
        part: directories.part.clone(),
        tag,
        writer,
        communicators: CommunicatorContexts::default(),
        largest: LargestCommunicator::default(),
        maintenance,
        gpus: None,
        first_init: Some(FirstInit { directories, scorep, is_late: is_before_init }),
    })
}

/// Opens the journal with the maintenance thread's slot, then puts `process.json` in place. `process.json` without a
/// segment means a damaged journal; a segment without `process.json` means that the process was killed here.
fn open_journal(
    config: &Config,
    info: &ProcessInfo,
    directories: &SessionDirectories,
    tag: ProcessTag,
) -> Result<(Arc<JournalWriter>, SlotWriter), String> {
    place_description(&directories.part, info, || {
        let written = chain::report().write(&directories.part);
        written.map_err(|error| format!("{}: {}", directories.part.display(), host::explain_write_error(error)))?;
        let options = WriterOptions {
            directory: directories.journal.clone(),
            tag,
            process_id: info.pid,
            tick_source: clock::select(),
            session_start_realtime_ns: info.session_start_realtime_ns,
            limit_bytes: config.limit_bytes(),
        };
        let writer = JournalWriter::with_retention(options, config.flight_retention());
        let slot_writer = writer.register(MAINTENANCE_NAME).map_err(|stop| describe(&stop))?;
        Ok((writer, slot_writer))
    })
}

impl RecordingSession {
    /// What a session does at its first `init`, which it may have begun before.
    pub(crate) fn note_init(&mut self, comm: &CommInit<'_>) {
        let Some(FirstInit { directories, scorep, is_late }) = self.first_init.take() else {
            return;
        };
        if is_late && let Err(reason) = writing::guarded(|| self.complete_description(comm)) {
            process::warn(&format!("{reason}; the file does not have the id of the first communicator"));
        }
        let gpus = Gpus::begin(gpu::Options {
            settings: self.config.gpu.clone(),
            verbosity: self.config.verbosity,
            table: comm.table,
            mask: self.config.mask,
            writer: Arc::clone(&self.writer),
            notes: self.maintenance.notes(),
        });
        self.gpus = gpus.map(Arc::new);
        report_start(&self.config, comm, &directories, scorep);
    }

    /// Adds to `process.json` what is known with the first communicator.
    fn complete_description(&self, comm: &CommInit<'_>) -> Result<(), String> {
        let path = self.part.join(PROCESS);
        let refused = |error| format!("{}: {}", path.display(), host::explain_write_error(error));
        let read = std::fs::read(&path).and_then(|json| Ok(serde_json::from_slice::<ProcessInfo>(&json)?));
        let info = with_communicator(read.map_err(refused)?, &self.config, comm);
        place_description(&self.part, &info, || Ok(()))?;
        chain::report().write(&self.part).map_err(refused)
    }
}

fn report_start(config: &Config, comm: &CommInit<'_>, directories: &SessionDirectories, scorep: bridge::BridgeStart) {
    let events = settings::event_set(config.mask);
    let out = directories.out.display();
    let chained = chain::report().plugins;
    let behind = if chained.is_empty() { String::new() } else { format!(", with {} behind it", chained.join(", ")) };
    log_to_nccl(config, &format!("version {VERSION}{behind}: recording {events} events into {out}"));
    if let (Some(other), true) = (&directories.other_job, comm.rank <= 0) {
        let advice = if directories.lacks_job_id {
            "there is no job id here, so %j in NCCL_OTF2_DIR is `unknown`: set NCCL_OTF2_JOB to a different text for \
            each job"
        } else {
            "use NCCL_OTF2_DIR=trace-%j for a directory per job, or NCCL_OTF2_JOB to name a job"
        };
        process::warn(&format!(
            "the requested directory holds the recording of another job ({other}); this job ({}) is recorded into \
            {out} ({advice})",
            directories.job
        ));
    }
    match scorep {
        bridge::BridgeStart::Silent => {}
        bridge::BridgeStart::On(line) => log_to_nccl(config, &line),
        bridge::BridgeStart::Refused(line) => process::warn(&line),
    }
    let has_channels = |mask: u32| event::has(comm.table, Kind::KernelCh) && mask & Kind::KernelCh.mask() != 0;
    let why = match (has_channels(config.mask), has_channels(process::chained_events())) {
        (true, _) => "kernel channels are recorded (NCCL_OTF2_EVENTS)",
        (false, true) => "a plugin asks for kernel channels (NCCL_OTF2_CHAIN)",
        (false, false) => return,
    };
    // Only one rank warns for the communicator; v1 to v3 do not identify the rank.
    if comm.rank <= 0 && config.verbosity > Verbosity::Quiet {
        process::warn(&format!("{why}: {}", settings::kernel_channels(comm.nccl_version, allgatherv_off())));
    }
}

// What is known of NCCL before it calls `init`: from 2.27 on NCCL calls it only when the ranks of a communicator have
// met.

/// The file that NCCL loads where no variable names one.
const DEFAULT: &str = "libnccl-profiler.so";

/// The communicator that is being made; `None` unless NCCL will call this plugin for it.
pub(crate) fn communicator() -> Option<CommInit<'static>> {
    process::learn_from_noted();
    let nccl_version = process::nccl_version();
    let table = Table::for_release(nccl_version)?;
    let is_expected = !process::is_rccl() && is_profiler() && !has_pending_nccl_settings();
    is_expected.then_some(CommInit { table, comm_id: 0, name: Name::NONE, nodes: 0, ranks: 0, rank: -1, nccl_version })
}

/// Whether what NCCL will load as profiler plugin is this library, which is loaded as NVTX's injection.
fn is_profiler() -> bool {
    if env::var_os(ENV_PLUGIN).is_some_and(|plugin| !plugin.is_empty() && plugin != "none") {
        return false;
    }
    let names = match env::var(PLUGIN).unwrap_or_default() {
        asked if asked.is_empty() => vec![DEFAULT.to_owned()],
        asked => vec![format!("libnccl-profiler-{asked}.so"), asked],
    };
    let mut loaded = names.into_iter().filter_map(|name| {
        let name = CString::new(name).ok()?;
        Object::from_symbol(&name, c"ncclProfiler_v1")
    });
    let own = Object::from_address((is_profiler as *const ()).addr());
    own.is_some_and(|own| loaded.any(|object| object.base == own.base))
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::part::PROCESS;

    /// To a reader, a description without a segment is a damaged journal.
    #[test]
    fn there_is_no_description_before_there_is_a_segment() {
        let scratch = tempfile::tempdir().expect("a directory");
        let part = scratch.path().to_owned();
        let begin = |journal: &str| {
            let _before = std::fs::remove_file(part.join(format!(".{PROCESS}")));
            let (out, journal) = (part.clone(), part.join(journal));
            let directories = SessionDirectories {
                out,
                part: part.clone(),
                journal,
                job: String::new(),
                other_job: None,
                lacks_job_id: false,
            };
            open_journal(&Config::default(), &ProcessInfo::default(), &directories, ProcessTag::new(1)).map(drop)
        };
        let description = part.join(PROCESS);
        assert!(begin("no-such-directory").is_err() && !description.exists());
        std::fs::create_dir(part.join("journal")).expect("made");
        begin("journal").expect("begun");
        assert!(description.exists() && part.join("journal/0.0").exists());
    }
}
