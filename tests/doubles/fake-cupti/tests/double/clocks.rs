//! CUPTI's clock.

use crate::decode::{By, kernels, records};
use crate::rig::{Cupti, call, scenario};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn realtime() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_nanos()).unwrap()
}

fn timestamp(cupti: &Cupti) -> u64 {
    let mut now = 0_u64;
    assert_eq!(
        call!(cupti, "cuptiGetTimestamp", (*mut u64) -> i32, &raw mut now),
        0
    );
    now
}

fn kernel_times(cupti: &Cupti, start: u64, end: u64) -> (u64, u64) {
    cupti.launch(652, "k", 0, (start, end));
    cupti.drain();
    cupti.flush(1);
    let (found, _) = records(cupti, By::V1);
    let kernel = kernels(&found)[0].clone();
    (kernel.start, kernel.end)
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn it_is_the_wall_clock() {
    scenario("clocks::it_is_the_wall_clock", &[], || {
        let cupti = Cupti::open();
        cupti.begin_v1();
        let (before, at, after) = (realtime(), timestamp(&cupti), realtime());
        assert!((before..=after).contains(&at));
        assert_eq!(kernel_times(&cupti, before, after), (before, after));
    });
}

#[test]
fn it_can_count_ticks() {
    scenario(
        "clocks::it_can_count_ticks",
        &[("FAKECUPTI_CLOCK", "foreign")],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            let now = realtime();
            let (start, end) = kernel_times(&cupti, now - SECOND, now);
            assert!(
                (end - start).abs_diff(2_900_000_000) <= 1,
                "{}",
                end - start
            );
            assert!(timestamp(&cupti).abs_diff(now) > SECOND);
        },
    );
}

#[test]
fn another_tools_counter_counts_for_everybody() {
    scenario(
        "clocks::another_tools_counter_counts_for_everybody",
        &[("FAKECUPTI_API", "22")],
        || {
            let cupti = Cupti::open();
            cupti.begin_v1();
            assert_eq!(cupti.other_tool(3), 0);
            // The line needs two readings that are apart.
            std::thread::sleep(Duration::from_millis(50));
            let now = realtime();
            let (start, end) = kernel_times(&cupti, now - 10_000_000, now);
            let rate = (end - start) as f64 / 10e6;
            assert!((rate - 2.9).abs() < 0.03, "{rate} ticks per ns");
        },
    );
}

#[test]
fn it_can_be_stepped() {
    let variables = [
        ("FAKECUPTI_STEP_NS", "-3000000000"),
        ("FAKECUPTI_STEP_AFTER_MS", "100"),
    ];
    scenario("clocks::it_can_be_stepped", &variables, || {
        let before = realtime();
        let cupti = Cupti::open();
        cupti.begin_v1();
        let old = before.saturating_sub(SECOND);
        assert_eq!(kernel_times(&cupti, old, before - 1), (old, before - 1));
        let new = realtime() + SECOND;
        let (start, end) = kernel_times(&cupti, new, new + 5);
        assert_eq!((start, end), (new - 3 * SECOND, new + 5 - 3 * SECOND));
    });
}
