//! Phases of a kernel channel, nested in it. Only their GPU times mean something: NCCL reports all three after the
//! fact. A phase is shown only if its channel and the phase itself have plausible GPU times.

use std::collections::BTreeMap;

use crate::links::stamps::count;
use crate::timeline::builder::LocationBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey, RegionName};
use crate::timeline::model::ProcessModel;
use clocks::gpu::GpuClock;
use job::stamps::{Distrust, pair};
use nccl_events::Kind;
use nccl_events::archive::RegionClass;
use tables::{KernelCh, KernelPhase, Row};

pub(super) type Phases = BTreeMap<Row<KernelCh>, Vec<Row<KernelPhase>>>;

pub(super) fn by_channel(model: &ProcessModel<'_>) -> Phases {
    let mut phases = Phases::new();
    for (row, phase) in model.tables.rows::<KernelPhase>() {
        if let Some(channel) = model.tables.find_as::<KernelCh>(phase.parent) {
            phases.entry(channel).or_default().push(row);
        }
    }
    phases
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) sibling: usize,
    pub(super) span: (u64, u64),
    /// The clock that converted the span.
    pub(super) clock: &'a GpuClock,
}

pub(super) fn build(
    model: &ProcessModel<'_>,
    location: &mut LocationBuilder<'_>,
    phases: &[Row<KernelPhase>],
    around: Around<'_>,
) {
    let (from, to) = around.span;
    let mut spans: Vec<(u64, u64, Row<KernelPhase>)> = Vec::with_capacity(phases.len());
    for &row in phases {
        let phase = &model.tables[row];
        let (start, stop) = match pair(phase.fields.gpu_ns, phase.state_value()) {
            Ok(stamps) => stamps,
            Err(why) => {
                count(why, &mut location.builder().counts);
                continue;
            }
        };
        let (start, stop) = (around.clock.host_ns(start), around.clock.host_ns(stop));
        // A phase outside its channel belongs to another: the ring has been overrun.
        if start < from || stop > to {
            count(Distrust::Outside, &mut location.builder().counts);
            continue;
        }
        spans.push((start, stop, row));
    }
    nccl_events::sort::sort(&mut spans);
    let mut free_from = from;
    for (start, end, row) in spans {
        // Phases follow each other; stamps that overlap belong to different works.
        if start < free_from {
            count(Distrust::Outside, &mut location.builder().counts);
            continue;
        }
        free_from = end;
        let phase = &model.tables[row];
        location.builder().shown(Kind::KernelPhase);
        let name = RegionName::Text(phase.fields.name);
        let key = RegionKey::new(RegionClass::Channel, name).showing(Kind::KernelPhase);
        let region = location.builder().region(key);
        let instance = RegionInstance::of(row, phase.order, InstanceKind::Phase, region);
        location.add(around.sibling, TimedInstance { start, end, instance });
    }
}
