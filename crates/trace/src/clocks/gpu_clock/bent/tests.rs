use proptest::prelude::*;

use super::super::line::Bounds;
use super::super::{GpuCalibration, GpuClock};

const BEGIN_NS: u64 = 8_993_953_000_000_000;
const GPU_AHEAD_NS: u64 = 1_761_621_481_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// A timer that drifts at another pace in each of these times, one after the other: how long, and by how many ns in a
/// second it is too fast.
type Paces = [(u64, i64)];

/// The stamp of something that happens so long after the beginning.
fn stamp(paces: &Paces, after_ns: u64, step_ns: u64) -> u64 {
    let mut left = after_ns;
    let mut ahead = 0_i128;
    for &(length, ppb) in paces {
        let here = left.min(length);
        ahead += i128::from(here) * i128::from(ppb) / 1_000_000_000;
        left -= here;
    }
    let exact = i128::from(GPU_AHEAD_NS) + i128::from(after_ns) + ahead;
    let exact = u64::try_from(exact).expect("after the epoch");
    exact - exact % step_ns
}

/// Kernels all the time: launched, ran and told so long before and after. Gives the bounds and the stamps with their true
/// host times.
fn run(paces: &Paces, delays: &[(u64, u64, u64)], step_ns: u64) -> (Bounds, Vec<(u64, u64)>) {
    let length: u64 = paces.iter().map(|pace| pace.0).sum();
    let apart = length / delays.len() as u64;
    let mut known = Bounds::default();
    let mut stamps = Vec::new();
    for (number, &(launch, ran, told)) in (0..).zip(delays) {
        let start = number * apart + launch;
        let stop = start + ran;
        let pair = [start, stop].map(|at| (stamp(paces, at, step_ns), BEGIN_NS + at));
        known.not_before(pair[0].0, pair[0].1 - launch);
        known.not_after(pair[0].0, pair[0].1 + told);
        known.not_after(pair[1].0, pair[1].1 + told);
        stamps.extend(pair);
    }
    (known, stamps)
}

fn worst(clock: &GpuClock, stamps: &[(u64, u64)]) -> u64 {
    let off = stamps
        .iter()
        .map(|&(gpu_ns, host_ns)| clock.host_ns(gpu_ns).abs_diff(host_ns));
    off.max().unwrap_or(0)
}

/// Regular delays of some µs to some ten µs.
fn delays(number: u64) -> Vec<(u64, u64, u64)> {
    let delay = |seed: u64| 5_000 + seed % 40_000;
    (0..number)
        .map(|at| (delay(at * 7_919), 40_000, delay(at * 104_729)))
        .collect()
}

#[test]
fn a_timer_that_changes_its_pace_once_bends_there() {
    let paces = [(60 * SECOND_NS, 40_000), (60 * SECOND_NS, -60_000)];
    let (known, stamps) = run(&paces, &delays(600), 32);
    let clock = known.clock();
    assert_eq!(clock.calibration, GpuCalibration::Bent);
    // One knot, or two with a short line between them.
    let [first, bends @ .., _] = &clock.knots[..] else {
        panic!("{clock:?}");
    };
    assert!((1..=2).contains(&bends.len()), "{clock:?}");
    for bend in bends {
        let after = bend.gpu_ns - first.gpu_ns;
        assert!(after.abs_diff(60 * SECOND_NS) < 2 * SECOND_NS, "{clock:?}");
    }
    // A straight line would be off by 1.5 ms, a constant by twice that and more.
    assert!(clock.residual_ns < 60_000, "{clock:?}");
    assert!(worst(&clock, &stamps) <= clock.residual_ns, "{clock:?}");
}

#[test]
fn few_lines() {
    let paces = [(60 * SECOND_NS, 40_000); 4];
    let (known, _) = run(&paces, &delays(600), 32);
    assert_eq!(known.clock().knots.len(), 2);
    let zigzag = [30_000, -30_000, 30_000, -30_000].map(|ppb| (60 * SECOND_NS, ppb));
    let (known, stamps) = run(&zigzag, &delays(1200), 32);
    let clock = known.clock();
    assert_eq!(clock.knots.len(), 5, "{clock:?}");
    assert!(worst(&clock, &stamps) <= clock.residual_ns, "{clock:?}");
}

#[test]
fn more_drift_than_a_timer_has_is_a_contradiction_still() {
    let paces = [(60 * SECOND_NS, 300_000), (60 * SECOND_NS, 0)];
    let (known, _) = run(&paces, &delays(600), 32);
    assert_eq!(known.clock().calibration, GpuCalibration::Inconsistent);
}

#[test]
fn a_clock_set_forward_is_a_contradiction_still() {
    let (mut known, _) = run(&[(SECOND_NS, 0)], &delays(100), 32);
    // 5 ms within 1 ms.
    known.not_before(GPU_AHEAD_NS + SECOND_NS, BEGIN_NS + SECOND_NS + 5_000_000);
    assert_eq!(known.clock().calibration, GpuCalibration::Inconsistent);
}

proptest! {
    #[test]
    fn the_truth_is_within_the_residual(
        paces in prop::collection::vec((1..120 * SECOND_NS, -150_000..150_000_i64), 1..6),
        step_ns in prop::sample::select(vec![1_u64, 32, 1000, 1024]),
        delays in prop::collection::vec((0..300_000_u64, 0..5_000_000_u64, 0..300_000_u64), 1..300),
    ) {
        let (known, stamps) = run(&paces, &delays, step_ns);
        let clock = known.clock();
        prop_assert!(
            matches!(clock.calibration, GpuCalibration::Bounded | GpuCalibration::Bent),
            "{:?}", clock
        );
        let is_bent = clock.calibration == GpuCalibration::Bent;
        prop_assert_eq!(clock.knots.len() > 2, is_bent);
        prop_assert!(clock.knots.is_sorted_by_key(|knot| knot.gpu_ns));
        // A line says how far off it is if there is a line; several do not need one.
        let worst = worst(&clock, &stamps);
        prop_assert!(!is_bent || worst <= clock.residual_ns, "{} ns off, {:?}", worst, clock);
        let mut stamps = stamps;
        stamps.sort_unstable();
        let mapped: Vec<u64> = stamps.iter().map(|stamp| clock.host_ns(stamp.0)).collect();
        prop_assert!(mapped.is_sorted());
    }
}
