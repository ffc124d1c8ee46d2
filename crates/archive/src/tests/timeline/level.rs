//! What each level leaves out.

use crate::tests::stream::{Stream, proxy_op, step};
use journal::part::environment::Level;
use nccl_events::archive::Timing;
use nccl_events::{Kind, StateArgs, state};

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
        stream.level = level;
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
