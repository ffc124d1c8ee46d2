//! The commands of a script.

use std::time::Duration;

use crate::fields::Fields;
use crate::kind::{Kind, state_number};
use crate::state_args::StateArgs;
use crate::version::Version;
use words::{
    Parsed, child_end, duration, handle, init, number, replace, signal_number, start, state_args,
    usage, written,
};

mod words;

/// Where a line runs: what `%t` and `%i` stand for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Number of the thread in the nearest `parallel`.
    pub thread: u64,
    /// Number of the round of the nearest `repeat`.
    pub round: u64,
}

/// A handle or a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handle {
    /// A number as it is; 0 for NULL.
    Raw(u64),
    /// What the plugin wrote for this name.
    Name(String),
}

/// What a written handle or context must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// NULL.
    Null,
    /// Not NULL, and written.
    NonNull,
    /// As it was before the call.
    Unwritten,
    /// The same as another.
    Same(Handle),
    /// Not the same as another.
    Other(Handle),
}

/// `init`.
#[derive(Clone, Debug)]
pub struct Init {
    /// The context's name.
    pub name: String,
    /// Whether `context` is passed.
    pub context: bool,
    /// Whether the mask is passed.
    pub mask: bool,
    /// Whether a logger is passed.
    pub logger: bool,
    /// The communicator's id.
    pub comm_id: u64,
    /// The communicator's name.
    pub comm_name: Option<String>,
    /// Nodes.
    pub nodes: i32,
    /// Ranks.
    pub ranks: i32,
    /// Rank.
    pub rank: i32,
}

/// `start`.
#[derive(Clone, Debug)]
pub struct Start {
    /// The handle's name.
    pub name: String,
    /// What kind.
    pub kind: Kind,
    /// The context; `None`: the one that was initialised last.
    pub context: Option<Handle>,
    /// `parentObj`.
    pub parent: Handle,
    /// `parentGroup`.
    pub group: Handle,
    /// The descriptor's rank.
    pub rank: i32,
    /// Whether `eHandle` is passed.
    pub handle: bool,
    /// Whether a descriptor is passed.
    pub descriptor: bool,
    /// Whether ProxyOp's pid was given; else it is this process.
    pub has_pid: bool,
    /// The descriptor's fields.
    pub fields: Fields,
    /// Offset, bytes, value: what is overwritten in the descriptor.
    pub pokes: Vec<(usize, usize, u64)>,
    /// NetPlugin: data of one of NCCL's own net plugins.
    pub net: Option<NetData>,
}

/// What NCCL's own net plugins say about an event.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are NCCL's")]
pub enum NetData {
    Ib {
        device: i32,
        work_request: u64,
        opcode: i32,
        queue_pair: i32,
        bytes: u64,
    },
    Socket {
        descriptor: i32,
        operation: i32,
        bytes: u64,
    },
}

/// One line.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "the words are those of the language, see the README"
)]
pub enum Command {
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
    ExpectResult(u32),
    ExpectHandle(Written),
    ExpectContext(Written),
    ExpectMask(u32),
    Mask(u32),
    Set(String, Handle),
    Give(String),
    Take(String),
    Sleep(Duration),
    Print(String),
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
pub enum ChildEnd {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

impl Command {
    /// Whether a block follows.
    #[must_use]
    pub const fn takes_block(&self) -> bool {
        matches!(
            self,
            Self::Repeat(_) | Self::If(_) | Self::Thread(_) | Self::Parallel(_) | Self::Fork(_)
        )
    }

    /// Makes a command of words.
    ///
    /// # Errors
    /// A sentence that says what is wrong.
    pub fn new(words: &[String], place: Place) -> Parsed<Self> {
        let words: Vec<String> = words.iter().map(|word| replace(word, place)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some((verb, rest)) = words.split_first() else {
            return Err("an empty line".into());
        };
        Ok(match (*verb, rest) {
            ("load", []) => Self::Load(None),
            ("load", [version]) => Self::Load(Some(
                number::<u8>(version)
                    .ok()
                    .and_then(Version::from_number)
                    .ok_or("the versions are 1 to 7")?,
            )),
            ("unload", []) => Self::Unload,
            ("init", [name, options @ ..]) => Self::Init(init(name, options)?),
            ("start", [name, kind, options @ ..]) => {
                Self::Start(Box::new(start(name, kind, options)?))
            }
            ("stop", [name]) => Self::Stop(handle(name)?),
            ("state", [name, state, options @ ..]) => {
                let number = state_number(state)
                    .ok_or_else(|| format!("{state:?} is no state and no number"))?;
                Self::State {
                    handle: handle(name)?,
                    number,
                    args: state_args(number, options)?,
                }
            }
            ("finalize", [name]) => Self::Finalize(handle(name)?),
            ("expect-rc", [code]) => Self::ExpectResult(number(code)?),
            ("expect-handle", what) if !what.is_empty() => Self::ExpectHandle(written(what)?),
            ("expect-context", what) if !what.is_empty() => Self::ExpectContext(written(what)?),
            ("expect-mask", [mask]) => Self::ExpectMask(number(mask)?),
            ("mask", [mask]) => Self::Mask(number(mask)?),
            ("set", [name, value]) => Self::Set((*name).to_owned(), handle(value)?),
            ("give", [name]) => Self::Give((*name).to_owned()),
            ("take", [name]) => Self::Take((*name).to_owned()),
            ("sleep", [time]) => Self::Sleep(duration(time)?),
            ("print", words) => Self::Print(words.join(" ")),
            ("repeat", [times]) => Self::Repeat(number(times)?),
            ("if", [name]) => Self::If(handle(name)?),
            ("thread", [name]) => Self::Thread((*name).to_owned()),
            ("join", []) => Self::Join(None),
            ("join", [name]) => Self::Join(Some((*name).to_owned())),
            ("parallel", [threads]) => Self::Parallel(number(threads)?),
            ("barrier", [name, threads]) => Self::Barrier((*name).to_owned(), number(threads)?),
            ("fork", options) => Self::Fork(child_end(options)?),
            ("kill", [signal]) => Self::Kill(signal_number(signal)?),
            ("exit", [status]) => Self::Exit(number(status)?),
            ("_exit", [status]) => Self::ExitNow(number(status)?),
            (verb, _) => return Err(usage(verb)),
        })
    }
}
