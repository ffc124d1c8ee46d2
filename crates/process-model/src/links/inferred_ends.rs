//! Infers ends that NCCL did not report: a proxy step ends when its slot is used again or its proxy operation stops; a
//! state of a proxy thread ends when the thread enters the next.

use std::collections::BTreeMap;

use job::transfers::slot;
use nccl_events::Kind;
use nccl_events::sort::Gather;
use tables::{ProxyCtrl, ProxyOp, ProxyStep, Row, Tables};

#[derive(Debug, Default)]
pub struct InferredEnds {
    /// Steps without a stop. NCCL 2.24–2.26 forgets the stop of some receive steps.
    pub steps: BTreeMap<Row<ProxyStep>, u64>,
    /// Proxy thread states without a stop: one at a time for a thread. NCCL reports none if taking operations fails.
    pub controls: BTreeMap<Row<ProxyCtrl>, u64>,
}

pub(super) fn of(tables: &Tables) -> InferredEnds {
    let has_open = |kind| tables.counts.kinds.get(kind).unfinished > 0;
    let mut ends = InferredEnds::default();
    if has_open(Kind::ProxyStep) {
        ends.steps = of_steps(tables);
    }
    if has_open(Kind::ProxyCtrl) {
        ends.controls = of_controls(tables);
    }
    ends
}

fn of_steps(tables: &Tables) -> BTreeMap<Row<ProxyStep>, u64> {
    let rows = tables.rows::<ProxyStep>();
    let order = rows.map(|(row, event)| (event.parent, slot(event.fields.step), event.start, row));
    let mut order: Vec<(u64, u8, u64, Row<ProxyStep>)> = order.collect();
    order.sort_unstable();
    let mut ends = BTreeMap::new();
    for of_slot in order.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        let restarts = of_slot.iter().skip(1).map(|&(_, _, start, _)| Some(start));
        for (&(parent, _, start, row), restart) in of_slot.iter().zip(restarts.chain([None])) {
            // Without a known operation the slot is unknown: NCCL passes no parent, or the parent was lost.
            let (None, Some(op)) = (tables[row].stop(), tables.get::<ProxyOp>(parent)) else {
                continue;
            };
            let stop = op.stop().map(|stop| stop.max(start));
            ends.extend([restart, stop].into_iter().flatten().min().map(|end| (row, end)));
        }
    }
    ends
}

fn of_controls(tables: &Tables) -> BTreeMap<Row<ProxyCtrl>, u64> {
    let order =
        tables.rows::<ProxyCtrl>().map(|(row, event)| (tables.first_index_of_thread(event.thread), event.start, row));
    let mut order: Vec<(u32, u64, Row<ProxyCtrl>)> = order.collect();
    nccl_events::sort::sort(&mut order);
    let pairs = order.iter().zip(order.iter().skip(1));
    let open =
        pairs.filter(|((thread, _, row), (next_thread, ..))| thread == next_thread && tables[*row].stop().is_none());
    open.map(|(&(_, _, row), &(_, next, _))| (row, next)).gather()
}
