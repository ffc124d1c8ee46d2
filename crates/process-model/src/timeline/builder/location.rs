//! A location and its siblings while they are being filled.

use super::TimelineBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, Source};
use crate::timeline::location::LocationKey;
use nccl_events::ids::index_u32;

/// A location and its siblings, to add many instances to.
#[derive(Debug)]
pub struct LocationBuilder<'c> {
    builder: &'c mut TimelineBuilder,
    key: LocationKey,
    is_shown: bool,
    /// Index in [`TimelineBuilder::locations`], by sibling.
    siblings: Vec<Option<usize>>,
}

impl TimelineBuilder {
    pub fn location(&mut self, key: LocationKey) -> LocationBuilder<'_> {
        LocationBuilder { is_shown: self.level.shows(key.kind()), builder: self, key, siblings: Vec::new() }
    }
}

impl LocationBuilder<'_> {
    /// The builder, for counts and regions.
    pub fn builder(&mut self) -> &mut TimelineBuilder {
        self.builder
    }

    #[inline]
    fn instances(&mut self, sibling: usize) -> Option<&mut Vec<TimedInstance>> {
        let number = match self.siblings.get(sibling) {
            Some(&Some(number)) => number,
            _ => self.find(sibling),
        };
        Some(&mut self.builder.locations.get_mut(number)?.instances)
    }

    #[cold]
    fn find(&mut self, sibling: usize) -> usize {
        let number = self.builder.number(self.key, index_u32(sibling));
        if self.siblings.len() <= sibling {
            self.siblings.resize(sibling + 1, None);
        }
        if let Some(known) = self.siblings.get_mut(sibling) {
            *known = Some(number);
        }
        number
    }

    /// Reserves room for `count` more on the location itself, which gets most of the instances.
    pub fn reserve(&mut self, count: usize) {
        if self.is_shown
            && let Some(instances) = self.instances(0)
        {
            instances.reserve(count);
        }
    }

    #[inline]
    pub fn add(&mut self, sibling: usize, instance: TimedInstance) {
        if !self.is_shown {
            return;
        }
        if sibling > 0 && !instance.instance.kind.is_part() {
            self.builder.counts.overflowed += 1;
        }
        self.push(sibling, instance);
    }

    /// Adds consecutive parts of one event; each ends where the next begins.
    pub fn add_parts(
        &mut self,
        sibling: usize,
        (source, order): (Source, u32),
        parts: &[(InstanceKind, u64)],
        end: u64,
    ) {
        if !self.is_shown {
            return;
        }
        if sibling > 0 {
            self.builder.counts.overflowed += 1;
        }
        for (at, &(kind, begin)) in parts.iter().enumerate() {
            let next = parts.get(at + 1);
            let until = next.map_or(end, |&(_, begin)| begin);
            let instance = RegionInstance {
                source,
                order,
                region: self.builder.regions.of_kind(kind),
                kind,
                is_last: next.is_none(),
            };
            let (start, end) = (begin.min(end), until.min(end));
            self.push(sibling, TimedInstance { start, end, instance });
        }
    }

    #[inline]
    fn push(&mut self, sibling: usize, instance: TimedInstance) {
        self.builder.regions.use_one(instance.instance.region);
        if let Some(instances) = self.instances(sibling) {
            instances.push(instance);
        }
    }
}
