//! What Score-P gives us, asked for once: regions, attributes, the location for operations, its clock.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::AtomicPtr;

use super::at_end_of_measurement;
use super::guard::{Functions, Location, Measured};
use super::regions::{
    self, ALGORITHMS, ATTRIBUTES, Attribute, CALLS, CallRegion, Function, TIMINGS, Timing,
};
use super::timer::Timer;

/// The row's name.
const LOCATION: &CStr = c"NCCL operations";
/// The group that the row is in: a process can have several GPUs, and which one an operation ran on is not known here.
const GROUP: &CStr = c"NCCL";

/// Everything that calls and operations refer to.
#[derive(Debug)]
pub(super) struct Ready {
    /// Where the internal functions are used.
    pub(super) internal: Option<Made>,
    /// Where the user adapter is: a handle for each region of a call.
    handles: [AtomicPtr<c_void>; CALLS],
}

/// What the internal functions made.
#[derive(Debug)]
pub(super) struct Made {
    calls: [u32; CALLS],
    operations: [u32; Function::NUMBER],
    attributes: [u32; ATTRIBUTES.len()],
    algorithms: [u32; ALGORITHMS.len()],
    timings: [u32; TIMINGS.len()],
    /// The row of operations.
    pub(super) location: OwnLocation,
    /// Absent where the clock is none that we know.
    pub(super) timer: Option<Timer>,
}

/// The location that we made: Score-P's memory, which stays until its measurement is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnLocation(*mut Location);

// SAFETY: only handed to Score-P, by who holds the drain.
unsafe impl Send for OwnLocation {}
// SAFETY: as above.
unsafe impl Sync for OwnLocation {}

impl OwnLocation {
    pub(super) const fn get(self) -> *mut Location {
        self.0
    }
}

impl Ready {
    pub(super) fn new(measured: &Measured<'_>) -> Self {
        let internal = measured.internal().map(|functions| Made::new(&functions));
        if internal.is_some() {
            ask_for_the_end(measured);
        }
        Self {
            internal,
            handles: [const { AtomicPtr::new(ptr::null_mut()) }; CALLS],
        }
    }

    /// The user adapter's handle and the name of a region.
    pub(super) fn user(&self, region: CallRegion) -> (&AtomicPtr<c_void>, &'static CStr) {
        static SPARE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
        let place = region.place();
        let name = regions::calls()
            .nth(place)
            .map_or(c"NCCL", |(name, _)| name);
        (self.handles.get(place).unwrap_or(&SPARE), name)
    }
}

impl Made {
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
            attributes: ATTRIBUTES
                .map(|(name, about, kind)| functions.new_attribute(name, about, kind)),
            algorithms: ALGORITHMS.map(|name| functions.new_string(name)),
            timings: TIMINGS.map(|name| functions.new_string(name)),
            location: OwnLocation(location),
            timer: Timer::of(functions.last_timestamp()),
        }
    }

    pub(super) fn call(&self, region: CallRegion) -> u32 {
        self.calls.get(region.place()).copied().unwrap_or(0)
    }

    pub(super) fn operation(&self, function: Function) -> u32 {
        self.operations.get(function.place()).copied().unwrap_or(0)
    }

    pub(super) fn attribute(&self, attribute: Attribute) -> u32 {
        self.attributes
            .get(attribute as usize)
            .copied()
            .unwrap_or(0)
    }

    pub(super) fn algorithm(&self, place: usize) -> Option<u32> {
        self.algorithms.get(place).copied()
    }

    pub(super) fn timing(&self, timing: Timing) -> u32 {
        self.timings.get(timing as usize).copied().unwrap_or(0)
    }
}

/// Lets Score-P call us at its end, unless it does so for the substrate plugin anyway.
fn ask_for_the_end(measured: &Measured<'_>) {
    if super::substrate::is_active() {
        return;
    }
    if let Some(at_exit) = measured.presence().at_exit {
        // SAFETY: leave is proven by `measured`. The place is free (`free_exit_callback`) and this runs once a process;
        // the function stays mapped (`-z nodelete`) and does not unwind.
        unsafe { (at_exit.register)(end_of_measurement) };
    }
}

extern "C" fn end_of_measurement() -> c_int {
    // A panic must not get into Score-P.
    let _caught = std::panic::catch_unwind(at_end_of_measurement);
    0
}
