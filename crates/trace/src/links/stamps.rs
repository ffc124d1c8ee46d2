//! Which GPU stamps can be trusted.
//!
//! NCCL reads a kernel channel's stamps from a ring of 64 slots for each channel, without a look whether the slot is
//! still this work's: when the GPU is that far ahead, they are those of a *later* work.
//!
//! ```text
//!   launched:      A      B      C      D      E
//!   stamps told:   1      2      5      4      5        C has E's: later than D's, and told again by E
//! ```
//!
//! Nothing is made of stamps that are not trusted: neither an interval nor a bound for the clock.

use nccl_events::event;
use std::collections::BTreeMap;

use crate::tables::assembly::{Assembly, Operation};
use crate::tables::counts::Counts;
use nccl_events::Body;
use nccl_events::Kind;

/// Why the GPU times of a kernel channel or phase are not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    /// One of the two is 0.
    Zero,
    /// 2^63 ns or more, 292 years: no timer gets there, and no offset of a clock leads back.
    Impossible,
    /// The stop lies before the start.
    Backwards,
    /// The same as those of a kernel that was launched later on this channel.
    Repeated,
    /// Not in the order in which the kernels were launched.
    OutOfOrder,
    /// A phase outside its channel, or in another phase.
    Outside,
}

impl Distrust {
    /// Counts it, with its reason.
    pub fn count(self, counts: &mut Counts) {
        counts.gpu_times_suspicious += 1;
        let reason = match self {
            Self::Zero => &mut counts.gpu_times_zero,
            Self::Impossible => &mut counts.gpu_times_impossible,
            Self::Backwards => &mut counts.gpu_times_backwards,
            Self::Repeated => &mut counts.gpu_times_repeated,
            Self::OutOfOrder => &mut counts.gpu_times_out_of_order,
            Self::Outside => &mut counts.gpu_times_outside,
        };
        *reason += 1;
    }
}

/// Start and stop by themselves: both there, possible, and in this order.
///
/// # Errors
/// What is wrong with them.
pub const fn pair(start_gpu_ns: u64, stop_gpu_ns: u64) -> Result<(u64, u64), Distrust> {
    if start_gpu_ns == 0 || stop_gpu_ns == 0 {
        Err(Distrust::Zero)
    } else if (start_gpu_ns | stop_gpu_ns) > i64::MAX.unsigned_abs() {
        Err(Distrust::Impossible)
    } else if stop_gpu_ns < start_gpu_ns {
        Err(Distrust::Backwards)
    } else {
        Ok((start_gpu_ns, stop_gpu_ns))
    }
}

/// The stamps of a process's kernel channels, as far as they are not to be believed.
#[derive(Debug, Default)]
pub struct Stamps {
    /// By place of the operation.
    distrusted: BTreeMap<u32, Distrust>,
}

/// A kernel channel with stamps, in the order of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    context: u64,
    channel: u8,
    /// When its kernel was enqueued.
    enqueued: u64,
    plan: u64,
    start_gpu_ns: u64,
    stop_gpu_ns: u64,
    at: u32,
}

impl Stamps {
    /// Looks at the stamps of a process.
    #[must_use]
    pub fn of(assembly: &Assembly) -> Self {
        let mut stamps = Self::default();
        let mut works = Vec::new();
        for (at, operation) in assembly.of_kind(Kind::KernelCh) {
            let Body::KernelCh(event::KernelCh { channel, gpu_ns }) = assembly.fields_of(operation)
            else {
                continue;
            };
            let stop_ns = assembly.value_of(at, operation);
            match pair(gpu_ns, stop_ns) {
                Ok((start_gpu_ns, stop_gpu_ns)) => {
                    works.extend(launched(assembly, operation).map(|(enqueued, plan)| Work {
                        context: assembly.context_of(operation),
                        channel,
                        enqueued,
                        plan,
                        start_gpu_ns,
                        stop_gpu_ns,
                        at,
                    }));
                }
                Err(why) => {
                    // v3 tells no GPU times at all, and one that never stopped no second one.
                    let told = gpu_ns != 0 || stop_ns != 0;
                    let ended = operation.end().is_some() || stop_ns != 0;
                    if told && ended {
                        stamps.distrusted.insert(at, why);
                    }
                }
            }
        }
        works.sort_unstable();
        for ring in works.chunk_by(|a, b| (a.context, a.channel) == (b.context, b.channel)) {
            stamps.check_ring(ring);
        }
        stamps
    }

    /// Why the stamps of a kernel channel are not believed.
    #[must_use]
    pub fn distrust(&self, at: u32) -> Option<Distrust> {
        self.distrusted.get(&at).copied()
    }

    /// The GPU's start and stop of a kernel channel, if they are there and can be believed.
    #[must_use]
    pub fn of_channel(
        &self,
        assembly: &Assembly,
        at: u32,
        operation: &Operation,
    ) -> Option<(u64, u64)> {
        let Body::KernelCh(event::KernelCh { gpu_ns, .. }) = assembly.fields_of(operation) else {
            return None;
        };
        let stamps = pair(gpu_ns, assembly.value_of(at, operation)).ok()?;
        self.distrust(at).is_none().then_some(stamps)
    }

    fn check_ring(&mut self, ring: &[Work]) {
        self.find_repeated(ring, |work| work.start_gpu_ns);
        self.find_repeated(ring, |work| work.stop_gpu_ns);
        let left: Vec<Work> = ring
            .iter()
            .filter(|work| self.distrust(work.at).is_none())
            .copied()
            .collect();
        for at in out_of_order(&left) {
            self.distrusted.insert(at, Distrust::OutOfOrder);
        }
    }

    /// Of kernels with the same stamp the slot is that of the last; the others came too late to see theirs.
    fn find_repeated(&mut self, ring: &[Work], stamp: impl Fn(&Work) -> u64) {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for work in ring.iter().rev().filter(|work| work.plan != 0) {
            let plan = *last.entry(stamp(work)).or_insert(work.plan);
            if plan != work.plan {
                self.distrusted.insert(work.at, Distrust::Repeated);
            }
        }
    }
}

/// When the kernel of a channel was enqueued, and its launch plan (0: unknown).
fn launched(assembly: &Assembly, channel: &Operation) -> Option<(u64, u64)> {
    let parent = assembly.operation(channel.parent_at()?)?;
    let plan = assembly.launch_plan(parent);
    let group = assembly.find(plan).and_then(|at| assembly.operation(at));
    Some((group.map_or(parent.start, |group| group.start), plan))
}

/// Those outside the longest chain of starts that never goes back: the fewest that can be wrong.
fn out_of_order(works: &[Work]) -> Vec<u32> {
    // By length of a chain: the work that ends one as early as possible. Patience sorting.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(works.len());
    let start = |number: usize| works.get(number).map(|work| work.start_gpu_ns);
    for (number, work) in works.iter().enumerate() {
        let length = ends.partition_point(|&end| start(end) <= Some(work.start_gpu_ns));
        before.push(length.checked_sub(1).and_then(|at| ends.get(at)).copied());
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut in_chain = vec![false; works.len()];
    let mut next = ends.last().copied();
    while let Some(number) = next {
        if let Some(kept) = in_chain.get_mut(number) {
            *kept = true;
        }
        next = before.get(number).copied().flatten();
    }
    let outside = works.iter().zip(in_chain).filter(|(_, kept)| !kept);
    outside.map(|(work, _)| work.at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_that_make_no_sense() {
        assert_eq!(pair(0, 5), Err(Distrust::Zero));
        assert_eq!(pair(6, 0), Err(Distrust::Zero));
        assert_eq!(pair(6, 5), Err(Distrust::Backwards));
        assert_eq!(pair(6, 6), Ok((6, 6)));
    }

    fn works(starts: &[u64]) -> Vec<Work> {
        let works = (0..).zip(starts).map(|(at, &start_gpu_ns)| Work {
            context: 1,
            channel: 0,
            enqueued: u64::from(at),
            plan: u64::from(at) + 1,
            start_gpu_ns,
            stop_gpu_ns: start_gpu_ns + 1,
            at,
        });
        works.collect()
    }

    #[test]
    fn the_fewest_stamps_are_out_of_order() {
        assert_eq!(out_of_order(&works(&[1, 2, 3, 3, 4])), [0; 0]);
        assert_eq!(out_of_order(&works(&[1, 2, 9, 4, 5])), [2]);
        assert_eq!(out_of_order(&works(&[8, 9, 1, 2, 3, 7, 4])), [0, 1, 5]);
        assert_eq!(out_of_order(&[]), [0; 0]);
    }

    #[test]
    fn of_equal_stamps_those_of_the_last_kernel_are_true() {
        let mut stamps = Stamps::default();
        stamps.check_ring(&works(&[10, 50, 30, 50, 60]));
        assert_eq!(stamps.distrust(1), Some(Distrust::Repeated));
        for at in [0, 2, 3, 4] {
            assert_eq!(stamps.distrust(at), None, "{at}");
        }
    }
}
