//! What an event or state says, by the names of the stream format.

use journal::format::record::Symbol;
use journal::reader::Symbols;
use nccl_events::Body;
use nccl_events::event::{self, Style};
use nccl_events::{Kind, NetData, StateArgs};
use trace::links::gpu_work::words;

/// A field's value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A string.
    Text(String),
    /// A number.
    Unsigned(u64),
    /// A number.
    Signed(i64),
    /// Yes or no.
    Flag(bool),
    /// A handle or an address; 0 is NULL.
    Address(u64),
    /// A number with a fraction.
    Float(f64),
    /// Several of one kind.
    Several(Vec<Self>),
    /// Several.
    Object(List),
}

/// Fields in their order.
pub(crate) type List = Vec<(&'static str, Value)>;

/// The details of an event.
pub(crate) fn details(fields: &Body<Symbol>, symbols: &Symbols) -> List {
    let mut list = List::new();
    // Its only field is the event's type, which is listed for every kind.
    if fields.kind() == Kind::Unknown {
        return list;
    }
    fields.each(|label, style, value| {
        list.extend(self::value(style, value, symbols).map(|value| (label, value)));
    });
    list
}

/// A field as it is listed; `None` where it says nothing.
pub(crate) fn value(style: Style, value: event::Value<Symbol>, symbols: &Symbols) -> Option<Value> {
    Some(match (value, style) {
        (event::Value::Name(Symbol::NONE), _) => return None,
        (event::Value::Unsigned(0) | event::Value::Flag(false), Style::Rare) => return None,
        (event::Value::Unsigned(address), Style::Address) => Value::Address(address),
        (event::Value::Unsigned(number), _) => Value::Unsigned(number),
        (event::Value::Signed(number), _) => Value::Signed(number),
        (event::Value::Flag(flag), _) => Value::Flag(flag),
        (event::Value::Name(name), _) => Value::Text(symbols.text(name).to_owned()),
        (event::Value::Text(text), _) => Value::Text(text.to_owned()),
        (event::Value::Net(data), _) => Value::Object(net(data)?),
        (event::Value::Uuid(bytes), _) => {
            Value::Text(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        }
        (event::Value::Extent(extent), _) => Value::Text(words::extent(extent)),
        (event::Value::Version(parts), _) => {
            Value::Several(parts.map(|part| Value::Unsigned(part.into())).into())
        }
    })
}

/// What came with a state.
pub(crate) fn arguments(args: StateArgs) -> List {
    match args {
        StateArgs::None => List::new(),
        StateArgs::ProxyOp { bytes, steps } => vec![
            ("transSize", Value::Unsigned(bytes)),
            ("steps", Value::Signed(steps.into())),
        ],
        StateArgs::ProxyStep { bytes } => vec![("transSize", Value::Unsigned(bytes))],
        StateArgs::ProxyCtrl { appended } => {
            vec![("appendedProxyOps", Value::Signed(appended.into()))]
        }
        StateArgs::GpuTime { gpu_ns } => vec![("pTimer", Value::Unsigned(gpu_ns))],
        StateArgs::NetPlugin { data } => net(data)
            .map(|net| ("net", Value::Object(net)))
            .into_iter()
            .collect(),
    }
}

fn net(data: NetData) -> Option<List> {
    match data {
        NetData::Opaque => None,
        NetData::IbQueuePair {
            device,
            work_request,
            opcode,
            queue_pair,
            bytes,
        } => Some(vec![
            ("type", Value::Text("ibQueuePair".to_owned())),
            ("device", Value::Signed(device.into())),
            ("workRequest", Value::Unsigned(work_request)),
            ("opcode", Value::Signed(opcode.into())),
            ("queuePair", Value::Signed(queue_pair.into())),
            ("bytes", Value::Unsigned(bytes)),
        ]),
        NetData::Socket {
            descriptor,
            operation,
            bytes,
        } => Some(vec![
            ("type", Value::Text("socket".to_owned())),
            ("descriptor", Value::Signed(descriptor.into())),
            ("operation", Value::Signed(operation.into())),
            ("bytes", Value::Unsigned(bytes)),
        ]),
    }
}
