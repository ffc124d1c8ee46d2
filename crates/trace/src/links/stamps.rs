//! Which GPU stamps can be trusted.
//!
//! NCCL reads a kernel channel's stamps from a ring of 64 slots for each channel, without a look whether the slot is
//! still this work's: when the GPU is that far ahead, they are those of a *later* work.
//!
//! ```text
//!   launched:         A      B      C      D      E
//!   stamps reported:  1      2      5      4      5        C has E's: later than D's, and reported again by E
//! ```
//!
//! Nothing is made of stamps that are not trusted: neither an interval nor a bound for the clock.

use std::collections::BTreeMap;

use schema::Counts;
use tables::{ContextName, Event, EventRow, KernelCh, Row, Tables};

/// Why the GPU times of a kernel channel or phase are not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distrust {
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
    pub(crate) fn count(self, counts: &mut Counts) {
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
pub(crate) const fn pair(start_gpu_ns: u64, stop_gpu_ns: u64) -> Result<(u64, u64), Distrust> {
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
pub(crate) struct Stamps {
    distrusted: BTreeMap<Row<KernelCh>, Distrust>,
}

/// A kernel channel with stamps, in the order of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    context: ContextName,
    channel: u8,
    /// When its kernel was enqueued.
    enqueued: u64,
    plan: u64,
    start_gpu_ns: u64,
    stop_gpu_ns: u64,
    row: Row<KernelCh>,
}

impl Stamps {
    /// Looks at the stamps of a process.
    #[must_use]
    pub(crate) fn of(tables: &Tables) -> Self {
        let mut stamps = Self::default();
        let mut works = Vec::new();
        for (row, event) in tables.rows::<KernelCh>() {
            let KernelCh { channel, gpu_ns } = event.fields;
            let stop_ns = event.state_value();
            match pair(gpu_ns, stop_ns) {
                Ok((start_gpu_ns, stop_gpu_ns)) => {
                    works.extend(launched(tables, event).map(|(enqueued, plan)| Work {
                        context: event.context,
                        channel,
                        enqueued,
                        plan,
                        start_gpu_ns,
                        stop_gpu_ns,
                        row,
                    }));
                }
                Err(why) => {
                    // v3 tells no GPU times at all, and one that never stopped no second one.
                    let reported = gpu_ns != 0 || stop_ns != 0;
                    let ended = event.stop().is_some() || stop_ns != 0;
                    if reported && ended {
                        stamps.distrusted.insert(row, why);
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
    pub(crate) fn distrust(&self, row: Row<KernelCh>) -> Option<Distrust> {
        self.distrusted.get(&row).copied()
    }

    /// The GPU's start and stop of a kernel channel, if they are there and can be believed.
    #[must_use]
    pub(crate) fn of_channel(&self, row: Row<KernelCh>, event: &Event<KernelCh>) -> Option<(u64, u64)> {
        let stamps = pair(event.fields.gpu_ns, event.state_value()).ok()?;
        self.distrust(row).is_none().then_some(stamps)
    }

    fn check_ring(&mut self, ring: &[Work]) {
        self.find_repeated(ring, |work| work.start_gpu_ns);
        self.find_repeated(ring, |work| work.stop_gpu_ns);
        let left: Vec<Work> = ring.iter().filter(|work| self.distrust(work.row).is_none()).copied().collect();
        for row in out_of_order(&left) {
            self.distrusted.insert(row, Distrust::OutOfOrder);
        }
    }

    /// Of kernels with the same stamp the slot is that of the last; the others came too late to see theirs.
    fn find_repeated(&mut self, ring: &[Work], stamp: impl Fn(&Work) -> u64) {
        let mut last: BTreeMap<u64, u64> = BTreeMap::new();
        for work in ring.iter().rev().filter(|work| work.plan != 0) {
            let plan = *last.entry(stamp(work)).or_insert(work.plan);
            if plan != work.plan {
                self.distrusted.insert(work.row, Distrust::Repeated);
            }
        }
    }
}

/// When the kernel of a channel was enqueued, and its launch plan (0: unknown).
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

/// Those outside the longest chain of starts that never goes back: the fewest that can be wrong.
fn out_of_order(works: &[Work]) -> Vec<Row<KernelCh>> {
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
    outside.map(|(work, _)| work.row).collect()
}
