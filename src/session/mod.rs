//! The life of recording in this process: first `init` to last `finalize`, and what may come in between.
//!
//! A *session* begins with the first `init` and ends with the last `finalize`, or at exit when NCCL never
//! got that far (a process that exits without `ncclCommDestroy` gets no finalize at all). An `init` after
//! that begins a new session with a part directory of its own. A forked child never records: it has none
//! of our threads and shares its parent's journal pages.
//!
//! Nothing here may fail towards NCCL: in most releases a failing `init` crashes or corrupts it later. A
//! process that cannot record says so once, asks for no events and stays out of the way.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::config::{self, Config, Place, Verbosity};
use crate::control::{self, Control, Ledger};
use crate::gpu::{self, Gpus};
use crate::host::hooks;
use crate::host::logger;
use crate::record;
use crate::scorep::{self, substrate};
use crate::session::communicators::Communicators;
use crate::session::maintenance::{MAINTENANCE_NAME, Maintenance};
use crate::session::snapshot::Maker;
use crate::session::test_clock::TestClock;
use journal::clock::{self, ticks};
use journal::part::environment::JobEnvironment;
use journal::part::process::{self, PROCESS_FORMAT, ProcessInfo};
use journal::private;
use journal::writer::{Lost, Registry, RegistryOptions, Stop};
use nccl_events::id::{ContextId, ProcessTag};
use nccl_events::{CommInit, Kind};

mod advice;
mod calendar;
mod close;
mod communicators;
mod directories;
mod foreign;
mod maintenance;
pub mod snapshot;
mod test_clock;

use close::Moment;

/// The plugin's version, with the commit where it was built from a checkout.
pub const VERSION: &str = env!("NCCL_PROFILER_OTF2_VERSION");

/// What NCCL gets back from `init`.
#[derive(Clone, Copy, Debug)]
pub struct InitReply {
    /// The communicator's context, unique in the process and never NULL.
    pub context: ContextId,
    /// The event mask; zero when this process does not record.
    pub mask: u32,
}

/// The session of this process, if one is on.
static SESSION: Mutex<Slot> = Mutex::new(Slot {
    session: None,
    off: false,
    remarks_said: false,
});
/// Set in forked children: they must not touch anything.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Contexts of processes that do not record.
static IDLE_CONTEXTS: AtomicU64 = AtomicU64::new(0);

struct Slot {
    session: Option<Session>,
    /// Recording was tried and could not be, or is not wanted: not tried again.
    off: bool,
    remarks_said: bool,
}

/// What one session needs.
struct Session {
    config: Config,
    /// The job's directory.
    out: PathBuf,
    /// This session's part of it.
    part: PathBuf,
    tag: ProcessTag,
    registry: Arc<Registry>,
    communicators: Communicators,
    /// Of which communicator windows of steps count the collectives.
    ledger: Ledger,
    maintenance: Maintenance,
    /// Absent where nothing of GPUs is wanted, or there is no driver.
    gpus: Option<Arc<Gpus>>,
}

/// A communicator begins.
#[must_use]
pub fn init(comm: &CommInit<'_>) -> InitReply {
    // Before the first reading: until a source is chosen, ticks are those of the system's clock.
    clock::select();
    let begin_ticks = ticks();
    if FORKED.load(Ordering::Relaxed) {
        return idle();
    }
    let mut slot = SESSION.lock();
    if slot.session.is_none() && !slot.off {
        begin(&mut slot, comm);
    }
    let Some(session) = &mut slot.session else {
        return idle();
    };
    let (context, repetition) = session.communicators.add(session.tag, comm);
    // Releases before ours ignore bits they do not know; that is no reason to set them.
    let mask = (session.config.mask | control::raised()) & kinds_of_table(comm.table);
    record::with_cursor(Lost::Communicator, |cursor| {
        cursor.comm_init(context.get(), begin_ticks, repetition, comm)
    });
    scorep::communicator(context.get(), comm);
    for (context, switch) in session.ledger.begin(context, repetition, comm) {
        record::record_turn(context, &switch);
    }
    if session.config.is_flight {
        let maintenance = &session.maintenance;
        maintenance.communicator(context.get(), begin_ticks, repetition, comm);
    }
    let gpus = session.gpus.clone();
    drop(slot);
    // Not under the lock: CUDA is called, and waited for.
    if let Some(gpus) = gpus {
        gpus.communicator_begins(context.get());
    }
    InitReply { context, mask }
}

/// A communicator ends. Unknown contexts and repeated ends are ignored.
pub fn finalize(context: u64) {
    let begin_ticks = ticks();
    if FORKED.load(Ordering::Relaxed) {
        return;
    }
    let (ended, gpus) = {
        let mut slot = SESSION.lock();
        let Some(session) = &mut slot.session else {
            return;
        };
        if !session.communicators.remove(context) {
            return;
        }
        record::with_cursor(Lost::Communicator, |cursor| {
            cursor.comm_finalize(context, begin_ticks)
        });
        let gpus = session.gpus.clone();
        let ended = if session.communicators.is_empty() {
            slot.session.take()
        } else {
            for (context, switch) in session.ledger.end(context) {
                record::record_turn(context, &switch);
            }
            None
        };
        (ended, gpus)
    };
    if let Some(gpus) = gpus {
        gpus.communicator_ends(context);
    }
    if let Some(session) = ended {
        close::close(session, Moment::LastFinalize);
    }
}

/// The event kinds that a version of the interface has, as a mask.
const fn kinds_of_table(table: u8) -> u32 {
    match table {
        1 | 2 => 0x3f,
        3 | 4 => 0xff,
        5 => 0xfff,
        6 => 0x7fff,
        _ => 0xffff,
    }
}

fn idle() -> InitReply {
    let sequence = IDLE_CONTEXTS.fetch_add(1, Ordering::Relaxed) + 1;
    InitReply {
        context: ContextId::new(ProcessTag::new(1), sequence),
        mask: 0,
    }
}

/// Begins a session, or says why there is none.
fn begin(slot: &mut Slot, comm: &CommInit<'_>) {
    let config = Config::from_environment();
    if !slot.remarks_said {
        slot.remarks_said = true;
        for remark in &config.remarks {
            logger::warn(remark);
        }
    }
    if !config.enabled {
        slot.off = true;
        return;
    }
    hooks::at_fork_in_child(in_forked_child);
    hooks::at_exit(at_exit);
    substrate::at_program_end(end_of_program);
    hooks::at_panic();
    close::account_for_late();
    match Session::begin(config, comm) {
        Ok(session) => slot.session = Some(session),
        Err(reason) => {
            slot.off = true;
            logger::warn(&format!("nothing is recorded: {reason}"));
        }
    }
}

impl Session {
    fn begin(config: Config, comm: &CommInit<'_>) -> Result<Self, String> {
        let mut environment = JobEnvironment::of_process();
        if let (None, Some((rank, size))) = (environment.rank, substrate::rank_and_size()) {
            (environment.rank, environment.size) = (Some(rank), Some(size));
        }
        let test_clock = TestClock::from_environment()?;
        let played = test_clock.as_ref().map(|clock| clock.boot_id.clone());
        let place = Place {
            host: played.clone().unwrap_or_else(journal::host::host_name),
            process_id: std::process::id(),
            job: environment.job.clone(),
            rank: environment.rank,
        };
        let tick_source = clock::select();
        let started_ns = clock::realtime_ns();
        let out = directories::output(&config, &place, started_ns)?;
        let name = format!("{}-{}-{started_ns}", place.host, place.process_id);
        let part = out.join("parts").join(&name);
        private::directory(&part).map_err(|error| {
            format!(
                "{}: {error} (NCCL_OTF2_DIR says where the archive goes)",
                part.display()
            )
        })?;
        let journal = directories::journal(&config, &place, &part, &name).inspect_err(|_| {
            // A part that is never done would keep the job's other processes from making the archive.
            directories::remove_unused(&part, &part.join("journal"));
        })?;
        let info = ProcessInfo {
            format: PROCESS_FORMAT,
            host: place.host,
            boot_id: played.unwrap_or_else(journal::host::boot_id),
            pid: place.process_id,
            pid_namespace: journal::host::pid_namespace(),
            start_ticks: journal::host::start_ticks(place.process_id).unwrap_or(0),
            session_start_realtime_ns: started_ns,
            environment,
            nccl_version: process::nccl_version_text(comm.nccl_version),
            table: comm.table,
            plugin_version: VERSION.to_owned(),
            tick_source: tick_source.name().to_owned(),
            event_mask: config.mask,
            events: config::event_names(config.mask)
                .into_iter()
                .map(str::to_owned)
                .collect(),
            command: process::command(),
            working_directory: std::env::current_dir()
                .unwrap_or_default()
                .display()
                .to_string(),
            archive: config.archive,
            snapshot_realtime_ns: 0,
        };
        let written = serde_json::to_vec_pretty(&info)
            .map_err(std::io::Error::other)
            .and_then(|json| private::new_file(&part.join("process.json"))?.write_all(&json));
        let tag = ProcessTag::new(hooks::random_bits());
        let options = RegistryOptions {
            directory: journal.clone(),
            tag,
            process_id: info.pid,
            tick_source,
            session_start_realtime_ns: started_ns,
            limit_bytes: config.limit_bytes(),
        };
        let registry = Registry::with_window(options, config.window());
        let cursor = registry.register(MAINTENANCE_NAME);
        let cursor = match (written, cursor) {
            (Ok(()), Ok(cursor)) => cursor,
            (Err(error), _) => {
                directories::remove_unused(&part, &journal);
                return Err(format!("{}: {error}", part.join("process.json").display()));
            }
            (_, Err(stop)) => {
                directories::remove_unused(&part, &journal);
                return Err(describe(&stop));
            }
        };
        let snapshots = Maker::new(&out, &part);
        let known = kinds_of_table(comm.table);
        let windows = config.windows.clone();
        let control = Control::new(&out, config.mask, windows, comm.table, known);
        if let Some(signal) = config.dump_signal {
            hooks::DUMP.on(signal);
        }
        if let Some(signal) = config.toggle_signal {
            hooks::TOGGLE.on(signal);
        }
        let maintenance = Maintenance::start(
            Arc::clone(&registry),
            cursor,
            test_clock,
            snapshots,
            control,
        );
        // First: threads ask whether it is on when they begin to record.
        let scorep = scorep::begin(config.scorep);
        record::begin(Arc::clone(&registry));
        let gpus = Gpus::begin(gpu::Options {
            settings: config.gpu.clone(),
            verbosity: config.verbosity,
            table: comm.table,
            mask: config.mask,
            registry: Arc::clone(&registry),
            notes: maintenance.notes(),
        });
        say_start(&config, &out);
        match scorep {
            scorep::Beginning::Silent => {}
            scorep::Beginning::On(line) => say(&config, &line),
            scorep::Beginning::Refused(line) => logger::warn(&line),
        }
        let asked = config.mask & kinds_of_table(comm.table) & Kind::KernelCh.mask() != 0;
        // One rank speaks for the communicator; v1 to v3 do not say which rank this is.
        if asked && comm.rank <= 0 && config.verbosity > Verbosity::Quiet {
            let advice = advice::kernel_channels(comm.nccl_version);
            logger::warn(&format!(
                "kernel channels are recorded (NCCL_OTF2_EVENTS): {advice}"
            ));
        }
        Ok(Self {
            config,
            out,
            part,
            tag,
            registry,
            communicators: Communicators::default(),
            ledger: Ledger::default(),
            maintenance,
            gpus: gpus.map(Arc::new),
        })
    }
}

fn say_start(config: &Config, out: &Path) {
    let events = match config.mask {
        config::LIGHT => "light".to_owned(),
        config::STANDARD => "standard".to_owned(),
        config::FULL => "full".to_owned(),
        mask => config::event_names(mask).join(","),
    };
    let line = format!(
        "version {}: recording {events} events into {}",
        VERSION,
        out.display()
    );
    say(config, &line);
}

fn say(config: &Config, line: &str) {
    match config.verbosity {
        Verbosity::Quiet => {}
        Verbosity::Normal => logger::info(line),
        Verbosity::Verbose => logger::warn(line),
    }
}

fn describe(stop: &Stop) -> String {
    match stop {
        Stop::Limit => "the size limit is reached (NCCL_OTF2_MAX_SIZE)".to_owned(),
        Stop::System(reason) => reason.clone(),
        Stop::Slots => "more threads at once than there are slots (4095)".to_owned(),
    }
}

extern "C" fn in_forked_child() {
    FORKED.store(true, Ordering::Relaxed);
    record::disable();
    gpu::disable();
    scorep::disable();
}

/// The process exits and NCCL has not finalized its communicators: write what there is.
extern "C" fn at_exit() {
    end_of_program();
}

/// The same for Score-P, which tells when the program ends before it is gone itself. What is done is not done again.
fn end_of_program() {
    let ended = std::panic::catch_unwind(|| {
        if FORKED.load(Ordering::Relaxed) {
            return;
        }
        logger::forget();
        // Another thread may be ending the session just now, or hang inside: do not wait for ever.
        let Some(mut slot) = SESSION.try_lock_for(Duration::from_secs(90)) else {
            return;
        };
        let session = slot.session.take();
        slot.off = true;
        drop(slot);
        if let Some(session) = session {
            close::close(session, Moment::Exit);
        } else {
            close::at_exit();
        }
        let late = close::account_for_late();
        if late > 0 && Config::from_environment().verbosity == Verbosity::Verbose {
            logger::warn(&format!(
                "{late} callbacks came after the recording had ended: `nccl-otf2 finalize` puts their number into the archive"
            ));
        }
    });
    if ended.is_err() {
        logger::warn(&format!(
            "internal error at exit{}; the journal is kept, `nccl-otf2 finalize` makes the archive",
            hooks::panic_place()
        ));
    }
}
