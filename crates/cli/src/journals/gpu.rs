//! GPU records of a journal: facts that the plugin determined itself, as opposed to callbacks.

use clocks::gpu::SampleClocks;
use clocks::ticks::HostClock;
use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::event::{self, Style};
use nccl_events::gpu::{ClockSample, GpuClock, GpuRecord};
use nccl_events::schema::GpuCounts;

use super::fields;
use super::value::{List, Moment};

pub(crate) const KIND: &str = "Gpu";

#[derive(Debug)]
pub(crate) struct Entry {
    /// When the work began if known, else when it was recorded.
    pub(crate) when: Moment,
    /// Duration of the work; `None` if it is unknown or the record marks an instant.
    pub(crate) duration_ns: Option<u64>,
    /// The launch or communicator that the record refers to; 0 for none.
    pub(crate) id: u64,
    pub(crate) record: GpuRecord<Symbol>,
}

pub(crate) fn place(all: &mut [Entry], ticks: &[u64], clock: &HostClock) {
    let samples = all.iter().zip(ticks).filter_map(|(entry, ticks)| {
        let GpuRecord::Clock(sample) = entry.record else {
            return None;
        };
        let until = ticks.saturating_add(sample.uncertainty_ticks);
        let uncertainty_ticks = clock.nanoseconds(until).saturating_sub(entry.when.ns);
        Some((entry.when.ns, ClockSample { uncertainty_ticks, ..sample }))
    });
    let clocks = SampleClocks::of(samples);
    for entry in all {
        let (clock, device, start_ns, end_ns) = match entry.record {
            GpuRecord::Kernel(kernel) => (GpuClock::Cupti, kernel.device, kernel.start_ns, kernel.end_ns),
            GpuRecord::Copy(copy) => (GpuClock::Cupti, copy.device, copy.start_ns, copy.end_ns),
            GpuRecord::LaunchTime(time) => (GpuClock::Events, time.ordinal, time.start_ns, time.end_ns),
            _ => continue,
        };
        if let Some((from, to)) = clocks.place(clock, device, start_ns, end_ns) {
            entry.when.ns = from.host_ns;
            entry.duration_ns = Some(to.host_ns - from.host_ns);
        }
    }
}

impl Entry {
    pub(crate) const fn kind(&self) -> &'static str {
        match self.record {
            GpuRecord::Device(_) => "device",
            GpuRecord::DeviceOfCommunicator { .. } => "communicatorDevice",
            GpuRecord::Clock(_) => "clock",
            GpuRecord::Kernel(_) => "kernel",
            GpuRecord::Copy(_) => "copy",
            GpuRecord::LaunchTime(_) => "launchTime",
            GpuRecord::Notice { .. } => "notice",
            GpuRecord::Counts(_) => "counts",
        }
    }

    /// Whether people see the record, too: clock readings and running totals are for programs only.
    pub(crate) const fn is_for_people(&self) -> bool {
        !matches!(self.record, GpuRecord::Clock(_) | GpuRecord::Counts(_))
    }

    pub(crate) fn details<'a>(&self, symbols: &'a Symbols) -> List<'a> {
        let mut list = List::new();
        let mut add = |label, style, value| {
            list.extend(fields::value(style, value, symbols).map(|value| (label, value)));
        };
        match self.record {
            GpuRecord::Device(device) => device.each(&mut add),
            GpuRecord::DeviceOfCommunicator { ordinal } => {
                add("ordinal", Style::Plain, ordinal.into());
            }
            GpuRecord::Clock(sample) => sample.each(&mut add),
            GpuRecord::Kernel(kernel) => kernel.each(&mut add),
            GpuRecord::Copy(copy) => copy.each(&mut add),
            GpuRecord::LaunchTime(time) => time.each(&mut add),
            GpuRecord::Notice { backend, text } => {
                add("backend", Style::Plain, event::Value::Text(backend.name()));
                add("text", Style::Plain, event::Value::Name(text));
            }
            GpuRecord::Counts(counts) => {
                let mut named = GpuCounts::default();
                named.take_recorded(counts);
                for (name, number) in named.named().take(counts.len()) {
                    add(name, Style::Plain, event::Value::Unsigned(number));
                }
            }
        }
        list
    }
}
