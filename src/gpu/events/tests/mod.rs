//! Tests the backend with a double of the driver. `tests/gpu` has whole jobs.

use std::collections::BTreeMap;

use super::*;
use crate::gpu::driver::CudaContext;
use crate::gpu::events::tests::driver_double::{CONTEXT, STREAM, double, driver};
use nccl_events::gpu::{Backend as BackendKind, ClockSample, GpuCount, GpuRecord, LaunchTime};
use nccl_events::ids::ProcessTag;
use nccl_events::{Kind, Name};

mod driver_double;

/// Collects the backend's records.
#[derive(Default)]
struct Recorded {
    launches: BTreeMap<u64, LaunchTime>,
    samples: Vec<ClockSample>,
    counts: BTreeMap<GpuCount, u64>,
    faults: Vec<(BackendKind, String)>,
}

impl Output for Recorded {
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

    fn notice(&mut self, backend: BackendKind, text: &str) {
        panic!("{backend:?}: {text}");
    }

    fn fault(&mut self, backend: BackendKind, text: &str) {
        self.faults.push((backend, text.to_owned()));
    }
}

const DEVICE: DeviceContext = DeviceContext { context: CudaContext(CONTEXT), ordinal: 3 };

/// The backend with one communicator.
fn begun(recorded: &mut Recorded) -> Events {
    let events = Events::new(driver());
    events.communicator_begins(7, DEVICE, recorded);
    events
}

fn id(sequence: u64) -> EventId {
    EventId::new(ProcessTag::new(9), 1, sequence, Kind::KernelLaunch)
}

fn begin(events: &Events, sequence: u64) {
    events.begins(Launch { id: id(sequence), stream: STREAM });
}

fn launch(events: &Events, sequence: u64, lasts_ns: i64) {
    begin(events, sequence);
    double(|double| double.now_ns += lasts_ns);
    events.ends(id(sequence));
}

fn soon() -> Instant {
    Instant::now() + Duration::from_millis(20)
}

#[test]
fn a_launch_has_its_time_on_the_devices_clock() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    let first_ns = recorded.samples.first().expect("a first reference").gpu_ns;
    assert_eq!(first_ns, 0, "the clock counts from the first reference");
    let begin_ns = double(|double| double.now_ns);
    let mut expected = BTreeMap::new();
    for sequence in 1..=100 {
        // Some launches lie long before the next reference.
        double(|double| double.now_ns += 7_300_111);
        let start_ns = double(|double| double.now_ns) - begin_ns;
        let lasts_ns = 20_000 + i64::try_from(sequence).unwrap() * 37;
        launch(&events, sequence, lasts_ns);
        expected.insert(id(sequence).get(), (start_ns, lasts_ns));
    }
    events.collect(&mut recorded);
    assert_eq!(recorded.launches.len(), 100);
    for (id, (start_ns, lasts_ns)) in expected {
        let time = recorded.launches[&id];
        let off_ns = time.start_ns.abs_diff(u64::try_from(start_ns).unwrap());
        assert!(off_ns <= u64::from(time.uncertainty_ns), "{off_ns}: {time:?}");
        assert!(time.uncertainty_ns < 600, "{time:?}");
        let off_ns = (time.end_ns - time.start_ns).abs_diff(u64::try_from(lasts_ns).unwrap());
        assert!(off_ns <= 1, "a duration is told to the nanosecond: {off_ns}");
        assert_eq!((time.ordinal, time.stream), (3, STREAM));
    }
    events.finish(&mut recorded, soon());
    assert_eq!(recorded.counts.get(&GpuCount::Launches), Some(&100));
    assert_eq!(recorded.counts[&GpuCount::Unfinished], 0);
    assert!(recorded.faults.is_empty(), "{:?}", recorded.faults);
}

#[test]
fn times_are_measured_from_the_nearest_reference() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    launch(&events, 1, 1000);
    // The launch is near the first reference, and there are many after it.
    for _ in 0..8 {
        double(|double| double.now_ns += 1_000_000_000);
        events.on_worker(|worker| worker.renew_references(&events.shared, &mut recorded));
    }
    events.collect(&mut recorded);
    let time = recorded.launches[&id(1).get()];
    assert!(time.uncertainty_ns <= 501, "{time:?}");
    assert_eq!((time.start_ns, time.end_ns), (0, 1000));
    let shown: Vec<u64> = recorded.samples.iter().map(|sample| sample.gpu_ns).collect();
    assert!(shown.is_sorted() && shown.len() == 9, "{shown:?}");
    assert!(shown[8].abs_diff(8_000_001_000) < 9 * 40, "{shown:?}");
}

#[test]
fn launches_beyond_the_events_are_counted() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    double(|double| double.is_stuck = true);
    for sequence in 1..=600 {
        launch(&events, sequence, 10);
    }
    // The events ran short, so the pool grows for the next round.
    events.collect(&mut recorded);
    assert_eq!(recorded.counts[&GpuCount::NoEventLeft], 88);
    let queries = double(|double| double.calls["event_query"]);
    assert!(queries < 20, "of what waits in one stream only the first is asked for: {queries}");
    for sequence in 601..=1000 {
        launch(&events, sequence, 10);
    }
    events.finish(&mut recorded, soon());
    assert_eq!(recorded.counts[&GpuCount::NoEventLeft], 88);
    assert_eq!(recorded.counts[&GpuCount::Unfinished], 912);
    assert!(recorded.launches.is_empty());
}

/// All launches of a steady program are timed: the pool's use before a collection decides its growth, not after it.
#[test]
fn steady_launches_get_more_events_before_these_run_out() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    let mut sequence = 0;
    for round in 0..8 {
        for _ in 0..400 + 100 * round {
            sequence += 1;
            launch(&events, sequence, 10);
        }
        events.collect(&mut recorded);
    }
    assert!(events.pace() < Duration::from_millis(50), "{:?}", events.pace());
    events.finish(&mut recorded, soon());
    assert_eq!(recorded.counts.get(&GpuCount::NoEventLeft), None);
    assert_eq!(recorded.launches.len() as u64, sequence);
}

#[test]
fn an_error_of_the_driver_is_reported_once_and_not_tried_again() {
    for function in ["event_record", "capturing", "event_query", "event_elapsed", "push"] {
        let mut recorded = Recorded::default();
        let events = begun(&mut recorded);
        launch(&events, 1, 10);
        events.collect(&mut recorded);
        double(|double| double.failing.insert(function, 700));
        for sequence in 2..=5 {
            launch(&events, sequence, 10);
            events.collect(&mut recorded);
        }
        let calls = double(|double| double.calls.clone());
        launch(&events, 6, 10);
        events.collect(&mut recorded);
        let more = double(|double| double.calls[function]) - calls[function];
        assert!(more <= usize::from(function == "capturing"), "{function}");
        events.communicator_begins(8, DEVICE, &mut recorded);
        events.finish(&mut recorded, soon());
        assert!(
            matches!(&recorded.faults[..], [(_, text)] | [(_, text), _] if text.contains("700")),
            "{function}: {:?}",
            recorded.faults
        );
        let not_timed: u64 =
            [GpuCount::Refused, GpuCount::Unfinished].iter().filter_map(|count| recorded.counts.get(count)).sum();
        assert_eq!(recorded.counts[&GpuCount::Launches], 6, "{function}");
        assert_eq!(u64::try_from(recorded.launches.len()).unwrap() + not_timed, 6, "{function}");
        double(|double| double.failing.clear());
    }
}

#[test]
fn nothing_is_called_once_the_driver_has_shut_down() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    launch(&events, 1, 10);
    double(|double| {
        for function in ["push", "event_query", "event_record", "capturing", "current"] {
            double.failing.insert(function, 4);
        }
    });
    events.collect(&mut recorded);
    let calls = double(|double| double.calls.clone());
    launch(&events, 2, 10);
    events.collect(&mut recorded);
    events.communicator_ends(7, &mut recorded, soon());
    events.finish(&mut recorded, soon());
    assert_eq!(double(|double| double.calls.clone()), calls);
    assert!(recorded.faults.is_empty(), "an exit is no fault: {:?}", recorded.faults);
    assert_eq!(recorded.counts[&GpuCount::Launches], 2);
}

#[test]
fn nothing_is_touched_in_a_context_that_is_gone() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    launch(&events, 1, 10);
    double(|double| double.primary_is_gone = true);
    let before = double(|double| double.calls.clone());
    events.collect(&mut recorded);
    events.communicator_ends(7, &mut recorded, soon());
    events.finish(&mut recorded, soon());
    let after = double(|double| double.calls.clone());
    for function in ["push", "event_query", "event_destroy", "stream_destroy"] {
        assert_eq!(before.get(function), after.get(function), "{function}");
    }
    assert!(
        matches!(&recorded.faults[..], [(BackendKind::Off, text)] if text.contains("reset")),
        "{:?}",
        recorded.faults
    );
}

#[test]
fn everything_is_destroyed_with_the_last_communicator() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    events.communicator_begins(8, DEVICE, &mut recorded);
    launch(&events, 1, 10);
    events.communicator_ends(7, &mut recorded, soon());
    assert_eq!(double(|double| double.destroyed), 0, "one uses it still");
    let shown_ns = recorded.samples.last().unwrap().gpu_ns;
    launch(&events, 2, 10);
    events.communicator_ends(8, &mut recorded, soon());
    assert_eq!(recorded.launches.len(), 2);
    assert_eq!(double(|double| double.events.len()), 0, "all events");
    assert_eq!(double(|double| double.calls["stream_destroy"]), 1);
    // The same device in a newly created context, whose events cannot be compared with the earlier ones.
    let again = DeviceContext { context: CudaContext(0xc1), ..DEVICE };
    double(|double| {
        double.current = 0xc1;
        double.now_ns = 5;
    });
    events.communicator_begins(9, again, &mut recorded);
    launch(&events, 3, 10);
    events.communicator_ends(9, &mut recorded, soon());
    assert_eq!(recorded.launches.len(), 3);
    assert!(recorded.launches[&id(3).get()].start_ns > shown_ns, "the clock goes on");
    events.finish(&mut recorded, soon());
    assert!(recorded.counts[&GpuCount::Unfinished] == 0);
}

#[test]
fn a_launch_that_ends_on_another_thread_is_not_timed() {
    let mut recorded = Recorded::default();
    let events = begun(&mut recorded);
    begin(&events, 1);
    let records = double(|double| double.calls["event_record"]);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            events.ends(id(1));
            double(|double| double.calls.len())
        });
        assert_eq!(other.join().unwrap(), 0, "the driver is not called there");
    });
    assert_eq!(double(|double| double.calls["event_record"]), records);
    events.finish(&mut recorded, soon());
    assert_eq!(recorded.counts[&GpuCount::Unfinished], 1);
}

#[test]
fn cuda_threads_call_nothing() {
    let events = begun(&mut Recorded::default());
    let builder = std::thread::Builder::new().name("cuda-EvtHandlr".to_owned());
    std::thread::scope(|scope| {
        let cudas = builder
            .spawn_scoped(scope, || {
                launch(&events, 1, 10);
                double(|double| double.calls.len())
            })
            .unwrap();
        assert_eq!(cudas.join().unwrap(), 0);
    });
    let mut recorded = Recorded::default();
    events.finish(&mut recorded, soon());
    assert_eq!(recorded.counts[&GpuCount::OnCallbackThread], 1);
}
