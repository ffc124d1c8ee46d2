//! Calls a plugin as a stream says.

use std::ffi::c_int;
use std::path::Path;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use super::double::Double;
use super::order::{Call, Callback, Ordered};
use super::report::{Report, StreamGaps};
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

pub(crate) fn replay(plugin: &Plugin, stream: &Stream, options: Options<'_>) -> anyhow::Result<Report> {
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
        report: Report::default(),
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
    let mut report = turn.into_shared().report;
    report.plugin.clone_from(&plugin.name);
    report.table = plugin.version.number();
    report.pid = process::id();
    report.mask = nccl::mask_now();
    report.mask_respected = options.respect_mask;
    report.threads = tids.len() as u64;
    report.stream_gaps = StreamGaps {
        missing_inits: ordered.missing_inits,
        orphan_states: ordered.orphan_states,
        unknown_parents: ordered.unknown_parents,
    };
    (report.log_lines, report.late_log_lines) = nccl::lines();
    report.wall_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
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
    report: Report,
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
        nccl::communicator_begins();
        let arguments = InitArguments {
            comm_id: init.who.comm_id,
            comm_name: init.name,
            nodes: init.nodes,
            ranks: init.ranks,
            rank: init.who.rank,
            mask: true,
            logger: true,
        };
        let result = self.plugin.init(Some(&mut context), &arguments);
        live.report.inits += 1;
        live.note("init", result);
        if context == UNWRITTEN {
            live.note_error("init left *context unwritten");
            context = 0;
        }
        live.contexts[comm] = context;
    }

    fn start(&self, live: &mut Live, thread: usize, place: usize) {
        let event = &self.stream.events[place];
        let relation = self.ordered.relations[place];
        let version = self.plugin.version;
        let kind = event.kind;
        let mask = self.mask_of(live, thread, place);
        live.events[place].mask = Some(mask);
        // A type that NCCL does not define is in no table; whoever wrote it into a stream means it.
        if kind.place().is_some() && !version.has_kind(kind) {
            live.report.left_out.start_not_in_table += 1;
            return;
        }
        if self.options.respect_mask && !wanted(mask, kind) {
            live.report.left_out.start_not_in_mask += 1;
            return;
        }
        let handle_of = |place: Option<usize>| place.map_or(0, |place| live.events[place].handle);
        let group = handle_of(relation.group);
        let parent = if kind.is_task() && version.is_before_api_events() { group } else { handle_of(relation.parent) };
        if parent == 0 && version.is_before_api_events() && kind.is_below_task() {
            live.report.left_out.start_null_parent += 1;
            return;
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
        live.note("startEvent", result);
        if handle == UNWRITTEN {
            live.note_error("startEvent left *eHandle unwritten");
            handle = 0;
        }
        live.events[place].handle = handle;
        live.report.kinds.entry(kind.name()).or_default().start += 1;
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
            live.report.left_out.state_not_in_table += 1;
            return;
        }
        let handle = live.events[place].handle;
        if handle == 0 {
            live.report.left_out.stop_or_state_without_handle += 1;
            return;
        }
        let mut args = args.raw(version);
        let result = self.plugin.state(handle, number, args.as_mut());
        live.note("recordEventState", result);
        let kind = self.stream.events[place].kind;
        live.report.kinds.entry(kind.name()).or_default().state += 1;
        *live.report.states.entry(state_name(number)).or_default() += 1;
    }

    fn stop(&self, live: &mut Live, place: usize) {
        let handle = live.events[place].handle;
        if handle == 0 {
            live.report.left_out.stop_or_state_without_handle += 1;
            return;
        }
        if let Some(double) = &self.double {
            let event = &self.stream.events[place];
            let kernels = self.stream.kernels_of(event);
            for kernel in kernels {
                double.launch(kernel);
            }
        }
        let result = self.plugin.stop(handle);
        live.note("stopEvent", result);
        let kind = self.stream.events[place].kind;
        live.report.kinds.entry(kind.name()).or_default().stop += 1;
    }

    fn finalize(&self, live: &mut Live, comm: usize) {
        // Who ends a communicator has waited for its streams.
        if let Some(double) = &self.double {
            double.drain();
        }
        let result = self.plugin.finalize(live.contexts[comm]);
        live.report.finalizes += 1;
        live.note("finalize", result);
    }
}

impl Live {
    fn note(&mut self, call: &str, result: c_int) {
        if result != 0 {
            self.note_error(&format!("{call} returned {result}"));
        }
    }

    fn note_error(&mut self, what: &str) {
        *self.report.errors.entry(what.to_owned()).or_default() += 1;
    }
}
