//! A clock that GPU times are on, as samples show it: each is what the clock showed at a time of the host's.
//!
//! ```text
//!  host │              ×╱       between two samples: their line
//!       │        ╱×╱╱           before the first and after the last: the pace there goes on
//!       │   ╱╱×    ┆step        a piece at another pace holds a step (the system's clock was set): a time in it is
//!       │ ╱×                    on the line before or the one after; where both can be, in the middle
//!       └──────────────── GPU
//! ```
//!
//! A clock that was set back shows times twice. Such a time is not placed, unless both places are close together.

use serde::{Deserialize, Serialize};

/// What a clock showed. Host times are CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When it was asked.
    pub host_ns: u64,
    /// What it showed.
    pub gpu_ns: u64,
    /// It showed that at most this long before or after.
    pub uncertainty_ns: u64,
}

/// How well a clock is known; written into the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampleQuality {
    /// Samples used.
    pub samples: u64,
    /// Samples left out because the host's time did not advance with them.
    pub unusable: u64,
    /// How far samples lie from the line of their neighbours, at most; steps aside.
    pub residual_ns: u64,
    /// The largest uncertainty of a sample.
    pub uncertainty_ns: u64,
    /// How often it was set.
    pub steps: u64,
    /// By how much at most.
    pub largest_step_ns: u64,
    /// By how many ns in a second it is faster than CLOCK_MONOTONIC.
    pub pace_ppb: i64,
}

/// A host time, and how far off it can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// CLOCK_MONOTONIC ns.
    pub host_ns: u64,
    /// At most this far off, as far as the samples say.
    pub uncertainty_ns: u64,
}

/// A stretch in which the clock only goes forwards.
#[derive(Debug, Default)]
struct Run {
    samples: Vec<Sample>,
}

/// Turns the times of a clock into the host's.
#[derive(Debug, Default)]
pub struct SampleClock {
    runs: Vec<Run>,
    /// GPU ns per host ns, where it is not set.
    pace: f64,
    /// How well it does so.
    pub quality: SampleQuality,
}

/// CLOCK_MONOTONIC and other clocks of a host are slewed by up to 500 ppm each; more is a step.
const MOST_SLEW: f64 = 1000e-6;
/// Steps that are too small to matter, and that samples can feign.
const SMALLEST_STEP_NS: f64 = 2000.0;
/// Where a time can be at two places that are further apart, it is at none.
const MOST_DOUBT_NS: u64 = 1_000_000;

#[expect(
    clippy::cast_precision_loss,
    reason = "differences of times: exact up to 104 days"
)]
fn difference(to: u64, from: u64) -> f64 {
    (i128::from(to) - i128::from(from)) as f64
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "ns between samples; what is beyond an i64 saturates"
)]
fn shifted(ns: u64, by: f64) -> u64 {
    ns.saturating_add_signed(by.round() as i64)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a length in ns, saturating"
)]
fn whole(ns: f64) -> u64 {
    ns.max(0.0).ceil() as u64
}

impl SampleClock {
    /// Makes the clock; the samples come in any order.
    #[must_use]
    pub fn of(mut samples: Vec<Sample>) -> Self {
        samples.sort_by_key(|sample| (sample.host_ns, sample.gpu_ns));
        let all = samples.len() as u64;
        samples.dedup_by_key(|sample| sample.host_ns);
        let mut clock = Self {
            pace: pace(&samples),
            ..Self::default()
        };
        let uncertainties = samples.iter().map(|sample| sample.uncertainty_ns);
        clock.quality.samples = samples.len() as u64;
        clock.quality.unusable = all - samples.len() as u64;
        clock.quality.uncertainty_ns = uncertainties.max().unwrap_or(0);
        for pair in samples.windows(2) {
            if let &[from, to] = pair
                && let Some(step) = clock.step(from, to)
            {
                clock.quality.steps += 1;
                clock.quality.largest_step_ns = clock.quality.largest_step_ns.max(whole(step));
            }
        }
        for of_three in samples.windows(3) {
            let &[before, at, after] = of_three else {
                continue;
            };
            if clock.step(before, at).is_none() && clock.step(at, after).is_none() {
                let part = difference(at.host_ns, before.host_ns)
                    / difference(after.host_ns, before.host_ns);
                let expected = part * difference(after.gpu_ns, before.gpu_ns);
                let off = whole((expected - difference(at.gpu_ns, before.gpu_ns)).abs());
                clock.quality.residual_ns = clock.quality.residual_ns.max(off);
            }
        }
        let ppb = (clock.pace - 1.0) * 1e9;
        clock.quality.pace_ppb =
            0_i64.saturating_add_unsigned(whole(ppb)) - 0_i64.saturating_add_unsigned(whole(-ppb));
        for sample in samples {
            match clock.runs.last_mut() {
                Some(run)
                    if run
                        .samples
                        .last()
                        .is_some_and(|last| last.gpu_ns < sample.gpu_ns) =>
                {
                    run.samples.push(sample);
                }
                _ => clock.runs.push(Run {
                    samples: vec![sample],
                }),
            }
        }
        clock
    }

    /// Whether it can place times at all: fewer than two samples have no pace.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.pace > 0.0
    }

    /// By how much it was set between two samples, if it was.
    fn step(&self, from: Sample, to: Sample) -> Option<f64> {
        let host = difference(to.host_ns, from.host_ns);
        let off = (difference(to.gpu_ns, from.gpu_ns) - self.pace * host).abs();
        let doubt = difference(from.uncertainty_ns + to.uncertainty_ns, 0);
        let most = SMALLEST_STEP_NS + self.pace * (doubt + MOST_SLEW * host);
        (off > most).then_some(off)
    }

    /// When it showed this time; `None` where it never did, or that cannot be told.
    #[must_use]
    pub fn place(&self, gpu_ns: u64) -> Option<Placed> {
        if !self.is_usable() {
            return None;
        }
        let mut places = Places::default();
        let mut before: Option<&Sample> = None;
        for (number, run) in self.runs.iter().enumerate() {
            let next = self.runs.get(number + 1);
            let after = next.and_then(|next| next.samples.first());
            self.place_in(run, before, after, gpu_ns, &mut places);
            before = run.samples.last();
        }
        let (first, last) = places.0?;
        let doubt = last - first;
        (doubt <= MOST_DOUBT_NS).then(|| Placed {
            host_ns: first + doubt / 2,
            uncertainty_ns: doubt.div_ceil(2)
                + self.quality.uncertainty_ns
                + self.quality.residual_ns,
        })
    }

    /// Where a time can be in a stretch, with the sample before it and that after it, which show other stretches.
    fn place_in(
        &self,
        run: &Run,
        before: Option<&Sample>,
        after: Option<&Sample>,
        gpu_ns: u64,
        places: &mut Places,
    ) {
        let number = run
            .samples
            .partition_point(|sample| sample.gpu_ns <= gpu_ns);
        let from = number.checked_sub(1).and_then(|at| run.samples.get(at));
        match (from, run.samples.get(number)) {
            (Some(from), Some(to)) if self.step(*from, *to).is_some() => {
                let ahead = self.ahead(from, gpu_ns, self.pace);
                let behind = self.ahead(to, gpu_ns, self.pace);
                if ahead <= to.host_ns {
                    places.add(ahead);
                }
                if behind >= from.host_ns {
                    places.add(behind);
                }
            }
            (Some(from), Some(to)) => {
                let pace =
                    difference(to.gpu_ns, from.gpu_ns) / difference(to.host_ns, from.host_ns);
                places.add(self.ahead(from, gpu_ns, pace));
            }
            // Before the stretch: with the one before this can only have been since that one's last sample.
            (None, Some(first)) => {
                let place = self.ahead(first, gpu_ns, self.pace);
                if before.is_none_or(|before| place >= before.host_ns) {
                    places.add(place);
                }
            }
            (Some(last), None) => {
                let place = self.ahead(last, gpu_ns, self.pace);
                if after.is_none_or(|after| place <= after.host_ns) {
                    places.add(place);
                }
            }
            (None, None) => {}
        }
    }

    /// When a clock at this pace showed a time, by one of its samples.
    fn ahead(&self, sample: &Sample, gpu_ns: u64, pace: f64) -> u64 {
        shifted(sample.host_ns, difference(gpu_ns, sample.gpu_ns) / pace)
    }
}

/// The first and the last place that a time can be at.
#[derive(Debug, Default)]
struct Places(Option<(u64, u64)>);

impl Places {
    fn add(&mut self, host_ns: u64) {
        let (first, last) = self.0.unwrap_or((host_ns, host_ns));
        self.0 = Some((first.min(host_ns), last.max(host_ns)));
    }
}

/// The pace of a clock that is now and then set: that of all pieces which is in the middle, unless some go at that of
/// the host.
fn pace(samples: &[Sample]) -> f64 {
    let mut paces: Vec<f64> = samples
        .windows(2)
        .filter_map(|pair| match pair {
            &[from, to] => {
                Some(difference(to.gpu_ns, from.gpu_ns) / difference(to.host_ns, from.host_ns))
            }
            _ => None,
        })
        .collect();
    let is_host = |pace: &f64| (pace - 1.0).abs() <= MOST_SLEW;
    if paces.iter().any(is_host) {
        paces.retain(is_host);
    }
    paces.sort_by(f64::total_cmp);
    paces.get(paces.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const EPOCH: u64 = 1_770_000_000 * SECOND;

    fn clock(samples: &[(u64, u64)]) -> SampleClock {
        let samples = samples.iter().map(|&(host_ns, gpu_ns)| Sample {
            host_ns,
            gpu_ns,
            uncertainty_ns: 100,
        });
        SampleClock::of(samples.collect())
    }

    fn host_ns(clock: &SampleClock, gpu_ns: u64) -> Option<u64> {
        clock.place(gpu_ns).map(|placed| placed.host_ns)
    }

    #[test]
    fn lines_between_and_beyond_the_samples() {
        // 20 ppm fast.
        let clock = clock(&[
            (3 * SECOND, EPOCH + 2 * SECOND + 40_000),
            (SECOND, EPOCH),
            (2 * SECOND, EPOCH + SECOND + 20_000),
        ]);
        assert_eq!(host_ns(&clock, EPOCH), Some(SECOND));
        let middle = EPOCH + SECOND / 2 + 10_000;
        assert_eq!(host_ns(&clock, middle), Some(SECOND + SECOND / 2));
        assert_eq!(host_ns(&clock, EPOCH - SECOND - 20_000), Some(0));
        let later = EPOCH + 4 * SECOND + 80_000;
        assert_eq!(host_ns(&clock, later), Some(5 * SECOND));
        assert_eq!(clock.quality.pace_ppb, 20_000);
        assert_eq!((clock.quality.samples, clock.quality.steps), (3, 0));
        assert_eq!(clock.place(middle).expect("placed").uncertainty_ns, 100);
    }

    #[test]
    fn a_clock_in_other_units_is_a_clock() {
        // A counter at 2.9 GHz, as another user of CUPTI may install.
        let clock = clock(&[
            (SECOND, 0),
            (2 * SECOND, 2_900_000_000),
            (3 * SECOND, 5_800_000_000),
        ]);
        assert_eq!(host_ns(&clock, 1_450_000_000), Some(SECOND + SECOND / 2));
        assert_eq!(clock.quality.pace_ppb, 1_900_000_000);
    }

    #[test]
    fn one_sample_places_nothing() {
        assert_eq!(clock(&[(SECOND, EPOCH)]).place(EPOCH), None);
        assert_eq!(clock(&[]).place(EPOCH), None);
        // Nor do two at the same time, or a clock that stands.
        assert_eq!(clock(&[(5, EPOCH), (5, EPOCH + 1)]).place(EPOCH), None);
        assert_eq!(clock(&[(5, EPOCH), (9, EPOCH)]).place(EPOCH), None);
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
        // It never showed that.
        assert_eq!(at(6 * SECOND), None);
        assert_eq!(
            (clock.quality.steps, clock.quality.largest_step_ns),
            (1, step)
        );
    }

    #[test]
    fn what_was_set_back_is_placed_only_where_it_is_sure() {
        let back = 200_000_000;
        let clock = clock(&[
            (SECOND, EPOCH),
            (2 * SECOND, EPOCH + SECOND),
            (3 * SECOND, EPOCH + 2 * SECOND),
            (
                3 * SECOND + 100_000_000,
                EPOCH + 2 * SECOND + 100_000_000 - back,
            ),
            (5 * SECOND, EPOCH + 4 * SECOND - back),
        ]);
        let at = |gpu_ns| host_ns(&clock, EPOCH + gpu_ns);
        assert_eq!(at(SECOND / 2), Some(SECOND + SECOND / 2));
        assert_eq!(at(3 * SECOND), Some(4 * SECOND + back));
        // Shown before it was set, and after.
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
        assert_eq!(
            (clock.quality.steps, clock.quality.largest_step_ns),
            (1, 50_000)
        );
        let placed = clock.place(EPOCH + SECOND + 5_000_000).expect("placed");
        let truth = [2 * SECOND + 5_000_000, 2 * SECOND + 4_950_000];
        for truth in truth {
            assert!(placed.host_ns.abs_diff(truth) <= placed.uncertainty_ns);
        }
        assert!(placed.uncertainty_ns <= 25_000 + 100 + clock.quality.residual_ns);
    }
}
