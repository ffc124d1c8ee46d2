//! Reads a recorded stream: JSON Lines, one finished event, state or lifecycle record a line.

use std::ffi::CStr;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use crate::descriptor::{Fields, NetData, StateArgs, Value};
use crate::interface::{Kind, parse_number};
use crate::layout::{self, Type};
use crate::strings;

#[derive(Debug, Default)]
pub(crate) struct Stream {
    pub(crate) inits: Vec<Init>,
    pub(crate) finalizes: Vec<(Moment, CommRank)>,
    pub(crate) events: Vec<Event>,
    pub(crate) states: Vec<State>,
    /// Kernels that ran: no callbacks.
    pub(crate) kernels: Vec<Kernel>,
}

/// A recorded kernel. Times are ns of the recording's clock.
#[derive(Debug)]
pub(crate) struct Kernel {
    /// The external id that its launch has, too.
    launch: u64,
    pub(crate) device: u32,
    pub(crate) stream: u32,
    pub(crate) start_ns: u64,
    pub(crate) stop_ns: u64,
    pub(crate) name: String,
}

/// When a callback was called and by whom. Times are ns of the recording's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    pub(crate) tid: i64,
}

/// Who a communicator is: one process may hold several ranks of one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommRank {
    pub(crate) comm_id: u64,
    pub(crate) rank: i32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Init {
    pub(crate) when: Moment,
    pub(crate) pid: i32,
    pub(crate) who: CommRank,
    pub(crate) ranks: i32,
    /// 1 where the recording does not say.
    pub(crate) nodes: i32,
    /// NULL when it was empty.
    pub(crate) name: Option<&'static CStr>,
}

/// A recorded event. Addresses are the recording plugin's and may be reused by it; 0 is NULL.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) start: Moment,
    pub(crate) stop: Option<Moment>,
    pub(crate) address: u64,
    pub(crate) parent: u64,
    pub(crate) group: u64,
    pub(crate) who: CommRank,
    /// The external id of what it launched; 0 for none.
    launch: u64,
    pub(crate) fields: Fields,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(crate) when: Moment,
    pub(crate) address: u64,
    pub(crate) number: u32,
    pub(crate) args: StateArgs,
}

/// A line; what a kind of record does not have is absent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Line<'a> {
    record_type: Option<&'a str>,
    #[serde(rename = "type")]
    kind: Option<&'a str>,
    func: Option<&'a str>,
    comm_id: Option<u64>,
    rank: Option<i32>,
    #[serde(borrow)]
    start: Option<RawMoment<'a>>,
    #[serde(borrow)]
    stop: Option<RawMoment<'a>>,
    event_addr: Option<&'a str>,
    parent_obj: Option<&'a str>,
    details: Map<String, Json>,
    // States have these on the line itself.
    #[serde(borrow)]
    ts: Option<&'a RawValue>,
    tid: Option<i64>,
    id: Option<u32>,
    p_timer: Option<u64>,
    appended_proxy_ops: Option<i32>,
    trans_size: Option<u64>,
    steps: Option<i32>,
    no_args: bool,
    // Kernels.
    ext_corr_id: Option<u64>,
    device_id: Option<u32>,
    stream: Option<&'a str>,
    name: Option<&'a str>,
}

/// When and where; times in µs, as written.
#[derive(Deserialize)]
struct RawMoment<'a> {
    #[serde(borrow)]
    ts: &'a RawValue,
    pid: i32,
    tid: i64,
}

/// Details whose names are not the fields' in camel case.
#[rustfmt::skip]
const OTHER_NAMES: [(&str, &str); 12] = [
    ("dtype", "datatype"), ("seq", "sequence"), ("algo", "algorithm"), ("proto", "protocol"),
    ("sendBuff", "send_buffer"), ("recvBuff", "recv_buffer"), ("buff", "buffer"), ("chunkSize", "chunk_bytes"),
    ("eventPid", "pid"), ("pTimer", "gpu_ns"), ("ceSeq", "ce_sequence"), ("nranks", "ranks"),
];

impl Stream {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read the stream {name}"))?;
        let mut stream = Self::default();
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            stream.take(line).with_context(|| format!("{name}, line {}", place + 1))?;
        }
        ensure!(
            !stream.events.is_empty() || !stream.inits.is_empty(),
            "{name} has no events: is it a recorded stream (JSON Lines of events and states)?"
        );
        Ok(stream)
    }

    pub(crate) fn kernels_of(&self, event: &Event) -> impl Iterator<Item = &Kernel> {
        let launch = event.launch;
        let is_its = move |kernel: &&Kernel| launch != 0 && kernel.launch == launch;
        self.kernels.iter().filter(is_its)
    }

    /// The device of a rank: where its kernels ran.
    pub(crate) fn device_of(&self, who: CommRank) -> Option<u32> {
        let mut its = self.events.iter().filter(|event| event.who == who);
        its.find_map(|event| Some(self.kernels_of(event).next()?.device))
    }

    fn take(&mut self, text: &str) -> anyhow::Result<()> {
        let line: Line<'_> = serde_json::from_str(text)?;
        match (line.record_type, line.kind, line.func) {
            (Some("event"), Some(kind), _) => self.events.push(event(&line, kind)?),
            (Some("state"), ..) => self.states.push(state(&line)?),
            (_, Some("ProfilerLifecycle"), Some("ProfilerInit")) => self.inits.push(init(&line)?),
            (_, Some("ProfilerLifecycle"), Some("ProfilerFinalize")) => {
                self.finalizes.push((moment(line.start.as_ref())?, who(&line)?));
            }
            // No callback: one that does not say all, or of another kind, is of no use and does no harm.
            (Some("cuptiActivity"), ..) => self.kernels.extend(kernel(&line)),
            // What was found out about GPUs is no callback.
            (Some("gpu"), ..) => {}
            (record, kind, func) => {
                bail!("unknown record (recordType {record:?}, type {kind:?}, func {func:?})")
            }
        }
        Ok(())
    }
}

fn init(line: &Line<'_>) -> anyhow::Result<Init> {
    let number = |name| line.details.get(name).and_then(Json::as_i64);
    let small = |name, default| number(name).and_then(|value| i32::try_from(value).ok()).unwrap_or(default);
    let name = line.details.get("commName").and_then(Json::as_str);
    Ok(Init {
        when: moment(line.start.as_ref())?,
        pid: line.start.as_ref().map_or(0, |start| start.pid),
        who: who(line)?,
        ranks: small("nranks", 0),
        nodes: small("nnodes", 1),
        name: name.filter(|name| !name.is_empty()).and_then(strings::keep),
    })
}

fn kernel(line: &Line<'_>) -> Option<Kernel> {
    Some(Kernel {
        launch: line.ext_corr_id?,
        device: line.device_id?,
        stream: u32::try_from(line.stream.and_then(parse_number)?).ok()?,
        start_ns: moment(line.start.as_ref()).ok()?.at_ns,
        stop_ns: moment(line.stop.as_ref()).ok()?.at_ns,
        name: line.name?.to_owned(),
    })
}

fn event(line: &Line<'_>, kind: &str) -> anyhow::Result<Event> {
    let stop = line.stop.as_ref();
    let group = line.details.get("parentGroup").and_then(Json::as_str);
    Ok(Event {
        // A type that NCCL does not define is a number, which is its bit.
        kind: Kind::parse(kind).with_context(|| format!("unknown event type {kind:?}"))?,
        start: moment(line.start.as_ref())?,
        stop: stop.map(|stop| moment(Some(stop))).transpose()?,
        address: line.event_addr.and_then(parse_number).context("no eventAddr")?,
        parent: handle(line.parent_obj)?,
        group: handle(group)?,
        who: who(line)?,
        launch: line.ext_corr_id.unwrap_or(0),
        fields: fields(&line.details)?,
    })
}

fn fields(details: &Map<String, Json>) -> anyhow::Result<Fields> {
    let mut fields = Fields::default();
    for (key, json) in details {
        if key == "net" {
            let kind = json["type"].as_str().unwrap_or_default();
            let net = NetData::new(kind, |_, name| json[name].as_i64()).context("unknown data of a net plugin")?;
            // For the rest of the process's life.
            let block = Box::leak(Box::new(net.block)).as_ptr().expose_provenance() as u64;
            fields = fields.with("net_id", net.id).with("net_data", block);
            continue;
        }
        let other = OTHER_NAMES.iter().find(|(theirs, _)| theirs == key);
        let name = other.map_or_else(|| snake_case(key), |(_, ours)| (*ours).to_owned());
        let Some((name, _, kind)) = layout::names().find(|(known, ..)| *known == name) else {
            continue;
        };
        let value = match (json, kind) {
            (Json::Null, _) => continue,
            (Json::String(text), Type::Bytes(_)) => Value::Number(handle(Some(text))?),
            (Json::String(text), _) => Value::from(text.as_str()),
            (Json::Bool(flag), Type::Bytes(_)) => Value::Number((*flag).into()),
            (json, Type::Bytes(_)) => {
                let signed = json.as_i64().map(i64::cast_unsigned);
                let number = json.as_u64().or(signed);
                Value::Number(number.with_context(|| format!("{key} is not a number: {json}"))?)
            }
            (json, _) => bail!("{key} is not a string: {json}"),
        };
        fields.put(name, value);
    }
    Ok(fields)
}

fn snake_case(text: &str) -> String {
    let mut snake = String::new();
    for letter in text.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

fn state(line: &Line<'_>) -> anyhow::Result<State> {
    let number = line.id.context("a state without id")?;
    let bytes = line.trans_size.unwrap_or(0);
    // What NCCL 2.27 and later pass with each state (ProxyOpInProgress: a structure of zeros).
    let args = match number {
        _ if line.no_args => StateArgs::Null,
        23 | 24 => StateArgs::Null,
        0..=7 if line.trans_size.is_some() || line.steps.is_some() => {
            StateArgs::Operation(bytes, line.steps.unwrap_or(0))
        }
        13..=18 => StateArgs::Appended(line.appended_proxy_ops.unwrap_or(0)),
        22 | 31 => StateArgs::Word(line.p_timer.unwrap_or(0)),
        8..=12 | 20 => StateArgs::Word(bytes),
        _ => StateArgs::Zero,
    };
    Ok(State {
        when: Moment {
            at_ns: nanoseconds(line.ts.context("a state without ts")?)?,
            tid: line.tid.context("a state without tid")?,
        },
        address: line.event_addr.and_then(parse_number).context("no eventAddr")?,
        number,
        args,
    })
}

fn who(line: &Line<'_>) -> anyhow::Result<CommRank> {
    Ok(CommRank { comm_id: line.comm_id.context("no commId")?, rank: line.rank.context("no rank")? })
}

fn moment(raw: Option<&RawMoment<'_>>) -> anyhow::Result<Moment> {
    let raw = raw.context("no start")?;
    Ok(Moment { at_ns: nanoseconds(raw.ts)?, tid: raw.tid })
}

/// µs with up to three decimals to ns, digit by digit: an f64 does not hold the larger ones exactly.
fn nanoseconds(raw: &RawValue) -> anyhow::Result<u64> {
    let text = raw.get();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction:0<3.3}");
    digits.parse().map_err(|_| anyhow!("{text} is not a time in µs"))
}

fn handle(text: Option<&str>) -> anyhow::Result<u64> {
    match text {
        None | Some("null" | "(nil)" | "") => Ok(0),
        Some(text) => parse_number(text).with_context(|| format!("{text:?} is not an address")),
    }
}
