//! The definitions that the plugin makes in Score-P, once: regions, attributes, the location of operations. And
//! Score-P's clock.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicPtr;

use super::guard::{Functions, Measured};
use super::regions::{self, ALGORITHMS, ATTRIBUTES, Attribute, CALLS, CallRegion, Function, TIMINGS, Timing};
use super::substrate;
use super::symbols::Location;
use super::timer::Timer;

/// The name of the location of operations.
const LOCATION: &CStr = c"NCCL operations";
/// Its location group. A process can have several GPUs, and the one that an operation ran on is not known here.
const GROUP: &CStr = c"NCCL";

/// The handles that calls and operations use.
#[derive(Debug)]
pub(super) struct Setup {
    /// With the internal functions.
    pub(super) internal: Option<Definitions>,
    /// With the user adapter: a handle for each region of a call.
    handles: [AtomicPtr<c_void>; CALLS],
}

/// The definitions made by the internal functions.
#[derive(Debug)]
pub(super) struct Definitions {
    calls: [u32; CALLS],
    operations: [u32; Function::NUMBER],
    attributes: [u32; ATTRIBUTES.len()],
    algorithms: [u32; ALGORITHMS.len()],
    timings: [u32; TIMINGS.len()],
    /// The location of operations.
    pub(super) location: OwnLocation,
    /// Absent if Score-P's clock is unknown.
    pub(super) timer: Option<Timer>,
}

/// The location that the plugin made. Score-P keeps it until its measurement is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnLocation(*mut Location);

// SAFETY: only passed to Score-P, by the thread that holds the drain.
unsafe impl Send for OwnLocation {}
// SAFETY: as above.
unsafe impl Sync for OwnLocation {}

impl OwnLocation {
    pub(super) const fn get(self) -> *mut Location {
        self.0
    }
}

impl Setup {
    /// Makes the definitions; Score-P calls `at_end` at the end of its measurement.
    pub(super) fn new(measured: &Measured<'_>, at_end: extern "C" fn() -> c_int) -> Self {
        let internal = measured.internal().map(|functions| Definitions::new(&functions));
        if internal.is_some() {
            register_end(measured, at_end);
        }
        Self { internal, handles: [const { AtomicPtr::new(ptr::null_mut()) }; CALLS] }
    }

    /// The user adapter's handle and the name of a region.
    pub(super) fn user(&self, region: CallRegion) -> (&AtomicPtr<c_void>, &'static CStr) {
        static SPARE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let index = region.index();
        let name = regions::calls().nth(index).map_or(c"NCCL", |(name, _)| name);
        (self.handles.get(index).unwrap_or(&SPARE), name)
    }
}

impl Definitions {
    fn new(functions: &Functions<'_>) -> Self {
        let file = functions.new_source_file(c"NCCL");
        let mut calls = regions::calls();
        let mut operations = regions::operations();
        let region = |next: Option<(&CStr, c_int)>| {
            let (name, role) = next.unwrap_or((c"NCCL", 0));
            functions.new_region(name, file, regions::PARADIGM, role)
        };
        let group = functions.new_accelerator_group(GROUP);
        let location = functions.new_location(LOCATION, regions::PARADIGM, group);
        Self {
            calls: std::array::from_fn(|_| region(calls.next())),
            operations: std::array::from_fn(|_| region(operations.next())),
            attributes: ATTRIBUTES.map(|(name, about, kind)| functions.new_attribute(name, about, kind)),
            algorithms: ALGORITHMS.map(|name| functions.new_string(name)),
            timings: TIMINGS.map(|name| functions.new_string(name)),
            location: OwnLocation(location),
            timer: Timer::of(functions.last_timestamp()),
        }
    }

    pub(super) fn call(&self, region: CallRegion) -> u32 {
        self.calls.get(region.index()).copied().unwrap_or(0)
    }

    pub(super) fn operation(&self, function: Function) -> u32 {
        self.operations.get(function.index()).copied().unwrap_or(0)
    }

    pub(super) fn attribute(&self, attribute: Attribute) -> u32 {
        self.attributes.get(attribute as usize).copied().unwrap_or(0)
    }

    pub(super) fn algorithm(&self, index: usize) -> Option<u32> {
        self.algorithms.get(index).copied()
    }

    pub(super) fn timing(&self, timing: Timing) -> u32 {
        self.timings.get(timing as usize).copied().unwrap_or(0)
    }
}

/// Registers `at_end` with Score-P, unless it calls the substrate plugin at the end anyway.
fn register_end(measured: &Measured<'_>, at_end: extern "C" fn() -> c_int) {
    if substrate::is_active() {
        return;
    }
    if let Some(at_exit) = measured.presence().at_exit {
        // SAFETY: `measured` proves that the call is allowed. No other callback is registered (`free_exit_callback`),
        // and this runs once in a process; the function stays mapped (`-z nodelete`) and does not unwind.
        unsafe { (at_exit.register)(at_end) };
    }
}
