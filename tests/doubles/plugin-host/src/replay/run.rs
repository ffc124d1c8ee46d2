//! Calls a plugin as a stream says.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use super::double::Double;
use super::order::{Call, Callback, Ordered};
use super::stream::Stream;
use super::turn::Turn;
use crate::descriptor::{Descriptor, StateArgs, Value};
use crate::interface::{Kind, state_name, wanted};
use crate::nccl;
use crate::plugin::{InitArguments, Plugin, UNWRITTEN};

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Speed {
    /// With the gaps between callbacks that were recorded.
    Recorded,
    /// As fast as possible.
    Full,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Options<'a> {
    pub(crate) speed: Speed,
    /// Whether kinds that the plugin's mask does not ask for are left out, as by NCCL.
    pub(crate) respect_mask: bool,
    pub(crate) double: Option<&'a Path>,
}

/// Below this a gap is waited out by looking at the clock: a sleep overshoots by about as much.
const SPIN: Duration = Duration::from_micros(80);

pub(crate) fn replay(plugin: &Plugin, stream: &Stream, options: Options<'_>) -> anyhow::Result<Counts> {
    let ordered = Ordered::new(stream);
    let mut tids: Vec<i64> = Vec::new();
    let mut owners: Vec<usize> = Vec::with_capacity(ordered.callbacks.len());
    for callback in &ordered.callbacks {
        let tid = callback.when.tid;
        let known = tids.iter().position(|known| *known == tid);
        owners.push(known.unwrap_or(tids.len()));
        if known.is_none() {
            tids.push(tid);
        }
    }
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); tids.len()];
    for (turn, owner) in owners.iter().enumerate() {
        own[*owner].push(turn);
    }
    let first_ns = ordered.callbacks.first().map_or(0, |callback| callback.when.at_ns);
    let double = options.double.map(|path| Double::load(path, first_ns)).transpose()?;
    let replay = Replay {
        double,
        plugin,
        stream,
        ordered: &ordered,
        options,
        recorded_pid: ordered.comms.first().map_or(0, |init| init.pid),
    };
    let live = Live {
        contexts: vec![0; ordered.comms.len()],
        events: vec![LiveEvent::default(); stream.events.len()],
        group_masks: vec![None; tids.len()],
        counts: Counts::default(),
    };
    let turn = Turn::new(tids.len(), owners, live);
    let begin = Instant::now();
    thread::scope(|scope| -> anyhow::Result<()> {
        for (number, turns) in own.iter().enumerate() {
            let (replay, turn) = (&replay, &turn);
            let work = move || {
                for &place in turns {
                    let callback = &replay.ordered.callbacks[place];
                    if options.speed == Speed::Recorded {
                        wait_until(begin + Duration::from_nanos(callback.when.at_ns - first_ns));
                    }
                    turn.take(place, |live| replay.call(live, number, callback));
                }
            };
            thread::Builder::new().name(format!("replay {}", tids[number])).spawn_scoped(scope, work)?;
        }
        Ok(())
    })?;
    Ok(turn.into_shared().counts)
}

fn wait_until(deadline: Instant) {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if left > SPIN {
            thread::sleep(left - SPIN);
        } else {
            std::hint::spin_loop();
        }
    }
}

struct Replay<'a> {
    double: Option<Double>,
    plugin: &'a Plugin,
    stream: &'a Stream,
    ordered: &'a Ordered,
    options: Options<'a>,
    recorded_pid: i32,
}

struct Live {
    contexts: Vec<u64>,
    events: Vec<LiveEvent>,
    /// The mask at each thread's last GroupApi start.
    group_masks: Vec<Option<u32>>,
    counts: Counts,
}

/// What was called, what was left out and why, and calls that failed or did not write their result.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) calls: BTreeMap<String, u64>,
    pub(super) left_out: BTreeMap<&'static str, u64>,
    pub(super) errors: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Default)]
struct LiveEvent {
    /// What the plugin returned; 0 when it was not asked or returned NULL.
    handle: u64,
    /// The mask under which its operation runs: NCCL reads it once per operation.
    mask: Option<u32>,
}

impl Replay<'_> {
    fn call(&self, live: &mut Live, thread: usize, callback: &Callback) {
        match callback.call {
            Call::Init { comm } => self.init(live, comm),
            Call::Start { event } => self.start(live, thread, event),
            Call::State { event, number, args } => self.state(live, event, number, args),
            Call::Stop { event } => self.stop(live, event),
            Call::Finalize { comm } => self.finalize(live, comm),
        }
    }

    fn init(&self, live: &mut Live, comm: usize) {
        let init = &self.ordered.comms[comm];
        if let Some(double) = &self.double
            && let Some(device) = self.stream.device_of(init.who)
        {
            double.use_device(device);
        }
        let mut context = 0;
        let arguments = InitArguments {
            comm_id: init.who.comm_id,
            comm_name: init.name,
            nodes: init.nodes,
            ranks: init.ranks,
            rank: init.who.rank,
            ..InitArguments::default()
        };
        let result = self.plugin.init(Some(&mut context), &arguments);
        live.called("init", None, result);
        live.contexts[comm] = live.written(context, "init left *context unwritten");
    }

    fn start(&self, live: &mut Live, thread: usize, place: usize) {
        let event = &self.stream.events[place];
        let relation = self.ordered.relations[place];
        let version = self.plugin.version;
        let kind = event.kind;
        let mask = self.mask_of(live, thread, place);
        live.events[place].mask = Some(mask);
        // A type that NCCL does not define is in no table; a stream that has it means it.
        if kind.place().is_some() && !version.has_kind(kind) {
            return live.leave_out("start: not in this table");
        }
        if self.options.respect_mask && !wanted(mask, kind) {
            return live.leave_out("start: not asked for by the mask");
        }
        let handle_of = |place: Option<usize>| place.map_or(0, |place| live.events[place].handle);
        let group = handle_of(relation.group);
        let parent = if kind.is_task() && version.is_before_api_events() { group } else { handle_of(relation.parent) };
        if parent == 0 && version.is_before_api_events() && kind.is_below_task() {
            return live.leave_out("start: below an event without a handle");
        }
        let mut fields = event.fields.clone().with("parent_group", group);
        if fields.get("pid") == Some(Value::from(self.recorded_pid)) {
            fields.put("pid", u64::from(process::id()).into());
        }
        let rank = if kind.has_rank() { event.who.rank } else { 0 };
        let mut descriptor = Descriptor::new(version, kind, parent, rank, &fields);
        let mut handle = 0;
        let context = live.contexts[relation.comm];
        let result = self.plugin.start(context, Some(&mut handle), Some(&mut descriptor));
        live.called("startEvent", Some(kind.name()), result);
        live.events[place].handle = live.written(handle, "startEvent left *eHandle unwritten");
    }

    /// NCCL reads the mask when a GroupApi starts (2.28 and later), and its operations keep it.
    fn mask_of(&self, live: &mut Live, thread: usize, place: usize) -> u32 {
        let now = nccl::mask_now();
        match self.stream.events[place].kind {
            Kind::GROUP_API => {
                live.group_masks[thread] = Some(now);
                now
            }
            Kind::PROXY_CTRL => now,
            _ => {
                let parent = self.ordered.relations[place].parent;
                parent.and_then(|parent| live.events[parent].mask).or(live.group_masks[thread]).unwrap_or(now)
            }
        }
    }

    fn state(&self, live: &mut Live, place: usize, number: u32, args: StateArgs) {
        let version = self.plugin.version;
        if !version.has_state(number) {
            return live.leave_out("state: not in this table");
        }
        let handle = live.events[place].handle;
        if handle == 0 {
            return live.leave_out("stop or state: of an event without a handle");
        }
        let result = self.plugin.state(handle, number, args.raw(version).as_mut());
        live.called("recordEventState", Some(state_name(number)), result);
    }

    fn stop(&self, live: &mut Live, place: usize) {
        let handle = live.events[place].handle;
        if handle == 0 {
            return live.leave_out("stop or state: of an event without a handle");
        }
        let event = &self.stream.events[place];
        if let Some(double) = &self.double {
            self.stream.kernels_of(event).for_each(|kernel| double.launch(kernel));
        }
        let result = self.plugin.stop(handle);
        live.called("stopEvent", Some(event.kind.name()), result);
    }

    fn finalize(&self, live: &mut Live, comm: usize) {
        // Who ends a communicator has waited for its streams.
        if let Some(double) = &self.double {
            double.drain();
        }
        let result = self.plugin.finalize(live.contexts[comm]);
        live.called("finalize", None, result);
    }
}

impl Live {
    fn called(&mut self, call: &str, of: Option<String>, result: c_int) {
        let name = of.map_or_else(|| call.to_owned(), |of| format!("{call} {of}"));
        *self.counts.calls.entry(name).or_default() += 1;
        if result != 0 {
            *self.counts.errors.entry(format!("{call} returned {result}")).or_default() += 1;
        }
    }

    /// What the plugin wrote; NULL where it wrote nothing, which is an error.
    fn written(&mut self, value: u64, error: &str) -> u64 {
        if value != UNWRITTEN {
            return value;
        }
        *self.counts.errors.entry(error.to_owned()).or_default() += 1;
        0
    }

    fn leave_out(&mut self, why: &'static str) {
        *self.counts.left_out.entry(why).or_default() += 1;
    }
}
