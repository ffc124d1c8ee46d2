//! The plugin's definitions in Score-P, made once: regions, attributes, the location of operations. Finds Score-P's
//! clock.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicPtr;

use crate::scorep::guard::{Functions, ScorePAccess, Timer};
use crate::scorep::regions::{ATTRIBUTES, Attribute, CALLS, CallRegion, Function, Region, TIMINGS};
use crate::scorep::substrate::Location;
use crate::scorep::{regions, substrate};
use nccl_events::archive::Timing;
use nccl_events::collective::ALGORITHMS;

/// The name of the operations' location, which tells until when operations are shown: until NCCL reports their end.
/// NCCL's reports are late if its threads are late, and do not mark when the device finished.
const LOCATION: &CStr = c"NCCL operations, until reported";
/// The location's group. A process can have several GPUs, and the GPU on which an operation ran is not known here.
const GROUP: &CStr = c"NCCL";

#[derive(Debug)]
pub(super) struct Setup {
    pub(super) internal: Option<Definitions>,
    /// With the user adapter: one handle per call region.
    handles: [AtomicPtr<c_void>; CALLS],
}

#[derive(Debug)]
pub(super) struct Definitions {
    /// `None` if the user's filter excludes the region.
    calls: [Option<u32>; CALLS],
    operations: [Option<u32>; Function::NUMBER],
    pub(super) bytes: Option<u32>,
    attributes: [u32; ATTRIBUTES.len()],
    algorithms: [u32; ALGORITHMS.len()],
    timings: [u32; TIMINGS.len()],
    /// The operations' location; absent if only calls are shown.
    pub(super) location: Option<PluginLocation>,
    pub(super) timer: Option<Timer>,
}

/// The location that the plugin made. Score-P keeps it until the measurement ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct PluginLocation(*mut Location);

// SAFETY: the pointer is only passed to Score-P, by the thread that holds the drain.
unsafe impl Send for PluginLocation {}
// SAFETY: as above.
unsafe impl Sync for PluginLocation {}

impl PluginLocation {
    pub(super) const fn get(self) -> *mut Location {
        self.0
    }
}

impl Setup {
    /// Makes the definitions. Score-P will call `at_end` at the end of its measurement.
    pub(super) fn new(measured: &ScorePAccess<'_>, shows_operations: bool, at_end: extern "C" fn() -> c_int) -> Self {
        let internal = measured.internal().map(|functions| Definitions::new(&functions, shows_operations));
        if internal.is_some() {
            register_end(measured, at_end);
        }
        Self { internal, handles: [const { AtomicPtr::new(ptr::null_mut()) }; CALLS] }
    }

    pub(super) fn user(&self, region: CallRegion) -> (&AtomicPtr<c_void>, &'static CStr) {
        static SPARE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let index = region.index();
        let name = regions::calls().nth(index).map_or(regions::FILE, |region| region.name);
        (self.handles.get(index).unwrap_or(&SPARE), name)
    }

    /// Whether the user's filter excludes a call's region. Score-P's user adapter checks the filter itself.
    pub(super) fn excludes(&self, region: CallRegion) -> bool {
        self.internal.as_ref().is_some_and(|definitions| definitions.call(region).is_none())
    }
}

impl Definitions {
    fn new(functions: &Functions<'_>, shows_operations: bool) -> Self {
        let file = functions.new_source_file(regions::FILE);
        let mut calls = regions::calls();
        let mut operations = regions::operations();
        let region = |next: Option<Region>| {
            let Region { name, canonical, role } = next?;
            let is_excluded = functions.is_excluded(regions::FILE, name, &canonical);
            (!is_excluded).then(|| functions.new_region(name, &canonical, file, regions::PARADIGM, role))
        };
        let (name, about, unit) = regions::BYTES_METRIC;
        let location = shows_operations.then(|| {
            let group = functions.new_accelerator_group(GROUP);
            PluginLocation(functions.new_location(LOCATION, regions::PARADIGM, group))
        });
        Self {
            calls: std::array::from_fn(|_| region(calls.next())),
            operations: std::array::from_fn(|_| region(operations.next())),
            attributes: ATTRIBUTES.map(|(name, about, kind)| functions.new_attribute(name, about, kind)),
            algorithms: ALGORITHMS.map(|name| functions.new_string(name)),
            timings: TIMINGS.map(|timing| {
                // No timing's name contains a NUL.
                functions.new_string(&CString::new(timing.name()).unwrap_or_default())
            }),
            bytes: functions.new_metric(name, about, unit),
            location,
            timer: Timer::find(functions.earlier_timestamp()),
        }
    }

    /// A call's region; `None` if the user's filter excludes it.
    pub(super) fn call(&self, region: CallRegion) -> Option<u32> {
        self.calls.get(region.index()).copied().flatten()
    }

    /// An operation's region; `None` if the user's filter excludes it.
    pub(super) fn operation(&self, function: Function) -> Option<u32> {
        self.operations.get(function.index()).copied().flatten()
    }

    pub(super) fn attribute(&self, attribute: Attribute) -> u32 {
        self.attributes.get(attribute as usize).copied().unwrap_or(0)
    }

    pub(super) fn algorithm(&self, index: usize) -> Option<u32> {
        self.algorithms.get(index).copied()
    }

    pub(super) fn timing(&self, timing: Timing) -> Option<u32> {
        let at = TIMINGS.iter().position(|known| *known == timing)?;
        self.timings.get(at).copied()
    }
}

/// Registers `at_end` with Score-P, unless Score-P calls the substrate plugin at the end anyway.
fn register_end(measured: &ScorePAccess<'_>, at_end: extern "C" fn() -> c_int) {
    if substrate::is_active() {
        return;
    }
    if let Some(at_exit) = measured.presence().at_exit {
        // SAFETY: `measured` proves that the call is allowed. No other callback is registered (`free_exit_callback`),
        // and this runs once in a process; the function stays mapped (`-z nodelete`) and does not unwind.
        unsafe { (at_exit.register)(at_end) };
    }
}
