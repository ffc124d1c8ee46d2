//! The worker's part: contexts that come and go, what becomes known, and what is said of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::context::{Context, Seen};
use super::pool::Pool;
use super::{Entry, Events};
use crate::gpu::devices::Place;
use crate::gpu::driver::Refusal;
use crate::gpu::way::Output;
use journal::clock::monotonic_ns;
use nccl_events::gpu::GpuCount;
use nccl_events::gpu::Way;

/// How often it is looked for launches that are through: when a quarter of the events are in use, and when few are.
const PACES_MS: [u32; 2] = [5, 500];

/// What only the worker uses.
#[derive(Debug, Default)]
pub(super) struct Worker {
    contexts: Vec<Context>,
    clocks: Vec<LastLook>,
    launches: u64,
    /// Launches that were written down, or counted as not timed.
    settled: u64,
    has_told_refusal: bool,
    /// Entries of contexts that were given up: their events must not be touched again.
    spent: Vec<usize>,
    /// Devices that are not timed any more.
    given_up: Vec<u32>,
}

/// What the clock of a device showed whose context has ended, and CLOCK_MONOTONIC then.
#[derive(Debug)]
struct LastLook {
    ordinal: u32,
    gpu_ns: u64,
    monotonic_ns: u64,
}

impl Worker {
    /// Prepares the context of a communicator, unless that was done for another.
    pub(super) fn communicator_begins(
        &mut self,
        events: &Events,
        communicator: u64,
        place: Place,
        out: &mut dyn Output,
    ) {
        if events.is_over() {
            return;
        }
        if let Some(context) = self.of(place) {
            context.communicators.push(communicator);
            return;
        }
        let ordinal = place.ordinal;
        if self.given_up.contains(&ordinal) {
            return;
        }
        if self
            .contexts
            .iter()
            .any(|context| context.place.ordinal == ordinal)
        {
            // The clock of a device is that of one context: events of two cannot be compared.
            let text = format!(
                "launches of one communicator on GPU {ordinal} are not timed: it uses a second context of the device"
            );
            out.fault(Way::Events, &text);
            return;
        }
        let free = events.entries.iter().enumerate().find(|(index, _)| {
            let is_it = |context: &Context| context.entry == *index;
            !self.contexts.iter().any(is_it) && !self.spent.contains(index)
        });
        let Some((index, entry)) = free else {
            let most = events.entries.len();
            out.fault(
                Way::Events,
                &format!("more than {most} contexts: launches on GPU {ordinal} are not timed"),
            );
            return;
        };
        let pool = entry.pool.get_or_init(Pool::new);
        let first_ns = self.goes_on_at(ordinal);
        match Context::new(&events.driver, place, index, pool, first_ns, out) {
            Ok(mut context) => {
                context.communicators.push(communicator);
                open_if_ready(&mut context, entry);
                self.contexts.push(context);
            }
            Err(refusal) => self.give_up(events, index, ordinal, refusal, out),
        }
    }

    /// Waits for what the last communicator of a context has under way, and ends what was made in it: the program may
    /// reset the device when this returns.
    pub(super) fn communicator_ends(
        &mut self,
        events: &Events,
        communicator: u64,
        out: &mut dyn Output,
        deadline: Instant,
    ) {
        for context in &mut self.contexts {
            context.communicators.retain(|other| *other != communicator);
        }
        let is_unused = |context: &Context| context.communicators.is_empty();
        let Some(index) = self.contexts.iter().position(is_unused) else {
            return;
        };
        let mut context = self.contexts.swap_remove(index);
        let Some((entry, pool)) = events.at(context.entry) else {
            return;
        };
        entry.context.store(0, Ordering::Relaxed);
        let (number, ordinal) = (context.entry, context.place.ordinal);
        if events.is_over() || self.is_gone(events, &context, out) {
            return;
        }
        let ended = context
            .last_look(&events.driver, pool, out, deadline)
            .and_then(|placed| {
                self.settled += placed;
                self.clocks.retain(|clock| clock.ordinal != ordinal);
                self.clocks
                    .extend(context.newest_ns().map(|gpu_ns| LastLook {
                        ordinal,
                        gpu_ns,
                        monotonic_ns: monotonic_ns(),
                    }));
                context.destroy(&events.driver, pool)
            });
        if let Err(refusal) = ended {
            self.give_up(events, number, ordinal, refusal, out);
        }
    }

    /// Looks at all contexts.
    pub(super) fn collect(&mut self, events: &Events, out: &mut dyn Output) {
        let mut fewest_free = u32::MAX;
        for mut context in std::mem::take(&mut self.contexts) {
            let Some((entry, pool)) = events.at(context.entry) else {
                continue;
            };
            let (number, ordinal) = (context.entry, context.place.ordinal);
            if events.is_over() || self.is_gone(events, &context, out) {
                continue;
            }
            match context.look(&events.driver, pool, out) {
                Ok(Seen { placed, .. }) => {
                    self.settled += placed;
                    open_if_ready(&mut context, entry);
                    fewest_free = fewest_free.min(pool.free_percent());
                    self.contexts.push(context);
                }
                Err(refusal) => self.give_up(events, number, ordinal, refusal, out),
            }
        }
        let [shortest, longest] = PACES_MS;
        let pace = events.pace_ms.load(Ordering::Relaxed);
        let pace = if fewest_free < 75 { pace / 2 } else { pace * 2 };
        events
            .pace_ms
            .store(pace.clamp(shortest, longest), Ordering::Relaxed);
        self.count(events, out);
    }

    /// Waits for what is under way, and counts what does not end in time. Nothing is destroyed: the process may be
    /// ending, and other threads launching meanwhile.
    pub(super) fn finish(&mut self, events: &Events, out: &mut dyn Output, deadline: Instant) {
        for entry in &events.entries {
            entry.context.store(0, Ordering::Relaxed);
        }
        for mut context in std::mem::take(&mut self.contexts) {
            let Some((_, pool)) = events.at(context.entry) else {
                continue;
            };
            if events.is_over() || self.is_gone(events, &context, out) {
                continue;
            }
            match context.last_look(&events.driver, pool, out, deadline) {
                Ok(placed) => self.settled += placed,
                Err(refusal) => {
                    let (number, ordinal) = (context.entry, context.place.ordinal);
                    self.give_up(events, number, ordinal, refusal, out);
                }
            }
        }
        self.count(events, out);
        out.count(
            GpuCount::Unfinished,
            self.launches.saturating_sub(self.settled),
        );
        events.stop();
    }

    /// Makes references as if the time for them had come.
    #[cfg(test)]
    pub(super) fn renew_references(&mut self, events: &Events, out: &mut dyn Output) {
        for context in &mut self.contexts {
            context.renew(&events.driver, out);
        }
    }

    fn of(&mut self, place: Place) -> Option<&mut Context> {
        self.contexts
            .iter_mut()
            .find(|context| context.place == place)
    }

    /// Where the clock of a device goes on whose context is made anew: at the time that has passed.
    fn goes_on_at(&self, ordinal: u32) -> u64 {
        let last = self.clocks.iter().find(|clock| clock.ordinal == ordinal);
        last.map_or(0, |last| {
            last.gpu_ns + monotonic_ns().saturating_sub(last.monotonic_ns)
        })
    }

    fn is_gone(&mut self, events: &Events, context: &Context, out: &mut dyn Output) -> bool {
        let is_gone = context.is_gone(&events.driver);
        if is_gone {
            // The device may be used again, in a context of its own.
            events.close(context.entry);
            self.spent.push(context.entry);
            let ordinal = context.place.ordinal;
            let text = format!(
                "launches on GPU {ordinal} are not timed any more: the program has reset the device while a communicator used it"
            );
            out.fault(self.way(), &text);
        }
        is_gone
    }

    /// Leaves a context alone for good: what the driver refuses once it may crash on the next time.
    fn give_up(
        &mut self,
        events: &Events,
        entry: usize,
        ordinal: u32,
        refusal: Refusal,
        out: &mut dyn Output,
    ) {
        events.close(entry);
        self.spent.push(entry);
        self.given_up.push(ordinal);
        if refusal == Refusal::DEINITIALIZED {
            events.stop();
            return;
        }
        let text = format!(
            "launches on GPU {ordinal} are not timed any more by CUDA events: {refusal}. NCCL's events are complete; NCCL_OTF2_GPU=off silences this"
        );
        out.fault(self.way(), &text);
    }

    fn way(&self) -> Way {
        if self.contexts.is_empty() {
            Way::Off
        } else {
            Way::Events
        }
    }

    /// Hands on what launching threads have counted.
    fn count(&mut self, events: &Events, out: &mut dyn Output) {
        let counts = &events.counts;
        let mut take = |counter: &AtomicU64, count| {
            let more = counter.swap(0, Ordering::Relaxed);
            if more > 0 {
                out.count(count, more);
            }
            more
        };
        // What is not timed first: a launch is counted before that.
        self.settled += take(&counts.captured, GpuCount::Captured);
        self.settled += take(&counts.no_event_left, GpuCount::NoEventLeft);
        self.settled += take(&counts.on_callback_thread, GpuCount::OnCallbackThread);
        let refused = take(&counts.refused, GpuCount::Refused);
        self.settled += refused;
        self.launches += take(&counts.launches, GpuCount::Launches);
        if refused > 0 && !std::mem::replace(&mut self.has_told_refusal, true) {
            let text = match Refusal(events.refusal.load(Ordering::Relaxed)) {
                Refusal::DEINITIALIZED => return,
                Refusal::NO_EVENTS => {
                    "no events were made in the CUDA context that is current when NCCL launches"
                        .to_owned()
                }
                refusal => refusal.to_string(),
            };
            out.fault(
                self.way(),
                &format!(
                    "some launches are not timed by CUDA events: {text}. NCCL's events are complete"
                ),
            );
        }
    }
}

fn open_if_ready(context: &mut Context, entry: &Entry) {
    if !context.is_open && context.is_ready() {
        context.is_open = true;
        entry
            .context
            .store(context.place.context.0, Ordering::Release);
    }
}

impl Events {
    fn at(&self, entry: usize) -> Option<(&Entry, &Pool)> {
        let entry = self.entries.get(entry)?;
        Some((entry, entry.pool.get()?))
    }

    fn close(&self, entry: usize) {
        if let Some(entry) = self.entries.get(entry) {
            entry.context.store(0, Ordering::Relaxed);
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}
