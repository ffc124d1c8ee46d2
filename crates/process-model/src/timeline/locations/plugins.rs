//! A network plugin's reports of its own work for a step, e.g. each queue pair's part of a message.
//!
//! Plugin events overlap the phases of a step, so they have a row of their own under that of the step's slot;
//! overlapping parts of one message go to its siblings.

use super::steps;
use crate::timeline::builder::TimelineBuilder;
use crate::timeline::events::TimedInstance;
use crate::timeline::instance::{InstanceKind, RegionInstance, RegionKey, RegionName};
use crate::timeline::location::{LocationKey, Siblings};
use crate::timeline::model::ProcessModel;
use nccl_events::archive::RegionClass;
use nccl_events::{Kind, NetData};
use tables::{NetPlugin, ProxyStep, Row};

/// The region of a network plugin's work, named after the plugin if known.
fn region(fields: &NetPlugin, sends: bool) -> RegionKey {
    let name = match (fields.data, sends) {
        (NetData::IbQueuePair { .. }, true) => RegionName::Fixed("ibSend"),
        (NetData::IbQueuePair { .. }, false) => RegionName::Fixed("ibRecv"),
        (NetData::Socket { .. }, true) => RegionName::Fixed("socketSend"),
        (NetData::Socket { .. }, false) => RegionName::Fixed("socketRecv"),
        (NetData::Opaque, _) => RegionName::Plugin(fields.id),
    };
    RegionKey::new(RegionClass::Network, name).showing(Kind::NetPlugin)
}

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut order: Vec<(LocationKey, u64, Row<NetPlugin>)> = Vec::new();
    for (row, event) in model.tables.rows::<NetPlugin>() {
        let step = model.tables.get::<ProxyStep>(event.parent);
        let location = step.and_then(|step| steps::location(model, builder, step));
        if let Some(LocationKey::Step(owner, channel, send, peer, slot)) = location {
            order.push((LocationKey::Plugin(owner, channel, send, peer, slot), event.start, row));
        }
    }
    nccl_events::sort::sort(&mut order);
    for of_location in order.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(key, start, row) in of_location {
            let event = &model.tables[row];
            let sends = matches!(key, LocationKey::Plugin(_, _, true, ..));
            let kind = if sends { InstanceKind::PluginSend } else { InstanceKind::PluginReceive };
            let region = builder.region(region(&event.fields, sends));
            let instance = RegionInstance::of(row, event.order, kind, region);
            let end = model.end(event).max(start);
            let sibling = siblings.take(start, end);
            builder.shown(Kind::NetPlugin);
            builder.on_location(key, sibling, TimedInstance { start, end, instance });
        }
    }
}
