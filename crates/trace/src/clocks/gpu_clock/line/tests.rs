use super::*;
use proptest::prelude::*;

fn bounds(lower: &[Pair], upper: &[Pair]) -> Bounds {
    Bounds {
        lower: lower.to_vec(),
        upper: upper.to_vec(),
        ..Bounds::default()
    }
}

#[test]
fn the_middle_of_the_bounds() {
    // Offsets: −900 and −700 from below, −500 and −400 from above; the stamps are 10 apart.
    let clock = bounds(&[(1000, 100), (1010, 310)], &[(1000, 500), (1020, 620)]).clock();
    assert_eq!(clock.calibration, GpuCalibration::Bounded);
    // One step of 10 ns may lie between a stamp and its event: the lower bound is −710.
    let offsets: Vec<i64> = clock.knots.iter().map(|knot| knot.offset_ns).collect();
    assert_eq!(offsets, [-605, -605]);
    assert_eq!(clock.bounds, (2, 2));
    assert_eq!(clock.residual_ns, 105 + 1 + 10 + ROUNDING_NS);
    assert_eq!(clock.host_ns(1000), 395);
}

#[test]
fn bounds_that_contradict_leave_the_upper_one() {
    let clock = bounds(&[(1000, 2020)], &[(1000, 500)]).clock();
    assert_eq!(clock.calibration, GpuCalibration::Inconsistent);
    assert_eq!((clock.knots[0].offset_ns, clock.residual_ns), (-500, 1520));
    assert_eq!(clock.host_ns(100), 0);
}

#[test]
fn without_launches_there_is_only_the_upper_bound() {
    let clock = bounds(&[], &[(1000, 500), (2000, 1400)]).clock();
    assert_eq!(clock.calibration, GpuCalibration::UpperOnly);
    assert_eq!((clock.knots[0].offset_ns, clock.residual_ns), (-600, 0));
    assert_eq!(bounds(&[], &[]).clock(), GpuClock::default());
}

#[test]
fn the_step_of_the_timer_shows_in_the_stamps() {
    assert_eq!(step_ns([5, 37, 101].into_iter()), 32);
    assert_eq!(step_ns([5, 5].into_iter()), COARSEST_STEP_NS);
    assert_eq!(step_ns([5, 4005].into_iter()), COARSEST_STEP_NS);
}

/// A GPU timer with a known drift against the host, and what a run would tell of it.
#[derive(Clone, Debug)]
struct Truth {
    gpu_at_0: u64,
    drift: f64,
    step_ns: u64,
}

impl Truth {
    /// The stamp of something that happens at this host time.
    fn stamp(&self, host_ns: u64) -> u64 {
        let drifted = approximate(host_ns.into()) * self.drift;
        let exact = i128::from(self.gpu_at_0) + i128::from(host_ns) + whole(drifted);
        let exact = u64::try_from(exact).expect("after the epoch");
        exact - exact % self.step_ns
    }
}

/// Ten minutes of kernels: launch before and callback after each. Gives the bounds and the stamps with their
/// true host times.
fn ten_minutes(truth: &Truth, delays: &[(u64, u64, u64)]) -> (Bounds, Vec<Pair>) {
    const BEGIN_NS: u64 = 8_993_953_000_000_000;
    let mut known = Bounds::default();
    let mut stamps = Vec::new();
    let apart = 600_000_000_000 / delays.len() as u64;
    for (number, &(launch, ran, told)) in (0..).zip(delays) {
        let start = BEGIN_NS + number * apart + launch;
        let stop = start + ran;
        let pair = (truth.stamp(start), truth.stamp(stop));
        known.not_before(pair.0, start - launch);
        known.not_after(pair.0, start + told);
        known.not_after(pair.1, stop + told);
        stamps.extend([(pair.0, start), (pair.1, stop)]);
    }
    (known, stamps)
}

fn worst(clock: &GpuClock, stamps: &[Pair]) -> u64 {
    let off = stamps
        .iter()
        .map(|&(gpu_ns, host_ns)| clock.host_ns(gpu_ns).abs_diff(host_ns));
    off.max().unwrap_or(0)
}

#[test]
fn a_drift_of_50_ppm_over_ten_minutes_is_found() {
    let truth = Truth {
        gpu_at_0: 1_761_621_481_000_000_000,
        drift: 50e-6,
        step_ns: 32,
    };
    // Launches take 5 to 105 µs, callbacks 5 to 205 µs.
    let delays: Vec<_> = (0..600_u64)
        .map(|number| {
            (
                5_000 + number * 7919 % 100_000,
                40_000,
                5_000 + number * 104_729 % 200_000,
            )
        })
        .collect();
    let (known, stamps) = ten_minutes(&truth, &delays);
    let clock = known.clock();
    assert_eq!(clock.calibration, GpuCalibration::Bounded);
    let drift_ppb = clock.drift_ppb();
    assert!((-50_100..-49_900).contains(&drift_ppb), "{drift_ppb} ppb");
    assert!(clock.residual_ns < 20_000, "{clock:?}");
    assert!(worst(&clock, &stamps) <= clock.residual_ns, "{clock:?}");
    // A constant offset would be 30 ms off.
    let constant = GpuClock {
        knots: clock.knots[..1].to_vec(),
        ..clock
    };
    assert!(worst(&constant, &stamps) > 29_000_000);
}

#[test]
fn more_drift_than_a_timer_has_is_a_contradiction() {
    let truth = Truth {
        gpu_at_0: 1_761_621_481_000_000_000,
        drift: 300e-6,
        step_ns: 32,
    };
    let (known, _) = ten_minutes(&truth, &[(5_000, 40_000, 5_000); 100]);
    assert_eq!(known.clock().calibration, GpuCalibration::Inconsistent);
}

proptest! {
    #[test]
    fn the_truth_is_within_the_residual(
        gpu_at_0 in 1_600_000_000_000_000_000_u64..1_800_000_000_000_000_000,
        drift in -150e-6..150e-6_f64,
        step_ns in prop::sample::select(vec![1_u64, 32, 1000, 1024]),
        delays in prop::collection::vec((0..3_000_000_u64, 0..50_000_000_u64, 0..3_000_000_u64), 1..60),
    ) {
        let truth = Truth { gpu_at_0, drift, step_ns };
        let (known, stamps) = ten_minutes(&truth, &delays);
        let clock = known.clock();
        prop_assert_eq!(clock.calibration, GpuCalibration::Bounded);
        let worst = worst(&clock, &stamps);
        prop_assert!(worst <= clock.residual_ns, "{} ns off, {:?}", worst, clock);
    }
}
