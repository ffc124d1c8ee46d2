//! The states of a proxy thread between transfers: it idles, sleeps, wakes up and takes operations. They have a row of
//! their own: a thread's calls nest, and these states belong to no call.
//!
//! ```text
//!   sleep:   start ─ ProxySleep ── 16 ─ ProxyWakeup ─ stop
//!   append:  start ─ ProxyAppend ─ 18 ─────────────── stop
//! ```
//!
//! Up to NCCL 2.26 every turn of the loop starts and stops an event without a state, which is counted and not shown.

use crate::timeline::builder::TimelineBuilder;
use crate::timeline::instance::{InstanceKind, Source};
use crate::timeline::location::{LocationKey, Siblings};
use crate::timeline::locations::parts::Parts;
use crate::timeline::model::ProcessModel;
use nccl_events::{Kind, state};
use tables::{Event, EventRow, ProxyCtrl, Row};

const fn phase(number: u32) -> Option<InstanceKind> {
    match number {
        state::PROXY_CTRL_IDLE => Some(InstanceKind::ProxyIdle),
        state::PROXY_CTRL_ACTIVE => Some(InstanceKind::ProxyActive),
        state::PROXY_CTRL_SLEEP => Some(InstanceKind::ProxySleep),
        state::PROXY_CTRL_WAKEUP => Some(InstanceKind::ProxyWakeup),
        state::PROXY_CTRL_APPEND | state::PROXY_CTRL_APPEND_END => Some(InstanceKind::ProxyAppend),
        _ => None,
    }
}

/// The states of the thread with their beginnings, in order; empty if NCCL reported none.
fn phases(control: &Event<ProxyCtrl>) -> Parts {
    let mut phases = Parts::new();
    for (number, time) in control.states() {
        let Some(kind) = phase(number) else {
            continue;
        };
        // Nothing is known about the time before the first state, so the first begins at the start.
        let begin = if phases.is_empty() { control.start } else { time.max(control.start) };
        phases.add(kind, begin);
    }
    phases
}

pub(super) fn build(model: &ProcessModel<'_>, builder: &mut TimelineBuilder) {
    let mut order: Vec<(LocationKey, u64, Row<ProxyCtrl>)> = Vec::new();
    for (row, control) in model.tables.rows::<ProxyCtrl>() {
        let thread = model.tables.first_index_of_thread(control.thread);
        order.push((LocationKey::Proxy(thread), control.start, row));
    }
    nccl_events::sort::sort(&mut order);
    for of_thread in order.chunk_by(|a, b| a.0 == b.0) {
        let mut siblings = Siblings::default();
        for &(key, start, row) in of_thread {
            let control = &model.tables[row];
            let phases = phases(control);
            if phases.is_empty() {
                continue;
            }
            let inferred = model.links.inferred_ends.controls.get(&row).copied();
            builder.counts.closed += u64::from(inferred.is_some());
            let end = inferred.unwrap_or_else(|| model.end(control)).max(start);
            let sibling = siblings.take(start, end);
            builder.shown(Kind::ProxyCtrl);
            let of = (Source::Event(EventRow::ProxyCtrl(row)), control.order);
            builder.location(key).add_parts(sibling, of, phases.all(), end);
        }
    }
}
