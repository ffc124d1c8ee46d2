//! Whether Score-P is in this process, and how it can be called; and the counts of what was and was not forwarded.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::scorep::substrate::{
    AtExit, Epoch, Filter, Inside, Internal, Metrics, Outputs, Recording, Threads, User, find, library_of,
};
use journal::part::ScorepReport;

#[derive(Clone, Copy, Debug)]
pub(super) enum Capability {
    Internal(Internal),
    User(User),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Phase(NonNull<AtomicI32>);

// SAFETY: an int of the program, which exists until the process ends, and is read with atomic loads.
unsafe impl Send for Phase {}
// SAFETY: as above.
unsafe impl Sync for Phase {}

impl Phase {
    pub(super) fn get(self) -> i32 {
        // SAFETY: `probe` found the variable, and the program is never unloaded.
        let phase = unsafe { self.0.as_ref() };
        phase.load(Ordering::Acquire)
    }
}

#[derive(Clone, Debug)]
pub(super) struct ScorePState {
    pub(super) phase: Phase,
    pub(super) capability: Capability,
    /// Absent without a thread model; Score-P then knows only the main thread.
    pub(super) threads: Option<Threads>,
    pub(super) inside: Option<Inside>,
    pub(super) recording: Option<Recording>,
    outputs: Option<Outputs>,
    pub(super) epoch: Option<Epoch>,
    pub(super) filter: Option<Filter>,
    pub(super) metrics: Option<Metrics>,
    /// Absent if another component may have registered its function: Score-P accepts only one.
    pub(super) at_exit: Option<AtExit>,
    library: String,
    thread_model: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// There is no Score-P, or it is linked statically and has no visible symbols.
    NotThere,
    Incomplete(String),
    RecordsNothing,
}

const WRITTEN: &str = "the archive is written regardless";

impl fmt::Display for Absence {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::NotThere => {
                "Score-P is not in this process, or is linked statically, which hides its functions (build it with \
                --enable-shared)"
            }
            Self::Incomplete(reason) => return write!(out, "nothing is forwarded to Score-P: {reason}; {WRITTEN}"),
            Self::RecordsNothing => {
                "nothing is forwarded to Score-P: it writes neither a trace nor a profile (SCOREP_ENABLE_TRACING, \
                 SCOREP_ENABLE_PROFILING)"
            }
        };
        write!(out, "{why}; {WRITTEN}")
    }
}

impl ScorePState {
    pub(super) fn name(&self) -> String {
        let capability = match self.capability {
            Capability::Internal(_) => "internal functions",
            Capability::User(_) => "user functions",
        };
        format!("Score-P ({}, {capability}, {})", self.library, self.thread_model)
    }

    pub(super) fn writes_trace(&self) -> bool {
        self.outputs.is_none_or(|outputs| {
            // SAFETY: reads a flag that Score-P set when it began, before the program started.
            unsafe { (outputs.tracing)() }
        })
    }

    pub(super) fn writes_profile(&self) -> bool {
        self.outputs.is_none_or(|outputs| {
            // SAFETY: as for `writes_trace`.
            unsafe { (outputs.profiling)() }
        })
    }
}

/// Searches the symbols of the program and its libraries for Score-P.
pub(super) fn probe() -> Result<ScorePState, Absence> {
    let phase = find(c"scorep_measurement_phase").ok_or(Absence::NotThere)?;
    let presence = ScorePState {
        phase: Phase(phase.cast()),
        capability: find_capability()?,
        threads: Threads::find().ok(),
        inside: Inside::find().ok(),
        recording: Recording::find().ok(),
        outputs: Outputs::find().ok(),
        epoch: Epoch::find().ok(),
        filter: Filter::find().ok(),
        metrics: Metrics::find().ok(),
        at_exit: free_exit_callback(),
        library: library_of(c"SCOREP_EnterRegion").unwrap_or_else(|| "of an unknown library".to_owned()),
        thread_model: thread_model(),
    };
    let is_kept = presence.writes_trace() || presence.writes_profile() || has_other_substrate_plugin();
    if is_kept { Ok(presence) } else { Err(Absence::RecordsNothing) }
}

fn has_other_substrate_plugin() -> bool {
    let plugins = std::env::var("SCOREP_SUBSTRATE_PLUGINS").unwrap_or_default();
    plugins.split([',', ' ', ':']).any(|name| !name.is_empty() && name != "nccl_otf2")
}

fn find_capability() -> Result<Capability, Absence> {
    // New in 8.0, in which the needed functions got their present arguments.
    let missing = if find(c"SCOREP_AcceleratorMgmt_CreateContext").is_some() {
        match Internal::find() {
            Ok(internal) => return Ok(Capability::Internal(internal)),
            Err(missing) => missing,
        }
    } else {
        "SCOREP_AcceleratorMgmt_CreateContext"
    };
    match User::find() {
        Ok(user) if is_user_adapter_initialised() => Ok(Capability::User(user)),
        Ok(_) => Err(Absence::Incomplete(format!(
            "it has no {missing}, and its user adapter is loaded but not part of the measurement"
        ))),
        Err(_) => Err(Absence::Incomplete(format!(
            "it has no {missing} (Score-P 8.0 and later have), and no user adapter (scorep --user)"
        ))),
    }
}

/// Whether the program was linked with the user adapter. An adapter that is only loaded ends the program when called.
fn is_user_adapter_initialised() -> bool {
    let (Some(adapter), Some(subsystems), Some(number)) =
        (find(c"SCOREP_Subsystem_UserAdapter"), find(c"scorep_subsystems"), find(c"scorep_number_of_subsystems"))
    else {
        return false;
    };
    let number: NonNull<usize> = number.cast();
    // SAFETY: Score-P declares it as a constant size_t.
    let number = unsafe { number.read() };
    let subsystems: NonNull<*const std::ffi::c_void> = subsystems.cast();
    (0..number.min(MOST_SUBSYSTEMS)).any(|index| {
        // SAFETY: Score-P declares an array of `number` pointers.
        let subsystem = unsafe { subsystems.add(index) };
        // SAFETY: inside the array, as shown above.
        let subsystem = unsafe { subsystem.read() };
        std::ptr::eq(subsystem, adapter.as_ptr())
    })
}

/// Score-P has about two dozen.
const MOST_SUBSYSTEMS: usize = 256;

/// Score-P ends the program at a second callback, and TAU or Score-P's own CUDA adapter may have registered one.
fn free_exit_callback() -> Option<AtExit> {
    let has_tau = find(c"Tau_init").is_some() || find(c"Tau_start").is_some();
    if has_tau || has_cuda_adapter() {
        return None;
    }
    AtExit::find().ok()
}

fn has_cuda_adapter() -> bool {
    find(c"scorep_cupti_activity_init").is_some()
        || find(c"scorep_cupti_callbacks_init").is_some()
        || find(c"SCOREP_Subsystem_CudaAdapter").is_some()
}

fn thread_model() -> &'static str {
    let library = library_of(c"SCOREP_Location_GetCurrentCPULocation").unwrap_or_default();
    let models = [
        ("create_wait_pthread", "pthread threads"),
        ("fork_join_omp", "OpenMP threads"),
        ("mockup", "main thread only"),
    ];
    let found = models.iter().find(|(part, _)| library.contains(part));
    match (found, Threads::find()) {
        (Some((_, model)), _) => model,
        (None, Ok(_)) => "threads that Score-P made known",
        (None, Err(_)) => "main thread only",
    }
}

/// Whether Scalasca's analyser will read the trace, judging by the variables that `scan -t` sets. The analyser rejects
/// a trace with locations other than threads. Scalasca has variables of its own (`SCAN_…`), and names the directory
/// `scorep_<title>_trace` unless the user names it.
pub(super) fn is_for_scalasca(variables: impl IntoIterator<Item = (OsString, OsString)>) -> bool {
    variables.into_iter().any(|(name, value)| match name.to_str() {
        Some("SCOREP_EXPERIMENT_DIRECTORY") => Path::new(&value).iter().any(|part| {
            let part = part.to_string_lossy();
            let title = part.strip_prefix("scorep_");
            // With several runs the last part of the path lacks `_trace`, and the part before it ends with a number.
            title.is_some_and(|title| title.ends_with("_trace") || title.contains("_trace_"))
        }),
        Some(name) => name.starts_with("SCAN_"),
        None => false,
    })
}

macro_rules! counts {
    ($($(#[doc = $about:literal])* $count:ident $name:literal,)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Count {
            $($(#[doc = $about])* $count,)+
        }

        impl Count {
            const ALL: &'static [(Self, &'static str)] = &[$((Self::$count, $name),)+];
        }
    };
}

counts! {
    Calls "CALLS",
    /// The part of `CALLS` that the plugin closed because NCCL did not report their end.
    CallsClosed "CALLS_CLOSED",
    CallsUnknownThread "CALLS_UNKNOWN_THREAD",
    CallsOutside "CALLS_OUTSIDE",
    /// Calls while Score-P's recording was off, within Score-P's work, or while another thread made the definitions.
    CallsNotRecorded "CALLS_NOT_RECORDED",
    CallsFiltered "CALLS_FILTERED",
    /// Forwarded operations. With the disjoint counts below they add up to all operations that started.
    Operations "OPERATIONS",
    /// The part of `OPERATIONS` that begins at the end of the previous operation, because the two overlapped.
    OperationsMoved "OPERATIONS_MOVED",
    OperationsUnfinished "OPERATIONS_UNFINISHED",
    OperationsDropped "OPERATIONS_DROPPED",
    /// Operations that overlap an operation of another communicator, or lie inside the previous operation.
    OperationsOverlapping "OPERATIONS_OVERLAPPING",
    OperationsNotPlaced "OPERATIONS_NOT_PLACED",
    OperationsFiltered "OPERATIONS_FILTERED",
    OperationsCallsOnly "OPERATIONS_CALLS_ONLY",
    /// Operations left for the end of Score-P's measurement when the report was written.
    OperationsWaiting "OPERATIONS_WAITING",
    /// Parts whose operation was already forwarded, or belongs to another process.
    ChildrenAlone "CHILDREN_ALONE",
}

/// What was and was not forwarded, for the archive.
#[derive(Debug)]
pub(super) struct Counts([AtomicU64; Count::ALL.len()]);

impl Counts {
    pub(super) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; Count::ALL.len()])
    }

    pub(super) fn add(&self, count: Count) {
        self.add_many(count, 1);
    }

    pub(super) fn add_many(&self, count: Count, number: u64) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.fetch_add(number, Ordering::Relaxed);
        }
    }

    pub(super) fn set(&self, count: Count, number: u64) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.store(number, Ordering::Relaxed);
        }
    }

    pub(super) fn reset(&self) {
        for counter in &self.0 {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

pub(super) fn report(target: String, counts: &Counts) -> ScorepReport {
    let named = Count::ALL.iter().filter_map(|&(count, name)| {
        let number = counts.0.get(count as usize)?.load(Ordering::Relaxed);
        (number > 0).then(|| (name.to_owned(), number))
    });
    ScorepReport { target, counts: named.collect() }
}
