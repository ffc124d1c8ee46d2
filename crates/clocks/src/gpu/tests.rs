use crate::gpu::*;

const SECOND: u64 = 1_000_000_000;
const EPOCH: u64 = 1_770_000_000 * SECOND;

fn clock(samples: &[(u64, u64)]) -> SampleClock {
    let samples = samples.iter().map(|&(host_ns, gpu_ns)| Sample { host_ns, gpu_ns, uncertainty_ns: 100 });
    SampleClock::from_samples(samples.collect())
}

fn host_ns(clock: &SampleClock, gpu_ns: u64) -> Option<u64> {
    clock.place(gpu_ns).map(|placed| placed.host_ns)
}

#[test]
fn lines_between_and_beyond_the_samples() {
    // 20 ppm fast.
    let fast =
        clock(&[(3 * SECOND, EPOCH + 2 * SECOND + 40_000), (SECOND, EPOCH), (2 * SECOND, EPOCH + SECOND + 20_000)]);
    let middle = EPOCH + SECOND / 2 + 10_000;
    for (gpu_ns, wanted) in [
        (EPOCH, SECOND),
        (middle, SECOND + SECOND / 2),
        (EPOCH - SECOND - 20_000, 0),
        (EPOCH + 4 * SECOND + 80_000, 5 * SECOND),
    ] {
        assert_eq!(host_ns(&fast, gpu_ns), Some(wanted));
    }
    assert_eq!((fast.quality.pace_ppb, fast.quality.samples, fast.quality.steps), (20_000, 3, 0));
    assert_eq!(fast.place(middle).expect("placed").uncertainty_ns, 100);
    // A counter at 2.9 GHz, as another user of CUPTI may install.
    let clock = clock(&[(SECOND, 0), (2 * SECOND, 2_900_000_000), (3 * SECOND, 5_800_000_000)]);
    assert_eq!(host_ns(&clock, 1_450_000_000), Some(SECOND + SECOND / 2));
    assert_eq!(clock.quality.pace_ppb, 1_900_000_000);
}

#[test]
fn one_sample_places_nothing() {
    // Neither do two samples at the same time, or a stopped clock.
    for samples in [&[][..], &[(SECOND, EPOCH)], &[(5, EPOCH), (5, EPOCH + 1)], &[(5, EPOCH), (9, EPOCH)]] {
        assert_eq!(clock(samples).place(EPOCH), None);
    }
}

#[test]
fn what_was_set_forwards_is_found_again() {
    let step = 10 * SECOND;
    let clock = clock(&[
        (SECOND, EPOCH),
        (2 * SECOND, EPOCH + SECOND),
        (3 * SECOND, EPOCH + 2 * SECOND + step),
        (4 * SECOND, EPOCH + 3 * SECOND + step),
    ]);
    let at = |gpu_ns| host_ns(&clock, EPOCH + gpu_ns);
    assert_eq!(at(SECOND / 2), Some(SECOND + SECOND / 2));
    assert_eq!(at(SECOND + SECOND / 4), Some(2 * SECOND + SECOND / 4));
    let late = 2 * SECOND + step - SECOND / 4;
    assert_eq!(at(late), Some(3 * SECOND - SECOND / 4));
    // The clock never showed this time.
    assert_eq!(at(6 * SECOND), None);
    assert_eq!((clock.quality.steps, clock.quality.largest_step_ns), (1, step));
}

#[test]
fn what_was_set_back_is_placed_only_where_it_is_sure() {
    let back = 200_000_000;
    let clock = clock(&[
        (SECOND, EPOCH),
        (2 * SECOND, EPOCH + SECOND),
        (3 * SECOND, EPOCH + 2 * SECOND),
        (3 * SECOND + 100_000_000, EPOCH + 2 * SECOND + 100_000_000 - back),
        (5 * SECOND, EPOCH + 4 * SECOND - back),
    ]);
    let at = |gpu_ns| host_ns(&clock, EPOCH + gpu_ns);
    assert_eq!(at(SECOND / 2), Some(SECOND + SECOND / 2));
    assert_eq!(at(3 * SECOND), Some(4 * SECOND + back));
    // Shown before the clock was set, and again afterwards.
    assert_eq!(at(2 * SECOND - 50_000_000), None);
    assert_eq!(clock.quality.steps, 1);
}

#[test]
fn a_small_step_is_a_doubt() {
    let clock = clock(&[
        (SECOND, EPOCH),
        (2 * SECOND, EPOCH + SECOND),
        (2 * SECOND + 10_000_000, EPOCH + SECOND + 10_050_000),
        (3 * SECOND, EPOCH + 2 * SECOND + 50_000),
    ]);
    assert_eq!((clock.quality.steps, clock.quality.largest_step_ns), (1, 50_000));
    let placed = clock.place(EPOCH + SECOND + 5_000_000).expect("placed");
    for truth in [2 * SECOND + 5_000_000, 2 * SECOND + 4_950_000] {
        assert!(placed.host_ns.abs_diff(truth) <= placed.uncertainty_ns);
    }
    assert!(placed.uncertainty_ns <= 25_000 + 100 + clock.quality.residual_ns);
}
