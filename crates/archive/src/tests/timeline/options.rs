//! What each level leaves out, and the values of metrics.

use crate::tests::stream::{Stream, proxy_op, step};
use journal::part::environment::{CollectiveRecords, Level, Metric, MetricSet};
use model::process::Owner;
use nccl_events::archive::Timing;
use nccl_events::{Body, Kind, StateArgs, state};
use timeline::builder::LocationKey;
use timeline::messages::Role;

/// A collective with a transfer of two steps that overlap: 1000 bytes from 120 to 130, 500 from 125 to 135.
fn stream() -> Stream {
    let mut stream = Stream::of_rank();
    stream.collective(10, 100, false);
    stream.event(20, 13, (110, Some(150)), proxy_op(true));
    for (id, number, bytes, begin) in [(30, 0, 1000, 120), (31, 1, 500, 125)] {
        stream.event(id, 20, (112, Some(begin + 10)), step(number));
        let args = StateArgs::ProxyStep { bytes };
        stream.state(id, begin, state::PROXY_STEP_SEND_WAIT, args);
    }
    stream
}

#[test]
fn a_level_leaves_out_locations_and_counts_but_knows_when_operations_ran() {
    for (level, operations, steps) in [(Level::Light, 0, 0), (Level::Standard, 1, 0), (Level::Full, 1, 2)] {
        let mut stream = stream();
        stream.options.level = level;
        let built = stream.build();
        let counts = |kind| {
            let counts = built.counts.kinds.get(kind);
            assert!(counts.adds_up(), "{kind:?} {counts:?}");
            (counts.written, counts.left_out, counts.not_shown)
        };
        assert_eq!(counts(Kind::ProxyOp), (operations, 1 - operations, 0));
        assert_eq!(counts(Kind::ProxyStep), (steps, 2 - steps, 0));
        assert!(built.order.iter().map(|(key, _)| key.kind()).clone().all(|kind| level.shows(kind)), "{level:?}");
        assert_eq!(built.operations(), [(105, 150, Timing::Proxy, false)]);
    }
}

#[test]
fn metrics_add_up_what_overlaps() {
    let mut stream = stream();
    stream.options.metrics = MetricSet::all();
    let datatype = stream.symbols.intern("ncclFloat32");
    for (_, start) in stream.starts_mut() {
        if let Body::Coll(coll) = &mut start.body {
            (coll.count, coll.datatype) = (1125, datatype);
        }
    }
    let built = stream.build();
    let net = LocationKey::Net(Owner::Context(0), 0, true, 0);
    let sample = |time, value| (time, Metric::NetworkBandwidth, value);
    let giga = 1_000_000_000;
    let expected = [sample(120, 100 * giga), sample(125, 150 * giga), sample(130, 50 * giga), sample(135, 0)];
    assert_eq!(built.samples[&net], expected);
    // 4500 bytes from 105 to 150.
    let of_rank = &built.samples[&LocationKey::Communicator(0)];
    for (metric, value) in [(Metric::BytesInFlight, 4500), (Metric::Bandwidth, 100 * giga)] {
        let samples: Vec<_> = of_rank.iter().filter(|sample| sample.1 == metric).copied().collect();
        assert_eq!(samples, [(105, metric, value), (150, metric, 0)]);
    }
}

#[test]
fn nonblocking_collectives_are_requested_when_enqueued() {
    for (records, expected) in [
        (CollectiveRecords::None, vec![]),
        (CollectiveRecords::Nonblocking, vec![Role::CollectiveRequest, Role::CollectiveComplete]),
    ] {
        let mut stream = stream();
        stream.options.collectives = records;
        let records = &stream.build().records[&LocationKey::Communicator(0)];
        let roles: Vec<Role> = records.iter().map(|message| message.role).collect();
        assert_eq!(roles, expected);
    }
}
