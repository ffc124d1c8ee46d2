//! The commands of a script.

use std::time::Duration;

use crate::descriptor::{Fields, NetData, StateArgs};
use crate::interface::{Kind, Version};

/// Where a line runs: what `%t` and `%i` stand for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Number of the thread in the nearest `parallel`.
    pub(crate) thread: u64,
    /// Number of the round of the nearest `repeat`.
    pub(crate) round: u64,
}

/// A handle or a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Handle {
    /// A number as it is; 0 for NULL.
    Raw(u64),
    /// What the plugin wrote for this name.
    Name(String),
}

/// What a written handle or context must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// NULL.
    Null,
    /// Not NULL, and written.
    NonNull,
    Same(Handle),
    /// Not the same as another.
    Other(Handle),
}

/// `init`.
#[derive(Clone, Debug)]
pub(crate) struct Init {
    pub(crate) name: String,
    /// Whether `context` is passed.
    pub(crate) context: bool,
    /// Whether the mask is passed.
    pub(crate) mask: bool,
    /// Whether a logger is passed.
    pub(crate) logger: bool,
    pub(crate) comm_id: u64,
    pub(crate) comm_name: Option<String>,
    pub(crate) nodes: i32,
    pub(crate) ranks: i32,
    pub(crate) rank: i32,
}

/// `start`.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The context; `None`: the one that was initialised last.
    pub(crate) context: Option<Handle>,
    pub(crate) parent: Handle,
    pub(crate) group: Handle,
    pub(crate) rank: i32,
    /// Whether `eHandle` is passed.
    pub(crate) handle: bool,
    /// Whether a descriptor is passed.
    pub(crate) descriptor: bool,
    pub(crate) fields: Fields,
    /// Offset, bytes, value: what is overwritten in the descriptor.
    pub(crate) pokes: Vec<(usize, usize, u64)>,
    /// NetPlugin: data of one of NCCL's own net plugins.
    pub(crate) net: Option<NetData>,
}

#[derive(Clone, Debug)]
pub(crate) enum Command {
    Load(Option<Version>),
    Unload,
    Init(Init),
    Start(Box<Start>),
    Stop(Handle),
    State {
        handle: Handle,
        number: u32,
        args: StateArgs,
    },
    Finalize(Handle),
    ExpectHandle(Written),
    ExpectContext(Written),
    ExpectMask(u32),
    Mask(u32),
    Set(String, Handle),
    Give(String),
    Take(String),
    Sleep(Duration),
    Repeat(u64),
    /// The block runs unless the handle is NULL.
    If(Handle),
    Thread(String),
    Join(Option<String>),
    Parallel(u64),
    Barrier(String, usize),
    /// The child's expected end: exit status or signal.
    Fork(ChildEnd),
    Kill(i32),
    Exit(i32),
    ExitNow(i32),
}

/// How a forked child ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildEnd {
    Status(i32),
    Signal(i32),
}

impl Command {
    pub(crate) const fn takes_block(&self) -> bool {
        matches!(self, Self::Repeat(_) | Self::If(_) | Self::Thread(_) | Self::Parallel(_) | Self::Fork(_))
    }
}
