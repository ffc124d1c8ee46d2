//! Permission to call Score-P, on a thread that Score-P knows, while it measures; the calls that need it; and Score-P's
//! clock.

use std::ffi::{CStr, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::scorep::presence::{Capability, Count, ScorePState};
use crate::scorep::substrate::{Inside, Internal, Location, User};
use journal::clock::{ClockPair, TickSource};
use journal::uninterrupted::NotCancelled;
use journal::{clock, host};

const WITHIN: i32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Score-P has not begun, or has ended.
    Phase,
    /// Score-P does not know the calling thread.
    Thread,
    /// This thread is already inside a call of Score-P.
    Inside,
}

impl Refusal {
    pub(super) const fn count(self) -> Count {
        match self {
            Self::Phase => Count::CallsOutside,
            Self::Thread => Count::CallsUnknownThread,
            Self::Inside => Count::CallsNotRecorded,
        }
    }
}

/// Proves that the calling thread may call Score-P while this value lives. Meanwhile Score-P treats the thread as
/// inside the measurement system, and records no other events of the thread.
pub(super) struct ScorePAccess<'a> {
    presence: &'a ScorePState,
    inside: Option<InMeasurement>,
    /// Score-P writes its buffers when they are full.
    _not_cancelled: NotCancelled,
    /// Makes the type neither `Send` nor `Sync`.
    not_send: PhantomData<*const ()>,
}

impl<'a> ScorePAccess<'a> {
    pub(super) fn here(presence: &'a ScorePState) -> Result<Self, Refusal> {
        if presence.phase.get() != WITHIN {
            return Err(Refusal::Phase);
        }
        if !is_known(presence) {
            return Err(Refusal::Thread);
        }
        let inside = presence.inside.map(InMeasurement::for_this_thread);
        if inside.as_ref().is_some_and(InMeasurement::is_deep) {
            return Err(Refusal::Inside);
        }
        Ok(Self::with(presence, inside))
    }

    /// For the callback at the end of the measurement, when Score-P's phase is already over.
    pub(super) fn at_end(presence: &'a ScorePState) -> Option<Self> {
        let inside = presence.inside.map(InMeasurement::for_this_thread);
        is_known(presence).then(|| Self::with(presence, inside))
    }

    fn with(presence: &'a ScorePState, inside: Option<InMeasurement>) -> Self {
        if let Some(inside) = &inside {
            inside.change(1);
        }
        Self { presence, inside, _not_cancelled: NotCancelled::new(), not_send: PhantomData }
    }

    pub(super) fn is_recording(&self) -> bool {
        self.presence.recording.is_none_or(|recording| {
            // SAFETY: reads a flag; `self` proves that Score-P measures.
            unsafe { (recording.is_enabled)() }
        })
    }

    pub(super) const fn capability(&self) -> &Capability {
        &self.presence.capability
    }

    pub(super) const fn presence(&self) -> &ScorePState {
        self.presence
    }
}

impl Drop for ScorePAccess<'_> {
    fn drop(&mut self) {
        if let Some(inside) = &self.inside {
            inside.change(-1);
        }
    }
}

/// Whether Score-P knows the calling thread. The check does not make the thread known.
fn is_known(presence: &ScorePState) -> bool {
    match presence.threads {
        // SAFETY: reads a variable of the calling thread and has no side effects.
        Some(threads) => unsafe { !(threads.private_data)().is_null() },
        None => is_main_thread(),
    }
}

fn is_main_thread() -> bool {
    host::thread_id() == std::process::id()
}

struct InMeasurement(*mut c_int);

impl InMeasurement {
    fn for_this_thread(inside: Inside) -> Self {
        // SAFETY: returns the address of a variable of the calling thread.
        Self(unsafe { (inside.depth)() })
    }

    fn depth(&self) -> c_int {
        // SAFETY: a variable of this thread, which lives as long as `self`: `ScorePAccess` never leaves the thread.
        unsafe { self.0.read_volatile() }
    }

    fn is_deep(&self) -> bool {
        self.depth() > 0
    }

    fn change(&self, by: c_int) {
        let depth = self.depth() + by;
        // SAFETY: as for `depth`; only this thread writes the variable.
        unsafe { self.0.write_volatile(depth) };
    }
}

/// Types that Score-P reads through a pointer: a number for a UINT64 attribute, a handle for a STRING attribute.
pub(super) trait Value {}
impl Value for u64 {}
impl Value for u32 {}

/// The functions of Score-P 8 and later, with permission to call them.
pub(super) struct Functions<'a> {
    internal: &'a Internal,
    presence: &'a ScorePState,
}

impl ScorePAccess<'_> {
    /// The internal functions, if this Score-P is 8.0 or later.
    pub(super) const fn internal(&self) -> Option<Functions<'_>> {
        match self.capability() {
            Capability::Internal(internal) => Some(Functions { internal, presence: self.presence }),
            Capability::User(_) => None,
        }
    }

    /// Enters a region of the user adapter, which stores the region's handle in `handle`.
    pub(super) fn user_begin(&self, user: &User, handle: &AtomicPtr<c_void>, name: &CStr) {
        // SAFETY: `self` proves permission. The handle is NULL or was stored there by this function; Score-P changes it
        // under its own lock. Names are static; no file is passed.
        unsafe {
            (user.begin)(handle.as_ptr(), ptr::null_mut(), ptr::null_mut(), name.as_ptr(), 0, c"NCCL".as_ptr(), 0);
        }
    }

    pub(super) fn user_end(&self, user: &User, handle: &AtomicPtr<c_void>) {
        let handle = handle.load(Ordering::Acquire);
        if !handle.is_null() {
            // SAFETY: `self` proves permission; `begin` stored the handle, and the region was entered.
            unsafe { (user.end)(handle) };
        }
    }
}

impl Functions<'_> {
    pub(super) fn enter(&self, region: u32) {
        // SAFETY: the `ScorePAccess` behind `self` proves permission; `new_region` returned the region.
        unsafe { (self.internal.enter)(region) }
    }

    pub(super) fn exit(&self, region: u32) {
        // SAFETY: as for `enter`; this region is the last one that the thread entered (`bridge`).
        unsafe { (self.internal.exit)(region) }
    }

    pub(super) fn location_enter(&self, location: *mut Location, ticks: u64, region: u32) {
        // SAFETY: as for `enter`; the plugin's location, to which only the holder of the drain writes, in time order.
        unsafe { (self.internal.location_enter)(location, ticks, region) }
    }

    pub(super) fn location_exit(&self, location: *mut Location, ticks: u64, region: u32) {
        // SAFETY: as for `location_enter`, which entered this region just before.
        unsafe { (self.internal.location_exit)(location, ticks, region) }
    }

    /// Adds a number to the next region that this thread enters.
    pub(super) fn add_number(&self, attribute: u32, value: u64) {
        // SAFETY: permission as above; Score-P reads a UINT64 attribute through a pointer to a `u64`.
        unsafe { (self.internal.add_attribute)(attribute, (&raw const value).cast()) }
    }

    /// Adds an attribute to a location's next region: a number, or the handle of a string that Score-P knows.
    pub(super) fn location_add<T: Value>(&self, location: *mut Location, attribute: u32, value: T) {
        // SAFETY: as for `add_number`; the plugin made the location.
        unsafe { (self.internal.location_add_attribute)(location, attribute, (&raw const value).cast()) }
    }

    pub(super) fn new_source_file(&self, name: &CStr) -> u32 {
        // SAFETY: permission as above; Score-P copies the name.
        unsafe { (self.internal.new_source_file)(name.as_ptr()) }
    }

    /// Defines a region. Regions with the same name are distinct if their canonical names differ.
    pub(super) fn new_region(&self, name: &CStr, canonical: &CStr, file: u32, paradigm: c_int, role: c_int) -> u32 {
        // SAFETY: permission as above; Score-P copies the names; 0 means no line.
        unsafe { (self.internal.new_region)(name.as_ptr(), canonical.as_ptr(), file, 0, 0, paradigm, role) }
    }

    pub(super) fn is_excluded(&self, file: &CStr, name: &CStr, canonical: &CStr) -> bool {
        self.presence.filter.is_some_and(|filter| {
            // SAFETY: permission as above; Score-P only reads the names.
            unsafe { (filter.excludes)(file.as_ptr(), name.as_ptr(), canonical.as_ptr()) }
        })
    }

    /// Defines a metric for threads' locations; `None` if Score-P lacks the functions.
    pub(super) fn new_metric(&self, name: &CStr, about: &CStr, unit: &CStr) -> Option<u32> {
        const USER: c_int = 2;
        const ABSOLUTE_POINT: c_int = 4;
        const UINT64: c_int = 1;
        const DECIMAL: c_int = 1;
        const EXCLUSIVE: c_int = 0;
        const NO_PARENT: u32 = 0;
        const ASYNCHRONOUS: c_int = 2;
        const CPU: c_int = 1;
        let metrics = self.presence.metrics?;
        // SAFETY: permission as above; Score-P copies the texts; its user adapter passes the same numbers.
        let metric = unsafe {
            (metrics.new)(
                name.as_ptr(),
                about.as_ptr(),
                USER,
                ABSOLUTE_POINT,
                UINT64,
                DECIMAL,
                0,
                unit.as_ptr(),
                EXCLUSIVE,
                NO_PARENT,
            )
        };
        // SAFETY: permission as above; Score-P reads one handle, which it returned above.
        Some(unsafe { (metrics.new_sampling_set)(1, &raw const metric, ASYNCHRONOUS, CPU) })
    }

    /// Adds a metric value on the calling thread's location, unless the measurement has just ended.
    pub(super) fn trigger(&self, metric: u32, value: u64) {
        if let Some(metrics) = self.presence.metrics.filter(|_| self.presence.phase.get() == WITHIN) {
            // SAFETY: permission as above, and Score-P still measures; `new_metric` returned the metric.
            unsafe { (metrics.trigger)(metric, value) }
        }
    }

    pub(super) fn new_attribute(&self, name: &CStr, about: &CStr, value_type: c_int) -> u32 {
        // SAFETY: permission as above; Score-P copies both texts.
        unsafe { (self.internal.new_attribute)(name.as_ptr(), about.as_ptr(), value_type) }
    }

    pub(super) fn new_string(&self, text: &CStr) -> u32 {
        // SAFETY: permission as above; Score-P copies the text.
        unsafe { (self.internal.new_string)(text.as_ptr()) }
    }

    pub(super) fn new_accelerator_group(&self, name: &CStr) -> u32 {
        const ACCELERATOR: c_int = 1;
        // SAFETY: permission as above; returns a handle.
        let node = unsafe { (self.internal.node)() };
        // SAFETY: as above.
        let process = unsafe { (self.internal.process)() };
        // SAFETY: permission as above; the handles are Score-P's, and it copies the name.
        unsafe { (self.internal.new_location_group)(name.as_ptr(), node, ACCELERATOR, process) }
    }

    /// Makes a location that is not a thread. Requires a known thread: the memory comes from the caller's location.
    pub(super) fn new_location(&self, name: &CStr, paradigm: c_int, group: u32) -> *mut Location {
        const GPU: c_int = 1;
        let parent = self.current_location();
        // SAFETY: permission as above; the group is Score-P's, and it copies the name.
        unsafe { (self.internal.new_location)(parent, GPU, paradigm, name.as_ptr(), group) }
    }

    fn current_location(&self) -> *mut Location {
        // SAFETY: the thread is known, so it already has a location, and none is created.
        unsafe { (self.internal.current_location)() }
    }

    /// The time of the last event on the calling thread's location; if it has none yet, the start of the measurement.
    pub(super) fn earlier_timestamp(&self) -> u64 {
        let location = self.current_location();
        // SAFETY: reads a number from this thread's location.
        let last = unsafe { (self.internal.last_timestamp)(location) };
        match (last, self.presence.epoch) {
            (0, Some(epoch)) => {
                // SAFETY: reads a number that Score-P stored before its phase became `WITHIN`.
                unsafe { (epoch.begin)() }
            }
            _ => last,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockKind {
    Same,
    /// The processor's counter, while the plugin's ticks come from the system clock.
    Counter,
    RealtimeUs,
    MonotonicRawNs,
}

/// Score-P's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    kind: ClockKind,
    anchor: Anchor,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Anchor {
    ticks: u64,
    scorep: u64,
}

/// Converts ticks to the time of Score-P's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    from: Anchor,
    to: Anchor,
}

impl Timer {
    /// Finds the clock by an earlier timestamp: among the clocks that are later now, the closest one. The clocks start
    /// at different events or have different units, so they differ by far more than the time since the timestamp.
    pub(super) fn find(last_timestamp: u64) -> Option<Self> {
        let pair = ClockPair::read();
        let mut candidates =
            vec![(ClockKind::RealtimeUs, pair.realtime_ns / 1000), (ClockKind::MonotonicRawNs, pair.monotonic_raw_ns)];
        match clock::select() {
            TickSource::Monotonic => candidates.extend(clock::processor_counter().map(|now| (ClockKind::Counter, now))),
            TickSource::Tsc | TickSource::Cntvct => candidates.push((ClockKind::Same, pair.ticks)),
        }
        let later = candidates.into_iter().filter(|(_, now)| *now >= last_timestamp);
        let (kind, scorep) = later
            .filter(|(_, now)| last_timestamp > 0 && now - last_timestamp < MOST_TICKS)
            .min_by_key(|(_, now)| now - last_timestamp)?;
        let anchor = Anchor { ticks: pair.ticks, scorep };
        Some(Self { kind, anchor })
    }

    pub(super) fn until_now(&self) -> Conversion {
        Conversion { from: self.anchor, to: self.now() }
    }

    fn now(&self) -> Anchor {
        let pair = ClockPair::read();
        let scorep = match self.kind {
            ClockKind::Same => pair.ticks,
            ClockKind::Counter => clock::processor_counter().unwrap_or(self.anchor.scorep),
            ClockKind::RealtimeUs => pair.realtime_ns / 1000,
            ClockKind::MonotonicRawNs => pair.monotonic_raw_ns,
        };
        Anchor { ticks: pair.ticks, scorep }
    }
}

/// More ticks than any measurement lasts: one day of the fastest counter.
const MOST_TICKS: u64 = 86_400 * 10_000_000_000;

impl Conversion {
    pub(super) fn scorep_time(&self, ticks: u64) -> u64 {
        let (from, to) = (self.from, self.to);
        let length = i128::from(to.ticks) - i128::from(from.ticks);
        let since = i128::from(ticks) - i128::from(from.ticks);
        let rise = i128::from(to.scorep) - i128::from(from.scorep);
        // Right after the setup there is no rate yet.
        let passed = since.saturating_mul(rise).checked_div(length).unwrap_or(0);
        // Times before the clock's zero are clamped to zero.
        u64::try_from(i128::from(from.scorep) + passed).unwrap_or(0)
    }
}
