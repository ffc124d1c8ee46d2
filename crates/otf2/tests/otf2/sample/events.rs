//! One event of every kind that the reader interprets.

use otf2::{
    AttributeRef, AttributeValue, Attributes, Collective, CollectiveOp, CommRef, Event, EventKind, EventWriter,
    LocationRef, MeasurementMode, Message, MetricRef, MetricValue, ParameterRef, RegionRef, Result, RmaAccess,
    RmaWinRef, StringRef,
};

/// Values for the attributes 0, 1 and so on, one of every type that is written.
pub(crate) const VALUES: [AttributeValue; 12] = [
    AttributeValue::U8(u8::MAX),
    AttributeValue::U16(1 << 15),
    AttributeValue::U32(u32::MAX),
    AttributeValue::U64(1 << 50),
    AttributeValue::I8(i8::MIN),
    AttributeValue::I16(-1),
    AttributeValue::I32(-3),
    AttributeValue::I64(i64::MIN),
    AttributeValue::F32(1e30),
    AttributeValue::F64(0.125),
    AttributeValue::String(StringRef::new(1)),
    AttributeValue::Location(LocationRef::new(1 << 32)),
];

/// One event of every kind.
pub(crate) fn sample_events() -> Vec<Event> {
    let comm = CommRef::new(0);
    let collective =
        Collective { op: CollectiveOp::Allreduce, comm, root: None, bytes_sent: 8192, bytes_received: u64::MAX };
    let rooted = Collective { op: CollectiveOp::Bcast, root: Some(1), ..collective };
    let message = Message { peer: 1, comm, tag: u32::MAX, bytes: 1 << 40 };
    let access = RmaAccess { win: RmaWinRef::new(0), remote: 1, bytes: 4096, matching: 17 };
    let (win, matching) = (access.win, access.matching);
    let kinds = [
        EventKind::MeasurementOnOff(MeasurementMode::On),
        EventKind::Enter(RegionRef::new(0)),
        EventKind::MpiCollectiveBegin,
        EventKind::MpiCollectiveEnd(collective),
        EventKind::NonBlockingCollectiveRequest { request: 9 },
        EventKind::NonBlockingCollectiveComplete { collective: rooted, request: 9 },
        EventKind::MpiSend(message),
        EventKind::MpiRecv(message),
        EventKind::MpiIsend { message, request: 10 },
        EventKind::MpiIsendComplete { request: 10 },
        EventKind::MpiIrecvRequest { request: 11 },
        EventKind::MpiIrecv { message, request: 11 },
        EventKind::RmaPut(access),
        EventKind::RmaOpCompleteNonBlocking { win, matching },
        EventKind::RmaGet(access),
        EventKind::RmaOpCompleteBlocking { win, matching },
        EventKind::Metric { metric: MetricRef::new(0), values: vec![MetricValue::U64(u64::MAX)] },
        EventKind::Metric {
            metric: MetricRef::new(1),
            values: vec![MetricValue::U64(1), MetricValue::F64(-2.5), MetricValue::I64(i64::MIN)],
        },
        EventKind::ParameterString { parameter: ParameterRef::new(0), value: StringRef::new(1) },
        EventKind::ParameterInt { parameter: ParameterRef::new(1), value: -1 },
        EventKind::ParameterUnsignedInt { parameter: ParameterRef::new(2), value: 1 },
        EventKind::Leave(RegionRef::new(0)),
        EventKind::MeasurementOnOff(MeasurementMode::Off),
    ];
    let attributes: Vec<_> = (0..).map(AttributeRef::new).zip(VALUES).collect();
    kinds
        .into_iter()
        .zip(1..)
        .map(|(kind, number): (_, u64)| {
            // Every third event has no attributes; every second has the time of the previous one.
            let attributes = if number % 3 == 0 { Vec::new() } else { attributes.clone() };
            Event { time: 1000 + number / 2, kind, attributes }
        })
        .collect()
}

/// Writes an event that was read.
pub(crate) fn write_event(to: &mut EventWriter<'_>, event: &Event) -> Result<()> {
    let mut list = Attributes::new();
    for (attribute, value) in &event.attributes {
        list.add(*attribute, *value)?;
    }
    let time = event.time;
    match &event.kind {
        EventKind::Enter(region) => to.enter(time, *region, &list),
        EventKind::Leave(region) => to.leave(time, *region, &list),
        EventKind::MpiCollectiveBegin => to.mpi_collective_begin(time, &list),
        EventKind::MpiCollectiveEnd(collective) => to.mpi_collective_end(time, collective, &list),
        EventKind::NonBlockingCollectiveRequest { request } => {
            to.non_blocking_collective_request(time, *request, &list)
        }
        EventKind::NonBlockingCollectiveComplete { collective, request } => {
            to.non_blocking_collective_complete(time, collective, *request, &list)
        }
        EventKind::MpiSend(message) => to.mpi_send(time, message, &list),
        EventKind::MpiRecv(message) => to.mpi_recv(time, message, &list),
        EventKind::MpiIsend { message, request } => to.mpi_isend(time, message, *request, &list),
        EventKind::MpiIsendComplete { request } => to.mpi_isend_complete(time, *request, &list),
        EventKind::MpiIrecvRequest { request } => to.mpi_irecv_request(time, *request, &list),
        EventKind::MpiIrecv { message, request } => to.mpi_irecv(time, message, *request, &list),
        EventKind::RmaPut(access) => to.rma_put(time, access, &list),
        EventKind::RmaGet(access) => to.rma_get(time, access, &list),
        EventKind::RmaOpCompleteBlocking { win, matching } => to.rma_op_complete_blocking(time, *win, *matching, &list),
        EventKind::RmaOpCompleteNonBlocking { win, matching } => {
            to.rma_op_complete_non_blocking(time, *win, *matching, &list)
        }
        EventKind::Metric { metric, values } => to.metric(time, *metric, values, &list),
        EventKind::ParameterString { parameter, value } => to.parameter_string(time, *parameter, *value, &list),
        EventKind::ParameterInt { parameter, value } => to.parameter_i64(time, *parameter, *value, &list),
        EventKind::ParameterUnsignedInt { parameter, value } => to.parameter_u64(time, *parameter, *value, &list),
        EventKind::MeasurementOnOff(mode) => to.measurement_on_off(time, *mode, &list),
        other => panic!("{other:?} cannot be written"),
    }
}
