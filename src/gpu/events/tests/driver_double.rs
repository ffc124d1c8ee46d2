//! A double of the driver for one thread, with a clock that the test moves.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_uint};

use crate::gpu::driver::{Driver, Functions};

/// The state of the double, and the calls of its functions.
#[derive(Default)]
pub(crate) struct Double {
    pub(crate) now_ns: i64,
    /// Events by handle, with the time at which the device passed them.
    pub(crate) events: BTreeMap<u64, Option<i64>>,
    pub(crate) next: u64,
    pub(crate) capturing: BTreeSet<u64>,
    /// Functions that fail, with their error codes.
    pub(crate) failing: BTreeMap<&'static str, c_int>,
    /// Launches do not finish, nor do their events.
    pub(crate) is_stuck: bool,
    pub(crate) calls: BTreeMap<&'static str, usize>,
    pub(crate) destroyed: usize,
    pub(crate) current: u64,
    pub(crate) primary_is_gone: bool,
}

pub(crate) const CONTEXT: u64 = 0xc0;
pub(crate) const STREAM: u64 = 0x57;

thread_local! {
    static DOUBLE: RefCell<Double> = RefCell::new(Double { current: CONTEXT, now_ns: 1_000_000, ..Double::default() });
}

pub(crate) fn double<T>(action: impl FnOnce(&mut Double) -> T) -> T {
    DOUBLE.with_borrow_mut(action)
}

fn answer(name: &'static str, action: impl FnOnce(&mut Double) -> c_int) -> c_int {
    double(|double| {
        *double.calls.entry(name).or_default() += 1;
        match double.failing.get(name) {
            Some(code) => *code,
            None => action(double),
        }
    })
}

/// Writes a function's result.
fn give<T>(to: *mut T, value: T) -> c_int {
    // SAFETY: the caller is this crate's driver module, which passes a variable for the value.
    unsafe { to.write(value) };
    0
}

unsafe extern "C" fn current(context: *mut u64) -> c_int {
    answer("current", |double| give(context, double.current))
}
unsafe extern "C" fn push(_context: u64) -> c_int {
    answer("push", |_| 0)
}
unsafe extern "C" fn pop(context: *mut u64) -> c_int {
    answer("pop", |_| give(context, CONTEXT))
}
unsafe extern "C" fn primary(_device: c_int, _flags: *mut c_uint, active: *mut c_int) -> c_int {
    answer("primary", |double| give(active, (!double.primary_is_gone).into()))
}
unsafe extern "C" fn capturing(stream: u64, status: *mut c_int) -> c_int {
    answer("capturing", |double| give(status, double.capturing.contains(&stream).into()))
}
unsafe extern "C" fn stream_create(stream: *mut u64, flags: c_uint) -> c_int {
    assert_eq!(flags, 1, "it must not wait for the legacy default stream");
    answer("stream_create", |_| give(stream, 0x5eed))
}
unsafe extern "C" fn stream_destroy(_stream: u64) -> c_int {
    answer("stream_destroy", |_| 0)
}
unsafe extern "C" fn event_create(event: *mut u64, flags: c_uint) -> c_int {
    assert_eq!(flags, 0, "with times, and nobody blocks");
    answer("event_create", |double| {
        double.next += 1;
        double.events.insert(double.next, None);
        give(event, double.next)
    })
}
unsafe extern "C" fn event_record(event: u64, stream: u64) -> c_int {
    answer("event_record", |double| {
        assert!(!double.capturing.contains(&stream), "it would become part of the graph");
        let is_through = !(double.is_stuck && stream == STREAM);
        let at = is_through.then_some(double.now_ns);
        *double.events.get_mut(&event).expect("an event that is there") = at;
        0
    })
}
unsafe extern "C" fn event_query(event: u64) -> c_int {
    answer("event_query", |double| match double.events[&event] {
        Some(_) => 0,
        None => 600,
    })
}
unsafe extern "C" fn event_elapsed(elapsed: *mut f32, from: u64, to: u64) -> c_int {
    answer("event_elapsed", |double| {
        let at = |event| double.events[&event].expect("asked for too early");
        #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "as the driver does")]
        let ms = ((at(to) - at(from)) as f64 / 1e6) as f32;
        give(elapsed, ms)
    })
}
unsafe extern "C" fn event_destroy(event: u64) -> c_int {
    answer("event_destroy", |double| {
        double.events.remove(&event).expect("an event that is there");
        double.destroyed += 1;
        0
    })
}

pub(crate) fn driver() -> Driver {
    Driver::new(Functions {
        context_current: Some(current),
        context_push: Some(push),
        context_pop: Some(pop),
        primary_state: Some(primary),
        stream_is_capturing: Some(capturing),
        stream_create: Some(stream_create),
        stream_destroy: Some(stream_destroy),
        event_create: Some(event_create),
        event_record: Some(event_record),
        event_query: Some(event_query),
        event_elapsed: Some(event_elapsed),
        event_destroy: Some(event_destroy),
        ..Functions::default()
    })
}
