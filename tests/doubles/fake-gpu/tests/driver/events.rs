//! Events: when they are done, and what lies between them.

use crate::rig::{Cuda, call, scenario};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NOT_READY: i32 = 600;

static GO: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn until_go(_: *mut c_void) {
    while !GO.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_event_is_done_when_its_stream_has_come_to_it() {
    scenario(
        "events::an_event_is_done_when_its_stream_has_come_to_it",
        &[],
        || {
            let cuda = Cuda::driver();
            let stream = cuda.stream();
            let ((_, before), (_, after)) = (cuda.event(0), cuda.event(0));
            assert_eq!(cuda.query(before), 0, "never recorded");
            assert_eq!(cuda.elapsed(before, after).0, 400);
            assert_eq!(cuda.record(before, stream), 0);
            cuda.host(stream, until_go);
            assert_eq!(cuda.record(after, stream), 0);
            let began = Instant::now();
            std::thread::sleep(Duration::from_millis(30));
            assert_eq!((cuda.query(before), cuda.query(after)), (0, NOT_READY));
            assert_eq!(cuda.elapsed(before, after).0, NOT_READY);
            GO.store(true, Ordering::Release);
            assert_eq!(call!(cuda, "cuEventSynchronize", (usize) -> i32, after), 0);
            let longest = began.elapsed().as_secs_f32() * 1e3 + 5.0;
            let (code, milliseconds) = cuda.elapsed(before, after);
            assert_eq!((cuda.query(after), code), (0, 0));
            assert!(
                (29.0..longest + 5.0).contains(&milliseconds),
                "{milliseconds} ms, at most {longest}"
            );
            assert!(
                cuda.elapsed(after, before).1 < -29.0,
                "backwards it is negative"
            );
            assert_eq!(call!(cuda, "cuEventDestroy_v2", (usize) -> i32, after), 0);
            assert_eq!(cuda.query(after), 400);
        },
    );
}

#[test]
fn an_event_without_timing_has_none() {
    scenario("events::an_event_without_timing_has_none", &[], || {
        let cuda = Cuda::driver();
        let stream = cuda.stream();
        let ((_, timed), (_, untimed)) = (cuda.event(0), cuda.event(2));
        assert_eq!(
            (cuda.record(timed, stream), cuda.record(untimed, stream)),
            (0, 0)
        );
        assert_eq!(cuda.elapsed(timed, untimed).0, 400);
        assert_eq!(cuda.elapsed(timed, timed), (0, 0.0));
    });
}

#[test]
fn the_device_has_a_clock_of_its_own() {
    // A tenth faster than the host.
    scenario(
        "events::the_device_has_a_clock_of_its_own",
        &[("FAKEGPU_CLOCK_PPM", "100000")],
        || {
            let cuda = Cuda::driver();
            let stream = cuda.stream();
            let ((_, start), (_, end)) = (cuda.event(0), cuda.event(0));
            let before = Instant::now();
            cuda.record(start, stream);
            let inner = Instant::now();
            std::thread::sleep(Duration::from_millis(200));
            let inner = inner.elapsed().as_secs_f32() * 1e3;
            cuda.record(end, stream);
            let outer = before.elapsed().as_secs_f32() * 1e3;
            let (_, milliseconds) = cuda.elapsed(start, end);
            let range = inner * 1.1 - 0.1..outer * 1.1 + 0.1;
            assert!(
                range.contains(&milliseconds),
                "{milliseconds} ms, not in {range:?}"
            );
        },
    );
}

#[test]
fn events_fail_as_they_are_told() {
    let name = "events::events_fail_as_they_are_told";
    scenario(name, &[("FAKEGPU_EVENTS", "none")], || {
        assert_eq!(Cuda::driver().event(0).0, 2);
    });
    scenario(name, &[("FAKEGPU_EVENTS", "record-fails")], || {
        let cuda = Cuda::driver();
        let (code, event) = cuda.event(0);
        assert_eq!((code, cuda.record(event, cuda.stream())), (0, 999));
    });
    scenario(name, &[("FAKEGPU_EVENTS", "never-done")], || {
        let cuda = Cuda::driver();
        let (_, event) = cuda.event(0);
        assert_eq!(cuda.record(event, cuda.stream()), 0);
        assert_eq!(
            (cuda.query(event), cuda.elapsed(event, event).0),
            (NOT_READY, NOT_READY)
        );
    });
}

#[test]
fn an_event_belongs_to_the_device_of_its_thread() {
    scenario(
        "events::an_event_belongs_to_the_device_of_its_thread",
        &[],
        || {
            let cuda = Cuda::driver();
            let choose =
                |device: i32| assert_eq!(call!(cuda, "cudaSetDevice", (i32) -> i32, device), 0);
            let (stream, (_, event)) = (cuda.stream(), cuda.event(0));
            choose(1);
            let (other_stream, (_, other)) = (cuda.stream(), cuda.event(0));
            assert_eq!(
                (cuda.record(event, other_stream), cuda.record(other, stream)),
                (400, 400)
            );
            assert_eq!(
                (cuda.record(event, stream), cuda.record(other, other_stream)),
                (0, 0)
            );
            assert_eq!(cuda.elapsed(event, other).0, 400);
        },
    );
}
