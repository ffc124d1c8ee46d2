//! Phases of a kernel channel, nested in it. Only their GPU times mean something: NCCL tells all three
//! after the fact. Where the channel or a phase has no sensible GPU times the phase is not drawn.

use nccl_events::event;
use std::collections::BTreeMap;

use crate::clocks::gpu::GpuClock;
use crate::links::stamps::{Distrust, pair};
use crate::timeline::canvas::{Row, Scene};
use crate::timeline::figure::{Figure, Shape};
use crate::timeline::lanes::Item;
use nccl_events::Body;
use nccl_events::Kind;

/// The phases of each kernel channel, by place of the channel.
pub(super) type Phases = BTreeMap<u32, Vec<u32>>;

pub(super) fn by_channel(scene: &Scene<'_>) -> Phases {
    let mut phases = Phases::new();
    for (at, operation) in scene.assembly.of_kind(Kind::KernelPhase) {
        if let Some(channel) = operation.parent_at() {
            phases.entry(channel).or_default().push(at);
        }
    }
    phases
}

/// Where a kernel channel is drawn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    /// Which sibling.
    pub(super) lane: usize,
    /// From, to.
    pub(super) span: (u64, u64),
    /// The clock that the span was made with.
    pub(super) clock: &'a GpuClock,
}

/// Draws phases in the channel around them.
pub(super) fn draw(scene: &Scene<'_>, row: &mut Row<'_>, phases: &[u32], around: Around<'_>) {
    let (from, to) = around.span;
    let mut spans: Vec<(u64, u64, u32)> = Vec::with_capacity(phases.len());
    for &at in phases {
        let Some(operation) = scene.assembly.operation(at) else {
            continue;
        };
        let Body::KernelPhase(event::KernelPhase { gpu_ns, .. }) =
            scene.assembly.fields_of(operation)
        else {
            continue;
        };
        let (start, stop) = match pair(gpu_ns, scene.assembly.value_of(at, operation)) {
            Ok(stamps) => stamps,
            Err(why) => {
                why.count(&mut row.canvas().counts);
                continue;
            }
        };
        let (start, stop) = (around.clock.host_ns(start), around.clock.host_ns(stop));
        // One that lies outside its channel is not of it: the ring has been overrun.
        if start < from || stop > to {
            Distrust::Outside.count(&mut row.canvas().counts);
            continue;
        }
        spans.push((start, stop, at));
    }
    spans.sort_unstable();
    let mut free_from = from;
    for (start, end, at) in spans {
        // Phases follow each other; stamps that say otherwise are of different works.
        if start < free_from {
            Distrust::Outside.count(&mut row.canvas().counts);
            continue;
        }
        free_from = end;
        row.canvas().drawn(at);
        let figure = Figure::of(at, Shape::Phase);
        row.draw(around.lane, Item { start, end, figure });
    }
}
