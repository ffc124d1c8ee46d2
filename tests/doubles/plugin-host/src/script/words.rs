//! The words of a line, and what they do.

use std::ffi::CString;
use std::process;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Error, bail, ensure};

use super::run::{Action, Handle, Line, Thread, Written};
use super::system::{self, ChildEnd};
use crate::descriptor::{self, Descriptor, Fields, NetData, StateArgs};
use crate::interface::{Kind, Version, parse_number, parse_state};
use crate::nccl;
use crate::plugin::{InitArguments, Plugin, UNWRITTEN};

const COMMANDS: &str = "load [1-7] · unload · init NAME [option=VALUE …] · start NAME KIND [option=VALUE …] · \
    stop HANDLE · state HANDLE STATE [option=VALUE …] · finalize CONTEXT · \
    expect-handle NULL|non-NULL|same HANDLE|other HANDLE · expect-context (likewise) · expect-mask NUMBER · \
    mask NUMBER · set NAME HANDLE · give NAME · take NAME · sleep TIME · repeat TIMES { · if HANDLE { · \
    thread NAME { · join [NAME] · parallel THREADS { · barrier NAME THREADS · \
    fork [status=NUMBER|signal=NUMBER] { · kill SIGNAL · exit STATUS · _exit STATUS";

fn does(run: impl Fn(&mut Thread, &Line) -> anyhow::Result<()> + Send + Sync + 'static) -> Action {
    Box::new(run)
}

fn acts(run: impl Fn(&mut Thread) + Send + Sync + 'static) -> Action {
    Box::new(move |thread, _| {
        run(thread);
        Ok(())
    })
}

/// Makes an action of words; an error is a mistake in the script.
pub(super) fn action(words: &[&str], has_block: bool) -> anyhow::Result<Action> {
    let action = if has_block {
        of_block(words)?
    } else {
        match of_plugin(words)? {
            None => of_process(words)?,
            action => action,
        }
    };
    let brace = if has_block { " {" } else { "" };
    action.with_context(|| format!("\"{}{brace}\" is no command; the commands are: {COMMANDS}", words.join(" ")))
}

/// Commands that a block follows.
fn of_block(words: &[&str]) -> anyhow::Result<Option<Action>> {
    Ok(Some(match words {
        ["repeat", times] => {
            let times: u64 = number(times)?;
            does(move |thread, line| {
                let outer = thread.place.round;
                for round in 0..times {
                    thread.place.round = round;
                    thread.block(line)?;
                }
                thread.place.round = outer;
                Ok(())
            })
        }
        ["if", name] => {
            let name = handle(name)?;
            does(move |thread, line| if thread.resolve(&name)? == 0 { Ok(()) } else { thread.block(line) })
        }
        ["thread", name] => {
            let name = (*name).to_owned();
            does(move |thread, line| thread.spawn(line, &name))
        }
        ["parallel", threads] => {
            let threads = number(threads)?;
            does(move |thread, line| thread.parallel(line, threads))
        }
        ["fork", options @ ..] => {
            let expected = child_end(options)?;
            does(move |thread, line| thread.fork(line, expected))
        }
        _ => return Ok(None),
    }))
}

/// Commands that call the plugin, and those that look at what it did.
fn of_plugin(words: &[&str]) -> anyhow::Result<Option<Action>> {
    Ok(Some(match words {
        ["load"] => does(|thread, _| thread.load(None)),
        ["load", version] => {
            let version = Version::parse(version).map_err(Error::msg)?;
            does(move |thread, _| thread.load(Some(version)))
        }
        ["unload"] => acts(Thread::unload),
        ["init", name, options @ ..] => init(name, options)?,
        ["start", name, kind, options @ ..] => start(name, kind, options)?,
        ["state", name, state, options @ ..] => {
            let number = parse_state(state).with_context(|| format!("{state:?} is no state and no number"))?;
            let (name, args) = (handle(name)?, state_args(number, options)?);
            does(move |thread, line| {
                thread
                    .call(line, &name, |plugin, handle| plugin.state(handle, number, args.raw(plugin.version).as_mut()))
            })
        }
        ["stop", name] => {
            let name = handle(name)?;
            does(move |thread, line| thread.call(line, &name, Plugin::stop))
        }
        ["finalize", name] => {
            let name = handle(name)?;
            does(move |thread, line| thread.call(line, &name, Plugin::finalize))
        }
        ["expect-handle", what @ ..] => {
            let expected = written(what)?;
            does(move |thread, _| thread.expect_written("the handle", thread.handle, &expected))
        }
        ["expect-context", what @ ..] => {
            let expected = written(what)?;
            does(move |thread, _| thread.expect_written("the context", thread.context, &expected))
        }
        ["expect-mask", mask] => {
            let expected: u32 = number(mask)?;
            acts(move |thread| {
                let found = nccl::mask_now();
                if found != expected {
                    thread.problem(&format!("the mask is {found:#x}, not {expected:#x}"));
                }
            })
        }
        ["mask", mask] => {
            let mask = number::<u32>(mask)?.cast_signed();
            acts(move |_| nccl::mask().store(mask, Ordering::Relaxed))
        }
        _ => return Ok(None),
    }))
}

/// Commands about names, threads and the process.
fn of_process(words: &[&str]) -> anyhow::Result<Option<Action>> {
    Ok(Some(match words {
        ["set", name, value] => {
            let (name, value) = ((*name).to_owned(), handle(value)?);
            does(move |thread, _| thread.resolve(&value).map(|value| thread.name(&name, value)))
        }
        ["give", name] => {
            let (file, name) = ((*name).to_owned(), Handle::Name((*name).to_owned()));
            does(move |thread, _| Ok(system::give(&file, thread.resolve(&name)?)?))
        }
        ["take", name] => {
            let name = (*name).to_owned();
            does(move |thread, _| Ok(system::take(&name).map(|value| thread.name(&name, value))?))
        }
        ["sleep", time] => {
            let time = duration(time)?;
            acts(move |_| thread::sleep(time))
        }
        ["join"] => does(|thread, _| thread.join(None)),
        ["join", name] => {
            let name = (*name).to_owned();
            does(move |thread, _| thread.join(Some(&name)))
        }
        ["barrier", name, threads] => {
            let (name, threads) = ((*name).to_owned(), number(threads)?);
            acts(move |thread| thread.meet(&name, threads))
        }
        ["kill", signal] => {
            let signal = signal_number(signal)?;
            does(move |_, _| Ok(system::kill_self(signal)?))
        }
        ["exit", status] => {
            let status = number(status)?;
            does(move |_, _| system::exit(status))
        }
        ["_exit", status] => {
            let status = number(status)?;
            does(move |_, _| system::exit_now(status))
        }
        _ => return Ok(None),
    }))
}

fn init(name: &str, options: &[&str]) -> anyhow::Result<Action> {
    let name = name.to_owned();
    let mut given = InitArguments { comm_id: 0x1234, ..InitArguments::default() };
    let (mut takes_context, mut comm_name) = (true, None);
    for text in options {
        let (key, value) = option(text)?;
        match key {
            "context" => takes_context = not_null(key, value)?,
            "mask" => given.mask = not_null(key, value)?,
            "logger" => given.logger = not_null(key, value)?,
            "id" => given.comm_id = number(value)?,
            "name" => comm_name = if value == "NULL" { None } else { Some(CString::new(value)?) },
            "nodes" => given.nodes = number(value)?,
            "ranks" => given.ranks = number(value)?,
            "rank" => given.rank = number(value)?,
            _ => bail!("init has no option {key:?}: context, mask, logger (NULL), id, name, nodes, ranks, rank"),
        }
    }
    Ok(does(move |thread, line| {
        let plugin = thread.plugin()?;
        // Lives during the call only, as NCCL's does.
        let comm_name = comm_name.clone();
        let arguments = InitArguments { comm_name: comm_name.as_deref(), ..given };
        let mut context = 0;
        let result = plugin.init(takes_context.then_some(&mut context), &arguments);
        if takes_context && context == UNWRITTEN {
            thread.problem("init left *context unwritten");
        }
        thread.set_context(&name, context);
        thread.called(line, result);
        Ok(())
    }))
}

fn start(name: &str, kind: &str, options: &[&str]) -> anyhow::Result<Action> {
    let kind = Kind::parse(kind).with_context(|| format!("{kind:?} is no kind of event and no number"))?;
    let name = name.to_owned();
    let (mut context, mut parent, mut group, mut rank) = (None, Handle::Raw(0), Handle::Raw(0), 0);
    let (mut takes_handle, mut takes_descriptor) = (true, true);
    let (mut given, mut pokes, mut net) = (Fields::default(), Vec::new(), None);
    for text in options {
        let (key, value) = option(text)?;
        match key {
            "ctx" => context = Some(handle(value)?),
            "parent" => parent = handle(value)?,
            "group" => group = handle(value)?,
            "rank" => rank = number(value)?,
            "handle" => takes_handle = not_null(key, value)?,
            "descriptor" => takes_descriptor = not_null(key, value)?,
            "net_ib" | "net_socket" => net = Some(net_data(key, value)?),
            _ if key.starts_with('@') => pokes.push(poke(key, value)?),
            _ => given.parse(key, value).map_err(Error::msg)?,
        }
    }
    Ok(does(move |thread, line| {
        let plugin = thread.plugin()?;
        let context = context.as_ref().map_or_else(|| Ok(thread.last_context()), |context| thread.resolve(context))?;
        let mut fields = given.clone();
        if fields.get("parent_group").is_none() {
            fields.put("parent_group", thread.resolve(&group)?.into());
        }
        if kind == Kind::PROXY_OP && fields.get("pid").is_none() {
            fields.put("pid", u64::from(process::id()).into());
        }
        // Lives during the call only, as NCCL's does.
        let block = net.map(NetData::block);
        if let (Some(net), Some(block)) = (net, &block) {
            fields.put("net_id", net.id().into());
            fields.put("net_data", (block.as_ptr().expose_provenance() as u64).into());
        }
        let mut descriptor = Descriptor::new(plugin.version, kind, thread.resolve(&parent)?, rank, &fields);
        for (offset, width, value) in &pokes {
            descriptor.poke(*offset, *width, *value);
        }
        let mut handle = 0;
        let (out, descriptor) = (takes_handle.then_some(&mut handle), takes_descriptor.then_some(&mut descriptor));
        let result = plugin.start(context, out, descriptor);
        if takes_handle && handle == UNWRITTEN {
            thread.problem("startEvent left *eHandle unwritten");
        }
        thread.handle = handle;
        thread.name(&name, handle);
        thread.called(line, result);
        Ok(())
    }))
}

fn number<T: TryFrom<i128>>(text: &str) -> anyhow::Result<T> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    parse_number(digits)
        .and_then(|value| T::try_from(sign * i128::from(value)).ok())
        .with_context(|| format!("{text:?} is not a number that fits here"))
}

fn handle(text: &str) -> anyhow::Result<Handle> {
    match text.as_bytes().first() {
        _ if text == "NULL" => Ok(Handle::Raw(0)),
        Some(b'0'..=b'9') => Ok(Handle::Raw(number(text)?)),
        Some(_) => Ok(Handle::Name(text.to_owned())),
        None => bail!("a handle is a name, a number or NULL"),
    }
}

fn written(words: &[&str]) -> anyhow::Result<Written> {
    Ok(match words {
        ["NULL"] => Written::Null,
        ["non-NULL"] => Written::NonNull,
        ["same", other] => Written::Same(handle(other)?),
        ["other", other] => Written::Other(handle(other)?),
        _ => bail!("expected is NULL, non-NULL, same HANDLE or other HANDLE"),
    })
}

fn duration(text: &str) -> anyhow::Result<Duration> {
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
        _ => bail!("net_ib=DEVICE,WORK_REQUEST,OPCODE,QUEUE_PAIR,BYTES or net_socket=FD,OPERATION,BYTES"),
    }
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

fn child_end(options: &[&str]) -> anyhow::Result<ChildEnd> {
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

fn signal_number(text: &str) -> anyhow::Result<i32> {
    let signal = number(text).ok().filter(|signal| (1..=64).contains(signal));
    signal.with_context(|| format!("{text:?} is no signal number (1 to 64)"))
}
