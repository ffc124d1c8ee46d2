//! Ranges and marks of the program, and calls that only a range of NCCL's shows.
//!
//! Pushed ranges and marks are on their thread, where they nest with the calls. Ranges that any thread ends do not
//! nest: they are on a location of their domain.

use crate::timeline::builder::TimelineBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey, RegionName, Source};
use crate::timeline::location::{LocationKey, Siblings};
use crate::timeline::model::ProcessModel;
use job::ranges::{RangeEnd, RangeRole};
use nccl_events::archive::RegionClass;
use nccl_events::ids::index_u32;
use tables::ranges::{RangeAt, RangeKind};

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let ranges = &model.tables.ranges;
    builder.counts.take_range_counts(ranges.counts);
    let links = &model.links.ranges;
    let mut started: Vec<(u32, TimedInstance)> = Vec::new();
    for (at, (range, role)) in (0..).zip(ranges.all.iter().zip(&links.roles)) {
        let Some((class, name)) = region(range, *role, builder) else {
            continue;
        };
        match links.end(at, range) {
            RangeEnd::Known => {}
            RangeEnd::Bounded => builder.counts.ranges_closed += 1,
            RangeEnd::Open => builder.counts.ranges_unfinished += 1,
        }
        let region = builder.region(RegionKey::new(class, name));
        let instance = RegionInstance::new(Source::Range(at), range.order, InstanceKind::Range, region);
        let shown = TimedInstance { start: range.start, end: range.end(model.tables.span.1), instance };
        match range.kind {
            RangeKind::Started { .. } => {
                let domain = links.domains.iter().position(|domain| *domain == range.range.domain);
                started.push((index_u32(domain.unwrap_or(0)), shown));
            }
            RangeKind::Pushed { .. } | RangeKind::Mark => builder.on_thread(range.thread, shown),
        }
    }
    nccl_events::sort::sort_by_key(&mut started, |(domain, shown)| (*domain, shown.start, shown.instance.order));
    for of_domain in started.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(domain, shown) in of_domain {
            let sibling = siblings.take(shown.start, shown.end);
            builder.on_location(LocationKey::Ranges(domain), sibling, shown);
        }
    }
}

/// Class and name of the region of a range, which is counted; `None` if the range is not shown.
fn region(range: &RangeAt, role: RangeRole, builder: &mut TimelineBuilder) -> Option<(RegionClass, RegionName)> {
    let counts = &mut builder.counts;
    let (counter, shown) = match (role, range.kind) {
        (RangeRole::Reported, _) => (&mut counts.ranges_reported, None),
        (RangeRole::Call, _) => (&mut counts.ranges_nccl, Some((RegionClass::Api, RegionName::Call(range.range.name)))),
        (RangeRole::User, kind) => {
            let name = RegionName::Range(range.range.domain, range.range.name);
            match kind {
                RangeKind::Mark => (&mut counts.ranges_marks, Some((RegionClass::Mark, name))),
                RangeKind::Pushed { .. } | RangeKind::Started { .. } => {
                    (&mut counts.ranges_user, Some((RegionClass::User, name)))
                }
            }
        }
    };
    *counter += 1;
    shown
}
