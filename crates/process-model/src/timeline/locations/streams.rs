//! Kernels and copies on the locations of their CUDA streams.

use std::collections::BTreeMap;

use crate::links::gpu_work::{GpuStream, What};
use crate::timeline::builder::TimelineBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey, RegionName, Source};
use crate::timeline::location::{LocationKey, Siblings};
use crate::timeline::model::ProcessModel;
use nccl_events::archive::RegionClass;
use nccl_events::ids::index_u32;

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut streams: BTreeMap<GpuStream, Siblings> = BTreeMap::new();
    // The work is sorted by start.
    for (at, work) in model.links.gpu.all.iter().enumerate() {
        let (start, end) = (work.start, work.end);
        let sibling = streams.entry(work.stream).or_default().take(start, end);
        let (class, name) = match work.what {
            What::Copy(copy) => (RegionClass::Copy, RegionName::Copy(copy.kind)),
            What::Kernel(kernel) => (RegionClass::Kernel, RegionName::Mangled(kernel.name)),
        };
        let region = builder.region(RegionKey::new(class, name));
        let at = index_u32(at);
        let instance = RegionInstance::new(Source::Work(at), at, InstanceKind::Work, region);
        let key = LocationKey::Stream(work.stream);
        builder.on_location(key, sibling, TimedInstance { start, end, instance });
    }
}
