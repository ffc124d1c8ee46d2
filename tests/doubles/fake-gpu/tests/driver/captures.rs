//! What a capture forbids, and what becomes of it if somebody does it all the same.

use crate::rig::{Cuda, call, scenario};

const NONE: i32 = 0;
const ACTIVE: i32 = 1;
const INVALIDATED: i32 = 2;

const GLOBAL: i32 = 0;
const RELAXED: i32 = 2;

#[test]
fn a_capture_can_be_seen() {
    scenario("captures::a_capture_can_be_seen", &[], || {
        let cuda = Cuda::driver();
        let stream = cuda.stream();
        assert_eq!(cuda.capture_status(stream), NONE);
        cuda.begin_capture(stream, RELAXED);
        assert_eq!(cuda.capture_status(stream), ACTIVE);
        let (mut status, mut id) = (-1, 0_u64);
        let (mut graph, mut dependencies, mut count) = (0_usize, 0_usize, 9_usize);
        let code = call!(cuda, "cuStreamGetCaptureInfo_v2",
            (usize, *mut i32, *mut u64, *mut usize, *mut usize, *mut usize) -> i32,
            stream, &raw mut status, &raw mut id, &raw mut graph, &raw mut dependencies, &raw mut count);
        assert_eq!((code, status), (0, ACTIVE));
        assert!(id > 0 && graph > 0);
        let mut short_id = 0_u64;
        let code = call!(cuda, "cuStreamGetCaptureInfo", (usize, *mut i32, *mut u64) -> i32,
                         stream, &raw mut status, &raw mut short_id);
        assert_eq!((code, short_id), (0, id));
        assert_eq!(cuda.end_capture(stream), 0);
        assert_eq!(cuda.capture_status(stream), NONE);
    });
}

#[test]
fn an_event_recorded_in_a_capture_cannot_be_asked() {
    scenario(
        "captures::an_event_recorded_in_a_capture_cannot_be_asked",
        &[],
        || {
            let cuda = Cuda::driver();
            let stream = cuda.stream();
            let (_, event) = cuda.event(0);
            cuda.begin_capture(stream, RELAXED);
            assert_eq!(cuda.record(event, stream), 0);
            assert_eq!(
                (cuda.query(event), cuda.elapsed(event, event).0),
                (907, 907)
            );
            assert_eq!(cuda.count(c"recorded_in_capture"), 1);
            assert_eq!(cuda.end_capture(stream), 0);
        },
    );
}

#[test]
fn recording_can_spoil_a_capture() {
    let variables = [("FAKEGPU_EVENTS", "spoil-captures")];
    scenario(
        "captures::recording_can_spoil_a_capture",
        &variables,
        || {
            let cuda = Cuda::driver();
            let (stream, other) = (cuda.stream(), cuda.stream());
            let (_, event) = cuda.event(0);
            cuda.begin_capture(stream, RELAXED);
            assert_eq!(cuda.record(event, other), 0, "elsewhere it does no harm");
            assert_eq!(cuda.record(event, stream), 900);
            assert_eq!(cuda.capture_status(stream), INVALIDATED);
            assert_eq!(cuda.end_capture(stream), 901);
            assert_eq!(cuda.count(c"spoiled_captures"), 1);
            // The next one is whole.
            cuda.begin_capture(stream, RELAXED);
            assert_eq!(cuda.end_capture(stream), 0);
        },
    );
}

/// What another thread gets that asks for an event, and what becomes of the capture.
fn asked_meanwhile(mode_of_capture: i32, mode_of_thread: i32) -> (i32, i32) {
    let cuda = Cuda::driver();
    let (stream, other) = (cuda.stream(), cuda.stream());
    let (_, event) = cuda.event(0);
    assert_eq!(cuda.record(event, other), 0);
    cuda.begin_capture(stream, mode_of_capture);
    let asked = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            assert_eq!(
                cuda.exchange_mode(mode_of_thread),
                GLOBAL,
                "every thread begins so"
            );
            let asked = cuda.query(event);
            assert_eq!(cuda.exchange_mode(GLOBAL), mode_of_thread);
            asked
        });
        asking.join().expect("the thread ends well")
    });
    (asked, cuda.end_capture(stream))
}

#[test]
fn a_global_capture_forbids_other_threads_to_ask() {
    let name = "captures::a_global_capture_forbids_other_threads_to_ask";
    scenario(name, &[], || {
        assert_eq!(asked_meanwhile(GLOBAL, GLOBAL), (900, 901));
        assert_eq!(asked_meanwhile(GLOBAL, RELAXED), (0, 0));
        assert_eq!(asked_meanwhile(GLOBAL, 1), (0, 0));
        assert_eq!(asked_meanwhile(RELAXED, GLOBAL), (0, 0));
    });
    // As a program that captures less carefully than the one at hand.
    scenario(name, &[("FAKEGPU_CAPTURE_MODE", "global")], || {
        assert_eq!(asked_meanwhile(RELAXED, GLOBAL), (900, 901));
    });
}

#[test]
fn a_threads_own_capture_forbids_itself() {
    scenario(
        "captures::a_threads_own_capture_forbids_itself",
        &[],
        || {
            let cuda = Cuda::driver();
            let stream = cuda.stream();
            let (_, event) = cuda.event(0);
            cuda.begin_capture(stream, 1);
            assert_eq!(cuda.exchange_mode(1), GLOBAL);
            assert_eq!(cuda.query(event), 900);
            assert_eq!(cuda.end_capture(stream), 901);
        },
    );
}
