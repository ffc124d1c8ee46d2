//! Kernel channels → operations.

use super::operations::Activities;
use crate::links::stamps::Stamps;
use tables::{KernelCh, Tables};

fn widen(interval: Option<(u64, u64)>, start: u64, end: u64) -> Option<(u64, u64)> {
    Some(interval.map_or((start, end), |(first, last)| (first.min(start), last.max(end))))
}

pub(super) fn add_to(tables: &Tables, stamps: &Stamps, activities: &mut Activities) {
    for (row, channel) in tables.rows::<KernelCh>() {
        let Some(activity) = activities.get_mut(tables, channel.parent) else {
            continue;
        };
        activity.kernel_channels += 1;
        activity.unfinished |= channel.stop().is_none();
        if let Some((start, stop)) = stamps.of_channel(row, channel) {
            activity.gpu = widen(activity.gpu, start, stop);
        }
        if let Some(stop) = channel.stop() {
            activity.kernel_host = widen(activity.kernel_host, channel.start, stop);
        }
    }
}
