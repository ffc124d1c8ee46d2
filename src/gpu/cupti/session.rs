//! Becoming a user of CUPTI, and ceasing to be one.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use cupti_sys::constants::{
    ATTRIBUTE_ZEROED_OUT_ACTIVITY_BUFFER, CBIDS_OF_BATCHES, CBIDS_OF_COPIES, CBIDS_OF_LAUNCHES,
    KIND_CONCURRENT_KERNEL, KIND_DRIVER, KIND_EXTERNAL_CORRELATION, KIND_MEMCPY, KIND_RUNTIME,
    VERSION_BUFFER_MAY_BE_REFUSED, VERSION_SUBSCRIBER_FUNCTIONS,
};
use cupti_sys::{Code, Functions, LoadError, Search};

use super::buffers;
use super::calls::{self, Calls};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// `NCCL_OTF2_CUPTI_LIB`.
    pub(crate) library: Option<PathBuf>,
    /// `CUDA_HOME`.
    pub(crate) cuda_home: Option<PathBuf>,
    /// Kernels of others are written down, too.
    pub(crate) all_kernels: bool,
    /// Copies of copy-engine collectives are recorded.
    pub(crate) copies: bool,
    /// Another user of CUPTI who is at work goes first.
    pub(crate) yields: bool,
}

/// Why CUPTI is not used.
#[derive(Debug)]
pub(crate) enum NotUsed {
    /// There is none, or no driver.
    Load(LoadError),
    /// It does not even say its version.
    Version(PathBuf, Code),
    /// Somebody else traces.
    Busy(PathBuf),
    /// It could not be subscribed to; who holds it, where that is known.
    Subscribe {
        path: PathBuf,
        code: Code,
        holder: String,
    },
    /// Something that is needed could not be turned on.
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
                    "another component of the program traces with CUPTI ({}); NCCL_OTF2_GPU=cupti tries all the same",
                    path.display()
                );
            }
            Self::Version(path, code) => (path, "cuptiGetVersion", code, ""),
            Self::Subscribe { path, code, holder } => (path, "subscribing", code, holder.as_str()),
            Self::Setup { path, what, code } => (path, *what, code, ""),
        };
        // In the archive lines are cut at 255 bytes: what helps most comes first.
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

/// CUPTI, recording for us.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) calls: Calls,
    pub(super) version: u32,
    pub(super) path: PathBuf,
    /// Whether calls of all driver functions are recorded, not only of those that launch.
    pub(super) has_all_driver_calls: bool,
    on: On,
}

/// What was turned on, to be turned off.
#[derive(Clone, Debug, Default)]
pub(super) struct On {
    kinds: Vec<u32>,
    driver_functions: Vec<u32>,
    runtime_functions: Vec<u32>,
}

impl On {
    /// Turns it off, the last first.
    pub(super) fn turn_off(&self, calls: &Calls) {
        for kind in self.kinds.iter().rev() {
            calls.disable(*kind);
        }
        for cbid in self.driver_functions.iter().rev() {
            calls.driver_function(*cbid, false);
        }
        for cbid in self.runtime_functions.iter().rev() {
            calls.runtime_function(*cbid, false);
        }
    }
}

impl Session {
    /// Finds CUPTI, subscribes to it, and turns on what is needed; what fails leaves nothing turned on.
    pub(super) fn open(settings: &Settings) -> Result<Self, NotUsed> {
        let search = Search {
            explicit: settings.library.clone(),
            cuda_home: settings.cuda_home.clone(),
        };
        let library = cupti_sys::load(&search).map_err(NotUsed::Load)?;
        if !library.was_mapped {
            super::IS_OURS.store(true, Ordering::Relaxed);
        }
        let (functions, path) = (library.functions, library.path);
        // Before the first thread of CUPTI's there is.
        calls::watch_forks();
        let version =
            calls::version(&functions).map_err(|code| NotUsed::Version(path.clone(), code))?;
        if settings.yields && calls::is_session_running(&functions) {
            return Err(NotUsed::Busy(path));
        }
        let calls = subscribe(functions, version).map_err(|(code, holder)| NotUsed::Subscribe {
            path: path.clone(),
            code,
            holder,
        })?;
        buffers::pool().open(version >= VERSION_BUFFER_MAY_BE_REFUSED);
        let mut on = On::default();
        match turn_on(&calls, settings.copies, &mut on) {
            Ok(has_all_driver_calls) => Ok(Self {
                calls,
                version,
                path,
                has_all_driver_calls,
                on,
            }),
            Err((what, code)) => {
                on.turn_off(&calls);
                calls.unsubscribe();
                buffers::pool().close();
                Err(NotUsed::Setup { path, what, code })
            }
        }
    }

    /// One that nothing was turned on for.
    #[cfg(test)]
    pub(super) fn of(calls: Calls) -> Self {
        Self {
            calls,
            version: 24,
            path: PathBuf::new(),
            has_all_driver_calls: false,
            on: On::default(),
        }
    }

    /// What was turned on.
    pub(super) fn on(&self) -> On {
        self.on.clone()
    }

    /// CUDA's release, as people write it.
    pub(super) fn release(&self) -> String {
        // Before CUDA 13 the versions are numbers of their own.
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

/// The family of a subscriber where it is whole, for then other tools can use CUPTI too; else the global one.
fn subscribe(functions: Functions, version: u32) -> Result<Calls, (Code, String)> {
    let mut holder = String::new();
    if version >= VERSION_SUBSCRIBER_FUNCTIONS && calls::has_own_family(&functions) {
        match Calls::subscribe_own(functions) {
            Ok(calls) => return Ok(calls),
            // Another tool uses the global family, or the driver is too old for several subscribers.
            Err((
                Code::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
                | Code::NOT_COMPATIBLE
                | Code::NOT_SUPPORTED
                | Code::UNKNOWN,
                held_by,
            )) => holder = held_by,
            Err(refused) => return Err(refused),
        }
    }
    Calls::subscribe_global(functions).map_err(|code| (code, holder))
}

/// In the order that CUPTI's documentation gives. Whether all driver calls are recorded.
fn turn_on(calls: &Calls, copies: bool, on: &mut On) -> Result<bool, (&'static str, Code)> {
    // Not needed: without it CUPTI cleans buffers itself, on the launching thread.
    calls.set_attribute_u8(ATTRIBUTE_ZEROED_OUT_ACTIVITY_BUFFER, 1);
    succeeded("registering buffers", calls.register_buffers())?;
    enable(calls, "external correlation", KIND_EXTERNAL_CORRELATION, on)?;
    // External ids come with the records of calls, so those of launches are needed.
    let has_single = CBIDS_OF_LAUNCHES.iter().all(|cbid| {
        let is_on = calls.driver_function(*cbid, true).is_success();
        if is_on {
            on.driver_functions.push(*cbid);
        }
        is_on
    });
    if !has_single {
        enable(calls, "driver functions", KIND_DRIVER, on)?;
    }
    if copies {
        let has_single = CBIDS_OF_COPIES.iter().all(|cbid| {
            let is_on = calls.runtime_function(*cbid, true).is_success();
            if is_on {
                on.runtime_functions.push(*cbid);
            }
            is_on
        });
        if has_single {
            // What a release does not have, it refuses.
            let batches = CBIDS_OF_BATCHES.iter();
            on.runtime_functions
                .extend(batches.filter(|cbid| calls.runtime_function(**cbid, true).is_success()));
        } else {
            enable(calls, "runtime functions", KIND_RUNTIME, on)?;
        }
        enable(calls, "copies", KIND_MEMCPY, on)?;
    }
    enable(calls, "kernels", KIND_CONCURRENT_KERNEL, on)?;
    Ok(!has_single)
}

fn enable(
    calls: &Calls,
    what: &'static str,
    kind: u32,
    on: &mut On,
) -> Result<(), (&'static str, Code)> {
    succeeded(what, calls.enable(kind))?;
    on.kinds.push(kind);
    Ok(())
}

const fn succeeded(what: &'static str, code: Code) -> Result<(), (&'static str, Code)> {
    if code.is_success() {
        Ok(())
    } else {
        Err((what, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_holder_and_the_way_out() {
        let refused = NotUsed::Subscribe {
            path: "/x/libcupti.so.13".into(),
            code: Code::MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
            holder: "CUPTI for Another".into(),
        };
        let text = refused.to_string();
        let expected = "subscribing: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (39), held by \"CUPTI for Another\": run \
                        without the other tool that uses CUPTI (nsys, ncu, a debugger, torch.profiler, Score-P) \
                        (/x/libcupti.so.13)";
        assert_eq!(text, expected);
    }
}
