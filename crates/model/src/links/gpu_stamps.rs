//! Decides which GPU stamps can be trusted.
//!
//! NCCL reads a kernel channel's stamps from a ring of 64 slots per channel, without checking that the slot still
//! belongs to this work. If the GPU is that far ahead, the stamps are a *later* work's.
//!
//! ```text
//!   launched:         A      B      C      D      E
//!   stamps reported:  1      2      5      4      5        C has E's: later than D's, and reported again by E
//! ```
//!
//! Distrusted stamps are not used, neither for an interval nor for a bound of the clock.

use std::collections::BTreeMap;

use crate::tables::{ContextName, Event, EventRow, Row, Tables};
use nccl_events::event::KernelCh;
use nccl_events::schema::Counts;

/// Why the GPU times of a kernel channel or phase are distrusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    Zero,
    /// 2^63 ns or more, 292 years: no timer reaches that, and no clock offset compensates for it.
    Impossible,
    Backwards,
    /// The stamps of a kernel that was launched later on this channel.
    Repeated,
    /// Not in launch order.
    OutOfOrder,
    /// A phase outside its channel, or overlapping another phase.
    Outside,
}

/// Checks start and stop on their own: both present, possible, and in order.
pub const fn check_stamps(start_gpu_ns: u64, stop_gpu_ns: u64) -> Result<(u64, u64), Distrust> {
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

/// A kernel on a channel, with stamps that are plausible on their own. Sorted by launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StampedKernel<R> {
    pub enqueued: u64,
    /// The launch plan; 0 if unknown.
    pub plan: u64,
    pub start_gpu_ns: u64,
    /// Stamp of the stop.
    pub stop_gpu_ns: u64,
    pub of: R,
}

/// Compares the stamps of a channel's kernels, in launch order, with each other.
pub fn find_untrusted<R: Copy>(ring: &[StampedKernel<R>], mut distrust: impl FnMut(R, Distrust)) {
    if is_in_order(ring) {
        return;
    }
    let mut is_repeated = vec![false; ring.len()];
    find_repeated(ring, |work| work.start_gpu_ns, &mut is_repeated);
    find_repeated(ring, |work| work.stop_gpu_ns, &mut is_repeated);
    let mut left = Vec::with_capacity(ring.len());
    for (work, is_repeated) in ring.iter().zip(is_repeated) {
        if is_repeated { distrust(work.of, Distrust::Repeated) } else { left.push(*work) }
    }
    for of in out_of_order(&left) {
        distrust(of, Distrust::OutOfOrder);
    }
}

/// Whether no stamp repeats or goes back, which is nearly always true.
fn is_in_order<R>(ring: &[StampedKernel<R>]) -> bool {
    ring.iter().zip(ring.iter().skip(1)).all(|(one, next)| {
        let (starts, stops) = ((one.start_gpu_ns, next.start_gpu_ns), (one.stop_gpu_ns, next.stop_gpu_ns));
        if one.plan != 0 && one.plan == next.plan {
            starts.0 <= starts.1 && stops.0 <= stops.1
        } else {
            starts.0 < starts.1 && stops.0 < stops.1
        }
    })
}

/// Kernels with the same stamp: the slot belongs to the last. The others' stamps were read too late.
fn find_repeated<R>(ring: &[StampedKernel<R>], stamp: impl Fn(&StampedKernel<R>) -> u64, is_repeated: &mut [bool]) {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (work, is_repeated) in ring.iter().zip(is_repeated).rev().filter(|(work, _)| work.plan != 0) {
        *is_repeated |= *last.entry(stamp(work)).or_insert(work.plan) != work.plan;
    }
}

/// The works outside the longest nondecreasing chain of starts: the smallest set that can be wrong.
fn out_of_order<R: Copy>(works: &[StampedKernel<R>]) -> Vec<R> {
    // For each chain length, the work with the earliest start that ends such a chain. Patience sorting.
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
    works.iter().zip(in_chain).filter(|(_, kept)| !kept).map(|(work, _)| work.of).collect()
}

/// Counts a pair of stamps that is not trusted.
pub fn count_distrusted(why: Distrust, counts: &mut Counts) {
    counts.gpu_times_suspicious += 1;
    let reason = match why {
        Distrust::Zero => &mut counts.gpu_times_zero,
        Distrust::Impossible => &mut counts.gpu_times_impossible,
        Distrust::Backwards => &mut counts.gpu_times_backwards,
        Distrust::Repeated => &mut counts.gpu_times_repeated,
        Distrust::OutOfOrder => &mut counts.gpu_times_out_of_order,
        Distrust::Outside => &mut counts.gpu_times_outside,
    };
    *reason += 1;
}

/// The distrusted stamps of a process's kernel channels.
#[derive(Debug, Default)]
pub struct Stamps {
    distrusted: BTreeMap<Row<KernelCh>, Distrust>,
}

/// A kernel channel with stamps, in the ring of its context and channel.
type KernelInRing = (ContextName, u8, StampedKernel<Place>);

/// Where a kernel channel is that a ring is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Table(Row<KernelCh>),
    /// It has left the tables, and its stamps were trusted.
    Settled,
    /// It is not in the tables yet.
    Coming,
}

/// How many trusted kernels of a ring are kept to compare later ones with.
const KEPT: usize = 8;

/// The rings of a running process: kernels beside those in the tables, by context id and channel.
#[derive(Debug, Default)]
pub struct Rings {
    settled: BTreeMap<(u64, u8), Vec<StampedKernel<()>>>,
    /// Kernels that have stopped, and whose operations are not over.
    pub(crate) coming: Vec<((u64, u8), StampedKernel<()>)>,
}

impl Rings {
    /// The kernels beside those in the tables.
    fn others(&self, tables: &Tables) -> Vec<KernelInRing> {
        let at = |kernel: &StampedKernel<()>, of: Place| {
            let StampedKernel { enqueued, plan, start_gpu_ns, stop_gpu_ns, of: () } = *kernel;
            StampedKernel { enqueued, plan, start_gpu_ns, stop_gpu_ns, of }
        };
        let settled = self.settled.iter().flat_map(|(ring, kernels)| kernels.iter().map(|kernel| (*ring, kernel)));
        let settled = settled.map(|(ring, kernel)| (ring, at(kernel, Place::Settled)));
        let coming = self.coming.iter().map(|(ring, kernel)| (*ring, at(kernel, Place::Coming)));
        let all = settled.chain(coming);
        all.filter_map(|((context, channel), kernel)| {
            Some((ContextName::from_index(tables.find_context(context)?), channel, kernel))
        })
        .collect()
    }

    /// Keeps the last trusted kernels of a ring.
    fn keep(&mut self, ring: (u64, u8), trusted: impl DoubleEndedIterator<Item = StampedKernel<Place>>) {
        let mut kept: Vec<StampedKernel<()>> = (trusted.rev().take(KEPT))
            .map(|StampedKernel { enqueued, plan, start_gpu_ns, stop_gpu_ns, .. }| StampedKernel {
                enqueued,
                plan,
                start_gpu_ns,
                stop_gpu_ns,
                of: (),
            })
            .collect();
        kept.reverse();
        self.settled.insert(ring, kept);
    }
}

impl Stamps {
    /// `rings` are those of a running process, of which the tables have a part.
    pub fn new(tables: &Tables, mut rings: Option<&mut Rings>) -> Self {
        let mut stamps = Self::default();
        let mut works = rings.as_ref().map_or_else(Vec::new, |rings| rings.others(tables));
        for (row, event) in tables.rows::<KernelCh>() {
            let KernelCh { channel, gpu_ns } = event.fields;
            let stop_ns = event.state_value();
            match check_stamps(gpu_ns, stop_ns) {
                Ok((start_gpu_ns, stop_gpu_ns)) => {
                    works.extend(launched(tables, event).map(|(enqueued, plan)| -> KernelInRing {
                        let of = Place::Table(row);
                        (event.context, channel, StampedKernel { enqueued, plan, start_gpu_ns, stop_gpu_ns, of })
                    }));
                }
                Err(why) => {
                    // v3 reports no GPU times; a channel that never stopped has no second stamp.
                    let reported = gpu_ns != 0 || stop_ns != 0;
                    let ended = event.stop().is_some() || stop_ns != 0;
                    if reported && ended {
                        stamps.distrusted.insert(row, why);
                    }
                }
            }
        }
        nccl_events::sort::sort(&mut works);
        let mut ring = Vec::new();
        for works in works.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            ring.clear();
            ring.extend(works.iter().map(|(.., work)| *work));
            find_untrusted(&ring, |of, why| {
                if let Place::Table(row) = of {
                    stamps.distrusted.insert(row, why);
                }
            });
            if let (Some(rings), Some(&(context, channel, _))) = (&mut rings, works.first()) {
                let trusted = ring.iter().copied().filter(|kernel| match kernel.of {
                    Place::Table(row) => stamps.distrust(row).is_none(),
                    Place::Settled => true,
                    Place::Coming => false,
                });
                rings.keep((tables.context_id(context), channel), trusted);
            }
        }
        stamps
    }

    /// Why the stamps of a kernel channel are distrusted; `None` if they are not.
    pub fn distrust(&self, row: Row<KernelCh>) -> Option<Distrust> {
        self.distrusted.get(&row).copied()
    }

    /// The GPU's start and stop of a kernel channel, if reported and trusted.
    #[inline]
    pub fn trusted_stamps(&self, row: Row<KernelCh>, event: &Event<KernelCh>) -> Option<(u64, u64)> {
        let stamps = check_stamps(event.fields.gpu_ns, event.state_value()).ok()?;
        self.distrust(row).is_none().then_some(stamps)
    }
}

/// When the kernel of a channel was enqueued, and its launch plan (0 if unknown).
fn launched(tables: &Tables, channel: &Event<KernelCh>) -> Option<(u64, u64)> {
    let parent = tables.find(channel.parent)?;
    let plan = match parent {
        EventRow::Coll(row) => tables[row].fields.parent_group,
        EventRow::P2p(row) => tables[row].fields.parent_group,
        _ => 0,
    };
    let group = tables.head_of(plan).or(tables.head(parent));
    Some((group?.start, plan))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(stamps: &[(u64, u64)]) -> Vec<(usize, Distrust)> {
        let work = |(of, &(start_gpu_ns, stop_gpu_ns)): (usize, &(u64, u64))| {
            let enqueued = u64::try_from(of).expect("few") + 1;
            StampedKernel { enqueued, plan: enqueued, start_gpu_ns, stop_gpu_ns, of }
        };
        let ring: Vec<StampedKernel<usize>> = stamps.iter().enumerate().map(work).collect();
        let mut all = Vec::new();
        find_untrusted(&ring, |of, why| all.push((of, why)));
        all
    }

    #[test]
    fn a_slot_is_that_of_the_last_kernel_that_has_its_stamps() {
        assert_eq!(judged(&[(1, 2), (3, 4), (5, 6)]), []);
        assert_eq!(judged(&[(1, 2), (5, 6), (3, 4), (5, 6)]), [(1, Distrust::Repeated)]);
        assert_eq!(judged(&[(1, 6), (2, 6)]), [(0, Distrust::Repeated)]);
        assert_eq!(judged(&[(1, 2), (9, 10), (3, 4), (5, 6)]), [(1, Distrust::OutOfOrder)]);
    }
}
