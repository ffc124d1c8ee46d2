//! The way with a driver that is played here: on the test's thread, with a clock that the test moves.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_uint};
use std::time::Duration;

use super::*;
use crate::gpu::driver::Functions;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::{ClockSample, GpuRecord, LaunchTime, Way};
use nccl_events::id::ProcessTag;
use nccl_events::{Kind, Name};

/// What the driver is, and what was asked of it.
#[derive(Default)]
struct Played {
    now_ns: i64,
    /// Events by handle: when the device came to them.
    events: BTreeMap<u64, Option<i64>>,
    next: u64,
    capturing: BTreeSet<u64>,
    /// What is refused, by the function's name, and with which code.
    refused: BTreeMap<&'static str, c_int>,
    /// Launches that are not through: their events are not either.
    is_stuck: bool,
    calls: BTreeMap<&'static str, usize>,
    destroyed: usize,
    current: u64,
    primary_is_gone: bool,
}

const CONTEXT: u64 = 0xc0;
const STREAM: u64 = 0x57;

thread_local! {
    static PLAYED: RefCell<Played> = RefCell::new(Played { current: CONTEXT, now_ns: 1_000_000, ..Played::default() });
}

fn played<T>(action: impl FnOnce(&mut Played) -> T) -> T {
    PLAYED.with_borrow_mut(action)
}

fn answer(name: &'static str, action: impl FnOnce(&mut Played) -> c_int) -> c_int {
    played(|played| {
        *played.calls.entry(name).or_default() += 1;
        match played.refused.get(name) {
            Some(code) => *code,
            None => action(played),
        }
    })
}

/// Writes what a function gives back.
fn give<T>(to: *mut T, value: T) -> c_int {
    // SAFETY: the caller is this crate's driver, which gives a place for the value.
    unsafe { to.write(value) };
    0
}

unsafe extern "C" fn current(context: *mut u64) -> c_int {
    answer("current", |played| give(context, played.current))
}
unsafe extern "C" fn push(_context: u64) -> c_int {
    answer("push", |_| 0)
}
unsafe extern "C" fn pop(context: *mut u64) -> c_int {
    answer("pop", |_| give(context, CONTEXT))
}
unsafe extern "C" fn primary(_device: c_int, _flags: *mut c_uint, active: *mut c_int) -> c_int {
    answer("primary", |played| {
        give(active, (!played.primary_is_gone).into())
    })
}
unsafe extern "C" fn capturing(stream: u64, status: *mut c_int) -> c_int {
    answer("capturing", |played| {
        give(status, played.capturing.contains(&stream).into())
    })
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
    answer("event_create", |played| {
        played.next += 1;
        played.events.insert(played.next, None);
        give(event, played.next)
    })
}
unsafe extern "C" fn event_record(event: u64, stream: u64) -> c_int {
    answer("event_record", |played| {
        assert!(
            !played.capturing.contains(&stream),
            "it would be in the graph"
        );
        let is_through = !(played.is_stuck && stream == STREAM);
        let at = is_through.then_some(played.now_ns);
        *played
            .events
            .get_mut(&event)
            .expect("an event that is there") = at;
        0
    })
}
unsafe extern "C" fn event_query(event: u64) -> c_int {
    answer("event_query", |played| match played.events[&event] {
        Some(_) => 0,
        None => 600,
    })
}
unsafe extern "C" fn event_elapsed(elapsed: *mut f32, from: u64, to: u64) -> c_int {
    answer("event_elapsed", |played| {
        let at = |event| played.events[&event].expect("asked for too early");
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            reason = "as the driver does"
        )]
        let ms = ((at(to) - at(from)) as f64 / 1e6) as f32;
        give(elapsed, ms)
    })
}
unsafe extern "C" fn event_destroy(event: u64) -> c_int {
    answer("event_destroy", |played| {
        played
            .events
            .remove(&event)
            .expect("an event that is there");
        played.destroyed += 1;
        0
    })
}

fn driver() -> Driver {
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

/// What the way hands on.
#[derive(Default)]
struct Said {
    launches: BTreeMap<u64, LaunchTime>,
    samples: Vec<ClockSample>,
    counts: BTreeMap<GpuCount, u64>,
    faults: Vec<(Way, String)>,
}

impl Output for Said {
    fn record(&mut self, _ticks: u64, id: u64, record: &GpuRecord<Name<'_>>) {
        match record {
            GpuRecord::LaunchTime(time) => {
                assert_eq!(self.launches.insert(id, *time), None, "twice");
            }
            GpuRecord::Clock(sample) => self.samples.push(*sample),
            other => panic!("{other:?}"),
        }
    }

    fn count(&mut self, count: GpuCount, more: u64) {
        *self.counts.entry(count).or_default() += more;
    }

    fn notice(&mut self, way: Way, text: &str) {
        panic!("{way:?}: {text}");
    }

    fn fault(&mut self, way: Way, text: &str) {
        self.faults.push((way, text.to_owned()));
    }
}

const PLACE: Place = Place {
    context: CudaContext(CONTEXT),
    ordinal: 3,
};

/// The way, with a communicator.
fn begun(said: &mut Said) -> Events {
    let events = Events::new(driver());
    events.communicator_begins(7, PLACE, said);
    events
}

fn id(sequence: u64) -> EventId {
    EventId::new(ProcessTag::new(9), 1, sequence, Kind::KernelLaunch)
}

fn begin(events: &Events, sequence: u64) {
    events.begins(Launch {
        id: id(sequence),
        stream: STREAM,
    });
}

fn launch(events: &Events, sequence: u64, lasts_ns: i64) {
    begin(events, sequence);
    played(|played| played.now_ns += lasts_ns);
    events.ends(id(sequence));
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(20)
}

#[test]
fn a_launch_is_placed_on_the_devices_clock() {
    let mut said = Said::default();
    let events = begun(&mut said);
    let first_ns = said.samples.first().expect("a first reference").gpu_ns;
    assert_eq!(first_ns, 0, "the clock counts from the first reference");
    let begin_ns = played(|played| played.now_ns);
    let mut expected = BTreeMap::new();
    for sequence in 1..=100 {
        // Some lie long before the next reference.
        played(|played| played.now_ns += 7_300_111);
        let start_ns = played(|played| played.now_ns) - begin_ns;
        let lasts_ns = 20_000 + i64::try_from(sequence).unwrap() * 37;
        launch(&events, sequence, lasts_ns);
        expected.insert(id(sequence).get(), (start_ns, lasts_ns));
    }
    events.collect(&mut said);
    assert_eq!(said.launches.len(), 100);
    for (id, (start_ns, lasts_ns)) in expected {
        let time = said.launches[&id];
        let off_ns = time.start_ns.abs_diff(u64::try_from(start_ns).unwrap());
        assert!(
            off_ns <= u64::from(time.uncertainty_ns),
            "{off_ns}: {time:?}"
        );
        assert!(time.uncertainty_ns < 600, "{time:?}");
        let off_ns = (time.end_ns - time.start_ns).abs_diff(u64::try_from(lasts_ns).unwrap());
        assert!(
            off_ns <= 1,
            "a duration is told to the nanosecond: {off_ns}"
        );
        assert_eq!((time.ordinal, time.stream), (3, STREAM));
    }
    events.finish(&mut said, soon());
    assert_eq!(said.counts.get(&GpuCount::Launches), Some(&100));
    assert_eq!(said.counts[&GpuCount::Unfinished], 0);
    assert!(said.faults.is_empty(), "{:?}", said.faults);
}

#[test]
fn the_nearest_reference_is_asked() {
    let mut said = Said::default();
    let events = begun(&mut said);
    launch(&events, 1, 1000);
    // The launch is near the first reference, and there are many after it.
    for _ in 0..8 {
        played(|played| played.now_ns += 1_000_000_000);
        events.on_worker(|worker| worker.renew_references(&events, &mut said));
    }
    events.collect(&mut said);
    let time = said.launches[&id(1).get()];
    assert!(time.uncertainty_ns <= 501, "{time:?}");
    assert_eq!((time.start_ns, time.end_ns), (0, 1000));
    let shown: Vec<u64> = said.samples.iter().map(|sample| sample.gpu_ns).collect();
    assert!(shown.is_sorted() && shown.len() == 9, "{shown:?}");
    assert!(shown[8].abs_diff(8_000_001_000) < 9 * 40, "{shown:?}");
}

#[test]
fn a_captured_launch_gets_no_events() {
    let mut said = Said::default();
    let events = begun(&mut said);
    played(|played| played.capturing.insert(STREAM));
    launch(&events, 1, 10);
    // As the driver says of the legacy default stream while another is captured.
    played(|played| played.capturing.clear());
    played(|played| played.refused.insert("capturing", 906));
    launch(&events, 2, 10);
    played(|played| played.refused.clear());
    launch(&events, 3, 10);
    events.finish(&mut said, soon());
    assert_eq!(
        said.launches.keys().copied().collect::<Vec<_>>(),
        [id(3).get()]
    );
    assert_eq!(said.counts[&GpuCount::Captured], 2);
    assert_eq!(said.counts[&GpuCount::Launches], 3);
    assert!(said.faults.is_empty(), "{:?}", said.faults);
}

#[test]
fn launches_beyond_the_events_are_counted() {
    let mut said = Said::default();
    let events = begun(&mut said);
    played(|played| played.is_stuck = true);
    for sequence in 1..=600 {
        launch(&events, sequence, 10);
    }
    // They run short, so there are more the next time.
    events.collect(&mut said);
    assert_eq!(said.counts[&GpuCount::NoEventLeft], 88);
    let queries = played(|played| played.calls["event_query"]);
    assert!(
        queries < 20,
        "of what waits in one stream only the first is asked for: {queries}"
    );
    for sequence in 601..=1000 {
        launch(&events, sequence, 10);
    }
    events.finish(&mut said, soon());
    assert_eq!(said.counts[&GpuCount::NoEventLeft], 88);
    assert_eq!(said.counts[&GpuCount::Unfinished], 912);
    assert!(said.launches.is_empty());
}

#[test]
fn what_the_driver_refuses_is_said_once_and_not_tried_again() {
    for function in [
        "event_record",
        "capturing",
        "event_query",
        "event_elapsed",
        "push",
    ] {
        let mut said = Said::default();
        let events = begun(&mut said);
        launch(&events, 1, 10);
        events.collect(&mut said);
        played(|played| played.refused.insert(function, 700));
        for sequence in 2..=5 {
            launch(&events, sequence, 10);
            events.collect(&mut said);
        }
        let calls = played(|played| played.calls.clone());
        launch(&events, 6, 10);
        events.collect(&mut said);
        let more = played(|played| played.calls[function]) - calls[function];
        assert!(more <= usize::from(function == "capturing"), "{function}");
        events.communicator_begins(8, PLACE, &mut said);
        events.finish(&mut said, soon());
        assert!(
            matches!(&said.faults[..], [(_, text)] | [(_, text), _] if text.contains("700")),
            "{function}: {:?}",
            said.faults
        );
        let not_timed: u64 = [GpuCount::Refused, GpuCount::Unfinished]
            .iter()
            .filter_map(|count| said.counts.get(count))
            .sum();
        assert_eq!(said.counts[&GpuCount::Launches], 6, "{function}");
        assert_eq!(
            u64::try_from(said.launches.len()).unwrap() + not_timed,
            6,
            "{function}"
        );
        played(|played| played.refused.clear());
    }
}

#[test]
fn nothing_is_called_once_the_driver_has_shut_down() {
    let mut said = Said::default();
    let events = begun(&mut said);
    launch(&events, 1, 10);
    played(|played| {
        for function in [
            "push",
            "event_query",
            "event_record",
            "capturing",
            "current",
        ] {
            played.refused.insert(function, 4);
        }
    });
    events.collect(&mut said);
    let calls = played(|played| played.calls.clone());
    launch(&events, 2, 10);
    events.collect(&mut said);
    events.communicator_ends(7, &mut said, soon());
    events.finish(&mut said, soon());
    assert_eq!(played(|played| played.calls.clone()), calls);
    assert!(
        said.faults.is_empty(),
        "an exit is no fault: {:?}",
        said.faults
    );
    assert_eq!(said.counts[&GpuCount::Launches], 2);
}

#[test]
fn nothing_is_touched_in_a_context_that_is_gone() {
    let mut said = Said::default();
    let events = begun(&mut said);
    launch(&events, 1, 10);
    played(|played| played.primary_is_gone = true);
    let before = played(|played| played.calls.clone());
    events.collect(&mut said);
    events.communicator_ends(7, &mut said, soon());
    events.finish(&mut said, soon());
    let after = played(|played| played.calls.clone());
    for function in ["push", "event_query", "event_destroy", "stream_destroy"] {
        assert_eq!(before.get(function), after.get(function), "{function}");
    }
    assert!(
        matches!(&said.faults[..], [(Way::Off, text)] if text.contains("reset")),
        "{:?}",
        said.faults
    );
}

#[test]
fn all_is_destroyed_with_the_last_communicator() {
    let mut said = Said::default();
    let events = begun(&mut said);
    events.communicator_begins(8, PLACE, &mut said);
    launch(&events, 1, 10);
    events.communicator_ends(7, &mut said, soon());
    assert_eq!(played(|played| played.destroyed), 0, "one uses it still");
    let shown_ns = said.samples.last().unwrap().gpu_ns;
    launch(&events, 2, 10);
    events.communicator_ends(8, &mut said, soon());
    assert_eq!(said.launches.len(), 2);
    assert_eq!(played(|played| played.events.len()), 0, "all events");
    assert_eq!(played(|played| played.calls["stream_destroy"]), 1);
    // The same device in a context that is made anew, whose events know nothing of the earlier ones.
    let again = Place {
        context: CudaContext(0xc1),
        ..PLACE
    };
    played(|played| {
        played.current = 0xc1;
        played.now_ns = 5;
    });
    events.communicator_begins(9, again, &mut said);
    launch(&events, 3, 10);
    events.communicator_ends(9, &mut said, soon());
    assert_eq!(said.launches.len(), 3);
    assert!(
        said.launches[&id(3).get()].start_ns > shown_ns,
        "the clock goes on"
    );
    events.finish(&mut said, soon());
    assert!(said.counts[&GpuCount::Unfinished] == 0);
}

#[test]
fn a_launch_that_ends_on_another_thread_is_left_alone() {
    let mut said = Said::default();
    let events = begun(&mut said);
    begin(&events, 1);
    let records = played(|played| played.calls["event_record"]);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            events.ends(id(1));
            played(|played| played.calls.len())
        });
        assert_eq!(other.join().unwrap(), 0, "the driver is not called there");
    });
    assert_eq!(played(|played| played.calls["event_record"]), records);
    events.finish(&mut said, soon());
    assert_eq!(said.counts[&GpuCount::Unfinished], 1);
}

#[test]
fn cudas_threads_call_nothing() {
    let events = begun(&mut Said::default());
    let builder = std::thread::Builder::new().name("cuda-EvtHandlr".to_owned());
    std::thread::scope(|scope| {
        let cudas = builder
            .spawn_scoped(scope, || {
                launch(&events, 1, 10);
                played(|played| played.calls.len())
            })
            .unwrap();
        assert_eq!(cudas.join().unwrap(), 0);
    });
    let mut said = Said::default();
    events.finish(&mut said, soon());
    assert_eq!(said.counts[&GpuCount::OnCallbackThread], 1);
}

#[test]
fn a_driver_without_events_is_survived() {
    let mut said = Said::default();
    let events = Events::new(Driver::new(Functions::default()));
    events.communicator_begins(7, PLACE, &mut said);
    launch(&events, 1, 10);
    events.collect(&mut said);
    events.communicator_ends(7, &mut said, soon());
    events.finish(&mut said, soon());
    assert!(
        matches!(&said.faults[..], [(Way::Off, text), ..] if text.contains("too old")),
        "{:?}",
        said.faults
    );
    assert_eq!(said.counts[&GpuCount::Refused], 1);
}
