//! The fields of an archive's events, named as in `docs/REFERENCE.md` §10.

use analysis::Trace;
use otf2::{
    AttributeValue, Collective, CommRef, Event, EventKind, Message, MetricRef, MetricValue, RmaAccess, RmaWinRef,
};

use crate::journals::value::{List, Value};

macro_rules! names {
    ($($name:ident)*) => {
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];

        pub(super) fn name(kind: &EventKind) -> &'static str {
            match kind {
                $(EventKind::$name { .. } => stringify!($name),)*
                EventKind::Other(name) => name,
                _ => "Unknown",
            }
        }
    };
}

names! {
    Enter Leave MpiCollectiveBegin MpiCollectiveEnd NonBlockingCollectiveRequest NonBlockingCollectiveComplete MpiSend
    MpiRecv MpiIsend MpiIsendComplete MpiIrecvRequest MpiIrecv RmaPut RmaGet RmaOpCompleteBlocking
    RmaOpCompleteNonBlocking Metric ParameterString ParameterInt ParameterUnsignedInt MeasurementOnOff
}

/// The fields of a record other than attributes. Fields that end in `Ref` are for programs.
pub(super) fn fields<'a>(trace: &'a Trace, kind: &EventKind) -> List<'a> {
    match kind {
        EventKind::Enter(region) | EventKind::Leave(region) => {
            vec![("region", trace.region_name(*region).into()), ("regionRef", region.get().into())]
        }
        EventKind::MpiCollectiveEnd(collective) => of_collective(trace, collective),
        EventKind::NonBlockingCollectiveComplete { collective, request } => {
            with_request(of_collective(trace, collective), *request)
        }
        EventKind::NonBlockingCollectiveRequest { request }
        | EventKind::MpiIsendComplete { request }
        | EventKind::MpiIrecvRequest { request } => with_request(List::new(), *request),
        EventKind::MpiSend(message) | EventKind::MpiRecv(message) => of_message(trace, message),
        EventKind::MpiIsend { message, request } | EventKind::MpiIrecv { message, request } => {
            with_request(of_message(trace, message), *request)
        }
        EventKind::RmaPut(access) | EventKind::RmaGet(access) => of_access(trace, access),
        EventKind::RmaOpCompleteBlocking { win, matching } | EventKind::RmaOpCompleteNonBlocking { win, matching } => {
            let mut list = of_window(trace, *win);
            list.push(("matching", Value::Unsigned(*matching)));
            list
        }
        EventKind::Metric { metric, values } => of_metric(trace, *metric, values),
        EventKind::ParameterString { parameter, value } => {
            parameter_of(trace, *parameter, trace.definitions.string(*value).unwrap_or_default().into())
        }
        EventKind::ParameterInt { parameter, value } => parameter_of(trace, *parameter, Value::Signed(*value)),
        EventKind::ParameterUnsignedInt { parameter, value } => {
            parameter_of(trace, *parameter, Value::Unsigned(*value))
        }
        EventKind::MeasurementOnOff(mode) => vec![("mode", format!("{mode:?}").into())],
        _ => List::new(),
    }
}

/// The attributes of an event, by name or, without a name, by reference.
pub(super) fn attributes<'a>(trace: &'a Trace, event: &Event) -> Vec<(String, Value<'a>)> {
    let attributes = event.attributes.iter().map(|(reference, value)| {
        let definition = trace.definitions.attributes.get(reference);
        let name = definition
            .and_then(|attribute| trace.definitions.string(attribute.name))
            .map_or_else(|| format!("attribute {}", reference.get()), str::to_owned);
        (name, value_of(trace, *value))
    });
    attributes.collect()
}

fn value_of(trace: &Trace, value: AttributeValue) -> Value<'_> {
    match value {
        AttributeValue::U8(value) => value.into(),
        AttributeValue::U16(value) => value.into(),
        AttributeValue::U32(value) => value.into(),
        AttributeValue::U64(value) => value.into(),
        AttributeValue::I8(value) => value.into(),
        AttributeValue::I16(value) => value.into(),
        AttributeValue::I32(value) => value.into(),
        AttributeValue::I64(value) => value.into(),
        AttributeValue::F32(value) => value.into(),
        AttributeValue::F64(value) => value.into(),
        AttributeValue::String(string) => trace.definitions.string(string).unwrap_or_default().into(),
        AttributeValue::Region(region) => trace.region_name(region).into(),
        AttributeValue::Location(location) => trace.location_name(location).into(),
        AttributeValue::Comm(comm) => trace.comm_name(comm).into(),
        AttributeValue::Attribute(reference) => reference.get().into(),
        AttributeValue::Group(reference) => reference.get().into(),
        AttributeValue::Metric(reference) => reference.get().into(),
        AttributeValue::Parameter(reference) => reference.get().into(),
        AttributeValue::RmaWin(reference) => reference.get().into(),
        AttributeValue::LocationGroup(reference) => reference.get().into(),
        AttributeValue::Other { bits, .. } => Value::Unsigned(bits),
        _ => format!("{value:?}").into(),
    }
}

fn of_comm<'a>(trace: &'a Trace, comm: CommRef) -> List<'a> {
    vec![("comm", trace.comm_name(comm).into()), ("commRef", comm.get().into())]
}

fn of_collective<'a>(trace: &'a Trace, collective: &Collective) -> List<'a> {
    let mut list = vec![("operation", format!("{:?}", collective.op).into())];
    list.append(&mut of_comm(trace, collective.comm));
    if let Some(root) = collective.root {
        list.push(("root", Value::Unsigned(root.into())));
    }
    list.push(("bytesSent", collective.bytes_sent.into()));
    list.push(("bytesReceived", collective.bytes_received.into()));
    list
}

fn of_message<'a>(trace: &'a Trace, message: &Message) -> List<'a> {
    let mut list = vec![("peer", message.peer.into())];
    list.append(&mut of_comm(trace, message.comm));
    list.push(("tag", message.tag.into()));
    list.push(("bytes", message.bytes.into()));
    list
}

fn of_window<'a>(trace: &'a Trace, win: RmaWinRef) -> List<'a> {
    let name = trace.definitions.rma_wins.get(&win).and_then(|window| trace.definitions.string(window.name));
    vec![("window", name.unwrap_or_default().into()), ("windowRef", win.get().into())]
}

fn of_access<'a>(trace: &'a Trace, access: &RmaAccess) -> List<'a> {
    let mut list = of_window(trace, access.win);
    list.push(("remote", access.remote.into()));
    list.push(("bytes", access.bytes.into()));
    list.push(("matching", access.matching.into()));
    list
}

fn of_metric<'a>(trace: &'a Trace, metric: MetricRef, values: &[MetricValue]) -> List<'a> {
    let class = trace.definitions.metric_classes.get(&metric);
    let members = class.map_or(&[][..], |class| &class.members);
    let names = members.iter().map(|member| {
        let member = trace.definitions.metric_members.get(member);
        member.and_then(|member| trace.definitions.string(member.name)).unwrap_or_default().into()
    });
    let values = values.iter().map(|value| match *value {
        MetricValue::U64(value) => Value::Unsigned(value),
        MetricValue::I64(value) => Value::Signed(value),
        MetricValue::F64(value) => Value::Float(value),
    });
    vec![
        ("metrics", Value::Several(names.collect())),
        ("metricRef", metric.get().into()),
        ("values", Value::Several(values.collect())),
    ]
}

fn parameter_of<'a>(trace: &'a Trace, parameter: otf2::ParameterRef, value: Value<'a>) -> List<'a> {
    let definition = trace.definitions.parameters.get(&parameter);
    let name = definition.and_then(|parameter| trace.definitions.string(parameter.name));
    vec![("parameter", name.unwrap_or_default().into()), ("parameterRef", parameter.get().into()), ("value", value)]
}

fn with_request(mut list: List<'_>, request: u64) -> List<'_> {
    list.push(("request", Value::Unsigned(request)));
    list
}
