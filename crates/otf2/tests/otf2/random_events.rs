//! Any sequence of events in time order comes back as it was written.

use crate::sample::{self, GPU_STREAM};
use otf2::{
    Archive, AttributeRef, AttributeValue, Collective, CollectiveOp, CommRef, Event, EventKind, MeasurementMode,
    Message, MetricRef, MetricValue, ParameterRef, RegionRef, RmaAccess, RmaWinRef, StringRef,
};
use proptest::collection::vec;
use proptest::prelude::*;

fn value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        any::<u8>().prop_map(AttributeValue::U8),
        any::<u16>().prop_map(AttributeValue::U16),
        any::<u32>().prop_map(AttributeValue::U32),
        any::<u64>().prop_map(AttributeValue::U64),
        any::<i8>().prop_map(AttributeValue::I8),
        any::<i16>().prop_map(AttributeValue::I16),
        any::<i32>().prop_map(AttributeValue::I32),
        any::<i64>().prop_map(AttributeValue::I64),
        (-1e30_f32..1e30).prop_map(AttributeValue::F32),
        (-1e300_f64..1e300).prop_map(AttributeValue::F64),
        (0..20_u32).prop_map(|number| AttributeValue::String(StringRef::new(number))),
        any::<u64>().prop_map(|number| AttributeValue::Location(otf2::LocationRef::new(number))),
    ]
}

fn metric_value() -> impl Strategy<Value = MetricValue> {
    prop_oneof![
        any::<u64>().prop_map(MetricValue::U64),
        any::<i64>().prop_map(MetricValue::I64),
        (-1e300_f64..1e300).prop_map(MetricValue::F64),
    ]
}

/// References below the undefined one.
fn reference() -> impl Strategy<Value = u32> {
    prop_oneof![0..3_u32, Just(u32::MAX - 1)]
}

fn collective() -> impl Strategy<Value = Collective> {
    let root = proptest::option::of(0..u32::MAX);
    (0..17_u8, reference(), root, any::<u64>(), any::<u64>()).prop_map(
        |(op, comm, root, bytes_sent, bytes_received)| Collective {
            op: CollectiveOp::from_raw(op),
            comm: CommRef::new(comm),
            root,
            bytes_sent,
            bytes_received,
        },
    )
}

fn message() -> impl Strategy<Value = Message> {
    (any::<u32>(), reference(), any::<u32>(), any::<u64>()).prop_map(|(peer, comm, tag, bytes)| Message {
        peer,
        comm: CommRef::new(comm),
        tag,
        bytes,
    })
}

fn access() -> impl Strategy<Value = RmaAccess> {
    (reference(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(win, remote, bytes, matching)| RmaAccess {
        win: RmaWinRef::new(win),
        remote,
        bytes,
        matching,
    })
}

fn kind() -> impl Strategy<Value = EventKind> {
    let region = || reference().prop_map(RegionRef::new);
    let parameter = || reference().prop_map(ParameterRef::new);
    let win = || reference().prop_map(RmaWinRef::new);
    prop_oneof![
        region().prop_map(EventKind::Enter),
        region().prop_map(EventKind::Leave),
        Just(EventKind::MpiCollectiveBegin),
        collective().prop_map(EventKind::MpiCollectiveEnd),
        any::<u64>().prop_map(|request| EventKind::NonBlockingCollectiveRequest { request }),
        (collective(), any::<u64>())
            .prop_map(|(collective, request)| { EventKind::NonBlockingCollectiveComplete { collective, request } }),
        (message(), any::<u64>()).prop_map(|(message, request)| EventKind::MpiIsend { message, request }),
        any::<u64>().prop_map(|request| EventKind::MpiIsendComplete { request }),
        any::<u64>().prop_map(|request| EventKind::MpiIrecvRequest { request }),
        (message(), any::<u64>()).prop_map(|(message, request)| EventKind::MpiIrecv { message, request }),
        access().prop_map(EventKind::RmaPut),
        access().prop_map(EventKind::RmaGet),
        (win(), any::<u64>()).prop_map(|(win, matching)| EventKind::RmaOpCompleteBlocking { win, matching }),
        (win(), any::<u64>()).prop_map(|(win, matching)| EventKind::RmaOpCompleteNonBlocking { win, matching }),
        (reference(), vec(metric_value(), 0..12))
            .prop_map(|(metric, values)| EventKind::Metric { metric: MetricRef::new(metric), values }),
        (parameter(), reference())
            .prop_map(|(parameter, value)| { EventKind::ParameterString { parameter, value: StringRef::new(value) } }),
        (parameter(), any::<i64>()).prop_map(|(parameter, value)| EventKind::ParameterInt { parameter, value }),
        (parameter(), any::<u64>()).prop_map(|(parameter, value)| EventKind::ParameterUnsignedInt { parameter, value }),
        Just(EventKind::MeasurementOnOff(MeasurementMode::Off)),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let attributes = vec(value(), 0..6);
    let step = prop_oneof![Just(0_u64), 1..1000_u64, 0..(u64::MAX >> 16)];
    vec((step, kind(), attributes), 0..200).prop_map(|events| {
        let mut time = 0;
        let event = |(step, kind, values): (u64, EventKind, Vec<AttributeValue>)| {
            time += step;
            let attributes = (0..).map(AttributeRef::new).zip(values).collect();
            Event { time, kind, attributes }
        };
        events.into_iter().map(event).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn come_back_as_they_were_written(events in events()) {
        let directory = tempfile::tempdir().expect("a directory");
        let anchor = sample::write_archive(directory.path(), &events).expect("it is written");
        let archive = Archive::open(&anchor).expect("the archive opens");
        let read = sample::read_events(&archive, &[GPU_STREAM]).expect("it is read");
        let read: Vec<Event> = read.into_iter().map(|(_, event)| event).collect();
        prop_assert_eq!(read, events);
    }
}
