//! The maintenance thread, one per process: prepares segments before they are needed, releases used ones, reads the
//! system's clocks to relate ticks to time, makes snapshots, and follows the control file. Also here: the locations of
//! a session's files, and what `process.json` says of the process.

use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::control::Control;
use crate::host::{process, threads};
use crate::record::open_ranges::counts_since;
use crate::scorep::substrate;
use crate::{chain, control, record};
use journal::clock::ClockPair;
use journal::part::environment::JobEnvironment;
use journal::part::job::JobDirectory;
use journal::part::{Dump, JOURNAL, PARTS, PROCESS, PROCESS_FORMAT, ProcessInfo, job, part_name};
use journal::snapshots::{Request, standing};
use journal::writer::{JournalWriter, SharedSlotWriter, SlotWriter};
use journal::{clock, host, part, writing};
use nccl_events::range::RangeCount;
use nccl_events::{CommInit, event, versions};
use parking_lot::{Condvar, Mutex};
use regular_files::refuse_foreign;
use settings::{Config, PathValues, VERSION};

pub(crate) const MAINTENANCE_NAME: &str = "nccl-otf2-maintenance";

/// Clock pairs are read every second, and twice soon after the start, so that the tick rate is known even if the
/// process is killed in its first second.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_INTERVALS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(100)];
/// The range of the thread's sleep. Callbacks make no system call to wake it, so it polls, the more often the faster
/// they record: four times while a thread fills what is prepared for it.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(20);
const POLLS: u32 = 4;

#[derive(Debug)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    /// Absent if the system refused a thread; recording threads then prepare their own segments.
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    slot_writer: SharedSlotWriter,
    test_clock: Option<TestClock>,
    /// The counts of ranges that were recorded last.
    range_counts: Mutex<[u64; RangeCount::COUNT]>,
    stop: Mutex<bool>,
    wake: Condvar,
}

impl Maintenance {
    /// Records a first clock pair into `slot_writer`, the thread's own slot, and starts the thread.
    pub(crate) fn start(
        writer: Arc<JournalWriter>,
        slot_writer: SlotWriter,
        test_clock: Option<TestClock>,
        snapshots: SnapshotMaker,
        mut control: Control,
    ) -> Self {
        let shared = Arc::new(Shared {
            slot_writer: SharedSlotWriter::new(slot_writer),
            test_clock,
            range_counts: Mutex::default(),
            stop: Mutex::new(false),
            wake: Condvar::new(),
        });
        shared.record_clocks();
        // Before the first event, because a job can start with recording off.
        shared.follow(&mut control);
        let for_thread = Arc::clone(&shared);
        let thread = process::spawn("nccl-otf2", 256 << 10, move || run(&writer, &for_thread, snapshots, control));
        Self { shared, thread: thread.ok() }
    }

    /// Records a communicator in the slot that flight recordings keep: the record of its beginning may be removed.
    pub(crate) fn communicator(&self, context: u64, begin_ticks: u64, repetition: u32, comm: &CommInit<'_>) {
        let mut slot_writer = self.shared.slot_writer.lock();
        slot_writer.comm_known(context, begin_ticks, repetition, comm);
    }

    /// The slot that flight recordings keep, for records that must last as long as the session.
    pub(crate) fn notes(&self) -> SharedSlotWriter {
        self.shared.slot_writer.clone()
    }

    pub(crate) fn record_clocks(&self) {
        self.shared.record_clocks();
    }

    /// Ends the thread and records the last clock pair.
    pub(crate) fn stop(self) {
        *self.shared.stop.lock() = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread
            && thread.join().is_err()
        {
            process::warn(&format!(
                "internal error in the maintenance thread{}; threads made their own segments",
                in_process::location()
            ));
        }
        self.shared.record_clocks();
        self.shared.record_counts();
    }
}

impl Shared {
    fn record_clocks(&self) {
        let mut pair = ClockPair::read();
        if let Some(clock) = &self.test_clock {
            pair = clock.shift(pair);
        }
        self.slot_writer.lock().clock_pair(&pair);
    }

    fn follow(&self, control: &mut Control) {
        let begin_ticks = clock::ticks();
        for switch in control.poll() {
            self.slot_writer.lock().switch(begin_ticks, 0, &switch);
        }
    }

    /// Records the counts regularly, so that they are known up to the last second if the process is killed.
    fn record_counts(&self) {
        if let Some(counts) = control::take_refused() {
            self.slot_writer.lock().not_selected(counts);
        }
        let mut range_counts = self.range_counts.lock();
        if let Some(counts) = counts_since(*range_counts) {
            *range_counts = counts;
            let _full = self.slot_writer.lock().range_counts(clock::ticks(), counts);
        }
    }
}

fn run(writer: &JournalWriter, shared: &Shared, mut snapshots: SnapshotMaker, mut control: Control) {
    let mut pause = SHORTEST;
    let mut first_intervals = FIRST_INTERVALS.into_iter();
    let mut next_interval = || first_intervals.next().unwrap_or(CLOCK_INTERVAL);
    let mut clock_due = Instant::now() + next_interval();
    loop {
        {
            let mut stop = shared.stop.lock();
            if !*stop {
                shared.wake.wait_for(&mut stop, pause);
            }
            if *stop {
                return;
            }
        }
        if threads::has_failed() {
            writer.stop_without_memory();
        }
        let lasts = writer.keep().map_or(LONGEST, |lasts| lasts / POLLS);
        pause = lasts.min(pause * 2).clamp(SHORTEST, LONGEST);
        if Instant::now() >= clock_due {
            clock_due = Instant::now() + next_interval();
            shared.record_clocks();
            shared.record_counts();
            record::account_for_unrecorded(writer);
        }
        shared.follow(&mut control);
        if let Some(request) = snapshots.wanted() {
            // Gives the snapshot clock readings up to its end.
            shared.record_clocks();
            shared.record_counts();
            writing::guarded(|| snapshots.answer(request, writer));
        }
    }
}

/// How often the maintenance thread checks for the file.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a new file is left alone: a tool may first make it and then set its time, which names the snapshot.
const SETTLING: Duration = Duration::from_millis(200);

/// Copies this process's part into a snapshot. Runs on the maintenance thread.
#[derive(Debug)]
pub(crate) struct SnapshotMaker {
    out: PathBuf,
    part: PathBuf,
    due: Instant,
    /// A new request, answered if it is unchanged at the next check.
    settling: Option<Request>,
    answered: Option<Request>,
    has_failed: bool,
}

impl SnapshotMaker {
    pub(crate) fn new(out: &Path, part: &Path) -> Self {
        Self {
            out: out.to_owned(),
            part: part.to_owned(),
            due: Instant::now() + REQUEST_INTERVAL,
            settling: None,
            answered: None,
            has_failed: false,
        }
    }

    /// The request to answer now. The caller records a clock pair first.
    pub(crate) fn wanted(&mut self) -> Option<Request> {
        if process::DUMP.take()
            && let Err(error) = Request::make(&self.out)
        {
            self.fail(&error);
        }
        if Instant::now() < self.due {
            return None;
        }
        self.due = Instant::now() + REQUEST_INTERVAL;
        // A directory that cannot be read now may be readable later.
        let request = Request::find(&self.out).ok().flatten()?;
        if self.answered.as_ref() == Some(&request) {
            return None;
        }
        if self.settling.as_ref() == Some(&request) {
            return Some(request);
        }
        self.due = Instant::now() + SETTLING;
        self.settling = Some(request);
        None
    }

    pub(crate) fn answer(&mut self, request: Request, writer: &JournalWriter) {
        if let Err(error) = self.put_part(&request, writer) {
            self.fail(&error);
        }
        let is_last = standing(&self.out, &request).is_ok_and(|standing| standing.awaited.is_empty());
        if is_last && let Err(error) = request.close(&self.out) {
            self.fail(&error);
        }
        self.answered = Some(request);
    }

    fn put_part(&self, request: &Request, writer: &JournalWriter) -> io::Result<()> {
        let directory = request.directory(&self.out);
        let parts = directory.join(PARTS);
        host::directories(&parts)?;
        let name = part_name(&self.part);
        let making = directory.join(format!(".making-{name}"));
        host::directory(&making)?;
        let made = self.copy(&making, writer);
        let placed = made.and_then(|()| std::fs::rename(&making, parts.join(&name)));
        placed.inspect_err(|_| {
            let _best_effort = std::fs::remove_dir_all(&making);
        })
    }

    fn copy(&self, into: &Path, writer: &JournalWriter) -> io::Result<()> {
        let journal = into.join(JOURNAL);
        host::directory(&journal)?;
        writer.copy_to(&journal)?;
        chain::report().write(into)?;
        let info = std::fs::read(self.part.join(PROCESS))?;
        let mut info: ProcessInfo = serde_json::from_slice(&info)?;
        info.snapshot_realtime_ns = clock::realtime_ns();
        host::write(&into.join(PROCESS), &serde_json::to_vec_pretty(&info)?)
    }

    fn fail(&mut self, error: &io::Error) {
        if !std::mem::replace(&mut self.has_failed, true) {
            process::warn(&format!(
                "no snapshot of this process in {}: {error}; recording continues",
                self.out.display()
            ));
        }
    }
}

/// The locations of a session's files.
pub(crate) struct SessionDirectories {
    pub(crate) out: PathBuf,
    pub(crate) part: PathBuf,
    pub(crate) journal: PathBuf,
    pub(crate) job: String,
    /// The job that owns the requested directory, if `out` is another directory inside it.
    pub(crate) other_job: Option<String>,
    /// Whether the template has `%j` but there is no job id.
    pub(crate) lacks_job_id: bool,
}

impl SessionDirectories {
    pub(crate) fn make(config: &Config, process: &ProcessInfo) -> Result<Self, String> {
        let values = PathValues {
            host: process.host.clone(),
            process_id: process.pid,
            job: process.environment.job.clone(),
            rank: process.environment.rank,
        };
        let started_ns = process.session_start_realtime_ns;
        let JobDirectory { path: out, job, other: other_job } = output(config, &values, process)?;
        let name = format!("{}-{}-{started_ns}", process.host, process.pid);
        let part = out.join(PARTS).join(&name);
        host::directory(&part)
            .map_err(|error| format!("{}: {error} (NCCL_OTF2_DIR says where the archive goes)", part.display()))?;
        match journal(config, &values, &part, &name) {
            Ok(journal) => {
                let is_asked_for = |template: &String| template.replace("%%", "").contains("%j");
                let lacks_job_id = values.job.is_none() && config.directory.as_ref().is_some_and(is_asked_for);
                Ok(Self { out, part, journal, job, other_job, lacks_job_id })
            }
            Err(reason) => {
                let _best_effort = std::fs::remove_dir_all(&part);
                Err(reason)
            }
        }
    }

    pub(crate) fn remove(&self) {
        let _best_effort = std::fs::remove_dir_all(&self.journal);
        let _best_effort = std::fs::remove_dir_all(&self.part);
    }
}

/// Makes the job's directory with its `parts`, inside the requested directory if another job owns that.
fn output(config: &Config, values: &PathValues, process: &ProcessInfo) -> Result<JobDirectory, String> {
    let now_ns = process.session_start_realtime_ns;
    let relative = match (&config.directory, substrate::archive_directory()) {
        (Some(template), _) => settings::expand(template, values).into(),
        (None, Some(directory)) => directory,
        (None, None) if values.job.is_some() => settings::expand("nccl-otf2-%j", values).into(),
        (None, None) => format!("nccl-otf2-{}", settings::date_and_time(now_ns / 1_000_000_000)).into(),
    };
    let path =
        std::path::absolute(&relative).map_err(|error| format!("NCCL_OTF2_DIR={}: {error}", relative.display()))?;
    refuse_foreign(&path, "NCCL_OTF2_DIR")?;
    let refused = |error| format!("{}: {error} (NCCL_OTF2_DIR says where the archive goes)", path.display());
    let place = job::directory(&path, &process.environment, process.first_comm).map_err(refused)?;
    let parts = place.path.join(PARTS);
    refuse_foreign(&place.path, "NCCL_OTF2_DIR")?;
    refuse_foreign(&parts, "NCCL_OTF2_DIR")?;
    host::directories(&parts).map_err(refused)?;
    Ok(place)
}

/// Makes a part's journal directory: inside the part, or at the user's location with a link in the part.
fn journal(config: &Config, values: &PathValues, part: &Path, name: &str) -> Result<PathBuf, String> {
    let inside = part.join(JOURNAL);
    let Some(template) = &config.journal_directory else {
        host::directory(&inside).map_err(|error| format!("{}: {error}", inside.display()))?;
        return Ok(inside);
    };
    let outside = PathBuf::from(settings::expand(template, values)).join(name);
    let outside = std::path::absolute(&outside).unwrap_or(outside);
    let parent = outside.parent().unwrap_or(&outside);
    refuse_foreign(parent, "NCCL_OTF2_JOURNAL_DIR")?;
    let made = host::directories(parent).and_then(|()| host::directory(&outside));
    made.map_err(|error| format!("NCCL_OTF2_JOURNAL_DIR: {}: {error}", outside.display()))?;
    // With the link, a reader of the part finds the journal without knowing the variable.
    std::os::unix::fs::symlink(&outside, &inside).map_err(|error| format!("{}: {error}", inside.display()))?;
    Ok(outside)
}

/// What `process.json` says of this process.
pub(crate) fn describe_process(config: &Config, test_clock: Option<&TestClock>) -> ProcessInfo {
    let mut environment = JobEnvironment::read();
    if let (None, Some((rank, size))) = (environment.rank, substrate::rank_and_size()) {
        (environment.rank, environment.size) = (Some(rank), Some(size));
    }
    let simulated_host = test_clock.map(|clock| clock.boot_id.clone());
    let pid = std::process::id();
    let working_directory = std::env::current_dir().unwrap_or_default();
    ProcessInfo {
        format: PROCESS_FORMAT,
        host: simulated_host.clone().unwrap_or_else(host::host_name),
        boot_id: simulated_host.unwrap_or_else(host::boot_id),
        pid,
        pid_namespace: host::pid_namespace(),
        start_ticks: host::start_ticks(pid).unwrap_or(0),
        session_start_realtime_ns: clock::realtime_ns(),
        environment,
        plugin_version: VERSION.to_owned(),
        tick_source: clock::select().name().to_owned(),
        command: part::command(),
        working_directory: working_directory.display().to_string(),
        level: config.level,
        system_dump: process::dump_of_user(Dump::System),
        graphs_dump: process::dump_of_user(Dump::Graphs),
        ..ProcessInfo::default()
    }
}

/// Adds what is known of NCCL.
pub(crate) fn with_communicator(info: ProcessInfo, config: &Config, comm: &CommInit<'_>) -> ProcessInfo {
    // Only kinds that NCCL can report, so that no reader expects others.
    let event_mask = config.mask & event::kinds(comm.table);
    ProcessInfo {
        first_comm: comm.comm_id,
        nccl_version: part::nccl_version_text(comm.nccl_version),
        library: if process::is_rccl() { "RCCL".to_owned() } else { String::new() },
        table: comm.table.number(),
        event_mask,
        events: settings::event_names(event_mask).into_iter().map(str::to_owned).collect(),
        allgatherv_off: allgatherv_off(),
        ..info
    }
}

/// At `init` NCCL has put the variables of its files (`/etc/nccl.conf`) into the environment.
pub(crate) fn allgatherv_off() -> bool {
    std::env::var_os(versions::ALLGATHERV_VARIABLE)
        .is_some_and(|value| versions::turns_allgatherv_off(&value.to_string_lossy()))
}

/// Writes `process.json`, and puts it in place when `meanwhile` is done.
pub(crate) fn place_description<T>(
    part: &Path,
    info: &ProcessInfo,
    meanwhile: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    let staged = part.join(format!(".{PROCESS}"));
    let refused = |error| format!("{}: {}", staged.display(), host::explain_write_error(error));
    let json = serde_json::to_vec_pretty(info).map_err(io::Error::other);
    json.and_then(|json| host::new_file(&staged)?.write_all(&json)).map_err(refused)?;
    let done = meanwhile()?;
    std::fs::rename(&staged, part.join(PROCESS)).map_err(refused)?;
    Ok(done)
}

// For tests only: makes a process appear to be on another host, with other clocks.
//
// `NCCL_OTF2_TEST_CLOCK=offset_ns,drift_ppb,boot-id`, read once when a session begins, shifts the recorded readings of
// the system's clocks: CLOCK_REALTIME is ahead by `offset_ns`, all clocks gain `drift_ppb` since the boot of the
// machine, and the host has another uptime. The boot id is also the host's name. The ticks of events do not change.

pub(crate) const TEST_CLOCK_VARIABLE: &str = "NCCL_OTF2_TEST_CLOCK";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestClock {
    offset_ns: i64,
    drift_ppb: i64,
    pub(crate) boot_id: String,
}

impl TestClock {
    pub(crate) fn from_environment() -> Result<Option<Self>, String> {
        match std::env::var(TEST_CLOCK_VARIABLE) {
            Ok(text) => Self::parse(&text).map(Some).ok_or_else(|| {
                format!("{TEST_CLOCK_VARIABLE}={text}: not offset_ns,drift_ppb,boot-id (it is for tests: unset it)")
            }),
            Err(_) => Ok(None),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ',');
        Some(Self {
            offset_ns: words.next()?.trim().parse().ok()?,
            drift_ppb: words.next()?.trim().parse().ok()?,
            boot_id: Some(words.next()?.trim()).filter(|boot_id| !boot_id.is_empty())?.to_owned(),
        })
    }

    /// The simulated host's clock reading when this machine's clocks show `pair`.
    pub(crate) fn shift(&self, pair: ClockPair) -> ClockPair {
        let gained = i128::from(pair.monotonic_ns) * i128::from(self.drift_ppb) / 1_000_000_000;
        // Fits unless the drift is absurd, which tests do not use.
        let gained = i64::try_from(gained).unwrap_or(0);
        let up = |ns: u64| ns.saturating_add_signed(gained).saturating_add(self.up_ns());
        let realtime_ns = pair.realtime_ns.saturating_add_signed(gained);
        ClockPair {
            monotonic_ns: up(pair.monotonic_ns),
            realtime_ns: realtime_ns.saturating_add_signed(self.offset_ns),
            monotonic_raw_ns: up(pair.monotonic_raw_ns),
            ..pair
        }
    }

    /// How much longer the simulated host has been up than this machine: less than a day, derived from its name.
    fn up_ns(&self) -> u64 {
        let bytes = self.boot_id.bytes();
        let mixed = bytes.fold(7_u64, |mixed, byte| mixed.wrapping_mul(31).wrapping_add(byte.into()));
        mixed % 86_400 * 1_000_000_000
    }
}
