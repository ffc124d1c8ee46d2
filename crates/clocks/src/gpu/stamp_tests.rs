use crate::gpu::{GpuCalibration, GpuClock, *};
use proptest::prelude::*;

fn bounds(lower: &[StampPair], upper: &[StampPair]) -> StampBounds {
    StampBounds { lower: lower.to_vec(), upper: upper.to_vec(), ..StampBounds::default() }
}

#[test]
fn the_middle_of_the_bounds() {
    // Offsets: −900 and −700 from below, −500 and −400 from above; the stamps are 10 apart. An event can be up to one
    // step of 10 ns after its stamp: the lower bound is −710.
    let clock = bounds(&[(1000, 100), (1010, 310)], &[(1000, 500), (1020, 620)]).clock();
    let quality = &clock.quality;
    assert_eq!(quality.calibration, GpuCalibration::Bounded);
    assert_eq!([1000, 1020].map(|gpu_ns| clock.host_ns(gpu_ns)), [395, 415]);
    assert_eq!((quality.bounds, quality.lines), ((2, 2), 1));
    assert_eq!(quality.residual_ns, 105 + 1 + 10 + ROUNDING_NS);
    assert_eq!(clock.latest_ns(1000), Some(395 + quality.residual_ns));
}

#[test]
fn bounds_that_contradict_leave_the_upper_one() {
    let clock = bounds(&[(1000, 2020)], &[(1000, 500)]).clock();
    assert_eq!(clock.quality.calibration, GpuCalibration::Inconsistent);
    assert_eq!((clock.host_ns(1000), clock.host_ns(100)), (500, 0));
    assert_eq!(clock.quality.residual_ns, 1520);
    assert_eq!(clock.latest_ns(1000), None);
}

#[test]
fn without_launches_there_is_only_the_upper_bound() {
    let clock = bounds(&[], &[(1000, 500), (2000, 1400)]).clock();
    assert_eq!(clock.quality.calibration, GpuCalibration::UpperOnly);
    assert_eq!((clock.host_ns(1000), clock.quality.residual_ns), (400, 0));
    assert_eq!(bounds(&[], &[]).clock(), GpuClock::default());
    assert_eq!(GpuClock::default().host_ns(17), 17);
}

#[test]
fn the_step_of_the_timer_shows_in_the_stamps() {
    assert_eq!(step_ns([5, 37, 101].into_iter()), 32);
    assert_eq!(step_ns([5, 5].into_iter()), COARSEST_STEP_NS);
    assert_eq!(step_ns([5, 4005].into_iter()), COARSEST_STEP_NS);
}

const BEGIN_NS: u64 = 8_993_953_000_000_000;
const GPU_AHEAD_NS: u64 = 1_761_621_481_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A timer that drifts differently in consecutive intervals: length, and how many ns per second it is too fast. The
/// last rate continues.
type Paces = [(u64, i64)];

/// The stamp of an event at this time after the beginning.
fn stamp(paces: &Paces, after_ns: u64, step_ns: u64) -> u64 {
    let mut left = after_ns;
    let mut ahead = 0_i128;
    for (number, &(length, ppb)) in (1..).zip(paces) {
        let here = if number == paces.len() { left } else { left.min(length) };
        ahead += i128::from(here) * i128::from(ppb) / 1_000_000_000;
        left -= here;
    }
    let exact = i128::from(GPU_AHEAD_NS) + i128::from(after_ns) + ahead;
    let exact = u64::try_from(exact).expect("after the epoch");
    exact - exact % step_ns
}

/// Kernels at regular intervals, with delays of launch, run and callback. Returns the bounds, and the stamps with their
/// true host times.
fn run(paces: &Paces, delays: &[(u64, u64, u64)], step_ns: u64) -> (StampBounds, Vec<StampPair>) {
    let length: u64 = paces.iter().map(|pace| pace.0).sum();
    let apart = length / delays.len() as u64;
    let mut known = StampBounds::default();
    let mut stamps = Vec::new();
    for (number, &(launch, ran, reported)) in (0..).zip(delays) {
        let start = number * apart + launch;
        let stop = start + ran;
        let pair = [start, stop].map(|at| (stamp(paces, at, step_ns), BEGIN_NS + at));
        known.not_before(pair[0].0, pair[0].1 - launch);
        known.not_after(pair[0].0, pair[0].1 + reported);
        known.not_after(pair[1].0, pair[1].1 + reported);
        stamps.extend(pair);
    }
    (known, stamps)
}

fn worst(clock: &GpuClock, stamps: &[StampPair]) -> u64 {
    stamps.iter().map(|&(gpu_ns, host_ns)| clock.host_ns(gpu_ns).abs_diff(host_ns)).max().unwrap_or(0)
}

/// Reproducible delays of some µs to some ten µs.
fn delays(number: u64) -> Vec<(u64, u64, u64)> {
    let delay = |seed: u64| 5_000 + seed % 40_000;
    (0..number).map(|at| (delay(at * 7_919), 40_000, delay(at * 104_729))).collect()
}

#[test]
fn a_drift_of_50_ppm_over_ten_minutes_is_found() {
    let (known, stamps) = run(&[(600 * SECOND_NS, 50_000)], &delays(600), 32);
    let clock = known.clock();
    assert_eq!(clock.quality.calibration, GpuCalibration::Bounded);
    let drift_ppb = clock.quality.drift_ppb;
    assert!((-50_100..-49_900).contains(&drift_ppb), "{drift_ppb} ppb");
    // A constant offset would be 30 ms off.
    assert!(clock.quality.residual_ns < 20_000, "{clock:?}");
    assert!(worst(&clock, &stamps) <= clock.quality.residual_ns, "{clock:?}");
}

#[test]
fn a_timer_that_changes_its_pace_bends_there() {
    let paces = [(60 * SECOND_NS, 40_000), (60 * SECOND_NS, -60_000)];
    let (known, stamps) = run(&paces, &delays(600), 32);
    let clock = known.clock();
    assert_eq!(clock.quality.calibration, GpuCalibration::Piecewise);
    // One knot, or two with a short line between them.
    let [first, bends @ .., _] = clock.map.knots() else {
        panic!("{clock:?}");
    };
    assert!((1..=2).contains(&bends.len()), "{clock:?}");
    for bend in bends {
        let after = (bend.0 - first.0).abs_diff(60 * i128::from(SECOND_NS));
        assert!(after < 2 * u128::from(SECOND_NS), "{clock:?}");
    }
    // A straight line would be off by 1.5 ms, a constant by more than twice that.
    assert!(clock.quality.residual_ns < 60_000, "{clock:?}");
    assert!(worst(&clock, &stamps) <= clock.quality.residual_ns, "{clock:?}");
}

#[test]
fn few_lines() {
    for (paces, lines) in [([40_000; 4], 1), ([30_000, -30_000, 30_000, -30_000], 4)] {
        let (known, _) = run(&paces.map(|ppb| (60 * SECOND_NS, ppb)), &delays(1200), 32);
        assert_eq!(known.clock().quality.lines, lines);
    }
}

#[test]
fn what_no_timer_does_is_a_contradiction() {
    let fast = [(60 * SECOND_NS, 300_000), (60 * SECOND_NS, 0)];
    let (too_fast, _) = run(&fast, &delays(600), 32);
    let (mut set, _) = run(&[(SECOND_NS, 0)], &delays(100), 32);
    // Set forward by 5 ms within 1 ms.
    set.not_before(GPU_AHEAD_NS + SECOND_NS, BEGIN_NS + SECOND_NS + 5_000_000);
    for known in [too_fast, set] {
        assert_eq!(known.clock().quality.calibration, GpuCalibration::Inconsistent);
    }
}

proptest! {
    #[test]
    fn the_truth_is_within_the_residual(
        paces in prop::collection::vec((1..120 * SECOND_NS, -150_000..150_000_i64), 1..6),
        step_ns in prop::sample::select(vec![1_u64, 32, 1000, 1024]),
        delays in prop::collection::vec((0..3_000_000_u64, 0..5_000_000_u64, 0..300_000_u64), 1..300),
    ) {
        let (known, stamps) = run(&paces, &delays, step_ns);
        let clock = known.clock();
        let is_bent = match clock.quality.calibration {
            GpuCalibration::Bounded => false,
            GpuCalibration::Piecewise => true,
            _ => return Err(TestCaseError::fail(format!("{clock:?}"))),
        };
        prop_assert_eq!(clock.quality.lines > 1, is_bent);
        // The residual of a line is only valid if the truth is a line.
        let worst = worst(&clock, &stamps);
        let holds = is_bent || paces.len() == 1;
        prop_assert!(!holds || worst <= clock.quality.residual_ns, "{} ns off, {:?}", worst, clock);
        let mut stamps = stamps;
        stamps.sort_unstable();
        prop_assert!(stamps.iter().map(|stamp| clock.host_ns(stamp.0)).is_sorted());
    }
}
