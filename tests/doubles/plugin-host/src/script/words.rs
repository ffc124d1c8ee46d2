//! The words of a line, and what they mean to a command.

use std::time::Duration;

use super::command::{ChildEnd, Command, Handle, Init, Place, Start, Written};
use crate::descriptor::{self, Fields, NetData, StateArgs};
use crate::interface::{Kind, Version, parse_number, parse_state};

/// Or a sentence that says what is wrong.
pub(super) type Parsed<T> = Result<T, String>;

impl Command {
    /// Makes a command of words.
    pub(crate) fn new(words: &[String], place: Place) -> Parsed<Self> {
        let words: Vec<String> = words.iter().map(|word| replace(word, place)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some((verb, rest)) = words.split_first() else {
            return Err("an empty line".into());
        };
        Ok(match (*verb, rest) {
            ("load", []) => Self::Load(None),
            ("load", [version]) => Self::Load(Some(Version::parse(version)?)),
            ("unload", []) => Self::Unload,
            ("init", [name, options @ ..]) => Self::Init(init(name, options)?),
            ("start", [name, kind, options @ ..]) => Self::Start(Box::new(start(name, kind, options)?)),
            ("stop", [name]) => Self::Stop(handle(name)?),
            ("state", [name, state, options @ ..]) => {
                let number = parse_state(state).ok_or_else(|| format!("{state:?} is no state and no number"))?;
                Self::State { handle: handle(name)?, number, args: state_args(number, options)? }
            }
            ("finalize", [name]) => Self::Finalize(handle(name)?),
            ("expect-handle", what) if !what.is_empty() => Self::ExpectHandle(written(what)?),
            ("expect-context", what) if !what.is_empty() => Self::ExpectContext(written(what)?),
            ("expect-mask", [mask]) => Self::ExpectMask(number(mask)?),
            ("mask", [mask]) => Self::Mask(number(mask)?),
            ("set", [name, value]) => Self::Set((*name).to_owned(), handle(value)?),
            ("give", [name]) => Self::Give((*name).to_owned()),
            ("take", [name]) => Self::Take((*name).to_owned()),
            ("sleep", [time]) => Self::Sleep(duration(time)?),
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
    const USAGES: [&str; 24] = [
        "load [1-7]",
        "unload",
        "init NAME [option=VALUE …]",
        "start NAME KIND [option=VALUE …]",
        "stop HANDLE",
        "state HANDLE STATE [option=VALUE …]",
        "finalize CONTEXT",
        "expect-handle NULL|non-NULL|same HANDLE|other HANDLE",
        "expect-context NULL|non-NULL|same CONTEXT|other CONTEXT",
        "expect-mask NUMBER",
        "mask NUMBER",
        "set NAME HANDLE",
        "give NAME",
        "take NAME",
        "sleep TIME",
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
    let fits = |usage: &&&str| usage.split(' ').next() == Some(verb) || (verb == "_exit" && usage.starts_with("exit"));
    USAGES.iter().find(fits).map_or_else(
        || format!("{verb:?} is no command; the commands are: {}", USAGES.join(" · ")),
        |usage| format!("this is written: {usage}"),
    )
}

fn replace(word: &str, place: Place) -> String {
    if !word.contains('%') {
        return word.to_owned();
    }
    word.replace("%t", &place.thread.to_string()).replace("%i", &place.round.to_string())
}

fn number<T: TryFrom<i128>>(text: &str) -> Parsed<T> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
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
        ["same", other] => Ok(Written::Same(handle(other)?)),
        ["other", other] => Ok(Written::Other(handle(other)?)),
        _ => Err(usage("expect-handle")),
    }
}

fn duration(text: &str) -> Parsed<Duration> {
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]
        .into_iter()
        .find_map(|(unit, ns)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            Some(Duration::from_nanos(count.checked_mul(ns)?))
        })
        .ok_or_else(|| format!("{text:?} is not a time: 10ms, 5us, 100ns, 1s"))
}

fn option(text: &str) -> Parsed<(&str, &str)> {
    text.split_once('=').ok_or_else(|| format!("{text:?} is not option=VALUE"))
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
    let kind = Kind::parse(kind).ok_or_else(|| format!("{kind:?} is no kind of event and no number"))?;
    let mut start = Start {
        name: name.to_owned(),
        kind,
        context: None,
        parent: Handle::Raw(0),
        group: Handle::Raw(0),
        rank: 0,
        handle: true,
        descriptor: true,
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
            _ => start.fields.parse(key, value)?,
        }
    }
    Ok(start)
}

/// `@OFFSET=VALUE` (8 bytes) or `@OFFSET:BYTES=VALUE`.
fn poke(key: &str, value: &str) -> Parsed<(usize, usize, u64)> {
    let text = key.trim_start_matches('@');
    let (offset, width) = text.split_once(':').unwrap_or((text, "8"));
    let (offset, width) = (number::<usize>(offset)?, number::<usize>(width)?);
    if width > 8 || offset + width > descriptor::BYTES {
        return Err(format!("{key} lies outside the {} bytes of a descriptor", descriptor::BYTES));
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
        _ => Err("net_ib=DEVICE,WORK_REQUEST,OPCODE,QUEUE_PAIR,BYTES or net_socket=FD,OPERATION,BYTES".into()),
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
                args = StateArgs::Word(bytes);
            }
            ("steps", _) => steps = Some(number(value)?),
            ("appended", _) => args = StateArgs::Appended(number(value)?),
            ("gpu_ns", _) => args = StateArgs::Word(number(value)?),
            _ => {
                return Err(format!(
                    "state has no option {text:?}: args=NULL, args=zero, bytes, steps, appended, gpu_ns"
                ));
            }
        }
    }
    Ok(steps.map_or(args, |steps| StateArgs::Operation(bytes, steps)))
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
