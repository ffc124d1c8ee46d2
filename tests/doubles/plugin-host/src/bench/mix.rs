//! The callbacks of one operation of a job, as a program of numbers that a loop can run without thinking.
//!
//! The default is an all-reduce over the network on two channels: the API call, the launch, the plan, the
//! collective, per channel a send and a receive operation of four steps each, the kernel channels, and the
//! proxy's control events around them; the order and the states are those of NCCL 2.28 to 2.32.

use crate::descriptor::{Descriptor, Fields, StateArgs};
use crate::interface::{Kind, Version, wanted};
use crate::layout;
use crate::plugin::Plugin;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) channels: u8,
    pub(crate) steps: i32,
    /// The rank that works, and the other side of its transfers.
    pub(crate) rank: i32,
    pub(crate) peer: i32,
}

#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Place in [`Program::categories`].
    pub(crate) category: usize,
    pub(crate) kind: Kind,
    pub(crate) action: Action,
}

/// What to call; `slot` is where the event's handle lies.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    Start {
        slot: usize,
        /// Slot of the parent; `None` for NULL.
        parent: Option<usize>,
        /// Slot of the group, and where in the descriptor its handle goes.
        group: Option<(usize, usize)>,
        descriptor: usize,
    },
    /// Slot, number, and place of the arguments.
    State(usize, u32, Option<usize>),
    Stop(usize),
}

#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) calls: Vec<Call>,
    pub(crate) descriptors: Vec<Descriptor>,
    pub(crate) args: Vec<[u64; 4]>,
    /// Names of what is timed: callback and kind.
    pub(crate) categories: Vec<String>,
    pub(crate) slots: usize,
}

impl Program {
    pub(crate) fn new(version: Version, mask: u32, shape: Shape) -> Self {
        let program =
            Self { calls: Vec::new(), descriptors: Vec::new(), args: Vec::new(), categories: Vec::new(), slots: 0 };
        let mut builder = Builder { program, version, mask, rank: shape.rank };
        builder.operation(shape);
        builder.program
    }

    #[inline]
    pub(crate) fn call(&mut self, plugin: &Plugin, context: u64, handles: &mut [u64], call: Call) {
        match call.action {
            Action::Start { slot, parent, group, descriptor } => {
                let target = &mut self.descriptors[descriptor];
                target.set_parent(parent.map_or(0, |slot| handles[slot]));
                if let Some((slot, at)) = group {
                    target.put(at, handles[slot]);
                }
                plugin.start(context, Some(&mut handles[slot]), Some(target));
            }
            Action::State(slot, number, args) => {
                let args = args.map(|place| &mut self.args[place]);
                plugin.state(handles[slot], number, args);
            }
            Action::Stop(slot) => {
                plugin.stop(handles[slot]);
            }
        }
    }

    /// The number of the next operation, for the descriptors that say it.
    pub(crate) fn set_sequence(&mut self, version: Version, number: u64) {
        for call in &self.calls {
            if let Action::Start { descriptor, .. } = call.action
                && let Some(at) = layout::offset(version, call.kind, "sequence")
            {
                self.descriptors[descriptor].put(at, number);
            }
        }
    }
}

/// An event of the program. `slot` is `None` when the plugin does not get it.
#[derive(Clone, Copy)]
struct Event {
    kind: Kind,
    slot: Option<usize>,
}

const NO_EVENT: Event = Event { kind: Kind::GROUP, slot: None };

struct Builder {
    program: Program,
    version: Version,
    mask: u32,
    rank: i32,
}

impl Builder {
    fn operation(&mut self, shape: Shape) {
        let call = Fields::default()
            .with("func", "AllReduce")
            .with("count", 1 << 20)
            .with("datatype", "ncclFloat32")
            .with("stream", 0x7f00_1000)
            .with("sequence", 7)
            .with("send_buffer", 0x7f00_0000_0000_u64)
            .with("recv_buffer", 0x7f10_0000_0000_u64)
            .with("channels", i32::from(shape.channels))
            .with("warps", 17)
            .with("algorithm", "RING")
            .with("protocol", "SIMPLE")
            .with("depth", 1);
        let group_api = self.start(Kind::GROUP_API, NO_EVENT, NO_EVENT, &call);
        self.state(group_api, 23, StateArgs::Null);
        let coll_api = self.start(Kind::COLL_API, group_api, NO_EVENT, &call);
        self.stop(coll_api);
        self.state(group_api, 24, StateArgs::Null);
        let launch = self.start(Kind::KERNEL_LAUNCH, group_api, NO_EVENT, &call);
        self.stop(launch);
        let group = self.start(Kind::GROUP, NO_EVENT, NO_EVENT, &call);
        let parent = if self.version.is_before_api_events() { group } else { coll_api };
        let coll = self.start(Kind::COLL, parent, group, &call);
        self.stop(coll);
        self.stop(group);
        self.stop(group_api);
        self.proxy(shape, coll);
        for channel in 0..shape.channels {
            let begins: u64 = 1_770_615_490_062_943_104;
            let fields = Fields::default().with("channel", i32::from(channel)).with("gpu_ns", begins);
            let kernel = self.start(Kind::KERNEL_CH, coll, NO_EVENT, &fields);
            self.state(kernel, 22, StateArgs::Word(begins + 3_000_000));
            self.stop(kernel);
        }
    }

    fn proxy(&mut self, shape: Shape, coll: Event) {
        let control = self.start(Kind::PROXY_CTRL, NO_EVENT, NO_EVENT, &Fields::default());
        self.state(control, 17, StateArgs::Appended(0));
        let mut operations = Vec::new();
        for channel in 0..shape.channels {
            for is_send in [false, true] {
                let fields = Fields::default()
                    .with("pid", std::process::id().cast_signed())
                    .with("channel", i32::from(channel))
                    .with("peer", shape.peer)
                    .with("steps", shape.steps)
                    .with("chunk_bytes", 1 << 19)
                    .with("is_send", i32::from(is_send));
                operations.push((self.start(Kind::PROXY_OP, coll, NO_EVENT, &fields), is_send));
            }
        }
        self.state(control, 18, StateArgs::Appended(i32::from(shape.channels) * 2));
        self.stop(control);
        for (operation, _) in &operations {
            self.state(*operation, 19, StateArgs::Zero);
        }
        for step in 0..shape.steps {
            for (operation, is_send) in &operations {
                let fields = Fields::default().with("step", step);
                let event = self.start(Kind::PROXY_STEP, *operation, NO_EVENT, &fields);
                let states = if *is_send { [8, 20, 9] } else { [10, 11, 12] };
                for number in states {
                    self.state(event, number, StateArgs::Word(1 << 19));
                }
                self.stop(event);
            }
        }
        for (operation, _) in operations {
            self.stop(operation);
        }
    }

    fn start(&mut self, kind: Kind, parent: Event, group: Event, fields: &Fields) -> Event {
        if !self.version.has_kind(kind) || !wanted(self.mask, kind) {
            return Event { kind, slot: None };
        }
        let slot = self.program.slots;
        self.program.slots += 1;
        self.program.descriptors.push(Descriptor::new(self.version, kind, 0, self.rank, fields));
        let action = Action::Start {
            slot,
            parent: parent.slot,
            group: group.slot.zip(layout::offset(self.version, kind, "parent_group")),
            descriptor: self.program.descriptors.len() - 1,
        };
        self.push("start", kind, action);
        Event { kind, slot: Some(slot) }
    }

    fn state(&mut self, event: Event, number: u32, args: StateArgs) {
        let Some(slot) = event.slot.filter(|_| self.version.has_state(number)) else {
            return;
        };
        let args = args.raw(self.version).map(|args| {
            self.program.args.push(args);
            self.program.args.len() - 1
        });
        self.push("state", event.kind, Action::State(slot, number, args));
    }

    fn stop(&mut self, event: Event) {
        if let Some(slot) = event.slot {
            self.push("stop", event.kind, Action::Stop(slot));
        }
    }

    fn push(&mut self, verb: &str, kind: Kind, action: Action) {
        let name = format!("{verb} {}", kind.name());
        let categories = &mut self.program.categories;
        let category = categories.iter().position(|known| *known == name).unwrap_or_else(|| {
            categories.push(name);
            categories.len() - 1
        });
        self.program.calls.push(Call { category, kind, action });
    }
}
