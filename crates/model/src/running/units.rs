//! Units: events that are settled together. Rows get their units once all records of their time have been read.

use crate::links::intervals::enqueued;
use crate::links::launches::ReportedOperation;
use crate::links::transfers::{ConnectionKey, connection};
use crate::running::{RunningProcess, is_operation};
use crate::tables::events::ContextName;
use crate::tables::{EventRow, OperationRow};
use nccl_events::event::{GroupApi, ProxyOp};
use nccl_events::ids::index;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A unit's number, which is 0 for a row that has none yet, and what is known of the row itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) unit: u32,
    /// Of an operation: children that have not ended.
    pub(super) open: u16,
    /// Of an operation: it or a child has a stop. Of a call: it has an operation. Of a plan: its unit counts it.
    pub(super) is_marked: bool,
}

/// Events that are settled together: a call's group with all below it, or less if something was not recorded.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// The unit that this one is part of; 0 if it is not.
    pub(super) part_of: u32,
    /// The captured groups with the calls of the operations.
    pub(super) captured: Few<u32>,
    pub(super) is_captured: bool,
    pub(super) is_settled: bool,
    pub(super) has_times: bool,
    /// Whether operations or transfers are in it.
    pub(super) has_work: bool,
    /// The last record before the present epoch's end.
    pub(super) last: u64,
    /// When the first of its kernels was enqueued.
    pub(super) enqueued: u64,
    /// Transfers and kernel channels without an end.
    pub(super) open: u32,
    /// Operations without an end, of their own or of a child.
    pub(super) unended: u32,
    pub(super) open_groups: u32,
    pub(super) operations: u32,
    /// Operations whose children would show nothing.
    pub(super) by_copy_engines: u32,
    pub(super) calls: u32,
    pub(super) calls_served: u32,
    pub(super) launches: u32,
    pub(super) plans: u32,
    pub(super) contexts: Few<ContextName>,
    /// Events whose work the GPU times: launches, and collectives of copy engines.
    pub(super) timed: Few<u64>,
    /// The ids of all its events.
    pub(super) events: SmallVec<[u64; 12]>,
}

pub(super) type Few<T> = SmallVec<[T; 1]>;

impl Unit {
    /// Whether no more operations will come: each call has one, or each launch has its plan.
    pub(super) const fn is_served(&self) -> bool {
        self.calls_served >= self.calls || self.launches > 0 && self.plans >= self.launches
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.open == 0 && self.unended == 0
    }

    pub(super) fn add(&mut self, other: &mut Self) {
        self.is_captured |= other.is_captured;
        self.has_times |= other.has_times;
        self.has_work |= other.has_work;
        self.last = self.last.max(other.last);
        self.enqueued = match (self.operations, other.operations) {
            (_, 0) => self.enqueued,
            (0, _) => other.enqueued,
            _ => self.enqueued.min(other.enqueued),
        };
        self.captured.append(&mut other.captured);
        self.open += other.open;
        self.unended += other.unended;
        self.open_groups += other.open_groups;
        self.operations += other.operations;
        self.by_copy_engines += other.by_copy_engines;
        self.calls += other.calls;
        self.calls_served += other.calls_served;
        self.launches += other.launches;
        self.plans += other.plans;
        for context in other.contexts.drain(..) {
            if !self.contexts.contains(&context) {
                self.contexts.push(context);
            }
        }
        self.timed.append(&mut other.timed);
        self.events.append(&mut other.events);
    }
}

/// A record of an event that already has a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Later {
    pub(super) ticks: u64,
    pub(super) id: u64,
    pub(super) is_stop: bool,
}

/// What NCCL reports of a connection's transfers: the end of all, or nothing.
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) reports: bool,
    /// Transfers without an end, while NCCL has not reported on the connection.
    pub(super) silent: Vec<u64>,
}

/// Calls in a group that a CUDA graph was captured of.
#[derive(Debug, Default)]
pub(super) struct CapturedGroup {
    /// Threads that launched kernels of the group.
    pub(super) launch_threads: Vec<u32>,
    /// The replays of each call.
    pub(super) replays: FxHashMap<u64, u64>,
    /// The units of replays that are not settled.
    pub(super) units: FxHashMap<u64, u32>,
}

impl RunningProcess {
    pub(super) fn assign(&mut self, now: u64) {
        self.places.extend(&self.rows.tables.events);
        // Parents come before their children, and the number of a replay follows from the order.
        for order in 0..self.coming.len() {
            let Some(coming) = self.coming.get_mut(order) else {
                continue;
            };
            let mut due: Vec<(u64, u64)> = coming.extract_if(.., |(start, _)| *start < now).collect();
            // A stable sort is faster here: the input has a few sorted runs.
            due.sort();
            for (_, id) in due {
                if let Some(row) = self.rows.tables.find(id) {
                    self.assign_row(row, id, now);
                }
            }
        }
        let active = std::mem::take(&mut self.active);
        self.active = active
            .into_iter()
            .filter(|unit| self.units.get(index(*unit)).is_some_and(|unit| unit.part_of == 0))
            .collect();
    }

    fn assign_row(&mut self, row: EventRow, id: u64, now: u64) {
        let Some((parent_id, start)) = self.rows.tables.head(row).map(|head| (head.parent, head.start)) else {
            return;
        };
        let parent = self.rows.tables.find(parent_id).filter(|_| parent_id != 0);
        let above = parent.map(|parent| self.places.get(parent).unit).filter(|unit| !self.is_settled(*unit));
        let is_child = matches!(row, EventRow::ProxyOp(_) | EventRow::ProxyStep(_) | EventRow::KernelCh(_));
        if is_child && above.is_none() && self.seen.has_begun(parent_id) {
            self.count_late(id);
        }
        let unit = match row {
            EventRow::Coll(_) | EventRow::P2p(_) | EventRow::CeColl(_) => {
                self.unit_of_operation(row, parent, above, now)
            }
            _ => above.unwrap_or_else(|| self.new_unit()),
        };
        if let Some(place) = self.places.get_mut(row) {
            place.unit = unit;
        }
        self.count(unit, |unit| {
            unit.events.push(id);
            unit.last = unit.last.max(start);
        });
        let stop = self.times(row, now);
        match row {
            EventRow::GroupApi(_) if stop.is_none() => self.count(unit, |unit| unit.open_groups += 1),
            EventRow::CollApi(_) | EventRow::P2pApi(_) => {
                let is_captured = self.rows.tables.is_captured(row);
                self.count(unit, |unit| {
                    unit.calls += 1;
                    unit.is_captured |= is_captured;
                });
                if is_captured {
                    let _group = self.captured.entry(self.whole(unit)).or_default();
                }
            }
            EventRow::KernelLaunch(row) => {
                let thread = self.rows.tables[row].thread;
                self.count(unit, |unit| {
                    unit.launches += 1;
                    unit.timed.push(id);
                });
                if let Some(group) = self.captured.get_mut(&self.whole(unit)) {
                    group.launch_threads.push(self.rows.tables.first_index_of_thread(thread));
                }
            }
            EventRow::Coll(_) | EventRow::P2p(_) | EventRow::CeColl(_) => self.add_operation(row, unit, stop.is_some()),
            EventRow::ProxyOp(transfer) => {
                let key = connection(&self.rows.tables, &self.rows.tables[transfer]);
                let shown = stop.is_some() || self.rows.tables.events.state_times(row).any(|time| time < now);
                self.count(unit, |unit| unit.has_work = true);
                if stop.is_some() {
                    self.mark(row);
                }
                let connection = self.connections.entry(key).or_default();
                match (connection.reports, stop) {
                    (_, Some(_)) => self.child_ended(parent),
                    (true, None) => self.child_began(parent, unit),
                    (false, None) => connection.silent.push(id),
                }
                if shown {
                    self.connection_reports(key);
                }
            }
            EventRow::KernelCh(_) => {
                self.count(unit, |unit| unit.has_work = true);
                if stop.is_some() {
                    self.mark(row);
                    self.child_ended(parent);
                } else {
                    self.child_began(parent, unit);
                }
            }
            EventRow::ProxyStep(_) => {
                self.count(unit, |unit| unit.has_work = true);
                if let Some(key) = parent.and_then(|transfer| self.connection_key(transfer)) {
                    self.connection_reports(key);
                }
            }
            _ => {}
        }
    }

    /// Takes in when a row stopped and changed: returns the stop before `now`. Later times wait.
    fn times(&mut self, row: EventRow, now: u64) -> Option<u64> {
        let tables = &self.rows.tables;
        let head = tables.head(row)?;
        let (id, stop) = (head.id, head.stop());
        let states: Few<u64> =
            if head.states_seen == 0 { Few::new() } else { tables.events.state_times(row).collect() };
        let unit = self.places.get(row).unit;
        for (ticks, is_stop) in
            stop.into_iter().map(|stop| (stop, true)).chain(states.into_iter().map(|at| (at, false)))
        {
            if ticks < now {
                self.touch(unit, ticks);
            } else {
                self.later.push(Later { ticks, id, is_stop });
            }
        }
        stop.filter(|stop| *stop < now)
    }

    fn touch(&mut self, unit: u32, ticks: u64) {
        self.count(unit, |unit| unit.last = unit.last.max(ticks));
    }

    fn count(&mut self, unit: u32, change: impl FnOnce(&mut Unit)) {
        if let Some(unit) = self.unit_mut(unit) {
            change(unit);
        }
    }

    /// The unit of an operation: that of its call, or of its replay.
    fn unit_of_operation(&mut self, row: EventRow, call: Option<EventRow>, above: Option<u32>, now: u64) -> u32 {
        let tables = &self.rows.tables;
        let Some(operation) = OperationRow::from_event(row) else {
            return self.new_unit();
        };
        let operation = tables.operation(operation);
        let (plan, id, context) = (operation.plan, operation.id, operation.context);
        let group = above.map(|above| self.whole(above)).filter(|group| self.captured.contains_key(group));
        let unit = match (group, call) {
            (Some(group), Some(call)) => match self.replay(group, call, row, now) {
                Some(replay) => self.unit_of_replay(group, replay, id),
                // It did not run when it was captured.
                None => return group,
            },
            _ => above.unwrap_or_else(|| self.new_unit()),
        };
        let row = self.rows.tables.find(plan).filter(|_| plan != 0);
        let plan_unit = match row {
            Some(row) => Some(self.places.get(row).unit),
            None if plan != 0 => Some(*self.lost_plans.entry(plan).or_insert(unit)),
            None => None,
        };
        let plan_unit = plan_unit.filter(|unit| !self.is_settled(*unit));
        let unit = plan_unit.map_or(unit, |plan_unit| self.unite(unit, plan_unit));
        if let Some(place) = row.filter(|_| plan_unit.is_some()).and_then(|row| self.places.get_mut(row))
            && !std::mem::replace(&mut place.is_marked, true)
        {
            self.count(unit, |unit| unit.plans += 1);
        }
        self.count(unit, |unit| {
            if !unit.contexts.contains(&context) {
                unit.contexts.push(context);
            }
        });
        unit
    }

    /// The number of an operation's replay, 0 if its call was not captured; `None` if it was reported at capture.
    fn replay(&mut self, group: u32, call: EventRow, row: EventRow, now: u64) -> Option<u64> {
        let tables = &self.rows.tables;
        let (Some(head), Some(called)) = (tables.head(row), tables.head(call)) else {
            return Some(0);
        };
        if !tables.is_captured(call) {
            return Some(0);
        }
        let captured = self.captured.get_mut(&group)?;
        let thread = tables.first_index_of_thread(head.thread);
        let reported = ReportedOperation {
            start: head.start,
            is_callers_thread: thread == tables.first_index_of_thread(called.thread),
            thread_launched: captured.launch_threads.contains(&thread),
            group_stop: tables.get::<GroupApi>(called.parent).map(|group| group.stop().filter(|stop| *stop < now)),
        };
        if reported.is_at_capture() {
            return None;
        }
        let replay = captured.replays.entry(called.id).or_insert(0);
        *replay += 1;
        Some(*replay)
    }

    fn unit_of_replay(&mut self, group: u32, replay: u64, operation: u64) -> u32 {
        if replay > 0 {
            self.history.replays.insert(operation, replay);
        }
        let known = self.captured.get(&group).and_then(|group| group.units.get(&replay)).copied();
        if let Some(known) = known.filter(|known| !self.is_settled(*known)) {
            return known;
        }
        let unit = self.new_unit();
        self.count(unit, |unit| unit.captured.push(group));
        if let Some(group) = self.captured.get_mut(&group) {
            group.units.insert(replay, unit);
        }
        unit
    }

    fn add_operation(&mut self, row: EventRow, unit: u32, has_stop: bool) {
        let tables = &self.rows.tables;
        let Some(operation) = OperationRow::from_event(row) else {
            return;
        };
        let by_copy_engines = operation.is_by_copy_engines();
        let operation = tables.operation(operation);
        let enqueued = enqueued(tables, &operation);
        let (id, call) = (operation.id, tables.find(operation.parent));
        // At capture, the operation is in the captured group and did not run.
        if self.unit(unit).is_some_and(|unit| unit.is_captured) {
            return;
        }
        let is_call = |call: &EventRow| matches!(call, EventRow::CollApi(_) | EventRow::P2pApi(_));
        let place = call.filter(is_call).and_then(|call| self.places.get_mut(call));
        let serves = place.is_some_and(|place| !std::mem::replace(&mut place.is_marked, true));
        self.count(unit, |unit| {
            unit.enqueued = if unit.operations == 0 { enqueued } else { unit.enqueued.min(enqueued) };
            unit.operations += 1;
            unit.has_work = true;
            unit.by_copy_engines += u32::from(by_copy_engines);
            unit.calls_served += u32::from(serves);
            unit.unended += u32::from(!has_stop);
            if by_copy_engines {
                unit.timed.push(id);
            }
        });
        if let Some(place) = self.places.get_mut(row) {
            place.is_marked = has_stop;
        }
    }

    fn child_began(&mut self, operation: Option<EventRow>, unit: u32) {
        self.count(unit, |unit| unit.open += 1);
        if let Some(place) = operation.and_then(|operation| self.places.get_mut(operation)) {
            place.open = place.open.saturating_add(1);
        }
    }

    /// A child has an end, so its operation has times.
    fn child_ended(&mut self, operation: Option<EventRow>) {
        let Some(operation) = operation.filter(|row| is_operation(row.kind())) else {
            return;
        };
        let Some(place) = self.places.get_mut(operation) else {
            return;
        };
        let (unit, had_end) = (place.unit, std::mem::replace(&mut place.is_marked, true));
        self.count(unit, |unit| {
            unit.has_times = true;
            unit.unended = unit.unended.saturating_sub(u32::from(!had_end));
        });
    }

    fn connection_key(&self, transfer: EventRow) -> Option<ConnectionKey> {
        Some(connection(&self.rows.tables, &self.rows.tables[transfer.as_row::<ProxyOp>()?]))
    }

    /// NCCL reported on a connection, so it will report the ends of the other transfers on it, too.
    fn connection_reports(&mut self, key: ConnectionKey) {
        let Some(connection) = self.connections.get_mut(&key).filter(|connection| !connection.reports) else {
            return;
        };
        connection.reports = true;
        for id in std::mem::take(&mut connection.silent) {
            let Some(row) = self.rows.tables.find(id) else {
                continue;
            };
            let place = self.places.get(row);
            let operation = self.rows.tables.head(row).and_then(|head| self.rows.tables.find(head.parent));
            if !self.is_settled(place.unit) && !place.is_marked {
                self.child_began(operation, place.unit);
            }
        }
    }

    /// Takes in records of events that already have units.
    pub(super) fn take_later(&mut self, now: u64) {
        let mut later = std::mem::take(&mut self.later);
        let due: Vec<Later> = later.extract_if(.., |later| later.ticks < now).collect();
        self.later = later;
        for Later { ticks, id, is_stop } in due {
            let Some(row) = self.rows.tables.find(id) else {
                continue;
            };
            let place = self.places.get(row);
            if self.is_settled(place.unit) {
                continue;
            }
            self.touch(place.unit, ticks);
            let parent = self.rows.tables.head(row).and_then(|head| self.rows.tables.find(head.parent));
            match row {
                EventRow::ProxyOp(_) => {
                    if let Some(key) = self.connection_key(row) {
                        self.connection_reports(key);
                    }
                    if is_stop {
                        self.end_child(row, parent);
                    }
                }
                EventRow::KernelCh(_) if is_stop => self.end_child(row, parent),
                EventRow::GroupApi(_) if is_stop && !place.is_marked => {
                    self.mark(row);
                    self.count(place.unit, |unit| unit.open_groups = unit.open_groups.saturating_sub(1));
                }
                EventRow::Coll(_) | EventRow::P2p(_) | EventRow::CeColl(_) if is_stop && !place.is_marked => {
                    self.mark(row);
                    self.count(place.unit, |unit| unit.unended = unit.unended.saturating_sub(1));
                }
                _ => {}
            }
        }
    }

    fn mark(&mut self, row: EventRow) -> bool {
        self.places.get_mut(row).is_some_and(|place| std::mem::replace(&mut place.is_marked, true))
    }

    /// A transfer or kernel channel that was open has stopped.
    fn end_child(&mut self, row: EventRow, operation: Option<EventRow>) {
        if self.mark(row) {
            return;
        }
        let unit = self.places.get(row).unit;
        self.count(unit, |unit| unit.open = unit.open.saturating_sub(1));
        if let Some(place) = operation.and_then(|operation| self.places.get_mut(operation)) {
            place.open = place.open.saturating_sub(1);
        }
        self.child_ended(operation);
    }
}
