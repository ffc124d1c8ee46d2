//! The callbacks of one operation of a job, as a program of numbers that a loop can run without thinking.
//!
//! The default is an all-reduce over the network on two channels: the API call, the launch, the plan, the
//! collective, per channel a send and a receive operation of four steps each, the kernel channels, and the
//! proxy's control events around them; the order and the states are those of NCCL 2.28 to 2.32.

use crate::descriptor::Descriptor;
use crate::fields::{Fields, Text};
use crate::kind::Kind;
use crate::state_args::{RawStateArgs, StateArgs};
use crate::version::{Version, wanted};

/// What shapes the mix.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Channels of the collective.
    pub channels: u8,
    /// Steps of a proxy operation.
    pub steps: i32,
}

/// One callback of the program.
#[derive(Clone, Copy)]
pub struct Call {
    /// Place in [`Program::categories`].
    pub category: usize,
    /// What to call.
    pub action: Action,
}

/// What to call; `slot` is where the event's handle lies.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "the words are the interface's")]
pub enum Action {
    Start {
        slot: usize,
        kind: Kind,
        /// Slot of the parent; `None` for NULL.
        parent: Option<usize>,
        group: Option<usize>,
        /// Place in [`Program::descriptors`].
        descriptor: usize,
    },
    State {
        slot: usize,
        number: u32,
        /// Place in [`Program::args`]; `None` for NULL.
        args: Option<usize>,
    },
    Stop {
        slot: usize,
    },
}

/// The callbacks of one operation.
#[derive(Clone)]
pub struct Program {
    /// In the order of calling.
    pub calls: Vec<Call>,
    /// The descriptors of the starts.
    pub descriptors: Vec<Descriptor>,
    /// The arguments of the states.
    pub args: Vec<RawStateArgs>,
    /// Names of what is timed: callback and kind.
    pub categories: Vec<String>,
    /// How many handles there are.
    pub slots: usize,
}

impl Program {
    /// The callbacks that a plugin of this version gets for a mask.
    #[must_use]
    pub fn new(version: Version, mask: u32, shape: Shape) -> Self {
        let program = Self {
            calls: Vec::new(),
            descriptors: Vec::new(),
            args: Vec::new(),
            categories: Vec::new(),
            slots: 0,
        };
        let mut builder = Builder {
            program,
            version,
            mask,
        };
        builder.operation(shape);
        builder.program
    }
}

/// An event of the program. `slot` is `None` when the plugin does not get it.
#[derive(Clone, Copy)]
struct Event {
    kind: Kind,
    slot: Option<usize>,
}

const NO_EVENT: Event = Event {
    kind: Kind::GROUP,
    slot: None,
};

struct Builder {
    program: Program,
    version: Version,
    mask: u32,
}

impl Builder {
    fn operation(&mut self, shape: Shape) {
        let call = Fields {
            func: Text::literal(c"AllReduce"),
            count: 1 << 20,
            datatype: Text::literal(c"ncclFloat32"),
            stream: 0x7f00_1000,
            sequence: 7,
            send_buffer: 0x7f00_0000_0000,
            recv_buffer: 0x7f10_0000_0000,
            channels: shape.channels,
            warps: 17,
            algorithm: Text::literal(c"RING"),
            protocol: Text::literal(c"SIMPLE"),
            depth: 1,
            ..Fields::default()
        };
        let group_api = self.start(Kind::GROUP_API, NO_EVENT, NO_EVENT, &call);
        self.state(group_api, 23, StateArgs::Null);
        let coll_api = self.start(Kind::COLL_API, group_api, NO_EVENT, &call);
        self.stop(coll_api);
        self.state(group_api, 24, StateArgs::Null);
        let launch = self.start(Kind::KERNEL_LAUNCH, group_api, NO_EVENT, &call);
        self.stop(launch);
        let group = self.start(Kind::GROUP, NO_EVENT, NO_EVENT, &call);
        let parent = if self.version.parent_is_group() {
            group
        } else {
            coll_api
        };
        let coll = self.start(Kind::COLL, parent, group, &call);
        self.stop(coll);
        self.stop(group);
        self.stop(group_api);
        self.proxy(shape, coll);
        for channel in 0..shape.channels {
            let fields = Fields {
                channel,
                gpu_ns: 1_770_615_490_062_943_104,
                ..Fields::default()
            };
            let kernel = self.start(Kind::KERNEL_CH, coll, NO_EVENT, &fields);
            let gpu_ns = fields.gpu_ns + 3_000_000;
            self.state(kernel, 22, StateArgs::GpuTime { gpu_ns });
            self.stop(kernel);
        }
    }

    fn proxy(&mut self, shape: Shape, coll: Event) {
        let control = self.start(Kind::PROXY_CTRL, NO_EVENT, NO_EVENT, &Fields::default());
        self.state(control, 17, StateArgs::Appended { operations: 0 });
        let mut operations = Vec::new();
        for channel in 0..shape.channels {
            for is_send in [false, true] {
                let fields = Fields {
                    pid: std::process::id().cast_signed(),
                    channel,
                    peer: 1,
                    steps: shape.steps,
                    chunk_bytes: 1 << 19,
                    is_send,
                    ..Fields::default()
                };
                operations.push((self.start(Kind::PROXY_OP, coll, NO_EVENT, &fields), is_send));
            }
        }
        let appended = i32::from(shape.channels) * 2;
        self.state(
            control,
            18,
            StateArgs::Appended {
                operations: appended,
            },
        );
        self.stop(control);
        for (operation, _) in &operations {
            self.state(*operation, 19, StateArgs::Zero);
        }
        for step in 0..shape.steps {
            for (operation, is_send) in &operations {
                let fields = Fields {
                    step,
                    ..Fields::default()
                };
                let event = self.start(Kind::PROXY_STEP, *operation, NO_EVENT, &fields);
                let states = if *is_send { [8, 20, 9] } else { [10, 11, 12] };
                for number in states {
                    self.state(event, number, StateArgs::Step { bytes: 1 << 19 });
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
        self.program
            .descriptors
            .push(Descriptor::new(self.version, kind, 0, 0, fields));
        let action = Action::Start {
            slot,
            kind,
            parent: parent.slot,
            group: group.slot,
            descriptor: self.program.descriptors.len() - 1,
        };
        self.push("start", kind, action);
        Event {
            kind,
            slot: Some(slot),
        }
    }

    fn state(&mut self, event: Event, number: u32, args: StateArgs) {
        let Some(slot) = event.slot.filter(|_| self.version.has_state(number)) else {
            return;
        };
        let args = RawStateArgs::new(self.version, args).map(|args| {
            self.program.args.push(args);
            self.program.args.len() - 1
        });
        self.push("state", event.kind, Action::State { slot, number, args });
    }

    fn stop(&mut self, event: Event) {
        if let Some(slot) = event.slot {
            self.push("stop", event.kind, Action::Stop { slot });
        }
    }

    fn push(&mut self, verb: &str, kind: Kind, action: Action) {
        let name = format!("{verb} {}", kind.name());
        let categories = &mut self.program.categories;
        let category = categories
            .iter()
            .position(|known| *known == name)
            .unwrap_or_else(|| {
                categories.push(name);
                categories.len() - 1
            });
        self.program.calls.push(Call { category, action });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        channels: 2,
        steps: 4,
    };

    fn count(program: &Program, verb: &str) -> usize {
        let place = program.categories.iter().position(|name| name == verb);
        program
            .calls
            .iter()
            .filter(|call| Some(call.category) == place)
            .count()
    }

    #[test]
    fn the_mix_follows_version_and_mask() {
        let all = Program::new(Version::V7, 0xffff, SHAPE);
        assert_eq!(count(&all, "start ProxyOp"), 4);
        assert_eq!(count(&all, "state ProxyStep"), 48);
        assert_eq!(count(&all, "state GroupApi"), 2);
        assert_eq!(count(&all, "stop KernelCh"), 2);
        let old = Program::new(Version::V2, 0xffff, SHAPE);
        assert_eq!(
            count(&old, "start GroupApi") + count(&old, "start KernelCh"),
            0
        );
        assert_eq!(
            count(&old, "state ProxyStep"),
            40,
            "SendPeerWait is not in v2"
        );
        let light = Program::new(Version::V7, 0x2, SHAPE);
        assert_eq!(count(&light, "start ProxyOp"), 0);
        assert_eq!(count(&light, "start Coll"), 1);
        assert!(Program::new(Version::V7, 0, SHAPE).calls.is_empty());
    }
}
