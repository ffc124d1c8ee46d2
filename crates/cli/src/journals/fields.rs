//! The fields of an event or state, named as in `docs/REFERENCE.md` §10.

use journal::format::Symbol;
use journal::reader::Symbols;
use nccl_events::event::{self, Style};
use nccl_events::gpu::extent;
use nccl_events::{Body, Kind, NetData, StateArgs};

use super::value::{List, Value};

pub(crate) fn details<'a>(fields: &Body<Symbol>, symbols: &'a Symbols) -> List<'a> {
    let mut list = List::new();
    each_detail(fields, symbols, |label, value| list.push((label, value)));
    list
}

pub(crate) fn each_detail<'a>(
    fields: &Body<Symbol>,
    symbols: &'a Symbols,
    mut detail: impl FnMut(&'static str, Value<'a>),
) {
    // The only field of an unknown event is its type, which is listed for every kind.
    if fields.kind() == Kind::Unknown {
        return;
    }
    fields.each(|label, style, value| {
        if let Some(value) = self::value(style, value, symbols) {
            detail(label, value);
        }
    });
}

/// A field as it is listed; `None` if the value is absent.
pub(crate) fn value(style: Style, value: event::Value<Symbol>, symbols: &Symbols) -> Option<Value<'_>> {
    Some(match (value, style) {
        (event::Value::Name(Symbol::NONE), _) => return None,
        (event::Value::Unsigned(0) | event::Value::Flag(false), Style::Rare) => return None,
        (event::Value::Unsigned(address), Style::Address) => Value::Address(address),
        (event::Value::Unsigned(number), _) => Value::Unsigned(number),
        (event::Value::Signed(number), _) => Value::Signed(number),
        (event::Value::Flag(flag), _) => Value::Flag(flag),
        (event::Value::Name(name), _) => symbols.text(name).into(),
        (event::Value::Text(text), _) => text.into(),
        (event::Value::Net(data), _) => Value::Object(net(data)?),
        (event::Value::Uuid(bytes), _) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        (event::Value::Extent(sizes), _) => extent(sizes).into(),
        (event::Value::Version(parts), _) => Value::Several(parts.map(Value::from).into()),
    })
}

pub(crate) fn arguments(args: StateArgs, mut argument: impl FnMut(&'static str, Value<'static>)) {
    match args {
        StateArgs::None => {}
        StateArgs::ProxyOp { bytes, steps } => {
            argument("transSize", bytes.into());
            argument("steps", steps.into());
        }
        StateArgs::ProxyStep { bytes } => argument("transSize", bytes.into()),
        StateArgs::ProxyCtrl { appended } => argument("appendedProxyOps", appended.into()),
        StateArgs::GpuTime { gpu_ns } => argument("pTimer", gpu_ns.into()),
        StateArgs::NetPlugin { data } => {
            if let Some(net) = net(data) {
                argument("net", Value::Object(net));
            }
        }
    }
}

fn net(data: NetData) -> Option<List<'static>> {
    match data {
        NetData::Opaque => None,
        NetData::IbQueuePair { device, work_request, opcode, queue_pair, bytes } => Some(vec![
            ("type", "ibQueuePair".into()),
            ("device", device.into()),
            ("workRequest", work_request.into()),
            ("opcode", opcode.into()),
            ("queuePair", queue_pair.into()),
            ("bytes", bytes.into()),
        ]),
        NetData::Socket { descriptor, operation, bytes } => Some(vec![
            ("type", "socket".into()),
            ("descriptor", descriptor.into()),
            ("operation", operation.into()),
            ("bytes", bytes.into()),
        ]),
    }
}
