//! Calls of NCCL's interface, as far as operations refer to them: groups with their launches, and captured calls.

use journal::format::record::Symbol;
use journal::reader::Symbols;
use nccl_events::collective::{Function, Pattern};
use nccl_events::event::P2pApi;

use super::derived::DerivedCall;
use super::newest::Newest;

/// The most calls without capture that are kept, and the most groups and plans: what a table of 4096 entries holds.
const MOST: usize = 3_500;
/// The most captured calls that are kept: a graph is replayed for as long as the process runs.
const MOST_CAPTURED: usize = 1 << 16;

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
struct Launch {
    id: u64,
    context: u32,
    slot: u16,
    start: u64,
    stop: Option<u64>,
}

/// `ncclGroupStart` to `ncclGroupEnd`.
#[derive(Debug, Default)]
struct Group {
    depth: i32,
    stop: Option<u64>,
    launches: Vec<Launch>,
    messages: Option<Box<Messages>>,
}

/// What the calls of sends and receives in a group have in common: context, count, type, stream, captured.
type Same = (u32, u64, Symbol, u64, bool);

/// Calls of sends and receives of a group, in their order.
#[derive(Debug, Default)]
struct Messages {
    /// None of none, and of calls that differ.
    same: Option<Same>,
    funcs: Vec<Symbol>,
}

/// A call of a collective, or of a send or receive.
#[derive(Clone, Copy, Debug)]
struct Call {
    group: u64,
    slot: u16,
    is_captured: bool,
    /// How many operations it had.
    operations: u64,
}

/// What a call says of one of its operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfCall {
    /// Its launch, where that is its own.
    pub(crate) launch: Option<u64>,
    /// When its launch returned, where that is its own.
    pub(crate) launched: Option<u64>,
    /// What its kernel cannot have begun before.
    pub(crate) earliest: Option<u64>,
    pub(crate) replay: u64,
    pub(crate) is_at_capture: bool,
}

/// The calls of a process.
#[derive(Debug)]
pub(crate) struct Calls {
    groups: Newest<Group>,
    calls: Newest<Call>,
    captured: Newest<Call>,
    /// The group of each launch that has not returned.
    launching: Newest<u64>,
    /// When launch plans began.
    plans: Newest<u64>,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            groups: Newest::new(MOST),
            calls: Newest::new(MOST),
            captured: Newest::new(MOST_CAPTURED),
            launching: Newest::new(MOST),
            plans: Newest::new(MOST),
        }
    }
}

impl Calls {
    pub(crate) fn start_call(&mut self, id: u64, slot: u16, group: u64, is_captured: bool) {
        let call = Call { group, slot, is_captured, operations: 0 };
        let calls = if is_captured { &mut self.captured } else { &mut self.calls };
        calls.get_or(id, || call);
    }

    /// A call of a send or receive.
    pub(crate) fn start_message(&mut self, id: u64, slot: u16, group: u64, (context, call): (u32, &P2pApi<Symbol>)) {
        self.start_call(id, slot, group, call.graph_captured);
        let messages = &mut self.groups.get_or(group, Group::default).messages;
        let messages = messages.get_or_insert_default();
        let same = (context, call.count, call.datatype, call.stream, call.graph_captured);
        let is_first = messages.funcs.is_empty();
        messages.same = if is_first { Some(same) } else { messages.same.filter(|known| *known == same) };
        messages.funcs.push(call.func);
    }

    pub(crate) fn start_group(&mut self, id: u64, depth: i32) {
        self.groups.get_or(id, Group::default).depth = depth;
    }

    /// The collective that a send or receive belongs to, and its group. `ranks` says of a context its rank and size.
    pub(crate) fn derived(
        &mut self,
        call: u64,
        symbols: &Symbols,
        ranks: impl Fn(u32) -> Option<(i32, usize)>,
    ) -> Option<(u64, DerivedCall)> {
        let call = self.captured.get(call).or_else(|| self.calls.get(call))?;
        let group = self.groups.get(call.group)?;
        let messages = group.messages.as_ref().filter(|_| group.depth == 1)?;
        let (context, count, datatype, ..) = messages.same?;
        let (rank, ranks) = ranks(context)?;
        let is_send = |func: &Symbol| Function::named(symbols.text(*func))?.is_send();
        let sends: Option<Vec<bool>> = messages.funcs.iter().map(is_send).collect();
        let pattern = Pattern::of(&sends?, ranks)?;
        Some((call.group, DerivedCall { pattern, context, count, datatype, rank, ranks }))
    }

    pub(crate) fn stop_group(&mut self, id: u64, ticks: u64) {
        let group = self.groups.get_or(id, Group::default);
        group.stop.get_or_insert(ticks);
    }

    pub(crate) fn start_launch(&mut self, id: u64, slot: u16, (ticks, group, context): (u64, u64, u32)) {
        let launch = Launch { id, context, slot, start: ticks, stop: None };
        let launches = &mut self.groups.get_or(group, Group::default).launches;
        // Most groups have one.
        launches.reserve_exact(1);
        launches.push(launch);
        self.launching.get_or(id, || group);
    }

    pub(crate) fn stop_launch(&mut self, id: u64, ticks: u64) {
        let group = self.launching.get(id).copied();
        if let Some(group) = group.and_then(|group| self.groups.get_mut(group))
            && let Some(launch) = group.launches.iter_mut().find(|launch| launch.id == id)
        {
            launch.stop.get_or_insert(ticks);
        }
    }

    pub(crate) fn start_plan(&mut self, id: u64, ticks: u64) {
        self.plans.get_or(id, || ticks);
    }

    /// When a launch plan began.
    pub(crate) fn plan(&self, id: u64) -> Option<u64> {
        self.plans.get(id).copied()
    }

    /// What the call of an operation says of it: by the last launch of the call's group on the communicator. None where
    /// the call is not known.
    pub(crate) fn of_operation(&mut self, call: u64, slot: u16, start: u64, context: u32) -> Option<OfCall> {
        let captured = self.captured.get_mut(call);
        let call = match captured {
            Some(call) => call,
            None => self.calls.get_mut(call)?,
        };
        let group = self.groups.get_mut(call.group);
        let launches = group.as_ref().map_or(&[][..], |group| &group.launches[..]);
        if call.is_captured {
            // Reported inside the call's group, or by the thread that launched that: it did not run.
            let is_in_group = group.as_ref().is_some_and(|group| group.stop.is_none_or(|stop| start <= stop));
            let is_launcher = launches.iter().any(|launch| launch.slot == slot);
            let is_at_capture = if slot == call.slot { is_in_group } else { is_launcher };
            call.operations += u64::from(!is_at_capture);
            let replay = if is_at_capture { 0 } else { call.operations };
            return Some(OfCall { launch: None, launched: None, earliest: Some(start), replay, is_at_capture });
        }
        call.operations += 1;
        let launch = launches.iter().rev().find(|launch| launch.context == context && launch.start <= start);
        // A second operation of one call is a replay.
        let own = launch.filter(|_| call.operations == 1);
        Some(OfCall {
            launch: own.map(|launch| launch.id),
            launched: own.map(|launch| launch.stop.unwrap_or(launch.start)),
            earliest: launch.map(|launch| launch.start),
            replay: 0,
            is_at_capture: false,
        })
    }
}
