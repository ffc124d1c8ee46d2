//! Decides which GPU stamps of a process can be trusted.

use std::collections::BTreeMap;

use job::stamps::{Distrust, Work, judge, pair};
use nccl_events::schema::Counts;
use tables::{ContextName, Event, EventRow, KernelCh, Row, Tables};

pub fn count(why: Distrust, counts: &mut Counts) {
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
type InRing = (ContextName, u8, Work<Row<KernelCh>>);

impl Stamps {
    pub fn of(tables: &Tables) -> Self {
        let mut stamps = Self::default();
        let mut works = Vec::new();
        for (row, event) in tables.rows::<KernelCh>() {
            let KernelCh { channel, gpu_ns } = event.fields;
            let stop_ns = event.state_value();
            match pair(gpu_ns, stop_ns) {
                Ok((start_gpu_ns, stop_gpu_ns)) => {
                    works.extend(launched(tables, event).map(|(enqueued, plan)| -> InRing {
                        (event.context, channel, Work { enqueued, plan, start_gpu_ns, stop_gpu_ns, of: row })
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
            judge(&ring, |row, why| {
                stamps.distrusted.insert(row, why);
            });
        }
        stamps
    }

    /// Why the stamps of a kernel channel are distrusted; `None` if they are not.
    pub fn distrust(&self, row: Row<KernelCh>) -> Option<Distrust> {
        self.distrusted.get(&row).copied()
    }

    /// The GPU's start and stop of a kernel channel, if reported and trusted.
    #[inline]
    pub fn of_channel(&self, row: Row<KernelCh>, event: &Event<KernelCh>) -> Option<(u64, u64)> {
        let stamps = pair(event.fields.gpu_ns, event.state_value()).ok()?;
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
