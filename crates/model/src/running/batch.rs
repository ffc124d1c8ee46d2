//! What a step settles: its tables, in the order of a whole journal, with the records of GPUs.

use std::collections::VecDeque;

use crate::links::gpu_stamps::{StampedKernel, check_stamps};
use crate::links::intervals::enqueued;
use crate::running::units::{Place, Unit};
use crate::running::{KINDS, OPERATIONS, RunningProcess, is_operation, rows_of};
use crate::tables::{ContextName, EventRow, GpuAt, OperationRow};
use nccl_events::event::KernelCh;
use nccl_events::gpu::{GpuClock, GpuRecord};
use nccl_events::ids::{index, index_u32};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// Limits on samples of a clock, and on launches with times.
const MOST_SAMPLES: usize = 256;
const MOST_TIMES: usize = 1 << 16;

impl RunningProcess {
    pub(super) fn fill_batch(&mut self, over: &[u32], now: u64) {
        let mut is_in = vec![false; self.units.len()];
        for &number in over {
            let captured = self.units.get(index(number)).map_or(&[][..], |unit| &unit.captured);
            for number in captured.iter().chain([&number]) {
                if let Some(is_in) = is_in.get_mut(index(*number)) {
                    *is_in = true;
                }
            }
        }
        let tables = &self.rows.tables;
        let mut rows: Vec<(u64, EventRow)> = Vec::new();
        for unit in self.units.iter().zip(&is_in).filter_map(|(unit, is_in)| is_in.then_some(unit)) {
            let found = unit.events.iter().filter_map(|&id| Some((id, tables.find(id)?)));
            // What was reported at capture did not run.
            rows.extend(found.filter(|(_, row)| !(unit.is_captured && is_operation(row.kind()))));
        }
        // Ids count up by slot, and within a slot. A stable sort is faster here: the input has a few sorted runs.
        rows.sort_by_key(|&(id, _)| id);
        let is_launch = |row: EventRow| matches!(row, EventRow::KernelLaunch(_) | EventRow::CeColl(_));
        let launches = rows.iter().filter(|(_, row)| is_launch(*row)).map(|(id, _)| *id);
        let gpu = self.gpu.take(launches, now);
        self.batch.refill(tables, rows.into_iter().map(|(_, row)| row), gpu);
    }

    /// Kernels whose operations are not over show whether stamps of settled ones are repeated.
    pub(super) fn collect_coming(&mut self, now: u64) {
        self.history.rings.coming.clear();
        let mut last: FxHashMap<(ContextName, u8), [u64; 3]> = FxHashMap::default();
        for (_, event) in self.batch.rows::<KernelCh>() {
            let last = last.entry((event.context, event.fields.channel)).or_default();
            let times = [event.start, event.fields.gpu_ns, event.state_value()];
            last.iter_mut().zip(times).for_each(|(last, time)| *last = time.max(*last));
        }
        let tables = &self.rows.tables;
        for (row, event) in tables.rows::<KernelCh>() {
            let place = self.places.get(EventRow::KernelCh(row));
            let has_stopped = event.stop().is_some_and(|stop| stop < now);
            if place.unit == 0 || !has_stopped || self.is_settled(place.unit) {
                continue;
            }
            // One that was reported later with later stamps changes nothing.
            let times = [event.start, event.fields.gpu_ns, event.state_value()];
            let last = last.get(&(event.context, event.fields.channel));
            if last.is_none_or(|last| last.iter().zip(times).all(|(last, time)| *last < time)) {
                continue;
            }
            let Ok((start_gpu_ns, stop_gpu_ns)) = check_stamps(event.fields.gpu_ns, event.state_value()) else {
                continue;
            };
            if let Some(operation) = tables.find(event.parent).and_then(OperationRow::from_event) {
                let operation = tables.operation(operation);
                let enqueued = enqueued(tables, &operation);
                let kernel = StampedKernel { enqueued, plan: operation.plan, start_gpu_ns, stop_gpu_ns, of: () };
                self.history.rings.coming.push(((tables.context_of(event), event.fields.channel), kernel));
            }
        }
    }

    /// Forgets settled units, and from time to time their rows.
    pub(super) fn forget(&mut self, over: &[u32]) {
        let tables = &self.rows.tables;
        for &number in over {
            let Some(unit) = self.units.get_mut(index(number)) else {
                continue;
            };
            unit.events = SmallVec::new();
            let captured = std::mem::take(&mut unit.captured);
            for group in captured {
                if let Some((group, mut calls)) = self.captured.remove_entry(&group) {
                    calls.units.retain(|_, unit| self.whole(*unit) != number);
                    self.captured.insert(group, calls);
                }
            }
        }
        self.settled_rows += KINDS.into_iter().map(|kind| self.batch.events.count(kind)).sum::<usize>();
        let rows: usize = KINDS.into_iter().map(|kind| tables.events.count(kind)).sum();
        if self.settled_rows * 5 < rows {
            return;
        }
        self.settled_rows = 0;
        if !self.history.replays.is_empty() {
            for row in OPERATIONS.into_iter().flat_map(|kind| rows_of(tables, kind)) {
                let unit = self.places.get(row).unit;
                if unit != 0
                    && self.is_settled(unit)
                    && let Some(head) = tables.head(row)
                {
                    self.history.replays.remove(&head.id);
                }
            }
        }
        let whole: Vec<u32> = (0..index_u32(self.units.len())).map(|number| self.whole(number)).collect();
        let renumber = |unit: &mut u32| *unit = whole.get(index(*unit)).copied().unwrap_or(0);
        self.captured.values_mut().for_each(|group| group.units.values_mut().for_each(renumber));
        self.lost_plans.values_mut().for_each(renumber);
        let units = &self.units;
        self.lost_plans.retain(|_, unit| units.get(index(*unit)).is_some_and(|unit| !unit.is_settled));
        for place in self.places.values_mut() {
            renumber(&mut place.unit);
        }
        let stays =
            |place: &Place| place.unit == 0 || units.get(index(place.unit)).is_some_and(|unit| !unit.is_settled);
        self.rows.tables.events.retain(&mut self.places, stays);
        self.rows.tables.find_rows_anew();
        for (number, unit) in (0..).zip(&mut self.units).skip(1) {
            if unit.is_settled || unit.part_of != 0 {
                *unit = Unit::default();
                self.free.push(number);
            }
        }
        // A number is free once.
        self.free.sort_unstable();
        self.free.dedup();
    }
}

/// What the GPU reported of launches and of copy engines' collectives.
#[derive(Debug, Default)]
pub(super) struct GpuTimes {
    /// Records of devices.
    devices: Vec<GpuAt>,
    times: FxHashMap<u64, Vec<GpuAt>>,
    order: VecDeque<u64>,
    samples: FxHashMap<(GpuClock, u32), VecDeque<GpuAt>>,
}

impl GpuTimes {
    pub(super) fn add(&mut self, at: GpuAt) {
        match at.record {
            GpuRecord::Clock(sample) => {
                let samples = self.samples.entry((sample.clock, sample.ordinal)).or_default();
                samples.push_back(at);
                if samples.len() > MOST_SAMPLES {
                    samples.pop_front();
                }
            }
            GpuRecord::Kernel(_) | GpuRecord::Copy(_) | GpuRecord::LaunchTime(_) if at.id != 0 => {
                let times = self.times.entry(at.id).or_insert_with(|| {
                    self.order.push_back(at.id);
                    Vec::new()
                });
                times.push(at);
                while self.order.len() > MOST_TIMES {
                    if let Some(oldest) = self.order.pop_front() {
                        self.times.remove(&oldest);
                    }
                }
            }
            GpuRecord::Device(_) | GpuRecord::DeviceOfCommunicator { .. } => self.devices.push(at),
            _ => {}
        }
    }

    fn times(&self, launch: u64, now: u64) -> impl Iterator<Item = &GpuAt> {
        self.times.get(&launch).into_iter().flatten().filter(move |at| at.time < now)
    }

    /// The first time of a launch that is not before `now`.
    pub(super) fn next_time(&self, now: u64) -> Option<u64> {
        self.times.values().flatten().map(|at| at.time).filter(|time| *time >= now).min()
    }

    /// Whether the GPU timed all launches of a unit, whose operations have therefore ended.
    pub(super) fn has_timed_all(&self, unit: &Unit, now: u64) -> bool {
        !unit.timed.is_empty() && unit.timed.iter().all(|id| self.times(*id, now).next().is_some())
    }

    /// Whether times of a unit's launches, or the next samples of their clocks, are still expected.
    pub(super) fn awaits(&self, unit: &Unit, now: u64) -> bool {
        let mut launches = unit.timed.iter();
        !self.samples.is_empty()
            && launches.any(|id| {
                let mut times = self.times(*id, now).peekable();
                times.peek().is_none() || times.any(|at| self.is_before_sample(at, now))
            })
    }

    /// Whether no sample of a time's clock is later.
    fn is_before_sample(&self, at: &GpuAt, now: u64) -> bool {
        let clock = if matches!(at.record, GpuRecord::LaunchTime(_)) { GpuClock::Events } else { GpuClock::Cupti };
        let of_clock = self.samples.iter().filter(|((of, _), _)| *of == clock);
        !of_clock.flat_map(|(_, samples)| samples).any(|sample| (at.time..now).contains(&sample.time))
    }

    /// The records for some launches, and of all devices and clocks.
    pub(super) fn take(&mut self, launches: impl Iterator<Item = u64>, now: u64) -> Vec<GpuAt> {
        let mut all = self.devices.clone();
        if self.samples.is_empty() && self.times.is_empty() {
            return all;
        }
        let samples = self.samples.values().flatten().filter(|at| at.time < now);
        let mut samples: Vec<GpuAt> = samples.copied().collect();
        nccl_events::sort::sort_by_key(&mut samples, |at| at.time);
        all.append(&mut samples);
        for launch in launches {
            all.extend(self.times.remove(&launch).into_iter().flatten().filter(|at| at.time < now));
        }
        if self.order.len() > 2 * self.times.len() + MOST_SAMPLES {
            self.order.retain(|id| self.times.contains_key(id));
        }
        all
    }
}
