//! Words to commands.

use std::time::Duration;

use crate::fields::{Fields, parse_number};
use crate::kind::{Kind, state_number};
use crate::state_args::StateArgs;
use crate::version::Version;

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

type Parsed<T> = Result<T, String>;

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

fn usage(verb: &str) -> String {
    const USAGES: [&str; 26] = [
        "load [1-7]",
        "unload",
        "init NAME [option=VALUE …]",
        "start NAME KIND [option=VALUE …]",
        "stop HANDLE",
        "state HANDLE STATE [option=VALUE …]",
        "finalize CONTEXT",
        "expect-rc NUMBER",
        "expect-handle NULL|non-NULL|unwritten|same HANDLE|other HANDLE",
        "expect-context NULL|non-NULL|unwritten|same CONTEXT|other CONTEXT",
        "expect-mask NUMBER",
        "mask NUMBER",
        "set NAME HANDLE",
        "give NAME",
        "take NAME",
        "sleep TIME",
        "print TEXT",
        "repeat TIMES {",
        "if HANDLE {",
        "thread NAME {",
        "join [NAME]",
        "parallel THREADS {",
        "barrier NAME THREADS",
        "fork [status=NUMBER|signal=NUMBER] {",
        "kill SIGNAL",
        "exit STATUS, or _exit STATUS",
    ];
    let fits = |usage: &&&str| {
        usage.split(' ').next() == Some(verb) || (verb == "_exit" && usage.starts_with("exit"))
    };
    USAGES.iter().find(fits).map_or_else(
        || {
            format!(
                "{verb:?} is no command; the commands are: {}",
                USAGES.join(" · ")
            )
        },
        |usage| format!("this is written: {usage}"),
    )
}

fn replace(word: &str, place: Place) -> String {
    if !word.contains('%') {
        return word.to_owned();
    }
    word.replace("%t", &place.thread.to_string())
        .replace("%i", &place.round.to_string())
}

fn number<T: TryFrom<i128>>(text: &str) -> Parsed<T> {
    let (sign, digits) = text
        .strip_prefix('-')
        .map_or((1, text), |digits| (-1, digits));
    parse_number(digits)
        .and_then(|value| T::try_from(sign * i128::from(value)).ok())
        .ok_or_else(|| format!("{text:?} is not a number that fits here"))
}

fn handle(text: &str) -> Parsed<Handle> {
    if text == "NULL" {
        return Ok(Handle::Raw(0));
    }
    match text.as_bytes().first() {
        Some(b'0'..=b'9') => Ok(Handle::Raw(number(text)?)),
        Some(_) => Ok(Handle::Name(text.to_owned())),
        None => Err("a handle is a name, a number or NULL".into()),
    }
}

fn written(words: &[&str]) -> Parsed<Written> {
    match words {
        ["NULL"] => Ok(Written::Null),
        ["non-NULL"] => Ok(Written::NonNull),
        ["unwritten"] => Ok(Written::Unwritten),
        ["same", other] => Ok(Written::Same(handle(other)?)),
        ["other", other] => Ok(Written::Other(handle(other)?)),
        _ => Err(usage("expect-handle")),
    }
}

fn duration(text: &str) -> Parsed<Duration> {
    [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ]
    .into_iter()
    .find_map(|(unit, ns)| {
        let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_nanos(count.checked_mul(ns)?))
    })
    .ok_or_else(|| format!("{text:?} is not a time: 10ms, 5us, 100ns, 1s"))
}

fn option(text: &str) -> Parsed<(&str, &str)> {
    text.split_once('=')
        .ok_or_else(|| format!("{text:?} is not option=VALUE"))
}

/// `NULL` is the only value of an option that can leave out an argument.
fn not_null(name: &str, value: &str) -> Parsed<bool> {
    match value {
        "NULL" => Ok(false),
        _ => Err(format!("{name}= takes only NULL")),
    }
}

fn init(name: &str, options: &[&str]) -> Parsed<Init> {
    let mut init = Init {
        name: name.to_owned(),
        context: true,
        mask: true,
        logger: true,
        comm_id: 0x1234,
        comm_name: None,
        nodes: 1,
        ranks: 1,
        rank: 0,
    };
    for text in options {
        let (key, value) = option(text)?;
        match key {
            "context" => init.context = not_null(key, value)?,
            "mask" => init.mask = not_null(key, value)?,
            "logger" => init.logger = not_null(key, value)?,
            "id" => init.comm_id = number(value)?,
            "name" => init.comm_name = (value != "NULL").then(|| value.to_owned()),
            "nodes" => init.nodes = number(value)?,
            "ranks" => init.ranks = number(value)?,
            "rank" => init.rank = number(value)?,
            _ => {
                return Err(format!(
                    "init has no option {key:?}: context, mask, logger (NULL), id, name, nodes, ranks, rank"
                ));
            }
        }
    }
    Ok(init)
}

fn start(name: &str, kind: &str, options: &[&str]) -> Parsed<Start> {
    let kind = Kind::from_name(kind)
        .or_else(|| parse_number(kind).map(Kind::from_type))
        .ok_or_else(|| format!("{kind:?} is no kind of event and no number"))?;
    let mut start = Start {
        name: name.to_owned(),
        kind,
        context: None,
        parent: Handle::Raw(0),
        group: Handle::Raw(0),
        rank: 0,
        handle: true,
        descriptor: true,
        has_pid: false,
        fields: Fields::default(),
        pokes: Vec::new(),
        net: None,
    };
    for text in options {
        let (key, value) = option(text)?;
        match key {
            "ctx" => start.context = Some(handle(value)?),
            "parent" => start.parent = handle(value)?,
            "group" => start.group = handle(value)?,
            "rank" => start.rank = number(value)?,
            "handle" => start.handle = not_null(key, value)?,
            "descriptor" => start.descriptor = not_null(key, value)?,
            "net_ib" | "net_socket" => start.net = Some(net_data(key, value)?),
            _ if key.starts_with('@') => start.pokes.push(poke(key, value)?),
            _ => {
                start.has_pid |= key == "pid";
                start
                    .fields
                    .set(key, value)
                    .map_err(|error| error.to_string())?;
            }
        }
    }
    Ok(start)
}

/// `@OFFSET=VALUE` (8 bytes) or `@OFFSET:BYTES=VALUE`.
fn poke(key: &str, value: &str) -> Parsed<(usize, usize, u64)> {
    let text = key.trim_start_matches('@');
    let (offset, width) = text.split_once(':').unwrap_or((text, "8"));
    let (offset, width) = (number::<usize>(offset)?, number::<usize>(width)?);
    if width > 8 || offset + width > Fields::MOST_BYTES {
        return Err(format!(
            "{key} lies outside the {} bytes of a descriptor",
            Fields::MOST_BYTES
        ));
    }
    Ok((offset, width, number(value)?))
}

fn net_data(key: &str, value: &str) -> Parsed<NetData> {
    let parts: Vec<&str> = value.split(',').collect();
    match (key, parts.as_slice()) {
        ("net_ib", [device, work_request, opcode, queue_pair, bytes]) => Ok(NetData::Ib {
            device: number(device)?,
            work_request: number(work_request)?,
            opcode: number(opcode)?,
            queue_pair: number(queue_pair)?,
            bytes: number(bytes)?,
        }),
        ("net_socket", [descriptor, operation, bytes]) => Ok(NetData::Socket {
            descriptor: number(descriptor)?,
            operation: number(operation)?,
            bytes: number(bytes)?,
        }),
        _ => Err(
            "net_ib=DEVICE,WORK_REQUEST,OPCODE,QUEUE_PAIR,BYTES or net_socket=FD,OPERATION,BYTES"
                .into(),
        ),
    }
}

fn state_args(state: u32, options: &[&str]) -> Parsed<StateArgs> {
    let mut args = match state {
        23 | 24 => StateArgs::Null,
        _ => StateArgs::Zero,
    };
    let (mut bytes, mut steps) = (0, None);
    for text in options {
        let (key, value) = option(text)?;
        match (key, value) {
            ("args", "NULL") => args = StateArgs::Null,
            ("args", "zero") => args = StateArgs::Zero,
            ("bytes", _) => {
                bytes = number(value)?;
                args = StateArgs::Step { bytes };
            }
            ("steps", _) => steps = Some(number(value)?),
            ("appended", _) => {
                args = StateArgs::Appended {
                    operations: number(value)?,
                };
            }
            ("gpu_ns", _) => {
                args = StateArgs::GpuTime {
                    gpu_ns: number(value)?,
                }
            }
            ("data", _) => {
                args = StateArgs::NetPlugin {
                    data: number(value)?,
                }
            }
            _ => {
                return Err(format!(
                    "state has no option {text:?}: args=NULL, args=zero, bytes, steps, appended, gpu_ns, data"
                ));
            }
        }
    }
    Ok(steps.map_or(args, |steps| StateArgs::Operation { bytes, steps }))
}

fn child_end(options: &[&str]) -> Parsed<ChildEnd> {
    match options {
        [] => Ok(ChildEnd::Status(0)),
        [one] => match option(one)? {
            ("status", value) => Ok(ChildEnd::Status(number(value)?)),
            ("signal", value) => Ok(ChildEnd::Signal(signal_number(value)?)),
            _ => Err(usage("fork")),
        },
        _ => Err(usage("fork")),
    }
}

fn signal_number(text: &str) -> Parsed<i32> {
    number(text)
        .ok()
        .filter(|signal| (1..=64).contains(signal))
        .ok_or_else(|| format!("{text:?} is no signal number (1 to 64)"))
}
