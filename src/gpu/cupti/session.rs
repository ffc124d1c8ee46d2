//! Finds CUPTI, subscribes to it, and enables activity kinds.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::gpu::cupti::buffers;
use crate::gpu::cupti::buffers::{Api, Calls};
use crate::host::process;
use cupti_sys::constants::{
    ATTRIBUTE_ZEROED_OUT_ACTIVITY_BUFFER, CBIDS_END, CBIDS_OF_COPIES, CBIDS_OF_LAUNCHES, KIND_CONCURRENT_KERNEL,
    KIND_DRIVER, KIND_EXTERNAL_CORRELATION, KIND_MEMCPY, KIND_RUNTIME, VERSION_BUFFER_MAY_BE_REFUSED,
    VERSION_SINGLE_FUNCTIONS, VERSION_SUBSCRIBER_FUNCTIONS,
};
use cupti_sys::{Code, Functions, LoadError, Search};

/// Whether the plugin loaded CUPTI into this process.
static IS_OURS: AtomicBool = AtomicBool::new(false);

pub(crate) fn is_ours() -> bool {
    IS_OURS.load(Ordering::Relaxed)
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) library: Option<PathBuf>,
    pub(crate) cuda_home: Option<PathBuf>,
    pub(crate) all_kernels: bool,
    /// Whether copies of copy-engine collectives are recorded.
    pub(crate) copies: bool,
    /// Whether to leave CUPTI to another tool that traces.
    pub(crate) yields: bool,
}

#[derive(Debug)]
pub(crate) enum NotUsed {
    /// There is no CUPTI, or no driver.
    Load(LoadError),
    Version(PathBuf, Code),
    Busy(PathBuf),
    /// The subscription failed; `holder` is the tool that holds it, if known.
    Subscribe {
        path: PathBuf,
        code: Code,
        holder: String,
    },
    /// An activity kind that the plugin needs could not be enabled.
    Setup {
        path: PathBuf,
        what: &'static str,
        code: Code,
    },
}

impl fmt::Display for NotUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, what, code, holder) = match self {
            Self::Load(error) => return error.fmt(f),
            Self::Busy(path) => {
                return write!(
                    f,
                    "another component of the program traces with CUPTI ({}); NCCL_OTF2_GPU=cupti tries regardless",
                    path.display()
                );
            }
            Self::Version(path, code) => (path, "cuptiGetVersion", code, ""),
            Self::Subscribe { path, code, holder } => (path, "subscribing", code, holder.as_str()),
            Self::Setup { path, what, code } => (path, *what, code, ""),
        };
        // The archive cuts lines at 255 bytes, so the most helpful text comes first.
        write!(f, "{what}: {code}")?;
        if !holder.is_empty() {
            write!(f, ", held by \"{holder}\"")?;
        }
        if let Some(remedy) = code.remedy() {
            write!(f, ": {remedy}")?;
        }
        write!(f, " ({})", path.display())?;
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) calls: Calls,
    pub(crate) version: u32,
    pub(crate) path: PathBuf,
    /// Whether the calls of all driver functions are recorded, not only of launch functions.
    pub(crate) has_all_driver_calls: bool,
    pub(crate) enabled: EnabledActivities,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct EnabledActivities {
    kinds: Vec<u32>,
    functions: Vec<(Api, u32)>,
}

impl EnabledActivities {
    fn kind(&mut self, calls: &Calls, what: &'static str, kind: u32) -> Result<(), (&'static str, Code)> {
        succeeded(what, calls.enable(kind))?;
        self.kinds.push(kind);
        Ok(())
    }

    /// Records the calls of one function. False if this CUPTI cannot filter by function, or lacks the function.
    fn function(&mut self, calls: &Calls, api: Api, cbid: u32) -> bool {
        let is_on = calls.function(api, cbid, true).is_success();
        if is_on {
            self.functions.push((api, cbid));
        }
        is_on
    }

    /// Records the calls of these functions, and of no others if this CUPTI can choose. Returns whether it can.
    fn only(&mut self, calls: &Calls, version: u32, api: Api, these: &[u32]) -> Result<bool, (&'static str, Code)> {
        if version >= VERSION_SINGLE_FUNCTIONS && these.iter().all(|cbid| self.function(calls, api, *cbid)) {
            return Ok(true);
        }
        match api {
            Api::Driver => self.kind(calls, "driver functions", KIND_DRIVER)?,
            Api::Runtime => self.kind(calls, "runtime functions", KIND_RUNTIME)?,
        }
        // The first number that CUPTI refuses is behind the last function.
        let others = (1..CBIDS_END).filter(|cbid| !these.contains(cbid));
        Ok(others.take_while(|cbid| calls.function(api, *cbid, false).is_success()).count() > 0)
    }

    /// Disables everything in reverse order.
    pub(crate) fn turn_off(&self, calls: &Calls) {
        for kind in self.kinds.iter().rev() {
            calls.disable(*kind);
        }
        for (api, cbid) in self.functions.iter().rev() {
            calls.function(*api, *cbid, false);
        }
    }
}

impl Session {
    /// Finds CUPTI, subscribes to it, and enables the needed activity kinds. A failure leaves nothing enabled.
    pub(crate) fn open(settings: &Settings) -> Result<Self, NotUsed> {
        let search = Search { explicit: settings.library.clone(), cuda_home: settings.cuda_home.clone() };
        let library = cupti_sys::load(&search).map_err(NotUsed::Load)?;
        if !library.was_mapped {
            IS_OURS.store(true, Ordering::Relaxed);
        }
        let (functions, path) = (library.functions, library.path);
        let version = buffers::version(&functions).map_err(|code| NotUsed::Version(path.clone(), code))?;
        if settings.yields && buffers::is_session_running(&functions) {
            return Err(NotUsed::Busy(path));
        }
        let calls = subscribe(functions, version).map_err(|(code, holder)| NotUsed::Subscribe {
            path: path.clone(),
            code,
            holder,
        })?;
        buffers::pool().open(version >= VERSION_BUFFER_MAY_BE_REFUSED);
        // CUPTI has registered an exit handler now, behind which every call of it crashes.
        process::at_exit_again();
        let mut enabled = EnabledActivities::default();
        match turn_on(&calls, version, settings.copies, &mut enabled) {
            Ok(has_all_driver_calls) => Ok(Self { calls, version, path, has_all_driver_calls, enabled }),
            Err((what, code)) => {
                enabled.turn_off(&calls);
                calls.unsubscribe();
                buffers::pool().close();
                Err(NotUsed::Setup { path, what, code })
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn with_calls(calls: Calls) -> Self {
        Self {
            calls,
            version: 24,
            path: PathBuf::new(),
            has_all_driver_calls: false,
            enabled: EnabledActivities::default(),
        }
    }

    pub(crate) fn release(&self) -> String {
        // Before CUDA 13, CUPTI's versions do not follow CUDA's.
        let by_number = match self.version {
            0..=18 => "11.8 to 12.1",
            19..=20 => "12.2",
            21 => "12.3",
            22 => "12.4",
            23 => "12.5",
            24 => "12.6",
            25..=26 => "12.8",
            27..=99_999 => "12.9",
            version => return format!("{}.{}", version / 10_000, version / 100 % 100),
        };
        by_number.to_owned()
    }
}

/// Uses the subscriber functions, if all exist, so that other tools can use CUPTI; else the global functions.
fn subscribe(functions: Functions, version: u32) -> Result<Calls, (Code, String)> {
    let mut holder = String::new();
    if version >= VERSION_SUBSCRIBER_FUNCTIONS && buffers::has_own_family(&functions) {
        match Calls::subscribe_own(functions) {
            Ok(calls) => return Ok(calls),
            // Another tool uses the global functions, or the driver is too old for several subscribers.
            Err((
                Code::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED | Code::NOT_COMPATIBLE | Code::NOT_SUPPORTED | Code::UNKNOWN,
                held_by,
            )) => holder = held_by,
            Err(refused) => return Err(refused),
        }
    }
    Calls::subscribe_global(functions).map_err(|code| (code, holder))
}

/// Enables the needed kinds, in the order of CUPTI's documentation. Returns whether all driver calls are recorded.
fn turn_on(
    calls: &Calls,
    version: u32,
    copies: bool,
    enabled: &mut EnabledActivities,
) -> Result<bool, (&'static str, Code)> {
    // Optional: otherwise CUPTI clears the buffers itself, on the launching thread.
    calls.set_attribute_u8(ATTRIBUTE_ZEROED_OUT_ACTIVITY_BUFFER, 1);
    succeeded("registering buffers", calls.register_buffers())?;
    enabled.kind(calls, "external correlation", KIND_EXTERNAL_CORRELATION)?;
    // External ids come with the records of calls, so launch calls must be recorded.
    let are_chosen = enabled.only(calls, version, Api::Driver, &CBIDS_OF_LAUNCHES)?;
    if copies {
        enabled.only(calls, version, Api::Runtime, &CBIDS_OF_COPIES)?;
        enabled.kind(calls, "copies", KIND_MEMCPY)?;
    }
    enabled.kind(calls, "kernels", KIND_CONCURRENT_KERNEL)?;
    Ok(!are_chosen)
}

const fn succeeded(what: &'static str, code: Code) -> Result<(), (&'static str, Code)> {
    if code.is_success() { Ok(()) } else { Err((what, code)) }
}
