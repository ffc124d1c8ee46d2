//! The words of a line: what is read of them before it runs.

use std::ffi::CString;
use std::time::Duration;

use anyhow::{Context as _, Error, bail, ensure};

use super::system::ChildEnd;
use crate::descriptor::{self, Fields, NetData, StateArgs};
use crate::interface::{Kind, parse_number, parse_state};
use crate::plugin::InitArguments;

/// Commands that a block follows, and those without one.
const WITH_BLOCK: &str = "repeat if thread parallel fork";
const PLAIN: &str = "load unload stop finalize expect-handle expect-context expect-mask mask set give take sleep join \
    barrier kill exit _exit";

/// A command. Handles and contexts are words, which are looked up when it runs.
pub(super) enum Command {
    Init(Init),
    Start(Box<Start>),
    State(String, u32, StateArgs),
    Other(Vec<String>),
}

pub(super) struct Init {
    pub(super) name: String,
    pub(super) takes_context: bool,
    pub(super) comm_name: Option<CString>,
    pub(super) given: InitArguments<'static>,
}

pub(super) struct Start {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// The last init's if there is none.
    pub(super) context: Option<String>,
    pub(super) parent: String,
    pub(super) group: String,
    pub(super) rank: i32,
    pub(super) takes_handle: bool,
    pub(super) takes_descriptor: bool,
    pub(super) fields: Fields,
    /// Offset, width and value of bytes that are overwritten.
    pub(super) pokes: Vec<(usize, usize, u64)>,
    pub(super) net: Option<NetData>,
}

pub(super) fn read(words: Vec<String>, has_block: bool) -> anyhow::Result<Command> {
    Ok(match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["init", name, options @ ..] if !has_block => Command::Init(init(name, options)?),
        ["start", name, kind, options @ ..] if !has_block => Command::Start(Box::new(start(name, kind, options)?)),
        ["state", name, state, options @ ..] if !has_block => {
            let number = parse_state(state).with_context(|| format!("{state:?} is no state and no number"))?;
            Command::State((*name).to_owned(), number, state_args(number, options)?)
        }
        [first, ..] if (if has_block { WITH_BLOCK } else { PLAIN }).split(' ').any(|known| known == *first) => {
            Command::Other(words)
        }
        words => bail!("{:?} is no command; the README of plugin-host has those that there are", words.join(" ")),
    })
}

fn init(name: &str, options: &[&str]) -> anyhow::Result<Init> {
    let given = InitArguments { comm_id: 0x1234, ..InitArguments::default() };
    let mut init = Init { name: name.to_owned(), takes_context: true, comm_name: None, given };
    for text in options {
        let (key, value) = option(text)?;
        match key {
            "context" => init.takes_context = not_null(key, value)?,
            "mask" => init.given.mask = not_null(key, value)?,
            "logger" => init.given.logger = not_null(key, value)?,
            "id" => init.given.comm_id = number(value)?,
            "name" => init.comm_name = if value == "NULL" { None } else { Some(CString::new(value)?) },
            "nodes" => init.given.nodes = number(value)?,
            "ranks" => init.given.ranks = number(value)?,
            "rank" => init.given.rank = number(value)?,
            _ => bail!("init has no option {key:?}: context, mask, logger (NULL), id, name, nodes, ranks, rank"),
        }
    }
    Ok(init)
}

fn start(name: &str, kind: &str, options: &[&str]) -> anyhow::Result<Start> {
    let mut start = Start {
        name: name.to_owned(),
        kind: Kind::parse(kind).with_context(|| format!("{kind:?} is no kind of event and no number"))?,
        context: None,
        parent: "NULL".to_owned(),
        group: "NULL".to_owned(),
        rank: 0,
        takes_handle: true,
        takes_descriptor: true,
        fields: Fields::default(),
        pokes: Vec::new(),
        net: None,
    };
    for text in options {
        let (key, value) = option(text)?;
        match key {
            "ctx" => start.context = Some(value.to_owned()),
            "parent" => value.clone_into(&mut start.parent),
            "group" => value.clone_into(&mut start.group),
            "rank" => start.rank = number(value)?,
            "handle" => start.takes_handle = not_null(key, value)?,
            "descriptor" => start.takes_descriptor = not_null(key, value)?,
            "net_ib" | "net_socket" => start.net = Some(net_data(key, value)?),
            _ if key.starts_with('@') => start.pokes.push(poke(key, value)?),
            _ => start.fields.parse(key, value).map_err(Error::msg)?,
        }
    }
    Ok(start)
}

pub(super) fn number<T: TryFrom<i128>>(text: &str) -> anyhow::Result<T> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    parse_number(digits)
        .and_then(|value| T::try_from(sign * i128::from(value)).ok())
        .with_context(|| format!("{text:?} is not a number that fits here"))
}

pub(super) fn duration(text: &str) -> anyhow::Result<Duration> {
    [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)]
        .into_iter()
        .find_map(|(unit, ns)| {
            let count: u64 = text.strip_suffix(unit)?.parse().ok()?;
            Some(Duration::from_nanos(count.checked_mul(ns)?))
        })
        .with_context(|| format!("{text:?} is not a time: 10ms, 5us, 100ns, 1s"))
}

fn option(text: &str) -> anyhow::Result<(&str, &str)> {
    text.split_once('=').with_context(|| format!("{text:?} is not option=VALUE"))
}

/// `NULL` is the only value of an option that can leave out an argument.
fn not_null(name: &str, value: &str) -> anyhow::Result<bool> {
    ensure!(value == "NULL", "{name}= takes only NULL");
    Ok(false)
}

/// `@OFFSET=VALUE` (8 bytes) or `@OFFSET:BYTES=VALUE`.
fn poke(key: &str, value: &str) -> anyhow::Result<(usize, usize, u64)> {
    let text = key.trim_start_matches('@');
    let (offset, width) = text.split_once(':').unwrap_or((text, "8"));
    let (offset, width) = (number::<usize>(offset)?, number::<usize>(width)?);
    let is_inside = width <= 8 && offset + width <= descriptor::BYTES;
    ensure!(is_inside, "{key} lies outside the {} bytes of a descriptor", descriptor::BYTES);
    Ok((offset, width, number(value)?))
}

fn net_data(key: &str, value: &str) -> anyhow::Result<NetData> {
    let numbers = value.split(',').map(number).collect::<anyhow::Result<Vec<i64>>>()?;
    NetData::new(key, |place, _| numbers.get(place).copied())
        .context("net_ib=DEVICE,WORK_REQUEST,OPCODE,QUEUE_PAIR,BYTES or net_socket=FD,OPERATION,BYTES")
}

fn state_args(state: u32, options: &[&str]) -> anyhow::Result<StateArgs> {
    let mut args = match state {
        23 | 24 => StateArgs::Null,
        _ => StateArgs::Zero,
    };
    let (mut bytes, mut steps) = (0, None);
    for text in options {
        match option(text)? {
            ("args", "NULL") => args = StateArgs::Null,
            ("args", "zero") => args = StateArgs::Zero,
            ("bytes", value) => {
                bytes = number(value)?;
                args = StateArgs::Word(bytes);
            }
            ("steps", value) => steps = Some(number(value)?),
            ("appended", value) => args = StateArgs::Appended(number(value)?),
            ("gpu_ns", value) => args = StateArgs::Word(number(value)?),
            _ => bail!("state has no option {text:?}: args=NULL, args=zero, bytes, steps, appended, gpu_ns"),
        }
    }
    Ok(steps.map_or(args, |steps| StateArgs::Operation(bytes, steps)))
}

pub(super) fn child_end(options: &[&str]) -> anyhow::Result<ChildEnd> {
    match options {
        [] => Ok(ChildEnd::Status(0)),
        [one] => match option(one)? {
            ("status", value) => Ok(ChildEnd::Status(number(value)?)),
            ("signal", value) => Ok(ChildEnd::Signal(signal_number(value)?)),
            _ => bail!("fork has no option {one:?}: status, signal"),
        },
        _ => bail!("a child ends in one way: status= or signal="),
    }
}

pub(super) fn signal_number(text: &str) -> anyhow::Result<i32> {
    let signal = number(text).ok().filter(|signal| (1..=64).contains(signal));
    signal.with_context(|| format!("{text:?} is no signal number (1 to 64)"))
}
